//! A thousand lengths on XLA's CPU plugin: how many programs they take, how much is computed for what fills them up, and what results they
//! have beside those of each length by itself.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use burn::tensor::{Device, Tensor, TensorData};
use moebius::moe::{Activation, MoeConfig};
use moebius::pad::Buckets;
use moebius_engine::{
    Draw, Engine, EngineOptions, Event, Generation, History, Limits, PAGE, RequestId, Sampling,
    SamplingOptions,
};
use moebius_model::DecoderConfig;
use moebius_model::decoder::Model;
use moebius_ops::Element;
use moebius_pjrt::Platform;
use moebius_tests::data::Rng;
use moebius_tests::elements::{exact, floats};
use moebius_tests::gradients::filled;
use moebius_tests::tolerance::{assert_close, rel_l2};
use moebius_xla::activity;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const LONGEST: usize = 256;
const HIDDEN: usize = 16;

/// Most programs, and most rows that fill up for each row that was given.
const PROGRAMS: usize = 12;
const WASTE: f64 = 0.15;

/// Lets one test run at a time, because all of them use the device whose programs are counted.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of programs that the device has compiled.
fn compiled() -> u64 {
    activity(Platform::Cpu, 0).unwrap().compiled
}

/// Runs `padded` with a thousand random lengths, checks what that takes, and gives the first few lengths and results to `compare`.
fn a_thousand(padded: impl Fn(usize, &Buckets) -> Vec<f32>, compare: impl Fn(usize, Vec<f32>)) {
    let buckets = Buckets::new(1..=LONGEST, WASTE, PROGRAMS).unwrap();
    let mut rng = Rng::new(5);
    let lengths: Vec<usize> = (0..1000).map(|_| 1 + rng.below(LONGEST)).collect();
    let before = compiled();
    let found = lengths.iter().map(|&length| padded(length, &buckets));
    let mut found: Vec<Vec<f32>> = found.collect();
    let programs = compiled() - before;
    let sizes = lengths.iter().map(|&length| buckets.size(length).unwrap());
    let (computed, given) = (sizes.sum::<usize>(), lengths.iter().sum::<usize>());
    check(programs, computed - given, given);
    for (&length, found) in lengths.iter().zip(found.drain(..6)) {
        compare(length, found);
    }
}

/// Checks the number of programs, and of rows that fill up beside those that were given.
fn check(programs: u64, filled: usize, given: usize) {
    let waste = filled as f64 / given as f64;
    println!(
        "{programs} programs, {:.1} % for what fills up",
        100.0 * waste
    );
    assert!((programs as usize) <= PROGRAMS, "{programs} programs");
    assert!(waste <= WASTE, "{waste}");
}

fn xla() -> Device {
    moebius::open(&"xla:cpu".parse().unwrap()).unwrap()
}

/// A layer's tokens are computed in blocks of one shape, so that not even their last bits depend on the rows that fill up.
#[test]
fn experts_keep_every_bit() {
    let _alone = alone();
    let device = xla();
    let config = MoeConfig::new(HIDDEN, 24, 8).with_activation(Activation::Silu);
    let layer = filled(config.with_gated(true).init(&device).unwrap(), 3, 0.5);
    let rows = Rng::new(9).vec(LONGEST * HIDDEN, 1.0);
    // Rows are filled up on the host: on the device the length would be part of the program.
    let forward = |length: usize, size: usize| {
        let mut values = rows[..length * HIDDEN].to_vec();
        values.resize(size * HIDDEN, 0.0);
        let data = TensorData::new(values, [size, HIDDEN]);
        let x = Tensor::<2>::from_data(data, &device);
        let mut y = floats(layer.forward(x).unwrap().y);
        y.truncate(length * HIDDEN);
        y
    };
    a_thousand(
        |length, buckets| forward(length, buckets.size(length).unwrap()),
        |length, found| {
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let same = bits(found) == bits(forward(length, length));
            assert!(same, "{length} tokens have other bits by themselves");
        },
    );
}

/// A decoder with learned positions.
fn decoder(device: &Device) -> Model {
    let sizes = DecoderConfig {
        hidden: HIDDEN,
        heads: 2,
        layers: 1,
        sequence: LONGEST,
        experts: 4,
        inter: 16,
        top_k: 2,
    };
    sizes.init(1, device).unwrap()
}

/// Projections and attention sum in an order that XLA chooses for each shape.
#[test]
fn a_decoder_agrees_to_rounding() {
    let _alone = alone();
    let device = xla();
    let model = decoder(&device);
    let mut rng = Rng::new(9);
    let ids: Vec<u32> = (0..LONGEST).map(|_| rng.below(256) as u32).collect();
    a_thousand(
        |length, buckets| {
            let logits = model.last_logits_padded(&ids[..length], buckets, &device);
            logits.unwrap()
        },
        |length, found| {
            let want = model.last_logits(&ids[..length], &device).unwrap();
            let what = format!("{length} tokens");
            assert_close(&what, &found, &exact(&want), rel_l2(Element::F32));
        },
    );
}

/// Tokens that are generated after each prompt of an engine.
const NEW: usize = 3;

/// The largest difference of log-probabilities: sums are in the order of each shape.
const APART: f32 = 1e-5;

/// The likeliest tokens, and how likely they are.
fn likeliest() -> Sampling {
    let options = SamplingOptions {
        temperature: 0.0,
        logprobs: Some(1),
        ..SamplingOptions::default()
    };
    Sampling::new(options).unwrap()
}

/// Checks tokens after a prompt against passes over each text by itself, without a cache.
fn assert_drawn(model: &Model, prompt: &[u32], draws: &[Draw], device: &Device) {
    let (mut text, mut history) = (prompt.to_vec(), History::new(prompt));
    assert_eq!(draws.len(), NEW);
    for (place, got) in draws.iter().enumerate() {
        let logits = model.last_logits(&text, device).unwrap();
        let want = likeliest().sample(&logits, &history, place as u64).unwrap();
        let what = format!("token {place} after {} tokens", prompt.len());
        assert_eq!(got.id, want.id, "{what}");
        let [likely, as_likely] = [got, &want].map(|draw| draw.logprobs.as_ref().unwrap().chosen);
        assert!((likely - as_likely).abs() <= APART, "{what}");
        history.push(got.id);
        text.push(got.id);
    }
}

/// An engine on XLA fills its calls up by itself: prompts of a thousand random lengths, four requests at a time.
#[test]
fn an_engine_needs_few_programs() {
    let _alone = alone();
    let device = xla();
    let model = decoder(&device);
    let limits = Limits {
        longest: LONGEST,
        ..Limits::new(5 * LONGEST / PAGE, LONGEST, 4)
    };
    let options = EngineOptions::new(limits).reserved();
    let mut engine = Engine::new(model.clone(), options, &device).unwrap();
    let mut rng = Rng::new(7);
    let mut prompt = || {
        let length = 1 + rng.below(LONGEST - NEW);
        let ids = (0..length).map(|_| rng.below(256) as u32);
        ids.collect::<Vec<u32>>()
    };
    let prompts: Vec<Vec<u32>> = (0..1000).map(|_| prompt()).collect();
    for prompt in &prompts {
        let request = Generation::new(prompt.clone(), NEW).with_sampling(likeliest());
        engine.add(request).unwrap();
    }
    let before = compiled();
    let mut draws = BTreeMap::<RequestId, Vec<Draw>>::new();
    let (mut given, mut filled) = (0, 0);
    while !engine.is_idle() {
        for (id, event) in engine.step().unwrap() {
            if let Event::Token(draw) = event {
                draws.entry(id).or_default().push(draw);
            }
        }
        given += engine.last_step().tokens;
        filled += engine.last_step().filled;
    }
    let programs = compiled() - before;
    // The last token of each answer is never computed.
    let asked: usize = prompts.iter().map(|prompt| prompt.len() + NEW - 1).sum();
    assert_eq!(given, asked, "what fills up isn't counted");
    check(programs, filled, given);
    for (prompt, draws) in prompts.iter().zip(draws.values()).take(6) {
        assert_drawn(&model, prompt, draws, &device);
    }
}
