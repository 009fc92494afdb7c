//! Proposed tokens change nothing: a request's tokens and their probabilities are those without proposals, bit for bit, whoever proposes.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod answers;

use std::collections::BTreeMap;
use std::path::Path;

use answers::{Answers, note};
use burn::tensor::Device;
use moebius_engine::{
    Draw, Ended, Engine, EngineError, EngineOptions, Event, Generation, Limits, Ngrams, Proposals,
    Sampling, SamplingOptions,
};
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};

/// Mixtures of experts: with plain attention, with windows and sinks, and with latent attention.
const NAMES: [&str; 3] = ["decoder_olmoe", "decoder_gpt_oss", "decoder_deepseek_v3"];

/// Models with the same vocabularies and other weights, which as drafts are mostly wrong.
const FOREIGN: [&str; 3] = ["decoder_gpt_oss", "decoder_olmoe", "decoder_llama"];

fn model(name: &str) -> Model {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let model = files.load(&Device::flex(), LoadOptions::default(), &mut |_| ());
    model.unwrap()
}

/// Who proposes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody,
    Ngrams,
    /// A draft that is the model itself, with this number of tokens.
    Equal(usize),
    /// The model of this name.
    Other(&'static str),
}

/// Limits with which calls are filled up to few shapes.
const FILLED: Limits = Limits {
    pages: 64,
    batch_tokens: 23,
    running: 5,
    longest: 1024,
};

/// An engine whose cache begins with one page.
fn engine(model: &Model, limits: Limits, by: By) -> Engine {
    let options = EngineOptions {
        reserve: 1,
        ..EngineOptions::new(limits)
    };
    let mut engine = Engine::new(model.clone(), options, &Device::flex()).unwrap();
    if limits == FILLED {
        engine.fill_up().unwrap();
    }
    match by {
        By::Nobody => {}
        By::Ngrams => {
            let ngrams = Ngrams::new(3, 5).unwrap();
            engine.speculate_by_ngrams(ngrams).unwrap();
        }
        By::Equal(tokens) => engine.speculate_by_draft(model.clone(), tokens).unwrap(),
        By::Other(name) => engine.speculate_by_draft(self::model(name), 3).unwrap(),
    }
    engine
}

/// Request number `n`: the likeliest tokens, or drawn ones, some of them with penalties, and the probabilities of the eight most likely.
fn generation(n: u32, prompt: usize, most_new: usize) -> Generation {
    let token = |at: usize| (at as u32 * 7 + n * 13 + at as u32 * at as u32) % 64;
    let sampling = SamplingOptions {
        temperature: if n.is_multiple_of(2) { 0.0 } else { 0.8 },
        frequency_penalty: if n == 3 { 0.5 } else { 0.0 },
        repetition_penalty: if n == 2 { 1.3 } else { 1.0 },
        seed: u64::from(n),
        logprobs: Some(8),
        ..SamplingOptions::default()
    };
    Generation::new((0..prompt).map(token).collect(), most_new)
        .with_sampling(Sampling::new(sampling).unwrap())
}

/// Prompts of several lengths, two of which have a common prefix.
fn requests() -> Vec<Generation> {
    let numbers = [(0, 40, 9), (1, 5, 20), (2, 1, 12), (3, 33, 6)];
    let requests = numbers.map(|(n, prompt, most_new)| generation(n, prompt, most_new));
    let mut like_the_first = requests[0].clone();
    like_the_first.prompt.truncate(36);
    requests.into_iter().chain([like_the_first]).collect()
}

/// Runs the engine until it is idle, after which no page is in use. Returns what the requests got, and the number of steps.
fn all(engine: &mut Engine) -> (Answers, usize) {
    let (mut answers, mut steps) = (Answers::new(), 0);
    while !engine.is_idle() {
        note(&mut answers, engine.step().unwrap());
        steps += 1;
    }
    assert_eq!(engine.usage().used, 0);
    (answers, steps)
}

/// What a request gets alone, and the number of steps that it takes.
fn alone(model: &Model, request: &Generation, by: By) -> (Vec<Draw>, Option<Ended>, usize) {
    let mut engine = engine(model, Limits::new(8, 64, 1), by);
    engine.add(request.clone()).unwrap();
    let (mut answers, steps) = all(&mut engine);
    let (draws, ended) = answers.pop_first().unwrap().1;
    (draws, ended, steps)
}

#[test]
fn company_pieces_hits_and_preemption_change_no_bit() {
    for (name, foreign) in NAMES.into_iter().zip(FOREIGN) {
        let model = model(name);
        let requests = requests();
        let want = requests.iter().map(|of| alone(&model, of, By::Nobody).0);
        let want: Vec<Vec<Draw>> = want.collect();
        for by in [By::Ngrams, By::Equal(1), By::Equal(4), By::Other(foreign)] {
            let mut proposals = Proposals::default();
            // Limits with room for all requests, with prompts in pieces, with so few pages that requests are preempted, and with calls that are
            // filled up.
            for limits in [
                Limits::new(64, 256, 8),
                Limits::new(64, 7, 5),
                Limits::new(4, 16, 4),
                FILLED,
            ] {
                let mut engine = engine(&model, limits, by);
                for turn in 0..2 {
                    for request in &requests {
                        engine.add(request.clone()).unwrap();
                    }
                    let (got, _) = all(&mut engine);
                    assert_eq!(got.len(), want.len());
                    for ((draws, ended), want) in got.values().zip(&want) {
                        assert_eq!(*ended, Some(Ended::Length));
                        assert_eq!(draws, want, "{name}, {by:?}, {limits:?}, turn {turn}");
                    }
                }
                let found = engine.counts().found > 0;
                assert!(found || limits.pages == 4, "no prompt was found again");
                proposals.proposed += engine.proposals().proposed;
                proposals.accepted += engine.proposals().accepted;
            }
            let Proposals { proposed, accepted } = proposals;
            assert!(proposed > 0, "{name}, {by:?}");
            if matches!(by, By::Equal(_)) {
                assert_eq!(accepted, proposed, "{name}: the model differs from itself");
            } else {
                assert!(accepted < proposed, "{name}, {by:?}: nothing was rejected");
            }
        }
    }
}

#[test]
fn a_draft_that_is_right_saves_steps() {
    let model = model(NAMES[0]);
    for n in [0, 1] {
        let request = generation(n, 5, 20);
        let (want, _, steps) = alone(&model, &request, By::Nobody);
        assert_eq!(steps, 20);
        let mut engine = engine(&model, Limits::new(8, 64, 1), By::Equal(4));
        engine.add(request).unwrap();
        let (answers, steps) = all(&mut engine);
        assert_eq!(answers.first_key_value().unwrap().1.0, want);
        // Each step, that of the prompt, too, gives the four proposed tokens and the one after them.
        assert_eq!(steps, 4);
        let (proposed, accepted) = (16, 16);
        assert_eq!(engine.proposals(), Proposals { proposed, accepted });
    }
}

#[test]
fn proposals_may_pause() {
    let model = model(NAMES[0]);
    let request = generation(1, 5, 20);
    let (want, _, _) = alone(&model, &request, By::Nobody);
    let mut engine = engine(&model, Limits::new(8, 64, 1), By::Equal(4));
    for (most, steps) in [(0, 20), (1, 10), (usize::MAX, 4)] {
        engine.propose_at_most(most);
        engine.add(request.clone()).unwrap();
        let (answers, took) = all(&mut engine);
        assert_eq!(answers.first_key_value().unwrap().1.0, want);
        assert_eq!(took, steps, "at most {most}");
    }
}

#[test]
fn an_answer_may_end_at_every_place_of_a_proposal() {
    let model = model(NAMES[0]);
    for n in [0, 1] {
        let request = generation(n, 20, 12);
        let (draws, _, _) = alone(&model, &request, By::Nobody);
        for by in [By::Equal(3), By::Equal(11), By::Ngrams] {
            for at in 0..draws.len() {
                let ends = request.clone().with_ends([draws[at].id]);
                let before = draws.iter().position(|draw| draw.id == draws[at].id);
                let (got, ended, _) = alone(&model, &ends, by);
                assert_eq!(got, draws[..before.unwrap()], "{by:?}, {at}");
                assert_eq!(ended, Some(Ended::Stop));

                let mut short = request.clone();
                short.most_new = at + 1;
                let (got, ended, _) = alone(&model, &short, by);
                assert_eq!(got, draws[..=at], "{by:?}, {at}");
                assert_eq!(ended, Some(Ended::Length));
            }
        }
    }
}

#[test]
fn a_request_may_be_cancelled_at_every_place_of_a_proposal() {
    let model = model(NAMES[0]);
    let [stopped, other] = [generation(0, 20, 12), generation(1, 20, 12)];
    let [want, want_other] = [&stopped, &other].map(|of| alone(&model, of, By::Nobody).0);
    let mut engine = engine(&model, Limits::new(16, 64, 2), By::Equal(3));
    for at in 0..want.len() {
        let [id, beside] = [&stopped, &other].map(|of| engine.add(of.clone()).unwrap());
        let (mut answers, mut got) = (Answers::new(), Vec::new());
        while got.len() <= at {
            for (of, event) in engine.step().unwrap() {
                match event {
                    Event::Token(draw) if of == id && got.len() <= at => got.push(draw),
                    // These come with the step in which the caller stops.
                    _ if of == id => {}
                    event => note(&mut answers, vec![(of, event)]),
                }
            }
        }
        // The request has ended by itself with its last token, or with the step that gave it.
        engine.cancel(id);
        assert_eq!(got, want[..=at]);
        while !engine.is_idle() {
            note(&mut answers, engine.step().unwrap());
        }
        assert_eq!(answers[&beside].0, want_other);
        assert_eq!(engine.usage().used, 0);
    }
}

#[test]
fn a_step_with_proposals_may_be_abandoned() {
    let model = model(NAMES[0]);
    let [cancelled, other] = [generation(0, 20, 9), generation(1, 20, 9)];
    let (want, _, _) = alone(&model, &other, By::Nobody);
    for by in [By::Ngrams, By::Equal(3), By::Other(FOREIGN[0])] {
        let mut engine = engine(&model, Limits::new(16, 64, 2), by);
        let [cancelled, other] = [&cancelled, &other].map(|of| engine.add(of.clone()).unwrap());
        let launched = engine.launch().unwrap().unwrap();
        engine.abandon(launched);
        let launched = engine.launch().unwrap().unwrap();
        assert!(engine.cancel(cancelled));
        let read = launched.reads(false).try_execute().unwrap();
        let mut answers = Answers::new();
        note(&mut answers, engine.finish(launched, &read).unwrap());
        let launched = engine.launch().unwrap().unwrap();
        engine.abandon(launched);
        while !engine.is_idle() {
            note(&mut answers, engine.step().unwrap());
        }
        assert_eq!(answers.keys().collect::<Vec<_>>(), [&other]);
        assert_eq!(answers[&other].0, want, "{by:?}");
        assert_eq!(engine.usage().used, 0);
    }
}

/// The experts of the last of these tokens, by one forward pass over all tokens.
fn experts_of(model: &Model, tokens: &[u32]) -> Vec<Vec<u32>> {
    let tensor = model.tokens(tokens, &Device::flex()).unwrap();
    let of = |routing: &moebius::moe::Routing| {
        let indices: Vec<u32> = routing.indices.clone().into_data().iter().collect();
        let top_k = indices.len() / tokens.len();
        indices[indices.len() - top_k..].to_vec()
    };
    model
        .forward(tensor)
        .unwrap()
        .routing
        .iter()
        .map(of)
        .collect()
}

#[test]
fn each_verified_token_has_its_experts() {
    let model = model(NAMES[0]);
    for by in [By::Equal(3), By::Other(FOREIGN[0])] {
        let mut engine = engine(&model, Limits::new(64, 64, 8), by);
        let mut texts = BTreeMap::new();
        for request in requests() {
            let text = request.prompt.clone();
            texts.insert(engine.add(request).unwrap(), text);
        }
        while let Some(launched) = engine.launch().unwrap() {
            let read = launched.reads(true).try_execute().unwrap();
            let experts = launched.experts(&read).unwrap();
            let events = engine.finish(launched, &read).unwrap();
            for (id, text) in &mut texts {
                let tokens = events.iter().filter_map(|(of, event)| match event {
                    Event::Token(draw) if of == id => Some(draw.id),
                    _ => None,
                });
                let experts = experts.iter().filter(|of| of.request == *id);
                let experts: Vec<_> = experts.map(|of| &of.layers).collect();
                for (at, token) in tokens.enumerate() {
                    assert_eq!(*experts[at], experts_of(&model, text), "{by:?}");
                    text.push(token);
                }
            }
        }
        let tokens: usize = texts.values().map(Vec::len).sum();
        let asked = requests();
        let asked = asked.iter().map(|of| of.prompt.len() + of.most_new);
        assert_eq!(tokens, asked.sum::<usize>());
    }
}

#[test]
fn a_draft_that_does_not_fit_is_refused() {
    let model = model(NAMES[0]);
    let mut engine = engine(&model, Limits::new(8, 64, 1), By::Nobody);
    let mut refused = |draft: Model, tokens: usize| {
        let error = engine.speculate_by_draft(draft, tokens).unwrap_err();
        assert!(matches!(error, EngineError::Unfit(_)), "{error:?}");
        error.to_string()
    };
    let said = refused(model.clone(), 0);
    assert_eq!(
        said,
        "tokens that a draft model proposes: expected at least 1, got 0"
    );
    let mut other = model.clone();
    other.embedding = other.embedding.map(|all| all.narrow(0, 0, 32));
    let said = refused(other, 4);
    assert_eq!(
        said,
        "vocabulary of a draft model: expected 199 tokens, got 32"
    );
    let said = Ngrams::new(0, 4).unwrap_err().to_string();
    assert_eq!(
        said,
        "tokens that n-grams look up: expected at least 1, got 0"
    );
    let said = Ngrams::new(4, 0).unwrap_err().to_string();
    assert_eq!(
        said,
        "tokens that n-grams propose: expected at least 1, got 0"
    );
}

/// Convolutions keep only the last values of a page, so that their caches can't forget a rejected token.
#[test]
fn models_with_convolutions_are_refused() {
    let [plain, convolutions] = ["decoder_deepseek_v3", "decoder_lfm2_moe"].map(model);
    let expected = "expected one whose cache can forget single tokens";
    let refused = |result: Result<(), EngineError>, what: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, EngineError::Unfit(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.starts_with(&format!("{what}: {expected}")), "{said}");
    };
    let limits = Limits::new(8, 64, 1);
    let mut engine_of_plain = engine(&plain, limits, By::Nobody);
    let draft = engine_of_plain.speculate_by_draft(convolutions.clone(), 4);
    refused(draft, "draft model");
    let mut engine = engine(&convolutions, limits, By::Nobody);
    let what = "model with proposed tokens";
    let ngrams = Ngrams::default();
    refused(engine.speculate_by_ngrams(ngrams), what);
    refused(engine.speculate_by_draft(plain, 4), what);
    // Neither proposes anything.
    engine.add(generation(0, 20, 9)).unwrap();
    all(&mut engine);
    assert_eq!(engine.proposals(), Proposals::default());
}

#[test]
fn n_grams_propose_what_followed() {
    let propose = |longest: usize, text: &[u32], most: usize| {
        let ngrams = Ngrams::new(longest, 6).unwrap();
        ngrams.propose(text, most)
    };
    // The longest end that occurred before decides, and of several places the last.
    let text = [1, 2, 3, 4, 9, 2, 3, 5, 8, 2, 3, 6, 1, 2, 3];
    assert_eq!(propose(3, &text, 2), [4, 9]);
    assert_eq!(propose(2, &text, 2), [6, 1]);
    assert_eq!(propose(1, &text, 1), [6]);
    // No more than there is room for, and no more than the proposer's own number.
    assert!(propose(3, &text, 0).is_empty());
    assert_eq!(propose(3, &text, 9), [4, 9, 2, 3, 5, 8]);
    // What is proposed goes on with itself.
    assert_eq!(propose(3, &[7, 7], 3), [7, 7, 7]);
    assert_eq!(propose(8, &[4, 5, 6, 4, 5], 5), [6, 4, 5, 6, 4]);
    for text in [&[][..], &[1], &[1, 2, 3]] {
        assert!(propose(3, text, 4).is_empty());
    }
}
