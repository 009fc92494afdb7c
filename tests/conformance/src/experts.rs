//! Every kind of expert: its outputs against plain f64 Rust, its gradients, and its treatment of sequences.

use crate::moe_layer::supports;
use crate::tensors::{doubles, dtype, floats, integers, random};
use burn::module::{Module, Param};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device, Tensor};
use moebius::moe::{
    Activation, Adapted, ExpertKind, Experts, MoeConfig, MoeLayer, MoeOutput, RouteConfig,
    RouterConfig, SwitchConfig,
};
use moebius::{Error, ErrorKind};
use moebius_ops::Element;
use moebius_tests::elements::exact;
use moebius_tests::gradients::{
    filled, parameters, trained_gradients, trained_parameters, with_values,
};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};

const HIDDEN: usize = 12;
const INTER: usize = 16;
const EXPERTS: usize = 4;

fn kinds() -> [ExpertKind; 7] {
    let small = |form| ExpertKind::ParameterEfficient { form, rank: 3 };
    [
        ExpertKind::FeedForward,
        ExpertKind::Convolutional { causal: false },
        ExpertKind::Convolutional { causal: true },
        ExpertKind::Attention {
            heads: 2,
            causal: false,
        },
        ExpertKind::Attention {
            heads: 4,
            causal: true,
        },
        small(Adapted::Lora),
        small(Adapted::Adapter),
    ]
}

fn config(kind: ExpertKind) -> MoeConfig {
    let config = MoeConfig::new(HIDDEN, INTER, EXPERTS).with_kind(kind);
    match kind {
        ExpertKind::Attention { .. } => config,
        _ => config.with_activation(Activation::Silu),
    }
}

fn layer(target: &Target, config: MoeConfig) -> MoeLayer {
    filled(config.init(&target.burn()).unwrap(), 5, 0.5)
}

fn batch(target: &Target, shape: [usize; 3], seed: u64) -> Tensor<3> {
    random(seed, shape, 1.5, &target.burn())
}

/// A layer's weights as f64, with their paths.
struct Weights(Vec<(String, Vec<f64>)>);

impl Weights {
    fn of(layer: &MoeLayer) -> Self {
        let all = parameters(layer).into_iter();
        Self(all.map(|p| (p.path, exact(&p.values))).collect())
    }

    /// The weights of expert `expert` out of `experts`; empty for an absent bias.
    fn get(&self, name: &str, expert: usize, experts: usize) -> &[f64] {
        let end = format!(".{name}");
        let Some((_, values)) = self.0.iter().find(|(path, _)| path.ends_with(&end)) else {
            return &[];
        };
        let each = values.len() / experts;
        &values[expert * each..(expert + 1) * each]
    }
}

type Rows = Vec<Vec<f64>>;

/// Computes rows · Wᵀ + b.
fn linear(rows: &Rows, weight: &[f64], bias: &[f64]) -> Rows {
    let one = |row: &Vec<f64>| -> Vec<f64> {
        let products = weight.chunks(row.len()).enumerate();
        products
            .map(|(i, w)| {
                let dot: f64 = w.iter().zip(row).map(|(w, x)| w * x).sum();
                dot + bias.get(i).copied().unwrap_or(0.0)
            })
            .collect()
    };
    rows.iter().map(one).collect()
}

fn activated(rows: Rows, gated: bool) -> Rows {
    let silu = |x: f64| Activation::Silu.reference(x);
    let one = |row: Vec<f64>| -> Vec<f64> {
        if !gated {
            return row.into_iter().map(silu).collect();
        }
        let (gate, up) = row.split_at(row.len() / 2);
        gate.iter().zip(up).map(|(g, u)| silu(*g) * u).collect()
    };
    rows.into_iter().map(one).collect()
}

fn plus(a: Rows, b: Rows) -> Rows {
    let add = |(a, b): (Vec<f64>, Vec<f64>)| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    a.into_iter().zip(b).map(add).collect()
}

/// Computes Σ_k w_tk · expert(rows)_t, where an expert is given the tokens of one sequence that chose it.
fn reference(x: &Tensor<3>, out: &MoeOutput<3>, expert: impl Fn(usize, &Rows) -> Rows) -> Vec<f64> {
    let [sequences, length, hidden] = x.dims();
    let values = floats(x.clone());
    let top_k = out.routing.indices.dims()[1];
    let indices = integers(out.routing.indices.clone());
    let weights = floats(out.routing.weights.clone());
    let mut y = vec![0.0; values.len()];
    for sequence in 0..sequences {
        for e in 0..out.routing.experts() {
            let range = sequence * length * top_k..(sequence + 1) * length * top_k;
            let slots: Vec<usize> = range.filter(|s| indices[*s] == e as i64).collect();
            let row = |slot: &usize| {
                let token = slot / top_k;
                let row = &values[token * hidden..(token + 1) * hidden];
                row.iter().map(|x| f64::from(*x)).collect()
            };
            let rows: Rows = slots.iter().map(row).collect();
            for (slot, row) in slots.iter().zip(expert(e, &rows)) {
                for (h, value) in row.iter().enumerate() {
                    y[slot / top_k * hidden + h] += f64::from(weights[*slot]) * value;
                }
            }
        }
    }
    y
}

/// Each row next to the two other rows that a convolution of width 3 covers.
fn neighbours(rows: &Rows, causal: bool) -> Rows {
    let width = rows.first().map_or(0, Vec::len);
    let at = |row: usize, place: usize| -> Vec<f64> {
        let from = (row + place).checked_sub(if causal { 2 } else { 1 });
        let found = from.and_then(|from| rows.get(from));
        found.cloned().unwrap_or_else(|| vec![0.0; width])
    };
    let three = |row| [at(row, 0), at(row, 1), at(row, 2)].concat();
    (0..rows.len()).map(three).collect()
}

pub(crate) fn convolutional_is_a_convolution(target: &Target) {
    for (causal, gated, bias) in [(false, false, true), (true, true, false)] {
        let config = config(ExpertKind::Convolutional { causal });
        let config = config.with_gated(gated).with_bias(bias);
        let layer = layer(target, config);
        let weights = Weights::of(&layer);
        let x = batch(target, [3, 11, HIDDEN], 1);
        let out = layer.forward(x.clone()).unwrap();
        let want = reference(&x, &out, |e, rows| {
            let of = |name| weights.get(name, e, EXPERTS);
            let seen = neighbours(rows, causal);
            let hidden = activated(linear(&seen, of("w_in"), of("b_in")), gated);
            linear(&neighbours(&hidden, causal), of("w_out"), of("b_out"))
        });
        assert_close("y", &floats(out.y), &want, 1e-5);
    }
}

/// Computes softmax(q·kᵀ/√D)·v for each head.
fn attention(q: &Rows, k: &Rows, v: &Rows, heads: usize, causal: bool) -> Rows {
    let width = INTER / heads;
    let row = |i: usize| -> Vec<f64> {
        let last = if causal { i + 1 } else { k.len() };
        let head = |head: usize| -> Vec<f64> {
            let part = head * width..(head + 1) * width;
            let score = |j: usize| -> f64 {
                let pairs = q[i][part.clone()].iter().zip(&k[j][part.clone()]);
                pairs.map(|(q, k)| q * k).sum::<f64>() / (width as f64).sqrt()
            };
            let exp: Vec<f64> = (0..last).map(|j| score(j).exp()).collect();
            let sum: f64 = exp.iter().sum();
            part.map(|d| (0..last).map(|j| exp[j] / sum * v[j][d]).sum())
                .collect()
        };
        (0..heads).flat_map(head).collect()
    };
    (0..q.len()).map(row).collect()
}

pub(crate) fn attention_is_self_attention(target: &Target) {
    for (heads, causal, bias) in [(2, false, true), (4, true, false), (1, false, false)] {
        let config = config(ExpertKind::Attention { heads, causal }).with_bias(bias);
        let layer = layer(target, config);
        let weights = Weights::of(&layer);
        let x = batch(target, [3, 11, HIDDEN], 2);
        let out = layer.forward(x.clone()).unwrap();
        let want = reference(&x, &out, |e, rows| {
            let of = |name| weights.get(name, e, EXPERTS);
            let q = linear(rows, of("w_q"), of("b_q"));
            let k = linear(rows, of("w_k"), of("b_k"));
            let v = linear(rows, of("w_v"), of("b_v"));
            let o = attention(&q, &k, &v, heads, causal);
            linear(&o, of("w_o"), of("b_o"))
        });
        assert_close("y", &floats(out.y), &want, 1e-5);
    }
}

pub(crate) fn parameter_efficient_adds_to_the_frozen_network(target: &Target) {
    for (gated, bias) in [(false, false), (true, true)] {
        for form in [Adapted::Lora, Adapted::Adapter] {
            let config = config(ExpertKind::ParameterEfficient { form, rank: 3 });
            let layer = layer(target, config.with_gated(gated).with_bias(bias));
            let weights = Weights::of(&layer);
            let x = batch(target, [2, 13, HIDDEN], 3);
            let out = layer.forward(x.clone()).unwrap();
            let frozen = |name| weights.get(name, 0, 1);
            let want = reference(&x, &out, |e, rows| {
                let of = |name| weights.get(name, e, EXPERTS);
                let low = |rows: &Rows, down, up| linear(&linear(rows, of(down), &[]), of(up), &[]);
                let first = linear(rows, frozen("w_in"), frozen("b_in"));
                let second = |hidden: &Rows| linear(hidden, frozen("w_out"), frozen("b_out"));
                match form {
                    Adapted::Lora => {
                        let first = plus(first, low(rows, "down_in", "up_in"));
                        let hidden = activated(first, gated);
                        plus(second(&hidden), low(&hidden, "down_out", "up_out"))
                    }
                    Adapted::Adapter => {
                        let y = second(&activated(first, gated));
                        let small = activated(linear(&y, of("down"), &[]), false);
                        plus(y.clone(), linear(&small, of("up"), &[]))
                    }
                }
            });
            assert_close("y", &floats(out.y), &want, 1e-5);
        }
    }
}

fn trained_weights(layer: &MoeLayer) -> usize {
    let all = trained_parameters(layer);
    all.iter().map(|p| p.values.len()).sum()
}

pub(crate) fn parameter_efficient_trains_less(target: &Target) {
    let shape = MoeConfig::new(64, 96, EXPERTS);
    let device = target.burn().autodiff();
    let whole = trained_weights(&shape.init(&device).unwrap());
    for (kind, each) in [
        (ExpertKind::lora(), 32 * (2 * 64 + 2 * 96)),
        (ExpertKind::adapter(), 32 * 2 * 64),
    ] {
        let layer = shape.with_kind(kind).init(&device).unwrap();
        let trained = trained_weights(&layer);
        assert_eq!(trained, EXPERTS * (each + 64), "{kind:?}");
        assert!(trained < whole, "{kind:?} trains {trained} of {whole}");
        // Initially every expert equals the frozen network, and a training step leaves that network unchanged.
        let x = random(4, [2, 5, 64], 1.0, &device);
        let frozen = |layer: &MoeLayer| -> Vec<Vec<f32>> {
            let all = parameters(layer).into_iter();
            all.filter(|p| p.path.contains("frozen"))
                .map(|p| p.values)
                .collect()
        };
        let before = frozen(&layer);
        assert_eq!(before.len(), 2);
        let loss = layer.forward(x.clone()).unwrap().y.powi_scalar(2).sum();
        let grads = GradientsParams::from_grads(loss.clone().backward(), &layer);
        let stepped = SgdConfig::new().init().step(1e-3, layer, grads);
        assert_eq!(frozen(&stepped), before);
        let after = stepped.forward(x).unwrap().y.powi_scalar(2).sum();
        assert!(floats(after)[0] < floats(loss)[0], "{kind:?} didn't learn");
    }
    // A rank whose factors have more parameters than the full matrix is refused.
    let kind = ExpertKind::ParameterEfficient {
        form: Adapted::Lora,
        rank: 40,
    };
    assert_refused(ErrorKind::Config, shape.with_kind(kind).init(&device));
}

/// Checks that a sequence gives the same result alone and in a batch, and that causal experts don't look ahead.
pub(crate) fn sequences_are_apart(target: &Target) {
    for kind in kinds() {
        let layer = layer(target, config(kind));
        let x = batch(target, [3, 10, HIDDEN], 5);
        let whole = floats(layer.forward(x.clone()).unwrap().y);
        let size = 10 * HIDDEN;
        for sequence in 0..3 {
            let one = x.clone().narrow(0, sequence, 1);
            // A two-dimensional x is one sequence.
            let y = floats(layer.forward(one.reshape([10, HIDDEN])).unwrap().y);
            let want = &whole[sequence * size..(sequence + 1) * size];
            assert_eq!(y, want, "{kind:?}, sequence {sequence}");
        }
        let ahead = match kind {
            ExpertKind::Convolutional { causal } | ExpertKind::Attention { causal, .. } => !causal,
            _ => continue,
        };
        let start = floats(layer.forward(x.narrow(1, 0, 6)).unwrap().y);
        let mut same = true;
        for (sequence, rows) in start.chunks(6 * HIDDEN).enumerate() {
            same &= rows == &whole[sequence * size..sequence * size + 6 * HIDDEN];
        }
        assert_eq!(same, !ahead, "{kind:?} of the first six tokens");
    }
}

fn layers() -> [MoeConfig; 5] {
    [
        MoeConfig::standard(HIDDEN, INTER, EXPERTS),
        MoeConfig::sparse(HIDDEN, INTER, EXPERTS, 0.5),
        MoeConfig::switch(HIDDEN, INTER, EXPERTS),
        MoeConfig::glam(HIDDEN, 2 * INTER, EXPERTS),
        MoeConfig::adaptive(HIDDEN, INTER, EXPERTS),
    ]
}

/// y, and the gradients of x and of all trained parameters, by name.
fn pass(config: MoeConfig, device: &Device) -> Vec<(String, Vec<f32>)> {
    let layer = filled(config.init(device).unwrap(), 6, 0.5);
    let layer = match &layer.factors {
        Some(_) => with_values(layer, "factor", &[1.25]),
        None => layer,
    };
    let layer = layer.train();
    let x = random(6, [2, 30, HIDDEN], 1.5, &layer.devices()[0]).require_grad();
    let out = layer.forward(x.clone()).unwrap();
    let loss = out.y.clone().powi_scalar(2).sum() + out.losses().unwrap().switch;
    let grads = loss.backward();
    let mut all = vec![("y".to_owned(), floats(out.y))];
    all.push(("dx".to_owned(), floats(x.grad(&grads).unwrap())));
    let grads = GradientsParams::from_grads(grads, &layer);
    assert_eq!(grads.len(), trained_parameters(&layer).len(), "{config:?}");
    let trained = trained_gradients(&layer, &grads).into_iter();
    all.extend(trained.map(|p| (p.path, p.gradient.unwrap())));
    all
}

/// Compares forward and backward of every kind of expert in every layer with flex, which runs Burn's own operations. Nothing is
/// random.
pub(crate) fn every_kind_in_every_layer(target: &Target) {
    for config in layers() {
        let config = match config.router {
            RouterConfig::Switch(_) => config.with_router(SwitchConfig { jitter: 0.0 }),
            _ => config,
        };
        for kind in kinds() {
            let config = config.with_kind(kind).with_expert_dropout(0.0);
            let want = pass(config, &Device::flex());
            for ((name, got), (_, want)) in pass(config, &target.burn()).iter().zip(want) {
                let want = exact(&want);
                let moved = want.iter().any(|v| *v != 0.0);
                let what = format!("{config:?}: {name}");
                assert!(moved && want.iter().all(|v| v.is_finite()), "{what}");
                assert_close(&what, got, &want, 1e-4);
            }
        }
    }
}

/// Compares f16 and bf16 experts with f32 experts that have the same weights.
pub(crate) fn half(target: &Target, element: Element) -> Result<(), Error> {
    let dtype = dtype(element);
    supports(target, dtype)?;
    for kind in kinds() {
        let switch = RouterConfig::Switch(SwitchConfig::default());
        let config = config(kind).with_bias(true).with_router(switch);
        // Values that f32 and the 16-bit type both represent.
        let rounded = layer(target, config).cast(dtype).unwrap();
        let wide = rounded.clone().cast(DType::F32).unwrap();
        let x = batch(target, [2, 9, HIDDEN], 7).cast(dtype);
        let got = rounded.forward(x.clone()).unwrap();
        assert_eq!(got.y.dtype(), dtype, "{kind:?}");
        let want = doubles(wide.forward(x.cast(DType::F32)).unwrap().y);
        // These experts chain more products than the two that the tolerance allows for, so they round more often.
        let tolerance = 4.0 * rel_l2(element);
        assert_close(&format!("{kind:?}"), &floats(got.y), &want, tolerance);
    }
    Ok(())
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let heads = |heads| ExpertKind::Attention {
        heads,
        causal: false,
    };
    for config in [
        config(heads(3)),
        config(heads(0)),
        config(heads(2)).with_gated(true),
        config(ExpertKind::ParameterEfficient {
            form: Adapted::Lora,
            rank: 0,
        }),
    ] {
        assert_refused(ErrorKind::Config, config.init(&target.burn()));
    }
    // Problems and plans exist for feed-forward experts only.
    let layer = layer(target, config(heads(2)));
    assert_refused(ErrorKind::Unsupported, layer.problem(4, DType::F32));
    let empty = Tensor::<3>::zeros([2, 0, HIDDEN], &target.burn());
    for kind in kinds() {
        let layer = config(kind).init(&target.burn()).unwrap();
        let out = layer.forward(empty.clone()).unwrap();
        assert_eq!(out.y.dims(), [2, 0, HIDDEN]);
    }
}

/// Checks gelu and its gradient value by value far below 0, where 1 + erf(x/√2) has lost all digits: one expert whose matrices
/// are the identity gives gelu(x) for each element of x.
pub(crate) fn gelu_tails(target: &Target) {
    let device = target.burn();
    let config = MoeConfig::new(8, 8, 1).with_router(RouteConfig::new(1));
    let config = config.with_activation(Activation::Gelu);
    let mut layer = config.init(&device).unwrap();
    let Experts::FeedForward(experts) = &mut layer.experts else {
        panic!("they are feed-forward");
    };
    let identity = || Param::from_tensor(Tensor::<2>::eye(8, &device).unsqueeze::<3>());
    experts.w_in = identity().into();
    experts.w_out = identity().into();
    let layer = layer.train();
    let values: Vec<f32> = (0..64).map(|at| -0.17 * at as f32).collect();
    let x = Tensor::<1>::from_floats(&values[..], &layer.devices()[0]).reshape([8, 8]);
    let x = x.require_grad();
    let y = layer.forward(x.clone()).unwrap().y;
    let grads = y.clone().sum().backward();
    let dx = floats(x.grad(&grads).unwrap());
    for ((x, y), dx) in values.iter().zip(floats(y)).zip(dx) {
        let x = f64::from(*x);
        let [value, slope] = [
            Activation::Gelu.reference(x),
            Activation::Gelu.reference_gradient(x),
        ];
        // The exponential of a large argument has as many wrong digits as the argument has before the point.
        let close =
            |got: f32, want: f64| (f64::from(got) - want).abs() <= 3e-5 * want.abs().max(1e-30);
        assert!(close(y, value), "gelu({x}): expected {value:e}, got {y:e}");
        // The slope is 0 at x = −0.7518.
        let near = (x + 0.75).abs() < 0.3;
        assert!(
            near || close(dx, slope),
            "gelu'({x}): expected {slope:e}, got {dx:e}"
        );
    }
}
