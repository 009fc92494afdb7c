//! The same results on the host, in f64, for a few rows.

/// ‖got − expected‖ / ‖expected‖.
pub(super) fn relative_error(pairs: impl IntoIterator<Item = (f32, f64)>) -> f64 {
    let (error, norm) = pairs
        .into_iter()
        .fold((0.0, 0.0), |(error, norm), (got, expected)| {
            let difference = f64::from(got) - expected;
            (error + difference * difference, norm + expected * expected)
        });
    (error / norm).sqrt()
}

/// x · row of two rows of equal length.
pub(super) fn dot(x: &[f64], row: &[f32]) -> f64 {
    x.iter().zip(row).map(|(x, w)| x * f64::from(*w)).sum()
}

/// As f64s.
pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Ungated relu experts of width F behind a softmax router over width H, weights of the chosen sum to 1.
pub(super) struct Experts {
    pub(super) hidden: usize,
    pub(super) inter: usize,
    pub(super) top_k: usize,
    /// \[E,H\].
    pub(super) router: Vec<f32>,
    /// \[E,F,H\].
    pub(super) w_in: Vec<f32>,
    /// \[E,H,F\].
    pub(super) w_out: Vec<f32>,
}

impl Experts {
    /// y \[H\] of a token x \[H\].
    pub(super) fn token(&self, x: &[f32]) -> Vec<f64> {
        let x = wide(x);
        let logits: Vec<f64> = self
            .router
            .chunks(self.hidden)
            .map(|row| dot(&x, row))
            .collect();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // Stable: the first of equals stays first.
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        let chosen = &order[..self.top_k];
        let weights: Vec<f64> = chosen
            .iter()
            .map(|e| (logits[*e] - logits[order[0]]).exp())
            .collect();
        let sum: f64 = weights.iter().sum();
        let mut y = vec![0.0; self.hidden];
        for (expert, weight) in chosen.iter().zip(weights) {
            for (y, out) in y.iter_mut().zip(self.expert(*expert, &x)) {
                *y += weight / sum * out;
            }
        }
        y
    }

    fn expert(&self, expert: usize, x: &[f64]) -> Vec<f64> {
        let size = self.inter * self.hidden;
        let of = |stack: &[f32]| stack[expert * size..(expert + 1) * size].to_vec();
        let (w_in, w_out) = (of(&self.w_in), of(&self.w_out));
        let rows = w_in.chunks(self.hidden);
        let hidden: Vec<f64> = rows.map(|row| dot(x, row).max(0.0)).collect();
        w_out
            .chunks(self.inter)
            .map(|row| dot(&hidden, row))
            .collect()
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
