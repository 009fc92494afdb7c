//! Rounding of activations to FP8 before a product with FP8 weights (W8A8).

use super::scales::{Fp8Scales, fake_quantize};
use crate::Error;
use crate::check::check_size;
use crate::ops::quantize::amax;
use crate::parameters::{set, value};
use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::Fault;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::quantize::{Quantizer, check_granularity};
use moebius_ops::scaling::Granularity;
use serde::{Deserialize, Serialize};

/// The source of the scales of activations. The scales of [`Activations::Static`] and [`Activations::Delayed`] are state that clones of a
/// layer share; see [`ActivationScaling`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// No scales: activations keep their dtype.
    #[default]
    Float,
    /// Scales from each batch itself; a token doesn't depend on others unless the granularity is [`Granularity::Tensor`] or blocks of
    /// several rows.
    Dynamic(Granularity),
    /// One scale for all batches, from the largest magnitude of a calibration; larger values saturate.
    Static,
    /// A scale from the largest magnitude of the last `history` batches, or of the first batch itself; larger values saturate. Forward
    /// passes change the state.
    Delayed {
        /// The number of batches that are remembered, at least 1.
        history: usize,
    },
}

/// The most batches that a delayed scale may remember.
const HISTORY_MAX: usize = 65_536;

impl Activations {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a block without rows or columns, or a history outside of 1 to 65 536 batches.
    pub fn validate(&self) -> Result<(), Error> {
        match *self {
            Self::Dynamic(granularity) => Ok(check_granularity(granularity)?),
            Self::Delayed { history } => {
                Ok(check_size("history of activations", history, HISTORY_MAX)?)
            }
            _ => Ok(()),
        }
    }
}

/// Rounding of activations to FP8, with scales from a source of [`Activations`].
///
/// A static scale has to be calibrated: a layer that observes records the largest magnitude and rounds nothing; a layer that neither
/// observes nor has a scale refuses to run. The only value read back from the device is the scale, once, to check a calibration.
///
/// Clones share a history or a scale, as they share all running state of Burn's modules, until one of them observes anew. Forward passes
/// that change this state must run on one thread.
#[derive(Module, Debug)]
pub struct ActivationScaling {
    /// For a static source the scale \[1\] f32; for a delayed source the largest magnitudes of the last batches \[history\] f32.
    state: RunningState<Tensor<1>>,
    #[module(skip)]
    source: Activations,
    #[module(skip)]
    format: Fp8Format,
    #[module(skip)]
    phase: Phase,
}

/// How a layer with a static scale treats a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Uncalibrated,
    Observing,
    Fixed,
}

impl ActivationScaling {
    /// Scales from `source`; a static scale is not calibrated yet, and a delayed one has seen no batch.
    pub fn new(source: Activations, device: &Device) -> Self {
        let device = device.clone().inner();
        let len = match source {
            Activations::Delayed { history } => history.clamp(1, HISTORY_MAX),
            _ => 1,
        };
        Self {
            state: RunningState::new(Tensor::zeros([len], (&device, DType::F32))),
            source,
            format: Fp8Format::E4M3,
            phase: Phase::Uncalibrated,
        }
    }

    /// Sets the format of the codes, E4M3 by default; call it before a calibration.
    #[must_use]
    pub fn with_format(self, format: Fp8Format) -> Self {
        Self { format, ..self }
    }

    /// A static scaling with the given `scale`, from a checkpoint or another calibration.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the scale isn't a positive number.
    pub fn fixed(scale: f32, device: &Device) -> Result<Self, Error> {
        let scaling = Self::new(Activations::Static, device);
        check_scale(scale, Fault::Config)?;
        let options = (&device.clone().inner(), DType::F32);
        set(&scaling.state, Tensor::full([1], scale, options));
        Ok(Self {
            phase: Phase::Fixed,
            ..scaling
        })
    }

    /// The source of the scales.
    pub fn source(&self) -> Activations {
        self.source
    }

    /// Whether the scaling is static and has no calibrated scale yet.
    pub fn needs_calibration(&self) -> bool {
        self.source == Activations::Static && self.phase != Phase::Fixed
    }

    /// Whether a forward pass measures the largest magnitude of its input.
    pub(crate) fn measures(&self) -> bool {
        matches!(self.source, Activations::Delayed { .. }) || self.phase == Phase::Observing
    }

    /// Starts a calibration: a static scale follows the largest magnitude seen, and nothing is rounded.
    pub fn observe(&mut self) {
        if self.source == Activations::Static {
            // A new state, because clones share the old one.
            *self = Self {
                phase: Phase::Observing,
                ..Self::new(self.source, &self.state.value().device()).with_format(self.format)
            };
        }
    }

    /// Ends a calibration: a static scale keeps the value that a calibration or a record left, which is read back once.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) when nothing was observed, or only zeros,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn fix(&mut self) -> Result<(), Error> {
        if self.source == Activations::Static {
            let scale = value(&self.state).try_into_vec_as::<f32>();
            let scale = scale.map_err(Error::device)?;
            check_scale(scale.first().copied().unwrap_or(0.0), Fault::State)?;
            self.phase = Phase::Fixed;
        }
        Ok(())
    }

    /// Returns the quantizer of a dynamic source.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for another source.
    pub(crate) fn dynamic(&self) -> Result<Quantizer, Error> {
        match self.source {
            Activations::Dynamic(granularity) => Ok(Quantizer::new(self.format, granularity)),
            other => {
                let what = "activations of a product of codes";
                Err(Fault::Config
                    .error(what, "dynamic ones", format!("{other:?}"))
                    .into())
            }
        }
    }

    /// Returns x \[rows, columns\] as the product reads it: unrounded in its own dtype, or rounded as code · scale in f32.
    pub(crate) fn apply(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        self.source.validate()?;
        let x = match self.source {
            Activations::Float => x,
            _ => x.cast(DType::F32),
        };
        match (self.source, self.phase) {
            (Activations::Float, _) => Ok(x),
            (Activations::Dynamic(granularity), _) => {
                fake_quantize(x, &Quantizer::new(self.format, granularity), None)
            }
            (Activations::Static, Phase::Observing) => {
                let scale = amax(x.clone())? / self.format.max();
                set(&self.state, value(&self.state).max_pair(scale));
                Ok(x)
            }
            (Activations::Static, Phase::Fixed) => self.round(x, value(&self.state)),
            (Activations::Delayed { .. }, _) => {
                let scale = self.remember(amax(x.clone())?);
                self.round(x, scale)
            }
            (Activations::Static, Phase::Uncalibrated) => Err(Fault::State
                .error("static activation scale", "a calibrated one", "none")
                .into()),
        }
    }
}

impl ActivationScaling {
    /// Rounds x with one scale \[1\].
    fn round(&self, x: Tensor<2>, scale: Tensor<1>) -> Result<Tensor<2>, Error> {
        let quantizer = Quantizer::new(self.format, Granularity::Tensor);
        let scale = Fp8Scales::F32(scale.reshape([1, 1, 1]));
        fake_quantize(x, &quantizer, Some(&scale))
    }

    /// Returns the scale \[1\] that the batches before give, or this batch if it is the first, and adds `amax` \[1\], the largest magnitude
    /// of this batch, to the history.
    fn remember(&self, amax: Tensor<1>) -> Tensor<1> {
        let history = value(&self.state);
        let before = history.clone().max();
        let known = before.clone().greater_scalar(0.0);
        let kept = history.dims()[0] - 1;
        let mut newest = vec![amax.clone()];
        if kept > 0 {
            newest.push(history.narrow(0, 0, kept));
        }
        set(&self.state, Tensor::cat(newest, 0));
        let range = f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX);
        (amax.mask_where(known, before) / self.format.max()).clamp(range.start, range.end)
    }
}

/// Refuses a scale that isn't a positive number, with an error of kind `fault`.
fn check_scale(scale: f32, fault: Fault) -> Result<(), Error> {
    let right = scale.is_finite() && scale >= f32::MIN_POSITIVE;
    let what = "static activation scale";
    Ok(fault.unless(right, what, "a positive number", scale)?)
}
