//! The configuration of a training, and the subject: the model to train.

use std::f64::consts::PI;

use burn::tensor::{DType, Device, Tensor};
use moebius::fp8::training::{Fp8Recipe, LossScaling};
use moebius::moe::LossWeights;
use moebius_weights::Unfit;
use serde::{Deserialize, Serialize};

use crate::bytes::{DecoderConfig, VOCABULARY};
use crate::dataset::TrainingData;
use crate::decoder::{Drawn, LayerSpec, Model, ModelSpec};
use crate::error::Error;
use crate::load::BaseWeights;

/// Learning rate of the last step, as a share of the peak.
const LAST_RATE: f64 = 0.1;

/// Tokens of the largest step of several batches: their numbers are made on the host at once.
const MOST_TOKENS: usize = 1 << 28;

/// Precision that products are computed in. What is trained, the sums of its gradients over batches, moments, norms, routers and the cross
/// entropy are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// All products in f32.
    #[default]
    F32,
    /// All products and attention in bf16 with sums in f32, forward and backward, and so is what layers pass on: each pass rounds weights, whose
    /// gradients come back in f32. A device that lacks bf16 refuses.
    Bf16,
    /// FP8, forward and backward, for the linear layers of attention and of experts or the dense feed-forward network; shared experts and the
    /// head stay f32.
    Fp8(Fp8Recipe),
}

impl Precision {
    /// The FP8 recipe; `None` for other precisions.
    pub fn recipe(&self) -> Option<Fp8Recipe> {
        match self {
            Self::F32 | Self::Bf16 => None,
            Self::Fp8(recipe) => Some(*recipe),
        }
    }

    /// The dtype that passes cast the weights of products to; `None` for that of the parameters.
    pub(crate) fn products(&self) -> Option<DType> {
        match self {
            Self::Bf16 => Some(DType::BF16),
            Self::F32 | Self::Fp8(_) => None,
        }
    }

    /// The loss scaling that suits this precision by default.
    pub fn loss_scaling(&self) -> LossScaling {
        match self {
            // bf16 has the exponents of f32.
            Self::F32 | Self::Bf16 => LossScaling::Off,
            Self::Fp8(_) => LossScaling::dynamic(),
        }
    }
}

/// The course of the learning rate after its rise to the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Half a cosine, down to a tenth of the peak after the last step.
    #[default]
    Cosine,
    /// A line, down to a tenth of the peak after the last step.
    Linear,
    /// The peak until the last step.
    Constant,
}

/// Configuration of a training, which is repeatable from it, the text and the subject.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// Sequences that are computed together.
    pub batch: usize,
    /// Number of batches in a step, computed one after the other, whose mean gradient the step follows: the memory of one batch, and the
    /// gradient of the cross entropy of all of them together. Balance losses are means over the batches.
    #[serde(default = "one")]
    pub accumulate: usize,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Number of steps in all.
    pub steps: usize,
    /// Steps until the learning rate reaches its peak.
    pub warm_up: usize,
    /// Peak of the learning rate.
    pub learning_rate: f32,
    /// Course of the learning rate after its rise to the peak.
    #[serde(default)]
    pub schedule: Schedule,
    /// Weight decay of AdamW.
    pub weight_decay: f32,
    /// Largest norm of the gradient over all parameters; a longer one is scaled down.
    pub clip_norm: f32,
    /// Weight of the Switch balance loss of each layer with experts, which keeps all experts in use.
    pub balance: f32,
    /// Weight of each router's z-loss, which keeps its logits small.
    pub z: f32,
    /// Precision that products are computed in.
    #[serde(default)]
    pub precision: Precision,
    /// What the weights of products are below an adapter, bf16 where products are; f32 in a training of all weights.
    #[serde(default)]
    pub base: BaseWeights,
    /// Factor that the loss is multiplied by for the backward pass.
    #[serde(default = "off")]
    pub loss_scaling: LossScaling,
    /// Seed of the batches and of weights that are drawn.
    pub seed: u64,
}

/// Batches in a step of checkpoints that were written before there could be several.
fn one() -> usize {
    1
}

/// Loss scaling of checkpoints that were written before it existed.
fn off() -> LossScaling {
    LossScaling::Off
}

impl Default for TrainConfig {
    /// Configuration that suits the small decoder over bytes, trained from scratch.
    fn default() -> Self {
        Self {
            batch: 16,
            accumulate: 1,
            sequence: 64,
            steps: 300,
            warm_up: 20,
            learning_rate: 0.007,
            schedule: Schedule::Cosine,
            weight_decay: 0.01,
            clip_norm: 1.0,
            balance: 0.01,
            z: 0.001,
            precision: Precision::F32,
            base: BaseWeights::F32,
            loss_scaling: LossScaling::Off,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// Configuration that suits fine-tuning of a published model.
    pub fn fine_tuning() -> Self {
        Self {
            batch: 4,
            sequence: 128,
            learning_rate: 1e-4,
            ..Self::default()
        }
    }

    /// This configuration in another precision, with the loss scaling that suits it.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self.loss_scaling = precision.loss_scaling();
        self
    }

    /// Sequences per step.
    pub fn sequences(&self) -> usize {
        self.batch * self.accumulate
    }

    /// Tokens per step.
    pub fn tokens(&self) -> usize {
        self.sequences() * self.sequence
    }

    /// Floating-point operations of a step's products: two for each multiply-add with weights and of attention in the forward pass, and
    /// twice as many in the backward pass.
    pub fn step_flops(&self, spec: &ModelSpec) -> f64 {
        // Computed as floats, because the sizes may be unchecked and their product may overflow.
        let [batch, accumulate, sequence] =
            [self.batch, self.accumulate, self.sequence].map(|size| size as f64);
        let scores = |layer: &LayerSpec| {
            layer.attention().map_or(0.0, |of| {
                of.heads as f64 * (of.head_dim as f64 + of.value_dim as f64) * sequence
            })
        };
        let attention: f64 = spec.layers.iter().map(scores).sum();
        6.0 * accumulate * batch * sequence * (spec.active_parameters() + attention)
    }

    /// Weights of the layers' auxiliary losses relative to the cross entropy.
    pub fn losses(&self) -> LossWeights {
        LossWeights {
            switch: f64::from(self.balance),
            z: f64::from(self.z),
            ..LossWeights::default()
        }
    }

    /// The share \[1\] of a batch's mean in the mean of all batches of a step.
    pub(crate) fn share(&self, of_batch: Tensor<1>) -> Tensor<1> {
        match self.accumulate {
            1 => of_batch,
            batches => of_batch.div_scalar(batches as f64),
        }
    }

    /// Learning rate of step `step`, counted from 0: a linear warm-up, then the schedule.
    pub fn rate(&self, step: usize) -> f64 {
        let peak = f64::from(self.learning_rate);
        if step < self.warm_up {
            return peak * (step + 1) as f64 / self.warm_up as f64;
        }
        let falling = self.steps.saturating_sub(self.warm_up).max(1);
        let done = ((step - self.warm_up) as f64 / falling as f64).min(1.0);
        let share = match self.schedule {
            Schedule::Cosine => 0.5 * (1.0 + (PI * done).cos()),
            Schedule::Linear => 1.0 - done,
            Schedule::Constant => 1.0,
        };
        peak * (LAST_RATE + (1.0 - LAST_RATE) * share)
    }

    /// Checks that all weights can be trained.
    pub(crate) fn check_all_weights(&self) -> Result<(), Error> {
        let in_f32 = self.base == BaseWeights::F32;
        Error::check(in_f32, "weights that are trained", "f32", self.base)
    }

    /// Checks the values that don't depend on a model.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Precision::Fp8(recipe) = &self.precision {
            recipe.validate()?;
        }
        self.loss_scaling.validate()?;
        let sizes = [
            ("batch", self.batch),
            ("accumulate", self.accumulate),
            ("sequence", self.sequence),
            ("steps", self.steps),
        ];
        for (what, size) in sizes {
            Error::check(size > 0, what, "at least 1", size)?;
        }
        let tokens = self.batch.checked_mul(self.sequence);
        let tokens = tokens.and_then(|tokens| tokens.checked_mul(self.accumulate));
        let fits = tokens.is_some_and(|tokens| tokens <= MOST_TOKENS);
        let expected = format!("at most {MOST_TOKENS} tokens in a step");
        // A batch that is too large by itself is refused as a batch.
        let one = self.accumulate == 1;
        let got = format!("{} × {} × {}", self.accumulate, self.batch, self.sequence);
        Error::check(one || fits, "accumulate", expected, got)?;
        Error::check_positive("learning rate", self.learning_rate)?;
        Error::check_positive("clipping norm", self.clip_norm)?;
        Error::check_not_negative("weight decay", self.weight_decay)?;
        Error::check_not_negative("balance", self.balance)?;
        Error::check_not_negative("z", self.z)?;
        Ok(())
    }
}

/// The model that a training trains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The small decoder over bytes.
    Bytes(DecoderConfig),
    /// A published model.
    Published(ModelSpec),
}

impl From<DecoderConfig> for Subject {
    fn from(sizes: DecoderConfig) -> Self {
        Self::Bytes(sizes)
    }
}

impl From<&ModelSpec> for Subject {
    fn from(spec: &ModelSpec) -> Self {
        Self::Published(spec.clone())
    }
}

impl Subject {
    /// Description of the model, with products in f32.
    pub fn spec(&self) -> ModelSpec {
        match self {
            Self::Bytes(sizes) => sizes.spec(),
            Self::Published(spec) => spec.clone(),
        }
    }

    /// Name of one token: "byte" or "token".
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "byte",
            Self::Published(_) => "token",
        }
    }

    /// Checks that this subject can be trained with the configuration `config`.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for values that don't fit each other.
    pub fn check(&self, config: &TrainConfig) -> Result<(), Error> {
        let (batch, sequence) = (config.batch, config.sequence);
        let [heads, scores] = match self {
            Self::Bytes(sizes) => {
                sizes.check()?;
                let expected = format!("at most {}", sizes.sequence);
                Error::check(sequence <= sizes.sequence, "sequence", expected, sequence)?;
                let scores = sequence.max(VOCABULARY).max(sizes.experts);
                [sizes.heads, scores]
            }
            Self::Published(_) => [1, 1],
        };
        config.check()?;
        // Kernels count elements in i32.
        let bound = i32::MAX as usize;
        let elements = [batch, heads, sequence, scores]
            .iter()
            .try_fold(1usize, |product, &factor| product.checked_mul(factor));
        let fits = elements.is_some_and(|elements| elements <= bound);
        let got = format!("{batch} sequences of {sequence}");
        Error::check(fits, "batch", "fewer tokens", got)
    }

    /// Checks that `data` has tokens of the model, in sequences of `sequence` tokens or enough for them.
    pub(crate) fn check_data(&self, data: &TrainingData, sequence: usize) -> Result<(), Error> {
        let ids = match data {
            TrainingData::Text(ids) => ids,
            TrainingData::Samples(samples) => {
                let ids: Vec<u32> = samples.ids().collect();
                self.spec().check_tokens(&ids)?;
                let (what, got) = ("sequences of samples", samples.sequence());
                return Error::check(got == sequence, what, sequence, got);
            }
        };
        self.spec().check_tokens(ids)?;
        if ids.len() > sequence {
            return Ok(());
        }
        let expected = format!("more than {sequence} {}s", self.unit());
        Err(Error::Config(Unfit::new("text", expected, ids.len())))
    }

    /// The model with its initial weights.
    pub(crate) fn first(&self, config: &TrainConfig, device: &Device) -> Result<Model, Error> {
        let (spec, seed) = (self.spec().with_fp8(config.precision.recipe()), config.seed);
        match self {
            Self::Bytes(sizes) => Model::of_values(&spec, &mut sizes.first(seed), device),
            Self::Published(_) => Model::of_values(&spec, &mut Drawn::new(&spec, seed), device),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
