use serde_json::{Value, json};

use super::*;
use crate::families::describe;

fn spec(family: &str, layers: usize, other: Value) -> ModelSpec {
    let mut config = json!({
        "model_type": family, "hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": layers,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 99, "hidden_act": "silu",
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
        "num_local_experts": 8, "num_experts_per_tok": 2,
    });
    for (key, value) in other.as_object().unwrap() {
        config[key] = value.clone();
    }
    describe(&config).unwrap().spec
}

/// The types of a slot in all layers, as the first letter after `Q`.
fn of_layers(name: &str, slot: Slot, spec: &ModelSpec, architecture: &str) -> String {
    let types = GgufTypes::named(name).unwrap();
    let layers = 0..spec.layers.len();
    let all = layers.map(|layer| {
        let kind = types.of_place(Place { layer, slot }, 512, (spec, architecture));
        kind.name().chars().nth(1).unwrap()
    });
    all.collect()
}

/// By hand from llama.cpp's rule: of 16 layers 0 and 1, 14 and 15, and those that are 2 more than a multiple of 3 from the second on.
#[test]
fn mixes_are_those_of_llama_cpp() {
    let dense = spec("llama", 16, json!({}));
    for slot in [Slot::Value, Slot::DenseOut] {
        assert_eq!(
            of_layers("q4_k_m", slot, &dense, "llama"),
            "6644644644644666"
        );
        assert_eq!(
            of_layers("Q5_K_M", slot, &dense, "llama"),
            "6655655655655666"
        );
        assert_eq!(of_layers("Q5_K_S", slot, &dense, "llama"), "5".repeat(16));
    }
    assert_eq!(
        of_layers("Q4_K_S", Slot::Value, &dense, "llama"),
        "5555444444444444"
    );
    assert_eq!(
        of_layers("Q4_K_S", Slot::DenseOut, &dense, "llama"),
        "5544444444444444"
    );
    for slot in [Slot::Query, Slot::Key, Slot::Out, Slot::DenseIn] {
        assert_eq!(of_layers("Q4_K_M", slot, &dense, "llama"), "4".repeat(16));
    }
    let eight = spec("mixtral", 2, json!({}));
    for (slot, kinds) in [
        (Slot::Value, "88"),
        (Slot::Key, "88"),
        (Slot::Out, "55"),
        (Slot::Query, "44"),
    ] {
        assert_eq!(
            of_layers("Q4_K_M", slot, &eight, "llama"),
            kinds,
            "{slot:?}"
        );
    }
    assert_eq!(of_layers("Q5_K_M", Slot::Out, &eight, "llama"), "55");
    let large = spec("llama", 80, json!({}));
    assert!(!of_layers("Q4_K_M", Slot::Value, &large, "llama").contains('4'));
    assert!(of_layers("Q4_K_M", Slot::DenseOut, &large, "llama").contains('4'));
}

#[test]
fn the_head_has_more_bits_and_so_has_an_embedding_that_is_the_head() {
    let at = |slot| Place { layer: 0, slot };
    let mix = GgufTypes::named("Q4_K_S").unwrap();
    for (tied, kind) in [(false, GgmlType::Q4_K), (true, GgmlType::Q6_K)] {
        let spec = spec("llama", 2, json!({"tie_word_embeddings": tied}));
        let model = (&spec, "llama");
        assert_eq!(mix.of_place(at(Slot::Embedding), 512, model), kind);
        assert_eq!(mix.of_place(at(Slot::Head), 512, model), GgmlType::Q6_K);
        assert_eq!(mix.of_place(at(Slot::Head), 576, model), GgmlType::Q8_0);
    }
}

#[test]
fn every_type_that_can_be_encoded_has_a_name() {
    for &kind in moebius_weights::gguf::ENCODED {
        let types = GgufTypes::of(kind).unwrap();
        assert_eq!(GgufTypes::named(kind.name()), Some(types));
        assert_eq!(
            types.of_place(
                Place {
                    layer: 0,
                    slot: Slot::Head
                },
                7,
                (&spec("llama", 1, json!({})), "")
            ),
            kind
        );
    }
    assert_eq!(GgufTypes::of(GgmlType::Q2_K), None);
}
