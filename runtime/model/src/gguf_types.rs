//! Types of the matrices of a GGUF file that is written: one for all, or one of llama.cpp's mixes.
//!
//! The mixes are those of llama.cpp's `llama-quantize` without an importance matrix (`llama_tensor_get_type_impl` of 2026), for the
//! architectures that are written here.

use moebius_weights::gguf::GgmlType;

use crate::decoder::{FeedForwardSpec, LayerSpec, ModelSpec, Place, Slot};

/// The types that the matrices of a GGUF file get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufTypes {
    name: &'static str,
    kind: GgmlType,
    mix: Option<Mix>,
    /// The value of `general.file_type`.
    file_type: u64,
}

/// Which matrices of a mix get more bits than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    /// S: the head, and few of the first layers.
    Small,
    /// M: the head, and half of the layers.
    Medium,
}

const fn one(kind: GgmlType, file_type: u64) -> GgufTypes {
    GgufTypes {
        name: kind.name(),
        kind,
        mix: None,
        file_type,
    }
}

const fn mix(name: &'static str, kind: GgmlType, mix: Mix, file_type: u64) -> GgufTypes {
    GgufTypes {
        name,
        kind,
        mix: Some(mix),
        file_type,
    }
}

/// All that can be written: a type for all matrices, and mixes. The number of a file of one K type is that of the small mix, as llama.cpp
/// has none for it.
pub const GGUF_TYPES: [GgufTypes; 17] = [
    one(GgmlType::F32, 0),
    one(GgmlType::F16, 1),
    one(GgmlType::BF16, 32),
    one(GgmlType::Q8_0, 7),
    one(GgmlType::Q4_0, 2),
    one(GgmlType::Q4_1, 3),
    one(GgmlType::Q5_0, 8),
    one(GgmlType::Q5_1, 9),
    one(GgmlType::Q4_K, 14),
    one(GgmlType::Q5_K, 16),
    one(GgmlType::Q6_K, 18),
    one(GgmlType::IQ4_NL, 25),
    one(GgmlType::MXFP4, 38),
    mix("Q4_K_S", GgmlType::Q4_K, Mix::Small, 14),
    mix("Q4_K_M", GgmlType::Q4_K, Mix::Medium, 15),
    mix("Q5_K_S", GgmlType::Q5_K, Mix::Small, 16),
    mix("Q5_K_M", GgmlType::Q5_K, Mix::Medium, 17),
];

/// The number of experts of the models whose attention llama.cpp gives more bits.
const EIGHT: usize = 8;
/// The number of layers of the models with 70 billion weights, whose values llama.cpp gives more bits.
const LAYERS_OF_70B: usize = 80;
/// Values in a row that a head of a K type needs a multiple of.
const BLOCK: usize = 256;

impl GgufTypes {
    /// The types with this name, whatever the case of its letters.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = GGUF_TYPES.into_iter();
        all.find(|types| types.name.eq_ignore_ascii_case(name))
    }

    /// This type for all matrices; `None` for one that can't be encoded.
    pub fn of(kind: GgmlType) -> Option<Self> {
        let mut all = GGUF_TYPES.into_iter();
        all.find(|types| types.kind == kind && types.mix.is_none())
    }

    /// Name of the type or of the mix.
    pub fn name(self) -> &'static str {
        self.name
    }

    pub(crate) fn file_type(self) -> u64 {
        self.file_type
    }

    /// The type of the matrices of a place with rows of `row` values, in a file of this architecture; `spec` is the model with a head of
    /// its own where the file has one.
    pub(crate) fn of_place(
        self,
        at: Place,
        row: usize,
        (spec, architecture): (&ModelSpec, &str),
    ) -> GgmlType {
        let Some(mix) = self.mix else {
            return self.kind;
        };
        let (medium, four) = (mix == Mix::Medium, self.kind == GgmlType::Q4_K);
        let eight = experts(spec) == EIGHT;
        let count = spec.layers.len();
        let is_head = at.slot == Slot::Head || (at.slot == Slot::Embedding && spec.tied);
        match at.slot {
            _ if is_head && !row.is_multiple_of(BLOCK) => GgmlType::Q8_0,
            _ if is_head => GgmlType::Q6_K,
            Slot::Value | Slot::Key if eight => GgmlType::Q8_0,
            Slot::Value => {
                let [before, all] = values(spec, at.layer);
                let few = four && (!medium && before < 4 || is_70b(spec, architecture));
                match (medium && has_more(before, all), few) {
                    (true, _) => GgmlType::Q6_K,
                    (false, true) => GgmlType::Q5_K,
                    (false, false) => self.kind,
                }
            }
            Slot::Out if eight && four => GgmlType::Q5_K,
            Slot::DenseOut | Slot::ExpertsOut | Slot::SharedOut => {
                let first = !medium && four && at.layer < count / 8;
                match (medium && has_more(at.layer, count), first) {
                    (true, _) => GgmlType::Q6_K,
                    (false, true) => GgmlType::Q5_K,
                    (false, false) => self.kind,
                }
            }
            _ => self.kind,
        }
    }
}

/// Whether a medium mix gives more bits to layer `at` of `count`: the first and the last eighth, and every third between.
fn has_more(at: usize, count: usize) -> bool {
    let eighth = count / 8;
    at < eighth || at >= 7 * count / 8 || (at - eighth) % 3 == 2
}

/// The number of experts of a layer that has some; 0 for a dense model.
fn experts(spec: &ModelSpec) -> usize {
    let mut experts = spec.layers.iter().filter_map(|of| match &of.feed_forward {
        FeedForwardSpec::Experts(experts) => Some(experts.experts),
        FeedForwardSpec::Dense(_) => None,
    });
    experts.next().unwrap_or(0)
}

/// The number of layers before layer `at` that have a projection of values, and that of all layers that do.
fn values(spec: &ModelSpec, at: usize) -> [usize; 2] {
    let has = |layer: &usize| Slot::Value.shape(spec, *layer).is_some();
    let count = spec.layers.len();
    [at, count].map(|end| (0..end).filter(has).count())
}

/// Whether llama.cpp takes a model for one with 70 billion weights.
fn is_70b(spec: &ModelSpec, architecture: &str) -> bool {
    let attention = spec.layers.iter().find_map(LayerSpec::attention);
    let shared = attention.is_some_and(|of| of.heads != of.kv_heads);
    let named = architecture == "qwen2" || (architecture == "llama" && shared);
    spec.layers.len() == LAYERS_OF_70B && named
}

#[cfg(test)]
#[path = "gguf_types_tests.rs"]
mod tests;
