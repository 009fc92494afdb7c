//! Blocks of codes to values.
//!
//! The formats are those of ggml. A code of four bits that is in the low half of a byte belongs to the first half of its group, one in the
//! high half to the second. Scales are multiplied in the order in which ggml does it, so that values have its bits.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::element::GgmlType;

/// Writes the values of whole blocks of a decoded type to `out`, which has room for exactly them.
pub(super) fn decode(kind: GgmlType, bytes: &[u8], out: &mut [f32]) {
    match kind {
        GgmlType::F32 => {
            for (four, out) in bytes.as_chunks::<4>().0.iter().zip(out) {
                *out = f32::from_le_bytes(*four);
            }
        }
        GgmlType::F16 => halves(bytes, out),
        GgmlType::BF16 => {
            for (pair, out) in bytes.as_chunks::<2>().0.iter().zip(out) {
                *out = f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16);
            }
        }
        GgmlType::Q8_0 => blocks(bytes, out, q8_0),
        GgmlType::Q4_0 => blocks(bytes, out, q4_0),
        GgmlType::Q4_1 => blocks(bytes, out, q4_1),
        GgmlType::Q4_K => blocks(bytes, out, q4_k),
        GgmlType::Q6_K => blocks(bytes, out, q6_k),
        other => unreachable!("{other} isn't among those that are read"),
    }
}

/// Blocks of `BYTES` bytes and `VALUES` values, each by itself: extents that the compiler knows need no checks inside.
fn blocks<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (bytes, out) = (bytes.as_chunks().0, out.as_chunks_mut().0);
    for (bytes, out) in bytes.iter().zip(out) {
        block(bytes, out);
    }
}

/// Many at a time, which `half` converts by vector instructions.
fn halves(bytes: &[u8], out: &mut [f32]) {
    const MANY: usize = 256;
    let mut wide = [f16::ZERO; MANY];
    for (bytes, out) in bytes.chunks(2 * MANY).zip(out.chunks_mut(MANY)) {
        for (pair, wide) in bytes.as_chunks::<2>().0.iter().zip(&mut wide) {
            *wide = f16::from_le_bytes(*pair);
        }
        wide[..out.len()].convert_to_f32_slice(out);
    }
}

fn half(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(block[0], block[1]);
    for i in 0..32 {
        out[i] = d * f32::from(block[2 + i].cast_signed());
    }
}

fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(block[0], block[1]);
    for i in 0..16 {
        let byte = block[2 + i];
        out[i] = d * (f32::from(byte & 15) - 8.0);
        out[16 + i] = d * (f32::from(byte >> 4) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, least) = (half(block[0], block[1]), half(block[2], block[3]));
    for i in 0..16 {
        let byte = block[4 + i];
        out[i] = d * f32::from(byte & 15) + least;
        out[16 + i] = d * f32::from(byte >> 4) + least;
    }
}

/// Scale and minimum of group `group` of eight, of twelve bytes: six bits each, of the last four groups' the upper two in the bytes
/// of the first four.
fn scale_and_least(packed: &[u8], group: usize) -> [u8; 2] {
    match group {
        0..4 => [packed[group] & 63, packed[group + 4] & 63],
        _ => {
            let (low, over) = (packed[group + 4], [packed[group - 4], packed[group]]);
            [low & 15 | over[0] >> 6 << 4, low >> 4 | over[1] >> 6 << 4]
        }
    }
}

fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, least) = (half(block[0], block[1]), half(block[2], block[3]));
    let (packed, codes) = (&block[4..16], &block[16..]);
    let factors = |group| {
        let [scale, minimum] = scale_and_least(packed, group);
        [d * f32::from(scale), least * f32::from(minimum)]
    };
    let codes = codes.as_chunks::<32>().0.iter();
    for (pair, (codes, out)) in codes.zip(out.as_chunks_mut::<64>().0).enumerate() {
        let [low, high] = [factors(2 * pair), factors(2 * pair + 1)];
        for i in 0..32 {
            out[i] = low[0] * f32::from(codes[i] & 15) - low[1];
            out[32 + i] = high[0] * f32::from(codes[i] >> 4) - high[1];
        }
    }
}

fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let d = half(rest[16], rest[17]);
    let scales = rest[..16].as_chunks::<8>().0.iter();
    let codes = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
    let halves = codes.zip(scales).zip(out.as_chunks_mut::<128>().0);
    for (((low, high), scales), out) in halves {
        let scale = scales.map(|scale| d * f32::from(scale.cast_signed()));
        for i in 0..32 {
            // Two scales for each 32 values.
            let second = i / 16;
            let code = |four: u8, two: u8| f32::from(four & 15 | (two & 3) << 4) - 32.0;
            out[i] = scale[second] * code(low[i], high[i]);
            out[32 + i] = scale[2 + second] * code(low[32 + i], high[i] >> 2);
            out[64 + i] = scale[4 + second] * code(low[i] >> 4, high[i] >> 4);
            out[96 + i] = scale[6 + second] * code(low[32 + i] >> 4, high[i] >> 6);
        }
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
