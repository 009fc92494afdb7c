//! An engine with decoders of transformers: a request's tokens and their probabilities are the same, bit for bit, among any other requests.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod answers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use answers::{Answers, note};
use burn::tensor::Device;
use moebius::attention::CacheFormat;
use moebius_engine::{
    Draw, Ended, Engine, EngineError, EngineOptions, Event, Generation, Limits, RequestId,
    Sampling, SamplingOptions,
};
use moebius_model::load::{LoadOptions, ModelFiles};

/// Size of the vocabulary in all cases.
const VOCABULARY: u32 = 64;

fn folder(name: &str) -> PathBuf {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    cases.join(name)
}

fn engine(name: &str, limits: Limits) -> Engine {
    engine_of(name, EngineOptions::new(limits))
}

fn engine_of(name: &str, options: EngineOptions) -> Engine {
    let device = Device::flex();
    let files = ModelFiles::open(&folder(name)).unwrap();
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    Engine::new(model.unwrap(), options, &device).unwrap()
}

/// Request number `n`, with a seed of its own and the probabilities of the eight most likely tokens.
fn generation(n: u32, prompt: usize, most_new: usize) -> Generation {
    let token = |at: usize| (at as u32 * 7 + n * 13 + at as u32 * at as u32) % VOCABULARY;
    let sampling = SamplingOptions {
        temperature: if n.is_multiple_of(2) { 0.0 } else { 0.8 },
        seed: u64::from(n),
        logprobs: Some(8),
        ..SamplingOptions::default()
    };
    Generation::new((0..prompt).map(token).collect(), most_new)
        .with_sampling(Sampling::new(sampling).unwrap())
}

/// Runs the engine until it is idle, and returns the draws of every request and why it ended.
fn all(engine: &mut Engine) -> Answers {
    let mut answers = Answers::new();
    while !engine.is_idle() {
        note(&mut answers, engine.step().unwrap());
    }
    answers
}

/// Prompts of several lengths, two of which have a common prefix.
fn requests() -> Vec<Generation> {
    let mut requests: Vec<Generation> = [(0, 40, 9), (1, 5, 20), (2, 1, 12), (3, 33, 6)]
        .map(|(n, prompt, most_new)| generation(n, prompt, most_new))
        .into();
    let mut like_the_first = requests[0].clone();
    like_the_first.prompt.truncate(36);
    requests.push(like_the_first);
    requests
}

fn alone(name: &str, request: &Generation) -> Vec<Draw> {
    let mut engine = engine(name, Limits::new(8, 64, 1));
    engine.add(request.clone()).unwrap();
    let (draws, ended) = all(&mut engine).pop_first().unwrap().1;
    assert_eq!(ended, Some(Ended::Length));
    assert_eq!(draws.len(), request.most_new);
    draws
}

#[test]
fn company_pieces_hits_and_preemption_change_no_bit() {
    for name in [
        "decoder_olmoe",
        "decoder_gpt_oss",
        "decoder_deepseek_v3",
        "decoder_lfm2_moe",
    ] {
        let requests = requests();
        let want: Vec<_> = requests.iter().map(|of| alone(name, of)).collect();
        // Limits with room for all requests, with prompts in pieces, and with so few pages that requests are preempted.
        let limits = [
            Limits::new(64, 256, 8),
            Limits::new(64, 7, 5),
            Limits::new(4, 16, 4),
        ];
        for limits in limits {
            let mut engine = engine(name, limits);
            for turn in 0..2 {
                for request in &requests {
                    engine.add(request.clone()).unwrap();
                }
                let got = all(&mut engine);
                for ((draws, ended), want) in got.values().zip(&want) {
                    assert_eq!(*ended, Some(Ended::Length));
                    assert_eq!(draws, want, "{name}, {limits:?}, turn {turn}");
                }
            }
            let counts = engine.counts();
            assert!(counts.found > 0, "no prompt was found again");
            assert_eq!(counts.preemptions > 0, limits.pages == 4, "{counts:?}");
        }
    }
}

/// A cache that begins with one page grows until it has what the requests need, and its results are those of a cache that had all pages
/// from the start: with windows and sinks (gpt-oss), latent attention (deepseek), convolutions (lfm2) and in each format, whose scales grow with the codes.
#[test]
fn a_cache_that_grows_changes_no_bit() {
    let names = ["decoder_olmoe", "decoder_gpt_oss", "decoder_deepseek_v3"];
    let formats = [CacheFormat::F32, CacheFormat::Bf16, CacheFormat::E4m3];
    for (name, format) in names
        .into_iter()
        .zip(formats)
        .chain([(names[1], formats[2]), ("decoder_lfm2", formats[0])])
    {
        let whole = EngineOptions {
            format,
            ..EngineOptions::new(Limits::new(40, 16, 8)).reserved()
        };
        let growing = EngineOptions {
            reserve: 1,
            ..whole
        };
        let [mut whole, mut growing] = [whole, growing].map(|options| engine_of(name, options));
        let page = growing.cache_bytes();
        assert_eq!(whole.cache_bytes(), 40 * page, "{name}");
        let [want, got] = [&mut whole, &mut growing].map(|engine| {
            for request in requests() {
                engine.add(request).unwrap();
            }
            all(engine)
        });
        assert_eq!(got, want, "{name}, {format:?}");
        // With 16 tokens a step, the first request has one page, then two; in the third step it has three, and three others one each; in
        // the fifth the fourth request gets a second: 7. One page becomes 2, 6 and twice 6, and no step needs more than 9.
        assert_eq!(growing.cache_bytes(), 12 * page, "{name}");
        assert_eq!(growing.usage().available(), 40);
    }
}

#[test]
fn a_limit_beyond_every_cache_is_refused() {
    let device = Device::flex();
    let files = ModelFiles::open(&folder("decoder_olmoe")).unwrap();
    let refused = |tokens: usize| {
        let memory = EngineOptions::for_one(tokens).memory(files.spec());
        memory.unwrap_err().to_string()
    };
    for tokens in [4_000_000_000, usize::MAX] {
        let said = refused(tokens);
        assert!(
            said.starts_with("tokens of a cache: expected at most"),
            "{said}"
        );
    }
    assert!(refused(0).starts_with("pages: expected 1 to"));
    // A limit takes no memory by itself.
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    let options = EngineOptions::for_one(5_000_000);
    let engine = Engine::new(model.unwrap(), options, &device).unwrap();
    assert_eq!(engine.usage().free, 312_500);
    assert!(engine.cache_bytes() < 1 << 24);
}

/// The kernels of an exact model keep a score for each of 512 queries of four heads and each of 1024 tokens of the first pages, and a sum; other
/// parts of a layer have at most 1008 values of a token, and its attention 432 beside the scores.
#[test]
fn scores_of_an_exact_model_are_counted() {
    let files = ModelFiles::open(&folder("decoder_olmoe")).unwrap();
    let options = EngineOptions::for_one(4096);
    let plain = options.memory(files.spec()).unwrap().bytes();
    let exact = options.exact_memory(files.spec()).unwrap().bytes();
    assert_eq!(exact - plain, 4 * 512 * (432 + 4 * 1025 - 1008));
    let weights_alone = EngineOptions {
        margin: 0,
        ..options
    };
    let counted = weights_alone.memory(files.spec()).unwrap();
    assert_eq!(weights_alone.exact_memory(files.spec()).unwrap(), counted);
}

#[test]
fn a_token_that_ends_is_no_part_of_the_answer() {
    let name = "decoder_olmoe";
    let request = generation(0, 5, 12);
    let draws = alone(name, &request);
    let end = draws[4].id;
    let before = draws.iter().take_while(|draw| draw.id != end).count();
    let mut engine = engine(name, Limits::new(8, 64, 1));
    engine.add(request.with_ends([end])).unwrap();
    let (got, ended) = all(&mut engine).pop_first().unwrap().1;
    assert_eq!((got.len(), ended), (before, Some(Ended::Stop)));
    assert_eq!(got, draws[..before]);
}

/// An engine with two requests, and the draws that the second one gives alone.
fn two() -> (Engine, [RequestId; 2], Vec<Draw>) {
    let name = "decoder_olmoe";
    let [first, second] = [generation(0, 20, 9), generation(1, 20, 9)];
    let want = alone(name, &second);
    let mut engine = engine(name, Limits::new(16, 64, 2));
    let ids = [first, second].map(|request| engine.add(request).unwrap());
    (engine, ids, want)
}

#[test]
fn a_cancelled_request_leaves_others_alone() {
    let (mut engine, [cancelled, other], want) = two();
    engine.step().unwrap();
    assert!(engine.cancel(cancelled));
    assert!(!engine.cancel(cancelled));
    let got = all(&mut engine);
    assert_eq!(got.keys().collect::<Vec<_>>(), [&other]);
    // The previous step has returned the first token.
    assert_eq!(got[&other].0, want[1..]);
}

#[test]
fn what_can_not_run_is_refused() {
    let mut engine = engine("decoder_olmoe", Limits::new(4, 64, 1));
    let refused = |result| matches!(result, Err(EngineError::Refused(_)));
    assert!(refused(engine.add(Generation::new(Vec::new(), 1))));
    assert!(refused(engine.add(generation(0, 5, 0))));
    assert!(refused(engine.add(generation(0, 60, 6))));
    let unknown = engine.add(Generation::new(vec![1, 1 << 30], 1));
    let message = unknown.unwrap_err().to_string();
    assert!(message.contains("1073741824"), "{message}");
    assert!(engine.is_idle());
}

/// The experts of the last of these tokens, by one forward pass over all tokens.
fn experts_of(engine: &Engine, tokens: &[u32]) -> Vec<Vec<u32>> {
    let device = Device::flex();
    let model = engine.model();
    let all = model
        .forward(model.tokens(tokens, &device).unwrap())
        .unwrap();
    let of = |routing: &moebius::moe::Routing| {
        let indices: Vec<u32> = routing.indices.clone().into_data().iter().collect();
        let top_k = indices.len() / tokens.len();
        indices[indices.len() - top_k..].to_vec()
    };
    all.routing.iter().map(of).collect()
}

#[test]
fn a_step_that_is_read_elsewhere_chooses_the_same_and_tells_the_experts() {
    for name in ["decoder_olmoe", "decoder_llama"] {
        let requests = requests();
        let want: Vec<_> = requests.iter().map(|of| alone(name, of)).collect();
        let mut engine = engine(name, Limits::new(64, 16, 8));
        let mut texts = BTreeMap::new();
        for (request, want) in requests.iter().zip(&want) {
            let id = engine.add(request.clone()).unwrap();
            texts.insert(id, (request.prompt.clone(), want.iter()));
        }
        while let Some(launched) = engine.launch().unwrap() {
            let read = launched.reads(true).try_execute().unwrap();
            assert_eq!(launched.chooses(), !read.is_empty());
            let experts = launched.experts(&read).unwrap();
            let events = engine.finish(launched, &read).unwrap();
            let tokens = events.iter().filter_map(|(id, event)| match event {
                Event::Token(draw) => Some((id, draw)),
                Event::End(_) => None,
            });
            let tokens: Vec<_> = tokens.collect();
            assert_eq!(tokens.len(), experts.len());
            for ((id, draw), experts) in tokens.into_iter().zip(experts) {
                assert_eq!(experts.request, *id);
                let (text, want) = texts.get_mut(id).unwrap();
                assert_eq!(want.next(), Some(draw), "{name}");
                assert_eq!(experts.layers, experts_of(&engine, text), "{name}");
                text.push(draw.id);
            }
        }
        assert!(texts.values_mut().all(|(_, want)| want.next().is_none()));
    }
}

#[test]
fn a_step_may_be_abandoned_and_its_requests_cancelled() {
    let (mut engine, [cancelled, other], want) = two();
    let launched = engine.launch().unwrap().unwrap();
    let again = engine.launch();
    assert!(matches!(again, Err(EngineError::Step(_))), "one at a time");
    engine.abandon(launched);
    let launched = engine.launch().unwrap().unwrap();
    assert!(engine.cancel(cancelled));
    let read = launched.reads(false).try_execute().unwrap();
    let too_few = launched.experts(&read).unwrap_err().to_string();
    assert!(too_few.contains("expected"), "{too_few}");
    let events = engine.finish(launched, &read).unwrap();
    assert_eq!(events, [(other, Event::Token(want[0].clone()))]);
    let launched = engine.launch().unwrap().unwrap();
    let nothing = engine.finish(launched, &[]);
    assert!(matches!(nothing, Err(EngineError::Unfit(_))), "{nothing:?}");
    assert_eq!(all(&mut engine)[&other].0, want[1..]);
}

/// Convolutions need the values before a step's tokens again, which the abandoned step has replaced in a page that isn't full.
#[test]
fn every_step_with_convolutions_may_be_abandoned() {
    let name = "decoder_lfm2_moe";
    let requests = requests();
    let want: Vec<_> = requests.iter().map(|of| alone(name, of)).collect();
    let mut engine = engine(name, Limits::new(64, 23, 8));
    let ids: Vec<RequestId> = requests
        .into_iter()
        .map(|request| engine.add(request).unwrap())
        .collect();
    let mut got = BTreeMap::<RequestId, Vec<Draw>>::new();
    while let Some(launched) = engine.launch().unwrap() {
        engine.abandon(launched);
        for (id, event) in engine.step().unwrap() {
            if let Event::Token(draw) = event {
                got.entry(id).or_default().push(draw);
            }
        }
    }
    for (id, want) in ids.iter().zip(&want) {
        assert_eq!(got[id], *want);
    }
}

#[test]
fn a_step_tells_its_tokens_and_who_began() {
    let mut engine = engine("decoder_olmoe", Limits::new(16, 12, 1));
    let requests = [generation(0, 20, 2), generation(1, 3, 1)];
    let [first, second] = requests.map(|request| engine.add(request).unwrap());
    let queue = |engine: &Engine| [engine.queue().running, engine.queue().waiting];
    assert_eq!(queue(&engine), [0, 2]);
    assert_eq!(engine.last_step().tokens, 0);
    // A prompt in two pieces with the first token, the second token, then the other prompt.
    let steps: [(usize, &[RequestId], [usize; 2]); 4] = [
        (12, &[first], [1, 1]),
        (8, &[], [1, 1]),
        (1, &[], [0, 1]),
        (3, &[second], [0, 0]),
    ];
    for (tokens, began, left) in steps {
        engine.step().unwrap();
        assert_eq!(engine.last_step().tokens, tokens);
        assert_eq!(engine.last_step().began, began);
        assert_eq!(queue(&engine), left);
    }
    assert!(engine.is_idle());
}

#[test]
fn logits_without_a_cache_are_those_of_the_first_token() {
    let mut engine = engine("decoder_olmoe", Limits::new(8, 64, 1));
    let request = generation(0, 9, 1);
    let logits = engine.last_logits(&request.prompt).unwrap();
    let highest = logits.iter().copied().fold(f32::MIN, f32::max);
    engine.add(request).unwrap();
    let (draws, _) = all(&mut engine).pop_first().unwrap().1;
    assert_eq!(logits[draws[0].id as usize], highest);
    for unfit in [vec![], vec![1 << 30], vec![1; 129]] {
        let refused = engine.last_logits(&unfit);
        assert!(matches!(refused, Err(EngineError::Unfit(_))), "{refused:?}");
    }
}

/// Steps that are read elsewhere tell the same experts where calls are filled up, too. What such calls compute is tested on every device
/// (`tests/schedules.rs`).
#[test]
fn a_filled_up_step_tells_the_experts_of_its_tokens() {
    let run = |fills: bool| {
        let mut engine = engine("decoder_olmoe", Limits::new(64, 16, 8));
        if fills {
            engine.fill_up().unwrap();
        }
        for request in requests() {
            engine.add(request).unwrap();
        }
        let mut told = Vec::new();
        while let Some(launched) = engine.launch().unwrap() {
            let read = launched.reads(true).try_execute().unwrap();
            let experts = launched.experts(&read).unwrap();
            told.push((engine.finish(launched, &read).unwrap(), experts));
        }
        told
    };
    assert_eq!(run(true), run(false));
}
