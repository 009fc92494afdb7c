//! Metadata of a GGUF file for a model: the inverse of what [`describe_gguf`] reads, which judges it.

use moebius::moe::{MoeConfig, RouteConfig, RouterConfig, Score};
use moebius_weights::gguf::{GgufFile, GgufNumbers, GgufValue};
use moebius_weights::{Unfit, quoted};
use serde_json::Value;

use super::parameters::KV_HEADS;
use super::{ARCHITECTURES, Architecture, ROPE_FACTORS, describe_gguf};
use crate::decoder::{
    AttentionSpec, FeedForwardSpec, LayerSpec, Mixer, ModelSpec, Projection, Rope, RopeScaling,
    yarn_attention,
};
use crate::families::Family;

/// Families whose models can be written, and those that the files' readers take them for.
const WRITTEN: &[(&str, &str)] = &[
    ("deepseek_v2", "deepseek_v3"),
    ("deepseek_v3", "deepseek_v3"),
    ("dots1", "dots1"),
    ("ernie4_5_moe", "ernie4_5_moe"),
    ("gemma3_text", "gemma3_text"),
    ("glm4_moe", "glm4_moe"),
    ("gpt_oss", "gpt_oss"),
    ("granite", "granite"),
    ("granitemoe", "granitemoe"),
    ("hunyuan_v1_dense", "hunyuan_v1_dense"),
    ("hunyuan_v1_moe", "hunyuan_v1_moe"),
    ("lfm2", "lfm2"),
    ("lfm2_moe", "lfm2_moe"),
    ("llama", "llama"),
    ("minimax_m2", "minimax_m2"),
    ("ministral3", "ministral3"),
    ("mistral", "llama"),
    ("mixtral", "mixtral"),
    ("olmoe", "olmoe"),
    ("qwen2", "qwen2"),
    ("qwen2_moe", "qwen2_moe"),
    ("qwen3", "qwen3"),
    ("qwen3_moe", "qwen3_moe"),
];

/// Architectures in which llama.cpp decides by itself whether the weights of the chosen experts are divided by their sum, whatever a file
/// says.
const DECIDED: [&str; 3] = ["olmoe", "qwen2moe", "qwen3moe"];

/// Largest relative difference between a number and the one that a file stands for, which has it in 32 bits.
const ROUNDED: f64 = 1e-6;

/// A model in the form that a GGUF file has it in.
pub(crate) struct Form {
    /// Family with the layouts of the architecture's files.
    pub(crate) family: &'static Family,
    /// The value of `general.architecture`.
    pub(crate) architecture: &'static str,
    /// Keys and values that describe the model.
    pub(crate) metadata: Vec<(String, GgufValue)>,
    /// The model; its head is untied where the architecture always has one.
    pub(crate) spec: ModelSpec,
    /// What the frequencies of rotary positions are divided by, for the tensor of this name.
    pub(crate) divisors: Option<Vec<f32>>,
    /// What llama.cpp computes otherwise than the file says, in words; `None` where it does not.
    pub(crate) note: Option<String>,
}

/// The form of a model of the family `name`.
///
/// # Errors
/// A family that can't be written, and a model with a part that no key of its architecture describes.
pub(crate) fn form(spec: &ModelSpec, name: &str) -> Result<Form, Unfit> {
    let known = WRITTEN.iter().find(|(written, _)| *written == name);
    let refuse = || {
        let names: Vec<_> = WRITTEN.iter().map(|(name, _)| *name).collect();
        let expected = format!(
            "a family that GGUF files are written of: {}",
            names.join(", ")
        );
        Unfit::new("model_type", expected, quoted(name))
    };
    let (_, read) = known.ok_or_else(refuse)?;
    let families = ARCHITECTURES.iter().flat_map(|of| {
        let both = [of.dense, of.sparse].into_iter().flatten();
        both.map(move |family| (of, family))
    });
    let mut fitting = families.filter(|(_, family)| family.name == *read);
    let (architecture, family) = fitting.next().ok_or_else(refuse)?;
    let mut spec = spec.clone();
    spec.cache_scales.clear();
    spec.tied &= architecture.tied;
    let mut entries = Entries {
        architecture,
        all: Vec::new(),
        note: None,
    };
    entries.describe(&spec);
    let divides = family.ignored.contains(&ROPE_FACTORS);
    let ropes = spec.layers.iter().filter_map(LayerSpec::attention);
    let mut ropes = ropes.filter_map(|attention| attention.rope.as_ref());
    let divisors = ropes.next().filter(|_| divides).and_then(divisors);
    Ok(Form {
        family,
        architecture: architecture.name,
        metadata: entries.all,
        spec,
        divisors,
        note: entries.note,
    })
}

impl Form {
    /// Checks that a reader finds the model in a file with this metadata; `name` is the family of the model.
    ///
    /// # Errors
    /// The first difference, or the first thing that the reader refuses.
    pub(crate) fn check(&self, file: &GgufFile, name: &str) -> Result<(), Unfit> {
        let of_family = |fault: Unfit| Unfit {
            what: format!("{} of a model of the family `{name}`", fault.what),
            ..fault
        };
        let (read, faults) = match describe_gguf(file) {
            Ok(read) => (Some(read.spec), read.unsupported),
            Err(faults) => (None, faults),
        };
        if let Some(fault) = faults.into_iter().next() {
            return Err(of_family(fault));
        }
        let mut expected = self.spec.clone();
        if self.divisors.is_some() {
            // The reader takes these from the tensor, which has no values yet.
            let attentions = expected.layers.iter_mut();
            for attention in attentions.filter_map(LayerSpec::attention_mut) {
                if let Some(rope) = &mut attention.rope {
                    rope.scaling = RopeScaling::None;
                }
            }
        }
        let (expected, got) = (serde_json::to_value(&expected), serde_json::to_value(&read));
        let (Ok(expected), Ok(got)) = (expected, got) else {
            unreachable!("a description has names, numbers and lists alone");
        };
        difference("the description", &expected, &got).map_or(Ok(()), |fault| Err(of_family(fault)))
    }
}

/// What the frequencies of a Llama 3.1 are divided by; `None` for other ways to stretch the context.
fn divisors(rope: &Rope) -> Option<Vec<f32>> {
    let RopeScaling::Llama3 { .. } = rope.scaling else {
        return None;
    };
    let plain = Rope {
        scaling: RopeScaling::None,
        ..rope.clone()
    };
    let pairs = plain.frequencies().into_iter().zip(rope.frequencies());
    Some(pairs.map(|(plain, scaled)| plain / scaled).collect())
}

/// The first place in which two descriptions differ by more than rounding: its path, and both values.
fn difference(path: &str, expected: &Value, got: &Value) -> Option<Unfit> {
    if let (Value::Object(one), Value::Object(other)) = (expected, got) {
        let mut keys = one.keys().chain(other.keys());
        return keys
            .find_map(|key| difference(&format!("{path}.{key}"), &expected[key], &got[key]));
    }
    if let (Value::Array(one), Value::Array(other)) = (expected, got)
        && one.len() == other.len()
    {
        let mut pairs = one.iter().zip(other).enumerate();
        return pairs
            .find_map(|(at, (one, other))| difference(&format!("{path}[{at}]"), one, other));
    }
    let alike = match (expected.as_f64(), got.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= ROUNDED * one.abs().max(other.abs()),
        _ => expected == got,
    };
    let what = format!("a key of GGUF for {path}");
    (!alike).then(|| Unfit::new(what, expected, got))
}

/// Metadata of an architecture that is being collected.
struct Entries {
    architecture: &'static Architecture,
    all: Vec<(String, GgufValue)>,
    note: Option<String>,
}

impl Entries {
    fn add(&mut self, name: &str, value: GgufValue) {
        let key = format!("{}.{name}", self.architecture.name);
        self.all.push((key, value));
    }

    fn size(&mut self, name: &str, size: usize) {
        self.add(name, GgufValue::Unsigned(size as u64));
    }

    fn number(&mut self, name: &str, number: f64) {
        self.add(name, GgufValue::Single(number as f32));
    }

    /// Whether the architecture has a key beside those of all architectures.
    fn has(&self, name: &str) -> bool {
        let mut own = self.architecture.own.iter().copied().flatten();
        own.any(|(known, _)| *known == name)
    }

    /// Adds a number if the architecture has the key.
    fn own(&mut self, name: &str, number: f64) {
        if self.has(name) {
            self.number(name, number);
        }
    }

    fn describe(&mut self, spec: &ModelSpec) {
        let layers = &spec.layers;
        let experts = layers.iter().find_map(|layer| match &layer.feed_forward {
            FeedForwardSpec::Experts(experts) => Some(experts),
            FeedForwardSpec::Dense(_) => None,
        });
        let dense = layers.iter().find_map(|layer| layer.feed_forward.width());
        let width = dense.or(experts.map(|experts| experts.inter));
        for (name, size) in [
            ("context_length", spec.positions),
            ("embedding_length", spec.hidden),
            ("block_count", layers.len()),
            ("feed_forward_length", width.unwrap_or_default()),
            ("vocab_size", spec.vocabulary),
        ] {
            self.size(name, size);
        }
        self.number("attention.layer_norm_rms_epsilon", spec.epsilon);
        self.own("embedding_scale", spec.embedding_scale);
        self.own("logit_scale", 1.0 / spec.logits_scale);
        if let Some(layer) = layers.first() {
            self.own("residual_scale", layer.residual);
        }
        if let Some(bound) = spec.logits_softcap {
            self.own("final_logit_softcapping", bound);
        }
        self.mixers(layers);
        if let Some(experts) = experts {
            self.experts(experts);
            self.order(layers);
        }
    }

    /// Adds which layers have experts.
    fn order(&mut self, layers: &[LayerSpec]) {
        let dense = |layer: &LayerSpec| matches!(layer.feed_forward, FeedForwardSpec::Dense(_));
        let leading = layers.iter().take_while(|layer| dense(layer)).count();
        if self.has("leading_dense_block_count") {
            self.size("leading_dense_block_count", leading);
        }
        if self.has("interleave_moe_layer_step") {
            let fits = |step: &usize| {
                let mut all = layers.iter().enumerate().skip(leading);
                all.all(|(at, layer)| dense(layer) != (at + 1).is_multiple_of(*step))
            };
            let step = (1..=layers.len()).find(fits).unwrap_or(1);
            self.size("interleave_moe_layer_step", step);
        }
    }

    /// Adds what the layers' attention is, and which of them have windows or convolutions.
    fn mixers(&mut self, layers: &[LayerSpec]) {
        let all = || layers.iter().filter_map(LayerSpec::attention);
        // In families with windows in some layers, the others' positions have the plain keys.
        let whole = all().find(|of| of.window.is_none());
        let windowed = all().find(|of| of.window.is_some());
        if let Some(of) = whole.or(windowed) {
            self.attention(of, layers);
        }
        if let Some(window) = windowed.and_then(|of| of.window) {
            self.size("attention.sliding_window", window);
        }
        let local = windowed.and_then(|of| of.rope.as_ref());
        if let Some(rope) = local {
            self.own("rope.freq_base_swa", rope.theta);
        }
        if self.has("attention.sliding_window_pattern") {
            let fits = |step: &usize| {
                let mut windows = all().map(|of| of.window.is_some()).enumerate();
                windows.all(|(at, windowed)| windowed != (at + 1).is_multiple_of(*step))
            };
            // A pattern beyond the last layer has a window in every layer.
            let step = (1..=layers.len() + 1).find(fits).unwrap_or(1);
            self.size("attention.sliding_window_pattern", step);
        }
        let taps = layers.iter().find_map(|layer| match &layer.mixer {
            Mixer::Convolution(of) => Some(of.taps),
            Mixer::Attention(_) => None,
        });
        if let Some(taps) = taps {
            self.size("shortconv.l_cache", taps);
        }
    }

    /// Adds the number of key and value heads, which is 0 in layers with a convolution.
    fn key_heads(&mut self, heads: usize, layers: &[LayerSpec]) {
        let of_layer = |layer: &LayerSpec| layer.attention().map_or(0, |of| of.kv_heads as i32);
        let all: Vec<i32> = layers.iter().map(of_layer).collect();
        if all.contains(&0) {
            let all = GgufNumbers::from(&all[..]);
            self.add(KV_HEADS, GgufValue::Numbers(all));
        } else {
            self.size(KV_HEADS, heads);
        }
    }

    fn attention(&mut self, of: &AttentionSpec, layers: &[LayerSpec]) {
        self.size("attention.head_count", of.heads);
        self.own("attention.scale", of.scale);
        match of.projection {
            Projection::Direct { clip, .. } => {
                self.key_heads(of.kv_heads, layers);
                self.size("attention.key_length", of.head_dim);
                self.size("attention.value_length", of.value_dim);
                if let Some(clip) = clip {
                    self.number("attention.clamp_kqv", clip);
                }
            }
            Projection::Latent {
                query_rank,
                rank,
                rotated,
                ..
            } => {
                // All heads share the narrow vector, which files describe as one head of keys and values.
                self.size(KV_HEADS, 1);
                self.size("attention.key_length", rank + rotated);
                self.size("attention.value_length", rank);
                self.size("attention.key_length_mla", of.head_dim);
                self.size("attention.value_length_mla", of.value_dim);
                self.size("attention.kv_lora_rank", rank);
                if let Some(rank) = query_rank {
                    self.size("attention.q_lora_rank", rank);
                }
            }
        }
        if let Some(temperature) = of.temperature {
            self.own("attention.temperature_scale", temperature.scale);
        }
        if let Some(rope) = &of.rope {
            self.size("rope.dimension_count", rope.rotated);
            self.number("rope.freq_base", rope.theta);
            self.scaling(rope, of);
        }
    }

    /// Adds how the context is stretched.
    fn scaling(&mut self, rope: &Rope, of: &AttentionSpec) {
        let mut kind = |kind: &str, factor: f64| {
            self.add("rope.scaling.type", GgufValue::Text(kind.to_owned()));
            self.number("rope.scaling.factor", factor);
        };
        match &rope.scaling {
            RopeScaling::Linear { factor } => kind("linear", *factor),
            RopeScaling::Yarn {
                factor,
                original,
                attention,
                ..
            } => {
                kind("yarn", *factor);
                self.size("rope.scaling.original_context_length", *original as usize);
                // DeepSeek's models scale the scores by the square of a factor, of which files have this part.
                let scores = (of.scale * (of.head_dim as f64).sqrt()).sqrt();
                let multiplier = (scores - 1.0) / factor.ln();
                let name = "rope.scaling.yarn_log_multiplier";
                if multiplier.abs() > ROUNDED {
                    self.own(name, multiplier);
                } else if *attention != yarn_attention(*factor, 1.0) {
                    // Equal factors for both of YaRN's cancel each other out, whatever they are.
                    self.own(name, 1.0);
                }
            }
            // The reader doesn't find the others, unless a tensor has them.
            _ => {}
        }
    }

    fn experts(&mut self, of: &MoeConfig) {
        self.size("expert_count", of.experts);
        self.size("expert_used_count", of.top_k());
        self.size("expert_feed_forward_length", of.inter);
        if let Some(shared) = of.shared {
            if self.has("expert_shared_count") {
                let count = shared.inter.checked_div(of.inter);
                self.size("expert_shared_count", count.unwrap_or_default());
            } else {
                self.size("expert_shared_feed_forward_length", shared.inter);
            }
        }
        match &of.router {
            RouterConfig::TopK(router) => self.route(&router.route),
            RouterConfig::SigmoidBias(router) => self.route(&router.route),
            // No family has another one, and a reader would not find it.
            _ => {}
        }
    }

    fn route(&mut self, of: &RouteConfig) {
        let architecture = self.architecture;
        match of.score {
            Score::Sigmoid => self.size("expert_gating_func", 2),
            _ if architecture.name == "deepseek2" => self.size("expert_gating_func", 1),
            _ => {}
        }
        self.own("expert_weights_scale", f64::from(of.scale));
        if let Some(groups) = of.groups
            && self.has("expert_group_count")
        {
            self.size("expert_group_count", groups.count);
            self.size("expert_group_used_count", groups.chosen);
        }
        let differs = of.renormalize != architecture.renormalize && !of.softmax_after_topk;
        if differs || self.has("expert_weights_scale") {
            self.add("expert_weights_norm", GgufValue::Flag(of.renormalize));
        }
        if differs && DECIDED.contains(&architecture.name) {
            let what = if of.renormalize {
                "divides the weights of the chosen experts by their sum, which llama.cpp does not do"
            } else {
                "does not divide the weights of the chosen experts by their sum, which llama.cpp does"
            };
            let name = architecture.name;
            self.note = Some(format!("the model {what} in the architecture {name}"));
        }
    }
}
