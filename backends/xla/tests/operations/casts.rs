//! Tests of casts between floats and FP8 codes.

use crate::run::{Host, check, f32s, floats, i64s, run, words};
use half::{bf16, f16};
use moebius_ops::Quantize;
use moebius_ops::fp8::{Fp8Format, Overflow, Problem, encode_host, pack};
use moebius_pjrt::ElementType::{BF16, F16};

pub(crate) const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];
const OVERFLOWS: [Overflow; 2] = [Overflow::Saturate, Overflow::Ieee];

/// Encodes floats of any type and compares the codes with the host's.
fn encodes(x: &Host, format: Fp8Format, overflow: Overflow) {
    let values = x.to_floats();
    let problem = Problem::new(values.len(), values.len().div_ceil(4), format).unwrap();
    let got = run(
        Quantize::Encode { problem, overflow },
        std::slice::from_ref(x),
    );
    let codes: Vec<u8> = values
        .iter()
        .map(|x| encode_host(*x, format, overflow))
        .collect();
    let want = pack(&codes);
    for (i, (got, want)) in got[0].to_words().iter().zip(&want).enumerate() {
        let x = &values[4 * i..(4 * i + 4).min(values.len())];
        assert_eq!(
            got, want,
            "{format:?} {overflow:?} {x:?}: {got:08x}, {want:08x}"
        );
    }
}

/// The f32 values around every boundary: each finite f16 magnitude with its neighbours, and special values.
fn boundaries() -> Vec<f32> {
    let mut values: Vec<f32> = (0..=0x7FFFu16)
        .map(|bits| f16::from_bits(bits).to_f32())
        .flat_map(|x| [x.next_down(), x, x.next_up()])
        .collect();
    values.extend([464.0, 464.0f32.next_up(), 61440.0, 61440.0f32.next_down()]);
    values.extend([f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), 1e-45, 0.0]);
    values.extend([f32::INFINITY, f32::NAN, f32::from_bits(0x7F80_0001)]);
    let negative: Vec<f32> = values.iter().map(|x| -x).collect();
    values.extend(negative);
    values
}

#[test]
fn f32_is_rounded_to_the_nearest() {
    let values = boundaries();
    let x = f32s(&[values.len()], &values);
    for format in FORMATS {
        for overflow in OVERFLOWS {
            encodes(&x, format, overflow);
        }
    }
}

/// A conversion through f16 would round some of these values twice.
#[test]
fn every_mantissa_of_some_exponents() {
    let exponents = [100u32, 110, 112, 117, 118, 120, 121, 127, 135, 142];
    let values: Vec<f32> = exponents
        .iter()
        .flat_map(|e| (0..1u32 << 18).map(move |m| f32::from_bits(e << 23 | m << 5 | (m & 1))))
        .collect();
    let x = f32s(&[values.len()], &values);
    for format in FORMATS {
        encodes(&x, format, Overflow::Saturate);
    }
}

#[test]
fn every_value_of_sixteen_bits() {
    let all = || 0..=u16::MAX;
    let halves: Vec<f32> = all().map(|bits| f16::from_bits(bits).to_f32()).collect();
    let brains: Vec<f32> = all().map(|bits| bf16::from_bits(bits).to_f32()).collect();
    for (element, values) in [(F16, halves), (BF16, brains)] {
        let x = floats(element, &[values.len()], &values);
        for format in FORMATS {
            for overflow in OVERFLOWS {
                encodes(&x, format, overflow);
            }
        }
    }
}

#[test]
fn every_code_decodes_and_lengths_are_odd() {
    let codes: Vec<u8> = (0..=255).collect();
    for format in FORMATS {
        for len in [256, 255, 254, 253, 1] {
            let packed = pack(&codes[..len]);
            let problem = Problem::new(len, packed.len(), format).unwrap();
            let longs: Vec<i32> = packed.iter().map(|word| *word as i32).collect();
            let shape = [packed.len()];
            for packed in [words(&shape, &packed), i64s(&shape, &longs)] {
                let decode = Quantize::Decode(problem);
                let values = check(decode, &[packed], |_| 0.0)[0].to_floats();
                for (code, value) in codes
                    .iter()
                    .zip(values)
                    .filter(|(_, value)| !value.is_nan())
                {
                    assert_eq!(value.is_sign_negative(), code >> 7 == 1, "{code:#x}");
                }
            }
        }
        for len in [1, 2, 3, 5, 7] {
            encodes(&f32s(&[len], &vec![1.0; len]), format, Overflow::Ieee);
        }
    }
}
