use super::*;
use proptest::prelude::*;

const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

#[test]
fn every_finite_code_round_trips() {
    for format in FORMATS {
        for code in 0..=255u8 {
            let value = decode_host(code, format);
            if value.is_finite() {
                assert_eq!(encode_host(value, format, Overflow::Saturate), code);
            }
        }
    }
}

#[test]
fn limits_match_the_specification() {
    assert_eq!(decode_host(0x7E, Fp8Format::E4M3), 448.0);
    assert_eq!(decode_host(0x7B, Fp8Format::E5M2), 57344.0);
    assert_eq!(decode_host(0x01, Fp8Format::E4M3), 2f32.powi(-9));
    assert_eq!(decode_host(0x01, Fp8Format::E5M2), 2f32.powi(-16));
    assert!(decode_host(0x7F, Fp8Format::E4M3).is_nan());
    assert_eq!(decode_host(0xFC, Fp8Format::E5M2), f32::NEG_INFINITY);
    let e4m3 = |value, overflow| encode_host(value, Fp8Format::E4M3, overflow);
    assert_eq!(e4m3(464.0, Overflow::Ieee), 0x7E);
    assert_eq!(e4m3(464.1, Overflow::Ieee), 0x7F);
    assert_eq!(e4m3(f32::INFINITY, Overflow::Saturate), 0x7E);
}

proptest! {
    /// The code is the nearer of the value's two neighbours, or the even one of a tie.
    #[test]
    fn encoding_is_nearest(value in -500.0f32..500.0, e5m2: bool) {
        let format = if e5m2 { Fp8Format::E5M2 } else { Fp8Format::E4M3 };
        let got = f64::from(decode_host(encode_host(value, format, Overflow::Saturate), format));
        let nearest = (0..=255u8)
            .map(|code| f64::from(decode_host(code, format)))
            .filter(|candidate| candidate.is_finite())
            .map(|candidate| (candidate - f64::from(value)).abs())
            .fold(f64::INFINITY, f64::min);
        prop_assert_eq!((got - f64::from(value)).abs(), nearest);
    }

    #[test]
    fn packing_round_trips(codes: Vec<u8>) {
        prop_assert_eq!(unpack(&pack(&codes), codes.len()), codes);
    }
}
