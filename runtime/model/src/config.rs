//! The sizes of a decoder and the course of its training.

use std::f64::consts::PI;

use moebius::fp8::training::{Fp8Recipe, LossScaling};
use moebius::moe::{Activation, LossWeights, MoeConfig, RouteConfig};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Every byte is a token.
pub const VOCABULARY: usize = 256;

/// The learning rate ends at this share of its peak.
const LAST_RATE: f64 = 0.1;

/// The widest head that attention takes.
const MAX_HEAD: usize = 128;

/// So that the sizes, and not their number, decide what a decoder takes.
const MAX_LAYERS: usize = 1024;

/// What is initialised on the host, and held four times over (weights, gradients, two moments).
const MAX_PARAMETERS: f64 = (1_u32 << 28) as f64;

/// The sizes of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecoderConfig {
    /// Width of a token.
    pub hidden: usize,
    /// Attention heads, which share `hidden` evenly.
    pub heads: usize,
    /// Blocks of attention and experts.
    pub layers: usize,
    /// The longest sequence.
    pub sequence: usize,
    /// Experts in each block.
    pub experts: usize,
    /// Width of an expert.
    pub inter: usize,
    /// Experts per token.
    pub top_k: usize,
    /// What the products of attention and experts are computed from.
    #[serde(default)]
    pub precision: Precision,
}

/// What products are computed from. Parameters, embeddings, norms, routers and the head are f32 in any
/// case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Everything in f32.
    #[default]
    F32,
    /// The linear layers of attention and of experts in FP8, forward and backward.
    Fp8(Fp8Recipe),
}

impl Precision {
    /// The recipe, where there is one.
    pub fn recipe(&self) -> Option<Fp8Recipe> {
        match self {
            Self::F32 => None,
            Self::Fp8(recipe) => Some(*recipe),
        }
    }

    /// What a training in this precision scales its loss by, unless told otherwise.
    pub fn loss_scaling(&self) -> LossScaling {
        match self {
            Self::F32 => LossScaling::Off,
            Self::Fp8(_) => LossScaling::dynamic(),
        }
    }
}

impl DecoderConfig {
    /// The sizes of all experts of one block: SwiGLU, softmax routing, dropless.
    pub fn moe(&self) -> MoeConfig {
        MoeConfig::new(self.hidden, self.inter, self.experts)
            .with_router(RouteConfig::new(self.top_k))
            .with_activation(Activation::Silu)
            .with_gated(true)
            .with_fp8(self.precision.recipe())
    }

    /// Takes another width: experts of twice the width, heads of 16 where that works out and
    /// else as few as can be.
    pub fn with_hidden(self, hidden: usize) -> Self {
        let heads = if hidden.is_multiple_of(16) {
            hidden / 16
        } else {
            let least = hidden.div_ceil(MAX_HEAD).max(1);
            // Beyond what can be trained no divisor is looked for.
            let mut counts = least..=hidden.min(1 << 20);
            counts
                .find(|heads| hidden.is_multiple_of(*heads))
                .unwrap_or(1)
        };
        Self {
            hidden,
            heads,
            inter: hidden.saturating_mul(2),
            ..self
        }
    }

    /// Checks what the experts' own configuration doesn't.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let sizes = [
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("layers", self.layers),
            ("sequence", self.sequence),
            ("experts", self.experts),
            ("inter", self.inter),
            ("top_k", self.top_k),
        ];
        for (what, size) in sizes {
            Error::check(size > 0, what, "at least 1", size)?;
        }
        let bounds = [
            ("top_k", self.top_k, self.experts),
            ("layers", self.layers, MAX_LAYERS),
        ];
        for (what, size, most) in bounds {
            Error::check(size <= most, what, format!("at most {most}"), size)?;
        }
        let divides = self.hidden.is_multiple_of(self.heads);
        let expected = format!("a divisor of hidden {}", self.hidden);
        Error::check(divides, "heads", expected, self.heads)?;
        if let Precision::Fp8(recipe) = &self.precision {
            recipe.validate()?;
        }
        let head = self.hidden / self.heads;
        let expected = format!("at most {MAX_HEAD}");
        Error::check(head <= MAX_HEAD, "hidden / heads", expected, head)?;
        // As floats, because products of sizes from elsewhere may exceed any whole number.
        let [h, f, e] = [self.hidden, self.inter, self.experts].map(|n| n as f64);
        // An expert's three matrices and its row of the router, and attention.
        let block = (3.0 * f + 1.0) * h * e + 4.0 * h * h;
        let rows = self.sequence as f64 + 2.0 * VOCABULARY as f64;
        let all = block * self.layers as f64 + rows * h;
        let expected = format!("at most {MAX_PARAMETERS} parameters");
        Error::check(all <= MAX_PARAMETERS, "decoder", expected, all)
    }
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            hidden: 64,
            heads: 4,
            layers: 2,
            sequence: 64,
            experts: 8,
            inter: 128,
            top_k: 2,
            precision: Precision::F32,
        }
    }
}

/// A training, repeatable from its numbers and its text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// What is trained.
    pub decoder: DecoderConfig,
    /// Sequences in a step.
    pub batch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Steps until the learning rate is at its peak.
    pub warm_up: usize,
    /// The peak.
    pub learning_rate: f32,
    /// AdamW's.
    pub weight_decay: f32,
    /// The largest norm of the gradient of all parameters.
    pub clip_norm: f32,
    /// Weight of the balance loss (Switch): it keeps the experts in use.
    pub balance: f32,
    /// Weight of the router's z-loss: it keeps the logits small.
    pub z: f32,
    /// What the loss is multiplied by for the backward pass.
    #[serde(default = "off")]
    pub loss_scaling: LossScaling,
    /// Decides the first weights and the batches.
    pub seed: u64,
}

/// Of a checkpoint from before there was any.
fn off() -> LossScaling {
    LossScaling::Off
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            decoder: DecoderConfig::default(),
            batch: 16,
            steps: 300,
            warm_up: 20,
            learning_rate: 0.007,
            weight_decay: 0.01,
            clip_norm: 1.0,
            balance: 0.01,
            z: 0.001,
            loss_scaling: LossScaling::Off,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// The same in another precision, with its loss scaling.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.decoder.precision = precision;
        self.loss_scaling = precision.loss_scaling();
        self
    }

    /// Tokens in a step.
    pub fn tokens(&self) -> usize {
        self.batch * self.decoder.sequence
    }

    /// Floating-point operations of a step's products: two for each multiply-add forward, and twice as many backward. What is added,
    /// normalised and stored besides doesn't count.
    pub fn step_flops(&self) -> f64 {
        let decoder = &self.decoder;
        let of = |size: usize| size as f64;
        let hidden = of(decoder.hidden);
        let attention = 4.0 * hidden * hidden + 2.0 * of(decoder.sequence) * hidden;
        // Gate, up and down of every expert that a token goes through.
        let experts = 3.0 * of(decoder.top_k) * hidden * of(decoder.inter);
        let router = hidden * of(decoder.experts);
        let blocks = of(decoder.layers) * (attention + experts + router);
        let a_token = blocks + hidden * of(VOCABULARY);
        6.0 * of(self.batch) * of(decoder.sequence) * a_token
    }

    /// What the layers' losses weigh beside the cross entropy.
    pub fn losses(&self) -> LossWeights {
        LossWeights {
            switch: f64::from(self.balance),
            z: f64::from(self.z),
            ..LossWeights::default()
        }
    }

    /// The rate of step `step`, counted from 0: a straight rise, then half a cosine down to a tenth.
    pub fn rate(&self, step: usize) -> f64 {
        rate(
            f64::from(self.learning_rate),
            [self.warm_up, self.steps],
            step,
        )
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.decoder.check()?;
        self.loss_scaling.validate()?;
        for (what, size) in [("batch", self.batch), ("steps", self.steps)] {
            Error::check(size > 0, what, "at least 1", size)?;
        }
        // What a kernel counts its elements with.
        let bound = i32::MAX as usize;
        let decoder = &self.decoder;
        let scores = decoder.sequence.max(VOCABULARY).max(decoder.experts);
        let elements = [self.batch, decoder.heads, decoder.sequence, scores]
            .iter()
            .try_fold(1usize, |product, &factor| product.checked_mul(factor));
        let fits = elements.is_some_and(|elements| elements <= bound);
        let got = format!("{} sequences of {}", self.batch, decoder.sequence);
        Error::check(fits, "batch", "fewer tokens", got)?;
        Error::check_positive("learning rate", self.learning_rate)?;
        Error::check_positive("clipping norm", self.clip_norm)?;
        Error::check_not_negative("weight decay", self.weight_decay)?;
        Error::check_not_negative("balance", self.balance)?;
        Error::check_not_negative("z", self.z)?;
        Ok(())
    }
}

/// The rate of step `step` of `steps`, counted from 0: a straight rise to `peak`, then half a cosine down to a tenth.
pub(crate) fn rate(peak: f64, [warm_up, steps]: [usize; 2], step: usize) -> f64 {
    if step < warm_up {
        return peak * (step + 1) as f64 / warm_up as f64;
    }
    let falling = steps.saturating_sub(warm_up).max(1);
    let done = ((step - warm_up) as f64 / falling as f64).min(1.0);
    let share = 0.5 * (1.0 + (PI * done).cos());
    peak * (LAST_RATE + (1.0 - LAST_RATE) * share)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
