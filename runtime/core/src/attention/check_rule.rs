//! A check of whether the parts of a program's own rule agree.

use super::Attend;
use crate::Error;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use moebius_ops::attention::{Pair, Problem, Site, Sizes};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::attention::LaunchRule;

/// The step of the difference quotients.
const STEP: f64 = 1e-4;

/// Compares `rule` on `device` with `rule` on the host (scores, slopes and which keys are seen) at every query and key of \[B, Hq, Sq,
/// Skv\] = `sizes`, for scores from −`largest` to `largest`, and compares its slopes with difference quotients of its scores. The tolerance
/// is 1e-4 · (1 + |score|) for scores and 1e-3 · (1 + |slope|) for slopes.
///
/// The check takes a forward and a backward pass for each key, and waits for the device.
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config) that names the first pair where they differ, and the errors of [`Attend::forward`].
pub fn check_rule<R: LaunchRule + Clone>(
    rule: &R,
    device: &Device,
    sizes: [usize; 4],
    largest: f32,
) -> Result<(), Error> {
    let [batch, heads, queries, keys] = sizes;
    let device = if device.is_autodiff() {
        device.clone()
    } else {
        device.clone().autodiff()
    };
    let rows = batch * heads * queries;
    // Scores are spread by the golden ratio, so that neighbours differ.
    let raw = |row: usize| largest * (2.0 * (row as f32 * 0.618_034).fract() - 1.0);
    let scores: Vec<f32> = (0..rows).map(raw).collect();
    let found = Problem::new(Sizes {
        batch,
        heads,
        kv_heads: heads,
        queries,
        keys,
        head_dim: 1,
        value_dim: 1,
    })?;
    let ones = Tensor::<4>::ones([batch, heads, keys, 1], &device);
    for turn in 0..keys {
        // Each query sees one key, so that its log-sum-exp is the score.
        let key = |query: usize| (query + turn) % keys;
        let hidden = (0..queries * keys).map(|at| at % keys != key(at / keys));
        let hidden = TensorData::new(hidden.collect::<Vec<bool>>(), [1, 1, queries, keys]);
        let hidden = Tensor::<4, Bool>::from_data(hidden, &device);
        let q = TensorData::new(scores.clone(), [batch, heads, queries, 1]);
        let q = Tensor::<4>::from_data(q, &device).require_grad();
        let attend = Attend::new().scale(1.0).mask(hidden).rule(rule.clone());
        let lse = attend.forward(q.clone(), ones.clone(), ones.clone())?.lse;
        let gradients = lse.clone().sum().backward();
        let slopes = q.grad(&gradients).map(Tensor::into_data);
        let slopes: Vec<f32> = slopes.map_or_else(Vec::new, |data| data.iter().collect());
        let lse: Vec<f32> = lse.into_data().iter().collect();
        for (row, (score, slope)) in lse.into_iter().zip(slopes).enumerate() {
            let site = Site {
                batch: row / queries / heads,
                head: row / queries % heads,
                query: row % queries,
                key: key(row % queries),
            };
            compare(rule, &found, site, [scores[row], score, slope])?;
        }
    }
    Ok(())
}

/// Compares one pair with the host: its score before the rule, and the score and slope that the device computed (`f32::MIN` for a hidden
/// key).
fn compare<R: LaunchRule>(
    rule: &R,
    problem: &Problem,
    site: Site,
    [before, score, slope]: [f32; 3],
) -> Result<(), Mismatch> {
    let (at, s) = (Pair::new(problem, site), f64::from(before));
    let same = |what, want: f64, got: f64, tolerance: f64| {
        let close = (want - got).abs() <= tolerance * (1.0 + want.abs());
        let expected = format!("{want} for the score {s} at {at:?}");
        Fault::Config.unless(close, what, expected, got)
    };
    let seen = score != f32::MIN;
    let expected = format!("{} at {at:?}", rule.seen(&at));
    let right = seen == rule.seen(&at);
    Fault::Config.unless(right, "seen on the device", expected, seen)?;
    let difference = rule.score(s + STEP, &at) - rule.score(s - STEP, &at);
    same(
        "slope on the host",
        difference / (2.0 * STEP),
        rule.slope(s, &at),
        1e-3,
    )?;
    if !seen {
        return Ok(());
    }
    same(
        "score on the device",
        rule.score(s, &at),
        score.into(),
        1e-4,
    )?;
    same(
        "slope on the device",
        rule.slope(s, &at),
        slope.into(),
        1e-3,
    )
}
