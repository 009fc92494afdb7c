//! Weights in blocks of codes ([`moebius_ops::blocks`]), decoded in the graph.

use super::super::values::words;
use crate::stablehlo::{Builder, Repeated, Value};
use moebius_ops::blocks::{BlockFormat, Field, GROUP, Levels, Scales};
use moebius_pjrt::ElementType::{BF16, F16, F32, S8, S32, U8, U32};
use moebius_pjrt::TensorType;
use std::ops::Range;

/// The values \[rows, k\] of blocks in words \[rows, words of a row\].
pub(super) fn decode(b: &Builder, packed: Value, format: BlockFormat, k: usize) -> Value {
    let layout = format.layout();
    let [rows, across] = b.shape(packed)[..] else {
        unreachable!("the words of one expert are a matrix")
    };
    let count = rows * k / layout.values;
    let words = words(b, packed);
    let bytes = b.reshape(b.bitcast(words, U8), &[rows, 4 * across]);
    let bytes = b.slice_dim(bytes, 1, 4 * format.head()..format.row_bytes(k));
    if layout.levels.are_numbers() {
        let pairs = b.reshape(bytes, &[rows, k, 2]);
        let numbers = if layout.levels == Levels::F16 {
            F16
        } else {
            BF16
        };
        return b.convert(b.bitcast(pairs, numbers), F32);
    }
    let heads = layout.scales.has_rows().then(|| {
        let heads = b.reshape(b.slice_dim(words, 1, 0..1), &[rows]);
        let heads = b.broadcast(heads, &[rows, k / GROUP], &[0]);
        b.reshape(heads, &[count, layout.values / GROUP])
    });
    let blocks = Blocks {
        b,
        bytes: b.reshape(bytes, &[count, layout.bytes]),
        heads,
        count,
        values: layout.values,
    };
    let mut codes = blocks.field(layout.low);
    if let Some(high) = layout.high {
        let above = f64::from(layout.low.bits);
        codes = b.or(codes, b.shift_left(blocks.field(high), above));
    }
    let (scales, offsets) = blocks.scales(layout.scales);
    let mut values = b.mul(blocks.levels(codes, layout.levels), blocks.spread(scales));
    if let Some(offsets) = offsets {
        values = b.add(values, blocks.spread(offsets));
    }
    b.reshape(values, &[rows, k])
}

/// The bytes \[count, bytes of a block\] of blocks.
struct Blocks<'a> {
    b: &'a Builder,
    bytes: Value,
    /// The word before the blocks of its row for every [`GROUP`] of values, \[count, values / GROUP\], where rows have one.
    heads: Option<Value>,
    count: usize,
    /// Values per block.
    values: usize,
}

impl Blocks<'_> {
    /// Some bytes of every block, \[count, n\], as ui32.
    fn some(&self, of: Range<usize>) -> Value {
        self.b.convert(self.b.slice_dim(self.bytes, 1, of), U32)
    }

    /// The bits of every code, \[count, values\], as ui32.
    fn field(&self, field: Field) -> Value {
        let (b, per_byte) = (self.b, field.per_byte());
        let length = self.values / per_byte;
        let bytes = self.some(field.at..field.at + length);
        let bytes = b.reshape(bytes, &[self.count, length / field.run, field.run]);
        let bytes = b.repeat_at(bytes, 2, per_byte);
        let shifts = b.iota(TensorType::new(b.shape(bytes), U32), 2);
        let shifts = b.mul(shifts, f64::from(field.bits));
        let bits = b.and(
            b.shift_right(bytes, shifts),
            f64::from(0xFF_u32 >> (8 - field.bits)),
        );
        b.reshape(bits, &[self.count, self.values])
    }

    /// The numbers that codes stand for, in f32.
    fn levels(&self, codes: Value, levels: Levels) -> Value {
        let b = self.b;
        match levels {
            Levels::Signed => b.convert(b.bitcast(b.convert(codes, U8), S8), F32),
            Levels::From(zero) => b.sub(b.convert(codes, F32), f64::from(zero)),
            Levels::FromZero => {
                let zeros = b.convert(b.and(self.some(0..1), 15.0), F32);
                b.sub(b.convert(codes, F32), self.spread(zeros))
            }
            Levels::Table(table) => {
                let table = b.integers(&table.map(i64::from), S32);
                let codes = b.convert(b.reshape(codes, &[self.count * self.values]), S32);
                let levels = b.convert(b.take(table, codes), F32);
                b.reshape(levels, &[self.count, self.values])
            }
            Levels::F16 | Levels::Bf16 => unreachable!("numbers of 16 bits have no levels"),
        }
    }

    /// The number in F16 at a byte of every block, \[count, 1\], in f32.
    fn half(&self, at: usize) -> Value {
        let b = self.b;
        let halves = b.bitcast(b.slice_dim(self.bytes, 1, at..at + 2), F16);
        b.reshape(b.convert(halves, F32), &[self.count, 1])
    }

    /// The scales \[count, n\] of every block, and what is added, if anything is.
    fn scales(&self, scales: Scales) -> (Value, Option<Value>) {
        let b = self.b;
        match scales {
            Scales::None => unreachable!("numbers of 16 bits have no scales"),
            Scales::Half { least } => (self.half(0), least.then(|| self.half(2))),
            Scales::Exponent => {
                let exponents = self.some(0..1);
                // Half of the two smallest scales is subnormal.
                let smallest = b.mul(b.add(exponents, 1.0), f64::from(0x0020_0000));
                let bits = b.shift_left(b.sub(exponents, 1.0), 23.0);
                let bits = b.select(b.lt(exponents, 2.0), smallest, bits);
                (b.bitcast(bits, F32), None)
            }
            Scales::SixBits => {
                let scales = b.mul(self.six_bits(4, 0.0), Repeated(self.half(0)));
                let least = b.mul(self.six_bits(8, 4.0), Repeated(self.half(2)));
                (scales, Some(b.neg(least)))
            }
            Scales::EightBits { each, all } => {
                let each = each..each + self.values / GROUP;
                let scales = b.bitcast(b.slice_dim(self.bytes, 1, each), S8);
                let scales = b.mul(b.convert(scales, F32), Repeated(self.half(all)));
                (scales, None)
            }
            Scales::Upper => {
                let bits = b.bitcast(b.slice_dim(self.bytes, 1, 0..4), U32);
                let bits = b.shift_left(b.and(bits, f64::from(0x00FF_FFF0)), 8.0);
                let scales = b.bitcast(bits, F32);
                (b.reshape(scales, &[self.count, 1]), None)
            }
            Scales::Fp8 => (self.of_rows(), None),
        }
    }

    /// The scales of groups, \[count, values / GROUP\], which are products with that of their row, or next to them.
    fn of_rows(&self) -> Value {
        let (b, Some(heads)) = (self.b, self.heads) else {
            unreachable!("rows with such scales have one of their own")
        };
        let own = self.some(0..self.values / GROUP);
        let codes = b.and(own, f64::from(0x7F));
        // Those without an implicit bit are multiples of the smallest.
        let smallest = b.mul(b.convert(codes, F32), 1.0 / 1024.0);
        let normal = b.add(b.shift_left(codes, 20.0), f64::from(119_u32 << 23));
        let halves = b.select(b.lt(codes, 8.0), smallest, b.bitcast(normal, F32));
        let of_rows = b.bitcast(b.and(heads, f64::from(0x7FFF_FFFF_u32)), F32);
        let products = b.bitcast(b.mul(halves, of_rows), U32);
        let moved = b.shift_right(own, 7.0);
        let above = b.lt(heads, f64::from(0x8000_0000_u32));
        let bits = b.select(above, b.add(products, moved), b.sub(products, moved));
        b.bitcast(bits, F32)
    }

    /// The eight scales or minima of six bits whose bytes begin at `at`, \[count, 8\], in f32.
    fn six_bits(&self, at: usize, shift: f64) -> Value {
        let b = self.b;
        let own = self.some(at..at + 4);
        // The last four have their low bits in bytes of both.
        let low = b.and(b.shift_right(self.some(12..16), shift), 15.0);
        let last = b.or(low, b.shift_left(b.shift_right(own, 6.0), 4.0));
        let all = b.concatenate(&[b.and(own, 63.0), last], 1);
        b.convert(all, F32)
    }

    /// Each of \[count, n\] as often as values share it: \[count, values\].
    fn spread(&self, scales: Value) -> Value {
        let b = self.b;
        let each = self.values / b.shape(scales)[1];
        let all = b.repeat_at(scales, 2, each);
        b.reshape(all, &[self.count, self.values])
    }
}
