//! Layers whose products use a device's FP8 instructions, against the same layers without: on real or emulated cards that have
//! the instructions, as in [`crate::fp8_mma`].

use crate::fp8_linear::{BLOCK, OF_ROW, e4m3, normal};
use crate::tensors::{bits, doubles, floats};
use burn::tensor::Device;
use moebius::fp8::{
    ActivationScaling, Activations, Fp8Conversion, Fp8Tensor, Granularity, Instructions,
};
use moebius::moe::{Activation, MoeConfig, MoeLayer, SharedExpertConfig};
use moebius::nn::Linear;
use moebius::{Error, ErrorKind};
use moebius_shaders::grouped_gemm::Variant;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

/// Pairs of scale granularities, of activations and of weights.
const SCALES: [[Granularity; 2]; 2] = [[Granularity::Row, Granularity::Row], [OF_ROW, BLOCK]];

/// Largest relative L2 error of one product: an instruction may keep only 13 bits of a sum.
const ONE_PRODUCT: f64 = 2e-3;

/// Largest relative L2 error of two chained products: some hidden values are rounded to the other neighbour.
const TWO_PRODUCTS: f64 = 1e-2;

/// A linear layer with FP8 weights \[70, 257\] and a bias.
fn linear([x, w]: [Granularity; 2], device: &Device) -> Linear {
    let weight = Fp8Tensor::quantize(normal([70, 257], device), &e4m3(w)).unwrap();
    let activations = ActivationScaling::new(Activations::Dynamic(x), device);
    let linear = Linear::from_fp8(weight, Some(normal([70], device))).unwrap();
    linear.with_activations(activations).unwrap()
}

/// Checks that products of codes are close to those of the decoded values, and that conversion instructions change no bit.
pub(crate) fn linear_layers(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    for scales in SCALES {
        let linear = linear(scales, &device);
        let x = normal([2, 9, 257], &device);
        let want = linear.forward(x.clone()).unwrap();
        let by = |instructions| {
            let linear = linear.clone().with_unproven_instructions(instructions);
            linear.unwrap().forward(x.clone())
        };
        let what = format!("{scales:?}");
        let got = by(Instructions::Conversion)?;
        assert_eq!(bits(got), bits(want.clone()), "{what}");
        let got = floats(by(Instructions::Matrix)?);
        assert_close(&what, &got, &doubles(want), ONE_PRODUCT);
    }
    Ok(())
}

fn moe(gated: bool, inter: usize, device: &Device) -> MoeLayer {
    MoeConfig::new(96, inter, 6)
        .with_gated(gated)
        .with_activation(if gated {
            Activation::Silu
        } else {
            Activation::Gelu
        })
        .with_bias(!gated)
        .with_shared(gated.then(|| SharedExpertConfig::new(64)))
        .init(device)
        .unwrap()
}

fn converted(layer: MoeLayer, [x, w]: [Granularity; 2], by: Instructions) -> MoeLayer {
    let conversion = Fp8Conversion::new(e4m3(w))
        .with_activations(Activations::Dynamic(x))
        .with_unproven_instructions(by);
    let device = layer.router.matrix().unwrap().device();
    conversion.convert(layer, &device).unwrap().0
}

/// Checks gated experts with a shared one, and ungated experts with biases, for few tokens and many.
pub(crate) fn experts(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    let check = |(gated, inter): (bool, usize), scales: [Granularity; 2], tokens: usize| {
        let layer = moe(gated, inter, &device);
        let x = normal([tokens, 96], &device);
        let by = |instructions| {
            let layer = converted(layer.clone(), scales, instructions);
            layer.forward(x.clone()).map(|output| output.y)
        };
        let want = by(Instructions::None).unwrap();
        let what = format!("{scales:?}, gated {gated}, {tokens} tokens");
        let got = by(Instructions::Conversion)?;
        assert_eq!(bits(got), bits(want.clone()), "{what}");
        let got = floats(by(Instructions::Matrix)?);
        assert_close(&what, &got, &doubles(want), TWO_PRODUCTS);
        Ok::<(), Error>(())
    };
    for kind in [(true, 128), (false, 70)] {
        for scales in SCALES {
            for tokens in [1, 50] {
                check(kind, scales, tokens)?;
            }
        }
    }
    Ok(())
}

/// Checks that problems which the instructions can't take are refused, on a device that has them.
pub(crate) fn refusals(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    let scales = SCALES[0];
    let x = normal([50, 96], &device);
    let by = Instructions::Matrix;
    let layer = converted(moe(true, 128, &device), scales, by);
    layer.forward(x.clone())?;
    let other = layer.with_variant(Some(Variant::Gemv));
    let error = assert_refused(ErrorKind::Unsupported, other.forward(x.clone()));
    assert!(error.contains("64 rows"), "{error}");
    let odd = converted(moe(true, 70, &device), scales, by);
    let error = assert_refused(ErrorKind::Shape, odd.forward(x));
    assert!(error.contains("multiple of 64"), "{error}");
    let float = linear(scales, &device)
        .with_activations(ActivationScaling::new(Activations::Float, &device));
    let float = float.unwrap().with_unproven_instructions(by).unwrap();
    assert_refused(ErrorKind::Config, float.forward(normal([2, 257], &device)));
    let none = float.weight.values().unwrap().unsqueeze::<3>();
    let none = moebius::fp8::Weight::from(burn::module::Param::from_tensor(none));
    assert_refused(ErrorKind::State, none.with_unproven_instructions(by));
    Ok(())
}
