//! Experts that train in FP8, against plain f64 sums over values rounded by the host codec.

use crate::Outcome;
use crate::fp8_training::{amax, quantised, resumed};
use crate::tensors::{self, doubles, drawn, floats, integers, random};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{DType, Device, Tensor};
use moebius::ErrorKind;
use moebius::fp8::Precision;
use moebius::fp8::training::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling, update};
use moebius::moe::{
    Activation, ExpertKind, Experts, MoeConfig, MoeLayer, MoeWeights, SharedExpertConfig, switching,
};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::scale_host;
use moebius_tests::data::Rng;
use moebius_tests::elements::exact;
use moebius_tests::gradients::filled;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, relative_error};

const TOKENS: usize = 21;
const HIDDEN: usize = 10;
const INTER: usize = 7;
const EXPERTS: usize = 3;

fn config(recipe: Fp8Recipe) -> MoeConfig {
    MoeConfig::new(HIDDEN, INTER, EXPERTS)
        .with_activation(Activation::Relu)
        .with_gated(true)
        .with_fp8(Some(recipe))
}

fn delayed() -> Fp8Recipe {
    Fp8Recipe::delayed().with_scaling(Fp8Scaling::Delayed {
        history_len: 4,
        algorithm: AmaxAlgorithm::Max,
    })
}

fn layer(config: MoeConfig, device: &Device) -> MoeLayer {
    let mut rng = Rng::new(21);
    fn of<const D: usize>(rng: &mut Rng, shape: [usize; D], device: &Device) -> Tensor<D> {
        drawn(rng, shape, 0.6, DType::F32, device).require_grad()
    }
    let weights = MoeWeights {
        router: of(&mut rng, [EXPERTS, HIDDEN], device),
        w_in: of(&mut rng, [EXPERTS, 2 * INTER, HIDDEN], device),
        b_in: None,
        w_out: of(&mut rng, [EXPERTS, HIDDEN, INTER], device),
        b_out: None,
    };
    config.with_weights(weights).unwrap()
}

fn batch(seed: u64, device: &Device) -> Tensor<2> {
    random(seed, [TOKENS, HIDDEN], 1.5, device)
}

/// Quantises and dequantises values with the scale of their own amax.
fn current(values: &[f64], format: Fp8Format) -> Vec<f64> {
    let values: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    let scale = scale_host(amax(&values), format, 0);
    let rounded = quantised(&values, format, scale);
    exact(&rounded)
}

/// A slot that was routed to an expert.
struct Slot {
    token: usize,
    expert: usize,
    weight: f64,
}

/// The expected outputs of these slots' experts, and the gradients of their weights, given dy \[T,H\].
struct Want {
    y: Vec<f64>,
    dw_in: Vec<f64>,
    dw_out: Vec<f64>,
}

/// Multiplies v by W \[rows, columns\] of expert `e`, or by its transpose.
fn times(
    w: &[f64],
    e: usize,
    [rows, columns]: [usize; 2],
    v: &[f64],
    transposed: bool,
) -> Vec<f64> {
    let w = &w[e * rows * columns..][..rows * columns];
    if transposed {
        let column = |c: usize| (0..rows).map(|r| w[r * columns + c] * v[r]).sum();
        return (0..columns).map(column).collect();
    }
    let row = |w: &[f64]| w.iter().zip(v).map(|(w, v)| w * v).sum();
    w.chunks(columns).map(row).collect()
}

fn add_outer(dw: &mut [f64], e: usize, g: &[f64], v: &[f64]) {
    let dw = &mut dw[e * g.len() * v.len()..][..g.len() * v.len()];
    for (row, g) in dw.chunks_mut(v.len()).zip(g) {
        row.iter_mut().zip(v).for_each(|(dw, v)| *dw += g * v);
    }
}

/// Computes relu(gate) ∘ up from a row of gates and ups.
fn gated(row: &[f64]) -> Vec<f64> {
    (0..INTER)
        .map(|i| row[i].max(0.0) * row[INTER + i])
        .collect()
}

/// The gradient of a row of gates and ups, given the gradient of relu(gate) ∘ up.
fn before_gate(row: &[f64], dh: &[f64]) -> Vec<f64> {
    let (gate, up) = row.split_at(INTER);
    let open = |gate: f64| f64::from(u8::from(gate > 0.0));
    let dgate = (0..INTER).map(|i| dh[i] * up[i] * open(gate[i]));
    let dup = (0..INTER).map(|i| dh[i] * gate[i].max(0.0));
    dgate.chain(dup).collect()
}

/// Computes the expected values: with the rounding of current scaling if `fp8`, else without rounding.
fn want(slots: &[Slot], [x, w_in, w_out, dy]: [&[f64]; 4], fp8: bool) -> Want {
    let round = |values: &[f64], format| {
        if fp8 {
            current(values, format)
        } else {
            values.to_vec()
        }
    };
    let (e4m3, e5m2) = (Fp8Format::E4M3, Fp8Format::E5M2);
    let (x, w_in, w_out) = (round(x, e4m3), round(w_in, e4m3), round(w_out, e4m3));
    let of = |values: &[f64], at: usize, width: usize| values[at * width..][..width].to_vec();
    let (shape_in, shape_out) = ([2 * INTER, HIDDEN], [HIDDEN, INTER]);
    let x_of = |slot: &Slot| of(&x, slot.token, HIDDEN);
    let row = |slot: &Slot| times(&w_in, slot.expert, shape_in, &x_of(slot), false);
    let rows: Vec<Vec<f64>> = slots.iter().map(row).collect();
    let hidden: Vec<f64> = rows.iter().flat_map(|row| gated(row)).collect();
    let hidden = round(&hidden, e4m3);
    let mut want = Want {
        y: vec![0.0; x.len()],
        dw_in: vec![0.0; w_in.len()],
        dw_out: vec![0.0; w_out.len()],
    };
    let mut douts = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        let h = of(&hidden, at, INTER);
        let out = times(&w_out, slot.expert, shape_out, &h, false);
        let y = &mut want.y[slot.token * HIDDEN..][..HIDDEN];
        y.iter_mut()
            .zip(&out)
            .for_each(|(y, o)| *y += slot.weight * o);
        let dy = of(dy, slot.token, HIDDEN);
        douts.extend(dy.iter().map(|dy| slot.weight * dy));
    }
    let douts = round(&douts, e5m2);
    let mut drows = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        let (h, dout) = (of(&hidden, at, INTER), of(&douts, at, HIDDEN));
        add_outer(&mut want.dw_out, slot.expert, &dout, &h);
        let dh = times(&w_out, slot.expert, shape_out, &dout, true);
        drows.extend(before_gate(&rows[at], &dh));
    }
    let drows = round(&drows, e5m2);
    for (slot, drow) in slots.iter().zip(drows.chunks(2 * INTER)) {
        add_outer(&mut want.dw_in, slot.expert, drow, &x_of(slot));
    }
    want
}

/// Compares a step of the layer with the reference; experts that `mask` excludes get no slot.
fn check(target: &Target, mask: Option<[bool; EXPERTS]>) -> Outcome {
    let device = target.burn().autodiff();
    let layer = layer(config(Fp8Recipe::current()), &device);
    let (x, dy) = (batch(1, &device), batch(2, &device));
    let out = match mask {
        None => layer.forward(x.clone()),
        Some(mask) => {
            let mask = tensors::mask(&mask, &device);
            layer.forward_masked(x.clone(), mask)
        }
    };
    let out = out.unwrap();
    let gradients = (out.y.clone() * dy.clone()).sum().backward();
    update(&layer, &gradients, None);

    let indices = out.routing.indices.into_data();
    let slots: Vec<Slot> = indices
        .iter::<i64>()
        .zip(doubles(out.routing.weights))
        .enumerate()
        .map(|(at, (expert, weight))| Slot {
            token: at / 2,
            expert: usize::try_from(expert).unwrap_or(EXPERTS),
            weight,
        })
        .filter(|slot| slot.expert < EXPERTS && mask.is_none_or(|mask| mask[slot.expert]))
        .collect();
    let dropped = integers(out.dropped_slots);
    assert_eq!(slots.len(), 2 * TOKENS - dropped[0] as usize);
    let weights = layer.weights().unwrap();
    let (dw_in, dw_out) = (
        weights.w_in.grad(&gradients),
        weights.w_out.grad(&gradients),
    );
    let (x, w_in, w_out, dy) = (
        doubles(x),
        doubles(weights.w_in),
        doubles(weights.w_out),
        doubles(dy),
    );
    let inputs = [&x[..], &w_in, &w_out, &dy];
    let exact = want(&slots, inputs, true);
    // A hidden value near a tie may be rounded to the other neighbour when its sum has another order: about one in a hundred,
    // by 1/16 each.
    assert_close("y", &floats(out.y.clone()), &exact.y, 2e-3);
    let (dw_in, dw_out) = (floats(dw_in.unwrap()), floats(dw_out.unwrap()));
    assert_close("dW_in", &dw_in, &exact.dw_in, 1e-2);
    assert_close("dW_out", &dw_out, &exact.dw_out, 1e-2);
    // The result is also near the unrounded one, though not as near.
    let plain = want(&slots, inputs, false);
    assert_close("y", &floats(out.y.clone()), &plain.y, 0.1);
    assert_close("dW_in", &dw_in, &plain.dw_in, 0.15);
    let error = relative_error(&floats(out.y), &plain.y);
    assert!(error > 5e-3, "nothing was rounded: {error}");
    Outcome::Ran
}

pub(crate) fn values_and_gradients(target: &Target) -> Outcome {
    check(target, None)
}

/// Checks that rows without an expert, half of the slots, don't count in any amax.
pub(crate) fn rows_without_expert_do_not_count(target: &Target) -> Outcome {
    check(target, Some([false, true, false]))
}

/// Trains for a few steps, optionally interrupted by saving and loading a record.
fn train(target: &Target, recipe: Option<Fp8Recipe>, interrupt: bool) -> Vec<f32> {
    let device = target.burn().autodiff();
    let config = config(delayed()).with_fp8(recipe).with_bias(true);
    // All runs start from the same weights.
    let plain = config.with_fp8(None).init(&device).unwrap();
    let weights = filled(plain, 3, 0.4).weights().unwrap();
    let mut model = config.with_weights(weights).unwrap();
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for step in 0..6 {
        if interrupt && step == 3 {
            model = resumed(model, config.init(&device).unwrap());
        }
        let out = model.forward(batch(1, &device)).unwrap();
        let loss = (out.y - batch(2, &device)).powi_scalar(2);
        let loss = loss.reshape([1, TOKENS * HIDDEN]).mean_dim(1).reshape([1]);
        losses.push(floats(loss.clone())[0]);
        let gradients = loss.backward();
        update(&model, &gradients, None);
        let gradients = GradientsParams::from_grads(gradients, &model);
        model = optimizer.step(0.02, model, gradients);
    }
    losses
}

pub(crate) fn learns_as_without_fp8(target: &Target) {
    let plain = train(target, None, false);
    for recipe in [delayed(), Fp8Recipe::current()] {
        let losses = train(target, Some(recipe), false);
        assert!(losses[5] < 0.97 * losses[0], "{losses:?}");
        for (fp8, plain) in losses.iter().zip(&plain) {
            assert!((fp8 - plain).abs() < 0.02 * plain, "{losses:?}, {plain:?}");
        }
        assert!(losses != plain);
    }
}

pub(crate) fn records_continue_bit_for_bit(target: &Target) {
    let whole = train(target, Some(delayed()), false);
    assert_eq!(train(target, Some(delayed()), false), whole, "two runs");
    assert_eq!(train(target, Some(delayed()), true), whole, "resumed");
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let config = config(Fp8Recipe::current());
    let convolutional = config.with_kind(ExpertKind::Convolutional { causal: true });
    assert_refused(ErrorKind::Config, convolutional.init(&device));
    let margin = config.with_fp8(Some(Fp8Recipe::current().with_margin(40)));
    assert_refused(ErrorKind::Config, margin.init(&device));
    // Experts whose precision isn't the configuration's.
    let mut mixed = config.init(&device).unwrap();
    mixed.experts = config.with_fp8(None).init(&device).unwrap().experts;
    assert_refused(ErrorKind::Config, mixed.forward(batch(1, &device)));
    let fp8 = config.init(&device).unwrap();
    let Experts::FeedForward(experts) = &fp8.experts else {
        panic!("they are feed-forward");
    };
    assert_eq!(experts.w_in.precision(), Precision::Fp8Training);
    assert_refused(ErrorKind::Unsupported, switching::HostLayer::read(fp8));
    let shared = config.with_shared(Some(SharedExpertConfig::new(5)));
    let shared = shared.init(&device).unwrap();
    let y = shared.forward(batch(1, &device)).unwrap().y;
    assert_eq!(y.dims(), [TOKENS, HIDDEN]);
    let none = Tensor::<2>::zeros([0, HIDDEN], &device);
    let none = config.init(&device).unwrap().forward(none).unwrap();
    assert_eq!(none.y.dims(), [0, HIDDEN]);
}
