//! Conversions of models to FP8.

use burn::module::{Module, Param};
use burn::nn;
use burn::tensor::{Device, Int, Tensor};
use moebius::fp8::{Fp8Conversion, Fp8Format, Granularity, Precision, Quantizer};
use moebius::moe::{Adapted, ExpertKind, Experts, GlamConfig, MoeConfig, MoeLayer};
use moebius::nn::{Linear, LinearConfig};

fn conversion() -> Fp8Conversion {
    Fp8Conversion::new(Quantizer::new(Fp8Format::E4M3, Granularity::Row))
}

#[derive(Module, Debug)]
struct Model {
    embedding: Param<Tensor<2>>,
    first: Linear,
    burns: nn::Linear,
    norm: nn::LayerNorm,
    experts: Vec<MoeLayer>,
}

fn model(device: &Device) -> Model {
    let kinds = [
        ExpertKind::FeedForward,
        ExpertKind::Convolutional { causal: true },
        ExpertKind::ParameterEfficient {
            form: Adapted::Adapter,
            rank: 1,
        },
    ];
    let layer = |kind| MoeConfig::new(8, 16, 2).with_kind(kind).init(device);
    Model {
        embedding: Param::from_tensor(Tensor::ones([3, 8], device)),
        first: LinearConfig::new(8, 8).init(device).unwrap(),
        burns: nn::LinearConfig::new(8, 8).init(device),
        norm: nn::LayerNormConfig::new(8).init(device),
        experts: kinds.map(|kind| layer(kind).unwrap()).into(),
    }
}

/// A derived module needs nothing else to be converted, and the report covers every matrix.
#[test]
fn what_stays_is_told_with_a_reason() {
    let device = Device::flex();
    let (_, report) = conversion().convert(model(&device), &device).unwrap();
    let paths: Vec<_> = report.layers.iter().map(|layer| &layer.path[..]).collect();
    let converted = ["first", "experts.0.experts.w_in", "experts.0.experts.w_out"];
    assert_eq!(paths, converted);
    let left: Vec<_> = report.left_out.iter().map(|left| &left.path[..]).collect();
    let want = [
        "embedding",
        "burns.weight",
        "experts.0.router.weight",
        "experts.1.router.weight",
        "experts.1.experts.w_in",
        "experts.1.experts.w_out",
        "experts.2.router.weight",
        "experts.2.experts.frozen.w_in",
        "experts.2.experts.frozen.w_out",
        "experts.2.experts.adaptation.down",
        "experts.2.experts.adaptation.up",
    ];
    assert_eq!(left, want);
    let reason = |path: &str| {
        let mut left = report.left_out.iter();
        left.find(|left| left.path == path).unwrap().reason.clone()
    };
    assert!(reason("burns.weight").contains("moebius::nn::Linear"));
    assert!(reason("experts.1.experts.w_in").contains("ConvolutionalExperts"));
    assert!(reason("experts.2.experts.frozen.w_in").contains("frozen"));
}

/// Each weight of an expert has its own precision, and dense blocks convert, too.
#[test]
fn precisions_mix() {
    let device = Device::flex();
    let x = Tensor::<1, Int>::arange(0..512, &device).float().sin();
    let x = x.reshape([64, 8]);
    let skip = conversion().skip("experts.w_in");
    let layer = MoeConfig::new(8, 16, 2).with_gated(true);
    let layer = layer.init(&device).unwrap();
    let float = layer.forward(x.clone()).unwrap().y;
    let (layer, report) = skip.convert(layer, &device).unwrap();
    assert_eq!(report.skipped, ["experts.w_in"]);
    let Experts::FeedForward(experts) = &layer.experts else {
        panic!("they are feed-forward");
    };
    let precisions = [&experts.w_in, &experts.w_out].map(|weight| weight.precision());
    assert_eq!(precisions, [Precision::Float, Precision::Fp8]);
    let near = |a: Tensor<2>, b: Tensor<2>| {
        let distance: f32 = (a - b.clone()).abs().max().into_scalar();
        let largest: f32 = b.abs().max().into_scalar();
        assert!(distance < 0.1 * largest, "{distance} of {largest}");
    };
    near(layer.forward(x.clone()).unwrap().y, float);
    let blocks = GlamConfig::new(8, 16, 2).init(1, &device).unwrap();
    let dense = blocks[0].forward(x.clone()).unwrap().y;
    let (blocks, report) = conversion().convert(blocks, &device).unwrap();
    assert_eq!(report.layers.len(), 2);
    near(blocks[0].forward(x).unwrap().y, dense);
}
