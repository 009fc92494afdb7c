//! Rotary positions of configurations: frequencies and factors are those that transformers 5.24 computes for the same keys.

use serde_json::{Value, json};

use super::tests::{config, spec, unsupported};
use super::*;
use crate::decoder::{AttentionSpec, Rope, RopeScaling};

/// Attention of a layer in a model of heads with 8 elements, with the values `other` in some of its keys.
fn attention(family: &str, layer: usize, mut other: Value) -> AttentionSpec {
    other["head_dim"] = json!(8);
    spec(family, other).layers[layer]
        .attention()
        .unwrap()
        .clone()
}

fn check(rope: Option<&Rope>, frequencies: [f64; 4], factor: f64, case: &str) {
    let rope = rope.unwrap();
    let got = rope.frequencies();
    assert_eq!(got.len(), 4, "{case}");
    for (got, want) in got.iter().zip(frequencies) {
        let apart = (f64::from(*got) / want - 1.0).abs();
        assert!(apart < 1e-5, "{case}: {got}, {want}");
    }
    assert!((rope.attention_factor() - factor).abs() < 1e-9, "{case}");
}

/// The object of the class stands for keys that are left out, null, or empty, and a θ outside of it counts.
#[test]
fn the_class_describes_positions_that_no_key_does() {
    let (stretched, plain) = (1.346_573_590_279_972_7, 1.0);
    let class = [1.0, 0.050_813_3, 0.000_456_484, 4.099_98e-6];
    let theta = [1.0, 0.211_474, 0.043_556_9, 0.005_104];
    let whole = [1.0, 0.050_813_3, 0.002_581_99, 0.000_131_199];
    let ministral = [1.0, 0.031_622_8, 0.000_531_25, 1.976_42e-6];
    let null_scaling = json!({"rope_theta": 500.0, "rope_scaling": null});
    for (family, other, frequencies, factor) in [
        ("gpt_oss", json!({}), class, stretched),
        (
            "gpt_oss",
            json!({"rope_parameters": null}),
            class,
            stretched,
        ),
        ("gpt_oss", json!({"rope_scaling": {}}), class, stretched),
        ("gpt_oss", json!({"rope_theta": 500.0}), theta, stretched),
        ("gpt_oss", null_scaling, theta, stretched),
        ("gpt_oss", json!({"rope_parameters": {}}), whole, plain),
        (
            "ministral3",
            json!({"rope_parameters": null}),
            ministral,
            plain,
        ),
        ("ministral3", json!({"rope_scaling": {}}), ministral, plain),
    ] {
        let case = format!("{family} {other}");
        let attention = attention(family, 0, other);
        check(attention.rope.as_ref(), frequencies, factor, &case);
        let grows = attention.temperature.is_some();
        assert_eq!(grows, family == "ministral3", "{case}");
    }
}

#[test]
fn the_older_object_counts_before_the_newer_one() {
    let newer = json!({"rope_type": "default", "rope_theta": 777.0});
    let linear = json!({"type": "linear", "factor": 4.0});
    let both = json!({"rope_parameters": newer, "rope_scaling": linear});
    let mut with_theta = both.clone();
    with_theta["rope_theta"] = json!(500.0);
    let empty = json!({"rope_parameters": newer, "rope_scaling": {}});
    for (other, frequencies) in [
        (both, [0.25, 0.025, 0.0025, 0.000_25]),
        (with_theta, [0.25, 0.052_868_6, 0.011_180_3, 0.002_364_35]),
        (empty, [1.0, 0.189_406, 0.035_874_8, 0.006_794_92]),
    ] {
        let case = other.to_string();
        let attention = attention("llama", 0, other);
        check(attention.rope.as_ref(), frequencies, 1.0, &case);
    }
    let text = json!({"rope_scaling": "linear"});
    let faults = describe(&config("llama", text)).unwrap_err();
    let fault = faults[0].to_string();
    assert!(
        fault.contains("rope_scaling: expected an object"),
        "{fault}"
    );
}

#[test]
fn layers_with_a_window_may_stretch_their_context() {
    let kinds = ["sliding_attention", "full_attention"];
    let linear = json!({"layer_types": kinds, "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"type": "linear", "factor": 4.0, "rope_theta": 300.0}}});
    let yarn = json!({"layer_types": kinds, "rope_parameters": {"sliding_attention": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 300.0}}});
    let of_linear = [0.25, 0.060_070_3, 0.014_433_8, 0.003_468_16];
    let of_theta = [1.0, 0.211_474, 0.044_721_4, 0.009_457_42];
    let of_yarn = [1.0, 0.150_176, 0.014_433_8, 0.003_468_16];
    let of_class = [1.0, 0.031_622_8, 0.001, 3.162_28e-5];
    let stretched = 1.138_629_436_111_989;
    for (family, layer, other, frequencies, factor) in [
        ("gemma3_text", 0, &linear, of_linear, 1.0),
        ("gemma3_text", 1, &linear, of_theta, 1.0),
        ("gemma3_text", 0, &yarn, of_yarn, stretched),
        ("gemma3_text", 1, &yarn, of_class, 1.0),
        ("olmo3", 0, &yarn, of_yarn, stretched),
    ] {
        let case = format!("{family} {layer} {other}");
        let attention = attention(family, layer, other.clone());
        check(attention.rope.as_ref(), frequencies, factor, &case);
    }
}

/// Keys that transformers passes over, or that other programs read otherwise.
#[test]
fn rotary_keys_without_a_clear_meaning_are_refused() {
    let flat = json!({"rope_parameters": {"rope_type": "linear", "factor": 8.0}});
    let both = json!({"rope_parameters": {"sliding_attention": {"rope_type": "default"}},
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}});
    let half = json!({"head_dim": 16, "partial_rotary_factor": 0.5});
    let inner = json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}});
    for (family, other, key) in [
        ("gemma3_text", &flat, "rope_parameters"),
        ("olmo3", &flat, "rope_parameters"),
        ("gemma3_text", &both, "rope_scaling"),
        ("qwen3", &half, "partial_rotary_factor"),
        ("deepseek_v3", &inner, "partial_rotary_factor"),
        ("llama", &inner, "partial_rotary_factor"),
    ] {
        let text = unsupported(family, other.clone());
        assert!(text.starts_with(key), "{family}: {text}");
    }
    for family in ["glm4_moe", "minimax_m2", "phi3", "solar_open"] {
        let rope = spec(family, half.clone()).layers[0]
            .attention()
            .unwrap()
            .rope
            .clone();
        assert_eq!(rope.map(|rope| rope.rotated), Some(8), "{family}");
    }
}

#[test]
fn a_stretched_context_needs_its_numbers() {
    let low = json!({"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0});
    for (rope, key) in [
        (json!({"rope_type": "linear"}), "factor"),
        (json!({"rope_type": "yarn"}), "factor"),
        (low, "low_freq_factor"),
    ] {
        let faults = describe(&config("llama", json!({"rope_scaling": rope}))).unwrap_err();
        let fault = faults[0].to_string();
        let told = format!("rope_scaling.{key}: expected a positive number");
        assert!(fault.starts_with(&told), "{fault}");
    }
    // transformers takes the ratio of the lengths for null: 256 / 64.
    let null = json!({"rope_scaling": {"rope_type": "yarn", "factor": null,
        "original_max_position_embeddings": 64}});
    let scaling = attention("llama", 0, null).rope.unwrap().scaling;
    assert!(matches!(scaling, RopeScaling::Yarn { factor: 4.0, .. }));
}

/// Llama turns by θ = 10⁴ where no key says it, Mixtral by 10⁶.
#[test]
fn a_model_that_gets_experts_keeps_its_theta() {
    let sizes = Sizes {
        experts: 4,
        inter: 16,
        top_k: 2,
    };
    for rope in [json!(null), json!({"rope_type": "default"})] {
        let dense = config("llama", json!({"rope_parameters": rope}));
        let (_, spec) = upcycled(&dense, sizes).unwrap();
        let rope = spec.layers[0].attention().unwrap().rope.clone();
        assert_eq!(rope.map(|rope| rope.theta), Some(1e4));
    }
}
