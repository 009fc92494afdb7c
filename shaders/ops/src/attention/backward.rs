//! The gradients in f64, pair by pair.

use super::forward::{product, raw_score, sites};
use super::rules::relative_index;
use super::{Inputs, Problem, Rule, Site};

/// What [`reference_backward()`] returns; gradients of tables that aren't there are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// Of the queries.
    pub dq: Vec<f64>,
    /// Of the keys.
    pub dk: Vec<f64>,
    /// Of the values.
    pub dv: Vec<f64>,
    /// Of the dense bias.
    pub dbias: Vec<f64>,
    /// Of the biases by distance.
    pub drelative: Vec<f64>,
    /// Of the sinks.
    pub dsinks: Vec<f64>,
}

/// The oracle, in f64, for the gradients `d_o` \[B, Hq, Sq, Dv\] and `d_lse` \[B, Hq, Sq\] of what [`super::reference()`] returns.
pub fn reference_backward(
    problem: &Problem,
    inputs: &Inputs<'_>,
    d_o: &[f64],
    d_lse: &[f64],
) -> Gradients {
    let s = *problem.sizes();
    let (rules, tables) = (problem.rules(), &inputs.tables);
    let forward = super::reference(problem, inputs);
    let scale = f64::from(problem.scale());
    let mut g = Gradients {
        dq: vec![0.0; inputs.q.len()],
        dk: vec![0.0; inputs.k.len()],
        dv: vec![0.0; inputs.v.len()],
        dbias: vec![0.0; tables.bias.len()],
        drelative: vec![0.0; tables.relative.len()],
        dsinks: vec![0.0; tables.sinks.len()],
    };
    for (row, lse) in forward.lse.iter().enumerate() {
        let d_row = &d_o[row * s.value_dim..][..s.value_dim];
        let delta = product(d_row, &forward.o[row * s.value_dim..][..s.value_dim]) - d_lse[row];
        let head = row / s.queries % s.heads;
        if problem.sinks() {
            g.dsinks[head] -= (tables.sinks[head] - lse).exp() * delta;
        }
        for (site, key) in sites(problem, tables, row) {
            let raw = raw_score(problem, inputs, row, key);
            let score = rules.score(&s, tables, site, raw);
            let (score, slope) = tables.own(problem, site, score);
            let p = (score - lse).exp();
            let values = &inputs.v[key * s.value_dim..][..s.value_dim];
            let kept = tables.kept(problem, site);
            let ds = p * (kept * product(d_row, values) - delta) * slope;
            table_gradients(problem, inputs, (site, raw), ds, &mut g);
            let ds = ds * scale * rules.slope(&s, tables, (site, raw), 0);
            for i in 0..s.head_dim {
                let (q, k) = (row * s.head_dim + i, key * s.head_dim + i);
                g.dq[q] += ds * inputs.k[k];
                g.dk[k] += ds * inputs.q[q];
            }
            for (i, d) in d_row.iter().enumerate() {
                g.dv[key * s.value_dim + i] += kept * p * d;
            }
        }
    }
    g
}

/// Adds what a pair gives to the gradients of dense biases and of those by distance: ds times the slope of later rules.
fn table_gradients(
    problem: &Problem,
    inputs: &Inputs<'_>,
    (site, raw): (Site, f64),
    ds: f64,
    g: &mut Gradients,
) {
    let s = problem.sizes();
    for (place, rule) in problem.rules().iter().enumerate() {
        let slope = || {
            let at = (site, raw);
            problem.rules().slope(s, &inputs.tables, at, place + 1)
        };
        match rule {
            Rule::Bias(pattern) => g.dbias[pattern.index(s, site)] += ds * slope(),
            Rule::Relative(n) => {
                let ahead = site.key as i64 - problem.position(site.query);
                let row = site.head * (2 * n as usize + 1);
                g.drelative[row + relative_index(n, ahead)] += ds * slope();
            }
            _ => {}
        }
    }
}
