//! Quantisation on the host, by the host codec; rows are spread over threads.

use super::{AmaxCall, QuantizeCall, QuantizeOps, ScaledCodes, dtype};
use crate::ops::Scales;
use crate::ops::host::{cast_like, float_tensor, floats, int_tensor, words};
use crate::ops::rows::host::each_row;
use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::DType;
use moebius_ops::fp8::{LANES_PER_WORD, decode_host, encode_host, pack, unpack};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{ScaleType, e8m0_host, e8m0_value, scale_host};

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

    fn given(problem: &Problem, scales: Scales<Flex>) -> Self {
        let blocks = Self::new(problem);
        let scales = match scales {
            Scales::F32(scales) => floats(scales),
            Scales::E8M0(packed) => {
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
    fn into_scales(self, problem: &Problem) -> Scales<Flex> {
        let shape = problem.scales_shape();
        match problem.granularity().scale_type() {
            ScaleType::F32 => Scales::F32(float_tensor(self.scales, &shape)),
            ScaleType::E8M0 => {
                let byte = |scale: &f32| (scale.to_bits() >> 23) as u8;
                let line = self.scales.chunks(self.blocks[1].max(1));
                let words: Vec<u32> = line
                    .flat_map(|line| pack(&line.iter().map(byte).collect::<Vec<u8>>()))
                    .collect();
                Scales::E8M0(int_tensor(&words, &shape))
            }
        }
    }

    /// The codes of x, rows padded to whole words.
    fn encode(&self, problem: &Problem, x: &[f32]) -> IntTensor<Flex> {
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

impl QuantizeOps for Flex {
    fn fp8_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> ScaledCodes<Self> {
        let x = floats(x);
        let blocks = Blocks::dynamic(&call.problem, &x);
        ScaledCodes {
            words: blocks.encode(&call.problem, &x),
            scales: blocks.into_scales(&call.problem),
        }
    }

    fn fp8_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> IntTensor<Self> {
        Blocks::given(&call.problem, scales).encode(&call.problem, &floats(x))
    }

    fn fp8_dequantize(
        packed: IntTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let p = &call.problem;
        let values = Blocks::given(p, scales).decode(p, &words(packed));
        cast_like(float_tensor(values, &p.shape()), dtype(p.element()))
    }

    fn fp8_amax(x: FloatTensor<Self>, _call: AmaxCall) -> FloatTensor<Self> {
        float_tensor(vec![amax_of(&floats(x))], &[1])
    }

    fn fp8_fake_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let (p, x) = (&call.problem, floats(x));
        fake(&Blocks::dynamic(p, &x), p, x, dtype)
    }

    fn fp8_fake_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let p = &call.problem;
        fake(&Blocks::given(p, scales), p, floats(x), dtype)
    }
}

/// x as its codes have it, without the codes.
fn fake(blocks: &Blocks, problem: &Problem, mut x: Vec<f32>, dtype: DType) -> FloatTensor<Flex> {
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
