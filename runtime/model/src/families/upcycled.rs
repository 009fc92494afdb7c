//! Configurations of the mixtures of experts that dense models are made into.

use moebius_weights::Unfit;
use serde_json::{Map, Value, json};

use super::defaults::completed;
use super::keys::Keys;
use super::{describe, described, family_of, text_config};
use crate::decoder::{FeedForwardSpec, LayerSpec, ModelSpec, Projection};

/// A dense family, and the family that differs from it only in having experts.
struct Pair {
    dense: &'static str,
    mixture: &'static str,
    architecture: &'static str,
    /// Keys of the number of experts and of their width.
    sizes: [&'static str; 2],
    /// Further keys that the mixture's configuration needs.
    also: fn() -> Value,
}

const PAIRS: [Pair; 2] = [
    Pair {
        dense: "llama",
        mixture: "mixtral",
        architecture: "MixtralForCausalLM",
        sizes: ["num_local_experts", "intermediate_size"],
        also: || json!({ "sliding_window": null }),
    },
    Pair {
        dense: "qwen3",
        mixture: "qwen3_moe",
        architecture: "Qwen3MoeForCausalLM",
        sizes: ["num_experts", "moe_intermediate_size"],
        also: || json!({ "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [] }),
    },
];

/// Numbers and width of a mixture's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) experts: usize,
    pub(crate) top_k: usize,
    pub(crate) inter: usize,
}

/// Makes the configuration of a mixture with experts of `sizes`, otherwise equal to the dense model of `config`, and the description of the
/// mixture.
///
/// # Errors
/// The reasons why the model has no counterpart with experts.
pub(crate) fn upcycled(config: &Value, sizes: Sizes) -> Result<(Value, ModelSpec), Vec<Unfit>> {
    let config = text_config(config)?;
    let (family, stated) = family_of(&config)?;
    let entries = completed(family.name, stated);
    let dense = described(family, &entries)?;
    let spec = dense.spec;
    let pair = PAIRS.iter().find(|pair| pair.dense == dense.family.name);
    let Some(pair) = pair else {
        let known = PAIRS.map(|pair| pair.dense).join(" or ");
        let got = dense.family.name;
        return Err(vec![Unfit::new("model_type of a dense model", known, got)]);
    };
    let mut faults = biases(&spec);
    faults.extend(dense.unsupported);
    if !faults.is_empty() {
        return Err(faults);
    }
    let config = Value::Object(entries_of(pair, entries, &spec, sizes));
    let made = describe(&config)?;
    let mut expected = spec;
    for (layer, made) in expected.layers.iter_mut().zip(&made.spec.layers) {
        layer.feed_forward = made.feed_forward.clone();
    }
    let faults = differences(&expected, &made.spec, pair.mixture);
    if faults.is_empty() {
        Ok((config, made.spec))
    } else {
        Err(faults)
    }
}

/// Features of the dense model that the family `name` of the mixture can't express.
fn differences(dense: &ModelSpec, mixture: &ModelSpec, name: &str) -> Vec<Unfit> {
    let mut faults = Vec::new();
    let layers = dense.layers.iter().zip(&mixture.layers);
    for (number, (dense, mixture)) in layers.enumerate() {
        let [has, says] = [dense, mixture].map(|layer| &layer.mixer);
        let window = |layer: &LayerSpec| layer.attention().and_then(|of| of.window);
        let [window, said] = [dense, mixture].map(window);
        if window != said {
            let keys = |window: Option<usize>| window.map_or("all".to_owned(), |w| w.to_string());
            let what = format!("keys that layer {number} sees, as {name} says it");
            faults.push(Unfit::new(what, keys(said), keys(window)));
        } else if has != says {
            let what = format!("the attention of layer {number}, as {name} says it");
            faults.push(Unfit::new(what, format!("{says:?}"), format!("{has:?}")));
        }
    }
    if faults.is_empty() && dense != mixture {
        let what = format!("the model, as {name} says it");
        faults.push(Unfit::new(
            what,
            format!("{mixture:?}"),
            format!("{dense:?}"),
        ));
    }
    faults
}

/// Biases of the dense model, which the families with experts don't have.
fn biases(spec: &ModelSpec) -> Vec<Unfit> {
    let of = |layer: &LayerSpec| {
        let attention = layer.attention();
        let projected = attention.is_some_and(|attention| {
            matches!(attention.projection, Projection::Direct { bias: true, .. })
                || attention.out_bias
        });
        let dense = matches!(&layer.feed_forward, FeedForwardSpec::Dense(network) if network.bias);
        let found = [("attention_bias", projected), ("mlp_bias", dense)];
        found
            .into_iter()
            .filter_map(|(name, biased)| biased.then_some(name))
    };
    let mut names: Vec<_> = spec.layers.iter().flat_map(of).collect();
    names.sort_unstable();
    names.dedup();
    let fault = |name| Unfit::new(name, "false in a model that gets experts", true);
    names.into_iter().map(fault).collect()
}

fn entries_of(
    pair: &Pair,
    mut entries: Map<String, Value>,
    spec: &ModelSpec,
    sizes: Sizes,
) -> Map<String, Value> {
    let [experts, inter] = pair.sizes;
    // The two families have other defaults for keys that a configuration leaves out.
    let attention = spec.layers.iter().find_map(LayerSpec::attention);
    let heads = attention.map_or(0, |attention| attention.kv_heads);
    let theta = attention.and_then(|attention| Some(attention.rope.as_ref()?.theta));
    let rotation = Keys::new(&entries).rotation();
    if rotation.is_none_or(|(_, rope)| !rope.contains_key("rope_theta")) {
        entries.insert("rope_theta".to_owned(), json!(theta));
    }
    let said = [
        ("model_type", json!(pair.mixture)),
        ("architectures", json!([pair.architecture])),
        ("num_key_value_heads", json!(heads)),
        ("rms_norm_eps", json!(spec.epsilon)),
        ("tie_word_embeddings", json!(spec.tied)),
        ("num_experts_per_tok", json!(sizes.top_k)),
        (experts, json!(sizes.experts)),
        (inter, json!(sizes.inter)),
    ];
    entries.extend(said.map(|(key, value)| (key.to_owned(), value)));
    if let Value::Object(also) = (pair.also)() {
        entries.extend(also);
    }
    entries
}
