//! Published models in GGUF files: their metadata is turned into the configuration that a family reads, and the family's tensors have other
//! names.

mod layouts;
mod parameters;
mod positions;
mod translated;
mod written;

use moebius_weights::gguf::{GgufFile, GgufValue};
use moebius_weights::{Unfit, quoted};
use serde_json::{Value, json};

use super::{Described, Family, described};
#[cfg(test)]
pub(crate) use layouts::GGUF_FAMILIES;
pub(crate) use layouts::ROPE_FACTORS;
use parameters::{Names, Parameters};
use positions::{latent, scaling, widths, window};
pub(crate) use written::form;

/// Endings of the names of attention biases that a Llama may have.
const ATTENTION_BIASES: [&str; 4] = [
    ".attn_q.bias",
    ".attn_k.bias",
    ".attn_v.bias",
    ".attn_output.bias",
];
const DENSE_BIASES: [&str; 3] = [".ffn_gate.bias", ".ffn_up.bias", ".ffn_down.bias"];

/// Families in whose configurations `intermediate_size` is the width of the experts.
const EXPERTS_ALONE: [&str; 5] = [
    "mixtral",
    "gpt_oss",
    "granitemoe",
    "hunyuan_v1_moe",
    "minimax_m2",
];

/// Tensor that shows that a file stores a tensor for each expert.
const FIRST_APART: &str = "blk.0.ffn_gate.0.weight";

/// An architecture of GGUF files, and how its models are described.
struct Architecture {
    /// The value of `general.architecture`.
    name: &'static str,
    /// Family of models without experts.
    dense: Option<&'static Family>,
    /// Family of models with experts.
    sparse: Option<&'static Family>,
    /// Whether a model without a tensor for the head shares the embedding.
    tied: bool,
    /// Whether the weights of the chosen experts are divided by their sum, in files without a key for it.
    renormalize: bool,
    /// Whether rotary positions must rotate whole heads, as the rows are paired over the whole head.
    turned_whole: bool,
    /// Values that the key of the function from logits to scores may have: 1 is softmax, 2 is sigmoid.
    gating: &'static [f64],
    /// Metadata keys beside those of all architectures.
    own: &'static [Names],
}

/// An architecture that always has a tensor for the head, and no other peculiarity.
const fn plain(
    name: &'static str,
    dense: Option<&'static Family>,
    sparse: Option<&'static Family>,
) -> Architecture {
    Architecture {
        name,
        dense,
        sparse,
        tied: false,
        renormalize: false,
        turned_whole: false,
        gating: &[0.0, 1.0],
        own: &[],
    }
}

/// Keys of latent attention.
const LATENT: Names = &[
    ("attention.q_lora_rank", "q_lora_rank"),
    ("attention.kv_lora_rank", "kv_lora_rank"),
    ("attention.key_length_mla", "key_length_mla"),
    ("attention.value_length_mla", "v_head_dim"),
    ("rope.dimension_count", "qk_rope_head_dim"),
    ("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
];

/// Keys of experts with sigmoid scores, shared experts and leading layers without experts.
const CORRECTED: Names = &[
    ("leading_dense_block_count", "first_k_dense_replace"),
    ("expert_shared_count", "n_shared_experts"),
    ("expert_weights_scale", "routed_scaling_factor"),
    ("expert_group_count", "n_group"),
    ("expert_group_used_count", "topk_group"),
    ("nextn_predict_layers", "num_nextn_predict_layers"),
];

/// Keys of Granite's factors.
const MULTIPLIERS: Names = &[
    ("attention.scale", "attention_multiplier"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("logit_scale", "logits_scaling"),
];

/// Keys of short convolutions.
const CONVOLUTIONS: Names = &[("shortconv.l_cache", "conv_L_cache")];

static ARCHITECTURES: [Architecture; 22] = [
    Architecture {
        tied: true,
        renormalize: true,
        turned_whole: true,
        ..plain("llama", Some(&layouts::LLAMA), Some(&layouts::MIXTRAL))
    },
    Architecture {
        gating: &[0.0, 1.0, 2.0],
        own: &[LATENT, CORRECTED],
        ..plain("deepseek2", None, Some(&layouts::DEEPSEEK_V3))
    },
    Architecture {
        gating: &[0.0, 2.0],
        own: &[CORRECTED],
        ..plain("dots1", None, Some(&layouts::DOTS1))
    },
    Architecture {
        tied: true,
        own: &[&[
            ("leading_dense_block_count", "moe_layer_start_index"),
            ("interleave_moe_layer_step", "moe_layer_interval"),
            ("expert_shared_count", "moe_num_shared_experts"),
        ]],
        ..plain("ernie4_5-moe", None, Some(&layouts::ERNIE))
    },
    Architecture {
        tied: true,
        gating: &[0.0, 2.0],
        own: &[CORRECTED],
        ..plain("glm4moe", None, Some(&layouts::GLM4_MOE))
    },
    Architecture {
        renormalize: true,
        ..plain("gpt-oss", None, Some(&layouts::GPT_OSS))
    },
    Architecture {
        tied: true,
        turned_whole: true,
        own: &[MULTIPLIERS],
        ..plain("granite", Some(&layouts::GRANITE), None)
    },
    Architecture {
        tied: true,
        renormalize: true,
        turned_whole: true,
        own: &[MULTIPLIERS],
        ..plain("granitemoe", None, Some(&layouts::GRANITEMOE))
    },
    Architecture {
        gating: &[0.0, 2.0],
        ..plain("minimax-m2", None, Some(&layouts::MINIMAX_M2))
    },
    Architecture {
        tied: true,
        turned_whole: true,
        own: &[&[
            ("attention.temperature_scale", "llama_4_scaling_beta"),
            ("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
        ]],
        ..plain("mistral3", Some(&layouts::MINISTRAL3), None)
    },
    plain("olmoe", None, Some(&layouts::OLMOE)),
    Architecture {
        tied: true,
        own: &[&[("rope.scaling.attn_factor", "attention_factor")]],
        ..plain("phi3", Some(&layouts::PHI3), None)
    },
    Architecture {
        tied: true,
        ..plain("qwen2", Some(&layouts::QWEN2), None)
    },
    plain("qwen2moe", None, Some(&layouts::QWEN2_MOE)),
    Architecture {
        tied: true,
        ..plain("qwen3", Some(&layouts::QWEN3), None)
    },
    Architecture {
        tied: true,
        renormalize: true,
        ..plain("qwen3moe", None, Some(&layouts::QWEN3_MOE))
    },
    Architecture {
        tied: true,
        own: &[&[
            ("rope.freq_base_swa", "rope_local_base_freq"),
            ("attention.sliding_window_pattern", "sliding_window_pattern"),
            ("final_logit_softcapping", "final_logit_softcapping"),
        ]],
        ..plain("gemma3", Some(&layouts::GEMMA3), None)
    },
    Architecture {
        tied: true,
        ..plain("hunyuan-dense", Some(&layouts::HUNYUAN_DENSE), None)
    },
    Architecture {
        tied: true,
        ..plain("hunyuan-moe", None, Some(&layouts::HUNYUAN_MOE))
    },
    Architecture {
        tied: true,
        own: &[CONVOLUTIONS],
        ..plain("lfm2", Some(&layouts::LFM2), None)
    },
    Architecture {
        tied: true,
        renormalize: true,
        gating: &[0.0, 2.0],
        own: &[
            CONVOLUTIONS,
            &[
                ("leading_dense_block_count", "num_dense_layers"),
                ("expert_weights_scale", "routed_scaling_factor"),
            ],
        ],
        ..plain("lfm2moe", None, Some(&layouts::LFM2_MOE))
    },
    Architecture {
        tied: true,
        own: &[&[("interleave_moe_layer_step", "interleave_moe_layer_step")]],
        ..plain("llama4", None, Some(&layouts::LLAMA4))
    },
];

/// Reads the model that the metadata of a GGUF file describes. Its family has the layouts of GGUF files.
///
/// The size of the vocabulary, and whether there are biases and a head, follow from the file's tensors.
///
/// # Errors
/// Every value that is missing or wrong, and an unknown architecture.
pub fn describe_gguf(file: &GgufFile) -> Result<Described, Vec<Unfit>> {
    let architecture = architecture(file)?;
    let mut parameters = Parameters::new(file, architecture.name, architecture.own);
    let sparse = parameters.number("expert_count").unwrap_or(0.0) > 0.0;
    let (family, other) = if sparse {
        (architecture.sparse, "none")
    } else {
        (architecture.dense, "at least 1")
    };
    let Some(family) = family else {
        let got = parameters.get("expert_count");
        let got = got.map_or("none".to_owned(), GgufValue::shown);
        parameters.refuse("expert_count", other, got);
        return Err(parameters.faults);
    };
    let apart = family.name == "mixtral" && file.get(FIRST_APART).is_some();
    let family = match family.name {
        _ if apart => &layouts::MIXTRAL_APART,
        "deepseek_v3" if of_probabilities(file, &parameters) => &layouts::DEEPSEEK_V2,
        _ => family,
    };
    parameters.check_gating(architecture.gating);
    if apart {
        check_experts(file, &mut parameters)?;
    }
    let config = config(file, architecture, family, &mut parameters);
    let faults = std::mem::take(&mut parameters.faults);
    // The defaults of transformers don't apply: what the metadata leaves out follows from the tensors or from ggml's defaults.
    match described(family, &config) {
        Err(wrong) => Err(faults.into_iter().chain(parameters.rename(wrong)).collect()),
        Ok(Described {
            spec, unsupported, ..
        }) => Ok(Described {
            family,
            spec,
            unsupported: faults
                .into_iter()
                .chain(parameters.rename(unsupported))
                .collect(),
        }),
    }
}

/// Whether the experts of a DeepSeek are weighted by softmax scores, as before DeepSeek-V3. Where the metadata doesn't say so, only sigmoid
/// scores have a correction.
fn of_probabilities(file: &GgufFile, parameters: &Parameters<'_>) -> bool {
    match parameters.number("expert_gating_func") {
        Some(function) if function != 0.0 => function == 1.0,
        _ => {
            let mut names = file.tensors().map(|(name, _)| name);
            !names.any(|name| name.ends_with(".exp_probs_b.bias"))
        }
    }
}

fn architecture(file: &GgufFile) -> Result<&'static Architecture, Vec<Unfit>> {
    let refuse = |key: &str, expected: String, got: Option<&GgufValue>| {
        let got = got.map_or("none".to_owned(), GgufValue::shown);
        vec![Unfit::new(quoted(key), expected, got)]
    };
    let (key, split) = ("general.architecture", "split.count");
    let value = file.value(key);
    let named = value.and_then(GgufValue::as_text);
    let found = ARCHITECTURES.iter().find(|known| Some(known.name) == named);
    let known: Vec<_> = ARCHITECTURES.iter().map(|known| known.name).collect();
    let known = known.join(", ");
    let found = found.ok_or_else(|| refuse(key, format!("one of {known}"), value))?;
    let own = format!("{}.", found.name);
    if !file.metadata().any(|(name, _)| name.starts_with(&own)) {
        let expected =
            format!("one of {known} that the file has keys of, such as `{own}block_count`");
        return Err(refuse(key, expected, value));
    }
    match file.value(split) {
        Some(count) if count.as_size().is_none_or(|count| count > 1) => {
            Err(refuse(split, "a model in one file".to_owned(), Some(count)))
        }
        _ => Ok(found),
    }
}

/// The configuration for the family, made from the metadata.
fn config(
    file: &GgufFile,
    architecture: &Architecture,
    family: &Family,
    parameters: &mut Parameters<'_>,
) -> Config {
    let mut config = parameters.config();
    let mut set = |key: &str, value: Value| {
        config.entry(key).or_insert(value);
    };
    set("model_type", json!(family.name));
    // ggml's default for files without the key.
    set("rope_theta", json!(10_000.0));
    set("norm_topk_prob", json!(architecture.renormalize));
    set("vocab_size", vocabulary(file));
    biases(file, architecture.name, &mut set);
    let headless = file.get("output.weight").is_none();
    set("tie_word_embeddings", json!(architecture.tied && headless));
    experts(file, &mut config);
    // The configuration always has the width of a dense network, even if no layer is dense.
    let inner = config.get("moe_intermediate_size").cloned();
    if let Some(inner) = inner {
        config.entry("intermediate_size").or_insert(inner.clone());
        if EXPERTS_ALONE.contains(&family.name) {
            config.insert("intermediate_size".to_owned(), inner);
        }
    }
    // Configurations have a default for this key, GGUF files have none.
    if config.get("rms_norm_eps").is_none_or(Value::is_null) {
        let name = "attention.layer_norm_rms_epsilon";
        parameters.refuse(name, "a positive number", "none");
    }
    check_division(&config, family, parameters);
    trim(&mut config);
    let grouped = config.get("n_group").and_then(Value::as_u64);
    if family.name == "deepseek_v2" && grouped.is_some_and(|count| count > 1) {
        // Files have no key for the method: groups are there to limit the choice.
        let method = json!("group_limited_greedy");
        config.insert("topk_method".to_owned(), method);
    }
    if architecture.name == "deepseek2" {
        latent(&mut config, parameters);
    } else {
        widths(&mut config, architecture.turned_whole, parameters);
    }
    window(&mut config, family.name, parameters);
    translated::complete(&mut config, family.name, parameters);
    if let Some(scaling) = scaling(file, &config, family.name, parameters) {
        config.insert("rope_scaling".to_owned(), scaling);
    }
    config
}

/// Sets whether there are biases and norms, which only the tensors show; in other architectures the family decides.
fn biases(file: &GgufFile, architecture: &str, set: &mut dyn FnMut(&str, Value)) {
    let has = |ending: &&str| {
        let mut names = file.tensors().map(|(name, _)| name);
        names.any(|name| name.starts_with("blk.") && name.ends_with(ending))
    };
    let biased = json!(ATTENTION_BIASES.iter().any(has));
    match architecture {
        "llama" | "granite" => {
            set("attention_bias", biased);
            set("mlp_bias", json!(DENSE_BIASES.iter().any(has)));
        }
        "glm4moe" => {
            set("attention_bias", biased);
            set("use_qk_norm", json!(has(&".attn_q_norm.weight")));
        }
        "ernie4_5-moe" => set("use_bias", biased),
        "lfm2" | "lfm2moe" => {
            set("conv_bias", json!(has(&".shortconv.conv.bias")));
            set("use_expert_bias", json!(has(&".exp_probs_b.bias")));
        }
        _ => {}
    }
}

/// Checks that the weights of the chosen experts are divided by their sum exactly where the family does so without asking.
fn check_division(config: &Config, family: &Family, parameters: &mut Parameters<'_>) {
    let divided = config.get("norm_topk_prob") == Some(&json!(true));
    let expected = match family.name {
        "mixtral" => true,
        "deepseek_v2" => false,
        _ => return,
    };
    if divided != expected {
        parameters.refuse("expert_weights_norm", expected, divided);
    }
}

/// Leaves out layers that predict later tokens, which are counted with the others, and a factor of 0, which stands for none.
fn trim(config: &mut Config) {
    let of = |config: &Config, key: &str| config.get(key).and_then(Value::as_u64);
    let ahead = of(config, "num_nextn_predict_layers").unwrap_or(0);
    if let Some(all) = of(config, "num_hidden_layers").filter(|_| ahead > 0) {
        let layers = json!(all.saturating_sub(ahead));
        config.insert("num_hidden_layers".to_owned(), layers);
    }
    let factor = "routed_scaling_factor";
    if config.get(factor).and_then(Value::as_f64) == Some(0.0) {
        config.remove(factor);
    }
}

/// Adds the widths of experts, which older files show only by the shapes of their tensors.
fn experts(file: &GgufFile, config: &mut Config) {
    let rows = |ending: &str| {
        let mut found = file.tensors().filter(|(name, _)| name.ends_with(ending));
        let (_, tensor) = found.next()?;
        tensor.shape.iter().rev().nth(1).copied()
    };
    for (key, ending) in [
        ("moe_intermediate_size", ".ffn_gate_exps.weight"),
        ("shared_expert_intermediate_size", ".ffn_gate_shexp.weight"),
    ] {
        if let Some(rows) = rows(ending) {
            config.entry(key).or_insert(json!(rows));
        }
    }
}

/// Number of rows of the embedding: the vocabulary and its padding.
fn vocabulary(file: &GgufFile) -> Value {
    let embedding = file.get("token_embd.weight");
    let rows = embedding.and_then(|tensor| tensor.shape.first().copied());
    let listed = || match file.value("tokenizer.ggml.tokens")? {
        GgufValue::Texts(tokens) => Some(tokens.len()),
        _ => None,
    };
    rows.or_else(listed).map_or(Value::Null, |rows| json!(rows))
}

type Config = serde_json::Map<String, Value>;

/// Checks that a file with a tensor for each expert can have this many experts: a list of the missing tensors could exceed the memory.
fn check_experts(file: &GgufFile, parameters: &mut Parameters<'_>) -> Result<(), Vec<Unfit>> {
    let of = |name: &str| parameters.number(name).unwrap_or(0.0);
    let experts = of("expert_count");
    let (needed, there) = (experts * of("block_count"), file.tensors().count());
    if needed > there as f64 {
        let expected = format!("no more in all layers than the {there} tensors of the file");
        parameters.refuse("expert_count", expected, experts);
        return Err(std::mem::take(&mut parameters.faults));
    }
    Ok(())
}
