//! The network of the benchmark in f64 on the host: what its loss is for some weights.

use super::Sizes;
use moebius_ops::grouped_gemm::Activation;

/// Added to a variance, as Burn's layer norm does.
const EPSILON: f64 = 1e-5;

/// Mean cross entropy of `tokens` \[B,S\], whose classes are `classes` \[B\], in a network of such weights, which are one
/// after the other as [`Numbers`](super::network::Numbers) has them.
pub(super) fn loss(sizes: &Sizes, weights: &[f64], tokens: &[i32], classes: &[i32]) -> f64 {
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

/// Weights that are taken one after the other.
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

    /// Rows of x \[.., width\] with mean 0 and variance 1, times γ \[width\], plus β \[width\].
    fn norm(&mut self, x: &[f64], width: usize) -> Vec<f64> {
        let (gamma, beta) = (self.take(width), self.take(width));
        let mut y = Vec::with_capacity(x.len());
        for row in x.chunks(width) {
            let mean = row.iter().sum::<f64>() / width as f64;
            let squares = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let root = (squares / width as f64 + EPSILON).sqrt();
            let affine = row.iter().zip(gamma).zip(beta);
            y.extend(affine.map(|((x, gamma), beta)| (x - mean) / root * gamma + beta));
        }
        y
    }
}

/// softmax(q·kᵀ/√d)·v in every head, all \[B,S,hidden\].
fn attention(sizes: &Sizes, [q, k, v]: [&[f64]; 3]) -> Vec<f64> {
    let (seq, hidden) = (sizes.seq, sizes.hidden);
    let dim = hidden / sizes.heads;
    let mut out = vec![0.0; q.len()];
    for at in 0..q.len() / hidden {
        let others = at / seq * seq..(at / seq + 1) * seq;
        for head in 0..sizes.heads {
            // Heads lie side by side in a row.
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
    /// Embedding, two norms, four products of attention, two of the block, the last norm and the head.
    const COUNT: usize = 20 + 2 * 8 + 4 * 20 + (16 * 4 + 16) + (16 * 4 + 4) + 8 + 15;

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
        // ln(e¹ + e² + e³) = 3.40760596444438, less 3 and less 1.
        assert!((loss - 1.407_605_964_444_38).abs() < 1e-12, "{loss}");
    }

    #[test]
    fn a_sequence_is_a_set_and_does_not_see_the_others() {
        let weights = numbers();
        let loss = |tokens: [i32; 6], classes: [i32; 2]| loss(&SIZES, &weights, &tokens, &classes);
        let one = loss([0, 1, 2, 3, 4, 0], [0, 2]);
        // What a script in Python gives, written after `peers/jax_training_step.py` alone.
        assert!((one - 2.137_524_842_035_451_6).abs() < 1e-13, "{one}");
        // There are no positions, and the mean over a sequence has no order.
        assert!((one - loss([2, 0, 1, 0, 3, 4], [0, 2])).abs() < 1e-12);
        assert!((one - loss([3, 4, 0, 0, 1, 2], [2, 0])).abs() < 1e-12);
        assert!((one - loss([0, 1, 2, 3, 4, 1], [0, 2])).abs() > 1e-6);
    }
}
