//! Models with FP8 weights: experts, conversion, the inference engine, and the memory saved.

use crate::Outcome;
use crate::fp8_linear::{BLOCK, e4m3, normal};
use crate::tensors::{bits, doubles, floats, integers};
use burn::module::{Module, Param};
use burn::nn;
use burn::tensor::{DType, Device, Distribution, Tensor};
use moebius::fp8::{
    Activations, Fp8Conversion, Fp8Tensor, Granularity, InferenceEngine, LowRank, Precision, Weight,
};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{Activation, Experts, MoeConfig, MoeLayer, SharedExpertConfig, Variant};
use moebius::nn::{Linear, LinearConfig};
use moebius::{ErrorKind, memory_in_use};
use moebius_device::Runtime;
use moebius_ops::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

/// Largest relative L2 error of rounded activations against the emulation in f64. Devices sum in f32, so of thousands of values
/// one or two, near the midpoint between two codes, are rounded to the other code.
const ROUNDED: f64 = 1e-3;

/// A copy of the layer with the decoded weights in f32.
fn decoded(layer: &MoeLayer) -> MoeLayer {
    let float = |experts: &FeedForwardExperts| {
        let weights = |w: &Weight<3>| Param::from_tensor(w.values().unwrap()).into();
        FeedForwardExperts {
            w_in: weights(&experts.w_in),
            b_in: experts.b_in.clone(),
            w_out: weights(&experts.w_out),
            b_out: experts.b_out.clone(),
        }
    };
    let mut layer = layer.clone();
    if let Experts::FeedForward(experts) = &layer.experts {
        layer.experts = Experts::FeedForward(float(experts));
    }
    if let Some(shared) = &mut layer.shared {
        shared.experts = float(&shared.experts);
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

/// Checks that a converted layer computes what the layer with the decoded weights does: to the last bit where kernels run.
pub(crate) fn experts(target: &Target) {
    let device = target.burn();
    for gated in [false, true] {
        for granularity in [Granularity::Row, BLOCK, Granularity::Mx] {
            let conversion = Fp8Conversion::new(e4m3(granularity));
            let (layer, done) = conversion.convert(moe(gated, &device), &device).unwrap();
            assert_eq!(done.layers.len(), if gated { 4 } else { 2 });
            for report in done.layers {
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
                    let want = doubles(want);
                    assert_close("y", &floats(got), &want, 1e-5);
                }
            }
        }
    }
}

/// Checks that gradients pass experts of codes.
pub(crate) fn gradients(target: &Target) {
    let coded = |weight: &Weight<3>| {
        let codes = Fp8Tensor::quantize(weight.values().unwrap(), &e4m3(BLOCK));
        // The 70 rows of a projection don't fill panels, so gate and up are one part.
        Weight::from_fp8(codes.unwrap(), 1).unwrap()
    };
    let mut layer = moe(true, &target.burn());
    let shared = &mut layer.shared.as_mut().unwrap().experts;
    let Experts::FeedForward(routed) = &mut layer.experts else {
        panic!("they are feed-forward");
    };
    for experts in [routed, shared] {
        experts.w_in = coded(&experts.w_in);
        experts.w_out = coded(&experts.w_out);
    }
    check_gradients(&layer);
}

/// Checks that gradients pass experts of codes, and train low-rank changes of them, as they do with the decoded weights.
pub(crate) fn check_gradients(layer: &MoeLayer) {
    let Experts::FeedForward(FeedForwardExperts { w_out, .. }) = &layer.experts else {
        panic!("they are feed-forward");
    };
    let (recording, [e, h, f]) = (w_out.device().autodiff(), w_out.dims());
    let x = normal([50, h], &recording).require_grad();
    let dy = normal([h, 50], &recording).transpose();
    let [got, want] = [layer.clone(), decoded(layer)].map(|layer| {
        let mut layer = layer.train().no_grad();
        let Experts::FeedForward(experts) = &mut layer.experts else {
            panic!("they are feed-forward");
        };
        let change = LowRank {
            down: Param::from_tensor(normal([e, 3, f], &recording)),
            up: Param::from_tensor(normal([e, h, 3], &recording)),
            first: 0,
            scale: 0.1,
        };
        let factors = [&change.down, &change.up].map(Param::val);
        experts.w_out = experts.w_out.clone().with_changes(vec![change]).unwrap();
        let y = layer.forward(x.clone()).unwrap().y;
        let of = (y.clone() * dy.clone()).sum().backward();
        let factors = factors.map(|factor| factor.grad(&of).unwrap());
        (y.inner(), x.grad(&of).unwrap(), factors)
    });
    assert_close("y", &floats(got.0), &doubles(want.0), 1e-5);
    assert_close("dx", &floats(got.1), &doubles(want.1), 1e-5);
    for (got, want) in got.2.into_iter().zip(want.2) {
        assert_close("a factor", &floats(got), &doubles(want), 1e-5);
    }
}

/// Checks that a requested variant also applies to a shared expert in FP8: matrix instructions can't take its 70 inner columns,
/// so the layer is refused.
pub(crate) fn shared_expert_by_matrices_f16(target: &Target) -> Outcome {
    if target.client().is_none() || target.capability().mma.is_empty() {
        return Outcome::Unsupported("no matrix instructions".into());
    }
    let device = target.burn();
    let config = MoeConfig::new(96, 72, 6).with_shared(Some(SharedExpertConfig::new(70)));
    let layer = config.init(&device).unwrap().cast(DType::F16).unwrap();
    let mut layer = layer.with_variant(Some(Variant::TensorCore));
    let x = normal::<2>([50, 96], &device).cast(DType::F16);
    let mut alone = layer.clone();
    alone.shared = None;
    if let Err(refused) = alone.forward(x.clone()) {
        return Outcome::Unsupported(refused.to_string());
    }
    let shared = &mut layer.shared.as_mut().unwrap().experts;
    for weight in [&mut shared.w_in, &mut shared.w_out] {
        *weight = weight.quantize(&e4m3(Granularity::Row)).unwrap().0;
    }
    assert_refused(ErrorKind::Unsupported, layer.forward(x));
    Outcome::Ran
}

pub(crate) fn experts_independent_of_the_batch(target: &Target) {
    let device = target.burn();
    for source in [Activations::Float, Activations::Dynamic(Granularity::Row)] {
        let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(source);
        let (layer, _) = conversion.convert(moe(true, &device), &device).unwrap();
        let x = normal([60, 96], &device);
        let all = floats(layer.forward(x.clone()).unwrap().y);
        for rows in [1, 7, 33] {
            let some = layer.forward(x.clone().narrow(0, 0, rows)).unwrap().y;
            let what = format!("{rows} rows, {source:?}");
            let (some, all) = (floats(some), &all[..rows * 96]);
            if source != Activations::Float && target.capability().runtime == Runtime::Xla {
                // XLA sums the first product of another batch in another order: a value between two codes may get the other one.
                let all: Vec<f64> = all.iter().map(|v| f64::from(*v)).collect();
                assert_close(&what, &some, &all, 5e-3);
            } else {
                target.assert_same_rows(&what, &some, all);
            }
        }
    }
}

type Rows = Vec<Vec<f64>>;

/// Rows rounded to E4M3 with the scale that follows from `amax`, or, without one, from each row's largest magnitude.
fn rounded(rows: &Rows, amax: Option<f64>) -> Rows {
    let row = |row: &Vec<f64>| -> Vec<f64> {
        let scale = (amax.unwrap_or_else(|| largest([row])) as f32 / 448.0) as f64;
        let round = |v: &f64| {
            let code = encode_host((v / scale) as f32, Fp8Format::E4M3, Overflow::Saturate);
            f64::from(decode_host(code, Fp8Format::E4M3)) * scale
        };
        row.iter().map(round).collect()
    };
    rows.iter().map(row).collect()
}

/// The bits of the engine's output for x.
fn inferred(engine: &InferenceEngine<Network>, x: Tensor<2>) -> Vec<u32> {
    let y = engine.infer(|model| model.forward(x)).unwrap();
    bits(y.unwrap())
}

fn largest<'a>(rows: impl IntoIterator<Item = &'a Vec<f64>>) -> f64 {
    let all = rows.into_iter().flatten();
    all.fold(0.0, |largest, v| largest.max(v.abs()))
}

/// Adds to y the outputs of gated silu experts for slots (token, expert, weight), in f64. Rows are rounded before both
/// products, with one scale for all rows, or, if `own`, with a scale for each row.
fn emulate(
    y: &mut Rows,
    x: &Rows,
    experts: &FeedForwardExperts,
    slots: &[(usize, usize, f64)],
    own: bool,
) {
    let values = |w: &Weight<3>| floats(w.values().unwrap());
    let (w_in, w_out) = (values(&experts.w_in), values(&experts.w_out));
    let [_, hidden, inter] = experts.w_out.dims();
    let dot = |w: &[f32], row: &Vec<f64>| -> f64 {
        w.iter().zip(row).map(|(w, x)| f64::from(*w) * x).sum()
    };
    let up = |x: &Rows| -> Rows {
        let one = |(token, expert, _): &(usize, usize, f64)| {
            let w = &w_in[expert * 2 * inter * hidden..][..2 * inter * hidden];
            let rows: Vec<f64> = w.chunks(hidden).map(|w| dot(w, &x[*token])).collect();
            let (gate, up) = rows.split_at(inter);
            let silu = |g: &f64| Activation::Silu.reference(*g);
            gate.iter().zip(up).map(|(g, u)| silu(g) * u).collect()
        };
        slots.iter().map(one).collect()
    };
    // The scale for all rows comes from a calibration, in which rows aren't rounded.
    let scale = |rows: &Rows| (!own).then(|| largest(rows));
    let hidden_rows = rounded(&up(&rounded(x, scale(x))), scale(&up(x)));
    for ((token, expert, weight), row) in slots.iter().zip(&hidden_rows) {
        let w = &w_out[expert * hidden * inter..][..hidden * inter];
        for (y, w) in y[*token].iter_mut().zip(w.chunks(inter)) {
            *y += weight * dot(w, row);
        }
    }
}

/// The converted layer's y \[T,H\] by [`emulate`].
fn emulated(layer: &MoeLayer, x: &Tensor<2>, own: bool) -> Vec<f64> {
    let routing = layer.forward(x.clone()).unwrap().routing;
    let [tokens, top_k] = routing.indices.dims();
    let (indices, weights) = (integers(routing.indices), doubles(routing.weights));
    let chosen = indices.iter().zip(weights).enumerate();
    let chosen: Vec<_> = chosen
        .map(|(slot, (e, w))| (slot / top_k, *e as usize, w))
        .collect();
    let every: Vec<_> = (0..tokens).map(|t| (t, 0, 1.0)).collect();
    let values = doubles(x.clone());
    let x: Rows = values
        .chunks(values.len() / tokens)
        .map(<[f64]>::to_vec)
        .collect();
    let mut y: Rows = x.iter().map(|row| vec![0.0; row.len()]).collect();
    let layer = decoded(layer);
    let Experts::FeedForward(experts) = &layer.experts else {
        panic!("they are feed-forward");
    };
    emulate(&mut y, &x, experts, &chosen, own);
    emulate(&mut y, &x, &layer.shared.unwrap().experts, &every, own);
    y.concat()
}

/// Checks that experts round tokens and hidden rows as the emulation does, and that a dynamic scale shared by several rows is
/// refused.
pub(crate) fn experts_with_rounded_activations(target: &Target) {
    let device = target.burn();
    let float = moe(true, &device);
    let x = normal([40, 96], &device);
    let engine = InferenceEngine::new(vec![float.clone()], &device);
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    let mut engine = engine.convert(&conversion).unwrap();
    engine
        .calibrate([x.clone()], |model, x| model[0].forward(x).map(drop))
        .unwrap();
    let y = engine.infer(|model| model[0].forward(x.clone())).unwrap();
    let y = y.unwrap().y;
    let want = emulated(&engine.model()[0], &x, false);
    assert_close("static", &floats(y), &want, ROUNDED);
    let source = Activations::Dynamic(Granularity::Row);
    let conversion = Fp8Conversion::new(e4m3(BLOCK));
    let rows = conversion.clone().with_activations(source);
    let (dynamic, _) = rows.convert(float.clone(), &device).unwrap();
    let want = emulated(&dynamic, &x, true);
    let y = dynamic.forward(x).unwrap().y;
    assert_close("dynamic", &floats(y), &want, ROUNDED);
    let source = Activations::Dynamic(Granularity::Tensor);
    let conversion = conversion.with_activations(source);
    assert_refused(ErrorKind::Config, conversion.convert(float, &device));
}

#[derive(Module, Debug)]
struct Network {
    layers: Vec<Linear>,
    moe: Option<MoeLayer>,
    head: Linear,
}

fn network(device: &Device) -> Network {
    let linear = |k, n| LinearConfig::new(k, n).init(device).unwrap();
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

/// Checks that converting a copy leaves the original and the skipped layers as they are, and reports what became of each layer.
pub(crate) fn conversion(target: &Target) {
    let device = target.burn();
    // The model is on a recording device, as after a training.
    let model = network(&device.clone().autodiff());
    let conversion = Fp8Conversion::new(e4m3(BLOCK))
        .skip("head")
        .skip("layers.1*");
    let (copy, report) = conversion.convert(model.clone(), &device).unwrap();
    assert_eq!(model.layers[0].weight.precision(), Precision::Float);
    let layers = report.layers.iter();
    let paths: Vec<&str> = layers.map(|layer| layer.path.as_str()).collect();
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
    // The copy gives what it gives with decoded weights in place of the converted ones.
    let copy = copy.valid();
    let mut want = copy.clone();
    want.moe = want.moe.as_ref().map(decoded);
    assert_eq!(copy.layers[0].weight.precision(), Precision::Fp8);
    let weight = copy.layers[0].weight.values().unwrap();
    let weight = Param::from_tensor(weight.transpose());
    let bias = copy.layers[0].bias.clone();
    want.layers[0] = nn::Linear { weight, bias }.into();
    let x = normal([12, 96], &device);
    let want = doubles(want.forward(x.clone()).unwrap());
    assert_close("y", &floats(copy.forward(x).unwrap()), &want, 1e-5);
}

/// Checks that the engine takes its steps in order, and refuses a step that comes too early.
pub(crate) fn engine(target: &Target) {
    let device = target.burn();
    let x = || normal([12, 96], &device);
    let mut engine = InferenceEngine::new(network(&device), &device);
    let early = ErrorKind::State;
    let run = |model: &Network| model.forward(x()).map(drop);
    assert_refused(early, engine.infer(run));
    assert_refused(early, engine.memory());
    assert_refused(early, engine.prepare());
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    let mut engine = engine.convert(&conversion).unwrap();
    assert_refused(early, engine.infer(run));
    assert_refused(early, engine.prepare());
    let none: [Tensor<2>; 0] = [];
    let forward = |model: &Network, x| model.forward(x).map(drop);
    assert_refused(early, engine.calibrate(none, forward));
    engine.calibrate([x(), x() * 0.5], forward).unwrap();
    assert_eq!(inferred(&engine, x()), inferred(&engine, x()));
    let [before, after] = engine.memory().unwrap().weight_bytes;
    assert!(after < before, "{after} bytes of {before}");
}

/// Checks that FP8 weights take at most 0.27 of the f32 weights' live bytes in the device's allocator, scales and padding included.
pub(crate) fn device_memory(target: &Target) {
    let client = target.client().unwrap();
    let device = target.burn();
    client.memory_cleanup().unwrap();
    let empty = memory_in_use(&device).unwrap().unwrap();
    let linear = |_| -> Linear {
        let weight = Tensor::random([1024, 1024], Distribution::Normal(0.0, 1.0), &device);
        Linear::new(Param::from_tensor(weight), None).unwrap()
    };
    let model: Vec<Linear> = (0..4).map(linear).collect();
    let float = memory_in_use(&device).unwrap().unwrap() - empty;
    for granularity in [Granularity::Row, BLOCK, Granularity::Mx] {
        let (copy, report) = Fp8Conversion::new(e4m3(granularity))
            .convert(model.clone(), &device)
            .unwrap();
        let [before, after] = report.device_bytes.unwrap();
        let share = (after - before) as f64 / float as f64;
        assert!(share <= 0.27, "{granularity:?}: {share}");
        drop(copy);
    }
    let (_model, _) = Fp8Conversion::new(e4m3(BLOCK))
        .convert(model, &device)
        .unwrap();
    let share = (memory_in_use(&device).unwrap().unwrap() - empty) as f64 / float as f64;
    assert!(share <= 0.27, "in place: {share}");
}

/// Checks that calibrating or converting a copy of a converted model leaves the original as it is.
pub(crate) fn copies_calibrate_apart(target: &Target) {
    let device = target.burn();
    let x = || normal([12, 96], &device);
    let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(Activations::Static);
    let engine = InferenceEngine::new(network(&device), &device);
    let mut engine = engine.convert(&conversion).unwrap();
    engine
        .calibrate([x()], |model, x| model.forward(x).map(drop))
        .unwrap();
    let want = inferred(&engine, x());
    let copy = InferenceEngine::new(engine.model().clone(), &device);
    let mut copy = copy.convert(&conversion).unwrap();
    let report = copy.conversion().unwrap();
    assert!(report.layers.is_empty());
    assert_eq!(report.already.len(), 5, "{:?}", report.already);
    copy.calibrate([x() * 7.0], |model, x| model.forward(x).map(drop))
        .unwrap();
    assert_ne!(inferred(&copy, x()), want, "another scale, another result");
    assert_eq!(inferred(&engine, x()), want);
    // A conversion also sets the rounding of activations in layers that already have FP8 weights.
    let dynamic = Activations::Dynamic(Granularity::Row);
    let dynamic = Fp8Conversion::new(e4m3(BLOCK)).with_activations(dynamic);
    let (model, _) = dynamic.convert(engine.model().clone(), &device).unwrap();
    assert_ne!(bits(model.forward(x()).unwrap()), want);
    // An engine accepts a model that is already converted.
    let mut loaded = InferenceEngine::new(engine.into_model(), &device);
    loaded.prepare().unwrap();
    assert_eq!(inferred(&loaded, x()), want);
}

/// Checks that a conversion skips parts of a layer by their paths, reports patterns that match no layer, and refuses bad
/// settings before it changes anything.
pub(crate) fn skips_and_refusals(target: &Target) {
    let device = target.burn();
    let conversion = Fp8Conversion::new(e4m3(BLOCK))
        .skip("moe.shared")
        .skip("haed");
    let (model, report) = conversion.convert(network(&device), &device).unwrap();
    assert_eq!(report.skipped, ["moe.shared"]);
    assert_eq!(report.unused_patterns, ["haed"]);
    let shared = model.moe.unwrap().shared.unwrap();
    for weight in [shared.experts.w_in, shared.experts.w_out] {
        assert_eq!(weight.precision(), Precision::Float);
    }
    for activations in [
        Activations::Delayed { history: 0 },
        Activations::Delayed { history: 1 << 60 },
        Activations::Dynamic(Granularity::Block {
            rows: 0,
            columns: 128,
        }),
    ] {
        let conversion = Fp8Conversion::new(e4m3(BLOCK)).with_activations(activations);
        let converted = conversion.convert(network(&device), &device);
        assert_refused(ErrorKind::Config, converted);
    }
}
