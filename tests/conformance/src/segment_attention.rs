//! Attention within segments of sorted rows, forward and backward, against the f64 oracle.

use crate::Outcome;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_ops::segment_attention::{
    Inputs, Problem, Segments, reference, reference_backward, reference_segments,
};
use moebius_ops::{Element, permute};
use moebius_shaders::segment_attention::{self, BackwardBuffers, ForwardBuffers, Plan, plan};
use moebius_tests::data::Rng;
use moebius_tests::elements::{download, exact, rounded, unwritten, upload};
use moebius_tests::target::{Target, download_f32, download_u32, nans, poisoned, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// The routing of a batch: `top_k` different experts of every token, those past the last nowhere.
struct Routed {
    segments: Segments,
    sorted: permute::Sorted,
}

impl Routed {
    fn new(keys: &[u32], experts: usize, top_k: usize, sequence: usize) -> Self {
        Self {
            segments: Segments::new(keys.len(), experts, top_k, sequence).unwrap(),
            sorted: permute::reference(keys, experts),
        }
    }

    /// Two neighbours of `tokens` tokens' experts, one in eight slots going nowhere.
    fn random(tokens: usize, experts: usize, sequence: usize) -> Self {
        let mut rng = Rng::new((tokens * 13 + sequence) as u64);
        let mut keys = Vec::new();
        for _ in 0..tokens {
            let first = rng.below(experts);
            for choice in [first, (first + 1) % experts] {
                let gone = rng.below(8) == 0;
                keys.push(if gone { experts } else { choice } as u32);
            }
        }
        Self::new(&keys, experts, 2, sequence)
    }

    fn check(&self, target: &Target, heads: usize, head_dim: usize) -> Outcome {
        let problem = Problem::new(self.segments, heads, head_dim).unwrap();
        Outcome::of(
            [false, true].map(|causal| self.check_problem(target, problem.with_causal(causal))),
        )
    }

    fn check_problem(&self, target: &Target, problem: Problem) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let plan = match plan(problem, target.capability()) {
            Ok(plan) => plan,
            Err(error) => return Outcome::Unsupported(error.to_string()),
        };
        let segments = poisoned(&client, 2 * problem.rows());
        let order = upload_u32(&client, &self.sorted.order);
        let offsets = upload_u32(&client, &self.sorted.offsets);
        segment_attention::launch_segments(&client, &plan, order, offsets, segments.clone());
        let found = download_u32(&client, segments.clone(), 2 * problem.rows());
        assert_eq!(found, reference_segments(&self.segments, &self.sorted));
        let live = self.sorted.offsets.last().copied().unwrap_or(0) as usize;
        Rows::new(&problem, live).check(&client, &plan, &segments, &found);
        Outcome::Ran
    }
}

/// q, k, v and do; rows without an expert are NaN.
struct Rows {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_o: Vec<f32>,
}

impl Rows {
    fn new(problem: &Problem, live: usize) -> Self {
        let mut rng = Rng::new(problem.elements() as u64);
        let [q, k, v, d_o] = [2.0, 2.0, 1.0, 1.0].map(|bound| {
            let len = problem.elements();
            let mut values = rounded(rng.vec(len, bound), problem.element());
            values[live * (len / problem.rows())..].fill(f32::NAN);
            values
        });
        Self { q, k, v, d_o }
    }

    fn check(&self, client: &Client, plan: &Plan, segments: &Handle, found: &[u32]) {
        let (p, element) = (&plan.problem, plan.problem.element());
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|x| exact(x));
        let inputs = Inputs {
            q: &q,
            k: &k,
            v: &v,
        };
        let close = |what: &str, got: Vec<f32>, want: &[f64], tolerance: f64| {
            assert_close(&format!("{what} of {p:?}"), &got, want, tolerance);
        };
        let read = |buffer: Handle| download(client, buffer, p.elements(), element);
        let buffers = self.buffers(client, p, segments);
        segment_attention::launch(client, plan, forward_of(&buffers));
        let want = reference(p, found, &inputs);
        close("o", read(buffers.o.clone()), &want.o, rel_l2(element));
        let lse = download_f32(client, buffers.lse.clone(), p.heads_of_rows());
        close("lse", lse, &want.lse, rel_l2(Element::F32));

        segment_attention::launch_backward(client, plan, buffers.clone());
        let want = reference_backward(p, found, &inputs, &exact(&self.d_o));
        let gradients = [
            ("dq", buffers.dq, &want.dq),
            ("dk", buffers.dk, &want.dk),
            ("dv", buffers.dv, &want.dv),
        ];
        for (what, got, want) in gradients {
            close(what, read(got), want, rel_l2(element));
        }
    }

    fn buffers(&self, client: &Client, p: &Problem, segments: &Handle) -> BackwardBuffers {
        let output = || unwritten(client, p.elements(), p.element());
        let input = |values: &[f32]| upload(client, values, p.element());
        BackwardBuffers {
            q: input(&self.q),
            k: input(&self.k),
            v: input(&self.v),
            o: output(),
            lse: nans(client, p.heads_of_rows()),
            segments: segments.clone(),
            d_o: input(&self.d_o),
            dq: output(),
            dk: output(),
            dv: output(),
        }
    }
}

fn forward_of(buffers: &BackwardBuffers) -> ForwardBuffers {
    let BackwardBuffers {
        q,
        k,
        v,
        segments,
        o,
        lse,
        ..
    } = buffers.clone();
    ForwardBuffers {
        q,
        k,
        v,
        segments,
        o,
        lse,
    }
}

/// Heads of one value, of whole vectors and of broken ones, up to the largest.
pub(crate) fn head_sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1),
        (2, 8),
        (3, 20),
        (1, 30),
        (4, 64),
        (2, 127),
        (1, 128),
    ];
    Outcome::of(sizes.map(|(heads, dim)| Routed::random(40, 3, 16).check(target, heads, dim)))
}

/// Sequences of one token to longer than the batch, the last one cut short.
pub(crate) fn sequences(target: &Target) -> Outcome {
    let shapes = [
        (1, 1),
        (7, 2),
        (64, 16),
        (65, 16),
        (130, 64),
        (50, 50),
        (33, 1000),
    ];
    Outcome::of(
        shapes.map(|(tokens, length)| Routed::random(tokens, 4, length).check(target, 2, 8)),
    )
}

/// One expert takes all, others nothing, and no slot has an expert.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let sparse: Vec<u32> = (0..96).map(|s| if s % 3 == 0 { 4 } else { 7 }).collect();
    Outcome::of([
        Routed::new(&[0; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&[4; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&[5; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&sparse, 6, 1, 24).check(target, 2, 20),
        Routed::random(40, 128, 8).check(target, 1, 8),
    ])
}

/// Fewer sorted rows than slots.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..90).map(|s| [3, 0, 3, 1, 3, 2][s % 6]).collect();
    Outcome::of([45, 50].map(|rows| {
        let mut routed = Routed::new(&keys, 3, 2, 9);
        routed.segments = routed.segments.with_row_bound(rows).unwrap();
        routed.check(target, 2, 16)
    }))
}

/// Scores whose exponentials overflow and vanish in f32 unless the largest is taken out first.
pub(crate) fn large_scores(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let routed = Routed::new(&[0; 24], 1, 1, 24);
    let problem = Problem::new(routed.segments, 1, 4).unwrap();
    let plan = plan(problem, target.capability()).unwrap();
    let segments = upload_u32(&client, &[0, 24].repeat(24));
    let mut rows = Rows::new(&problem, 24);
    rows.q.iter_mut().for_each(|q| *q *= 16.0);
    rows.k.iter_mut().for_each(|k| *k *= 16.0);
    // Whole numbers, so that the scores themselves are exact and what is measured is the softmax.
    rows.q.iter_mut().for_each(|q| *q = q.round());
    rows.k.iter_mut().for_each(|k| *k = k.round());
    rows.check(&client, &plan, &segments, &[0, 24].repeat(24));
    Outcome::Ran
}

/// A NaN in one segment reaches no row of another.
pub(crate) fn segments_are_apart(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    // Expert 0 has rows 0..6 of three sequences of two tokens.
    let routed = Routed::new(&[0; 6], 1, 1, 2);
    let problem = Problem::new(routed.segments, 1, 4).unwrap();
    let plan = plan(problem, target.capability()).unwrap();
    let segments = upload_u32(
        &client,
        &reference_segments(&routed.segments, &routed.sorted),
    );
    let mut rows = Rows::new(&problem, 6);
    for values in [&mut rows.q, &mut rows.k, &mut rows.v, &mut rows.d_o] {
        values[2 * 4..4 * 4].fill(f32::NAN);
    }
    let buffers = rows.buffers(&client, &problem, &segments);
    segment_attention::launch(&client, &plan, forward_of(&buffers));
    segment_attention::launch_backward(&client, &plan, buffers.clone());
    for output in [buffers.o, buffers.dq, buffers.dk, buffers.dv] {
        let got = download_f32(&client, output, 24);
        let clean = got[..8].iter().chain(&got[16..]);
        assert!(clean.clone().all(|value| value.is_finite()), "{got:?}");
    }
    Outcome::Ran
}

pub(crate) fn empty_batch(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let routed = Routed::new(&[], 2, 1, 4);
    let problem = Problem::new(routed.segments, 1, 4).unwrap();
    let plan = plan(problem, target.capability()).unwrap();
    let buffer = nans(&client, 1);
    let handles = [(); 3].map(|()| buffer.clone());
    let [order, offsets, segments] = handles;
    segment_attention::launch_segments(&client, &plan, order, offsets, segments);
    assert!(download_f32(&client, buffer, 1)[0].is_nan());
    Outcome::Ran
}

fn of_element(target: &Target, element: Element) -> Outcome {
    Outcome::of([8, 20, 64, 7].map(|dim| {
        let routed = Routed::random(60, 3, 30);
        let problem = Problem::new(routed.segments, 2, dim).unwrap();
        routed.check_problem(target, problem.with_element(element))
    }))
}

pub(crate) fn f16(target: &Target) -> Outcome {
    of_element(target, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    of_element(target, Element::Bf16)
}
