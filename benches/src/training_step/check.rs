//! The check before the numbers: loss, gradients and new weights of a step against the network in f64.

use super::reference::loss;
use super::{Mmix, RATE, Sizes};

/// Directions in which the slope of the loss is compared.
const DIRECTIONS: u64 = 3;
/// How far a weight is moved for a slope, which that makes right to about 1e-8.
const MOVE: f64 = 1e-5;
/// Adam's ε.
pub(super) const EPSILON: f64 = 1e-8;

/// The first step of a training, read from its device.
pub(super) struct Step {
    pub(super) loss: f32,
    /// Of all weights, in their order.
    pub(super) gradients: Vec<f32>,
    /// After the step.
    pub(super) weights: Vec<f32>,
}

/// The largest relative error of the step that a training from the weights `before` takes for tokens \[B,S\] and classes \[B\]: of the
/// loss; of the slopes along some random directions, over the norm of the gradients, so that an error in any of them shows; and of
/// what Adam's first step adds to the weights. Infinite for another number of weights, or where something is no number.
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
    // Both moments are the gradient's own in the first step.
    let wanted: Vec<f64> = gradients
        .iter()
        .map(|g| -RATE * g / (g.abs() + EPSILON))
        .collect();
    let added = after.iter().zip(&weights).zip(&wanted);
    let added = norm(added.map(|((after, before), wanted)| after - before - wanted));
    let errors = [
        (f64::from(step.loss) - want) / want,
        added / norm(wanted.iter().copied()),
    ];
    let errors = errors.into_iter().chain(slopes).map(f64::abs);
    // max() leaves out what is no number.
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

/// 1 and −1 that look random, and are the same in every run.
fn signs(len: usize, seed: u64) -> Vec<f64> {
    let mut numbers = Mmix(seed);
    let mut sign = || [1.0, -1.0][(numbers.next() >> 63) as usize];
    (0..len).map(|_| sign()).collect()
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
    const TOKENS: [i32; 6] = [0, 1, 2, 3, 4, 0];
    const CLASSES: [i32; 2] = [0, 2];
    const COUNT: usize = 287;

    /// A right step: each gradient is a slope of its own.
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
        let moved = moved.map(|(weight, g)| weight - RATE * g / (g.abs() + EPSILON));
        Step {
            loss: loss(&SIZES, &weights, &TOKENS, &CLASSES) as f32,
            weights: moved.map(|weight| weight as f32).collect(),
            gradients: gradients.iter().map(|g| *g as f32).collect(),
        }
    }

    #[test]
    fn a_right_step_passes_and_each_kind_of_wrong_one_does_not() {
        let before: Vec<f32> = (0..COUNT)
            .map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0)
            .collect();
        let of = |step: &Step| error(&SIZES, &before, (&TOKENS, &CLASSES), step);
        assert!(of(&right(&before)) < 1e-4, "{}", of(&right(&before)));
        let wrong: [fn(&mut Step); 6] = [
            |step| step.loss *= 1.01,
            |step| step.loss = f32::NAN,
            // The head's bias, left out.
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
