//! Keys of configurations for which an architecture's metadata has no counterpart: llama.cpp knows their values.

use moebius_weights::gguf::GgufValue;
use serde_json::{Map, Value, json};

use super::parameters::{KV_HEADS, Parameters};
use crate::families::lfm2::CONVOLUTION;
use crate::families::parts::{FULL, MAX_LAYERS};

/// Number of layers of the one Gemma 3 whose scores are scaled by the share of a head in the width, not by the width of a head.
const LAYERS_OF_27B: u64 = 62;
/// Number of experts of the one Llama 4 without norms of queries and keys.
const EXPERTS_OF_MAVERICK: u64 = 128;
/// Tokens of a chunk of Llama 4's attention, and of a step of its temperature.
const CHUNK: u64 = 8192;

/// Adds the keys that `family` needs.
pub(super) fn complete(
    config: &mut Map<String, Value>,
    family: &str,
    parameters: &mut Parameters<'_>,
) {
    match family {
        "gemma3_text" => gemma3(config, parameters),
        "lfm2" | "lfm2_moe" => lfm2(config, parameters),
        "llama4_text" => llama4(config, parameters),
        _ => {}
    }
}

fn gemma3(config: &mut Map<String, Value>, parameters: &mut Parameters<'_>) {
    let of = |config: &Map<String, Value>, key: &str| config.get(key).and_then(Value::as_u64);
    let share = || of(config, "hidden_size")?.checked_div(of(config, "num_attention_heads")?);
    let scalar = if of(config, "num_hidden_layers") == Some(LAYERS_OF_27B) {
        share()
    } else {
        of(config, "head_dim").or_else(share)
    };
    config.insert("query_pre_attn_scalar".to_owned(), json!(scalar));
    match parameters.number("attention.sliding_window") {
        Some(window) => {
            config.insert("sliding_window".to_owned(), json!(window as u64));
        }
        // Without a window all layers see all keys.
        None => {
            config.insert("sliding_window_pattern".to_owned(), json!(1));
        }
    }
}

/// Layers with a convolution are those without key and value heads.
fn lfm2(config: &mut Map<String, Value>, parameters: &mut Parameters<'_>) {
    let heads: Vec<u64> = match parameters.get(KV_HEADS) {
        Some(GgufValue::Numbers(numbers)) => numbers
            .iter()
            .map(|number| number.as_size().unwrap_or(0))
            .collect(),
        number => {
            let number = number.and_then(GgufValue::as_size).unwrap_or(0);
            let layers = config.get("num_hidden_layers").and_then(Value::as_u64);
            vec![number; layers.unwrap_or(0).min(MAX_LAYERS as u64) as usize]
        }
    };
    let some = heads.iter().copied().find(|&heads| heads > 0);
    let alike = heads.iter().all(|&heads| heads == 0 || Some(heads) == some);
    if !alike {
        let expected = "0 or one number of heads in all layers";
        parameters.refuse(KV_HEADS, expected, format!("{heads:?}"));
    }
    let kind = |&heads: &u64| if heads > 0 { FULL } else { CONVOLUTION };
    let kinds: Vec<_> = heads.iter().map(kind).collect();
    if let Some(heads) = some {
        config.insert("num_key_value_heads".to_owned(), json!(heads));
    }
    let epsilon = config.get("rms_norm_eps").cloned().unwrap_or_default();
    for (key, value) in [
        ("layer_types", json!(kinds)),
        ("norm_eps", epsilon),
        ("block_auto_adjust_ff_dim", json!(false)),
    ] {
        config.insert(key.to_owned(), value);
    }
}

fn llama4(config: &mut Map<String, Value>, parameters: &mut Parameters<'_>) {
    let name = "attention.sliding_window";
    if let Some(window) = parameters.number(name).filter(|&got| got != CHUNK as f64) {
        parameters.refuse(name, format!("{CHUNK}, as in Llama 4"), window);
    }
    // The metadata has the width of dense networks under the name that a configuration has for that of experts.
    let dense = config.get("intermediate_size").cloned();
    let experts = config.get("moe_intermediate_size").cloned();
    let normed = config.get("num_local_experts") != Some(&json!(EXPERTS_OF_MAVERICK));
    for (key, value) in [
        ("intermediate_size_mlp", dense.unwrap_or_default()),
        ("intermediate_size", experts.unwrap_or_default()),
        ("use_qk_norm", json!(normed)),
        ("attention_chunk_size", json!(CHUNK)),
        ("floor_scale", json!(CHUNK)),
    ] {
        config.insert(key.to_owned(), value);
    }
}
