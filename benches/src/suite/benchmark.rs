//! The names of what is measured.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// What is measured on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Launches of next to no work, and one byte through the small byte model.
    Launches,
    /// Kernels of ours alone: the product per expert and its gradients.
    GroupedGemm,
    /// A mixture-of-experts layer, forward.
    Moe,
    /// The same layer, forward and backward.
    MoeBackward,
    /// Causal attention, forward.
    Attention,
    /// Causal attention, forward and backward.
    AttentionBackward,
    /// A linear layer with FP8 weights.
    Linear,
    /// One token over the tokens that a cache keeps, in f32 and FP8.
    Decode,
    /// A step of training a small transformer in ordinary Burn modules.
    #[cfg(feature = "flex")]
    TrainingStep,
    /// A call of a program that XLA compiled.
    #[cfg(feature = "xla")]
    XlaCall,
}

/// A name that is none of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a benchmark, one of {}, got `{got}`", names())]
pub struct UnknownBenchmark {
    /// What was asked for.
    pub got: String,
}

impl Benchmark {
    /// All of this build, in the order in which they are measured.
    pub const ALL: &'static [Self] = &[
        Self::Launches,
        Self::GroupedGemm,
        Self::Moe,
        Self::MoeBackward,
        Self::Attention,
        Self::AttentionBackward,
        Self::Linear,
        Self::Decode,
        #[cfg(feature = "flex")]
        Self::TrainingStep,
        #[cfg(feature = "xla")]
        Self::XlaCall,
    ];

    /// What it is called on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::GroupedGemm => "grouped-gemm",
            Self::Moe => "moe",
            Self::MoeBackward => "moe-backward",
            Self::Attention => "attention",
            Self::AttentionBackward => "attention-backward",
            Self::Linear => "linear",
            Self::Decode => "decode",
            #[cfg(feature = "flex")]
            Self::TrainingStep => "training-step",
            #[cfg(feature = "xla")]
            Self::XlaCall => "xla-call",
        }
    }
}

/// The names of all, for an error.
fn names() -> String {
    let names: Vec<&str> = Benchmark::ALL.iter().map(|one| one.name()).collect();
    names.join(", ")
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Benchmark {
    type Err = UnknownBenchmark;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.iter().copied();
        let named = all.find(|benchmark| benchmark.name() == text);
        named.ok_or_else(|| UnknownBenchmark {
            got: text.to_owned(),
        })
    }
}

impl Serialize for Benchmark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
