use super::*;

/// The bits of F16 of 0.5, of 2, and of −0.25.
const HALF: [u8; 2] = [0x00, 0x38];
const TWO: [u8; 2] = [0x00, 0x40];
const MINUS_QUARTER: [u8; 2] = [0x00, 0xb4];

fn decoded(format: BlockFormat, bytes: &[u8]) -> Vec<f32> {
    let values = format.layout().values;
    let words = format.to_words(bytes, values).unwrap();
    format.decoded(&words, values)
}

/// Worked out by hand from ggml's description of its formats.
#[test]
fn blocks_of_32_have_the_values_of_their_codes() {
    let mut q8 = [HALF.to_vec(), (0..32).collect()].concat();
    q8[2] = 0x80;
    let got = decoded(BlockFormat::Q8_0, &q8);
    assert_eq!([got[0], got[1], got[31]], [-64.0, 0.5, 15.5]);

    let nibbles: Vec<u8> = (0..16).map(|i| i | (15 - i) << 4).collect();
    let nibbles = nibbles.as_slice();
    let got = decoded(BlockFormat::Q4_0, &[&TWO[..], nibbles].concat());
    assert_eq!(
        [got[0], got[15], got[16], got[31]],
        [-16.0, 14.0, 14.0, -16.0]
    );

    let q4_1 = [&TWO[..], &MINUS_QUARTER[..], nibbles].concat();
    let got = decoded(BlockFormat::Q4_1, &q4_1);
    assert_eq!([got[0], got[3], got[31]], [-0.25, 5.75, -0.25]);

    // The fifth bits of the values 1 and 31.
    let fifths = [0x02, 0, 0, 0x80];
    let got = decoded(
        BlockFormat::Q5_0,
        &[&TWO[..], &fifths[..], nibbles].concat(),
    );
    assert_eq!([got[0], got[1], got[31]], [-32.0, 2.0, 0.0]);

    let got = decoded(BlockFormat::Iq4Nl, &[&HALF[..], nibbles].concat());
    assert_eq!([got[0], got[8], got[16]], [-63.5, 0.5, 56.5]);

    // The exponent of 2.
    let got = decoded(BlockFormat::Mxfp4, &[&[128_u8][..], nibbles].concat());
    assert_eq!(
        [got[1], got[7], got[15], got[16]],
        [1.0, 12.0, -12.0, -12.0]
    );
}

/// Worked out by hand: each field of a block has one code that isn't 0.
#[test]
fn blocks_of_256_have_the_values_of_their_codes() {
    let mut q4 = vec![0; 144];
    q4[..2].copy_from_slice(&HALF);
    q4[2..4].copy_from_slice(&TWO);
    // Pair 1: scale 3, minimum 5. Pair 6: scale 0x21, minimum 0x12.
    (q4[5], q4[9]) = (3, 5);
    (q4[6], q4[10], q4[14]) = (0x80, 0x40, 0x21);
    // Value 32, of pair 1, is the upper half of the first byte; value 192, of pair 6, the lower one of byte 96.
    (q4[16], q4[16 + 96]) = (0x70, 0x09);
    let got = decoded(BlockFormat::Q4K, &q4);
    assert_eq!(got[32], 0.5 * 3.0 * 7.0 - 2.0 * 5.0);
    assert_eq!(got[33], -10.0);
    assert_eq!(got[192], 0.5 * 33.0 * 9.0 - 2.0 * 18.0);

    let mut q5 = [&q4[..16], &[0; 32][..], &q4[16..]].concat();
    // The fifth bits of values 32 and 192.
    q5[16] = 0b0100_0010;
    let got = decoded(BlockFormat::Q5K, &q5);
    assert_eq!(got[32], 0.5 * 3.0 * 23.0 - 2.0 * 5.0);
    assert_eq!(got[192], 0.5 * 33.0 * 25.0 - 2.0 * 18.0);

    let mut q6 = vec![0; 210];
    q6[208..].copy_from_slice(&HALF);
    // The scales of values 0 to 15 and 224 to 239.
    (q6[192], q6[192 + 14]) = (2, 0xFF);
    // Value 0 is 5 + 16 · 2; value 224, the last quarter of the second half, is 9 + 16 · 3.
    (q6[0], q6[128]) = (5, 0b10);
    (q6[64 + 32], q6[128 + 32]) = (0x90, 0b1100_0000);
    let got = decoded(BlockFormat::Q6K, &q6);
    assert_eq!(got[0], 0.5 * 2.0 * 5.0);
    assert_eq!(got[224], -0.5 * 25.0);
    assert_eq!(got[1], -32.0);
}

/// Worked out by hand: 0.15625 is 0x3E20_0000, and −2^−20 · 1.5 (0xB5C0_0000) is smaller than any normal number in F16.
#[test]
fn integers_have_a_zero_and_a_scale_of_twenty_bits() {
    let formats = [
        BlockFormat::Int4_32,
        BlockFormat::Int4_64,
        BlockFormat::Int4_128,
    ];
    for (format, values) in formats.into_iter().zip([32, 64, 128]) {
        let mut block = vec![0; values / 2 + 3];
        block[..3].copy_from_slice(&[0x05, 0x20, 0x3e]);
        // Values 1 and 17, and the last.
        block[4] = 0xF2;
        block[values / 2 + 2] = 0x90;
        let got = decoded(format, &block);
        assert_eq!(got.len(), values);
        let expected = [-5.0_f32, -3.0, 10.0, 4.0].map(|level| 0.15625 * level);
        assert_eq!([got[0], got[1], got[17], got[values - 1]], expected);
        // The lowest bit of a number in F16: 1 + 2^−10.
        block[..3].copy_from_slice(&[0x20, 0x80, 0x3f]);
        assert_eq!(decoded(format, &block)[17], 15.0 + 15.0 / 1024.0);
        block[..3].copy_from_slice(&[0x03, 0xc0, 0xb5]);
        let small = f32::from_bits(0xb5c0_0000);
        let got = decoded(format, &block);
        assert_eq!([got[0], got[17]], [-3.0 * small, 12.0 * small]);
    }
}

/// A row with the scale `head` and one block, whose codes 0 to 15 stand for two groups with these scales; the second has them from the last to
/// the first.
fn nvfp4(head: f32, scales: [u8; 2]) -> Vec<f32> {
    let nibbles = (0..16).map(|i| i | (15 - i) << 4);
    let block = scales.into_iter().chain(nibbles);
    let bytes: Vec<u8> = head.to_le_bytes().into_iter().chain(block).collect();
    decoded(BlockFormat::Nvfp4, &bytes)
}

/// Worked out by hand. In units of 2⁻²³, 1.625 · (1 + 2⁻²³) lies 1.625 above 1.625 and is rounded to 2, and 1.5 times that, 3 units above
/// 2.4375, to 4. Level times scale of the row would be 2.
#[test]
fn scales_of_nvfp4_are_rounded_before_their_levels() {
    let got = nvfp4(0.75, [0x38, 0x40]);
    assert_eq!([got[1], got[7], got[15]], [0.375, 4.5, -4.5]);
    assert_eq!([got[16], got[24], got[30]], [-9.0, 9.0, 0.75]);
    // The smallest scale, the largest of those without an implicit one, the smallest with one, and the largest.
    assert_eq!(
        [1, 7, 8, 0x7F].map(half_of_e4m3),
        [1.0, 7.0, 8.0, 245_760.0].map(|of| of / 1024.0)
    );

    let (unit, row) = (f32::EPSILON, 1.0 + f32::EPSILON);
    let got = nvfp4(row, [0x3D, 0xBD]);
    assert_eq!([got[2], got[3]], [1.625 + 2.0 * unit, 2.4375 + 4.0 * unit]);
    // The second scale is a neighbour of the product, above it or below it. Code 2 is value 13 of the group.
    assert_eq!(got[16 + 13], 1.625 + 3.0 * unit);
    assert_eq!(nvfp4(-row, [0x3D, 0xBD])[2], 1.625 + 2.0 * unit);
    assert_eq!(nvfp4(-row, [0x3D, 0xBD])[16 + 13], 1.625 + unit);
}

/// Numbers of 16 bits stand in the order of a file: 1.5, the smallest subnormal one, −0, infinity and NaN in each of both.
#[test]
fn numbers_of_16_bits_are_their_values() {
    let smallest = [
        (BlockFormat::F16, f32::exp2(-24.0), [0x3E00_u16, 0x7C00]),
        (BlockFormat::Bf16, f32::from_bits(1 << 16), [0x3FC0, 0x7F80]),
    ];
    for (format, smallest, [of_three_halves, infinite]) in smallest {
        let mut codes = [0_u16; 32];
        codes[..5].copy_from_slice(&[of_three_halves, 1, 0x8000, infinite, infinite + 1]);
        codes[31] = of_three_halves | 0x8000;
        let bytes = codes.map(u16::to_le_bytes);
        let words = format.to_words(bytes.as_flattened(), 32).unwrap();
        let got = format.decoded(&words, 32);
        assert_eq!(got[..2], [1.5, smallest], "{format}");
        assert_eq!(got[2].to_bits(), 1 << 31, "{format}");
        assert_eq!([got[3], got[31]], [f32::INFINITY, -1.5], "{format}");
        assert!(got[4].is_nan(), "{format}");
        assert_eq!(got[5..31], [0.0; 26], "{format}");
    }
}

/// The last pairs take the upper bits of their scales from the bytes of the first four.
#[test]
fn scales_of_six_bits_are_put_together() {
    let packed = [0xc1, 0x02, 0x03, 0x44, 0x85, 6, 7, 8, 0x21, 0, 0, 0xf3];
    assert_eq!(six_bits(&packed, 0), [1, 5]);
    assert_eq!(six_bits(&packed, 3), [4, 8]);
    assert_eq!(six_bits(&packed, 4), [0x31, 0x22]);
    assert_eq!(six_bits(&packed, 7), [0x13, 0x0f]);
}

/// Decoding from any group on gives the values of the whole row, and every field lies inside its block.
#[test]
fn parts_are_those_of_the_whole() {
    for format in BlockFormat::ALL {
        let layout = format.layout();
        let k = 3 * layout.values;
        // Scales are numbers: the bytes of F16 and of exponents are at most 0x3F.
        let byte = |i: usize| (i * 41 % 64) as u8;
        let bytes: Vec<u8> = (0..2 * format.row_bytes(k)).map(byte).collect();
        let words = format.to_words(&bytes, k).unwrap();
        assert_eq!(words.len(), 2 * format.row_words(k), "{format}");
        let whole = format.decoded(&words, k);
        assert!(whole.iter().all(|value| value.is_finite()), "{format}");
        for first in (0..k).step_by(GROUP) {
            let mut part = vec![f32::NAN; k - first];
            let (head, blocks) = bytes[format.row_bytes(k)..].split_at(4 * format.head());
            let head = pack(head).first().copied().unwrap_or(0);
            format.decode(head, blocks, first, &mut part);
            assert_eq!(part, whole[k + first..], "{format} from {first} on");
        }
    }
}

#[test]
fn codes_are_read_where_they_are_put() {
    let all = BlockFormat::ALL.into_iter();
    for format in all.filter(|format| !format.layout().levels.are_numbers()) {
        let layout = format.layout();
        let bits = layout.low.bits + layout.high.map_or(0, |high| high.bits);
        let codes: Vec<u8> = (0..layout.values)
            .map(|value| (value * 41 % (1 << bits)) as u8)
            .collect();
        let mut block = vec![0xFF; layout.bytes];
        layout.put(&codes, &mut block);
        for first in (0..layout.values).step_by(GROUP) {
            let expected = &codes[first..][..GROUP];
            assert_eq!(layout.codes(&block, first), expected, "{format}");
        }
    }
}

#[test]
fn rows_are_whole_blocks() {
    assert!(BlockFormat::Q4K.check(128).is_err());
    assert!(BlockFormat::Q4_0.check(128).is_ok());
    let error = BlockFormat::Q8_0.to_words(&[0; 67], 64).unwrap_err();
    assert_eq!([error.expected, error.got], ["whole rows of 68", "67"]);
    assert!(BlockFormat::Mxfp4.to_words(&[0; 17], 33).is_err());
}

#[test]
fn exponents_are_half_of_e8m0() {
    let of = half_of_exponent;
    assert_eq!(of(128), 1.0);
    assert_eq!(f64::from(of(0)), f64::exp2(-128.0));
    assert_eq!(f64::from(of(1)), f64::exp2(-127.0));
    assert_eq!(f64::from(of(255)), f64::exp2(127.0));
}
