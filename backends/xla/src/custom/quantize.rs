//! FP8 codes and scales of a stack of matrices, and back.
//!
//! code = encode(x / scale), y = decode(code) · scale, for x and y \[M, rows, columns\], words i32
//! \[M, rows, ⌈columns/4⌉\] and scales f32 \[M, down, across\], or words of four E8M0 bytes
//! \[M, rows, ⌈across/4⌉\], all padded with zeros. A scale follows from the largest finite magnitude of
//! its block by integer arithmetic, so it has the same bits everywhere; quotients are divisions, as
//! exact as the device's. NaN and infinities are encoded as such.

use super::Lower;
use super::fp8::{Format, LANES, Overflow, encode, pack, pad_end, unpack};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, Unary, Value};
use serde::{Deserialize, Serialize};

/// Values under one MX scale.
const MX_BLOCK: usize = 32;
/// The E8M0 byte of 1.
const E8M0_ONE: f64 = 127.0;

/// Which values of a matrix share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Granularity {
    /// All of them.
    Tensor,
    /// A row.
    Row,
    /// A rectangle, the last of a row or column cut short.
    Block {
        /// Rows of a rectangle, at least 1.
        rows: usize,
        /// Columns of a rectangle, at least 1.
        columns: usize,
    },
    /// 32 values of a row, whose scales are E8M0 bytes.
    Mx,
}

impl Granularity {
    /// Rows and columns of a block in a matrix of `rows` × `columns`, at least 1 each.
    pub fn block(self, rows: usize, columns: usize) -> [usize; 2] {
        let block = match self {
            Self::Tensor => [rows, columns],
            Self::Row => [1, columns],
            Self::Block {
                rows: r,
                columns: c,
            } => [r.min(rows), c.min(columns)],
            Self::Mx => [1, MX_BLOCK],
        };
        block.map(|size| size.max(1))
    }

    /// Blocks of a matrix of `rows` × `columns`, down and across.
    pub fn blocks(self, rows: usize, columns: usize) -> [usize; 2] {
        let [r, c] = self.block(rows, columns);
        [rows.div_ceil(r), columns.div_ceil(c)]
    }
}

/// How a stack of matrices is scaled and encoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// \[M, rows, columns\].
    pub shape: [usize; 3],
    /// Which values share a scale.
    pub granularity: Granularity,
    /// Format of the codes.
    pub format: Format,
    /// What becomes of magnitudes beyond its largest value.
    pub overflow: Overflow,
    /// Scales that follow from x are 2^margin times as large.
    pub margin: i32,
}

/// A quantisation, its inverse, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Quantize {
    /// Words and scales of x.
    Codes(Scaling),
    /// Words of x under given scales.
    CodesBy(Scaling),
    /// Values of words under given scales, of this element type.
    Values(Scaling, ElementType),
    /// f32 \[1\]: the largest finite magnitude of x, of this shape.
    Amax(Vec<usize>),
    /// x as its codes have it, in its own element type.
    Rounded(Scaling),
    /// The same under given scales.
    RoundedBy(Scaling),
}

impl Lower for Quantize {
    fn name(&self) -> &'static str {
        match self {
            Self::Codes(_) => "fp8 quantize",
            Self::CodesBy(_) => "fp8 quantize by scales",
            Self::Values(..) => "fp8 dequantize",
            Self::Amax(_) => "fp8 amax",
            Self::Rounded(_) => "fp8 fake quantize",
            Self::RoundedBy(_) => "fp8 fake quantize by scales",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        match self {
            Self::Codes(s) | Self::Rounded(s) => vec![s.shape.to_vec()],
            Self::CodesBy(s) | Self::RoundedBy(s) => vec![s.shape.to_vec(), s.scales_shape()],
            Self::Values(s, _) => vec![s.words_shape(), s.scales_shape()],
            Self::Amax(shape) => vec![shape.clone()],
        }
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        match self {
            Self::Codes(scaling) => {
                let x = b.convert(inputs[0], ElementType::F32);
                let scales = scaling.dynamic(b, x);
                let codes = scaling.encode(b, x, scales);
                vec![pack(b, codes), scaling.stored(b, scales)]
            }
            Self::CodesBy(scaling) => {
                let x = b.convert(inputs[0], ElementType::F32);
                let scales = scaling.given(b, inputs[1]);
                let codes = scaling.encode(b, x, scales);
                vec![pack(b, codes)]
            }
            Self::Values(scaling, element) => {
                let columns = scaling.shape[2];
                let codes = unpack(b, inputs[0], columns, scaling.format.element());
                let scales = scaling.given(b, inputs[1]);
                let y = scaling.decode(b, codes, scales);
                vec![b.convert(y, *element)]
            }
            Self::Amax(_) => {
                let x = b.convert(inputs[0], ElementType::F32);
                let (magnitude, dims) = (magnitude(b, x), (0..b.ty(x).rank()).collect::<Vec<_>>());
                let amax = b.reduce(Reduction::Max, magnitude, &dims);
                let amax = b.bitcast(amax, ElementType::F32);
                vec![b.reshape(amax, &[1])]
            }
            Self::Rounded(scaling) => {
                let x = b.convert(inputs[0], ElementType::F32);
                let scales = scaling.dynamic(b, x);
                vec![scaling.rounded(b, inputs[0], x, scales)]
            }
            Self::RoundedBy(scaling) => {
                let x = b.convert(inputs[0], ElementType::F32);
                let scales = scaling.given(b, inputs[1]);
                vec![scaling.rounded(b, inputs[0], x, scales)]
            }
        }
    }
}

/// The bits of |x|, 0 where x isn't finite: integers are ordered like the magnitudes, and no device
/// flushes one.
fn magnitude(b: &mut Builder, x: Value) -> Value {
    let bits = b.bitcast(x, ElementType::U32);
    let magnitude = b.binary_scalar(Binary::And, bits, f64::from(0x7FFF_FFFFu32));
    let finite = b.compare_scalar(Compare::Lt, magnitude, f64::from(0x7F80_0000u32));
    let zero = b.splat_like(0.0, magnitude);
    b.select(finite, magnitude, zero)
}

impl Scaling {
    fn blocks(&self) -> [usize; 2] {
        let [_, rows, columns] = self.shape;
        self.granularity.blocks(rows, columns)
    }

    /// \[M, rows, ⌈columns/4⌉\].
    fn words_shape(&self) -> Vec<usize> {
        let [matrices, rows, columns] = self.shape;
        vec![matrices, rows, columns.div_ceil(LANES)]
    }

    /// \[M, down, across\], or ⌈across/4⌉ words of bytes.
    pub(super) fn scales_shape(&self) -> Vec<usize> {
        let [down, across] = self.blocks();
        let across = match self.is_mx() {
            true => across.div_ceil(LANES),
            false => across,
        };
        vec![self.shape[0], down, across]
    }

    fn is_mx(&self) -> bool {
        self.granularity == Granularity::Mx
    }

    /// f32 bits or E8M0 bytes, ui32 \[M, down, across\], that follow from x.
    fn dynamic(&self, b: &mut Builder, x: Value) -> Value {
        let [matrices, rows, columns] = self.shape;
        let ([r, c], [down, across]) = (self.granularity.block(rows, columns), self.blocks());
        let values = magnitude(b, x);
        let zero = b.scalar(0.0, ElementType::U32);
        let values = pad_end(b, values, zero, 1, down * r - rows);
        let values = pad_end(b, values, zero, 2, across * c - columns);
        let values = b.reshape(values, &[matrices, down, r, across, c]);
        let amax = b.reduce(Reduction::Max, values, &[2, 4]);
        match self.is_mx() {
            true => self.e8m0_scales(b, amax),
            false => self.f32_scales(b, amax),
        }
    }

    /// Bits of amax · 2^margin / MAX, between the smallest normal number and the largest; 1 of 0.
    ///
    /// MAX is 1.75 · 2^e, so the mantissa of the quotient is 4/7 of amax's: a division of integers,
    /// whose remainder says how to round, and never a tie because 7 is odd.
    fn f32_scales(&self, b: &mut Builder, amax: Value) -> Value {
        let (mantissa, exponent) = normalised(b, amax);
        let below = b.compare_scalar(Compare::Lt, mantissa, f64::from(7u32 << 21));
        let (two, three) = (b.splat_like(2.0, mantissa), b.splat_like(3.0, mantissa));
        let shift = b.select(below, three, two);
        let dividend = b.binary(Binary::ShiftLeft, mantissa, shift);
        let up = b.binary_scalar(Binary::Add, dividend, 3.0);
        let quotient = b.binary_scalar(Binary::Divide, up, 7.0);
        let top = (self.format.max().to_bits() >> 23) as i32;
        let exponent = b.binary_scalar(Binary::Add, exponent, f64::from(self.margin + 127 - top));
        let below = b.convert(below, ElementType::S32);
        let exponent = b.sub(exponent, below);
        let clamped = b.clamp(1.0, exponent, 254.0);
        let clamped = b.convert(clamped, ElementType::U32);
        let high = b.binary_scalar(Binary::ShiftLeft, clamped, 23.0);
        let low = b.binary_scalar(Binary::And, quotient, f64::from(0x7F_FFFFu32));
        let scale = b.or(high, low);
        let scale = choose(b, (Compare::Lt, exponent, 1.0), 0x80_0000, scale);
        let scale = choose(b, (Compare::Gt, exponent, 254.0), 0x7F7F_FFFF, scale);
        choose(b, (Compare::Eq, amax, 0.0), 0x3F80_0000, scale)
    }

    /// The bytes of the powers of two at or above amax · 2^margin / MAX; 1 of 0.
    fn e8m0_scales(&self, b: &mut Builder, amax: Value) -> Value {
        let top = self.format.max().to_bits();
        let mantissa = b.binary_scalar(Binary::And, amax, f64::from(0x7F_FFFFu32));
        let above = b.compare_scalar(Compare::Gt, mantissa, f64::from(top & 0x7F_FFFF));
        let above = b.convert(above, ElementType::S32);
        let exponent = b.binary_scalar(Binary::ShiftRightLogical, amax, 23.0);
        let exponent = b.convert(exponent, ElementType::S32);
        let exponent = b.add(exponent, above);
        let offset = E8M0_ONE - f64::from(top >> 23) + f64::from(self.margin);
        let byte = b.binary_scalar(Binary::Add, exponent, offset);
        let byte = b.clamp(1.0, byte, 254.0);
        let byte = b.convert(byte, ElementType::U32);
        choose(b, (Compare::Eq, amax, 0.0), E8M0_ONE as u32, byte)
    }

    /// Scales as they came, in the form of [`Scaling::dynamic`].
    pub(super) fn given(&self, b: &mut Builder, scales: Value) -> Value {
        let [_, across] = self.blocks();
        if self.is_mx() {
            let bytes = unpack(b, scales, across, ElementType::U8);
            return b.convert(bytes, ElementType::U32);
        }
        let scales = b.convert(scales, ElementType::F32);
        b.bitcast(scales, ElementType::U32)
    }

    /// Scales as they leave.
    fn stored(&self, b: &mut Builder, scales: Value) -> Value {
        if self.is_mx() {
            let bytes = b.convert(scales, ElementType::U8);
            return pack(b, bytes);
        }
        b.bitcast(scales, ElementType::F32)
    }

    /// The scale of every value \[M, rows, columns\].
    fn spread(&self, b: &mut Builder, scales: Value) -> Value {
        let [matrices, rows, columns] = self.shape;
        let ([r, c], [down, across]) = (self.granularity.block(rows, columns), self.blocks());
        let spread = b.broadcast(scales, &[matrices, down, r, across, c], &[0, 1, 3]);
        let spread = b.reshape(spread, &[matrices, down * r, across * c]);
        let spread = b.slice_dim(spread, 1, 0..rows);
        b.slice_dim(spread, 2, 0..columns)
    }

    /// x / scale as codes. Infinities and NaN divide to themselves: a scale is positive and finite.
    fn encode(&self, b: &mut Builder, x: Value, scales: Value) -> Value {
        let quotient = if self.is_mx() {
            // 2^(127 − byte) in two factors: one would be subnormal for byte 254.
            let half = power(b, (Compare::Ge, scales, 254.0), 0.5);
            let byte = b.clamp(0.0, scales, 253.0);
            let (top, ty) = (b.splat_like(254.0, byte), ElementType::F32);
            let inverse = b.sub(top, byte);
            let inverse = b.binary_scalar(Binary::ShiftLeft, inverse, 23.0);
            let inverse = b.bitcast(inverse, ty);
            let (half, inverse) = (self.spread(b, half), self.spread(b, inverse));
            let x = b.mul(x, half);
            b.mul(x, inverse)
        } else {
            let scales = b.bitcast(scales, ElementType::F32);
            let scales = self.spread(b, scales);
            b.div(x, scales)
        };
        encode(b, quotient, self.format, self.overflow)
    }

    /// f32: the values of codes.
    pub(super) fn decode(&self, b: &mut Builder, codes: Value, scales: Value) -> Value {
        let values = b.convert(codes, ElementType::F32);
        if !self.is_mx() {
            let scales = b.bitcast(scales, ElementType::F32);
            let scales = self.spread(b, scales);
            return b.mul(values, scales);
        }
        // Byte 0 is 2⁻¹²⁷, which is subnormal: half of 2⁻¹²⁶. Byte 255 is NaN.
        let half = power(b, (Compare::Eq, scales, 0.0), 0.5);
        let byte = b.clamp(1.0, scales, 255.0);
        let bits = b.binary_scalar(Binary::ShiftLeft, byte, 23.0);
        let bits = choose(b, (Compare::Eq, scales, 255.0), 0x7FC0_0000, bits);
        let power = b.bitcast(bits, ElementType::F32);
        let (half, power) = (self.spread(b, half), self.spread(b, power));
        let values = b.mul(values, half);
        b.mul(values, power)
    }

    /// `x`, the f32s of `like`, as its codes have it, in the type of `like`.
    fn rounded(&self, b: &mut Builder, like: Value, x: Value, scales: Value) -> Value {
        let codes = self.encode(b, x, scales);
        // XLA drops a conversion and its inverse for the sake of precision, but not with NaN's bytes
        // chosen in between.
        let y = self.decode(b, codes, scales);
        let element = b.element(like);
        b.convert(y, element)
    }
}

/// Mantissa with its implicit bit, ui32, and biased exponent, i32, of the bits of positive f32s;
/// below 1 of subnormal ones.
fn normalised(b: &mut Builder, bits: Value) -> (Value, Value) {
    let zeros = b.unary(Unary::CountLeadingZeros, bits);
    // Sign and exponent are nine bits, the last of which a normal number's implicit bit takes.
    let shift = b.clamp(8.0, zeros, 31.0);
    let shift = b.binary_scalar(Binary::Subtract, shift, 8.0);
    let moved = b.binary(Binary::ShiftLeft, bits, shift);
    let exponent = b.binary_scalar(Binary::ShiftRightLogical, bits, 23.0);
    let normal = b.compare_scalar(Compare::Gt, exponent, 0.0);
    let mantissa = b.select(normal, bits, moved);
    let mantissa = b.binary_scalar(Binary::And, mantissa, f64::from(0x7F_FFFFu32));
    let mantissa = b.binary_scalar(Binary::Or, mantissa, f64::from(0x80_0000u32));
    let shift = b.convert(shift, ElementType::S32);
    let one = b.splat_like(1.0, shift);
    let below = b.sub(one, shift);
    let exponent = b.convert(exponent, ElementType::S32);
    (mantissa, b.select(normal, exponent, below))
}

/// `bits` where a comparison with a number holds, and `other` elsewhere.
fn choose(
    b: &mut Builder,
    (direction, x, number): (Compare, Value, f64),
    bits: u32,
    other: Value,
) -> Value {
    let condition = b.compare_scalar(direction, x, number);
    let bits = b.splat_like(f64::from(bits), other);
    b.select(condition, bits, other)
}

/// An f32 where a comparison with a number holds, and 1 elsewhere.
fn power(b: &mut Builder, (direction, x, number): (Compare, Value, f64), factor: f64) -> Value {
    let condition = b.compare_scalar(direction, x, number);
    let ty = b.ty(x).with_element(ElementType::F32);
    let (yes, no) = (b.splat(factor, ty.clone()), b.splat(1.0, ty));
    b.select(condition, yes, no)
}
