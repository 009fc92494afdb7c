//! Models whose experts wait in host memory or in files have the logits of models whose experts are all on the device, bit for bit.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use burn::tensor::Device;
use moebius::ErrorKind;
use moebius::blocks::BlockFormat;
use moebius::moe::switching::CacheStatistics;
use moebius_model::Error;
use moebius_model::decoder::{FeedForwardSpec, Model};
use moebius_model::load::{ExpertsFrom, InBlocks, LoadOptions, ModelFiles};
use moebius_weights::Reader;

/// Mixtures whose experts lie in a tensor each, in stacks, in transposed stacks with biases, beside shared experts, and as FP8, MXFP4 and
/// 16-bit values.
const MIXTURES: [&str; 10] = [
    "decoder_olmoe",
    "decoder_gpt_oss",
    "decoder_gpt_oss_mxfp4",
    "decoder_deepseek_v3",
    "decoder_deepseek_v3_fp8",
    "decoder_qwen2_moe",
    "decoder_granitemoe",
    "decoder_lfm2_moe",
    "gguf/mixtral_f32.gguf",
    "gguf/olmoe_f16.gguf",
];

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

fn load(name: &str, options: LoadOptions) -> Result<Model, Error> {
    let files = ModelFiles::open(&cases().join(name)).unwrap();
    files.load(&Device::flex(), options, &mut |_| ())
}

/// How a mixture is loaded whose experts are all on the device: in floating point, in FP8, and in blocks, those of the file or such as are made on
/// the way; rows of 48 and 80 values that aren't whole blocks are rounded to F16.
fn residents(name: &str) -> Vec<LoadOptions> {
    let blocks = match name {
        "decoder_gpt_oss_mxfp4" => &[InBlocks::File, InBlocks::Format(BlockFormat::Q4_0)][..],
        "decoder_olmoe" => &[InBlocks::Format(BlockFormat::Q8_0)],
        _ => &[],
    };
    let blocks = blocks.iter();
    let blocks = blocks.map(|blocks| LoadOptions::default().with_blocks(*blocks));
    [LoadOptions::default(), LoadOptions::fp8()]
        .into_iter()
        .chain(blocks)
        .collect()
}

fn tokens() -> Vec<u32> {
    (0..30).map(|at| (at * 7 + at * at) % 64).collect()
}

/// The logits after the tokens, and what was moved for them.
fn logits(model: &Model) -> (Vec<f32>, Option<CacheStatistics>) {
    let logits = model.last_logits(&tokens(), &Device::flex()).unwrap();
    (logits, model.expert_cache())
}

#[test]
fn experts_in_host_memory_change_no_logit() {
    for name in [
        "decoder_olmoe",
        "decoder_gpt_oss",
        "decoder_gpt_oss_mxfp4",
        "decoder_deepseek_v3",
    ] {
        for resident in residents(name) {
            let switched = LoadOptions {
                expert_cache: Some(512 << 10),
                ..resident
            };
            let [want, got] = [resident, switched].map(|options| {
                let model = load(name, options).unwrap();
                logits(&model)
            });
            assert_eq!(got.0, want.0, "{name}, {resident:?}");
            assert_eq!(want.1, None);
            let moves = got.1.unwrap();
            assert!(moves.misses > 0, "{name}");
            assert_eq!(moves.read_bytes, 0);
        }
    }
}

/// Bytes that were read of a model's tensors.
fn read(files: &ModelFiles) -> u64 {
    let of_gguf = || files.gguf().unwrap().bytes_read();
    files.reader().map_or_else(of_gguf, Reader::bytes_read)
}

/// With places for all experts, for half of them and for one, in floating point, as codes and blocks of the file and as such that are made on the
/// way.
#[test]
fn experts_in_files_change_no_logit() {
    for name in MIXTURES {
        let files = ModelFiles::open(&cases().join(name)).unwrap();
        let of_layer = |spec: &FeedForwardSpec| match spec {
            FeedForwardSpec::Experts(config) => Some(config.experts as u64),
            FeedForwardSpec::Dense(_) => None,
        };
        let layers = files.spec().layers.iter();
        let experts: Vec<u64> = layers
            .filter_map(|layer| of_layer(&layer.feed_forward))
            .collect();
        let (layers, experts) = (experts.len() as u64, experts[0]);
        for resident in residents(name) {
            let load = |expert_cache| {
                let options = LoadOptions {
                    expert_cache,
                    experts_from: ExpertsFrom::Files,
                    ..resident
                };
                files.load(&Device::flex(), options, &mut |_| ())
            };
            let want = logits(&load(None).unwrap());
            assert_eq!(want.1, None);

            let model = load(Some(1 << 30)).unwrap();
            let loaded = read(&files);
            let (got, moves) = logits(&model);
            let all = moves.unwrap();
            assert_eq!(got, want.0, "{name}, {resident:?}");
            assert_eq!((all.hits, all.evictions), (0, 0), "{name}");
            assert_eq!(all.read_bytes, read(&files) - loaded, "{name}");
            // A second pass finds all of them on the device.
            let again = logits(&model).1.unwrap();
            assert_eq!((again.misses, again.hits), (all.misses, all.misses));
            assert_eq!(again.read_bytes, all.read_bytes);

            let each = all.moved_bytes / all.misses;
            for places in [experts / 2, 1] {
                let model = load(Some(layers * (places + 1) * each)).unwrap();
                let loaded = read(&files);
                let (got, moves) = logits(&model);
                let moves = moves.unwrap();
                assert_eq!(got, want.0, "{name}, {places} places, {resident:?}");
                assert_eq!(moves.hits + moves.misses, all.misses, "{name}");
                assert_eq!(moves.evictions, moves.misses - layers * places, "{name}");
                assert_eq!(moves.read_bytes, read(&files) - loaded, "{name}");
            }
            let said = load(Some(layers * (2 * each - 1))).unwrap_err();
            let said = said.to_string();
            assert!(said.starts_with("budget: expected at least"), "{said}");
        }
    }
}

/// A load tells how many bytes it reads without those of experts that stay in the files, and reads none of theirs.
#[test]
fn experts_in_files_are_not_read_by_a_load() {
    let files = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let load = |expert_cache| {
        let options = LoadOptions {
            expert_cache,
            experts_from: ExpertsFrom::Files,
            ..LoadOptions::default()
        };
        let mut last = [0, 0];
        let mut told = |at: moebius_model::load::Progress<'_>| last = [at.read, at.bytes];
        files.load(&Device::flex(), options, &mut told).unwrap();
        assert_eq!(last[0], last[1]);
        last[1]
    };
    // Three layers with eight experts of three matrices.
    let experts = 3 * 8 * 3 * 48 * 80 * 4;
    assert_eq!(load(Some(1 << 20)), load(None) - experts);
}

/// A file that ends too early, or that a program has written to since it was opened, is an error of the step that reads an expert from it.
#[test]
fn experts_of_a_damaged_file_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("model.safetensors");
    let prepared = |damage: &dyn Fn(&File)| {
        for name in ["config.json", "model.safetensors"] {
            let from = cases().join("decoder_olmoe").join(name);
            fs::copy(from, folder.path().join(name)).unwrap();
        }
        let files = ModelFiles::open(folder.path()).unwrap();
        let options = LoadOptions {
            expert_cache: Some(512 << 10),
            experts_from: ExpertsFrom::Files,
            ..LoadOptions::default()
        };
        let model = files.load(&Device::flex(), options, &mut |_| ()).unwrap();
        let file = File::options().write(true).open(&weights).unwrap();
        damage(&file);
        let error = model.last_logits(&tokens(), &Device::flex()).unwrap_err();
        let said = error.to_string();
        assert!(
            matches!(&error, Error::Moebius(error) if error.kind() == ErrorKind::Read),
            "{said}"
        );
        assert!(said.contains("model.safetensors"), "{said}");
        said
    };
    let half = weights_length() / 2;
    prepared(&|file| file.set_len(half).unwrap());
    let changed = prepared(&|file| {
        let at = file.metadata().unwrap().modified().unwrap();
        file.set_modified(at + Duration::from_secs(1)).unwrap();
    });
    assert!(changed.contains("has changed since"), "{changed}");
}

fn weights_length() -> u64 {
    let weights = cases().join("decoder_olmoe/model.safetensors");
    weights.metadata().unwrap().len()
}

#[test]
fn a_cache_needs_room_for_two_experts_of_each_layer() {
    let options = LoadOptions {
        expert_cache: Some(1000),
        ..LoadOptions::fp8()
    };
    let said = load("decoder_olmoe", options).unwrap_err().to_string();
    assert!(said.starts_with("budget: expected at least"), "{said}");
    // Without experts there is nothing to move.
    let dense = load("decoder_llama", options).unwrap();
    assert_eq!(dense.expert_cache(), None);
}
