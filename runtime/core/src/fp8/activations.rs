//! Activations rounded to FP8 before a product with FP8 weights (W8A8).

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

/// Where the scales of activations come from. Static and delayed ones are state that clones of a layer
/// share; see [`ActivationScaling`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// There are none: activations keep their dtype.
    #[default]
    Float,
    /// Each batch's own; a token doesn't depend on others unless the granularity is
    /// [`Granularity::Tensor`] or of several rows.
    Dynamic(Granularity),
    /// One for all batches, from the largest magnitude of a calibration; larger ones saturate.
    Static,
    /// From the largest magnitude of so many batches before this one, or of this one when it is the
    /// first; larger ones saturate. Forward passes change the state.
    Delayed {
        /// Batches that are remembered, at least 1.
        history: usize,
    },
}

/// The most batches a delayed scale remembers.
const HISTORY_MAX: usize = 65_536;

impl Activations {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a block without rows or columns, or a history
    /// of none or more than 65 536 batches.
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

/// Rounds activations to FP8 with scales from one of these sources.
///
/// A static scale is calibrated: a layer that observes records the largest magnitude and rounds
/// nothing; one that neither observes nor has a scale refuses to run. Nothing is read back but to
/// check a calibration once.
///
/// Clones share a history or a scale, as they share all running state of Burn's modules, until one of
/// them observes anew. Forward passes that change it belong on one thread.
#[derive(Module, Debug)]
pub struct ActivationScaling {
    /// \[1\] f32: the static scale; \[history\] f32: the largest magnitudes of the batches before.
    state: RunningState<Tensor<1>>,
    #[module(skip)]
    source: Activations,
    #[module(skip)]
    format: Fp8Format,
    #[module(skip)]
    phase: Phase,
}

/// What a layer with a static scale does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Uncalibrated,
    Observing,
    Fixed,
}

impl ActivationScaling {
    /// Scales from `source`; a static one is not calibrated yet, and a delayed one has seen no batch.
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

    /// With codes of another format than E4M3; before a calibration.
    #[must_use]
    pub fn with_format(self, format: Fp8Format) -> Self {
        Self { format, ..self }
    }

    /// The static scale `scale`, from a checkpoint or another calibration.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when it isn't a positive number.
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

    /// Where scales come from.
    pub fn source(&self) -> Activations {
        self.source
    }

    /// Whether a calibration has yet to give a scale.
    pub fn needs_calibration(&self) -> bool {
        self.source == Activations::Static && self.phase != Phase::Fixed
    }

    /// Whether a forward pass takes the largest magnitude of what it gets.
    pub(crate) fn measures(&self) -> bool {
        matches!(self.source, Activations::Delayed { .. }) || self.phase == Phase::Observing
    }

    /// From now on a static scale is that of the largest magnitude seen, and nothing is rounded.
    pub fn observe(&mut self) {
        if self.source == Activations::Static {
            // Not a clone's scale.
            *self = Self {
                phase: Phase::Observing,
                ..Self::new(self.source, &self.state.value().device()).with_format(self.format)
            };
        }
    }

    /// From now on the scale is what a calibration or a record left; reads it back once.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) when nothing was observed, or nothing but zeros,
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

    /// How x becomes codes, where scales are each batch's own.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) where they aren't.
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

    /// x \[rows, columns\] as the product is to read it: in its dtype, or, where it is rounded, in f32,
    /// which has every code · scale.
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
    /// x with one scale \[1\].
    fn round(&self, x: Tensor<2>, scale: Tensor<1>) -> Result<Tensor<2>, Error> {
        let quantizer = Quantizer::new(self.format, Granularity::Tensor);
        let scale = Fp8Scales::F32(scale.reshape([1, 1, 1]));
        fake_quantize(x, &quantizer, Some(&scale))
    }

    /// The scale \[1\] for a batch with this amax \[1\]: of the batches before, which it joins.
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

/// Refuses a scale that is no positive number, as what `fault` says.
fn check_scale(scale: f32, fault: Fault) -> Result<(), Error> {
    let right = scale.is_finite() && scale >= f32::MIN_POSITIVE;
    let what = "static activation scale";
    Ok(fault.unless(right, what, "a positive number", scale)?)
}
