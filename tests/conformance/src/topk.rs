//! The top-k kernel, with a bias, groups and a scale, and its gradients, against the f64 oracles.

use crate::Outcome;
use crate::operation::{check, check_in_parts, run, some_of};
use moebius_ops::routing::{Groups, Problem, Routed, Score, TopkGradient};
use moebius_ops::{HostTensor, Routing};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

/// Largest relative L2 error of weights, probabilities and their gradients: a few f32 roundings and an exponential each.
const TOLERANCE: f64 = 1e-5;

struct Choice {
    problem: Problem,
    logits: Vec<f32>,
    mask: Option<Vec<bool>>,
    bias: Option<Vec<f32>>,
}

impl Choice {
    /// Draws logits on a grid, so that keys are either equal or far enough apart for f32.
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

    fn operation(&self) -> Routing {
        Routing::Route {
            problem: self.problem,
            mask: self.mask.is_some(),
            bias: self.bias.is_some(),
        }
    }

    fn mask_words(&self) -> Option<HostTensor> {
        let mask = self.mask.as_ref()?.iter();
        let words: Vec<u32> = mask.map(|available| (*available).into()).collect();
        Some(words.into())
    }

    fn operands(&self) -> Vec<HostTensor> {
        let bias = self.bias.as_ref().map(|bias| HostTensor::of_f32(bias));
        let logits = [HostTensor::of_f32(&self.logits)];
        let operands = logits.into_iter().chain(self.mask_words()).chain(bias);
        operands.collect()
    }

    /// Compares indices exactly, weights and probabilities within the tolerance, then the gradients.
    fn check(&self, target: &Target) -> Outcome {
        let forward = check(target, self.operation(), &self.operands(), |_| TOLERANCE);
        Outcome::of([forward, self.check_gradients(target)])
    }

    fn check_gradients(&self, target: &Target) -> Outcome {
        let (problem, routed) = (self.problem, self.want());
        let sizes = [
            (TopkGradient::Weights, problem.slots()),
            (TopkGradient::Probs, self.logits.len()),
            (TopkGradient::Lse, problem.tokens()),
        ];
        Outcome::of(sizes.map(|(of, len)| {
            let gradient = Rng::new(len as u64).vec(len, 1.0);
            let first = [&gradient, &self.logits].map(|values| HostTensor::of_f32(values));
            let rest = [
                routed.indices.clone().into(),
                routed.weights.clone().into(),
                routed.probs.clone().into(),
                routed.lse.clone().into(),
            ];
            let operands = first.into_iter().chain(self.mask_words()).chain(rest);
            let backward = Routing::RouteBackward {
                problem,
                mask: self.mask.is_some(),
                of,
            };
            check(target, backward, &operands.collect::<Vec<_>>(), |_| {
                TOLERANCE
            })
        }))
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
    problem
        .with_groups(Some(Groups {
            count,
            chosen,
            best: 2,
        }))
        .unwrap()
}

/// Checks a choice of one expert, of all experts, odd numbers of rows, and 256 experts.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (3, 4, 4),
        (65, 7, 3),
        (63, 12, 5),
        (129, 64, 8),
        (33, 256, 8),
    ];
    let problems = sizes.into_iter().flat_map(|(tokens, experts, top_k)| {
        SCORES.map(|(score, renormalize)| {
            problem(tokens, experts, top_k).with_score(score, renormalize)
        })
    });
    Outcome::of(some_of(target, problems).map(|problem| Choice::new(problem).check(target)))
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

/// Checks groups of 1, 2, 3 and 32 experts, some of them masked, with and without a bias.
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
    let choices = problems.flat_map(|problem| {
        [
            Choice::new(problem),
            Choice::new(problem).with_bias(),
            Choice::new(problem).with_bias().with_mask(),
        ]
    });
    let by_one = Groups {
        count: 5,
        chosen: 2,
        best: 1,
    };
    let by_one = problem(37, 15, 3).with_groups(Some(by_one)).unwrap();
    let more = [
        Choice::new(masked).with_mask(),
        Choice::new(by_one),
        Choice::new(by_one).with_bias(),
    ];
    let choices = some_of(target, choices).chain(more);
    Outcome::of(choices.map(|choice| choice.check(target)))
}

/// Checks choices that a device that ends loops early makes in several launches, in every form that is compiled, with slots that stay
/// without an expert.
pub(crate) fn in_parts(target: &Target) -> Outcome {
    let grouped = |problem| grouped(problem, 8, 4);
    let scored = |score, renormalize| problem(50, 64, 7).with_score(score, renormalize);
    let masked = Choice::new(scored(Score::Softmax, true)).with_mask();
    let few = Choice {
        mask: Some((0..64).map(|e| e % 13 == 5).collect()),
        ..Choice::new(scored(Score::Softmax, true))
    };
    let biased = Choice::new(scored(Score::Sigmoid, true)).with_bias();
    let biased_groups = Choice::new(grouped(scored(Score::Sigmoid, true))).with_bias();
    let masked_groups = Choice::new(grouped(scored(Score::Softmax, false))).with_mask();
    let plain = SCORES.map(|(score, renormalize)| Choice::new(scored(score, renormalize)));
    let others = [masked, few, biased, biased_groups, masked_groups];
    Outcome::of(plain.into_iter().chain(others).map(|choice| {
        let operands = choice.operands();
        check_in_parts(target, choice.operation(), &operands, |_| TOLERANCE)
    }))
}

/// Checks 62 and 64 choices among 4096 experts, for which a unit makes more rounds of loops than Mesa's software adapter allows, and 58,
/// for which it makes fewer.
pub(crate) fn of_thousands(target: &Target) -> Outcome {
    Outcome::of([58, 62, 64].map(|top_k| {
        let problem = problem(5, 4096, top_k).with_score(Score::Softmax, false);
        Choice::new(problem).check(target)
    }))
}

/// Checks that the scale multiplies weights but not probabilities, and that a scale of 0 has no gradient.
pub(crate) fn scale(target: &Target) -> Outcome {
    let problems = SCORES.into_iter().flat_map(|(score, renormalize)| {
        [2.5, -1.0, 0.0].map(|scale| {
            let problem = problem(20, 16, 4).with_score(score, renormalize);
            problem.with_scale(scale).unwrap()
        })
    });
    Outcome::of(some_of(target, problems).map(|p| Choice::new(p).with_bias().check(target)))
}

/// Checks that ties between keys go to the lowest index, and between groups to the lowest group.
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

/// Checks that a slot without an expert holds index E and weight 0, and that with no expert available the log-sum-exp is −∞.
pub(crate) fn all_masked(target: &Target) -> Outcome {
    let problems = [problem(5, 8, 3), grouped(problem(5, 8, 3), 2, 1)];
    Outcome::of(problems.into_iter().flat_map(|problem| {
        SCORES.map(|(score, renormalize)| {
            let mut choice = Choice::new(problem.with_score(score, renormalize)).with_bias();
            choice.mask = Some(vec![false; 8]);
            let want = choice.want();
            assert_eq!((want.indices, want.weights), (vec![8; 15], vec![0.0; 15]));
            assert_eq!(
                (want.probs, want.lse),
                (vec![0.0; 40], vec![f64::NEG_INFINITY; 5])
            );
            let none = choice.check(target);
            // Only expert 6 is available, so that one group has a single one.
            choice.mask = Some((0..8).map(|e| e == 6).collect());
            Outcome::of([none, choice.check(target)])
        })
    }))
}

/// Checks that NaN ranks below every number and infinity, alone, with a bias, and in the sum of a group.
pub(crate) fn nan(target: &Target) -> Outcome {
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    let rows = [
        [nan, 1.0, low, 0.5, nan, nan, -1.0, 2.0],
        [low, low, low, low, nan, 1.0, 1.0, nan],
        [nan; 8],
        [30.0, nan, 0.0, nan, 3.0, low, 2.0, -4.0],
    ];
    let problems = [problem(4, 8, 4), grouped(problem(4, 8, 4), 4, 2)];
    Outcome::of(problems.into_iter().flat_map(|problem| {
        [
            (Score::Softmax, None),
            (Score::Sigmoid, None),
            (Score::Sigmoid, Some(vec![0.25; 8])),
        ]
        .map(|(score, bias)| {
            let choice = Choice {
                logits: rows.concat(),
                bias,
                ..Choice::new(problem.with_score(score, true))
            };
            check(target, choice.operation(), &choice.operands(), |_| {
                TOLERANCE
            })
        })
    }))
}

/// Checks that a token's choice of experts doesn't depend on the other tokens, bit for bit.
pub(crate) fn independent_of_the_batch(target: &Target) -> Outcome {
    let many = Choice::new(grouped(problem(67, 64, 8), 8, 4)).with_bias();
    let all = match run(target, &many.operation(), &many.operands()) {
        Ok(all) => all,
        Err(error) => return Outcome::Unsupported(error),
    };
    for token in [0, 31, 66] {
        let one = Choice {
            problem: grouped(problem(1, 64, 8), 8, 4),
            logits: many.logits[token * 64..][..64].to_vec(),
            mask: None,
            bias: many.bias.clone(),
        };
        let alone = run(target, &one.operation(), &one.operands()).unwrap();
        let row = |tensor: &HostTensor, row: usize, rows: usize| -> HostTensor {
            let width = tensor.len() / rows;
            let of = row * width..(row + 1) * width;
            match tensor {
                HostTensor::Floats(values) => values[of].to_vec().into(),
                HostTensor::Words(words) => words[of].to_vec().into(),
            }
        };
        for (alone, all) in alone.iter().zip(&all) {
            assert_eq!(*alone, row(all, token, 67), "token {token}");
        }
    }
    Outcome::Ran
}
