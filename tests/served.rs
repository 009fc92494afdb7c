//! What a training computes of tokens that an engine served, on every device: the engine's logits, to the bit, and its experts. The
//! engine takes prompts in pieces beside other requests and its answers a token at a time; the training takes whole texts on a device
//! that records gradients. On XLA, whose order of summation depends on the program, probabilities agree to 1e-5.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use moebius::attention::CacheFormat;
use moebius_engine::{
    Draw, Engine, EngineOptions, Event, Generation, History, Limits, RequestId, Sampling,
    SamplingOptions,
};
use moebius_model::decoder::{Logits, Model, Routes};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_tests::target::Target;

/// Tiny models with random weights: softmax routers, windows and sinks, latent attention with groups and a bias of the selection, bounds of
/// scores and logits without experts, and convolutions.
const TINY: [&str; 5] = [
    "decoder_olmoe",
    "decoder_gpt_oss",
    "decoder_deepseek_v3",
    "decoder_gemma2",
    "decoder_lfm2_moe",
];

/// Prompts in pieces of at most 7 tokens, three requests at once.
const LIMITS: Limits = Limits {
    pages: 32,
    batch_tokens: 7,
    running: 3,
    longest: 64,
};

/// The largest relative L2 distance of the logits of an ordinary forward, which sums in another order.
const APART: f64 = 1e-5;

/// The largest difference of log-probabilities on XLA.
const APART_ON_XLA: f64 = 1e-5;

/// The folders of the tiny models, and of the one that ships.
fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tiny = TINY.map(|name| here.join("cases").join(name));
    tiny.into_iter()
        .chain([here.join("../runtime/shipped")])
        .collect()
}

/// The model with weights in floating point: codes don't train.
fn load(folder: &Path, device: &Device) -> Model {
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    let files = ModelFiles::open(folder).unwrap();
    files.load(device, options, &mut |_| ()).unwrap()
}

/// Draws that tell the probabilities of all that matters: of the chosen token and of the eight likeliest.
fn sampling(seed: u64) -> Sampling {
    Sampling::new(SamplingOptions {
        seed,
        logprobs: Some(8),
        ..SamplingOptions::default()
    })
    .unwrap()
}

/// A request with what the engine drew for it, and the routes of its tokens, if the model has experts.
struct Served {
    prompt: Vec<u32>,
    seed: u64,
    draws: Vec<Draw>,
    routes: Option<Routes>,
}

impl Served {
    fn text(&self) -> Vec<u32> {
        let answer = self.draws.iter().map(|draw| draw.id);
        self.prompt.iter().copied().chain(answer).collect()
    }
}

/// Serves requests of several lengths, all at once.
fn serve(model: &Model, format: CacheFormat, device: &Device) -> Vec<Served> {
    let options = EngineOptions {
        format,
        ..EngineOptions::new(LIMITS).reserved()
    };
    let mut engine = Engine::new(model.clone(), options, device).unwrap();
    let records = engine.record_routes().is_ok();
    let mut served = BTreeMap::<RequestId, Served>::new();
    for (seed, length) in [(1, 19), (2, 3), (3, 16)] {
        let prompt: Vec<u32> = (0..length)
            .map(|at| (at * 7 + at * at + 13 * seed as u32) % 64)
            .collect();
        let request = Generation::new(prompt.clone(), 5).with_sampling(sampling(seed));
        let id = engine.add(request).unwrap();
        let (draws, routes) = (Vec::new(), None);
        served.insert(
            id,
            Served {
                prompt,
                seed,
                draws,
                routes,
            },
        );
    }
    while !engine.is_idle() {
        for (id, event) in engine.step().unwrap() {
            if let Event::Token(draw) = event {
                served.get_mut(&id).unwrap().draws.push(draw);
            }
        }
    }
    for (id, served) in &mut served {
        served.routes = engine.take_routes(*id).unwrap();
        assert_eq!(served.routes.is_some(), records);
        assert_eq!(served.draws.len(), 5);
    }
    served.into_values().collect()
}

/// The logits \[V\] after each token.
fn rows(logits: &Tensor<3>) -> Vec<Vec<f32>> {
    let [_, _, width] = logits.dims();
    let values: Vec<f32> = logits.clone().into_data().iter::<f32>().collect();
    values.chunks(width).map(<[f32]>::to_vec).collect()
}

/// Checks that logits after each token of a text draw what the engine drew, with the same probabilities.
fn check(what: &str, served: &Served, logits: &[Vec<f32>], exact: bool) {
    let (sampling, mut history) = (sampling(served.seed), History::new(&served.prompt));
    for (place, want) in served.draws.iter().enumerate() {
        let row = &logits[served.prompt.len() - 1 + place];
        let got = sampling.sample(row, &history, place as u64).unwrap();
        if exact {
            assert_eq!(got, *want, "{what}, token {place}");
        } else {
            assert_eq!(got.id, want.id, "{what}, token {place}");
            let [got, want] = [&got, want].map(|draw| draw.logprobs.as_ref().unwrap().chosen);
            let apart = f64::from((got - want).abs());
            assert!(apart <= APART_ON_XLA, "{what}, token {place}: {apart}");
        }
        history.push(want.id);
    }
}

/// ‖got − want‖ / ‖want‖ of all logits.
fn distance(got: &[Vec<f32>], want: &[Vec<f32>]) -> f64 {
    let pairs = got.iter().flatten().zip(want.iter().flatten());
    let pairs = pairs.map(|(got, want)| (f64::from(*got), f64::from(*want)));
    let sums = pairs.fold([0.0, 0.0], |[apart, all], (got, want)| {
        [apart + (got - want).powi(2), all + want.powi(2)]
    });
    (sums[0] / sums[1]).sqrt()
}

/// Compares a training's forward over one served text with what the engine said.
fn compare(what: &str, served: &Served, trained: &Model, format: CacheFormat, exact: bool) {
    let (text, device) = (served.text(), trained.embedding.val().device());
    let seen = trained.tokens(&text[..text.len() - 1], &device).unwrap();
    let out = trained.forward_as_served(seen.clone(), format, LIMITS.longest);
    let Logits { logits, routing } = out.unwrap();
    let logits = rows(&logits);
    check(what, served, &logits, exact);
    let Some(routes) = &served.routes else {
        return;
    };
    if exact {
        let taken = Routes::read(trained.spec(), &routing).unwrap();
        assert_eq!(taken, *routes, "{what}");
    }
    if format == CacheFormat::F32 {
        // Along the engine's experts nothing but the order of sums differs in an ordinary forward.
        let along = trained.forward_along(seen, routes).unwrap();
        let apart = distance(&rows(&along.logits), &logits);
        // Written so that NaN fails.
        let near = apart <= APART;
        assert!(near, "{what}: an ordinary forward is {apart:.1e} away");
    }
}

#[test]
fn a_training_finds_tokens_as_likely_as_the_engine() {
    for target in Target::all() {
        let _alone = target.alone();
        let (device, exact) = (target.burn(), !target.name.starts_with("xla"));
        let (mut folders, mut formats) = (folders(), vec![CacheFormat::F32, CacheFormat::E4m3]);
        if !exact {
            // XLA compiles a program for each shape, and a code of FP8 may be the next one where sums differ in the last bit.
            folders.truncate(1);
            formats.truncate(1);
        }
        for folder in folders {
            let name = folder.file_name().unwrap().to_string_lossy();
            let model = load(&folder, &device);
            for &format in &formats {
                for served in serve(&model, format, &device) {
                    let what = format!("{name}[{}], {format:?}", target.name);
                    // Loaded anew, because a forward that trains moves the bias of a router's selection.
                    let trained = load(&folder, &device.clone().autodiff());
                    compare(&what, &served, &trained, format, exact);
                }
            }
        }
    }
}
