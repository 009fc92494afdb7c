//! The oracles of attention: o, lse and the gradients in f64, pair by pair.

use super::rules::relative_index;
use super::{Dropout, HostRule, Pair, Problem, Rule, Site, Tables};

/// The inputs of the oracles.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Queries \[B, Hq, Sq, D\].
    pub q: &'a [f64],
    /// Keys \[B, Hkv, Skv, D\].
    pub k: &'a [f64],
    /// Values \[B, Hkv, Skv, Dv\].
    pub v: &'a [f64],
    /// The tables that rules read.
    pub tables: Tables<'a>,
}

/// The results of [`reference()`].
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// Output \[B, Hq, Sq, Dv\].
    pub o: Vec<f64>,
    /// Log-sum-exp of the scores \[B, Hq, Sq\].
    pub lse: Vec<f64>,
}

/// The dot product ⟨a, b⟩.
fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The sites of the keys that query row `row` of \[B, Hq, Sq\] sees, each with its key's row in \[B, Hkv, Skv\].
fn sites(problem: &Problem, tables: &Tables<'_>, row: usize) -> Vec<(Site, usize)> {
    let s = *problem.sizes();
    let (batch, head, query) = (
        row / s.queries / s.heads,
        row / s.queries % s.heads,
        row % s.queries,
    );
    let key_row = (batch * s.kv_heads + head / problem.group()) * s.keys;
    let site = |key| Site {
        batch,
        head,
        query,
        key,
    };
    let own = |site| {
        tables
            .rule
            .is_none_or(|rule| rule.seen(&Pair::new(problem, site)))
    };
    let seen = |key: &usize| problem.rules().seen(&s, tables, site(*key)) && own(site(*key));
    let seen = (0..s.keys).filter(seen);
    seen.map(|key| (site(key), key_row + key)).collect()
}

/// The score scale · ⟨q, k⟩ of query row `row` and key row `key`, before any rule.
fn raw_score(problem: &Problem, inputs: &Inputs<'_>, row: usize, key: usize) -> f64 {
    let dim = problem.sizes().head_dim;
    let (q, k) = (&inputs.q[row * dim..][..dim], &inputs.k[key * dim..][..dim]);
    f64::from(problem.scale()) * product(q, k)
}

impl Tables<'_> {
    /// The score after the user-defined rule, and the rule's slope at `s`.
    fn own(&self, problem: &Problem, site: Site, s: f64) -> (f64, f64) {
        let at = Pair::new(problem, site);
        let of = |rule: &dyn HostRule| (rule.score(s, &at), rule.slope(s, &at));
        self.rule.map_or((s, 1.0), of)
    }

    /// The dropout's factor of a weight; 1 without a dropout.
    fn kept(&self, problem: &Problem, site: Site) -> f64 {
        match (problem.dropout(), self.dropout) {
            (true, &[a, b, c, d]) => f64::from(Dropout::of([a, b, c, d]).factor(site)),
            _ => 1.0,
        }
    }
}

/// The oracle of the forward pass, in f64.
pub fn reference(problem: &Problem, inputs: &Inputs<'_>) -> Attended {
    let s = *problem.sizes();
    let dim = s.value_dim;
    let mut o = vec![0.0; problem.query_rows() * dim];
    let mut lse = vec![f64::from(f32::MIN); problem.query_rows()];
    for (row, lse) in lse.iter_mut().enumerate() {
        let sites = sites(problem, &inputs.tables, row);
        let score = |(site, key): &(Site, usize)| {
            let s_ij = raw_score(problem, inputs, row, *key);
            let s_ij = problem.rules().score(&s, &inputs.tables, *site, s_ij);
            inputs.tables.own(problem, *site, s_ij).0
        };
        let scores: Vec<f64> = sites.iter().map(score).collect();
        let head = row / s.queries % s.heads;
        let sink = problem.sinks().then(|| inputs.tables.sinks[head]);
        let terms = || scores.iter().copied().chain(sink);
        if terms().next().is_none() {
            continue;
        }
        let largest = terms().fold(f64::NEG_INFINITY, f64::max);
        *lse = largest + terms().map(|s| (s - largest).exp()).sum::<f64>().ln();
        for ((site, key), score) in sites.iter().zip(&scores) {
            let p = (score - *lse).exp() * inputs.tables.kept(problem, *site);
            let values = &inputs.v[key * dim..][..dim];
            for (sum, value) in o[row * dim..][..dim].iter_mut().zip(values) {
                *sum += p * value;
            }
        }
    }
    Attended { o, lse }
}

/// The results of [`reference_backward()`]; the gradient of an absent table is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// Gradient of the queries \[B, Hq, Sq, D\].
    pub dq: Vec<f64>,
    /// Gradient of the keys \[B, Hkv, Skv, D\].
    pub dk: Vec<f64>,
    /// Gradient of the values \[B, Hkv, Skv, Dv\].
    pub dv: Vec<f64>,
    /// Gradient of the dense bias \[B or 1, Hq or 1, Sq, Skv\].
    pub dbias: Vec<f64>,
    /// Gradient of the relative bias \[Hq, 2n + 1\].
    pub drelative: Vec<f64>,
    /// Gradient of the sinks \[Hq\].
    pub dsinks: Vec<f64>,
}

/// The oracle of the gradients, in f64, given `d_o` \[B, Hq, Sq, Dv\] and `d_lse` \[B, Hq, Sq\], the gradients of the results of
/// [`reference()`].
pub fn reference_backward(
    problem: &Problem,
    inputs: &Inputs<'_>,
    d_o: &[f64],
    d_lse: &[f64],
) -> Gradients {
    let s = *problem.sizes();
    let (rules, tables) = (problem.rules(), &inputs.tables);
    let forward = reference(problem, inputs);
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
            table_gradients(problem, inputs, site, raw, ds, &mut g);
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

/// Adds a pair's share to the gradients of the dense and the relative bias: ds times the slopes of the later rules.
fn table_gradients(
    problem: &Problem,
    inputs: &Inputs<'_>,
    site: Site,
    raw: f64,
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
