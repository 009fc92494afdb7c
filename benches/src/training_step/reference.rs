//! The check before the timing: loss, gradients and new weights of one step against the same network in f64 on the host.

use super::{Mmix, RATE, Sizes};
use moebius_ops::grouped_gemm::Activation;

/// Number of directions in which the slope of the loss is compared.
const DIRECTIONS: u64 = 3;
/// Step of the central difference; the slope is then right to about 1e-8.
const MOVE: f64 = 1e-5;
/// Adam's ε.
pub(super) const ADAM_EPSILON: f64 = 1e-8;

/// ε that the layer norm adds to a variance, as Burn does.
const NORM_EPSILON: f64 = 1e-5;

/// The first step of a training, as read from its device.
pub(super) struct Step {
    pub(super) loss: f32,
    /// Gradients of all weights, in the order of `weights`.
    pub(super) gradients: Vec<f32>,
    /// All weights after the step.
    pub(super) weights: Vec<f32>,
}

/// Largest relative error of a step from the weights `before`, for tokens \[B,S\] and classes \[B\]: of the loss; of the slopes along
/// random directions, divided by the norm of the gradients, so that an error in any gradient shows; and of the change that Adam's
/// first step makes to the weights. Infinite if a number of weights differs or a value is NaN.
pub(super) fn error(
    sizes: &Sizes,
    before: &[f32],
    (tokens, classes): (&[i32], &[i32]),
    step: &Step,
) -> f64 {
    let counts = [step.gradients.len(), step.weights.len()];
    if counts != [before.len(); 2] {
        return f64::INFINITY;
    }
    let [weights, gradients, after] = [before, &step.gradients, &step.weights].map(wide);
    let loss = |weights: &[f64]| loss(sizes, weights, tokens, classes);
    let want = loss(&weights);
    let size = norm(gradients.iter().copied());
    let slopes = (1..=DIRECTIONS).map(|seed| {
        let signs = signs(weights.len(), seed);
        let moved = |by: f64| -> Vec<f64> {
            let moves = weights.iter().zip(&signs);
            moves.map(|(weight, sign)| weight + by * sign).collect()
        };
        let slope = (loss(&moved(MOVE)) - loss(&moved(-MOVE))) / (2.0 * MOVE);
        let along: f64 = gradients.iter().zip(&signs).map(|(g, sign)| g * sign).sum();
        (along - slope) / size
    });
    // In Adam's first step, both corrected moments come from this gradient alone, so their ratio is the gradient over
    // its magnitude.
    let wanted: Vec<f64> = gradients
        .iter()
        .map(|g| -RATE * g / (g.abs() + ADAM_EPSILON))
        .collect();
    let added = after.iter().zip(&weights).zip(&wanted);
    let added = norm(added.map(|((after, before), wanted)| after - before - wanted));
    let errors = [
        (f64::from(step.loss) - want) / want,
        added / norm(wanted.iter().copied()),
    ];
    let errors = errors.into_iter().chain(slopes).map(f64::abs);
    // f64::max ignores NaN, so NaN is checked separately.
    errors.fold(0.0, |most: f64, error| {
        if error.is_nan() {
            f64::INFINITY
        } else {
            most.max(error)
        }
    })
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// Pseudorandom signs 1 and −1, the same in every run.
fn signs(len: usize, seed: u64) -> Vec<f64> {
    let mut numbers = Mmix(seed);
    let mut sign = || [1.0, -1.0][(numbers.next() >> 63) as usize];
    (0..len).map(|_| sign()).collect()
}

/// Mean cross entropy of `tokens` \[B,S\] with classes `classes` \[B\], in a network whose `weights` are in the order of
/// [`Numbers`](super::network::Numbers).
fn loss(sizes: &Sizes, weights: &[f64], tokens: &[i32], classes: &[i32]) -> f64 {
    let (hidden, seq) = (sizes.hidden, sizes.seq);
    let mut weights = Weights(weights);
    let embedding = weights.take(sizes.vocabulary * hidden);
    let rows = tokens
        .iter()
        .flat_map(|token| row(embedding, *token as usize, hidden));
    let mut x: Vec<f64> = rows.copied().collect();
    for _ in 0..sizes.layers {
        let seen = weights.norm(&x, hidden);
        let [q, k, v] = [(); 3].map(|()| weights.linear(&seen, [hidden, hidden]));
        let context = attention(sizes, [&q, &k, &v]);
        add(&mut x, &weights.linear(&context, [hidden, hidden]));
        let seen = weights.norm(&x, hidden);
        let wide = weights.linear(&seen, [hidden, 4 * hidden]);
        let wide: Vec<f64> = wide
            .into_iter()
            .map(|x| Activation::Gelu.reference(x))
            .collect();
        add(&mut x, &weights.linear(&wide, [4 * hidden, hidden]));
    }
    let seen = weights.norm(&x, hidden);
    let mut means = vec![0.0; sizes.batch * hidden];
    for (mean, sequence) in means.chunks_mut(hidden).zip(seen.chunks(seq * hidden)) {
        sequence.chunks(hidden).for_each(|row| add(mean, row));
        mean.iter_mut().for_each(|mean| *mean /= seq as f64);
    }
    let logits = weights.linear(&means, [hidden, sizes.classes]);
    let rows = logits.chunks(sizes.classes).zip(classes);
    let surprise = rows.map(|(logits, class)| log_sum_exp(logits) - logits[*class as usize]);
    surprise.sum::<f64>() / sizes.batch as f64
}

/// The weights not yet taken by a layer.
struct Weights<'a>(&'a [f64]);

impl<'a> Weights<'a> {
    fn take(&mut self, count: usize) -> &'a [f64] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// x \[.., in\] · W \[in, out\] + b \[out\].
    fn linear(&mut self, x: &[f64], [inputs, outputs]: [usize; 2]) -> Vec<f64> {
        let (weight, bias) = (self.take(inputs * outputs), self.take(outputs));
        let mut y = bias.repeat(x.len() / inputs);
        for (y, x) in y.chunks_mut(outputs).zip(x.chunks(inputs)) {
            for (x, weight) in x.iter().zip(weight.chunks(outputs)) {
                y.iter_mut().zip(weight).for_each(|(y, w)| *y += x * w);
            }
        }
        y
    }

    /// Layer norm: rows of x \[.., width\] with mean 0 and variance 1, times γ \[width\], plus β \[width\].
    fn norm(&mut self, x: &[f64], width: usize) -> Vec<f64> {
        let (gamma, beta) = (self.take(width), self.take(width));
        let mut y = Vec::with_capacity(x.len());
        for row in x.chunks(width) {
            let mean = row.iter().sum::<f64>() / width as f64;
            let squares = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let root = (squares / width as f64 + NORM_EPSILON).sqrt();
            let affine = row.iter().zip(gamma).zip(beta);
            y.extend(affine.map(|((x, gamma), beta)| (x - mean) / root * gamma + beta));
        }
        y
    }
}

/// Multi-head attention softmax(q·kᵀ/√d)·v; q, k, v and the result are \[B,S,hidden\].
fn attention(sizes: &Sizes, [q, k, v]: [&[f64]; 3]) -> Vec<f64> {
    let (seq, hidden) = (sizes.seq, sizes.hidden);
    let dim = hidden / sizes.heads;
    let mut out = vec![0.0; q.len()];
    for at in 0..q.len() / hidden {
        let others = at / seq * seq..(at / seq + 1) * seq;
        for head in 0..sizes.heads {
            // The heads lie side by side in a row.
            let part = |row: usize| row * hidden + head * dim..row * hidden + (head + 1) * dim;
            let query = &q[part(at)];
            let scores = others.clone().map(|key| dot(query, &k[part(key)]));
            let scores: Vec<f64> = scores.map(|score| score / (dim as f64).sqrt()).collect();
            let all = log_sum_exp(&scores);
            for (key, score) in others.clone().zip(scores) {
                let (weight, value) = ((score - all).exp(), &v[part(key)]);
                let out = out[part(at)].iter_mut();
                out.zip(value).for_each(|(out, v)| *out += weight * v);
            }
        }
    }
    out
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], more: &[f64]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to += more);
}

fn row(values: &[f64], at: usize, width: usize) -> &[f64] {
    &values[at * width..][..width]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        batch: 2,
        seq: 3,
        hidden: 4,
        heads: 2,
        layers: 1,
        vocabulary: 5,
        classes: 3,
    };
    /// Number of weights: embedding, two norms, four products of attention, two of the block, the last norm and the
    /// head.
    const COUNT: usize = 20 + 2 * 8 + 4 * 20 + (16 * 4 + 16) + (16 * 4 + 4) + 8 + 15;

    const TOKENS: [i32; 6] = [0, 1, 2, 3, 4, 0];
    const CLASSES: [i32; 2] = [0, 2];

    fn numbers() -> Vec<f64> {
        (0..COUNT)
            .map(|i| ((i * 37 % 101) as f64 / 50.0) - 1.0)
            .collect()
    }

    #[test]
    fn without_weights_all_classes_are_alike() {
        let tokens = [0, 1, 2, 3, 4, 0];
        let loss = loss(&SIZES, &[0.0; COUNT], &tokens, &[0, 2]);
        assert!((loss - 3.0_f64.ln()).abs() < 1e-12, "{loss}");
    }

    #[test]
    fn the_head_alone_decides_where_the_last_norm_is_0() {
        let mut weights = vec![0.0; COUNT];
        weights[COUNT - 3..].copy_from_slice(&[1.0, 2.0, 3.0]);
        let loss = loss(&SIZES, &weights, &[0; 6], &[2, 0]);
        // The log-sum-exp ln(e¹ + e² + e³) = 3.40760596444438, less the logits 3 and 1, on average.
        assert!((loss - 1.407_605_964_444_38).abs() < 1e-12, "{loss}");
    }

    #[test]
    fn a_sequence_is_a_set_and_does_not_see_the_others() {
        let weights = numbers();
        let loss = |tokens: [i32; 6], classes: [i32; 2]| loss(&SIZES, &weights, &tokens, &classes);
        let one = loss([0, 1, 2, 3, 4, 0], [0, 2]);
        // Result of a Python script, written from `peers/jax_training_step.py` alone.
        assert!((one - 2.137_524_842_035_451_6).abs() < 1e-13, "{one}");
        // The network has no positions, and the mean over a sequence has no order.
        assert!((one - loss([2, 0, 1, 0, 3, 4], [0, 2])).abs() < 1e-12);
        assert!((one - loss([3, 4, 0, 0, 1, 2], [2, 0])).abs() < 1e-12);
        assert!((one - loss([0, 1, 2, 3, 4, 1], [0, 2])).abs() > 1e-6);
    }

    /// A right step, with each gradient from a central difference.
    fn right(before: &[f32]) -> Step {
        let weights = wide(before);
        let slope = |at: usize| {
            let moved = |by: f64| {
                let mut weights = weights.clone();
                weights[at] += by;
                loss(&SIZES, &weights, &TOKENS, &CLASSES)
            };
            (moved(MOVE) - moved(-MOVE)) / (2.0 * MOVE)
        };
        let gradients: Vec<f64> = (0..COUNT).map(slope).collect();
        let moved = weights.iter().zip(&gradients);
        let moved = moved.map(|(weight, g)| weight - RATE * g / (g.abs() + ADAM_EPSILON));
        Step {
            loss: loss(&SIZES, &weights, &TOKENS, &CLASSES) as f32,
            weights: moved.map(|weight| weight as f32).collect(),
            gradients: gradients.iter().map(|g| *g as f32).collect(),
        }
    }

    #[test]
    fn a_right_step_passes_and_each_kind_of_wrong_one_does_not() {
        let before: Vec<f32> = numbers().into_iter().map(|x| x as f32).collect();
        let of = |step: &Step| error(&SIZES, &before, (&TOKENS, &CLASSES), step);
        assert!(of(&right(&before)) < 1e-4, "{}", of(&right(&before)));
        let wrong: [fn(&mut Step); 6] = [
            |step| step.loss *= 1.01,
            |step| step.loss = f32::NAN,
            // The gradient of the head's bias is left out.
            |step| step.gradients[COUNT - 3..].fill(0.0),
            |step| step.gradients.iter_mut().for_each(|g| *g *= 1.01),
            |step| step.weights[7] += 1e-3,
            |step| step.weights.truncate(COUNT - 1),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            let mut step = right(&before);
            change(&mut step);
            assert!(of(&step) > 1e-3, "{at}: {}", of(&step));
        }
    }
}
