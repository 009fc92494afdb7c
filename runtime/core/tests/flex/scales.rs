//! FP8 scales with the least squared error.

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use moebius::ErrorKind;
use moebius::fp8::{
    Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity, Quantizer, ScaleRule, fake_quantize,
};

const SHAPE: [usize; 2] = [5, 70];

/// Values of many magnitudes.
fn values() -> Vec<f32> {
    let value = |at: usize| {
        let at = at as f32;
        (at * 0.7).sin() * (at * 0.13).cos().exp()
    };
    (0..SHAPE[0] * SHAPE[1]).map(value).collect()
}

fn tensor() -> Tensor<2> {
    Tensor::from_data(TensorData::new(values(), SHAPE), &Device::flex())
}

fn quantizer(granularity: Granularity) -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, granularity).with_scales(ScaleRule::LeastSquares)
}

#[test]
fn larger_blocks_and_fake_quantisation_follow() {
    for granularity in [
        Granularity::Tensor,
        Granularity::Row,
        Granularity::of_blocks(2, 48),
    ] {
        let x = tensor();
        let quantizer = quantizer(granularity);
        let largest = quantizer.with_scales(ScaleRule::Largest);
        let best = Fp8Tensor::quantize(x.clone(), &quantizer).unwrap();
        let error = |codes: &Fp8Tensor| {
            codes
                .relative_error(x.clone())
                .unwrap()
                .into_scalar::<f32>()
        };
        let plain = Fp8Tensor::quantize(x.clone(), &largest).unwrap();
        assert!(error(&best) < error(&plain), "{granularity:?}");
        let faked = fake_quantize(x.clone(), &quantizer, None).unwrap();
        let decoded = best.dequantize(FloatDType::F32).unwrap().reshape(x.dims());
        faked.into_data().assert_eq(&decoded.into_data(), true);
    }
}

#[test]
fn values_that_would_saturate_are_refused() {
    let refused = Fp8Tensor::quantize(tensor(), &quantizer(Granularity::Row).with_margin(-1));
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("margin"), "{error}");
}

#[test]
fn a_graph_has_no_part_in_it() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data(TensorData::new(values(), SHAPE), &device).require_grad();
    let [tracked, plain] =
        [x, tensor()].map(|x| Fp8Tensor::quantize(x, &quantizer(Granularity::Row)).unwrap());
    assert_eq!(tracked.to_scales().unwrap(), plain.to_scales().unwrap());
}

#[test]
fn powers_of_two_have_nothing_to_try() {
    let refused = Fp8Tensor::quantize(tensor(), &quantizer(Granularity::Mx));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);
}

/// A layout that no memory holds has a number of bytes all the same: more than 32 bits count, and the largest number for more than 64 bits do.
#[test]
fn bytes_of_large_layouts_do_not_wrap() {
    let scheme = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    };
    let bytes = |shape| Fp8Layout { shape, scheme }.weight_bytes(2);
    // A projection's rows fill panels of 64; a scale for each of the 2 * 70 rows.
    assert_eq!(bytes([3, 140, 42]), 3 * (2 * 128 * 44 + 4 * 140));
    let (experts, edge) = (1 << 10, 1_u64 << 12);
    let codes = experts * edge * edge;
    let shape = [experts, edge, edge].map(|extent| extent as usize);
    assert_eq!(bytes(shape), codes + 4 * experts * edge);
    let most = usize::try_from(u32::MAX).unwrap();
    assert_eq!(bytes([most; 3]), u64::MAX);
}
