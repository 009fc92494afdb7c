//! Configurations of models for images and text, which hold that of a text model.

use std::borrow::Cow;

use moebius_weights::{Unfit, quoted};
use serde_json::{Map, Value, json};

/// A kind of model that holds a text model in `text_config`.
pub(super) struct Holder {
    /// The `model_type` of the whole.
    pub(super) name: &'static str,
    /// The `model_type` of the text model, unless the text model's configuration names another.
    text: &'static str,
    /// The class of the text model in transformers.
    architecture: &'static str,
    /// Whether head and embedding are one where no configuration says it.
    tied: bool,
}

/// All such kinds.
pub(super) const HOLDERS: &[Holder] = &[
    Holder {
        name: "gemma3",
        text: "gemma3_text",
        architecture: "Gemma3ForCausalLM",
        tied: true,
    },
    Holder {
        name: "llama4",
        text: "llama4_text",
        architecture: "Llama4ForCausalLM",
        tied: false,
    },
    Holder {
        name: "mistral3",
        text: "mistral",
        architecture: "MistralForCausalLM",
        tied: true,
    },
];

/// The configuration of the text model that `config` holds; `config` itself if it isn't that of a model for images and text.
///
/// # Errors
/// A `text_config` that isn't an object.
pub(crate) fn text_config(config: &Value) -> Result<Cow<'_, Value>, Vec<Unfit>> {
    let named = config["model_type"].as_str();
    let holder = HOLDERS.iter().find(|holder| Some(holder.name) == named);
    let Some(holder) = holder else {
        return Ok(Cow::Borrowed(config));
    };
    let mut text = match &config["text_config"] {
        Value::Null => Map::new(),
        Value::Object(entries) => entries.clone(),
        other => {
            let got = quoted(&other.to_string());
            return Err(vec![Unfit::new("text_config", "an object", got)]);
        }
    };
    let outer = |key: &str| config.get(key).cloned();
    let said = [
        ("model_type", Some(json!(holder.text))),
        ("architectures", Some(json!([holder.architecture]))),
        (
            "tie_word_embeddings",
            outer("tie_word_embeddings").or(Some(json!(holder.tied))),
        ),
        ("quantization_config", outer("quantization_config")),
    ];
    for (key, value) in said {
        if let Some(value) = value {
            text.entry(key).or_insert(value);
        }
    }
    Ok(Cow::Owned(Value::Object(text)))
}
