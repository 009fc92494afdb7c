//! Casts between floats and codes.

use crate::codec::{Encoder, FORMATS, decode, pack_rows};
use crate::plugin::{Host, call};
use half::{bf16, f16};
use moebius_ops::Quantize;
use moebius_ops::fp8::{Fp8Format as Format, Overflow, Problem};
use moebius_xla::ElementType;

const OVERFLOWS: [Overflow; 2] = [Overflow::Saturate, Overflow::Ieee];

fn encoded(x: Host, format: Format, overflow: Overflow) -> Vec<u32> {
    let len = x.ty.elements();
    let problem = Problem::new(len, len.div_ceil(4), format).unwrap();
    call(Quantize::Encode { problem, overflow }, &[x])[0].words()
}

fn assert_codes(got: &[u32], want: &[u8]) {
    let got: Vec<u8> = got.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got, want, "bits {i:#06x}: {got:#04x}, {want:#04x}");
    }
}

/// f32 values around every boundary: of each finite f16 magnitude, with neighbours, and what is special.
fn floats() -> Vec<f32> {
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
    let values = floats();
    for format in FORMATS {
        for overflow in OVERFLOWS {
            let encoder = Encoder::new(format, overflow);
            let codes: Vec<u8> = values.iter().map(|x| encoder.encode(*x)).collect();
            let got = encoded(Host::f32s(&[values.len()], &values), format, overflow);
            for (i, (got, want)) in got.iter().zip(pack_rows(&codes, codes.len())).enumerate() {
                let x = &values[4 * i..(4 * i + 4).min(values.len())];
                assert_eq!(
                    *got, want,
                    "{format:?} {overflow:?} {x:?}: {got:08x}, {want:08x}"
                );
            }
        }
    }
}

/// A conversion through f16 would round some of these twice.
#[test]
fn every_mantissa_of_some_exponents() {
    let exponents = [100u32, 110, 112, 117, 118, 120, 121, 127, 135, 142];
    let values: Vec<f32> = exponents
        .iter()
        .flat_map(|e| (0..1u32 << 18).map(move |m| f32::from_bits(e << 23 | m << 5 | (m & 1))))
        .collect();
    for format in FORMATS {
        let encoder = Encoder::new(format, Overflow::Saturate);
        let codes: Vec<u8> = values.iter().map(|x| encoder.encode(*x)).collect();
        let x = Host::f32s(&[values.len()], &values);
        assert!(encoded(x, format, Overflow::Saturate) == pack_rows(&codes, codes.len()));
    }
}

#[test]
fn every_value_of_sixteen_bits() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    for format in FORMATS {
        for overflow in OVERFLOWS {
            let encoder = Encoder::new(format, overflow);
            let halves = |bits: &u16| encoder.encode(f16::from_bits(*bits).to_f32());
            let codes: Vec<u8> = bits.iter().map(halves).collect();
            let x = Host::halves(ElementType::F16, &bits);
            assert_codes(&encoded(x, format, overflow), &codes);
            let brains = |bits: &u16| encoder.encode(bf16::from_bits(*bits).to_f32());
            let codes: Vec<u8> = bits.iter().map(brains).collect();
            let x = Host::halves(ElementType::BF16, &bits);
            assert_codes(&encoded(x, format, overflow), &codes);
        }
    }
}

#[test]
fn every_code_decodes_and_lengths_are_odd() {
    let codes: Vec<u8> = (0..=255).collect();
    for format in FORMATS {
        for len in [256, 255, 254, 253, 1] {
            let words = pack_rows(&codes[..len], len);
            let problem = Problem::new(len, words.len(), format).unwrap();
            let decode_call = Quantize::Decode(problem);
            for words in [Host::ints(&[words.len()], &words), Host::longs(&words)] {
                let values = call(decode_call.clone(), &[words])[0].floats();
                assert_eq!(values.len(), len);
                for (code, got) in codes.iter().zip(values) {
                    let want = decode(*code, format);
                    let same = f64::from(got) == want && got.is_sign_negative() == (code >> 7 == 1);
                    assert!(
                        same || (got.is_nan() && want.is_nan()),
                        "{code:#x}: {got}, {want}"
                    );
                }
            }
        }
        for len in [1, 2, 3, 5, 7] {
            let x = vec![1.0; len];
            let codes = vec![Encoder::new(format, Overflow::Ieee).encode(1.0); len];
            let got = encoded(Host::f32s(&[len], &x), format, Overflow::Ieee);
            assert_eq!(got, pack_rows(&codes, len));
        }
    }
}
