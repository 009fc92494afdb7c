use super::*;
use crate::ErrorKind;
use crate::fp8::{Fp8Format, Granularity, HostScales, decode_host, encode_host, fake_quantize};
use burn::tensor::{Device, TensorData};
use moebius_ops::fp8::Overflow;

const SHAPE: [usize; 2] = [5, 70];

/// Values of many magnitudes; in the first row one that isn't finite.
fn values() -> Vec<f32> {
    let value = |at: usize| {
        let at = at as f32;
        (at * 0.7).sin() * (at * 0.13).cos().exp()
    };
    let mut values: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(value).collect();
    values[3] = f32::INFINITY;
    values[2 * SHAPE[1]..3 * SHAPE[1]].fill(0.0);
    values
}

fn tensor() -> Tensor<2> {
    Tensor::from_data(TensorData::new(values(), SHAPE), &Device::flex())
}

fn quantizer(granularity: Granularity) -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, granularity).with_scales(ScaleRule::LeastSquares)
}

fn scales(x: Tensor<2>, quantizer: &Quantizer) -> Vec<f32> {
    match Fp8Tensor::quantize(x, quantizer).unwrap().to_scales() {
        Ok(HostScales::F32(scales)) => scales,
        other => panic!("{other:?}"),
    }
}

/// Σ (code · scale − x)² of a block in f64.
fn error(block: &[f32], scale: f32) -> f64 {
    let apart = |x: &f32| {
        let code = encode_host(x / scale, Fp8Format::E4M3, Overflow::Saturate);
        f64::from(decode_host(code, Fp8Format::E4M3) * scale) - f64::from(*x)
    };
    block.iter().map(|x| apart(x).powi(2)).sum()
}

#[test]
fn each_block_has_the_best_of_the_scales_that_are_tried() {
    let blocks = Granularity::Block {
        rows: 1,
        columns: 32,
    };
    let largest = quantizer(blocks).with_scales(ScaleRule::Largest);
    let (found, largest) = (
        scales(tensor(), &quantizer(blocks)),
        scales(tensor(), &largest),
    );
    let values = values();
    let rows = values.chunks(SHAPE[1]);
    // The last block of a row is cut short.
    let blocks: Vec<&[f32]> = rows.flat_map(|row| row.chunks(32)).collect();
    assert_eq!([found.len(), largest.len()], [blocks.len(); 2]);
    let mut larger = 0;
    for ((block, found), largest) in blocks.iter().zip(found).zip(largest) {
        if block.iter().any(|x| !x.is_finite()) || block.iter().all(|x| *x == 0.0) {
            assert_eq!(found, largest);
            continue;
        }
        let tried = (0..TRIED).map(|i| largest * (i as f32 / TRIED as f32).exp2());
        let least = tried
            .map(|scale| error(block, scale))
            .fold(f64::MAX, f64::min);
        let got = error(block, found);
        assert!(got <= least * 1.0001, "{got} instead of {least}");
        larger += usize::from(found > largest);
    }
    assert!(larger > 5, "{larger}");
}

#[test]
fn larger_blocks_and_fake_quantisation_follow() {
    for granularity in [
        Granularity::Tensor,
        Granularity::Row,
        Granularity::of_blocks(2, 48),
    ] {
        let x = tensor().slice([1..5, 0..70]);
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
        assert!(error(&best) <= error(&plain), "{granularity:?}");
        let faked = fake_quantize(x.clone(), &quantizer, None).unwrap();
        let decoded = best.dequantize(FloatDType::F32).unwrap().reshape(x.dims());
        faked.into_data().assert_eq(&decoded.into_data(), true);
    }
}

#[test]
fn powers_of_two_have_nothing_to_try() {
    let refused = Fp8Tensor::quantize(tensor(), &quantizer(Granularity::Mx));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Shape);
}
