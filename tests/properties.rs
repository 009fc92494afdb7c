//! Random problems for the kernels on the CubeCL CPU, against the oracles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use burn::tensor::{FloatDType, Tensor, TensorData};
use moebius::Device;
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Overflow, Quantizer, decode, encode};
use moebius::moe::{RouteConfig, Score, route};
use moebius_ops::fp8::{decode_host, encode_host};
use moebius_ops::permute::{Capacity, Problem};
use moebius_ops::routing;
use moebius_shaders::permute::{self, SortBuffers, TILE_WORDS, capacity};
use moebius_tests::target::{download_u32, poisoned, upload_f32, upload_u32};
use moebius_tests::tolerance::relative_error;
use proptest::prelude::*;

/// Logits on a coarse grid, so that ties are common.
fn logits() -> impl Strategy<Value = (usize, usize, Vec<f32>)> {
    (1usize..40, 1usize..17).prop_flat_map(|(tokens, experts)| {
        let grid = prop::collection::vec(
            (-12i8..12).prop_map(|i| f32::from(i) / 4.0),
            tokens * experts,
        );
        (Just(tokens), Just(experts), grid)
    })
}

/// Keys of slots, with E for slots without an expert, and weights with ties.
fn slots() -> impl Strategy<Value = (usize, Vec<u32>, Vec<f32>)> {
    (1usize..20, 1usize..700).prop_flat_map(|(experts, slots)| {
        let keys = prop::collection::vec(0..=experts as u32, slots);
        let weights = prop::collection::vec((0u8..16).prop_map(|i| f32::from(i) / 16.0), slots);
        (Just(experts), keys, weights)
    })
}

/// A stack of matrices whose magnitudes vary by powers of two, and a granularity.
fn stacks() -> impl Strategy<Value = ([usize; 3], Vec<f32>, Granularity)> {
    let granularity = prop_oneof![
        Just(Granularity::Tensor),
        Just(Granularity::Row),
        Just(Granularity::Mx),
        (1usize..9, 1usize..70).prop_map(|(rows, columns)| Granularity::Block { rows, columns }),
    ];
    let value = (-1.0f32..1.0, -20i32..20).prop_map(|(unit, power)| unit * 2f32.powi(power));
    ([1usize..4, 1usize..12, 1usize..150], granularity).prop_flat_map(
        move |(shape, granularity)| {
            let values = prop::collection::vec(value.clone(), shape.iter().product::<usize>());
            (Just(shape), values, Just(granularity))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn routing_agrees_with_the_oracle(
        (tokens, experts, logits) in logits(), k in 1usize..9, sigmoid: bool, renormalize: bool,
    ) {
        let device = moebius::open(&Device::Cpu).unwrap();
        let score = if sigmoid { Score::Sigmoid } else { Score::Softmax };
        let top_k = k.min(experts);
        let config = RouteConfig { top_k, score, renormalize, ..RouteConfig::default() };
        let data = TensorData::new(logits.clone(), [tokens, experts]);
        let got = route(Tensor::from_data(data, &device), None, &config).unwrap();
        let problem = routing::Problem::new(tokens, experts, top_k).unwrap();
        let want = routing::reference(&problem.with_score(score, renormalize), &logits, None);
        let indices: Vec<u32> = got.indices.into_data().iter::<i64>().map(|i| i as u32).collect();
        prop_assert_eq!(indices, want.indices);
        let weights: Vec<f32> = got.weights.into_data().iter().collect();
        prop_assert!(relative_error(&weights, &want.weights) < 1e-5);
        if renormalize {
            for row in weights.chunks(top_k) {
                prop_assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn sorting_is_stable_and_the_drop_rule_exact(
        (experts, keys, weights) in slots(), factor in 0.05f64..2.0,
    ) {
        let opened = moebius_device::open(&Device::Cpu).unwrap();
        let client = opened.client().unwrap();
        let problem = Problem::new(keys.len(), experts, 4).unwrap();
        let buffers = SortBuffers {
            keys: upload_u32(&client, &keys),
            counts: poisoned(&client, permute::counts(&problem)),
            offsets: poisoned(&client, experts + 1),
            dropped: poisoned(&client, 1),
            order: poisoned(&client, keys.len()),
            positions: poisoned(&client, keys.len()),
            tiles: poisoned(&client, TILE_WORDS * problem.max_tiles()),
        };
        permute::launch(&client, &permute::plan(problem, &opened.capability).unwrap(), &buffers);
        let want = moebius_ops::permute::reference(&keys, experts);
        prop_assert_eq!(download_u32(&client, buffers.order.clone(), keys.len()), want.order);
        prop_assert_eq!(download_u32(&client, buffers.offsets.clone(), experts + 1), want.offsets);
        prop_assert_eq!(download_u32(&client, buffers.positions, keys.len()), want.positions);

        let limit = Capacity::new(factor, 1).unwrap();
        let limits = moebius_ops::permute::capacities_reference(&limit, keys.len(), experts, None, None);
        let kept = poisoned(&client, keys.len());
        let rule = capacity::CapacityBuffers {
            order: buffers.order,
            offsets: buffers.offsets,
            weights: upload_f32(&client, &weights),
            capacities: upload_u32(&client, &limits),
            keys: kept.clone(),
        };
        capacity::launch(&client, &capacity::plan(problem, &opened.capability).unwrap(), rule);
        let want = moebius_ops::permute::capacity::reference(&keys, &weights, &limits);
        prop_assert_eq!(download_u32(&client, kept, keys.len()), want);
    }

    #[test]
    fn values_come_back_close_and_codes_unchanged((shape, x, granularity) in stacks(), e5m2: bool) {
        let device = moebius::open(&Device::Cpu).unwrap();
        // The relative error is half a unit in the last place, and the least error half the smallest subnormal.
        let (format, relative, least) = if e5m2 {
            (Fp8Format::E5M2, 1.0 / 8.0, 2f32.powi(-17))
        } else {
            (Fp8Format::E4M3, 1.0 / 16.0, 2f32.powi(-10))
        };
        let quantizer = Quantizer::new(format, granularity);
        let source = Tensor::<3>::from_data(TensorData::new(x.clone(), shape), &device);
        let packed = Fp8Tensor::quantize(source, &quantizer).unwrap();
        let values = packed.dequantize(FloatDType::F32).unwrap();
        let y: Vec<f32> = values.clone().try_into_vec_as().unwrap();
        // Every scale is at most the one of the largest magnitude, rounded up to a power of two.
        let amax = x.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
        let scale = if amax == 0.0 { 1.0 } else { 2.0 * amax / format.max() };
        for (x, y) in x.iter().zip(y) {
            let most = (x.abs() * relative).max(scale * least) * 1.001;
            prop_assert!((x - y).abs() <= most, "{x:e} became {y:e}, by more than {most:e}");
        }
        let again = Fp8Tensor::quantize_by(values, packed.scales().clone(), &quantizer).unwrap();
        prop_assert_eq!(again.to_codes().unwrap(), packed.to_codes().unwrap());
    }

    #[test]
    fn casts_agree_with_the_host(bits: Vec<u32>, e5m2: bool, saturate: bool) {
        prop_assume!(!bits.is_empty());
        let device = moebius::open(&Device::Cpu).unwrap();
        let format = if e5m2 { Fp8Format::E5M2 } else { Fp8Format::E4M3 };
        let overflow = if saturate { Overflow::Saturate } else { Overflow::Ieee };
        let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
        let x = Tensor::<1>::from_data(TensorData::from(values.as_slice()), &device);
        let words = encode(x, format, overflow).unwrap();
        let got: Vec<f32> = decode(words, values.len(), format).unwrap().into_data().iter().collect();
        for (value, got) in values.iter().zip(got) {
            let want = decode_host(encode_host(*value, format, overflow), format);
            prop_assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()));
        }
    }
}
