//! Translation of a GGUF architecture's metadata to the keys of a `config.json`.

use moebius_weights::gguf::{GgufFile, GgufNumbers, GgufValue};
use moebius_weights::{Unfit, quoted};
use serde_json::{Map, Value, json};

/// Metadata keys, without the prefix of the architecture, and their names in a configuration.
const SAME: &[(&str, &str)] = &[
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    (
        "expert_shared_feed_forward_length",
        "shared_expert_intermediate_size",
    ),
    ("attention.head_count", "num_attention_heads"),
    (KV_HEADS, "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.clamp_kqv", "clip_qkv"),
    ("rope.freq_base", "rope_theta"),
    ("expert_count", "num_local_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_weights_norm", "norm_topk_prob"),
];

/// Keys of numbers that get special treatment.
const READ: &[&str] = &[
    "attention.value_length",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scale_linear",
];

/// Key of the number of key and value heads.
pub(super) const KV_HEADS: &str = "attention.head_count_kv";

/// Key of the text that names the method of stretching the context.
const SCALING: &str = "rope.scaling.type";

/// Key of the function from an expert's logit to its score, which architectures differ in.
const GATING: &str = "expert_gating_func";

/// Keys without effect on the computation.
const IGNORED: &[&str] = &[
    "vocab_size",
    "tensor_data_layout",
    "attention.layer_norm_epsilon",
    "rope.scaling.finetuned",
];

/// Keys with the only values that the decoder supports for these architectures.
const NEUTRAL: &[(&str, &[f64])] = &[
    ("expert_weights_scale", &[0.0, 1.0]),
    ("expert_group_count", &[0.0, 1.0]),
    ("expert_group_used_count", &[0.0, 1.0]),
    ("expert_shared_count", &[0.0, 1.0]),
    ("leading_dense_block_count", &[0.0]),
    ("moe_every_n_layers", &[0.0, 1.0]),
    ("interleave_moe_layer_step", &[0.0, 1.0]),
    ("nextn_predict_layers", &[0.0]),
    ("attention.max_alibi_bias", &[0.0]),
    ("logit_scale", &[0.0, 1.0]),
    ("residual_scale", &[0.0, 1.0]),
    ("embedding_scale", &[0.0, 1.0]),
    ("rope.scaling.attn_factor", &[1.0]),
    ("rope.scaling.yarn_beta_fast", &[32.0]),
    ("rope.scaling.yarn_beta_slow", &[1.0]),
    ("attn_logit_softcapping", &[0.0]),
    ("final_logit_softcapping", &[0.0]),
];

/// Metadata keys, without the prefix of the architecture, and their names in a configuration.
pub(super) type Names = &'static [(&'static str, &'static str)];

/// Reader of an architecture's metadata, which collects what is wrong with the values.
pub(super) struct Parameters<'a> {
    file: &'a GgufFile,
    architecture: &'static str,
    /// Keys beside those of all architectures.
    own: &'static [Names],
    pub(super) faults: Vec<Unfit>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(
        file: &'a GgufFile,
        architecture: &'static str,
        own: &'static [Names],
    ) -> Self {
        Self {
            file,
            architecture,
            own,
            faults: Vec::new(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a GgufValue> {
        self.file.value(&self.key(name))
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn refuse(&mut self, name: &str, expected: impl ToString, got: impl ToString) {
        let what = quoted(&self.key(name));
        self.faults.push(Unfit::new(what, expected, got));
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_number()
    }

    /// The metadata keys that a configuration has under another name.
    fn same(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> + use<> {
        SAME.iter().chain(self.own.iter().copied().flatten())
    }

    /// The configuration made from all of the architecture's keys that have a meaning here.
    pub(super) fn config(&mut self) -> Map<String, Value> {
        let mut config = Map::new();
        let convolves = self.get("shortconv.l_cache").is_some();
        for (name, key) in self.same() {
            // Layers with a convolution have no heads.
            if convolves && *name == KV_HEADS {
                continue;
            }
            let Some(value) = self.get(name) else {
                continue;
            };
            match of_all_layers(value) {
                Some(value) => {
                    config.insert((*key).to_owned(), value);
                }
                None => {
                    let expected = "a number that is the same for all layers";
                    self.refuse(name, expected, value.shown());
                }
            }
        }
        self.refuse_unknown();
        config
    }

    /// Refuses unknown keys, as they might change the computation.
    fn refuse_unknown(&mut self) {
        let before = format!("{}.", self.architecture);
        let all = self.file.metadata();
        let own = all.filter_map(|(key, value)| Some((key.strip_prefix(&before)?, value)));
        for (name, value) in own {
            let same = self.same().any(|(known, _)| *known == name);
            if same || [SCALING, GATING].contains(&name) || IGNORED.contains(&name) {
                continue;
            }
            if READ.contains(&name) {
                if value.as_number().is_none_or(|number| !number.is_finite()) {
                    self.refuse(name, "a number", value.shown());
                }
                continue;
            }
            let neutral = NEUTRAL.iter().find(|(known, _)| *known == name);
            match neutral {
                Some((_, values)) => self.check(name, value, values),
                None => {
                    let expected = "no key that this version doesn't know";
                    self.refuse(name, expected, value.shown());
                }
            }
        }
    }

    /// Refuses a value that isn't one of `values`.
    fn check(&mut self, name: &str, value: &GgufValue, values: &[f64]) {
        let number = value.as_number();
        if !number.is_some_and(|number| values.contains(&number)) {
            let values: Vec<_> = values.iter().map(f64::to_string).collect();
            self.refuse(name, values.join(" or "), value.shown());
        }
    }

    /// Refuses a function from logits to scores that isn't one of `values`.
    pub(super) fn check_gating(&mut self, values: &[f64]) {
        if let Some(value) = self.get(GATING) {
            self.check(GATING, value, values);
        }
    }

    /// The stretching of rotary positions, as the `rope_scaling` of a configuration.
    pub(super) fn rope_scaling(&mut self) -> Option<Value> {
        let linear = self.number("rope.scale_linear");
        let kind = match self.get(SCALING) {
            None if linear.is_some_and(|factor| factor != 1.0) => {
                return Some(json!({"rope_type": "linear", "factor": linear}));
            }
            // A factor without a type is linear scaling.
            None => match self.get("rope.scaling.factor") {
                None => return None,
                Some(_) => "linear",
            },
            Some(value) => value.as_text().unwrap_or_default(),
        };
        let factor = self.number("rope.scaling.factor");
        let original = self.number("rope.scaling.original_context_length");
        match kind {
            "none" => None,
            "linear" => {
                let factor = factor.or(linear).unwrap_or(1.0);
                Some(json!({"rope_type": kind, "factor": factor}))
            }
            "yarn" => Some(json!({
                "rope_type": kind,
                "factor": factor,
                "original_max_position_embeddings": original,
            })),
            other => {
                let expected = "`none`, `linear` or `yarn`";
                self.refuse(SCALING, expected, quoted(other));
                None
            }
        }
    }

    /// The faults of a configuration, under the names of the metadata.
    pub(super) fn rename(&self, faults: Vec<Unfit>) -> Vec<Unfit> {
        let renamed = faults.into_iter().map(|fault| {
            let known = self.same().find(|(_, key)| *key == fault.what);
            let what = known.map(|(name, _)| quoted(&self.key(name)));
            let got = match fault.got.as_str() {
                "`null`" => "none".to_owned(),
                _ => fault.got,
            };
            Unfit {
                what: what.unwrap_or(fault.what),
                got,
                ..fault
            }
        });
        renamed.collect()
    }
}

/// A number or a flag, or the common value of a list with one entry for each layer.
fn of_all_layers(value: &GgufValue) -> Option<Value> {
    match value {
        GgufValue::Flag(flag) => Some(json!(flag)),
        GgufValue::Numbers(numbers) => common(numbers),
        number => match number.as_size() {
            Some(size) => Some(json!(size)),
            None => {
                let number = number.as_number().filter(|number| number.is_finite());
                number.map(|number| json!(number))
            }
        },
    }
}

fn common(numbers: &GgufNumbers) -> Option<Value> {
    let mut all = numbers.iter();
    let first = all.next()?;
    all.all(|value| value == first)
        .then(|| of_all_layers(&first))
        .flatten()
}
