//! Casts and quantisation by the host codec, which the committed case files check; rows are spread over threads.

use crate::workers::each_row;
use moebius_ops::fp8::{self, LANES_PER_WORD, Overflow, decode_host, encode_host, pack, unpack};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{ScaleType, e8m0_host, e8m0_value, scale_host};
use std::borrow::Cow;

/// Scales as they are stored.
#[derive(Clone, Debug)]
pub enum Scales<'a> {
    /// In f32.
    F32(Cow<'a, [f32]>),
    /// Words of four E8M0 bytes, each row of scales in whole words.
    E8M0(Cow<'a, [u32]>),
}

/// A scale for each block, rows of blocks as long as matrices need them.
struct Blocks {
    scales: Vec<f32>,
    /// Values of a row.
    columns: usize,
    /// Rows of a matrix and of a block, columns of a block.
    rows: usize,
    block: [usize; 2],
    /// Blocks of a matrix, down and across.
    blocks: [usize; 2],
}

/// The largest finite magnitude: as integers, magnitudes are ordered alike.
pub fn amax(values: &[f32]) -> f32 {
    let magnitude = |value: &f32| {
        let bits = value.to_bits() & 0x7FFF_FFFF;
        if bits < 0x7F80_0000 { bits } else { 0 }
    };
    f32::from_bits(values.iter().map(magnitude).fold(0, u32::max))
}

impl Blocks {
    fn new(problem: &Problem) -> Self {
        let [matrices, rows, columns] = problem.shape();
        let granularity = problem.granularity();
        let blocks = granularity.blocks(rows, columns);
        Self {
            scales: vec![0.0; matrices * blocks[0] * blocks[1]],
            columns,
            rows,
            block: granularity.block(rows, columns),
            blocks,
        }
    }

    /// Scales of a row.
    fn of_row(&self, row: usize) -> std::ops::Range<usize> {
        let [down, across] = self.blocks;
        let first = (row / self.rows * down + row % self.rows / self.block[0]) * across;
        first..first + across
    }

    /// The scales that follow from x.
    fn dynamic(problem: &Problem, x: &[f32]) -> Self {
        let mut blocks = Self::new(problem);
        for (row, values) in x.chunks_exact(blocks.columns.max(1)).enumerate() {
            let range = blocks.of_row(row);
            let width = blocks.block[1];
            let amaxes = &mut blocks.scales[range];
            for (most, values) in amaxes.iter_mut().zip(values.chunks(width)) {
                *most = most.max(amax(values));
            }
        }
        let (format, margin) = (problem.format(), problem.margin());
        for scale in &mut blocks.scales {
            *scale = match problem.granularity().scale_type() {
                ScaleType::F32 => scale_host(*scale, format, margin),
                ScaleType::E8M0 => e8m0_value(e8m0_host(*scale, format, margin)),
            };
        }
        blocks
    }

    fn given(problem: &Problem, scales: Scales<'_>) -> Self {
        let blocks = Self::new(problem);
        let scales = match scales {
            Scales::F32(scales) => scales.into_owned(),
            Scales::E8M0(packed) => {
                let across = blocks.blocks[1];
                let line = packed.chunks(across.div_ceil(LANES_PER_WORD).max(1));
                let bytes = line.flat_map(|line| unpack(line, across));
                bytes.map(e8m0_value).collect()
            }
        };
        Self { scales, ..blocks }
    }

    /// The scales as they are stored.
    fn into_scales(self, problem: &Problem) -> Scales<'static> {
        match problem.granularity().scale_type() {
            ScaleType::F32 => Scales::F32(self.scales.into()),
            ScaleType::E8M0 => {
                let byte = |scale: &f32| (scale.to_bits() >> 23) as u8;
                let line = self.scales.chunks(self.blocks[1].max(1));
                let words: Vec<u32> = line
                    .flat_map(|line| pack(&line.iter().map(byte).collect::<Vec<u8>>()))
                    .collect();
                Scales::E8M0(words.into())
            }
        }
    }

    /// The codes of x, rows padded to whole words.
    fn encode(&self, problem: &Problem, x: &[f32]) -> Vec<u32> {
        let (format, overflow) = (problem.format(), problem.overflow());
        let shape = problem.words_shape();
        let width = shape[2] * LANES_PER_WORD;
        let mut codes = vec![0u8; shape[0] * shape[1] * width];
        each_row(&mut codes, width, &|row, codes: &mut [u8]| {
            let values = x[row * self.columns..][..self.columns].chunks(self.block[1]);
            let codes = codes.chunks_mut(self.block[1]);
            for ((values, codes), scale) in values.zip(codes).zip(&self.scales[self.of_row(row)]) {
                for (value, code) in values.iter().zip(codes) {
                    *code = encode_host(*value / *scale, format, overflow);
                }
            }
        });
        pack(&codes)
    }

    /// The values of codes in rows padded to whole words.
    fn decode(&self, problem: &Problem, words: &[u32]) -> Vec<f32> {
        let table: [f32; 256] = std::array::from_fn(|c| decode_host(c as u8, problem.format()));
        let row_words = problem.words_shape()[2];
        let mut values = vec![0.0; problem.len()];
        each_row(&mut values, self.columns, &|row, values: &mut [f32]| {
            let codes = unpack(&words[row * row_words..][..row_words], self.columns);
            let pieces = values
                .chunks_mut(self.block[1])
                .zip(codes.chunks(self.block[1]));
            for ((values, codes), scale) in pieces.zip(&self.scales[self.of_row(row)]) {
                for (value, code) in values.iter_mut().zip(codes) {
                    *value = table[usize::from(*code)] * scale;
                }
            }
        });
        values
    }
}

/// Words of codes of x and the scales that follow from it, in the shapes of the problem.
pub fn quantize(problem: &Problem, x: &[f32]) -> (Vec<u32>, Scales<'static>) {
    let blocks = Blocks::dynamic(problem, x);
    (blocks.encode(problem, x), blocks.into_scales(problem))
}

/// Words of codes of x under given scales.
pub fn quantize_by(problem: &Problem, x: &[f32], scales: Scales<'_>) -> Vec<u32> {
    Blocks::given(problem, scales).encode(problem, x)
}

/// The values of words of codes under their scales.
pub fn dequantize(problem: &Problem, codes: &[u32], scales: Scales<'_>) -> Vec<f32> {
    Blocks::given(problem, scales).decode(problem, codes)
}

/// x as its codes have it under given scales, or its own, without the codes.
pub fn fake_quantize(problem: &Problem, mut x: Vec<f32>, scales: Option<Scales<'_>>) -> Vec<f32> {
    let blocks = match scales {
        Some(scales) => Blocks::given(problem, scales),
        None => Blocks::dynamic(problem, &x),
    };
    let (format, overflow) = (problem.format(), problem.overflow());
    each_row(&mut x, blocks.columns, &|row, values: &mut [f32]| {
        let pieces = values.chunks_mut(blocks.block[1]);
        for (values, scale) in pieces.zip(&blocks.scales[blocks.of_row(row)]) {
            for value in values {
                let code = encode_host(*value / scale, format, overflow);
                *value = decode_host(code, format) * scale;
            }
        }
    });
    x
}

/// Words of the codes of flat values.
pub fn encode(problem: &fp8::Problem, overflow: Overflow, values: &[f32]) -> Vec<u32> {
    let code = |value: &f32| encode_host(*value, problem.format(), overflow);
    pack(&values.iter().map(code).collect::<Vec<u8>>())
}

/// The values of words of codes.
pub fn decode(problem: &fp8::Problem, words: &[u32]) -> Vec<f32> {
    let codes = unpack(words, problem.len());
    let value = |code: &u8| decode_host(*code, problem.format());
    codes.iter().map(value).collect()
}
