//! How CubeCL loads [`moebius_ops::blocks`]: four neighbouring values of a row at a time.
//!
//! Rows are those of the bound slab. Their blocks begin with a word, behind that of the row's scale where rows have one, but blocks lie in them at any
//! byte, so four bytes are read from two words.

use super::pipeline::Chunk;
use cubecl::prelude::*;
use moebius_ops::blocks::{BlockFormat, Field, GROUP, Layout, Levels, Scales};

/// The bits from byte `byte` of a row to the end of its word. `row` is the first word of the row's blocks.
#[cube]
fn bits_at(codes: &[u32], row: usize, byte: usize) -> u32 {
    codes[row + byte / 4] >> (8 * (byte % 4) as u32)
}

/// Four bytes of a row from `byte` on.
#[cube]
fn four_bytes(codes: &[u32], row: usize, byte: usize) -> u32 {
    let shift = 8 * (byte % 4) as u32;
    // A whole word is read twice, because there may be none after it; the second time it is shifted away.
    let low = codes[row + byte / 4];
    let high = codes[row + byte.div_ceil(4)];
    (low >> shift) | ((high << 1u32) << (31u32 - shift))
}

/// A number in F16 from an even byte of a row.
#[cube]
fn half_at(codes: &[u32], row: usize, byte: usize) -> f32 {
    half(bits_at(codes, row, byte))
}

/// The lowest 16 bits as a number in F16.
#[cube]
fn half(bits: u32) -> f32 {
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7FFF);
    let shifted = magnitude << 13;
    let implicit = comptime!(f32::from_bits(113 << 23));
    // A subnormal number is one of the smallest exponent minus its implicit bit.
    let subnormal = f32::reinterpret(shifted + comptime!(113u32 << 23)) - implicit;
    let normal = shifted + comptime!(112u32 << 23);
    let finite = select(magnitude < 0x400, u32::reinterpret(subnormal), normal);
    // The exponent of infinity and NaN moves to that of f32.
    let special = shifted + comptime!(224u32 << 23);
    f32::reinterpret(sign | select(magnitude >= 0x7C00, special, finite))
}

/// The value of the low eight bits as a signed number.
#[cube]
fn signed(bits: u32) -> f32 {
    f32::cast_from((bits & 0xFF) ^ 0x80) - 128.0f32
}

/// The bits of the four values from `value` on of the block at byte `block`, each in a byte.
#[cube]
fn four_codes(
    codes: &[u32],
    row: usize,
    block: usize,
    value: usize,
    #[comptime] field: Field,
) -> u32 {
    let (run, per_byte) = comptime!((field.run, field.per_byte()));
    let first = block + comptime!(field.at);
    if comptime!(run < GROUP) {
        // The bits of eight values lie in a byte.
        let four = bits_at(codes, row, first + value / 8) >> (value % 8) as u32;
        (four & 1) | ((four & 2) << 7) | ((four & 4) << 14) | ((four & 8) << 21)
    } else {
        let byte = first + value / comptime!(run * per_byte) * run + value % run;
        let shift = comptime!(field.bits) * (value / run % per_byte) as u32;
        let mask = comptime!((0xFFu32 >> (8 - field.bits)) * 0x0101_0101);
        (four_bytes(codes, row, byte) >> shift) & mask
    }
}

/// The number that a code stands for.
#[cube]
fn level(code: u32, #[comptime] levels: Levels) -> f32 {
    match comptime!(levels) {
        Levels::Signed => signed(code),
        Levels::From(zero) => f32::cast_from(code) - comptime!(f32::from(zero)),
        // That of the block is the same for all four values.
        Levels::FromZero => f32::cast_from(code),
        Levels::F16 | Levels::Bf16 => comptime!(unreachable!("numbers of 16 bits have no levels")),
        Levels::Table(table) => {
            // The table is four words of four bytes each.
            let first = comptime!(word_of(table, 0)).runtime();
            let second = comptime!(word_of(table, 1)).runtime();
            let third = comptime!(word_of(table, 2)).runtime();
            let last = comptime!(word_of(table, 3)).runtime();
            let low = select(code < 4, first, second);
            let high = select(code < 12, third, last);
            signed(select(code < 8, low, high) >> (8 * (code % 4)))
        }
    }
}

/// Word `at` of a table of bytes.
fn word_of(table: [i8; 16], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|lane| {
        table[4 * at + lane].cast_unsigned()
    }))
}

/// A scale of six bits, or a minimum, of value `value` of the block at byte `block`; `at` is the first byte of the scales or the minima.
#[cube]
fn six_bits(
    codes: &[u32],
    row: usize,
    block: usize,
    value: usize,
    #[comptime] at: usize,
    #[comptime] shift: u32,
) -> f32 {
    let pair = value / 32;
    let own = bits_at(codes, row, block + at + pair % 4);
    // The last four pairs have their low bits in bytes of both.
    let both = bits_at(codes, row, block + 12 + pair % 4) >> shift;
    let of_last = (both & 15) | (((own >> 6) & 3) << 4);
    f32::cast_from(select(pair < 4, own & 63, of_last))
}

/// The scale of value `value` of the block at byte `block`, and of the group around it.
#[cube]
fn scale_of(
    codes: &[u32],
    row: usize,
    block: usize,
    value: usize,
    #[comptime] scales: Scales,
) -> f32 {
    match comptime!(scales) {
        Scales::None => comptime!(unreachable!("numbers of 16 bits have no scales")),
        Scales::Half { .. } => half_at(codes, row, block),
        Scales::Exponent => {
            let exponent = bits_at(codes, row, block) & 0xFF;
            // Half of the two smallest scales is subnormal.
            let smallest = 0x0020_0000u32 << min(exponent, 1u32);
            let bits = (max(exponent, 1u32) - 1) << 23;
            f32::reinterpret(select(exponent < 2, smallest, bits))
        }
        Scales::SixBits => {
            let of_all = half_at(codes, row, block);
            of_all * six_bits(codes, row, block, value, 4usize, 0u32)
        }
        Scales::EightBits { each, all } => {
            let own = bits_at(codes, row, block + each + value / 16);
            half_at(codes, row, block + all) * signed(own)
        }
        Scales::Upper => f32::reinterpret((four_bytes(codes, row, block) & 0x00FF_FFF0) << 8),
        Scales::Fp8 => {
            let own = bits_at(codes, row, block + value / 16) & 0xFF;
            let head = codes[row - 1];
            let code = own & 0x7F;
            // Those without an implicit bit are multiples of the smallest.
            let smallest = f32::cast_from(code) * comptime!(1.0f32 / 1024.0);
            let normal = f32::reinterpret((code << 20) + comptime!(119u32 << 23));
            let half = select(code < 8, smallest, normal);
            let product = u32::reinterpret(half * f32::reinterpret(head & 0x7FFF_FFFF));
            let moved = own >> 7;
            let above = (head >> 31) == 0;
            f32::reinterpret(select(above, product + moved, product - moved))
        }
    }
}

/// What is added to the products of levels and scales, for formats that have it.
#[cube]
fn offset_of(
    codes: &[u32],
    row: usize,
    block: usize,
    value: usize,
    #[comptime] scales: Scales,
) -> f32 {
    let of_all = half_at(codes, row, block + 2);
    if comptime!(scales == Scales::SixBits) {
        -(of_all * six_bits(codes, row, block, value, 8usize, 4u32))
    } else {
        of_all
    }
}

/// Four numbers of 16 bits from word `at` on.
#[cube]
fn four_numbers(codes: &[u32], at: usize, #[comptime] levels: Levels) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    #[unroll]
    for pair in 0..2usize {
        let word = codes[at + pair];
        if comptime!(levels == Levels::F16) {
            four.insert(comptime!(2 * pair), half(word));
            four.insert(comptime!(2 * pair + 1), half(word >> 16));
        } else {
            four.insert(comptime!(2 * pair), f32::reinterpret(word << 16));
            four.insert(
                comptime!(2 * pair + 1),
                f32::reinterpret(word & 0xFFFF_0000),
            );
        }
    }
    four
}

/// The four values from `value` on of the block at byte `block` of a row whose blocks begin with word `row`.
#[cube]
fn four_scaled(
    codes: &[u32],
    row: usize,
    block: usize,
    value: usize,
    #[comptime] layout: Layout,
) -> Vector<f32, Const<4>> {
    let (scales, levels) = comptime!((layout.scales, layout.levels));
    let low = four_codes(codes, row, block, value, comptime!(layout.low));
    let word = match comptime!(layout.high) {
        Some(field) => {
            let high = four_codes(codes, row, block, value, field);
            low | (high << comptime!(layout.low.bits))
        }
        None => low,
    };
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    #[unroll]
    for lane in 0..4usize {
        let code = (word >> comptime!(8 * lane as u32)) & 0xFF;
        four.insert(lane, level(code, levels));
    }
    if comptime!(levels == Levels::FromZero) {
        four -= Vector::new(f32::cast_from(bits_at(codes, row, block) & 15));
    }
    four *= Vector::new(scale_of(codes, row, block, value, scales));
    if comptime!(scales.has_offsets()) {
        four += Vector::new(offset_of(codes, row, block, value, scales));
    }
    four
}

/// Four values of row `row`, of `k`, from column `column` on, a multiple of 4; 0 past the end of the row.
#[cube]
pub(super) fn four_of_row(
    codes: &[u32],
    row: usize,
    column: usize,
    k: usize,
    #[comptime] format: BlockFormat,
) -> Vector<f32, Const<4>> {
    let layout = comptime!(format.layout());
    let (values, bytes) = comptime!((layout.values, layout.bytes));
    let (scales, levels) = comptime!((layout.scales, layout.levels));
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    if column < k {
        let of_blocks = (k / values * bytes).div_ceil(4);
        let row = if comptime!(scales.has_rows()) {
            row * (of_blocks + 1) + 1
        } else {
            row * of_blocks
        };
        four = if comptime!(levels.are_numbers()) {
            four_numbers(codes, row + column / 2, levels)
        } else {
            let (block, value) = (column / values * bytes, column % values);
            four_scaled(codes, row, block, value, layout)
        };
    }
    four
}

/// The value of row `row`, of `k`, at column `column`.
#[cube]
pub(super) fn one_of_row(
    codes: &[u32],
    row: usize,
    column: usize,
    k: usize,
    #[comptime] format: BlockFormat,
) -> f32 {
    let lane = column % 4;
    let four = four_of_row(codes, row, column - lane, k, format);
    let low = select(lane == 0, four.extract(0usize), four.extract(1usize));
    let high = select(lane == 2, four.extract(2usize), four.extract(3usize));
    select(lane < 2, low, high)
}

/// Chunk `chunk` of a row in 16 bits: eight values.
#[cube]
pub(super) fn chunk_of_row<F: Float>(
    codes: &[u32],
    row: usize,
    chunk: usize,
    k: usize,
    #[comptime] format: BlockFormat,
) -> Chunk {
    let mut values = Chunk::new(0u32);
    #[unroll]
    for half in 0..2usize {
        let four = four_of_row(codes, row, 8 * chunk + 4 * half, k, format);
        let four = Vector::<F, Const<4>>::cast_from(four);
        #[unroll]
        for at in 0..2usize {
            let mut pair = Vector::<F, Const<2>>::new(F::new(0.0));
            pair.insert(0usize, four.extract(2 * at));
            pair.insert(1usize, four.extract(2 * at + 1));
            values.insert(comptime!(2 * half + at), u32::reinterpret(pair));
        }
    }
    values
}
