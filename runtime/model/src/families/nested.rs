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
    /// Where the configuration of the whole decides whether head and embedding are one: what it means if it doesn't say so. `None` where that
    /// of the text model decides, and the whole's counts only if the text model's doesn't say so.
    tied: Option<bool>,
}

/// All such kinds.
pub(super) const HOLDERS: &[Holder] = &[
    Holder {
        name: "gemma3",
        text: "gemma3_text",
        architecture: "Gemma3ForCausalLM",
        tied: Some(true),
    },
    Holder {
        name: "llama4",
        text: "llama4_text",
        architecture: "Llama4ForCausalLM",
        tied: None,
    },
    Holder {
        name: "mistral3",
        text: "mistral",
        architecture: "MistralForCausalLM",
        tied: Some(true),
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
    let outer = |key: &str| config.get(key).filter(|value| !value.is_null()).cloned();
    let tied = outer("tie_word_embeddings");
    if let Some(default) = holder.tied {
        text.insert(
            "tie_word_embeddings".to_owned(),
            tied.clone().unwrap_or(json!(default)),
        );
    }
    let said = [
        ("model_type", Some(json!(holder.text))),
        ("architectures", Some(json!([holder.architecture]))),
        ("tie_word_embeddings", tied),
        ("quantization_config", outer("quantization_config")),
    ];
    for (key, value) in said {
        if let Some(value) = value {
            text.entry(key).or_insert(value);
        }
    }
    Ok(Cow::Owned(Value::Object(text)))
}
