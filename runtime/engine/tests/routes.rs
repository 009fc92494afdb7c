//! Routes that an engine records are those of a forward over the same tokens, whoever else is served.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod answers;

use std::path::Path;

use answers::{Answers, note};
use burn::tensor::Device;
use moebius_engine::{Engine, EngineError, EngineOptions, Generation, Limits, Ngrams};
use moebius_model::decoder::{Model, Routes};
use moebius_model::load::{LoadOptions, ModelFiles};

fn model(name: &str) -> Model {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let model = files.load(&Device::flex(), LoadOptions::default(), &mut |_| ());
    model.unwrap()
}

/// Prompts of several lengths, of which the last begins as the first does.
fn requests() -> Vec<Generation> {
    let prompt =
        |start: u32, length: u32| (0..length).map(move |at| (at * 7 + start * 13 + at * at) % 64);
    let lengths = [(0, 40, 9), (1, 5, 20), (2, 1, 12), (3, 33, 6), (0, 36, 9)];
    let request = |(start, length, new)| Generation::new(prompt(start, length).collect(), new);
    lengths.map(request).into()
}

/// The routes of all tokens of a text but the last.
fn forward(model: &Model, text: &[u32]) -> Routes {
    let ids = model.tokens(&text[..text.len() - 1], &Device::flex());
    let out = model.forward(ids.unwrap()).unwrap();
    Routes::read(model.spec(), &out.routing).unwrap()
}

/// Checks the routes of all requests, twice, so that prompts are found in the cache.
fn check(model: &Model, limits: Limits, proposing: bool) {
    let mut engine =
        Engine::new(model.clone(), EngineOptions::new(limits), &Device::flex()).unwrap();
    engine.record_routes().unwrap();
    if proposing {
        engine
            .speculate_by_ngrams(Ngrams::new(3, 4).unwrap())
            .unwrap();
    }
    for _ in 0..2 {
        let mut answers = Answers::new();
        let asked = requests().into_iter().map(|request| {
            let prompt = request.prompt.clone();
            (engine.add(request).unwrap(), prompt)
        });
        let asked: Vec<_> = asked.collect();
        assert!(engine.take_routes(asked[0].0).unwrap().is_none(), "it runs");
        while !engine.is_idle() {
            note(&mut answers, engine.step().unwrap());
        }
        for (id, prompt) in asked {
            let answer = answers[&id].0.iter().map(|draw| draw.id);
            let text: Vec<u32> = prompt.into_iter().chain(answer).collect();
            let routes = engine.take_routes(id).unwrap();
            assert_eq!(routes, Some(forward(model, &text)), "{limits:?}");
            assert!(engine.take_routes(id).unwrap().is_none(), "taken once");
        }
    }
    let counts = engine.counts();
    assert!(counts.found > 0, "no prompt was found again");
    assert_eq!(counts.preemptions > 0, limits.pages == 4, "{counts:?}");
}

#[test]
fn routes_are_those_of_a_forward() {
    for name in ["decoder_olmoe", "decoder_gpt_oss", "decoder_deepseek_v3"] {
        let model = model(name);
        // Room for all requests, prompts in pieces, and so few pages that requests are preempted.
        for limits in [
            Limits::new(64, 256, 8),
            Limits::new(64, 7, 5),
            Limits::new(4, 16, 4),
        ] {
            check(&model, limits, false);
        }
        check(&model, Limits::new(64, 256, 8), true);
    }
}

#[test]
fn a_token_that_ends_an_answer_is_in_no_routes() {
    let model = model("decoder_olmoe");
    let mut engine =
        Engine::new(model.clone(), EngineOptions::for_one(64), &Device::flex()).unwrap();
    engine.record_routes().unwrap();
    let request = requests().swap_remove(3);
    let prompt = request.prompt.clone();
    let end = model.last_logits(&prompt, &Device::flex()).unwrap();
    let end = (0..end.len())
        .max_by(|&a, &b| end[a].total_cmp(&end[b]))
        .unwrap();
    let id = engine.add(request.with_ends([end as u32])).unwrap();
    while !engine.is_idle() {
        engine.step().unwrap();
    }
    let routes = engine.take_routes(id).unwrap();
    assert_eq!(routes, Some(forward(&model, &prompt)));
}

#[test]
fn what_can_not_be_recorded_is_refused() {
    let options = EngineOptions::new(Limits::new(8, 64, 2));
    let made = |name| Engine::new(model(name), options, &Device::flex()).unwrap();
    let unfit = |refused| matches!(refused, Err(EngineError::Unfit(_)));
    assert!(unfit(made("decoder_llama").record_routes()), "no experts");
    let mut engine = made("decoder_olmoe");
    let id = engine.add(Generation::new(vec![1, 2, 3], 2)).unwrap();
    assert!(unfit(engine.record_routes()), "a request was there");
    engine.step().unwrap();
    assert!(
        engine.take_routes(id).unwrap().is_none(),
        "nothing is recorded"
    );
    let mut engine = made("decoder_olmoe");
    engine.record_routes().unwrap();
    let id = engine.add(Generation::new(vec![1, 2, 3], 2)).unwrap();
    assert!(
        unfit(engine.launch().map(drop)),
        "a step that is read later"
    );
    engine.step().unwrap();
    assert!(engine.cancel(id));
    assert!(engine.take_routes(id).unwrap().is_none(), "cancelled");
}
