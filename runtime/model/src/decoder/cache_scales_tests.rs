//! Scales of a layer's cache in FP8.

use burn::tensor::TensorData;
use moebius_ops::fp8::{Fp8Format, Overflow, decode_host, encode_host};

use super::*;

/// Numbers of both signs, up to 2^`octaves`, the same for the same seed.
fn noise(count: usize, seed: u32, octaves: f32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count)
        .map(|_| next() * (octaves * next()).exp2())
        .collect()
}

fn heads(values: &[f32], shape: [usize; 4]) -> Tensor<4> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (&Device::flex(), DType::F32))
}

fn values(heads: Tensor<4>) -> Vec<f32> {
    heads.into_data().iter().collect()
}

/// A value of a cache with a scale of its layer, as vLLM keeps it: over the scale, rounded to E4M3, and at most the largest code.
fn kept(value: f32, scale: f32) -> f32 {
    let code = encode_host(value / scale, Fp8Format::E4M3, Overflow::Saturate);
    decode_host(code, Fp8Format::E4M3) * scale
}

/// Values by hand: 448 is the largest code, 2⁻⁹ the smallest, and ties below 2⁻⁶ go to the even multiple.
#[test]
fn values_over_a_scale_are_in_steps() {
    let steps = [0.24_f32, 0.5, 0.51, 1.5, 2.5, 7.4].map(|steps| 2.0 * steps / 512.0);
    let given = [&[2000.0, -2000.0, 0.6][..], &steps].concat();
    let got = values(divided(heads(&given, [1, 1, 1, 9]), 2.0));
    let expected = [0.0_f32, 0.0, 1.0, 2.0, 2.0, 7.0].map(|steps| steps / 512.0);
    assert_eq!(got, [&[448.0, -448.0, 0.3][..], &expected].concat());
}

/// The power of two by which the cache divides each token and head doesn't change what a layer's scale makes of a value.
#[test]
fn a_layers_scale_is_the_only_one() {
    for (seed, scale) in (1..50_u32).zip([0.003_f32, 0.37, 1.0, 25.0].into_iter().cycle()) {
        let given = noise(64, seed, 8.0);
        let over = values(divided(heads(&given, [1, 1, 8, 8]), scale));
        for (given, over) in given.chunks(8).zip(over.chunks(8)) {
            let got: Vec<f32> = CacheFormat::E4m3.kept(over).map(|x| x * scale).collect();
            let expected: Vec<f32> = given.iter().map(|&x| kept(x, scale)).collect();
            assert_eq!(got, expected, "{scale}");
        }
    }
}

#[test]
fn attention_sees_keys_and_values_times_their_scales() {
    let device = Device::flex();
    let (shape, scales) = ([1, 2, 5, 8], [0.37_f32, 0.011]);
    let [q, k, v] = [1, 2, 3].map(|seed| noise(80, seed, 1.0));
    let mut pages = Pages::paged(1, 1, 16).unwrap();
    let mut cache = KvCache::new(&pages, 2, [8, 8], CacheFormat::E4m3, &device).unwrap();
    let step = pages.extend(&[5], &device).unwrap();
    let mut layer = AttentionCache {
        cache: &mut cache,
        step: &step,
        scales: Some(CacheScales {
            keys: scales[0],
            values: scales[1],
        }),
    };
    let attend = |scale: f32| Attend::new().causal().scale(scale);
    let given = [&q, &k, &v].map(|of| heads(of, shape));
    let got = values(layer.attend(given, &attend(0.3 * scales[0])).unwrap());
    let of = |values: &[f32], scale: f32| {
        let kept: Vec<f32> = values.iter().map(|&x| kept(x, scale)).collect();
        heads(&kept, shape)
    };
    let [k, v] = [of(&k, scales[0]), of(&v, scales[1])];
    let expected = attend(0.3).forward(heads(&q, shape), k, v).unwrap().o;
    for (got, expected) in got.into_iter().zip(values(expected)) {
        let close = (got - expected).abs() <= 1e-4 * expected.abs().max(1.0);
        assert!(close, "{got} {expected}");
    }
}
