//! Published models in GGUF files: their metadata is turned into the configuration that a family reads, and the family's tensors have other
//! names.

mod parameters;
mod translated;

use moebius_weights::gguf::{GgufFile, GgufValue};
use moebius_weights::{Unfit, quoted};
use serde_json::{Value, json};

use super::rule::{Rule, rules};
use super::{Described, Family, described, gemma, gpt_oss, hunyuan, llama, llama4, qwen};
use parameters::{Names, Parameters};

/// Tensor of the divisors of the rotary frequencies, one for each pair (Llama 3.1).
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Endings of the names of attention biases that a Llama may have.
const ATTENTION_BIASES: [&str; 4] = [
    ".attn_q.bias",
    ".attn_k.bias",
    ".attn_v.bias",
    ".attn_output.bias",
];
const DENSE_BIASES: [&str; 3] = [".ffn_gate.bias", ".ffn_up.bias", ".ffn_down.bias"];

/// Families in whose configurations `intermediate_size` is the width of the experts.
const EXPERTS_ALONE: [&str; 4] = ["mixtral", "gpt_oss", "granitemoe", "hunyuan_v1_moe"];

/// Families whose configurations have the window under another key than the metadata, in some layers alone.
const WINDOWS_APART: [&str; 2] = ["gemma3_text", "llama4_text"];

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
    /// Metadata keys that only this architecture has.
    own: Names,
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
        own: &[],
    }
}

static ARCHITECTURES: [Architecture; 11] = [
    Architecture {
        tied: true,
        renormalize: true,
        turned_whole: true,
        ..plain("llama", Some(&LLAMA), Some(&MIXTRAL))
    },
    Architecture {
        renormalize: true,
        ..plain("gpt-oss", None, Some(&GPT_OSS))
    },
    Architecture {
        tied: true,
        renormalize: true,
        turned_whole: true,
        own: &[
            ("attention.scale", "attention_multiplier"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("logit_scale", "logits_scaling"),
        ],
        ..plain("granitemoe", None, Some(&GRANITEMOE))
    },
    plain("olmoe", None, Some(&OLMOE)),
    plain("qwen2moe", None, Some(&QWEN2_MOE)),
    Architecture {
        tied: true,
        ..plain("qwen3", Some(&QWEN3), None)
    },
    Architecture {
        tied: true,
        renormalize: true,
        ..plain("qwen3moe", None, Some(&QWEN3_MOE))
    },
    Architecture {
        tied: true,
        own: &[
            ("rope.freq_base_swa", "rope_local_base_freq"),
            ("attention.sliding_window_pattern", "sliding_window_pattern"),
            ("final_logit_softcapping", "final_logit_softcapping"),
        ],
        ..plain("gemma3", Some(&GEMMA3), None)
    },
    Architecture {
        tied: true,
        ..plain("hunyuan-dense", Some(&HUNYUAN_DENSE), None)
    },
    Architecture {
        tied: true,
        ..plain("hunyuan-moe", None, Some(&HUNYUAN_MOE))
    },
    Architecture {
        tied: true,
        own: &[("interleave_moe_layer_step", "interleave_moe_layer_step")],
        ..plain("llama4", None, Some(&LLAMA4))
    },
];

static LLAMA: Family = of_gguf(
    llama::LLAMA,
    &[&[FRAME, NORM, NEIGHBOURS, DENSE]],
    &[ROPE_FACTORS],
);
static MIXTRAL: Family = of_gguf(
    llama::MIXTRAL,
    &[&[FRAME, NORM, NEIGHBOURS, STACKED]],
    &[ROPE_FACTORS],
);
static MIXTRAL_APART: Family = of_gguf(
    llama::MIXTRAL,
    &[&[FRAME, NORM, NEIGHBOURS, APART]],
    &[ROPE_FACTORS],
);
static GRANITEMOE: Family = of_gguf(
    llama::GRANITEMOE,
    &[&[FRAME, NORM, NEIGHBOURS, STACKED]],
    &[],
);
static GPT_OSS: Family = of_gguf(gpt_oss::FAMILY, &[&[FRAME, HALVES, STACKED, SINKS]], &[]);
static OLMOE: Family = of_gguf(llama::OLMOE, &[&[FRAME, NORM, HALVES, STACKED]], &[]);
static QWEN2_MOE: Family = of_gguf(
    qwen::QWEN2_MOE,
    &[&[FRAME, NORM, HALVES, STACKED, SHARED]],
    &[],
);
static QWEN3: Family = of_gguf(qwen::QWEN3, &[&[FRAME, NORM, HALVES, DENSE]], &[]);
static QWEN3_MOE: Family = of_gguf(qwen::QWEN3_MOE, &[&[FRAME, NORM, HALVES, STACKED]], &[]);

static GEMMA3: Family = of_gguf(gemma::GEMMA3, &[&[FRAME, NORM, HALVES, DENSE, AFTER]], &[]);
static HUNYUAN_DENSE: Family = of_gguf(hunyuan::DENSE_V1, &[&[FRAME, NORM, HALVES, DENSE]], &[]);
static HUNYUAN_MOE: Family = of_gguf(
    hunyuan::MOE_V1,
    &[&[FRAME, NORM, HALVES, STACKED, SHARED]],
    &[],
);
static LLAMA4: Family = of_gguf(
    llama4::FAMILY,
    &[&[FRAME, NORM, HALVES, DENSE, STACKED, SHARED]],
    &[ROPE_FACTORS],
);

/// A family with the layouts of its GGUF files.
const fn of_gguf(
    family: Family,
    layouts: &'static [&'static [&'static [Rule]]],
    ignored: &'static [&'static str],
) -> Family {
    Family {
        layouts,
        ignored,
        ..family
    }
}

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
    let family = if apart { &MIXTRAL_APART } else { family };
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

fn architecture(file: &GgufFile) -> Result<&'static Architecture, Vec<Unfit>> {
    let refuse = |key: &str, expected: String, got: Option<&GgufValue>| {
        let got = got.map_or("none".to_owned(), GgufValue::shown);
        vec![Unfit::new(quoted(key), expected, got)]
    };
    let (key, split) = ("general.architecture", "split.count");
    let value = file.value(key);
    let named = value.and_then(GgufValue::as_text);
    let found = ARCHITECTURES.iter().find(|known| Some(known.name) == named);
    let found = found.ok_or_else(|| {
        let known: Vec<_> = ARCHITECTURES.iter().map(|known| known.name).collect();
        refuse(key, format!("one of {}", known.join(", ")), value)
    })?;
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
    let has = |ending: &&str| {
        let mut names = file.tensors().map(|(name, _)| name);
        names.any(|name| name.starts_with("blk.") && name.ends_with(ending))
    };
    // In other architectures the family decides whether there are biases.
    if architecture.name == "llama" {
        set("attention_bias", json!(ATTENTION_BIASES.iter().any(has)));
        set("mlp_bias", json!(DENSE_BIASES.iter().any(has)));
    }
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
    let undivided = config.get("norm_topk_prob") == Some(&json!(false));
    if family.name == "mixtral" && undivided {
        parameters.refuse("expert_weights_norm", "true", false);
    }
    widths(&mut config, architecture, parameters);
    window(&mut config, family, parameters);
    translated::complete(&mut config, family.name, parameters);
    if let Some(mut scaling) = parameters.rope_scaling() {
        if family.name == "gpt_oss" {
            // The value in gpt-oss's configuration, for which GGUF has no key.
            scaling["truncate"] = json!(false);
        }
        config.insert("rope_scaling".to_owned(), scaling);
    }
    config
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

/// Checks the width of values, and sets the share of a head that rotary positions rotate.
fn widths(config: &mut Config, architecture: &Architecture, parameters: &mut Parameters<'_>) {
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
        Some(turned) if architecture.turned_whole => {
            let expected = format!("{width}, all of a head");
            parameters.refuse(name, expected, turned);
        }
        Some(turned) => {
            config.insert("partial_rotary_factor".to_owned(), json!(turned / width));
        }
        None => {}
    }
}

/// Sets the window of keys, which every other layer of gpt-oss and all layers of Mixtral may have. In other architectures the window must
/// cover the whole context.
fn window(config: &mut Config, family: &Family, parameters: &mut Parameters<'_>) {
    let name = "attention.sliding_window";
    let window = parameters.number(name);
    let Some(window) = window.filter(|_| !WINDOWS_APART.contains(&family.name)) else {
        return;
    };
    if family.name == "gpt_oss" {
        // gpt-oss has the window in every other layer.
        config.insert("sliding_window".to_owned(), json!(window as u64));
        return;
    }
    let positions = config.get("max_position_embeddings");
    let all = positions.and_then(Value::as_f64);
    if window == 0.0 || all.is_some_and(|all| window >= all) {
        return;
    }
    if family.name == "mixtral" {
        config.insert("sliding_window".to_owned(), json!(window as u64));
        return;
    }
    parameters.refuse(name, "no window", window);
}

/// Families that GGUF files may hold.
#[cfg(test)]
pub(crate) const GGUF_FAMILIES: [&Family; 13] = [
    &GEMMA3,
    &GPT_OSS,
    &GRANITEMOE,
    &HUNYUAN_DENSE,
    &HUNYUAN_MOE,
    &LLAMA,
    &LLAMA4,
    &MIXTRAL,
    &MIXTRAL_APART,
    &OLMOE,
    &QWEN2_MOE,
    &QWEN3,
    &QWEN3_MOE,
];

/// Tensors outside of the layers, and the norms of the layers.
const FRAME: &[Rule] = rules! { "":
    "token_embd.weight" => Embedding;
    "output_norm.weight" => Norm;
    "output.weight" => Head;
    "blk.{l}.attn_norm.weight" => AttentionNorm;
    "blk.{l}.attn_v.weight" => Value;
    "blk.{l}.attn_v.bias" => ValueBias;
    "blk.{l}.attn_output.weight" => Out;
    "blk.{l}.attn_output.bias" => OutBias;
};

/// The norm before the feed-forward part, in all architectures but gpt-oss.
const NORM: &[Rule] = rules! { "blk.{l}.":
    "ffn_norm.weight" => FeedForwardNorm;
};

/// The norms after attention and feed-forward part, in which llama.cpp's converter has added the 1 of 1 + w.
const AFTER: &[Rule] = rules! { "blk.{l}.":
    "post_attention_norm.weight" => AttentionOutNorm;
    "post_ffw_norm.weight" => FeedForwardOutNorm;
};

/// Queries and keys whose rows are in the model's order.
const HALVES: &[Rule] = rules! { "blk.{l}.":
    "attn_q.weight" => Query;
    "attn_q.bias" => QueryBias;
    "attn_k.weight" => Key;
    "attn_k.bias" => KeyBias;
    "attn_q_norm.weight" => QueryNorm;
    "attn_k_norm.weight" => KeyNorm;
};

/// Queries and keys of Llama: llama.cpp's converter makes rows that rotate together neighbours.
const NEIGHBOURS: &[Rule] = rules! { "blk.{l}.":
    "attn_q.weight" => Query, Neighbours;
    "attn_q.bias" => QueryBias, Neighbours;
    "attn_k.weight" => Key, Neighbours;
    "attn_k.bias" => KeyBias, Neighbours;
};

/// A dense network.
const DENSE: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate.weight" => DenseIn, Gate;
    "ffn_up.weight" => DenseIn, Up;
    "ffn_down.weight" => DenseOut;
    "ffn_gate.bias" => DenseInBias, Gate;
    "ffn_up.bias" => DenseInBias, Up;
    "ffn_down.bias" => DenseOutBias;
};

/// Stacked experts.
const STACKED: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_inp.weight" => Router;
    "ffn_gate_exps.weight" => ExpertsIn, Gate;
    "ffn_up_exps.weight" => ExpertsIn, Up;
    "ffn_down_exps.weight" => ExpertsOut;
    "ffn_gate_inp.bias" => RouterBias;
    "ffn_gate_exps.bias" => ExpertsInBias, Gate;
    "ffn_up_exps.bias" => ExpertsInBias, Up;
    "ffn_down_exps.bias" => ExpertsOutBias;
};

/// Tensors that only gpt-oss has, or that have another name in it.
const SINKS: &[Rule] = rules! { "blk.{l}.":
    "post_attention_norm.weight" => FeedForwardNorm;
    "attn_sinks.weight" => Sinks;
};

/// Experts with a tensor for each expert's matrix, as in older files of Mixtral.
const APART: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_inp.weight" => Router;
    "ffn_gate.{e}.weight" => ExpertsIn, Gate;
    "ffn_up.{e}.weight" => ExpertsIn, Up;
    "ffn_down.{e}.weight" => ExpertsOut;
};

/// The shared expert, which every token goes to.
const SHARED: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_shexp.weight" => SharedIn, Gate;
    "ffn_up_shexp.weight" => SharedIn, Up;
    "ffn_down_shexp.weight" => SharedOut;
    "ffn_gate_inp_shexp.weight" => SharedGate;
};
