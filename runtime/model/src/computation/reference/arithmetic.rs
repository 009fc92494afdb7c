//! Sums in f64 of weights in f32.

/// Number of partial sums of a product, which a processor adds side by side.
const LANES: usize = 8;

/// x · Wᵀ + b \[T, out\] of x \[T, width\], W \[out, width\] and b \[out\].
pub(super) fn linear(x: &[f64], w: &[f32], bias: Option<&[f32]>, width: usize) -> Vec<f64> {
    let (tokens, out) = (x.len() / width, w.len() / width);
    let mut y = vec![0.0; tokens * out];
    // A row of W is read once for all tokens.
    for (column, row) in w.chunks_exact(width).enumerate() {
        let bias = bias.map_or(0.0, |bias| f64::from(bias[column]));
        for (token, x) in x.chunks_exact(width).enumerate() {
            y[token * out + column] = dot(x, row) + bias;
        }
    }
    y
}

fn dot(x: &[f64], w: &[f32]) -> f64 {
    let ((x, x_rest), (w, w_rest)) = (x.as_chunks::<LANES>(), w.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (x, w) in x.iter().zip(w) {
        for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
            *sum += x * f64::from(*w);
        }
    }
    let rest = x_rest.iter().zip(w_rest);
    let rest: f64 = rest.map(|(x, w)| x * f64::from(*w)).sum();
    sums.iter().sum::<f64>() + rest
}

/// x / √(mean(x²) + ε) · γ over rows of `width`; without factors γ, γ is 1.
pub(super) fn rms_norm(x: &[f64], gamma: Option<&[f32]>, width: usize, epsilon: f64) -> Vec<f64> {
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let square = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
        let scale = 1.0 / (square + epsilon).sqrt();
        let factor = |at: usize| gamma.map_or(1.0, |gamma| f64::from(gamma[at]));
        y.extend(row.iter().enumerate().map(|(at, x)| x * scale * factor(at)));
    }
    y
}

/// Columns `from` to `from + count` of x \[T, width\].
pub(super) fn columns(x: &[f64], width: usize, from: usize, count: usize) -> Vec<f64> {
    let rows = x.chunks_exact(width);
    rows.flat_map(|row| &row[from..from + count])
        .copied()
        .collect()
}

/// 1 / (1 + exp(−x)).
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// exp(x) / Σ exp(x) of all elements.
pub(super) fn softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let parts: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = parts.iter().sum();
    parts.iter().map(|part| part / sum).collect()
}

/// c · tanh(x / c), or x without a bound c.
pub(super) fn bounded(x: f64, cap: Option<f64>) -> f64 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}
