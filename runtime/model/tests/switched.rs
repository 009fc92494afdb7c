//! Models whose experts are in host memory have the logits of models whose experts are all on the device, bit for bit.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::Path;

use burn::tensor::Device;
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};

fn load(name: &str, options: LoadOptions) -> Result<Model, moebius_model::Error> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    files.load(&Device::flex(), options, &mut |_| ())
}

#[test]
fn experts_in_host_memory_change_no_logit() {
    let tokens: Vec<u32> = (0..30).map(|at| (at * 7 + at * at) % 64).collect();
    for name in ["decoder_olmoe", "decoder_gpt_oss", "decoder_deepseek_v3"] {
        for resident in [LoadOptions::default(), LoadOptions::fp8()] {
            let switched = LoadOptions {
                expert_cache: Some(512 << 10),
                ..resident
            };
            let [want, got] = [resident, switched].map(|options| {
                let model = load(name, options).unwrap();
                let logits = model.last_logits(&tokens, &Device::flex()).unwrap();
                (logits, model.expert_cache())
            });
            assert_eq!(got.0, want.0, "{name}, {resident:?}");
            assert_eq!(want.1, None);
            assert!(got.1.unwrap().misses > 0, "{name}");
        }
    }
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
