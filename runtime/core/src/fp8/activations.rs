//! Activations rounded to FP8 before a product with FP8 weights (W8A8).

use super::quantizer::{Quantizer, amax, fake_quantize};
use super::tensor::Fp8Scales;
use crate::Error;
use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Tensor};
use moebius_shaders::ShapeError;
use moebius_shaders::fp8::Fp8Format;
use moebius_shaders::scaling::Granularity;
use serde::{Deserialize, Serialize};

/// Where the scales of activations come from.
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
}

/// Rounds activations to FP8 with scales from one of three sources.
///
/// A static scale is calibrated: a layer that observes records the largest magnitude and rounds
/// nothing; one that neither observes nor has a scale refuses to run.
#[derive(Module, Debug)]
pub struct ActivationScaling {
    /// \[1\] f32.
    scale: RunningState<Tensor<1>>,
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
    /// Scales from `source`; a static one is not calibrated yet.
    pub fn new(source: Activations, device: &Device) -> Self {
        let device = device.clone().inner();
        Self {
            scale: RunningState::new(Tensor::zeros([1], (&device, DType::F32))),
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
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when it isn't a positive number.
    pub fn fixed(scale: f32, device: &Device) -> Result<Self, Error> {
        let scaling = Self::new(Activations::Static, device);
        check_scale(scale)?;
        scaling.set(Tensor::full(
            [1],
            scale,
            (&device.clone().inner(), DType::F32),
        ));
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

    /// From now on a static scale is that of the largest magnitude seen, and nothing is rounded.
    pub fn observe(&mut self) {
        if self.source == Activations::Static {
            self.set(Tensor::zeros(
                [1],
                (&self.scale.value().device(), DType::F32),
            ));
            self.phase = Phase::Observing;
        }
    }

    /// From now on the scale is what a calibration or a record left; reads it back once.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when nothing was observed, or nothing but zeros,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn fix(&mut self) -> Result<(), Error> {
        if self.source == Activations::Static {
            let scale = self.scale.value_sync().try_into_vec_as::<f32>();
            check_scale(
                scale
                    .map_err(Error::device)?
                    .first()
                    .copied()
                    .unwrap_or(0.0),
            )?;
            self.phase = Phase::Fixed;
        }
        Ok(())
    }

    fn set(&self, scale: Tensor<1>) {
        self.scale.update(scale);
        self.scale.value_sync();
    }

    /// How x becomes codes, where scales are each batch's own.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) where they aren't.
    pub(crate) fn dynamic(&self) -> Result<Quantizer, Error> {
        match self.source {
            Activations::Dynamic(granularity) => Ok(Quantizer::new(self.format, granularity)),
            other => {
                let what = "activations of a product of codes";
                Err(ShapeError::new(what, "dynamic ones", format!("{other:?}")).into())
            }
        }
    }

    /// x \[rows, columns\] as the product is to read it.
    pub(crate) fn apply(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        match (self.source, self.phase) {
            (Activations::Float, _) => Ok(x),
            (Activations::Dynamic(granularity), _) => {
                fake_quantize(x, &Quantizer::new(self.format, granularity), None)
            }
            (Activations::Static, Phase::Observing) => {
                let scale = amax(x.clone())? / self.format.max();
                self.set(self.scale.value_sync().max_pair(scale));
                Ok(x)
            }
            (Activations::Static, Phase::Fixed) => {
                let scale = self.scale.value_sync().reshape([1, 1, 1]);
                let quantizer = Quantizer::new(self.format, Granularity::Tensor);
                fake_quantize(x, &quantizer, Some(&Fp8Scales::F32(scale)))
            }
            (Activations::Static, Phase::Uncalibrated) => {
                Err(ShapeError::new("static activation scale", "a calibrated one", "none").into())
            }
        }
    }
}

fn check_scale(scale: f32) -> Result<(), Error> {
    if scale.is_finite() && scale >= f32::MIN_POSITIVE {
        return Ok(());
    }
    Err(ShapeError::new("static activation scale", "a positive number", scale).into())
}
