//! Blocks decoded by the operations of Burn, on any device.

use super::BlockLayout;
use burn::tensor::{DType, FloatDType, Int, IntDType, Tensor, TensorData, bf16, f16};
use moebius_ops::blocks::{Field, GROUP, Layout, Levels, Scales, half_of_exponent};

/// The products \[T, columns\] of levels and scales of rows of words \[T, words of a row\] by the operations of Burn, and what is added to them,
/// if anything is. Each is exact ([`moebius_ops::blocks`]), or rounded once in formats with a scale of each row, in whatever order a compiler multiplies.
pub(crate) fn scaled(words: Tensor<2, Int>, layout: BlockLayout) -> (Tensor<2>, Option<Tensor<2>>) {
    let ([_, _, columns], Layout { values, bytes, .. }) = (layout.shape, layout.format.layout());
    let ([rows, across], device) = (words.dims(), words.device());
    let count = rows * columns / values;
    let head = layout.format.head();
    let heads = (head > 0).then(|| {
        let of_blocks = [rows, columns / values];
        let heads = words.clone().narrow(1, 0, 1).expand(of_blocks);
        heads.reshape([count, 1])
    });
    let shifts = Tensor::<1, Int>::arange(0..4, (&device, words.dtype())) * 8;
    let all = words.unsqueeze_dim::<3>(2).expand([rows, across, 4]);
    let all = all.bitwise_right_shift(shifts.reshape([1, 1, 4]).expand([rows, across, 4]));
    let all = all.bitwise_and_scalar(0xFF).reshape([rows, 4 * across]);
    let all = all.narrow(1, 4 * head, columns / values * bytes);
    let blocks = Bytes {
        all: all.reshape([count, bytes]),
        heads,
        values,
    };
    let (products, offsets) = blocks.scaled(layout.format.layout());
    let whole = |values: Tensor<2>| values.reshape([rows, columns]);
    (whole(products), offsets.map(whole))
}

/// Bits of the fraction of a number in F16.
const F16_FRACTION: u32 = 10;

/// Bits of the fraction of a number in BF16.
const BF16_FRACTION: u32 = 7;

/// The number in F16 with these bits.
fn half(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// The bytes \[count, bytes of a block\] of blocks, one in each integer.
struct Bytes {
    all: Tensor<2, Int>,
    /// The words \[count, 1\] before the blocks of their rows, where rows have one.
    heads: Option<Tensor<2, Int>>,
    /// Values per block.
    values: usize,
}

impl Bytes {
    /// The products of levels and scales, and what is added, if anything is: \[count, values\].
    fn scaled(&self, layout: Layout) -> (Tensor<2>, Option<Tensor<2>>) {
        match layout.levels {
            Levels::F16 => return (of_16_bits(self.pairs(), F16_FRACTION, half), None),
            Levels::Bf16 => {
                let of = |bits| bf16::from_bits(bits).to_f32();
                return (of_16_bits(self.pairs(), BF16_FRACTION, of), None);
            }
            _ => {}
        }
        let mut codes = self.field(layout.low);
        if let Some(high) = layout.high {
            let above = 1 << layout.low.bits;
            codes = codes + self.field(high) * above;
        }
        let (scales, offsets) = self.scales(layout.scales);
        let products = self.levels(codes, layout.levels) * self.spread(scales);
        (products, offsets.map(|offsets| self.spread(offsets)))
    }

    fn some(&self, from: usize, count: usize) -> Tensor<2, Int> {
        self.all.clone().narrow(1, from, count)
    }

    /// The bits of every code, \[count, values\].
    fn field(&self, field: Field) -> Tensor<2, Int> {
        let (run, per_byte) = (field.run, field.per_byte());
        let (count, runs) = (self.all.dims()[0], self.values / per_byte / run);
        let bytes = self.some(field.at, self.values / per_byte);
        let bytes = bytes.reshape([count, runs, 1, run]);
        let options = (&bytes.device(), bytes.dtype());
        let shifts = Tensor::<1, Int>::arange(0..per_byte as i64, options) * field.bits as i32;
        let shape = [count, runs, per_byte, run];
        let shifts = shifts.reshape([1, 1, per_byte, 1]).expand(shape);
        let bits = bytes.expand(shape).bitwise_right_shift(shifts);
        let bits = bits.bitwise_and_scalar(0xFF >> (8 - field.bits));
        bits.reshape([count, self.values])
    }

    /// The numbers that codes stand for.
    fn levels(&self, codes: Tensor<2, Int>, levels: Levels) -> Tensor<2> {
        match levels {
            Levels::Signed => signed(codes),
            Levels::From(zero) => floats(codes) - f32::from(zero),
            Levels::FromZero => {
                let zeros = floats(self.some(0, 1).bitwise_and_scalar(15));
                floats(codes) - self.spread(zeros)
            }
            Levels::Table(table) => {
                looked_up(codes, |code| f32::from(table[usize::from(code & 15)]))
            }
            Levels::F16 | Levels::Bf16 => unreachable!("numbers of 16 bits have no levels"),
        }
    }

    /// The number in F16 at a byte of every block, \[count, 1\].
    fn half(&self, at: usize) -> Tensor<2> {
        let bits = self.some(at + 1, 1) * 256 + self.some(at, 1);
        of_16_bits(bits, F16_FRACTION, half)
    }

    /// The codes of 16 bits that blocks consist of, \[count, values\].
    fn pairs(&self) -> Tensor<2, Int> {
        let (count, values) = (self.all.dims()[0], self.values);
        let pairs = self.all.clone().reshape([count, values, 2]);
        let byte = |at| pairs.clone().narrow(2, at, 1).reshape([count, values]);
        byte(1) * 256 + byte(0)
    }

    /// The scales \[count, n\] of every block, and what is added, if anything is.
    fn scales(&self, scales: Scales) -> (Tensor<2>, Option<Tensor<2>>) {
        match scales {
            Scales::None => unreachable!("numbers of 16 bits have no scales"),
            Scales::Half { least } => (self.half(0), least.then(|| self.half(2))),
            Scales::Exponent => (looked_up(self.some(0, 1), half_of_exponent), None),
            Scales::SixBits => {
                let scales = floats(self.six_bits(4, 1)) * self.half(0);
                let least = floats(self.six_bits(8, 16)) * self.half(2);
                (scales, Some(least.neg()))
            }
            Scales::EightBits { each, all } => {
                let scales = self.some(each, self.values / GROUP);
                (signed(scales) * self.half(all), None)
            }
            Scales::Upper => (self.upper(), None),
            Scales::Fp8 => (self.of_rows(), None),
        }
    }

    /// The scales \[count, n\] that are products with those of their rows, or next to them. The only factors that aren't powers of two are integers,
    /// whose product is rounded once; the step to a number beside it is one of integers, too.
    fn of_rows(&self) -> Tensor<2> {
        let Some(heads) = &self.heads else {
            unreachable!("rows with such scales have one of their own");
        };
        let part = |shift: i32, mask: i32| {
            let shifted = heads.clone().bitwise_right_shift_scalar(shift);
            shifted.bitwise_and_scalar(mask).cast(IntDType::I32)
        };
        let (below, exponents, fractions) = (part(31, 1), part(23, 0xFF), part(0, 0x7F_FFFF));
        let own = self.some(0, self.values / GROUP);
        let codes = own.clone().bitwise_and_scalar(0x7F);
        let moved = (own / 128).cast(IntDType::I32);
        let integers = looked_up(codes.clone(), |code| {
            f32::from(code - (code / 8).saturating_sub(1) * 8)
        });
        // The number before a power of two is half a unit below it, so that units are halves.
        let halves = floats((fractions + 0x80_0000) * 2);
        let products = (integers * halves).cast(IntDType::I32);
        let lower = products.clone() - below.clone() * moved.clone();
        let steps = (0..64_u32).map(|upper| (1_u32 << upper.max(1).ilog2()) as f32);
        let upper = lower.bitwise_right_shift_scalar(23).bitwise_and_scalar(63);
        let steps = of_table(upper, steps.collect()).cast(IntDType::I32) * moved;
        let bits = products + steps * (below * -2 + 1);
        let power = |exponent: u32| f32::from_bits(exponent << 23);
        let of_codes = looked_up(codes, |code| power(92 + u32::from(code / 8).max(1)));
        floats(bits) * of_codes * of_table(exponents, (0..256).map(power).collect())
    }

    /// The number in f32 whose upper 20 bits the first bytes of every block have, \[count, 1\]: what sign and exponent stand for, and as many units
    /// of the lowest bit as the others say. NaN becomes infinity.
    fn upper(&self) -> Tensor<2> {
        let [low, middle, upper] = [0, 1, 2].map(|at| self.some(at, 1));
        let odd = middle.clone() / 128;
        let units = (middle - odd.clone() * 128) * 16 + low / 16;
        let exponents = upper * 2 + odd;
        let number = |exponent: u32, unit: u32| f32::from_bits(exponent << 23 | unit << 12);
        let unit = |exponent: u32| {
            let unit = number(exponent, 1) - number(exponent, 0);
            if unit.is_nan() { 0.0 } else { unit }
        };
        let each = of_table(exponents.clone(), (0..512).map(unit).collect());
        let whole = (0..512).map(|exponent| number(exponent, 0)).collect();
        of_table(exponents, whole) + floats(units) * each
    }

    /// The eight scales or minima of six bits whose bytes begin at `at`; the bytes of both are divided by `by`.
    fn six_bits(&self, at: usize, by: i32) -> Tensor<2, Int> {
        let own = self.some(at, 4);
        let low = (self.some(12, 4) / by).bitwise_and_scalar(15);
        let last = low + own.clone() / 64 * 16;
        Tensor::cat(vec![own.bitwise_and_scalar(63), last], 1)
    }

    /// Each of \[count, n\] as often as values share it: \[count, values\].
    fn spread(&self, scales: Tensor<2>) -> Tensor<2> {
        let [count, groups] = scales.dims();
        let all = scales.reshape([count, groups, 1]);
        let all = all.expand([count, groups, self.values / groups]);
        all.reshape([count, self.values])
    }
}

/// Integers in f32.
fn floats(integers: Tensor<2, Int>) -> Tensor<2> {
    integers.cast(FloatDType::F32)
}

/// Bytes as signed numbers, in f32.
fn signed(bytes: Tensor<2, Int>) -> Tensor<2> {
    let negative = bytes.clone() / 128;
    floats(bytes - negative * 256)
}

/// Numbers whose 16 bits are these, of which the lowest `fraction` ones count units: what the bits above them stand for, and as many units as they say.
fn of_16_bits(bits: Tensor<2, Int>, fraction: u32, of: fn(u16) -> f32) -> Tensor<2> {
    let number = |above: u16, units: u16| of(above << fraction | units);
    let unit = |above| number(above, 1) - number(above, 0);
    let all = || 0..1_u16 << (16 - fraction);
    let above = bits.clone().bitwise_right_shift_scalar(fraction as i32);
    let units = bits.bitwise_and_scalar((1 << fraction) - 1);
    // A number is infinite with no unit, and NaN with any.
    let either = above.clone() * 2 + units.clone().clamp(0, 1);
    let whole = all().flat_map(|above| {
        let finite = number(above, 0).is_finite();
        [number(above, 0), number(above, u16::from(!finite))]
    });
    let each = all().map(|above| Some(unit(above)).filter(|unit| !unit.is_nan()));
    let each = of_table(above, each.map(Option::unwrap_or_default).collect());
    of_table(either, whole.collect()) + floats(units) * each
}

/// What each byte stands for, from a table: no device's power need be exact.
fn looked_up(bytes: Tensor<2, Int>, of: impl Fn(u8) -> f32) -> Tensor<2> {
    of_table(bytes, (0..=u8::MAX).map(of).collect())
}

/// The values of a table at these places.
fn of_table(places: Tensor<2, Int>, table: Vec<f32>) -> Tensor<2> {
    let count = table.len();
    let table = TensorData::new(table, [count]);
    let table = Tensor::<1>::from_data(table, (&places.device(), DType::F32));
    let [rows, columns] = places.dims();
    let places = places.reshape([rows * columns]);
    table.select(0, places).reshape([rows, columns])
}
