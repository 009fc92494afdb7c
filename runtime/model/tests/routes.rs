//! Recorded routes: replayed, in a file, and as they are taken by a training that computes what an engine's steps compute.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod folders;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use folders::folders;
use moebius::attention::{CacheFormat, Pages};
use moebius::moe::ChosenExperts;
use moebius_model::Error;
use moebius_model::decoder::{Block, Cache, FeedForward, Logits, Model, Routes};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_weights::{Dtype, Reader, TensorSpec, WeightsError, Writer};

/// Models with each kind of router and of weights: softmax with and without a sum of 1, among the chosen alone, with groups, a bias of the
/// selection and a scale, weighted inputs, and experts beside convolutions.
const MIXTURES: [&str; 7] = [
    "decoder_olmoe",
    "decoder_qwen3_moe",
    "decoder_gpt_oss",
    "decoder_deepseek_v2",
    "decoder_deepseek_v3",
    "decoder_llama4_text",
    "decoder_lfm2_moe",
];

/// Tokens that all models here take: those of their cases are 41.
const TOKENS: usize = 40;

fn named(name: &str) -> PathBuf {
    let mut folders = folders().into_iter();
    folders.find(|folder| folder.ends_with(name)).unwrap()
}

/// The model with weights in floating point, which train.
fn load(folder: &Path, device: &Device) -> Model {
    let files = ModelFiles::open(folder).unwrap();
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    files.load(device, options, &mut |_| ()).unwrap()
}

/// The first tokens of a folder's case, as `sequences` sequences.
fn tokens(folder: &Path, sequences: usize, device: &Device) -> Tensor<2, Int> {
    let case = Reader::open(&folder.join("logits.case.safetensors")).unwrap();
    let bytes = case.read("in.tokens").unwrap();
    let words = bytes.as_chunks::<4>().0[..TOKENS].iter();
    let words: Vec<i32> = words.map(|&word| i32::from_le_bytes(word)).collect();
    let data = TensorData::new(words, [sequences, TOKENS / sequences]);
    Tensor::from_data(data, device)
}

fn bits<const D: usize>(values: Tensor<D>) -> Vec<u32> {
    let values = values.into_data();
    values.iter::<f32>().map(f32::to_bits).collect()
}

/// Routes in which each token has the experts after those that it had.
fn moved(model: &Model, routes: &Routes) -> Routes {
    let layers = routes.layers().map(|(_, chosen)| {
        let experts = chosen.experts();
        let next = |&expert: &u32| (expert + 1) % experts as u32;
        let indices = chosen.indices().iter().map(next).collect();
        ChosenExperts::new(indices, chosen.top_k(), experts).unwrap()
    });
    Routes::new(model.spec(), layers.collect()).unwrap()
}

#[test]
fn a_replay_gives_the_recorded_bits() {
    for name in MIXTURES {
        let folder = named(name);
        for device in [Device::flex(), Device::flex().autodiff()] {
            let model = load(&folder, &device);
            let ids = tokens(&folder, 2, &device);
            let recorded = model.forward(ids.clone()).unwrap();
            let routes = Routes::read(model.spec(), &recorded.routing).unwrap();
            assert_eq!(routes.tokens(), TOKENS);
            let replayed = model.forward_along(ids.clone(), &routes).unwrap();
            let again = Routes::read(model.spec(), &replayed.routing).unwrap();
            assert_eq!(again, routes, "{name}");
            let want = bits(recorded.logits);
            assert_eq!(bits(replayed.logits), want, "{name}");
            let other = model.forward_along(ids, &moved(&model, &routes)).unwrap();
            assert_ne!(bits(other.logits), want, "{name}: other experts");
        }
    }
}

/// The gradients of the routers' matrices, for a loss of these logits.
fn of_routers(model: &Model, out: Logits) -> Vec<Tensor<2>> {
    let gradients = out.logits.powi_scalar(2).mean().backward();
    let matrix = |block: &Block| match &block.feed_forward {
        FeedForward::Experts(layer) => layer.router.matrix(),
        FeedForward::Dense(_) | FeedForward::Switched(_) => None,
    };
    let matrices = model.blocks.iter().filter_map(matrix);
    matrices.map(|of| of.grad(&gradients).unwrap()).collect()
}

fn assert_near(what: &str, got: Vec<Tensor<2>>, want: Vec<Tensor<2>>) {
    assert!(!want.is_empty() && got.len() == want.len(), "{what}");
    for (got, want) in got.into_iter().zip(want) {
        let largest = want.clone().abs().max().into_scalar::<f32>();
        let apart = (got - want).abs().max().into_scalar::<f32>();
        // Written so that NaN fails.
        let near = largest > 0.0 && apart <= 1e-3 * largest;
        assert!(near, "{what}: {apart} of {largest}");
    }
}

/// A model that is told the choice that it would make itself has the same gradients of its routers.
#[test]
fn a_replay_of_the_own_choice_has_its_gradients() {
    let device = Device::flex().autodiff();
    for name in MIXTURES {
        let folder = named(name);
        let model = load(&folder, &device);
        let ids = tokens(&folder, 1, &device);
        let own = model.forward(ids.clone()).unwrap();
        let routes = Routes::read(model.spec(), &own.routing).unwrap();
        let replayed = model.forward_along(ids, &routes).unwrap();
        let [got, want] = [replayed, own].map(|out| of_routers(&model, out));
        assert_near(name, got, want);
    }
}

/// A training's forward with the bits of steps over a cache in each format, and with the gradients of an ordinary forward along the same
/// experts.
#[test]
fn a_training_computes_what_steps_compute() {
    let device = Device::flex().autodiff();
    let formats = [CacheFormat::F32, CacheFormat::Bf16, CacheFormat::E4m3];
    for name in MIXTURES
        .into_iter()
        .filter(|name| *name != "decoder_llama4_text")
    {
        let folder = named(name);
        let model = load(&folder, &device);
        let ids = tokens(&folder, 2, &device);
        for format in formats {
            let pages = Pages::paged(2, 4, 32).unwrap();
            let made = Cache::new(model.spec(), pages, format, &Device::flex());
            let (mut cache, served) = (made.unwrap(), model.valid());
            let mut steps = Vec::new();
            for (from, count) in [(0, 7), (7, 1), (8, 12)] {
                let new = ids.clone().inner().narrow(1, from, count);
                let step = served.step(new, &[count, count], &mut cache).unwrap();
                steps.push(step.logits);
            }
            let want = bits(Tensor::cat(steps, 1));
            let plain = served.forward_as_served(ids.clone().inner(), format, 32);
            assert_eq!(bits(plain.unwrap().logits), want, "{name}, {format:?}");
            let got = model.forward_as_served(ids.clone(), format, 32).unwrap();
            assert_eq!(bits(got.logits), want, "{name}, {format:?}");
        }
        let served = model.forward_as_served(ids.clone(), CacheFormat::F32, 32);
        let served = served.unwrap();
        let routes = Routes::read(model.spec(), &served.routing).unwrap();
        let along = model.forward_along(ids, &routes).unwrap();
        let [got, want] = [served, along].map(|out| of_routers(&model, out));
        assert_near(name, got, want);
    }
}

#[test]
fn what_can_not_be_served_is_refused() {
    let device = Device::flex().autodiff();
    let folder = named("decoder_llama4_text");
    let model = load(&folder, &device);
    let refused = model.forward_as_served(tokens(&folder, 1, &device), CacheFormat::F32, 48);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("at most 16, the chunk"), "{said}");
    let none = Tensor::<2, Int>::from_data(TensorData::new(Vec::<i32>::new(), [1, 0]), &device);
    let none = model.forward_as_served(none, CacheFormat::F32, 48).unwrap();
    assert_eq!(none.logits.dims()[1], 0);
}

/// The routes of a model of this name.
fn routes(name: &str) -> (Model, Routes) {
    let (folder, device) = (named(name), Device::flex());
    let model = load(&folder, &device);
    let recorded = model.forward(tokens(&folder, 1, &device)).unwrap();
    let routes = Routes::read(model.spec(), &recorded.routing).unwrap();
    (model, routes)
}

#[test]
fn a_file_holds_routes_of_its_model_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.safetensors");
    for name in MIXTURES {
        let (model, routes) = routes(name);
        routes.save(&path).unwrap();
        assert_eq!(Routes::load(&path, model.spec()).unwrap(), routes, "{name}");
        // None of the others has three experts for a token.
        if name != "decoder_olmoe" {
            let foreign = ModelFiles::open(&named("decoder_olmoe")).unwrap();
            let refused = Routes::load(&path, foreign.spec()).unwrap_err();
            let said = refused.to_string();
            assert!(said.contains("model of the routes: expected"), "{said}");
        }
        let dense = ModelFiles::open(&named("decoder_llama")).unwrap();
        assert!(Routes::load(&path, dense.spec()).is_err());
    }
    let (model, _) = routes("decoder_olmoe");
    let (_, foreign) = routes("decoder_gpt_oss");
    let ids = tokens(&named("decoder_olmoe"), 1, &Device::flex());
    let refused = model.forward_along(ids.clone(), &foreign).unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused}");
    let (_, own) = routes("decoder_olmoe");
    let fewer = ids.narrow(1, 0, 7);
    let refused = model.forward_along(fewer, &own).unwrap_err().to_string();
    assert!(
        refused.contains("tokens of the routes: expected 7, got 40"),
        "{refused}"
    );
    assert!(Routes::new(model.spec(), Vec::new()).is_err());
    assert!(Routes::read(model.spec(), &[]).is_err());
}

/// Writes a file of routes with other contents than [`Routes::save`] writes.
fn write(path: &Path, dtype: Dtype, shape: &[usize], words: &[u32], model: &str) {
    let experts = TensorSpec {
        name: "experts".to_owned(),
        dtype,
        shape: shape.to_vec(),
    };
    let metadata = BTreeMap::from([("model".to_owned(), model.to_owned())]);
    let mut writer = Writer::file(path, &[experts], &metadata).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    writer.append("experts", &bytes).unwrap();
    writer.finish().unwrap();
}

#[test]
fn hostile_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.safetensors");
    let (model, routes) = routes("decoder_olmoe");
    let refused = || Routes::load(&path, model.spec()).unwrap_err();
    assert!(matches!(refused(), Error::Weights(WeightsError::Read(_))));
    routes.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Any length but the whole one is refused, and nothing panics.
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(refused(), Error::Weights(_)), "{length} bytes");
    }
    std::fs::write(&path, &whole).unwrap();
    let reader = Reader::open(&path).unwrap();
    let of_model = reader.metadata()["model"].to_owned();
    let (layers, top_k) = (
        routes.layers().count(),
        routes.layers().next().unwrap().1.top_k(),
    );
    let words = |count: usize, word: u32| vec![word; count];
    let shape = [layers, 1, top_k];
    let count = layers * top_k;
    // Experts that there aren't, the same expert twice, no token, other shapes and types, and another model.
    write(
        &path,
        Dtype::U32,
        &shape,
        &words(count, u32::MAX),
        &of_model,
    );
    assert!(matches!(refused(), Error::Moebius(_)));
    write(&path, Dtype::U32, &shape, &words(count, 0), &of_model);
    assert!(matches!(refused(), Error::Moebius(_)));
    for (dtype, shape) in [
        (Dtype::I32, vec![layers, 1, top_k]),
        (Dtype::U32, vec![layers, 0, top_k]),
        (Dtype::U32, vec![layers + 1, 1, top_k]),
        (Dtype::U32, vec![layers, 1, top_k + 1]),
        (Dtype::U32, vec![count]),
    ] {
        let count = shape.iter().product();
        write(&path, dtype, &shape, &words(count, 0), &of_model);
        let said = refused().to_string();
        assert!(said.contains("tensor of experts: expected u32"), "{said}");
    }
    write(&path, Dtype::U32, &shape, &words(count, 0), "another");
    let said = refused().to_string();
    assert!(said.contains("got `another`"), "{said}");
}
