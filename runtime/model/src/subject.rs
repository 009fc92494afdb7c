//! What a training is of.

use burn::tensor::Device;
use moebius_weights::Unfit;
use serde::Serialize;

use crate::bytes::{DecoderConfig, VOCABULARY};
use crate::config::TrainConfig;
use crate::decoder::{Drawn, Model, ModelSpec};
use crate::error::Error;

/// What a training is of.
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
    /// The model's description, in f32.
    pub fn spec(&self) -> ModelSpec {
        match self {
            Self::Bytes(sizes) => sizes.spec(),
            Self::Published(spec) => spec.clone(),
        }
    }

    /// What one token is called.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "byte",
            Self::Published(_) => "token",
        }
    }

    /// Checks that a training with the numbers of `config` can be of this.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for numbers that don't fit each other.
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
        // What a kernel counts its elements with.
        let bound = i32::MAX as usize;
        let elements = [batch, heads, sequence, scores]
            .iter()
            .try_fold(1usize, |product, &factor| product.checked_mul(factor));
        let fits = elements.is_some_and(|elements| elements <= bound);
        let got = format!("{batch} sequences of {sequence}");
        Error::check(fits, "batch", "fewer tokens", got)
    }

    /// Checks that `ids` can be learnt from in sequences of `sequence`.
    pub(crate) fn check_text(&self, ids: &[u32], sequence: usize) -> Result<(), Error> {
        self.spec().check_tokens(ids)?;
        if ids.len() > sequence {
            return Ok(());
        }
        let expected = format!("more than {sequence} {}s", self.unit());
        Err(Error::Config(Unfit::new("text", expected, ids.len())))
    }

    /// The model with its first weights.
    pub(crate) fn first(&self, config: &TrainConfig, device: &Device) -> Result<Model, Error> {
        let (spec, seed) = (self.spec().with_fp8(config.precision.recipe()), config.seed);
        match self {
            Self::Bytes(sizes) => Model::of_values(&spec, &mut sizes.first(seed), device),
            Self::Published(_) => Model::of_values(&spec, &mut Drawn::new(&spec, seed), device),
        }
    }
}
