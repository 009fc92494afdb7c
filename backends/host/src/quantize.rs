//! Casts and quantisation with the host codec, which is checked by the committed case files; threads share the rows.

use crate::workers::each_row;
use moebius_ops::fp8::{self, LANES_PER_WORD, Overflow, decode_host, encode_host, pack, unpack};
use moebius_ops::quantize::{Blocks, Problem, decoded_codes};
use moebius_ops::scaling::{HostScales, ScaleType, e8m0_value};
use std::borrow::Cow;

/// Scales in their stored form.
#[derive(Clone, Debug)]
pub enum Scales<'a> {
    /// f32 scales.
    F32(Cow<'a, [f32]>),
    /// Words of four E8M0 bytes; each row of scales takes whole words.
    E8M0(Cow<'a, [u32]>),
}

/// A problem's blocks with one scale each.
struct Scaled {
    blocks: Blocks,
    scales: Vec<f32>,
}

fn blocks_of(problem: &Problem) -> Blocks {
    let [_, rows, columns] = problem.shape();
    Blocks::of(problem.granularity(), [rows, columns])
}

impl Scaled {
    /// Computes the scales from x.
    fn dynamic(problem: &Problem, x: &[f32]) -> Self {
        let blocks = blocks_of(problem);
        let [down, across] = blocks.count();
        let mut amaxes = vec![0.0; problem.shape()[0] * down * across];
        for (row, values) in x.chunks_exact(blocks.columns().max(1)).enumerate() {
            blocks.raise(&mut amaxes[blocks.of_row(row)], values);
        }
        let (format, margin) = (problem.format(), problem.margin());
        let kind = problem.granularity().scale_type();
        let scales = HostScales::of_amaxes(kind, &amaxes, format, margin).to_f32();
        Self { blocks, scales }
    }

    fn given(problem: &Problem, scales: Scales<'_>) -> Self {
        let blocks = blocks_of(problem);
        let scales = match scales {
            Scales::F32(scales) => scales.into_owned(),
            Scales::E8M0(packed) => {
                let [_, across] = blocks.count();
                let line = packed.chunks(across.div_ceil(LANES_PER_WORD).max(1));
                let bytes = line.flat_map(|line| unpack(line, across));
                bytes.map(e8m0_value).collect()
            }
        };
        Self { blocks, scales }
    }

    /// The scales of a row.
    fn of_row(&self, row: usize) -> &[f32] {
        &self.scales[self.blocks.of_row(row)]
    }

    /// Returns the scales in their stored form.
    fn into_scales(self, problem: &Problem) -> Scales<'static> {
        match problem.granularity().scale_type() {
            ScaleType::F32 => Scales::F32(self.scales.into()),
            ScaleType::E8M0 => {
                let byte = |scale: &f32| (scale.to_bits() >> 23) as u8;
                let [_, across] = self.blocks.count();
                let line = self.scales.chunks(across.max(1));
                let words: Vec<u32> = line
                    .flat_map(|line| pack(&line.iter().map(byte).collect::<Vec<u8>>()))
                    .collect();
                Scales::E8M0(words.into())
            }
        }
    }

    /// Encodes x, with rows padded to whole words.
    fn encode(&self, problem: &Problem, x: &[f32]) -> Vec<u32> {
        let cast = (problem.format(), problem.overflow());
        let shape = problem.words_shape();
        let (width, columns) = (shape[2] * LANES_PER_WORD, self.blocks.columns());
        let mut codes = vec![0u8; shape[0] * shape[1] * width];
        each_row(&mut codes, width, &|row, codes: &mut [u8]| {
            let values = &x[row * columns..][..columns];
            self.blocks.encode(values, self.of_row(row), codes, cast);
        });
        pack(&codes)
    }

    /// Decodes codes in rows padded to whole words.
    fn decode(&self, problem: &Problem, words: &[u32]) -> Vec<f32> {
        let table = decoded_codes(problem.format());
        let row_words = problem.words_shape()[2];
        let columns = self.blocks.columns();
        let mut values = vec![0.0; problem.len()];
        each_row(&mut values, columns, &|row, values: &mut [f32]| {
            let codes = unpack(&words[row * row_words..][..row_words], columns);
            self.blocks.decode(&codes, self.of_row(row), &table, values);
        });
        values
    }
}

/// Quantises x; returns words of codes, and scales computed from x, in the shapes of the problem.
pub fn quantize(problem: &Problem, x: &[f32]) -> (Vec<u32>, Scales<'static>) {
    let scaled = Scaled::dynamic(problem, x);
    (scaled.encode(problem, x), scaled.into_scales(problem))
}

/// Encodes x under given scales; returns words of codes.
pub fn quantize_by(problem: &Problem, x: &[f32], scales: Scales<'_>) -> Vec<u32> {
    Scaled::given(problem, scales).encode(problem, x)
}

/// Decodes words of codes under their scales.
pub fn dequantize(problem: &Problem, codes: &[u32], scales: Scales<'_>) -> Vec<f32> {
    Scaled::given(problem, scales).decode(problem, codes)
}

/// Rounds x to FP8 and back under given scales, or its own, without storing codes.
pub fn fake_quantize(problem: &Problem, mut x: Vec<f32>, scales: Option<Scales<'_>>) -> Vec<f32> {
    let scaled = match scales {
        Some(scales) => Scaled::given(problem, scales),
        None => Scaled::dynamic(problem, &x),
    };
    let (format, overflow) = (problem.format(), problem.overflow());
    let [_, width] = problem.block();
    each_row(
        &mut x,
        scaled.blocks.columns(),
        &|row, values: &mut [f32]| {
            let pieces = values.chunks_mut(width);
            for (values, scale) in pieces.zip(scaled.of_row(row)) {
                for value in values {
                    let code = encode_host(*value / scale, format, overflow);
                    *value = decode_host(code, format) * scale;
                }
            }
        },
    );
    x
}

/// Encodes flat values; returns words of codes.
pub fn encode(problem: &fp8::Problem, overflow: Overflow, values: &[f32]) -> Vec<u32> {
    let code = |value: &f32| encode_host(*value, problem.format(), overflow);
    pack(&values.iter().map(code).collect::<Vec<u8>>())
}

/// Decodes words of codes.
pub fn decode(problem: &fp8::Problem, words: &[u32]) -> Vec<f32> {
    let codes = unpack(words, problem.len());
    let value = |code: &u8| decode_host(*code, problem.format());
    codes.iter().map(value).collect()
}
