//! Families of published models: what their `config.json` means, and the names of their tensors. Families that have much in common share a
//! file; nothing outside of this module knows their names.

mod corrected;
mod deepseek_v2;
mod deepseek_v3;
mod defaults;
mod dots1;
mod ernie;
mod gemma;
mod gguf;
mod glm4_moe;
mod gpt_oss;
mod hunyuan;
mod keys;
mod lfm2;
mod llama;
mod llama4;
mod minimax_m2;
mod mistral;
mod nested;
mod olmo;
mod parts;
mod phi3;
mod qwen;
mod rule;
mod upcycled;

#[cfg(test)]
pub(crate) use gguf::GGUF_FAMILIES;
pub(crate) use gguf::ROPE_FACTORS;
pub use gguf::describe_gguf;
pub(crate) use gguf::form as gguf_form;
pub(crate) use nested::text_config;
pub use rule::{Form, Part, Rule};
pub(crate) use upcycled::{Sizes, upcycled};

use moebius_weights::{Unfit, quoted};
use serde_json::{Map, Value};

use crate::decoder::{LayerSpec, ModelSpec, Projection};
use crate::error::Misfits;
use keys::Keys;
use nested::HOLDERS;

/// A family: how the models of one `model_type` are described and stored.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The `model_type` of the family's configurations.
    pub name: &'static str,
    read: fn(&mut Keys<'_>) -> ModelSpec,
    /// Layouts in which the family's checkpoints store tensors, each given by lists of rules. Rules for places that a model doesn't have do
    /// nothing.
    pub layouts: &'static [&'static [&'static [Rule]]],
    /// Names of tensors that nothing is computed from; `*` at the end stands for any ending.
    pub ignored: &'static [&'static str],
    /// Other tensors that checkpoints may contain.
    pub extra: Extra,
}

impl Family {
    /// A family whose checkpoints hold the tensors of its layouts and nothing else.
    const fn new(
        name: &'static str,
        read: fn(&mut Keys<'_>) -> ModelSpec,
        layouts: &'static [&'static [&'static [Rule]]],
    ) -> Self {
        Self {
            name,
            read,
            layouts,
            ignored: &[],
            extra: Extra::None,
        }
    }
}

/// Tensors that a checkpoint may contain in addition to those of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// No other tensors.
    None,
    /// Tensors of layers after the last.
    Layers,
}

/// Tensors that checkpoints of models for images and text hold beside the text model: those of a vision model, and its projection.
const BESIDE_TEXT: &[&str] = &[
    "vision_tower.*",
    "vision_model.*",
    "multi_modal_projector.*",
    "model.vision_tower.*",
    "model.vision_model.*",
    "model.multi_modal_projector.*",
];

/// The model that a configuration describes.
#[derive(Debug)]
pub struct Described {
    /// Family of the model.
    pub family: &'static Family,
    /// Description of the model.
    pub spec: ModelSpec,
    /// Settings that the model asks for and the decoder doesn't support.
    pub unsupported: Vec<Unfit>,
}

/// All families.
pub const FAMILIES: &[Family] = &[
    deepseek_v2::FAMILY,
    deepseek_v3::FAMILY,
    gemma::GEMMA2,
    gemma::GEMMA3,
    dots1::FAMILY,
    ernie::ERNIE4_5,
    ernie::ERNIE4_5_MOE,
    glm4_moe::GLM4_MOE,
    deepseek_v3::GLM4_MOE_LITE,
    gpt_oss::FAMILY,
    llama::GRANITE,
    llama::GRANITEMOE,
    hunyuan::DENSE_V1,
    hunyuan::MOE_V1,
    lfm2::LFM2,
    lfm2::LFM2_MOE,
    llama::LLAMA,
    llama4::FAMILY,
    minimax_m2::FAMILY,
    mistral::MINISTRAL3,
    mistral::MISTRAL,
    llama::MIXTRAL,
    olmo::OLMO2,
    olmo::OLMO3,
    llama::OLMOE,
    phi3::FAMILY,
    qwen::QWEN2,
    qwen::QWEN2_MOE,
    qwen::QWEN3,
    qwen::QWEN3_MOE,
    llama::SEED_OSS,
    llama::SMOLLM3,
    glm4_moe::SOLAR_OPEN,
];

/// Families whose layers may rotate a part of a head. In the others transformers passes over `partial_rotary_factor`, and other programs
/// don't.
const PARTLY_ROTATED: &[&str] = &["glm4_moe", "minimax_m2", "phi3", "solar_open"];

/// Families that people ask for and whose models need a part that the decoder doesn't have.
const MISSING: &[(&str, &str)] = &[
    ("cohere", MEANS),
    ("cohere2", MEANS),
    ("gemma3n", "embeddings for each layer"),
    ("granitemoehybrid", STATES),
    ("jamba", STATES),
    ("nemotron_h", STATES),
    (
        "phimoe",
        "layer norms that subtract the mean, and sparse-mixer routing",
    ),
    ("qwen3_5", DELTA),
    ("qwen3_5_moe", DELTA),
    ("qwen3_5_moe_text", DELTA),
    ("qwen3_5_text", DELTA),
    ("qwen3_next", DELTA),
];

const DELTA: &str = "gated-delta layers, and a cache of their states";
const MEANS: &str = "layer norms that subtract the mean";
const STATES: &str = "state-space layers, and a cache of their states";

/// Reads the model that a `config.json` describes, by the keys of transformers 4 or 5. A key that is left out has the default of
/// transformers for this family. Of a model for images and text, the text model is read.
///
/// # Errors
/// Every value that is missing or wrong, and a `model_type` that no family has.
pub fn describe(config: &Value) -> Result<Described, Vec<Unfit>> {
    let config = text_config(config)?;
    let (family, stated) = family_of(&config)?;
    let mut described = described(family, &defaults::completed(family.name, stated))?;
    if !PARTLY_ROTATED.contains(&family.name) {
        let part = described.spec.layers.iter().find_map(rotated_part);
        let fault = |part: String| Unfit::new("partial_rotary_factor", "1 in this family", part);
        described.unsupported.extend(part.map(fault));
    }
    Ok(described)
}

/// The part of a head that the layer rotates; `None` for a layer that rotates whole heads, or none.
fn rotated_part(layer: &LayerSpec) -> Option<String> {
    let attention = layer.attention()?;
    let width = match attention.projection {
        Projection::Direct { .. } => attention.head_dim,
        Projection::Latent { rotated, .. } => rotated,
    };
    let rotated = attention.rope.as_ref()?.rotated;
    (rotated < width).then(|| format!("{rotated} of {width} elements"))
}

/// The family that a configuration names, and the configuration's keys.
fn family_of(config: &Value) -> Result<(&'static Family, &Map<String, Value>), Vec<Unfit>> {
    let Some(entries) = config.as_object() else {
        let got = quoted(&config.to_string());
        return Err(vec![Unfit::new("the configuration", "an object", got)]);
    };
    let named = config["model_type"].as_str();
    let family = FAMILIES.iter().find(|family| Some(family.name) == named);
    let Some(family) = family else {
        let holders = HOLDERS.iter().map(|holder| holder.name);
        let known = FAMILIES.iter().map(|family| family.name).chain(holders);
        let known: Vec<_> = known.collect();
        let missing = MISSING.iter().find(|(name, _)| Some(*name) == named);
        let got = match missing {
            Some((name, part)) => format!("`{name}`, which needs {part}"),
            None => quoted(&config["model_type"].to_string()),
        };
        let expected = format!("one of {}", known.join(", "));
        return Err(vec![Unfit::new("model_type", expected, got)]);
    };
    Ok((family, entries))
}

/// The model that exactly these keys describe, without defaults.
fn described(
    family: &'static Family,
    entries: &Map<String, Value>,
) -> Result<Described, Vec<Unfit>> {
    let mut keys = Keys::new(entries);
    let spec = (family.read)(&mut keys);
    if !keys.wrong.is_empty() {
        keys.wrong.extend(keys.unsupported);
        return Err(each_once(keys.wrong));
    }
    let unsupported = each_once(keys.unsupported);
    Ok(Described {
        family,
        spec,
        unsupported,
    })
}

/// Like [`describe`], and refuses a model with settings that the decoder doesn't support.
///
/// # Errors
/// As [`describe`], and every setting that the decoder doesn't support.
pub fn describe_all(config: &Value) -> Result<Described, Misfits> {
    let described = describe(config).map_err(Misfits::of_config)?;
    if described.unsupported.is_empty() {
        Ok(described)
    } else {
        Err(Misfits::of_config(described.unsupported))
    }
}

/// Removes repeated faults: several parts of a model may have read the same key.
fn each_once(mut faults: Vec<Unfit>) -> Vec<Unfit> {
    let mut seen = Vec::new();
    faults.retain(|fault| {
        let text = fault.to_string();
        let new = !seen.contains(&text);
        seen.push(text);
        new
    });
    faults
}

#[cfg(test)]
mod lfm2_tests;
#[cfg(test)]
mod rotary_tests;
#[cfg(test)]
mod tests;
