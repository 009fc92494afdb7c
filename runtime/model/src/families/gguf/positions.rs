//! What depends on heads and positions: widths, windows, and rotary positions.

use moebius_weights::gguf::GgufFile;
use moebius_weights::{Unfit, quoted};
use serde_json::{Value, json};

use super::Config;
use super::layouts::LONGROPE_FACTORS;
use super::parameters::Parameters;

/// Families whose layers may all have a window of keys.
const WINDOWED: [&str; 3] = ["mixtral", "ministral3", "phi3"];

/// Families whose configurations have the window under another key than the metadata, in some layers alone.
const WINDOWS_APART: [&str; 2] = ["gemma3_text", "llama4_text"];

/// Largest number of rotated pairs of a head: more than any model has.
const MAX_PAIRS: u64 = 1 << 16;

/// Adds the widths of keys and values in latent attention. Files that store one matrix for both have the widths under the names of other
/// architectures.
pub(super) fn latent(config: &mut Config, parameters: &mut Parameters<'_>) {
    let whole = parameters.number("attention.key_length_mla");
    let key = whole.or(parameters.number("attention.key_length"));
    let turned = parameters.number("rope.dimension_count");
    if let (Some(key), Some(turned)) = (key, turned) {
        if key > turned {
            let still = json!((key - turned) as u64);
            config.insert("qk_nope_head_dim".to_owned(), still);
        } else {
            let expected = format!("more than the {turned} elements that are rotated");
            parameters.refuse("attention.key_length", expected, key);
        }
    }
    if let Some(value) = parameters.number("attention.value_length") {
        config.entry("v_head_dim").or_insert(json!(value as u64));
    }
}

/// The stretching of rotary positions, as the `rope_scaling` of a configuration.
pub(super) fn scaling(
    file: &GgufFile,
    config: &Config,
    family: &str,
    parameters: &mut Parameters<'_>,
) -> Option<Value> {
    if family == "phi3" && LONGROPE_FACTORS.iter().any(|name| file.get(name).is_some()) {
        return longrope(file, parameters);
    }
    let scaling = parameters.rope_scaling();
    if family == "gpt_oss" {
        let mut scaling = scaling?;
        // The value in gpt-oss's configuration, for which GGUF has no key.
        scaling["truncate"] = json!(false);
        return Some(scaling);
    }
    if family == "ministral3" {
        let mut scaling = scaling.unwrap_or_else(|| json!({ "rope_type": "default" }));
        let rate = config.get("llama_4_scaling_beta");
        scaling["llama_4_scaling_beta"] = rate.cloned().unwrap_or(Value::Null);
        return Some(with_mscale(scaling, config, 1.0));
    }
    // llama.cpp's converter writes a tenth of DeepSeek's value.
    scaling.map(|scaling| with_mscale(scaling, config, 10.0))
}

/// The scaling with the factors of YaRN's attention, which GGUF has one key for: they are equal in all models that have them.
fn with_mscale(mut scaling: Value, config: &Config, times: f64) -> Value {
    if let Some(of_file) = config.get("mscale_all_dim").and_then(Value::as_f64) {
        for name in ["mscale", "mscale_all_dim"] {
            scaling[name] = json!(of_file * times);
        }
    }
    scaling
}

/// The divisors of LongRoPE, which are tensors of the file.
fn longrope(file: &GgufFile, parameters: &mut Parameters<'_>) -> Option<Value> {
    let read = |name: &str| {
        let expected = format!("at most {MAX_PAIRS} values that can be read");
        let info = file.get(name);
        let fits = info.is_some_and(|info| info.values() <= MAX_PAIRS && info.kind.is_decoded());
        if !fits {
            let got = info.map_or("none".to_owned(), |info| {
                format!("{} values of {}", info.values(), info.kind)
            });
            return Err(Unfit::new(quoted(name), expected, got));
        }
        let values = file.read_f32(name);
        values.map_err(|error| Unfit::new(quoted(name), expected, error))
    };
    let [short, long] = LONGROPE_FACTORS.map(read);
    match (short, long) {
        (Ok(short), Ok(long)) => Some(json!({
            "rope_type": "longrope",
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": parameters.number("rope.scaling.original_context_length"),
            "attention_factor": parameters.number("rope.scaling.attn_factor"),
        })),
        (short, long) => {
            parameters
                .faults
                .extend([short, long].into_iter().filter_map(Result::err));
            None
        }
    }
}

/// Checks the width of values, and sets the share of a head that rotary positions rotate.
pub(super) fn widths(config: &mut Config, turned_whole: bool, parameters: &mut Parameters<'_>) {
    let of = |config: &Config, key: &str| config.get(key).and_then(Value::as_f64);
    let heads = of(config, "num_attention_heads").filter(|&heads| heads > 0.0);
    let shared = of(config, "hidden_size").zip(heads);
    let shared = shared.map(|(hidden, heads)| hidden / heads);
    let Some(width) = of(config, "head_dim").or(shared) else {
        return;
    };
    let name = "attention.value_length";
    if let Some(got) = parameters.number(name).filter(|&got| got != width) {
        parameters.refuse(name, format!("{width}, as of keys"), got);
    }
    let name = "rope.dimension_count";
    let turned = parameters.number(name).filter(|&turned| turned != width);
    match turned {
        Some(turned) if turned_whole => {
            let expected = format!("{width}, all of a head");
            parameters.refuse(name, expected, turned);
        }
        Some(turned) => {
            config.insert("partial_rotary_factor".to_owned(), json!(turned / width));
        }
        None => {}
    }
}

/// Sets the window of keys, which every other layer of gpt-oss and all layers of Mixtral, Ministral 3 and Phi-3 may have. In other
/// architectures the window must cover the whole context.
pub(super) fn window(config: &mut Config, family: &str, parameters: &mut Parameters<'_>) {
    let name = "attention.sliding_window";
    let window = parameters.number(name);
    let Some(window) = window.filter(|_| !WINDOWS_APART.contains(&family)) else {
        return;
    };
    if family == "gpt_oss" {
        // gpt-oss has the window in every other layer.
        config.insert("sliding_window".to_owned(), json!(window as u64));
        return;
    }
    let positions = config.get("max_position_embeddings");
    let all = positions.and_then(Value::as_f64);
    if window == 0.0 || all.is_some_and(|all| window >= all) {
        return;
    }
    if WINDOWED.contains(&family) {
        config.insert("sliding_window".to_owned(), json!(window as u64));
        return;
    }
    parameters.refuse(name, "no window", window);
}
