//! Models with FP8 weights: experts, conversion, the engine, and the memory that is saved.

use crate::Outcome;
use crate::fp8_linear::{BLOCK, bits, e4m3, normal};
use crate::moe_layer::floats;
use burn::module::{Module, Param};
use burn::nn::{self, LinearConfig};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use moebius::fp8::{
    Activations, Converted, Fp8Conversion, Fp8Matrices, Granularity, InferenceEngine, Linear,
};
use moebius::moe::experts::{FeedForwardExperts, Fp8Experts};
use moebius::moe::{Activation, Experts, MoeConfig, MoeLayer, SharedExpertConfig, SharedWeights};
use moebius::{ErrorKind, memory_in_use};
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

/// The same layer with the decoded weights in f32.
fn decoded(layer: &MoeLayer) -> MoeLayer {
    let float = |experts: &Fp8Experts| {
        let weights = |w: &Fp8Matrices| {
            Param::from_tensor(w.to_tensor().unwrap().dequantize(FloatDType::F32).unwrap())
        };
        FeedForwardExperts {
            w_in: weights(&experts.w_in),
            b_in: experts.b_in.clone(),
            w_out: weights(&experts.w_out),
            b_out: experts.b_out.clone(),
        }
    };
    let mut layer = layer.clone();
    if let Experts::Fp8(experts) = &layer.experts {
        layer.experts = Experts::FeedForward(float(experts));
    }
    if let Some(shared) = &mut layer.shared
        && let SharedWeights::Fp8(experts) = &shared.experts
    {
        shared.experts = SharedWeights::Float(float(experts));
    }
    layer
}

fn moe(gated: bool, device: &Device) -> MoeLayer {
    MoeConfig::new(96, 70, 6)
        .with_gated(gated)
        .with_activation(if gated {
            Activation::Silu
        } else {
            Activation::Gelu
        })
        .with_bias(!gated)
        .with_shared(gated.then(|| SharedExpertConfig::new(40)))
        .init(device)
        .unwrap()
}

/// A converted layer is the layer with the decoded weights: to the last bit on kernels.
pub(crate) fn experts(target: &Target) -> Outcome {
    let device = target.burn();
    for gated in [false, true] {
        for granularity in [Granularity::Row, BLOCK, Granularity::Mx] {
            let mut layer = moe(gated, &device);
            let conversion = Fp8Conversion::new(e4m3(granularity));
            let done = layer.convert_to_fp8("moe", &conversion).unwrap();
            assert_eq!(done.len(), if gated { 4 } else { 2 });
            for converted in done {
                let Converted::Now(report) = converted else {
                    panic!("{converted:?}");
                };
                let error = report.relative_error;
                assert!((0.01..0.04).contains(&error), "{report:?}");
            }
            for tokens in [1, 50] {
                let x = normal([tokens, 96], &device);
                let got = layer.forward(x.clone()).unwrap().y;
                let want = decoded(&layer).forward(x).unwrap().y;
                if target.client().is_some() {
                    assert_eq!(bits(got), bits(want), "{granularity:?}");
                } else {
                    let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
                    assert_close("y", &floats(got), &want, 1e-5);
                }
            }
        }
    }
    Outcome::Ran
}

pub(crate) fn experts_independent_of_the_batch(target: &Target) -> Outcome {
    let device = target.burn();
    for source in [Activations::Float, Activations::Dynamic(Granularity::Row)] {
        let mut layer = moe(true, &device);
        let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(source);
        layer.convert_to_fp8("moe", &conversion).unwrap();
        let x = normal([60, 96], &device);
        let all = floats(layer.forward(x.clone()).unwrap().y);
        for rows in [1, 7, 33] {
            let some = layer.forward(x.clone().narrow(0, 0, rows)).unwrap().y;
            let what = format!("{rows} rows, {source:?}");
            target.assert_same_rows(&what, &floats(some), &all[..rows * 96]);
        }
    }
    Outcome::Ran
}

/// Tokens and hidden rows are rounded; a scale for several rows is refused.
pub(crate) fn experts_with_rounded_activations(target: &Target) -> Outcome {
    let device = target.burn();
    let float = moe(true, &device);
    let x = normal([40, 96], &device);
    let want: Vec<f64> = floats(float.forward(x.clone()).unwrap().y)
        .into_iter()
        .map(f64::from)
        .collect();
    let mut engine = InferenceEngine::new(vec![float.clone()], &device);
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    engine.convert(&conversion).unwrap();
    engine
        .calibrate([x.clone()], |model, x| model[0].forward(x).map(drop))
        .unwrap();
    let y = engine
        .infer(|model| model[0].forward(x.clone()))
        .unwrap()
        .unwrap()
        .y;
    assert_close("static", &floats(y), &want, 0.08);
    let mut dynamic = float.clone();
    let source = Activations::Dynamic(Granularity::Row);
    let conversion = Fp8Conversion::new(e4m3(BLOCK));
    let rows = conversion.clone().with_activations(source);
    dynamic.convert_to_fp8("moe", &rows).unwrap();
    assert_close(
        "dynamic",
        &floats(dynamic.forward(x).unwrap().y),
        &want,
        0.08,
    );
    let source = Activations::Dynamic(Granularity::Tensor);
    let error = float
        .clone()
        .convert_to_fp8("moe", &conversion.with_activations(source))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    Outcome::Ran
}

#[derive(Module, Debug)]
struct Network {
    layers: Vec<Linear>,
    moe: Option<MoeLayer>,
    head: Linear,
}

moebius::fp8_module!(Network { layers, moe, head });

fn network(device: &Device) -> Network {
    let linear = |k, n| Linear::from(LinearConfig::new(k, n).init(device));
    Network {
        layers: vec![linear(96, 96), linear(96, 96)],
        moe: Some(moe(true, device)),
        head: linear(96, 10),
    }
}

impl Network {
    fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>, moebius::Error> {
        let mut x = x;
        for layer in &self.layers {
            x = layer.forward(x)?;
        }
        if let Some(moe) = &self.moe {
            x = moe.forward(x)?.y;
        }
        self.head.forward(x)
    }
}

/// In place or as a copy, without the layers that are to stay; what comes of each is reported.
pub(crate) fn conversion(target: &Target) -> Outcome {
    let device = target.burn();
    // Recording devices hold models that have been trained.
    let model = network(&device.clone().autodiff());
    let conversion = Fp8Conversion::new(e4m3(BLOCK))
        .skip("head")
        .skip("layers.1*");
    let (copy, report) = conversion.converted(&model, &device).unwrap();
    assert!(matches!(model.layers[0], Linear::Float(_)));
    let paths: Vec<&str> = report
        .layers
        .iter()
        .map(|layer| layer.path.as_str())
        .collect();
    let moe = [
        "experts.w_in",
        "experts.w_out",
        "shared.w_in",
        "shared.w_out",
    ];
    let mut want = vec!["layers.0".to_string()];
    want.extend(moe.map(|name| format!("moe.{name}")));
    assert_eq!(paths, want);
    assert_eq!(report.skipped, ["layers.1", "head"]);
    assert!(report.worst().unwrap().relative_error < 0.04);
    let plain = model.clone().valid();
    let x = normal([12, 96], &device);
    let want = plain.forward(x.clone()).unwrap();
    let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
    assert_close("y", &floats(copy.valid().forward(x).unwrap()), &want, 0.08);
    Outcome::Ran
}

/// Steps in their order, and errors out of it.
pub(crate) fn engine(target: &Target) -> Outcome {
    let device = target.burn();
    let x = || normal([12, 96], &device);
    let mut engine = InferenceEngine::new(network(&device), &device);
    let shape = |error: moebius::Error| assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    shape(
        engine
            .infer(|model| model.forward(x()).map(drop))
            .unwrap_err(),
    );
    shape(engine.memory().unwrap_err());
    shape(engine.prepare().unwrap_err());
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    engine.convert(&conversion).unwrap();
    shape(
        engine
            .infer(|model| model.forward(x()).map(drop))
            .unwrap_err(),
    );
    shape(engine.prepare().unwrap_err());
    let none: [Tensor<2>; 0] = [];
    shape(
        engine
            .calibrate(none, |model, x| model.forward(x).map(drop))
            .unwrap_err(),
    );
    engine
        .calibrate([x(), x() * 0.5], |model, x| model.forward(x).map(drop))
        .unwrap();
    let y = bits(engine.infer(|model| model.forward(x())).unwrap().unwrap());
    assert_eq!(
        bits(engine.infer(|model| model.forward(x())).unwrap().unwrap()),
        y
    );
    let [before, after] = engine.memory().unwrap().weight_bytes;
    assert!(after < before, "{after} bytes of {before}");
    Outcome::Ran
}

/// Memory that the device's allocator holds: at most 0.27 of f32, scales and padding included.
pub(crate) fn device_memory(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no allocator".into());
    };
    let device = target.burn();
    client.memory_cleanup().unwrap();
    let empty = memory_in_use(&device).unwrap().unwrap();
    let linear = |_| -> Linear {
        let weight = Tensor::random([1024, 1024], Distribution::Normal(0.0, 1.0), &device);
        let weight = Param::from_tensor(weight);
        nn::Linear { weight, bias: None }.into()
    };
    let mut model: Vec<Linear> = (0..4).map(linear).collect();
    let float = memory_in_use(&device).unwrap().unwrap() - empty;
    for granularity in [Granularity::Row, BLOCK, Granularity::Mx] {
        let (copy, report) = Fp8Conversion::new(e4m3(granularity))
            .converted(&model, &device)
            .unwrap();
        let [before, after] = report.device_bytes.unwrap();
        let share = (after - before) as f64 / float as f64;
        assert!(share <= 0.27, "{granularity:?}: {share}");
        drop(copy);
    }
    Fp8Conversion::new(e4m3(BLOCK))
        .convert(&mut model, &device)
        .unwrap();
    let share = (memory_in_use(&device).unwrap().unwrap() - empty) as f64 / float as f64;
    assert!(share <= 0.27, "in place: {share}");
    Outcome::Ran
}

/// A copy that is calibrated anew leaves the original as it is; so does another conversion.
pub(crate) fn copies_calibrate_apart(target: &Target) -> Outcome {
    let device = target.burn();
    let x = || normal([12, 96], &device);
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    let mut engine = InferenceEngine::new(network(&device), &device);
    engine.convert(&conversion).unwrap();
    engine
        .calibrate([x()], |model, x| model.forward(x).map(drop))
        .unwrap();
    let want = bits(engine.infer(|model| model.forward(x())).unwrap().unwrap());
    let mut copy = InferenceEngine::new(engine.model().clone(), &device);
    let report = copy.convert(&conversion).unwrap();
    assert!(report.layers.is_empty());
    assert_eq!(report.already.len(), 5, "{:?}", report.already);
    copy.calibrate([x() * 7.0], |model, x| model.forward(x).map(drop))
        .unwrap();
    let other = bits(copy.infer(|model| model.forward(x())).unwrap().unwrap());
    assert_ne!(other, want, "another scale, another result");
    assert_eq!(
        bits(engine.infer(|model| model.forward(x())).unwrap().unwrap()),
        want
    );
    // Layers in FP8 take the activations that are asked for.
    let dynamic = Activations::Dynamic(Granularity::Row);
    let dynamic = Fp8Conversion::new(e4m3(BLOCK)).with_activations(dynamic);
    let (model, _) = dynamic.converted(engine.model(), &device).unwrap();
    assert_ne!(bits(model.forward(x()).unwrap()), want);
    // A converted model needs no other conversion.
    let mut loaded = InferenceEngine::new(engine.into_model(), &device);
    loaded.prepare().unwrap();
    assert_eq!(
        bits(loaded.infer(|model| model.forward(x())).unwrap().unwrap()),
        want
    );
    Outcome::Ran
}

/// Parts of a layer are skipped by their paths, patterns without a layer are named, and what can't
/// be is refused before anything changes.
pub(crate) fn skips_and_refusals(target: &Target) -> Outcome {
    let device = target.burn();
    let mut model = network(&device);
    let conversion = Fp8Conversion::new(e4m3(BLOCK))
        .skip("moe.shared")
        .skip("haed");
    let report = conversion.convert(&mut model, &device).unwrap();
    assert_eq!(report.skipped, ["moe.shared"]);
    assert_eq!(report.unused_patterns, ["haed"]);
    let shared = model.moe.unwrap().shared.unwrap();
    assert!(matches!(shared.experts, SharedWeights::Float(_)));
    for activations in [
        Activations::Delayed { history: 0 },
        Activations::Delayed { history: 1 << 60 },
        Activations::Dynamic(Granularity::Block {
            rows: 0,
            columns: 128,
        }),
    ] {
        let mut model = network(&device);
        let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(activations);
        let error = conversion.convert(&mut model, &device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
        assert!(matches!(model.layers[0], Linear::Float(_)));
    }
    Outcome::Ran
}
