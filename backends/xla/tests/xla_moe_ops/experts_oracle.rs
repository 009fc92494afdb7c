//! Feed-forward experts and their gradients in f64, slot by slot.

use crate::run::{Host, f32s, floats, i32s, noise};
use moebius_xla::ElementType;
use moebius_xla::custom::experts::{Activation, Experts};

/// Slots sorted by expert.
pub(crate) struct Sorted {
    pub(crate) order: Vec<i32>,
    pub(crate) offsets: Vec<i32>,
    pub(crate) positions: Vec<i32>,
}

/// The sort of `keys`, of which `experts` and above are none.
pub(crate) fn sorted(keys: &[usize], experts: usize) -> Sorted {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|slot| keys[*slot].min(experts));
    let below = |e: usize| keys.iter().filter(|key| **key < e).count() as i32;
    let mut positions = vec![-1; keys.len()];
    for (row, slot) in order.iter().enumerate() {
        if keys[*slot] < experts {
            positions[*slot] = row as i32;
        }
    }
    Sorted {
        order: order.into_iter().map(|slot| slot as i32).collect(),
        offsets: (0..=experts).map(below).collect(),
        positions,
    }
}

/// One batch and its experts, rounded to their type.
pub(crate) struct Batch {
    pub(crate) p: Experts,
    pub(crate) keys: Vec<usize>,
    pub(crate) x: Host,
    pub(crate) weights: Host,
    pub(crate) stacks: Vec<Host>,
}

impl Batch {
    pub(crate) fn new(p: Experts, element: ElementType, keys: &[usize]) -> Self {
        let (t, h, f, e) = (p.tokens, p.hidden, p.inter, p.experts);
        let columns = f * if p.gated { 2 } else { 1 };
        let numbers = |shape: &[usize], seed: u64, scale: f32| {
            let values = noise(shape.iter().product(), seed);
            let values: Vec<f32> = values.iter().map(|v| v * scale).collect();
            floats(element, shape, &values)
        };
        let mut stacks = vec![
            numbers(&[e, columns, h], 2, 0.5),
            numbers(&[e, h, f], 3, 0.5),
        ];
        if p.bias {
            stacks.extend([numbers(&[e, columns], 4, 1.0), numbers(&[e, h], 5, 1.0)]);
        }
        Self {
            p,
            keys: keys.to_vec(),
            x: numbers(&[t, h], 1, 2.0),
            weights: f32s(&[t, p.top_k], &noise(t * p.top_k, 6)),
            stacks,
        }
    }

    pub(crate) fn inputs(&self) -> Vec<Host> {
        let sorted = sorted(&self.keys, self.p.experts);
        let vector = |values: &[i32]| i32s(&[values.len()], values);
        let mut inputs = vec![
            self.x.clone(),
            self.weights.clone(),
            vector(&sorted.order),
            vector(&sorted.offsets),
            vector(&sorted.positions),
        ];
        inputs.extend(self.stacks.iter().cloned());
        inputs
    }
}

fn wide(host: &Host) -> Vec<f64> {
    host.to_floats().into_iter().map(f64::from).collect()
}

/// A value and its slope.
#[derive(Clone, Copy)]
struct Dual(f64, f64);

/// erf by numeric integration: Simpson's rule on 400 parts.
fn erf(x: f64) -> f64 {
    let (parts, end) = (400, x.clamp(-6.0, 6.0));
    let step = end / f64::from(parts);
    let value = |i: i32| (-(step * f64::from(i)).powi(2)).exp();
    let inner: f64 = (1..parts)
        .map(|i| value(i) * if i % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    (value(0) + inner + value(parts)) * step / 3.0 * std::f64::consts::FRAC_2_SQRT_PI
}

fn activation(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Mish => x * x.exp().ln_1p().tanh(),
    }
}

/// act and its slope, the slope by a central difference.
fn activated(kind: Activation, x: f64) -> Dual {
    const STEP: f64 = 1e-4;
    if kind == Activation::Relu {
        return Dual(x.max(0.0), f64::from(x > 0.0));
    }
    let rise = activation(kind, x + STEP) - activation(kind, x - STEP);
    Dual(activation(kind, x), rise / (2.0 * STEP))
}

/// All results in f64; of dy those of the backward pass.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) y: Vec<f64>,
    /// \[R, columns\].
    pub(crate) pre: Vec<f64>,
    pub(crate) dx: Vec<f64>,
    pub(crate) dweights: Vec<f64>,
    /// Of w_in, w_out, b_in, b_out.
    pub(crate) dstacks: [Vec<f64>; 4],
}

/// What one slot sees.
struct Slot<'a> {
    slot: usize,
    expert: usize,
    weight: f64,
    x: &'a [f64],
    dy: Vec<f64>,
}

/// w_in, w_out, and the biases if there are any.
struct Stacks(Vec<Vec<f64>>);

impl Stacks {
    fn bias(&self, stack: usize, at: usize) -> f64 {
        self.0.get(stack).map_or(0.0, |bias| bias[at])
    }
}

pub(crate) fn results(batch: &Batch, dy: &[f32]) -> Results {
    let p = &batch.p;
    let (h, f) = (p.hidden, p.inter);
    let columns = f * if p.gated { 2 } else { 1 };
    let (x, weights) = (wide(&batch.x), wide(&batch.weights));
    let stacks = Stacks(batch.stacks.iter().map(wide).collect());
    let positions = sorted(&batch.keys, p.experts).positions;
    let stack_lengths = [columns * h, h * f, columns, h].map(|len| p.experts * len);
    let mut r = Results {
        y: vec![0.0; p.tokens * h],
        pre: vec![0.0; p.row_bound * columns],
        dx: vec![0.0; p.tokens * h],
        dweights: vec![0.0; batch.keys.len()],
        dstacks: stack_lengths.map(|len| vec![0.0; len]),
    };
    for (slot, expert) in batch.keys.iter().copied().enumerate() {
        if expert >= p.experts {
            continue;
        }
        let token = slot / p.top_k;
        let dy = &dy[token * h..][..h];
        let slot = Slot {
            slot,
            expert,
            weight: weights[slot],
            x: &x[token * h..][..h],
            dy: dy.iter().map(|d| f64::from(*d)).collect(),
        };
        let pre = forward(p, &stacks, &slot, &mut r);
        r.pre[positions[slot.slot] as usize * columns..][..columns].copy_from_slice(&pre);
        backward(p, &stacks, &slot, &pre, &mut r);
    }
    r
}

/// Adds a slot's output and what follows from it alone; returns its first product.
fn forward(p: &Experts, stacks: &Stacks, at: &Slot, r: &mut Results) -> Vec<f64> {
    let (h, f, e) = (p.hidden, p.inter, at.expert);
    let columns = f * if p.gated { 2 } else { 1 };
    let product = |c: usize| {
        let row = &stacks.0[0][(e * columns + c) * h..][..h];
        let sum: f64 = row.iter().zip(at.x).map(|(w, x)| w * x).sum();
        sum + stacks.bias(2, e * columns + c)
    };
    let pre: Vec<f64> = (0..columns).map(product).collect();
    let up = |c: usize| if p.gated { pre[f + c] } else { 1.0 };
    let hidden = |c: usize| activated(p.activation, pre[c]).0 * up(c);
    let hidden: Vec<f64> = (0..f).map(hidden).collect();
    let first = at.slot / p.top_k * h;
    for i in 0..h {
        let row = stacks.0[1][(e * h + i) * f..][..f].iter();
        let out: f64 = row.zip(&hidden).map(|(w, hidden)| w * hidden).sum();
        let out = out + stacks.bias(3, e * h + i);
        r.y[first + i] += at.weight * out;
        r.dweights[at.slot] += at.dy[i] * out;
        r.dstacks[3][e * h + i] += at.weight * at.dy[i];
        for (c, hidden) in hidden.iter().enumerate() {
            r.dstacks[1][(e * h + i) * f + c] += at.weight * at.dy[i] * hidden;
        }
    }
    pre
}

/// Adds what goes through a slot's first product.
fn backward(p: &Experts, stacks: &Stacks, at: &Slot, pre: &[f64], r: &mut Results) {
    let (h, f, e) = (p.hidden, p.inter, at.expert);
    let columns = f * if p.gated { 2 } else { 1 };
    let first = at.slot / p.top_k * h;
    let mut through = |column: usize, d: f64| {
        let row = e * columns + column;
        r.dstacks[2][row] += d;
        for i in 0..h {
            r.dstacks[0][row * h + i] += d * at.x[i];
            r.dx[first + i] += d * stacks.0[0][row * h + i];
        }
    };
    for c in 0..f {
        let Dual(act, slope) = activated(p.activation, pre[c]);
        let g: f64 = (0..h)
            .map(|i| stacks.0[1][(e * h + i) * f + c] * at.dy[i])
            .sum();
        let up = if p.gated { pre[f + c] } else { 1.0 };
        through(c, at.weight * g * up * slope);
        if p.gated {
            through(f + c, at.weight * g * act);
        }
    }
}
