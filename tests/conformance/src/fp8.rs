//! FP8 casts on the device against the host codec, bit for bit.

use burn::tensor::{Tensor, TensorData};
use half::f16;
use moebius::fp8::{Fp8Format, Overflow, decode, encode};
use moebius_ops::fp8::{decode_host, encode_host, unpack};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

fn check_encode(target: &Target, values: &[f32]) {
    for format in FORMATS {
        for overflow in [Overflow::Saturate, Overflow::Ieee] {
            let x = Tensor::<1>::from_data(TensorData::from(values), &target.burn());
            let words = encode(x, format, overflow).unwrap().into_data();
            let words: Vec<u32> = words.iter::<i64>().map(|word| word as u32).collect();
            let got = unpack(&words, values.len());
            for (value, got) in values.iter().zip(got) {
                let want = encode_host(*value, format, overflow);
                assert_eq!(
                    got,
                    want,
                    "{format:?} {overflow:?} of {value:e} ({:#x})",
                    value.to_bits()
                );
            }
        }
    }
}

/// Every value, every midpoint and their neighbours, specials, and random magnitudes.
pub(crate) fn encode_edges(target: &Target) {
    let mut values = vec![
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e30,
        -1e-30,
        1e-45,
    ];
    for format in FORMATS {
        for code in 0..=254u8 {
            let (a, b) = (decode_host(code, format), decode_host(code + 1, format));
            let middle = (a + b) / 2.0;
            for edge in [a, middle] {
                values.extend([edge, edge.next_up(), edge.next_down()]);
            }
        }
    }
    let mut rng = Rng::new(1);
    values.extend((0..4096).map(|_| f32::from_bits(rng.next_u64() as u32)));
    check_encode(target, &values);
}

pub(crate) fn encode_every_half(target: &Target) {
    let values: Vec<f32> = (0..=u16::MAX)
        .map(|bits| f16::from_bits(bits).to_f32())
        .collect();
    check_encode(target, &values);
}

pub(crate) fn decode_every_code(target: &Target) {
    let words: Vec<i32> = (0..64u32)
        .map(|i| (0x0302_0100 + i * 0x0404_0404) as i32)
        .collect();
    for format in FORMATS {
        let words = Tensor::from_data(TensorData::from(words.as_slice()), &target.burn());
        let got = decode(words, 256, format)
            .unwrap()
            .into_data()
            .iter::<f32>()
            .collect::<Vec<_>>();
        for (code, got) in (0..=255u8).zip(got) {
            let want = decode_host(code, format);
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{format:?} {code:#x}: got {got}, want {want}");
        }
    }
}

pub(crate) fn lengths(target: &Target) {
    for len in [0, 1, 3, 4, 5, 1023] {
        let values = Rng::new(len as u64).vec(len, 500.0);
        check_encode(target, &values);
        let x = Tensor::<1>::from_data(TensorData::from(values.as_slice()), &target.burn());
        let words = encode(x, Fp8Format::E4M3, Overflow::Saturate).unwrap();
        let wrong = decode(words.clone(), len + 4, Fp8Format::E4M3)
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("fp8 words: expected"), "{wrong}");
        let back = decode(words, len, Fp8Format::E4M3).unwrap().into_data();
        let back: Vec<f32> = back.iter::<f32>().collect();
        let want = values
            .iter()
            .map(|v| encode_host(*v, Fp8Format::E4M3, Overflow::Saturate));
        let want: Vec<f32> = want
            .map(|code| decode_host(code, Fp8Format::E4M3))
            .collect();
        assert_eq!(back, want);
    }
}
