//! The check before the numbers: some queries of some heads through the f64 oracle.

use super::AttentionBench;
use super::setup::Setup;
use super::ways::{Output, Way};
use crate::BenchError;
use crate::oracle::{distance, floats, spread, wide};
use burn::tensor::{Int, Tensor};
use moebius::Error;
use moebius_ops::attention::{Inputs, Problem, Sizes, Tables, reference, reference_backward};
use std::collections::BTreeMap;

/// Heads of all sequences that are checked, and queries of each, spread evenly.
const SAMPLES: [usize; 2] = [2, 16];

/// The largest relative L2 error of a head's sampled queries: their outputs and log-sum-exps; with gradients also those of q, and
/// all of the gradients of k and v where the sampled queries alone count.
pub(super) fn error(bench: &AttentionBench, setup: &Setup, way: Way) -> Result<f64, BenchError> {
    let oracle = Oracle::new(&way.of(bench), setup)?;
    let Some(d_o) = &setup.d_o else {
        return Ok(oracle.forward_error(&setup.forward(way)?)?);
    };
    let (out, [dq, _, _]) = setup.both(way, d_o)?;
    let outputs = oracle.forward_error(&out)?;
    drop(out);
    let (_, [_, dk, dv]) = setup.both(way, &oracle.sampled(d_o))?;
    Ok(outputs.max(oracle.backward_error(d_o, [&dq, &dk, &dv])?))
}

/// The sampled sites, and what they are computed of.
struct Oracle<'a> {
    problem: Problem,
    setup: &'a Setup,
    /// Sequence and head.
    heads: Vec<[usize; 2]>,
    queries: Vec<usize>,
}

/// The sampled queries of a head, its keys and its values.
struct Head {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
}

impl<'a> Oracle<'a> {
    fn new(bench: &AttentionBench, setup: &'a Setup) -> Result<Self, Error> {
        let heads = spread(SAMPLES[0], bench.batch * bench.heads);
        Ok(Self {
            problem: bench.problem()?,
            setup,
            heads: heads
                .map(|row| [row / bench.heads, row % bench.heads])
                .collect(),
            queries: spread(SAMPLES[1], bench.queries()).collect(),
        })
    }

    /// The key head of a query head.
    fn key_head(&self, [batch, head]: [usize; 2]) -> [usize; 2] {
        [batch, head / self.problem.group()]
    }

    /// The sampled rows of one head.
    fn rows(&self, tensor: &Tensor<4>, at: [usize; 2]) -> Vec<f32> {
        let rows: Vec<i64> = self.queries.iter().map(|query| *query as i64).collect();
        let head = head(tensor, at);
        let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &head.device());
        floats(head.select(2, rows))
    }

    fn head(&self, at: [usize; 2]) -> Head {
        let [q, k, v] = &self.setup.operands;
        let all = |tensor| wide(floats(head(tensor, self.key_head(at))));
        Head {
            q: wide(self.rows(q, at)),
            k: all(k),
            v: all(v),
        }
    }

    /// Each sampled query with its place among them, alone with the keys up to its own.
    fn alone(&self) -> impl Iterator<Item = Result<(usize, Problem), Error>> {
        let queries = self.queries.iter().enumerate();
        queries.map(|(n, query)| Ok((n, alone(&self.problem, *query)?)))
    }

    fn forward_error(&self, out: &Output) -> Result<f64, Error> {
        let mut error = 0.0f64;
        for at in &self.heads {
            let head = self.head(*at);
            let (mut o, mut lse) = (Vec::new(), Vec::new());
            for query in self.alone() {
                let (n, problem) = query?;
                let want = reference(&problem, &head.inputs(n, &problem));
                o.extend(want.o);
                lse.extend(want.lse);
            }
            error = error.max(distance(&self.rows(&out.o, *at), &o));
            if let Some(got) = &out.lse {
                let got = self.rows(&got.clone().unsqueeze_dim::<4>(3), *at);
                error = error.max(distance(&got, &lse));
            }
        }
        Ok(error)
    }

    /// do, 0 where a query isn't sampled.
    fn sampled(&self, d_o: &Tensor<4>) -> Tensor<4> {
        let [batch, heads, queries, _] = d_o.dims();
        let mut keep = vec![0.0f32; batch * heads * queries];
        for [b, h] in &self.heads {
            for query in &self.queries {
                keep[(b * heads + h) * queries + query] = 1.0;
            }
        }
        let keep = Tensor::<1>::from_floats(keep.as_slice(), &d_o.device()).cast(d_o.dtype());
        d_o.clone() * keep.reshape([batch, heads, queries, 1])
    }

    /// The largest error of dq for do, and of dk and dv for [`Self::sampled`].
    fn backward_error(&self, d_o: &Tensor<4>, [dq, dk, dv]: [&Tensor<4>; 3]) -> Result<f64, Error> {
        let dim = self.problem.sizes().head_dim;
        let mut error = 0.0f64;
        let mut sums: BTreeMap<[usize; 2], [Vec<f64>; 2]> = BTreeMap::new();
        for at in &self.heads {
            let (head, d_o) = (self.head(*at), wide(self.rows(d_o, *at)));
            let none = || vec![0.0; head.k.len()];
            let sums = sums
                .entry(self.key_head(*at))
                .or_insert_with(|| [none(), none()]);
            let mut want = Vec::new();
            for query in self.alone() {
                let (n, problem) = query?;
                let d_o = &d_o[n * dim..][..dim];
                let gradients =
                    reference_backward(&problem, &head.inputs(n, &problem), d_o, &[0.0]);
                want.extend(gradients.dq);
                for (sum, part) in sums.iter_mut().zip([gradients.dk, gradients.dv]) {
                    sum.iter_mut()
                        .zip(part)
                        .for_each(|(sum, part)| *sum += part);
                }
            }
            error = error.max(distance(&self.rows(dq, *at), &want));
        }
        for (at, sums) in sums {
            for (got, want) in [dk, dv].into_iter().zip(sums) {
                error = error.max(distance(&floats(head(got, at)), &want));
            }
        }
        Ok(error)
    }
}

impl Head {
    /// What the `n`-th sampled query reads, whose keys end where those of `problem` do.
    fn inputs(&self, n: usize, problem: &Problem) -> Inputs<'_> {
        let sizes = problem.sizes();
        let (dim, keys) = (sizes.head_dim, sizes.keys * sizes.head_dim);
        Inputs {
            q: &self.q[n * dim..][..dim],
            k: &self.k[..keys],
            v: &self.v[..keys],
            tables: Tables::default(),
        }
    }
}

/// Query `i` of one head, and the keys up to the last that it sees. Without rules that look at positions beyond that one, it
/// is the same problem, because queries and keys end together.
fn alone(problem: &Problem, i: usize) -> Result<Problem, Error> {
    let sizes = problem.sizes();
    Ok(problem.with_sizes(Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 1,
        keys: problem.keys_of(i..i + 1).end,
        ..*sizes
    })?)
}

/// \[1, 1, S, D\] of a sequence and head, without the graph if one is recorded.
fn head(tensor: &Tensor<4>, [batch, head]: [usize; 2]) -> Tensor<4> {
    let tensor = tensor.clone().inner();
    tensor.narrow(0, batch, 1).narrow(1, head, 1)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
