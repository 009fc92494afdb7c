//! The choice of experts on the device, against the f64 oracle.

use crate::tensors::{self, drawn, floats, tensor, words};
use burn::tensor::{DType, Tensor};
use moebius::Error;
use moebius::moe::{MoeConfig, RouteConfig, Score, route};
use moebius_ops::routing::{Problem, reference};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

struct Batch {
    tokens: usize,
    experts: usize,
    logits: Vec<f32>,
    mask: Option<Vec<bool>>,
}

impl Batch {
    fn random(tokens: usize, experts: usize) -> Self {
        let logits = Rng::new((tokens * 1000 + experts) as u64).vec(tokens * experts, 6.0);
        Self {
            tokens,
            experts,
            logits,
            mask: None,
        }
    }

    /// Routes on the device and compares indices exactly, weights and probabilities within a tolerance.
    fn check(&self, target: &Target, config: RouteConfig) {
        let device = target.burn();
        let logits = tensor(&self.logits, [self.tokens, self.experts], &device);
        let mask = self.mask.as_ref().map(|mask| tensors::mask(mask, &device));
        let routing = route(logits, mask, &config).unwrap();
        let problem = Problem::new(self.tokens, self.experts, config.top_k).unwrap();
        let problem = if config.softmax_after_topk {
            problem.with_score(Score::Softmax, true)
        } else {
            problem.with_score(config.score, config.renormalize)
        };
        let want = reference(&problem, &self.logits, self.mask.as_deref());
        let indices = words(routing.indices);
        assert_eq!(indices, want.indices, "indices of {config:?}");
        assert_close("weights", &floats(routing.weights), &want.weights, 1e-5);
        assert_close("probs", &floats(routing.probs), &want.probs, 1e-5);
    }
}

fn config(top_k: usize, score: Score, renormalize: bool) -> RouteConfig {
    RouteConfig {
        top_k,
        score,
        renormalize,
        ..RouteConfig::default()
    }
}

pub(crate) fn softmax(target: &Target) {
    Batch::random(129, 8).check(target, config(2, Score::Softmax, true));
    let after = RouteConfig {
        softmax_after_topk: true,
        ..config(3, Score::Sigmoid, false)
    };
    Batch::random(37, 6).check(target, after);
}

pub(crate) fn sigmoid(target: &Target) {
    Batch::random(65, 16).check(target, config(4, Score::Sigmoid, true));
    let mut tiny = Batch::random(5, 8);
    tiny.logits.iter_mut().for_each(|logit| *logit -= 80.0);
    tiny.check(target, config(2, Score::Sigmoid, true));
}

pub(crate) fn raw_scores(target: &Target) {
    Batch::random(64, 8).check(target, config(2, Score::Softmax, false));
    Batch::random(64, 8).check(target, config(1, Score::Sigmoid, false));
}

pub(crate) fn ties_go_to_the_lowest_index(target: &Target) {
    let mut batch = Batch::random(40, 8);
    for logit in &mut batch.logits {
        *logit = logit.round().clamp(-1.0, 1.0);
    }
    batch.logits[..8].fill(0.0);
    batch.logits[8..16].copy_from_slice(&[-0.0, 0.0, -0.0, 0.0, -1.0, -0.0, 0.0, 0.0]);
    batch.check(target, config(3, Score::Softmax, true));
}

pub(crate) fn hostile_logits(target: &Target) {
    let mut batch = Batch::random(4, 6);
    batch.logits[2] = f32::NEG_INFINITY;
    batch.logits[6..12].fill(f32::NAN);
    batch.logits[13] = f32::NAN;
    batch.logits[18..24].copy_from_slice(&[3e38, -3e38, 3e38, 0.0, 1e-40, -1e-40]);
    let problem = Problem::new(4, 6, 2).unwrap();
    let want = reference(&problem, &batch.logits, None);
    let logits = tensor(&batch.logits, [4, 6], &target.burn());
    let routing = route(logits, None, &RouteConfig::default()).unwrap();
    let what = "an index stays within the experts, NaN ranks last";
    assert_eq!(words(routing.indices), want.indices, "{what}");
    let weights = floats(routing.weights);
    for row in [0, 2, 3] {
        let (got, want) = (&weights[2 * row..][..2], &want.weights[2 * row..][..2]);
        assert_close("weights of numbers", got, want, 1e-5);
    }
    let unknown = weights[2..4].iter().all(|w| w.is_nan());
    assert!(unknown, "all NaN: {weights:?}");
}

pub(crate) fn mask(target: &Target) {
    for score in [Score::Softmax, Score::Sigmoid] {
        let mut batch = Batch::random(50, 9);
        batch.mask = Some((0..9).map(|e| e % 3 != 1).collect());
        batch.check(target, config(3, score, true));
        batch.check(target, config(2, score, false));
    }
}

/// Checks that slots without an available expert hold index E and weight 0.
pub(crate) fn mask_leaves_too_few(target: &Target) {
    let mut batch = Batch::random(7, 5);
    batch.mask = Some(vec![false, false, true, false, true]);
    batch.check(target, config(4, Score::Softmax, true));
}

pub(crate) fn sizes(target: &Target) {
    for (tokens, experts, top_k) in [(1, 1, 1), (1, 8, 8), (63, 2, 1), (257, 128, 8), (3, 256, 8)] {
        Batch::random(tokens, experts).check(target, config(top_k, Score::Softmax, true));
    }
    let empty = Tensor::<2>::zeros([0, 4], &target.burn());
    let none = route(empty, None, &RouteConfig::default()).unwrap();
    assert_eq!(none.indices.dims(), [0, 2]);
    for top_k in [0, 5] {
        let logits = Tensor::<2>::zeros([3, 4], &target.burn());
        let error = route(logits, None, &config(top_k, Score::Softmax, true));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("top_k: expected 1 to 4"), "{error}");
    }
}

pub(crate) fn check_logits(target: &Target, dtype: DType) -> Result<(), Error> {
    for (tokens, hidden, experts) in [(1, 1, 1), (33, 64, 8), (5, 7, 3), (17, 96, 128)] {
        let config = MoeConfig::new(hidden, 4, experts).with_router(RouteConfig::new(1));
        let layer = config.init(&target.burn()).unwrap();
        layer.plan(tokens, dtype, &target.burn())?;
        let layer = layer.cast(dtype).unwrap();
        let mut rng = Rng::new(9);
        let x = drawn(&mut rng, [tokens, hidden], 1.0, dtype, &target.burn());
        let got = layer.router_logits(x.clone()).unwrap();
        // The oracle multiplies the values as rounded to the dtype.
        let (x, w) = (floats(x), floats(layer.router.matrix().unwrap()));
        let mut want = Vec::new();
        for row in x.chunks(hidden) {
            for column in w.chunks(hidden) {
                let pairs = row.iter().zip(column);
                want.push(pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum());
            }
        }
        assert_close("logits", &floats(got), &want, 1e-5);
    }
    Ok(())
}
