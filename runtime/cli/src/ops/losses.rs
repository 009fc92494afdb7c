//! Balance losses of a routing, each [1] and differentiable where it depends on the probabilities.

use burn::tensor::{Int, Tensor};
use moebius::Error;
use moebius::moe::Routing;
use moebius_shaders::ShapeError;

/// The losses that keep experts busy alike.
pub(super) struct Losses {
    /// E · Σ_e load_e/S · mean_t p_te.
    pub(super) switch: Tensor<1>,
    /// E · Σ_e mean_t p_te · (share of tokens whose first choice is e), averaged over groups.
    pub(super) gshard: Tensor<1>,
    /// (ln E − H(q)) / ln E, q = mean_t p_t; 0 for one expert.
    pub(super) entropy: Tensor<1>,
    /// mean_t (logsumexp of the logits)².
    pub(super) z: Tensor<1>,
}

/// The losses of `routing`, its tokens in `groups` equal groups.
pub(super) fn losses(routing: &Routing, groups: usize) -> Result<Losses, Error> {
    let [tokens, top_k] = routing.indices.dims();
    let experts = routing.experts();
    if groups == 0 || tokens == 0 || !tokens.is_multiple_of(groups) {
        let expected = format!("a divisor of {tokens} (the tokens)");
        return Err(ShapeError::new("groups", expected, groups).into());
    }
    let device = routing.probs.device();
    let per_group = tokens / groups;
    let mean = routing.probs.clone().mean_dim(0).reshape([experts]);
    let load = routing.load()?.float() / (tokens * top_k) as f64;
    let means = routing
        .probs
        .clone()
        .reshape([groups, per_group, experts])
        .mean_dim(1);
    let first = routing
        .indices
        .clone()
        .narrow(1, 0, 1)
        .reshape([groups, per_group, 1]);
    let all = Tensor::<1, Int>::arange(0..experts as i64, &device).reshape([1, 1, experts]);
    let shares = first
        .expand([groups, per_group, experts])
        .equal(all.expand([groups, per_group, experts]));
    let shares = shares.float().mean_dim(1);
    Ok(Losses {
        switch: (load * mean.clone()).sum() * experts as f64,
        gshard: (means * shares).sum() * (experts as f64 / groups as f64),
        entropy: entropy(&mean),
        z: routing.logsumexp.clone().powi_scalar(2).mean(),
    })
}

/// (ln E − H(q)) / ln E of q [E], which sums to 1; 0 for one expert.
///
/// Near balance both terms are ln E and their difference is lost in f32. With d = E·q − 1, which
/// sums to 0, ln E − H(q) = Σ f(d) / E, f(d) = (1 + d) ln(1 + d) − d ≥ 0: nothing cancels between
/// experts, and within one the series is taken where the logarithm's error would show.
fn entropy(q: &Tensor<1>) -> Tensor<1> {
    let experts = q.dims()[0] as f64;
    if experts == 1.0 {
        return q.clone() * 0.0;
    }
    const SERIES_BELOW: f32 = 0.25;
    let ratio = q.clone() * experts;
    let d = ratio.clone() - 1.0;
    // f(d) = d² Σ (−d)ⁿ / ((n + 1)(n + 2)); eight terms leave 4e-7 of it.
    let mut series = d.zeros_like();
    for n in (0..8).rev() {
        series = series * -d.clone() + 1.0 / f64::from((n + 1) * (n + 2));
    }
    let near = series * d.clone() * d.clone();
    // 0 · ln 0 = 0.
    let ratio = ratio.clamp_min(f32::MIN_POSITIVE);
    let far = ratio.clone() * ratio.log() - d.clone();
    let f = far.mask_where(d.abs().lower_elem(SERIES_BELOW), near);
    f.sum() / (experts * experts.ln())
}

#[cfg(test)]
mod tests {
    use super::entropy;
    use burn::tensor::{Device, Tensor};

    #[test]
    #[cfg(feature = "flex")]
    fn entropy_keeps_its_digits_near_balance_and_far_from_it() {
        for step in [0.0, 1e-4, 1e-2, 0.2, 0.26, 0.5, 0.999] {
            let q: Vec<f64> = (0..8)
                .map(|e| (1.0 + step * [1.0, -1.0][e % 2]) / 8.0)
                .collect();
            let values: Vec<f32> = q.iter().map(|q| *q as f32).collect();
            let sum: f64 = q.iter().map(|q| q * (8.0 * q).ln()).sum();
            let got: f32 =
                entropy(&Tensor::from_floats(&values[..], &Device::flex())).into_scalar();
            let want = sum / 8f64.ln();
            assert!(
                (f64::from(got) - want).abs() <= 2e-5 * want + 1e-12,
                "{step}: {got} for {want}"
            );
        }
        let one = Tensor::from_floats([1.0, 0.0, 0.0], &Device::flex());
        let collapsed: f32 = entropy(&one).into_scalar();
        assert!((collapsed - 1.0).abs() < 1e-6);
    }
}
