//! Layers with FP8 weights against the same layers with the decoded weights, and the way to inference.

use crate::Outcome;
use crate::moe_layer::floats;
use burn::module::{Module, Param};
use burn::nn::{self, LinearConfig};
use burn::store::ModuleRecord;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use moebius::fp8::{
    ActivationScaling, Activations, Fp8Conversion, Fp8Format, Fp8Linear, Fp8Tensor, Granularity,
    InferenceEngine, Linear, Quantizer, fake_quantize,
};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{Activation, Experts, MoeConfig, MoeLayer, SharedExpertConfig, SharedWeights};
use moebius::{ErrorKind, memory_in_use};
use moebius_model::weights::{Reader, Unscaled};
use moebius_shaders::Element;
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};
use std::path::Path;

const BLOCK: Granularity = Granularity::Block {
    rows: 128,
    columns: 128,
};

fn e4m3(granularity: Granularity) -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, granularity)
}

fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut rng = Rng::new(shape.iter().sum::<usize>() as u64);
    let values = rng.vec(shape.iter().product(), 2.0);
    Tensor::<1>::from_floats(values.as_slice(), device).reshape(shape)
}

fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    floats(tensor).into_iter().map(f32::to_bits).collect()
}

/// A layer \[n, k\] with a bias, and the weights and bias that it computes with.
fn layer(
    device: &Device,
    [n, k]: [usize; 2],
    quantizer: Quantizer,
) -> (Fp8Linear, Vec<f32>, Vec<f32>) {
    let weight = Fp8Tensor::quantize(normal([n, k], device), &quantizer).unwrap();
    let decoded = floats(weight.dequantize(FloatDType::F32).unwrap());
    let bias = normal([n], device);
    let linear = Fp8Linear::new(weight, Some(bias.clone())).unwrap();
    (linear, decoded, floats(bias))
}

/// x · Wᵀ + b in f64.
fn reference(x: &[f32], w: &[f32], bias: &[f32]) -> Vec<f64> {
    let k = w.len() / bias.len();
    let dot = |x: &[f32], w: &[f32]| -> f64 {
        let products = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w));
        products.sum()
    };
    let row = |x: &[f32]| -> Vec<f64> {
        let columns = w.chunks(k).zip(bias);
        columns.map(|(w, b)| dot(x, w) + f64::from(*b)).collect()
    };
    x.chunks(k).flat_map(row).collect()
}

/// Every kind of scale, few and many rows, sizes that are no multiple of anything.
pub(crate) fn values(target: &Target) -> Outcome {
    let device = target.burn();
    for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
        for granularity in [
            Granularity::Tensor,
            Granularity::Row,
            BLOCK,
            Granularity::Mx,
        ] {
            for [m, n, k] in [[1, 1, 1], [1, 70, 131], [7, 64, 64], [40, 129, 257]] {
                let quantizer = Quantizer::new(format, granularity);
                let (linear, w, bias) = layer(&device, [n, k], quantizer);
                let x = normal([m, k], &device);
                let got = floats(linear.forward(x.clone()).unwrap());
                let want = reference(&floats(x), &w, &bias);
                let what = format!("{format:?} {granularity:?} {m} x {n} x {k}");
                assert_close(&what, &got, &want, rel_l2(Element::F32));
            }
        }
    }
    Outcome::Ran
}

/// x of any rank, and none.
pub(crate) fn ranks(target: &Target) -> Outcome {
    let device = target.burn();
    let (linear, ..) = layer(&device, [10, 12], e4m3(Granularity::Row));
    let x = normal([2, 3, 4, 12], &device);
    let y = bits(linear.forward(x.clone()).unwrap());
    let flat = linear.forward(x.clone().reshape([24, 12])).unwrap();
    assert_eq!(bits(flat), y);
    let one = linear
        .forward(x.reshape([24 * 12]).narrow(0, 0, 12))
        .unwrap();
    assert_eq!(one.dims(), [10]);
    assert_eq!(bits(one), y[..10]);
    let none = linear
        .forward(Tensor::<2>::zeros([0, 12], &device))
        .unwrap();
    assert_eq!(none.dims(), [0, 10]);
    Outcome::Ran
}

/// A row's result doesn't depend on the others, whichever path their number takes.
pub(crate) fn independent_of_the_batch(target: &Target) -> Outcome {
    let device = target.burn();
    for granularity in [Granularity::Row, BLOCK] {
        let (linear, ..) = layer(&device, [100, 200], e4m3(granularity));
        let x = normal([70, 200], &device);
        let all = bits(linear.forward(x.clone()).unwrap());
        for rows in [1, 2, 5, 6, 7, 9, 64] {
            let some = linear.forward(x.clone().narrow(0, 0, rows)).unwrap();
            assert_eq!(bits(some), all[..rows * 100], "{rows} rows");
        }
    }
    Outcome::Ran
}

/// Products of codes are those of what they decode to; a typed error where there are none.
pub(crate) fn unproven_instructions(target: &Target) -> Outcome {
    let device = target.burn();
    let of_row = Granularity::Block {
        rows: 1,
        columns: 128,
    };
    for (x_scales, w_scales) in [(Granularity::Row, Granularity::Row), (of_row, BLOCK)] {
        let (linear, ..) = layer(&device, [70, 257], e4m3(w_scales));
        let x = normal([2, 9, 257], &device);
        let float = linear.clone().with_unproven_instructions();
        let error = float.forward(x.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
        let dynamic = ActivationScaling::new(Activations::Dynamic(x_scales), &device);
        let linear = linear.with_activations(dynamic);
        let want = floats(linear.forward(x.clone()).unwrap());
        let want: Vec<f64> = want.into_iter().map(f64::from).collect();
        match linear.with_unproven_instructions().forward(x) {
            Ok(y) => assert_close(&format!("{x_scales:?}"), &floats(y), &want, 2e-3),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                return Outcome::Unsupported(error.to_string());
            }
        }
    }
    Outcome::Ran
}

/// Rounded activations are the same product on rounded x, bit for bit.
pub(crate) fn rounded_activations(target: &Target) -> Outcome {
    let device = target.burn();
    let (linear, ..) = layer(&device, [33, 256], e4m3(BLOCK));
    let x = normal([9, 256], &device) * 10.0;
    let of_row = Granularity::Block {
        rows: 1,
        columns: 128,
    };
    for granularity in [
        Granularity::Row,
        of_row,
        Granularity::Tensor,
        Granularity::Mx,
    ] {
        let scaling = ActivationScaling::new(Activations::Dynamic(granularity), &device);
        let rounded = fake_quantize(x.clone(), &e4m3(granularity), None).unwrap();
        let want = bits(linear.forward(rounded).unwrap());
        let got = linear.clone().with_activations(scaling).forward(x.clone());
        assert_eq!(bits(got.unwrap()), want, "{granularity:?}");
    }
    Outcome::Ran
}

/// A calibrated scale is used and stays; what is beyond it saturates.
pub(crate) fn static_activations(target: &Target) -> Outcome {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(Granularity::Row));
    let mut scaling = ActivationScaling::new(Activations::Static, &device);
    let uncalibrated = linear.clone().with_activations(scaling.clone());
    let x = normal([4, 16], &device).clamp(-2.0, 1.5);
    let error = uncalibrated.forward(x.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    assert!(scaling.fix().is_err(), "nothing was observed");
    scaling.observe();
    let mut observing = linear.clone().with_activations(scaling);
    let float = bits(linear.forward(x.clone()).unwrap());
    assert_eq!(bits(observing.forward(x.clone()).unwrap()), float);
    observing.forward(x.clone() * 2.0).unwrap();
    observing.forward(x.clone()).unwrap();
    observing.activations.fix().unwrap();
    let largest = floats(x.clone())
        .into_iter()
        .fold(0f32, |a, x| a.max(x.abs()))
        * 2.0;
    let fixed = ActivationScaling::fixed(largest / 448.0, &device).unwrap();
    let fixed = linear.with_activations(fixed);
    for x in [x.clone(), x * 100.0] {
        let want = bits(fixed.forward(x.clone()).unwrap());
        assert_eq!(bits(observing.forward(x).unwrap()), want);
    }
    assert!(ActivationScaling::fixed(f32::NAN, &device).is_err());
    assert!(ActivationScaling::fixed(0.0, &device).is_err());
    Outcome::Ran
}

/// Scales of the batches before: the first has its own, and what is forgotten doesn't count.
pub(crate) fn delayed_activations(target: &Target) -> Outcome {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(Granularity::Row));
    let source = Activations::Delayed { history: 2 };
    let scaling = ActivationScaling::new(source, &device);
    let delayed = linear.clone().with_activations(scaling);
    let x = normal([4, 16], &device);
    let unit = floats(x.clone())
        .into_iter()
        .fold(0f32, |a, x| a.max(x.abs()));
    // Factors of the batches, and of those that their scales are from.
    for (batch, scale) in [
        (3.0, 3.0),
        (1.0, 3.0),
        (5.0, 3.0),
        (1.0, 5.0),
        (1.0, 5.0),
        (9.0, 1.0),
    ] {
        let fixed = ActivationScaling::fixed(unit * scale / 448.0, &device).unwrap();
        let x = x.clone() * batch;
        let want = floats(
            linear
                .clone()
                .with_activations(fixed)
                .forward(x.clone())
                .unwrap(),
        );
        let want: Vec<f64> = want.into_iter().map(f64::from).collect();
        // A quotient may round differently on the device, and a code with it.
        assert_close("y", &floats(delayed.forward(x).unwrap()), &want, 1e-2);
    }
    Outcome::Ran
}

fn half(dtype: DType, element: Element, target: &Target) -> Outcome {
    let device = target.burn();
    if let Err(error) = element.supported("fp8_linear", target.capability())
        && target.client().is_some()
    {
        return Outcome::Unsupported(error.to_string());
    }
    let weight = Fp8Tensor::quantize(normal([70, 132], &device), &e4m3(BLOCK)).unwrap();
    let w = floats(weight.dequantize(FloatDType::F32).unwrap());
    let bias = normal([70], &device);
    let linear = Fp8Linear::new(weight, Some(bias.clone().cast(dtype))).unwrap();
    for rows in [3, 20] {
        let x = normal([rows, 132], &device).cast(dtype);
        let got = floats(linear.forward(x.clone()).unwrap());
        let bias = floats(bias.clone().cast(dtype));
        assert_close(
            "y",
            &got,
            &reference(&floats(x), &w, &bias),
            rel_l2(element),
        );
    }
    Outcome::Ran
}

pub(crate) fn f16(target: &Target) -> Outcome {
    half(DType::F16, Element::F16, target)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    half(DType::BF16, Element::Bf16, target)
}

/// Codes, scales and calibrated scales are in records.
pub(crate) fn records(target: &Target) -> Outcome {
    let device = target.burn();
    for granularity in [BLOCK, Granularity::Mx] {
        let scaling = ActivationScaling::fixed(0.01, &device).unwrap();
        let (linear, ..) = layer(&device, [20, 200], e4m3(granularity));
        let linear = linear.with_activations(scaling);
        let x = normal([3, 200], &device);
        let want = bits(linear.forward(x.clone()).unwrap());
        let bytes = linear.clone().into_record().into_bytes().unwrap();
        let other = Tensor::<2>::ones([20, 200], &device);
        let other = Fp8Tensor::quantize(other, &e4m3(granularity)).unwrap();
        let other = Fp8Linear::new(other, Some(Tensor::zeros([20], &device))).unwrap();
        let empty = ActivationScaling::new(Activations::Static, &device);
        let record = ModuleRecord::from_bytes(bytes).unwrap();
        let mut loaded = other
            .with_activations(empty)
            .try_load_record(record)
            .unwrap();
        assert!(loaded.forward(x.clone()).is_err(), "not prepared yet");
        loaded.activations.fix().unwrap();
        assert_eq!(bits(loaded.forward(x).unwrap()), want);
    }
    Outcome::Ran
}

pub(crate) fn refuses_wrong_input(target: &Target) -> Outcome {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(Granularity::Row));
    let refused = |x: Tensor<2>| linear.forward(x).unwrap_err();
    let error = refused(normal([2, 15], &device));
    assert_eq!(
        error.to_string(),
        "x [.., in]: expected [.., 16], got [2, 15]"
    );
    let error = refused(normal([2, 16], &device.clone().autodiff()));
    assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    if target.capability().f16 || target.client().is_none() {
        let error = refused(normal([2, 16], &device).cast(DType::F16));
        assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    }
    let stack = Fp8Tensor::quantize(normal([2, 4, 4], &device), &e4m3(Granularity::Row)).unwrap();
    assert!(Fp8Linear::new(stack, None).is_err());
    let one = || Fp8Tensor::quantize(normal([4, 4], &device), &e4m3(Granularity::Row)).unwrap();
    assert!(Fp8Linear::new(one(), Some(Tensor::zeros([5], &device))).is_err());
    // A block that words straddle.
    let odd = Granularity::Block {
        rows: 2,
        columns: 6,
    };
    let odd = Fp8Tensor::quantize(normal([4, 16], &device), &e4m3(odd)).unwrap();
    let error = Fp8Linear::new(odd, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    Outcome::Ran
}

/// The same layer with the decoded weights in f32.
fn decoded(layer: &MoeLayer) -> MoeLayer {
    let float = |experts: &moebius::moe::experts::Fp8Experts| {
        let weights = |w: &moebius::fp8::Fp8Matrices| {
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
            let quantizer = e4m3(granularity);
            let reports = layer
                .convert_to_fp8("moe", &quantizer, Activations::Float)
                .unwrap();
            assert_eq!(reports.len(), if gated { 4 } else { 2 });
            assert!(
                reports.iter().all(|r| r.relative_error < 0.04),
                "{reports:?}"
            );
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
        layer.convert_to_fp8("moe", &e4m3(BLOCK), source).unwrap();
        let x = normal([60, 96], &device);
        let all = bits(layer.forward(x.clone()).unwrap().y);
        for rows in [1, 7, 33] {
            let some = layer.forward(x.clone().narrow(0, 0, rows)).unwrap().y;
            assert_eq!(bits(some), all[..rows * 96], "{rows} rows, {source:?}");
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
    dynamic.convert_to_fp8("moe", &e4m3(BLOCK), source).unwrap();
    assert_close(
        "dynamic",
        &floats(dynamic.forward(x).unwrap().y),
        &want,
        0.08,
    );
    let source = Activations::Dynamic(Granularity::Tensor);
    let error = float
        .clone()
        .convert_to_fp8("moe", &e4m3(BLOCK), source)
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

/// Weights of files that PyTorch wrote: their values, and the layers made of them.
pub(crate) fn checkpoints(target: &Target) -> Outcome {
    let device = target.burn();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/weights");
    for (name, values) in [
        ("blocks", "expected_blocks.safetensors"),
        ("schemes.safetensors", "expected_schemes.safetensors"),
    ] {
        let reader = Reader::open(&cases.join(name)).unwrap();
        let values = Reader::open(&cases.join(values)).unwrap();
        let layouts = reader.fp8_layouts(Unscaled::Refuse).unwrap();
        assert!(!layouts.is_empty());
        for layout in layouts {
            let weight = reader.fp8_weight(&layout).unwrap().upload(&device).unwrap();
            let want = values.read_f32(&layout.name).unwrap();
            let got = floats(weight.dequantize(FloatDType::F32).unwrap());
            let same = got
                .iter()
                .zip(&want)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(got.len() == want.len() && same, "{}", layout.name);
            let [stack, n, k] = weight.layout().shape;
            if stack == 1 {
                let x = normal([5, k], &device);
                let y = Fp8Linear::new(weight, None).unwrap().forward(x.clone());
                let want = reference(&floats(x), &want, &vec![0.0; n]);
                assert_close(&layout.name, &floats(y.unwrap()), &want, 1e-5);
            }
        }
    }
    Outcome::Ran
}
