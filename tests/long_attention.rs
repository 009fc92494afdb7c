//! One attention head over a long sequence in chunks: each chunk of queries attends to its own and every earlier chunk of keys,
//! and the partial results are merged by their log-sum-exp. With `MOEBIUS_TEST_DEEP=1` the sequence has 131,072 tokens.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use burn::tensor::{Distribution, Tensor};
use moebius::Device;
use moebius::attention::{Attend, Attended, merge};
use moebius_ops::attention::{Attended as HostAttended, Inputs, Problem, Sizes, Tables, reference};
use moebius_tests::elements::{exact, floats};

/// Elements of a head's rows.
const DIM: usize = 64;

/// Number of queries that are compared, evenly spread.
const SAMPLES: usize = 16;

/// The chunk of `size` rows from row `at` on.
fn chunk(x: &Tensor<4>, at: usize, size: usize) -> Tensor<4> {
    x.clone().narrow(2, at, size)
}

/// Attention of a chunk's queries to all keys up to their own. Only two partial results are held at a time.
fn of_chunk([q, k, v]: [&Tensor<4>; 3], at: usize, size: usize) -> Attended {
    let query = chunk(q, at, size);
    let part = |from: usize, attend: Attend| {
        let (k, v) = (chunk(k, from, size), chunk(v, from, size));
        attend.forward(query.clone(), k, v).unwrap()
    };
    let own = part(at, Attend::new().causal());
    (0..at).step_by(size).fold(own, |seen, from| {
        merge(&[seen, part(from, Attend::new())]).unwrap()
    })
}

/// o and the log-sum-exp of one query over all of `k`, by the reference of attention.
fn expected(q: &[f32], k: &[f32], v: &[f32]) -> HostAttended {
    let problem = Problem::new(Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 1,
        keys: k.len() / DIM,
        head_dim: DIM,
        value_dim: DIM,
    });
    let [q, k, v] = [q, k, v].map(exact);
    let inputs = Inputs {
        q: &q,
        k: &k,
        v: &v,
        tables: Tables::default(),
    };
    reference(&problem.unwrap(), &inputs)
}

#[test]
fn chunks_of_a_long_sequence_are_the_whole() {
    let deep = std::env::var("MOEBIUS_TEST_DEEP").is_ok_and(|value| value == "1");
    let (tokens, size) = if deep { (131_072, 16_384) } else { (2048, 512) };
    let device = moebius::open(&Device::Cpu).unwrap();
    let [q, k, v] = [(); 3].map(|()| {
        let shape = [1, 1, tokens, DIM];
        Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device)
    });
    let starts = (0..tokens).step_by(size);
    let chunks = starts.map(|at| of_chunk([&q, &k, &v], at, size));
    let chunks: Vec<Attended> = chunks.collect();
    let o = floats(Tensor::cat(chunks.iter().map(|c| c.o.clone()).collect(), 2));
    let lse = floats(Tensor::cat(chunks.into_iter().map(|c| c.lse).collect(), 2));
    let [q, k, v] = [q, k, v].map(floats);
    let (mut error, mut size) = (0.0, 0.0);
    for sample in 1..=SAMPLES {
        let row = sample * tokens / SAMPLES - 1;
        let (at, seen) = (row * DIM..(row + 1) * DIM, 0..(row + 1) * DIM);
        let want = expected(&q[at.clone()], &k[seen.clone()], &v[seen]);
        let sum = want.lse[0];
        for (got, want) in o[at].iter().zip(want.o) {
            error += (f64::from(*got) - want).powi(2);
            size += want.powi(2);
        }
        let distance = (f64::from(lse[row]) - sum).abs();
        let what = format!("log-sum-exp of query {row}");
        assert!(distance < 1e-4, "{what}: {distance:e} away from {sum}");
    }
    let relative = f64::sqrt(error / size);
    let what = "relative L2 error of o: expected less than 1e-5";
    assert!(relative < 1e-5, "{what}, got {relative:e}");
}
