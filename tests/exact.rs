//! Exact models: the same bits on every device, for whole texts and in steps, of the model that ships and of tiny ones of other families.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use moebius::ErrorKind;
use moebius::attention::{CacheFormat, Pages};
use moebius_device::Runtime;
use moebius_model::Error;
use moebius_model::computation::Computation;
use moebius_model::decoder::{Cache, Model};
use moebius_model::load::{InBlocks, LoadOptions, ModelFiles};
use moebius_tests::target::Target;

/// Tiny models with random weights: softmax routers with norms of queries and keys; sinks, windows, biases and clamped activations; bounds of
/// scores and logits in dense networks; a shared expert with a gate; factors of residuals and logits.
const TINY: [&str; 6] = [
    "decoder_olmoe",
    "decoder_mixtral",
    "decoder_gpt_oss",
    "decoder_gemma2",
    "decoder_qwen2_moe",
    "decoder_granitemoe",
];

/// Tiny models in blocks of codes: a dense one in several types, with scales and minima of six bits, and a mixture whose experts are in MXFP4.
const IN_BLOCKS: [&str; 2] = ["gguf/quantized.gguf", "decoder_gpt_oss_mxfp4"];

/// Models that have something without an exact form, with what the refusal names.
const REFUSED: [(&str, &str); 2] = [
    ("decoder_deepseek_v3", "latent"),
    ("decoder_lfm2_moe", "a convolution"),
];

/// The largest relative L2 distance to an ordinary forward pass, which sums in another order.
const APART: f64 = 1e-5;

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases")
        .join(name)
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/shipped");
    TINY.into_iter().map(tiny).chain([shipped])
}

fn load(folder: &Path, options: LoadOptions, device: &Device) -> Result<Model, Error> {
    ModelFiles::open(folder)?.load(device, options, &mut |_| ())
}

/// Tokens of all sizes, which every vocabulary here has.
fn text() -> Vec<u32> {
    (0..29).map(|at| (at * 7 + at * at) % 64).collect()
}

/// What a model computes part by part, as names and bits.
fn parts(computation: &Computation) -> Vec<(String, Vec<u32>)> {
    let bits = |values: &[f64]| {
        values
            .iter()
            .map(|value| (*value as f32).to_bits())
            .collect()
    };
    let parts = computation.parts.iter();
    let named = parts.map(|part| {
        let name = format!("{} of layer {:?}", part.part.name(), part.layer);
        (name, bits(&part.values))
    });
    named.collect()
}

/// The bits of the logits after each token, computed in steps of several tokens.
fn in_steps(model: &Model, ids: &[u32], device: &Device) -> Vec<u32> {
    let pages = Pages::paged(1, ids.len().div_ceil(16), ids.len()).unwrap();
    let cache = Cache::new(model.spec(), pages, CacheFormat::F32, device).unwrap();
    let (mut cache, mut bits) = (cache.up_to(ids.len()), Vec::new());
    for piece in ids.chunks(5) {
        let tokens = model.tokens(piece, device).unwrap();
        let found = model.step(tokens, &[piece.len()], &mut cache).unwrap();
        let values = found.logits.into_data();
        bits.extend(values.iter::<f32>().map(f32::to_bits));
    }
    bits
}

#[test]
fn every_device_has_the_bits_of_flex() {
    let (ids, flex) = (text(), Device::flex());
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy();
        let here = load(&folder, LoadOptions::exact(), &flex).unwrap();
        let want = parts(&Computation::of(&here, &ids, &flex).unwrap());
        for target in Target::all() {
            let device = target.burn();
            let model = load(&folder, LoadOptions::exact(), &device).unwrap();
            let found = Computation::of(&model, &ids, &device);
            if target.capability().runtime == Runtime::Xla {
                let kind = match found.map(drop) {
                    Err(Error::Moebius(error)) => error.kind(),
                    other => panic!("{name} on XLA: {other:?}"),
                };
                assert_eq!(kind, ErrorKind::Unsupported, "{name}");
                continue;
            }
            let got = parts(&found.unwrap());
            for ((part, got), (_, want)) in got.iter().zip(&want) {
                assert!(
                    got == want,
                    "{part} of {name}[{}] has other bits",
                    target.name
                );
            }
            let (_, whole) = got.last().unwrap();
            let what = format!("{name}[{}] in steps", target.name);
            assert!(in_steps(&model, &ids, &device) == *whole, "{what}");
        }
    }
}

/// Blocks that stay such are decoded for each product, to the bits that a load decodes them to.
#[test]
fn every_device_decodes_blocks_to_the_same_bits() {
    let flex = Device::flex();
    // The smallest vocabulary has 32 tokens.
    let ids: Vec<u32> = text().into_iter().map(|id| id % 32).collect();
    for name in IN_BLOCKS {
        let in_blocks = LoadOptions::exact().with_blocks(InBlocks::File);
        let decoded = load(&tiny(name), LoadOptions::exact(), &flex).unwrap();
        let want = in_steps(&decoded, &ids, &flex);
        for target in Target::all() {
            let device = target.burn();
            let model = load(&tiny(name), in_blocks, &device).unwrap();
            assert!(model.is_exact());
            let files = ModelFiles::open(&tiny(name)).unwrap();
            let [narrow, wide] = [in_blocks, LoadOptions::exact()]
                .map(|options| files.weight_bytes(&device, options));
            assert!(narrow < wide, "{name}: {narrow} bytes, and {wide}");
            if target.capability().runtime == Runtime::Xla {
                let kind = match Computation::of(&model, &ids, &device).map(drop) {
                    Err(Error::Moebius(error)) => error.kind(),
                    other => panic!("{name} on XLA: {other:?}"),
                };
                assert_eq!(kind, ErrorKind::Unsupported, "{name}");
                continue;
            }
            let same = in_steps(&model, &ids, &device) == want;
            assert!(same, "{name}[{}] has other bits", target.name);
        }
    }
}

#[test]
fn exact_models_are_near_ordinary_ones() {
    let (ids, flex) = (text(), Device::flex());
    for folder in folders() {
        let decoded = LoadOptions {
            keep_fp8: false,
            ..LoadOptions::default()
        };
        let logits = [decoded, LoadOptions::exact()].map(|options| {
            let model = load(&folder, options, &flex).unwrap();
            assert_eq!(model.is_exact(), options.exact);
            let found = Computation::of(&model, &ids, &flex).unwrap();
            found.parts.into_iter().next_back().unwrap().values
        });
        let pairs = logits[0].iter().zip(&logits[1]);
        let sums = pairs.fold([0.0, 0.0], |[apart, all], (want, got)| {
            [apart + (got - want).powi(2), all + want.powi(2)]
        });
        let apart = (sums[0] / sums[1]).sqrt();
        // Written so that NaN fails.
        let near = apart <= APART;
        assert!(near, "{}: {apart:.1e}", folder.display());
    }
}

#[test]
fn what_has_no_exact_form_is_refused_by_name() {
    for (name, named) in REFUSED {
        let refused = load(&tiny(name), LoadOptions::exact(), &Device::flex());
        let said = refused.map(drop).unwrap_err().to_string();
        assert!(said.contains(named), "{name}: {said}");
    }
    // Codes are no f32, and a cache in another format would round in a way of its own.
    let shipped = folders().last().unwrap();
    let codes = load(&shipped, LoadOptions::default(), &Device::flex()).unwrap();
    assert!(matches!(codes.with_exact(), Err(Error::Config(_))));
    let device = Device::flex();
    let model = load(&shipped, LoadOptions::exact(), &device).unwrap();
    let pages = Pages::paged(1, 2, 32).unwrap();
    let mut cache = Cache::new(model.spec(), pages, CacheFormat::F16, &device).unwrap();
    let tokens = model.tokens(&[1, 2], &device).unwrap();
    let refused = model.step(tokens, &[2], &mut cache).map(drop).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("expected f32, got f16"), "{said}");
}
