//! Casts and quantisation on the host, by the host codec; rows are spread over threads.

use crate::ops::dtype;
use crate::ops::host::{Operands, Rows, Words, cast_like, float_tensor, floats, int_tensor, words};
use crate::ops::permute::host::each_row;
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::tensor::DType;
use moebius_ops::fp8::{LANES_PER_WORD, decode_host, encode_host, pack, unpack};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{ScaleType, e8m0_host, e8m0_value, scale_host};
use moebius_ops::{Quantize, Scalar};

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
fn amax_of(values: &[f32]) -> f32 {
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
            let amax = &mut blocks.scales[range];
            for (amax, values) in amax.iter_mut().zip(values.chunks(width)) {
                *amax = amax.max(amax_of(values));
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

    fn given(problem: &Problem, scales: Value<Flex>) -> Self {
        let blocks = Self::new(problem);
        let scales = match scales {
            Value::Float(scales) => floats(scales),
            Value::Word(packed) => {
                let packed = words(packed);
                let across = blocks.blocks[1];
                let line = packed.chunks(across.div_ceil(LANES_PER_WORD).max(1));
                let bytes = line.flat_map(|line| unpack(line, across));
                bytes.map(e8m0_value).collect()
            }
        };
        Self { scales, ..blocks }
    }

    /// The scales as they cross the seam.
    fn into_scales(self, problem: &Problem) -> Value<Flex> {
        let shape = problem.scales_shape();
        match problem.granularity().scale_type() {
            ScaleType::F32 => Value::Float(float_tensor(self.scales, &shape)),
            ScaleType::E8M0 => {
                let byte = |scale: &f32| (scale.to_bits() >> 23) as u8;
                let line = self.scales.chunks(self.blocks[1].max(1));
                let words: Vec<u32> = line
                    .flat_map(|line| pack(&line.iter().map(byte).collect::<Vec<u8>>()))
                    .collect();
                Value::Word(int_tensor(&words, &shape))
            }
        }
    }

    /// The codes of x, rows padded to whole words.
    fn encode(&self, problem: &Problem, x: &[f32]) -> Words {
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
        int_tensor(&pack(&codes), &shape)
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

pub(in crate::ops) fn run(operation: &Quantize, mut b: Operands) -> Vec<Value<Flex>> {
    let result = match operation {
        Quantize::Quantize(p) => {
            let x = floats(b.float("x"));
            let blocks = Blocks::dynamic(p, &x);
            let codes = Value::Word(blocks.encode(p, &x));
            return vec![codes, blocks.into_scales(p)];
        }
        Quantize::QuantizeBy(p) => {
            let blocks = Blocks::given(p, b.take("scales"));
            Value::Word(blocks.encode(p, &floats(b.float("x"))))
        }
        Quantize::Dequantize(p) => {
            let blocks = Blocks::given(p, b.take("scales"));
            let values = blocks.decode(p, &words(b.word("codes")));
            let dtype = dtype(Scalar::Float(p.element()));
            Value::Float(cast_like(float_tensor(values, &p.shape()), dtype))
        }
        Quantize::FakeQuantize(p) | Quantize::FakeQuantizeBy(p) => {
            let x = b.float("x");
            let (dtype, x) = (x.dtype(), floats(x));
            let blocks = match b.maybe("scales") {
                Some(scales) => Blocks::given(p, scales),
                None => Blocks::dynamic(p, &x),
            };
            Value::Float(fake(&blocks, p, x, dtype))
        }
        Quantize::Amax { .. } => {
            let amax = amax_of(&floats(b.float("x")));
            Value::Float(float_tensor(vec![amax], &[1]))
        }
        // By the codec's host functions, which the committed case files check.
        Quantize::Encode { problem, overflow } => {
            let values = floats(b.float("x")).into_iter();
            let code = |value| encode_host(value, problem.format(), *overflow);
            let words = pack(&values.map(code).collect::<Vec<u8>>());
            Value::Word(int_tensor(&words, &[words.len()]))
        }
        Quantize::Decode(problem) => {
            let codes = unpack(&words(b.word("codes")), problem.len());
            let value = |code: &u8| decode_host(*code, problem.format());
            let values = codes.iter().map(value).collect();
            Value::Float(float_tensor(values, &[problem.len()]))
        }
    };
    vec![result]
}

/// x as its codes have it, without the codes.
fn fake(blocks: &Blocks, problem: &Problem, mut x: Vec<f32>, dtype: DType) -> Rows {
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
    cast_like(float_tensor(x, &problem.shape()), dtype)
}
