//! The kernel that chooses experts, with a bias, groups and a scale, and its gradients, against the
//! f64 oracles.

use crate::Outcome;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_ops::routing::{Groups, Problem, Routed, Score, TopkGradient};
use moebius_shaders::routing::{self, RouteBuffers, TopkBackwardBuffers};
use moebius_tests::data::Rng;
use moebius_tests::target::{
    Target, download_f32, download_u32, nans, poisoned, upload_f32, upload_u32,
};
use moebius_tests::tolerance::assert_close;

/// Largest relative L2 error of weights, probabilities and their gradients: a few roundings and an
/// exponential of f32 each.
const TOLERANCE: f64 = 1e-5;

struct Choice {
    problem: Problem,
    logits: Vec<f32>,
    mask: Option<Vec<bool>>,
    bias: Option<Vec<f32>>,
}

/// What a device returned.
struct Got {
    indices: Vec<u32>,
    weights: Vec<f32>,
    probs: Vec<f32>,
    lse: Vec<f32>,
}

impl Choice {
    /// Logits on a grid, so that keys are equal or far enough apart for f32.
    fn new(problem: Problem) -> Self {
        let (tokens, experts) = (problem.tokens(), problem.experts());
        let mut rng = Rng::new((tokens * 1000 + experts) as u64);
        let logits = (0..tokens * experts).map(|_| rng.below(96) as f32 / 8.0 - 6.0);
        Self {
            problem,
            logits: logits.collect(),
            mask: None,
            bias: None,
        }
    }

    fn with_bias(self) -> Self {
        let mut rng = Rng::new(11);
        let bias = (0..self.problem.experts()).map(|_| rng.below(5) as f32 / 16.0 - 0.125);
        Self {
            bias: Some(bias.collect()),
            ..self
        }
    }

    fn with_mask(self) -> Self {
        let mask = (0..self.problem.experts()).map(|e| e % 5 != 1);
        Self {
            mask: Some(mask.collect()),
            ..self
        }
    }

    fn want(&self) -> Routed {
        let (mask, bias) = (self.mask.as_deref(), self.bias.as_deref());
        moebius_ops::routing::reference_with_bias(&self.problem, &self.logits, mask, bias)
    }

    fn upload_mask(&self, client: &Client) -> Option<Handle> {
        let mask = self.mask.as_ref()?;
        let words: Vec<u32> = mask.iter().map(|available| (*available).into()).collect();
        Some(upload_u32(client, &words))
    }

    fn run(&self, target: &Target, client: &Client) -> Got {
        let p = &self.problem;
        let buffers = RouteBuffers {
            logits: upload_f32(client, &self.logits),
            mask: self.upload_mask(client),
            bias: self.bias.as_ref().map(|bias| upload_f32(client, bias)),
            indices: poisoned(client, p.slots()),
            weights: nans(client, p.slots()),
            probs: nans(client, self.logits.len()),
            lse: nans(client, p.tokens()),
        };
        let (indices, weights) = (buffers.indices.clone(), buffers.weights.clone());
        let (probs, lse) = (buffers.probs.clone(), buffers.lse.clone());
        let plan = routing::plan(*p, target.capability()).unwrap();
        routing::launch(client, &plan, buffers);
        Got {
            indices: download_u32(client, indices, p.slots()),
            weights: download_f32(client, weights, p.slots()),
            probs: download_f32(client, probs, self.logits.len()),
            lse: download_f32(client, lse, p.tokens()),
        }
    }

    /// Indices exactly, the rest closely; then the gradients.
    fn check(&self, target: &Target) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let (got, want) = (self.run(target, &client), self.want());
        let what = |what| format!("{what} of {:?}", self.problem);
        assert_eq!(got.indices, want.indices, "{}", what("indices"));
        assert_close(&what("weights"), &got.weights, &want.weights, TOLERANCE);
        assert_close(&what("probs"), &got.probs, &want.probs, TOLERANCE);
        assert_close(&what("lse"), &got.lse, &want.lse, TOLERANCE);
        for of in [
            TopkGradient::Weights,
            TopkGradient::Probs,
            TopkGradient::Lse,
        ] {
            self.check_gradient(target, &client, of);
        }
        Outcome::Ran
    }

    fn check_gradient(&self, target: &Target, client: &Client, of: TopkGradient) {
        let (p, routed) = (&self.problem, self.want());
        let floats = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<_>>();
        let len = match of {
            TopkGradient::Weights => p.slots(),
            TopkGradient::Probs => self.logits.len(),
            TopkGradient::Lse => p.tokens(),
        };
        let gradient = Rng::new(len as u64).vec(len, 1.0);
        let buffers = TopkBackwardBuffers {
            logits: upload_f32(client, &self.logits),
            mask: self.upload_mask(client),
            indices: upload_u32(client, &routed.indices),
            weights: upload_f32(client, &floats(&routed.weights)),
            probs: upload_f32(client, &floats(&routed.probs)),
            lse: upload_f32(client, &floats(&routed.lse)),
            gradient: upload_f32(client, &gradient),
            dlogits: nans(client, self.logits.len()),
        };
        let dlogits = buffers.dlogits.clone();
        let plan = routing::plan_topk_backward(*p, of, target.capability()).unwrap();
        routing::launch_topk_backward(client, &plan, buffers);
        let got = download_f32(client, dlogits, self.logits.len());
        let gradient: Vec<f64> = gradient.iter().map(|d| f64::from(*d)).collect();
        let mask = self.mask.as_deref();
        let want = moebius_ops::routing::topk_backward_reference(
            p,
            of,
            &self.logits,
            mask,
            &routed,
            &gradient,
        );
        assert_close(&format!("dlogits of {of:?}, {p:?}"), &got, &want, TOLERANCE);
    }
}

const SCORES: [(Score, bool); 4] = [
    (Score::Softmax, true),
    (Score::Softmax, false),
    (Score::Sigmoid, true),
    (Score::Sigmoid, false),
];

fn problem(tokens: usize, experts: usize, top_k: usize) -> Problem {
    Problem::new(tokens, experts, top_k).unwrap()
}

fn grouped(problem: Problem, count: usize, chosen: usize) -> Problem {
    problem.with_groups(Some(Groups { count, chosen })).unwrap()
}

/// One expert, all experts, odd rows, and 256 experts.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (3, 4, 4),
        (65, 7, 3),
        (63, 12, 5),
        (129, 64, 8),
        (33, 256, 8),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(tokens, experts, top_k)| {
        SCORES.map(|(score, renormalize)| {
            let problem = problem(tokens, experts, top_k).with_score(score, renormalize);
            Choice::new(problem).check(target)
        })
    }))
}

pub(crate) fn mask(target: &Target) -> Outcome {
    Outcome::of(SCORES.map(|(score, renormalize)| {
        let problem = problem(50, 24, 6).with_score(score, renormalize);
        Choice::new(problem).with_mask().check(target)
    }))
}

pub(crate) fn bias(target: &Target) -> Outcome {
    Outcome::of(SCORES.into_iter().flat_map(|(score, renormalize)| {
        let problem = problem(70, 32, 4).with_score(score, renormalize);
        let choice = || Choice::new(problem).with_bias();
        [choice().check(target), choice().with_mask().check(target)]
    }))
}

/// Groups of 1, 2, 3 and 32 experts, some of them masked, with and without a bias.
pub(crate) fn groups(target: &Target) -> Outcome {
    let limits = [(8, 8, 3, 3), (8, 4, 2, 4), (15, 5, 1, 2), (256, 8, 4, 8)];
    let problems = limits
        .into_iter()
        .flat_map(|(experts, count, chosen, top_k)| {
            SCORES.map(|(score, renormalize)| {
                grouped(problem(37, experts, top_k), count, chosen).with_score(score, renormalize)
            })
        });
    let masked = grouped(problem(37, 15, 2), 5, 1).with_score(Score::Softmax, false);
    let outcomes = problems.flat_map(|problem| {
        [
            Choice::new(problem).check(target),
            Choice::new(problem).with_bias().check(target),
            Choice::new(problem).with_bias().with_mask().check(target),
        ]
    });
    Outcome::of(outcomes.chain([Choice::new(masked).with_mask().check(target)]))
}

/// The weights carry the factor, the probabilities don't; a factor of 0 has no gradient.
pub(crate) fn scale(target: &Target) -> Outcome {
    Outcome::of(SCORES.into_iter().flat_map(|(score, renormalize)| {
        [2.5, -1.0, 0.0].map(|scale| {
            let problem = problem(20, 16, 4).with_score(score, renormalize);
            let problem = problem.with_scale(scale).unwrap();
            Choice::new(problem).with_bias().check(target)
        })
    }))
}

/// Equal keys go to the lowest index, equal groups to the lowest group.
pub(crate) fn ties(target: &Target) -> Outcome {
    let choice = |problem: Problem, bias: f32| Choice {
        logits: vec![0.5; problem.tokens() * problem.experts()],
        bias: Some(vec![bias; problem.experts()]),
        ..Choice::new(problem)
    };
    let sigmoid = |problem: Problem| problem.with_score(Score::Sigmoid, true);
    let mut signs = choice(sigmoid(problem(1, 8, 3)), 0.0);
    signs.logits = vec![-0.0, 0.0, -1.0, -0.0, 0.0, -0.0, 0.0, 0.0];
    signs.bias = None;
    Outcome::of([
        choice(sigmoid(problem(3, 16, 5)), 0.25).check(target),
        choice(grouped(problem(3, 16, 5), 4, 2), -0.25).check(target),
        choice(sigmoid(grouped(problem(3, 64, 8), 8, 4)), 0.0).check(target),
        signs.check(target),
    ])
}

/// A slot without an expert holds E and 0; without any the logsumexp is that of nothing.
pub(crate) fn all_masked(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for problem in [problem(5, 8, 3), grouped(problem(5, 8, 3), 2, 1)] {
        for (score, renormalize) in SCORES {
            let mut choice = Choice::new(problem.with_score(score, renormalize)).with_bias();
            choice.mask = Some(vec![false; 8]);
            let got = choice.run(target, &client);
            assert_eq!(got.indices, [8; 15]);
            assert_eq!(got.weights, [0.0; 15]);
            assert_eq!(got.probs, [0.0; 40]);
            assert_eq!(got.lse, [f32::NEG_INFINITY; 5]);
            choice.check_gradient(target, &client, TopkGradient::Weights);
            choice.check_gradient(target, &client, TopkGradient::Probs);
            choice.check_gradient(target, &client, TopkGradient::Lse);
            // One group keeps a single expert.
            choice.mask = Some((0..8).map(|e| e == 6).collect());
            let _ran = choice.check(target);
        }
    }
    Outcome::Ran
}

/// NaN ranks below every number and infinity, alone or with a bias, and in the sum of a group.
pub(crate) fn nan(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    let rows = [
        [nan, 1.0, low, 0.5, nan, nan, -1.0, 2.0],
        [low, low, low, low, nan, 1.0, 1.0, nan],
        [nan; 8],
        [30.0, nan, 0.0, nan, 3.0, low, 2.0, -4.0],
    ];
    for problem in [problem(4, 8, 4), grouped(problem(4, 8, 4), 4, 2)] {
        for (score, bias) in [
            (Score::Softmax, None),
            (Score::Sigmoid, None),
            (Score::Sigmoid, Some(vec![0.25; 8])),
        ] {
            let problem = problem.with_score(score, true);
            let choice = Choice {
                logits: rows.concat(),
                bias,
                ..Choice::new(problem)
            };
            let (got, want) = (choice.run(target, &client), choice.want());
            assert_eq!(got.indices, want.indices, "{problem:?}");
            assert_close("probs", &got.probs, &want.probs, TOLERANCE);
            assert_close("lse", &got.lse, &want.lse, TOLERANCE);
        }
    }
    Outcome::Ran
}

/// A choice of experts doesn't depend on the other tokens, bit for bit.
pub(crate) fn independent_of_the_batch(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let many = Choice::new(grouped(problem(67, 64, 8), 8, 4)).with_bias();
    let all = many.run(target, &client);
    for token in [0, 31, 66] {
        let one = Choice {
            problem: grouped(problem(1, 64, 8), 8, 4),
            logits: many.logits[token * 64..][..64].to_vec(),
            mask: None,
            bias: many.bias.clone(),
        };
        let alone = one.run(target, &client);
        assert_eq!(alone.indices, all.indices[token * 8..][..8]);
        assert_eq!(alone.weights, all.weights[token * 8..][..8]);
        assert_eq!(alone.probs, all.probs[token * 64..][..64]);
        assert_eq!(alone.lse, all.lse[token..][..1]);
    }
    Outcome::Ran
}
