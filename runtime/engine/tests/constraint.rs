//! A constraint restricts a request's tokens and ends its answer, and changes nothing else: tokens and probabilities are the same, bit for bit,
//! alone and among others, after a preemption, and whoever proposes tokens.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod answers;

use std::path::Path;

use answers::{Answers, note};
use burn::tensor::Device;
use moebius_engine::{
    Allowed, Constraint, ConstraintError, Draw, Ended, Engine, EngineOptions, Generation, Limits,
    Ngrams, SampleError, Sampling, SamplingOptions,
};
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};

/// Tokens that the constraint knows; the model has more.
const KNOWN: u32 = 64;

/// A constraint whose next token depends on all tokens before.
#[derive(Clone, Debug)]
struct Sums {
    told: Vec<u32>,
    /// Number of tokens of a complete answer.
    length: usize,
    /// Number of tokens after which nothing more can be told.
    fails: usize,
}

impl Sums {
    fn new(length: usize) -> Self {
        let fails = usize::MAX;
        Self {
            told: Vec::new(),
            length,
            fails,
        }
    }

    fn fits(&self, id: u32) -> bool {
        let sum: u32 = self.told.iter().sum();
        id < KNOWN && id % 5 == (sum + self.told.len() as u32) % 5
    }
}

impl Constraint for Sums {
    fn allowed(&mut self) -> Result<Allowed, ConstraintError> {
        if self.told.len() == self.fails {
            return Err(ConstraintError::new("too hard"));
        }
        Ok((0..KNOWN).filter(|id| self.fits(*id)).collect())
    }

    fn push(&mut self, id: u32) -> Result<bool, ConstraintError> {
        if !self.fits(id) {
            return Err(ConstraintError::new(format!("{id} after {:?}", self.told)));
        }
        self.told.push(id);
        Ok(self.told.len() == self.length)
    }

    fn copied(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn model(name: &str) -> Model {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let model = files.load(&Device::flex(), LoadOptions::default(), &mut |_| ());
    model.unwrap()
}

/// Who proposes tokens.
#[derive(Clone, Copy, Debug)]
enum By {
    Nobody,
    Ngrams,
    /// A draft that is the model itself.
    Itself,
}

fn engine(model: &Model, limits: Limits, by: By) -> Engine {
    let options = EngineOptions::new(limits);
    let mut engine = Engine::new(model.clone(), options, &Device::flex()).unwrap();
    match by {
        By::Nobody => {}
        By::Ngrams => engine.speculate_by_ngrams(Ngrams::default()).unwrap(),
        By::Itself => engine.speculate_by_draft(model.clone(), 3).unwrap(),
    }
    engine
}

/// Request number `n`, whose answer is complete with `length` tokens.
fn generation(n: u32, prompt: usize, length: usize) -> Generation {
    let token = |at: usize| (at as u32 * 7 + n * 13 + at as u32 * at as u32) % KNOWN;
    let sampling = SamplingOptions {
        temperature: if n.is_multiple_of(2) { 0.0 } else { 0.8 },
        seed: u64::from(n),
        logprobs: Some(8),
        ..SamplingOptions::default()
    };
    Generation::new((0..prompt).map(token).collect(), length + 3)
        .with_sampling(Sampling::new(sampling).unwrap())
        .with_constraint(Box::new(Sums::new(length)))
}

/// Runs the engine until it is idle, and returns the draws of every request and why it ended.
fn all(engine: &mut Engine) -> Answers {
    let mut answers = Answers::new();
    while !engine.is_idle() {
        note(&mut answers, engine.step().unwrap());
    }
    answers
}

fn alone(model: &Model, request: &Generation, by: By) -> (Vec<Draw>, Option<Ended>) {
    let mut engine = engine(model, Limits::new(8, 64, 1), by);
    engine.add(request.clone()).unwrap();
    all(&mut engine).pop_first().unwrap().1
}

/// Prompts of several lengths, two of which have a common prefix, and one whose answer is free; with the lengths of their answers.
fn requests() -> Vec<(Generation, usize)> {
    let numbers = [(0, 40, 9), (1, 5, 20), (2, 1, 12), (3, 33, 6)];
    let requests = numbers.map(|(n, prompt, length)| (generation(n, prompt, length), length));
    let mut requests = Vec::from(requests);
    requests[3].0.constraint = None;
    requests[3].0.most_new = 6;
    let mut like_the_first = requests[0].clone();
    like_the_first.0.prompt.truncate(36);
    requests.push(like_the_first);
    requests
}

#[test]
fn company_preemption_and_proposals_change_no_bit() {
    let model = model("decoder_olmoe");
    let requests = requests();
    let mut want = Vec::new();
    for (request, length) in &requests {
        let (draws, ended) = alone(&model, request, By::Nobody);
        assert_eq!(draws.len(), *length);
        let mut rule = Sums::new(*length);
        let follows = draws.iter().all(|draw| rule.push(draw.id).is_ok());
        assert_eq!(follows, request.constraint.is_some());
        let reason = if follows { Ended::Stop } else { Ended::Length };
        assert_eq!(ended, Some(reason));
        want.push((draws, ended));
    }
    for by in [By::Nobody, By::Ngrams, By::Itself] {
        for limits in [Limits::new(64, 256, 8), Limits::new(4, 16, 4)] {
            let mut engine = engine(&model, limits, by);
            for turn in 0..2 {
                for (request, _) in &requests {
                    engine.add(request.clone()).unwrap();
                }
                let got: Vec<_> = all(&mut engine).into_values().collect();
                assert_eq!(got, want, "{by:?}, {limits:?}, turn {turn}");
            }
            let preempts = matches!(by, By::Nobody) && limits.pages == 4;
            assert!(!preempts || engine.counts().preemptions > 0);
        }
    }
    // A draft that is the model itself, but knows no constraint, is wrong now and then.
    let mut engine = engine(&model, Limits::new(8, 64, 1), By::Itself);
    engine.add(requests[1].0.clone()).unwrap();
    all(&mut engine);
    let proposals = engine.proposals();
    assert!(proposals.accepted < proposals.proposed, "{proposals:?}");
}

#[test]
fn an_answer_ends_with_its_constraint_or_before() {
    let model = model("decoder_olmoe");
    let request = generation(0, 5, 8);
    let (want, _) = alone(&model, &request, By::Nobody);
    let ended = |change: &dyn Fn(&mut Generation)| {
        let mut request = request.clone();
        change(&mut request);
        alone(&model, &request, By::Itself)
    };
    // With its last token the answer is complete, and not cut.
    let (draws, reason) = ended(&|request| request.most_new = 8);
    assert_eq!((draws, reason), (want.clone(), Some(Ended::Stop)));
    let (draws, reason) = ended(&|request| request.most_new = 7);
    assert_eq!((&draws[..], reason), (&want[..7], Some(Ended::Length)));
    let last = want[7].id;
    let before = want.iter().position(|draw| draw.id == last).unwrap();
    let (draws, reason) = ended(&|request| request.ends.push(last));
    let ends = (&want[..before], Some(Ended::Stop));
    assert_eq!((&draws[..], reason), ends);
}

#[test]
fn a_constraint_that_fails_ends_its_request_alone() {
    let model = model("decoder_olmoe");
    let (request, other) = (generation(0, 5, 8), generation(1, 5, 8));
    let want = [&request, &other].map(|of| alone(&model, of, By::Nobody));
    let mut failing = request.clone();
    let fails = Sums {
        fails: 3,
        ..Sums::new(8)
    };
    failing.constraint = Some(Box::new(fails));
    let mut engine = engine(&model, Limits::new(8, 64, 2), By::Ngrams);
    for request in [failing, other] {
        engine.add(request).unwrap();
    }
    let got: Vec<_> = all(&mut engine).into_values().collect();
    let error = SampleError::Constraint(ConstraintError::new("too hard"));
    let failed = (want[0].0[..3].to_vec(), Some(Ended::Failed(error)));
    assert_eq!(got, [failed, want[1].clone()]);
    assert_eq!(engine.usage().used, 0);
}
