use std::path::Path;

use super::*;
use crate::adapter::{Adapter, AdapterConfig, Factors};
use crate::decoder::CacheMemory;
use crate::load::{BaseWeights, InBlocks, ModelFiles};

/// The model of a case.
fn case(name: &str) -> ModelFiles {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    ModelFiles::open(&cases.join(name)).unwrap()
}

/// A llama of two layers with H = 48, heads of 12 elements (4 of queries, 2 of keys), 80 inner elements, 99 tokens, a tied head, and biases.
/// A layer has 18432 weights in six matrices, 352 biases and 96 factors of norms.
#[test]
fn weights_take_what_their_precision_takes() {
    let files = case("decoder_llama");
    let bytes = |options| loaded_bytes(&files.plan, &Device::flex(), options);
    let values = 99 * 48 + 48 + 2 * (18_432 + 352 + 96);
    assert_eq!(bytes(LoadOptions::default()), 4 * values);
    let halves = LoadOptions {
        dtype: DType::BF16,
        ..LoadOptions::default()
    };
    assert_eq!(bytes(halves), 2 * values);
    // A scale for every 32 columns: two for each row of 48, three for each of 80. The embedding is narrow. The rows of a projection are filled
    // up to 64: those of q, k, v and out, of gate and up, and of the second matrix.
    let scales = 2 * (48 + 24 + 24 + 48 + 160) + 3 * 48;
    let padded = (4 * 64 + 2 * 128) * 48 + 64 * 80;
    let layer = padded + 4 * scales + 4 * (352 + 96);
    let codes = 2 * 99 * 48 + 4 * 48 + 2 * layer;
    assert_eq!(bytes(LoadOptions::fp8()), codes);
}

/// Below an adapter that trains, gate and up are one projection, whose 160 rows are filled up to 192 in place of twice 128, and the embedding is
/// f32 in place of bf16. In a model that is asked, so is the projection that an adapter changes, and the factors are beside it.
#[test]
fn what_an_adapter_changes_takes_codes_and_factors() {
    let files = case("decoder_llama");
    let bytes = |files: &ModelFiles, options| files.weight_bytes(&Device::flex(), options);
    let (fp8, below) = (
        LoadOptions::fp8(),
        LoadOptions::below_adapter(BaseWeights::Fp8),
    );
    let (plain, fewer, wider) = (bytes(&files, fp8), 64 * 48, 2 * 99 * 48);
    assert_eq!(bytes(&files, below), plain - 2 * fewer + wider);
    let values = bytes(&files, LoadOptions::default());
    let adapter = Adapter {
        config: AdapterConfig::default(),
        modules: [(
            "model.layers.0.mlp.gate_proj".to_owned(),
            Factors {
                rank: 3,
                down: vec![0.5; 3 * 48],
                up: vec![0.5; 80 * 3],
            },
        )]
        .into(),
    };
    let with = files.with_adapter(&adapter).unwrap();
    assert_eq!(bytes(&with, fp8), plain - fewer + 4 * 3 * (48 + 80));
    assert_eq!(bytes(&with, LoadOptions::default()), values);
    // Another adapter trains above the changed values, which are in place of 192 rows of codes and 160 of two scales.
    let coded = 192 * 48 + 160 * 2 * 4;
    let below = bytes(&with, below) + coded;
    assert_eq!(below, plain - 2 * fewer + wider + 4 * 160 * 48);
}

/// The largest matrix is that of gate and up, of a llama as of one expert of an OLMoE. Kernels decode what they load.
#[test]
fn one_matrix_of_codes_is_decoded_at_a_time() {
    for name in ["decoder_llama", "decoder_olmoe"] {
        let plan = case(name).plan;
        let fp8 = LoadOptions::fp8();
        assert_eq!(largest_coded(&plan, fp8), 4 * 160 * 48, "{name}");
        assert_eq!(largest_coded(&plan, LoadOptions::default()), 0, "{name}");
        assert_eq!(decoded_bytes(&plan, &Device::flex(), fp8), 0, "{name}");
    }
    let more = usize::try_from(u32::MAX).unwrap();
    assert_eq!(count(&[4, more]), 4 * u64::from(u32::MAX));
    assert_eq!(count(&[more; 3]), u64::MAX);
}

/// An OLMoE of three layers with 8 gated experts, H = 48, and 80 inner elements.
#[test]
fn experts_in_host_memory_take_a_cache_and_one_layer() {
    let files = case("decoder_olmoe");
    let bytes = |expert_cache| {
        let options = LoadOptions {
            expert_cache,
            ..LoadOptions::default()
        };
        loaded_bytes(&files.plan, &Device::flex(), options)
    };
    let (all, layer) = (bytes(None), 4 * 8 * 3 * 48 * 80);
    assert_eq!(bytes(Some(1000)), all - 2 * layer + 1000);
    assert_eq!(bytes(Some(u64::MAX)), all);
    let sizes = Sizes::of(&files.plan, &Device::flex(), LoadOptions::default());
    assert_eq!(
        [sizes.others, sizes.experts()],
        [all - 3 * layer, 3 * layer]
    );
    // Two of eight experts of each layer.
    assert_eq!(sizes.least_cache(), Some(3 * layer / 4));
}

/// The smallest cache has room for the experts with the padding of their codes or blocks, which a layer asks for.
#[test]
fn the_smallest_cache_of_coded_experts_can_be_made() {
    let in_blocks = LoadOptions::default().with_blocks(InBlocks::File);
    for (name, options) in [
        ("decoder_olmoe", LoadOptions::fp8()),
        ("decoder_gpt_oss_mxfp4", in_blocks),
    ] {
        let files = case(name);
        let device = Device::flex();
        let least = Sizes::of(&files.plan, &device, options).least_cache();
        let load = |cache| {
            let options = LoadOptions {
                expert_cache: cache,
                ..options
            };
            files.load(&device, options, &mut |_| ())
        };
        assert!(load(least).is_ok());
        assert!(load(least.map(|bytes| bytes - 3)).is_err());
    }
}

/// An exact model has room to decode the largest matrix that is in blocks, the second of a network, with eight numbers for each value.
#[test]
fn decoding_of_an_exact_model_is_counted() {
    let files = case("gguf/quantized.gguf");
    let bytes = |options| decoding_bytes(&files.plan, options);
    let exact = LoadOptions::exact();
    assert_eq!(bytes(exact), 0);
    assert_eq!(bytes(LoadOptions::default().with_blocks(InBlocks::File)), 0);
    assert_eq!(bytes(exact.with_blocks(InBlocks::File)), 8 * 4 * 256 * 256);
}

/// Experts that stay in the files take the bytes of the cache alone.
#[test]
fn experts_in_files_take_a_cache() {
    let files = case("decoder_olmoe");
    let options = |expert_cache| LoadOptions {
        expert_cache,
        experts_from: ExpertsFrom::Files,
        ..LoadOptions::default()
    };
    let bytes = |cache| files.weight_bytes(&Device::flex(), options(cache));
    let experts = files.expert_bytes(&Device::flex(), options(None));
    assert_eq!(bytes(Some(1000)), bytes(None) - experts + 1000);
    // Where all is free that is needed, nothing changes.
    let device = Device::flex();
    let memory = CacheMemory::default();
    let found = files.fitting(&device, options(None), memory).unwrap();
    assert_eq!(found, options(None));
}

/// With half of what a model needs, the experts stay in the files, and the cache has what is left; with too little, or without experts, nothing is
/// left to be done.
#[test]
fn a_model_that_does_not_fit_leaves_its_experts_in_the_files() {
    let files = case("decoder_olmoe");
    let (device, options) = (Device::flex(), LoadOptions::default());
    let memory = CacheMemory::default().with_margin(20);
    let sizes = Sizes::of(&files.plan, &device, options);
    let room = |free| files.cache_within(free, &device, options, memory);
    let free = sizes.others + sizes.experts();
    let bytes = room(free).unwrap();
    assert!(bytes < sizes.experts(), "{bytes}");
    let margin = (sizes.others + bytes) * 20 / 100;
    assert!(sizes.others + bytes + margin <= free);
    assert_eq!(room(sizes.others), None);
    let dense = case("decoder_llama");
    assert_eq!(dense.cache_within(1 << 40, &device, options, memory), None);
}
