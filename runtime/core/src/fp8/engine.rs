//! The engine that converts a model, calibrates it and runs it for inference.

use super::activations::ActivationScaling;
use super::convert::{ConversionReport, Fp8Conversion};
use super::weight::{Weight, forms};
use crate::{Error, memory_in_use};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use moebius_ops::{Fault, Mismatch};
use serde::Serialize;

/// An inference engine, which converts a model, calibrates it if activations have static scales, and then runs it.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::{Activations, Fp8Conversion, InferenceEngine, Quantizer};
/// use moebius::fp8::{Fp8Format, Granularity};
/// use moebius::nn::{Linear, LinearConfig};
///
/// #[derive(Module, Debug)]
/// struct Network {
///     first: Linear,
///     second: Linear,
/// }
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let network = Network {
///     first: LinearConfig::new(64, 128).init(&device)?,
///     second: LinearConfig::new(128, 8).init(&device)?,
/// };
/// let forward = |network: &Network, x| network.second.forward(network.first.forward(x)?);
///
/// let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
/// let conversion = Fp8Conversion::new(quantizer).with_activations(Activations::Static);
/// let mut engine = InferenceEngine::new(network, &device).convert(&conversion)?;
/// assert_eq!(engine.conversion().map(|report| report.layers.len()), Some(2));
///
/// let batch = || Tensor::<2>::random([16, 64], Distribution::Default, &device);
/// engine.calibrate([batch(), batch()], |network, x| forward(network, x).map(drop))?;
/// let y = engine.infer(|network| forward(network, batch()))??;
/// assert_eq!(y.dims(), [16, 8]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct InferenceEngine<M> {
    model: M,
    device: Device,
    /// Why the model isn't ready for inference, as errors say it; `None` when it is ready.
    unprepared: Option<&'static str>,
    conversion: Option<ConversionReport>,
}

const UNCALIBRATED: &str = "one whose static scales aren't calibrated";

/// Memory of a converted model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Bytes of the weight tensors that were converted, before and after.
    pub weight_bytes: [usize; 2],
    /// Bytes of live buffers on the device before and after the conversion, as its allocator counts them; `None` on a device without such
    /// an allocator.
    pub device_bytes: Option<[u64; 2]>,
    /// Bytes of live buffers on the device now.
    pub device_bytes_now: Option<u64>,
}

impl<M: Module> InferenceEngine<M> {
    /// An engine for a model on `device`.
    pub fn new(model: M, device: &Device) -> Self {
        Self {
            model,
            device: device.clone(),
            unprepared: Some("one that isn't converted"),
            conversion: None,
        }
    }

    /// Converts the model of the engine.
    ///
    /// # Errors
    /// As [`Fp8Conversion::convert`].
    pub fn convert(self, conversion: &Fp8Conversion) -> Result<Self, Error> {
        let (model, report) = conversion.convert(self.model, &self.device)?;
        let report = match self.conversion {
            Some(before) => before.and(report),
            None => report,
        };
        let mut codes = forms(&model).into_iter().filter_map(|form| form.codes);
        let uncalibrated = codes.any(|codes| codes.activations.needs_calibration());
        Ok(Self {
            model,
            unprepared: uncalibrated.then_some(UNCALIBRATED),
            conversion: Some(report),
            ..self
        })
    }

    /// The report of all conversions by this engine.
    pub fn conversion(&self) -> Option<&ConversionReport> {
        self.conversion.as_ref()
    }

    /// Runs `forward` on every batch while static scales observe, then fixes the scales. Each scale is read back once to check that it
    /// exists.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) before a conversion, and where a layer saw no batch or only zeros; the errors of
    /// `forward`.
    pub fn calibrate<B>(
        &mut self,
        batches: impl IntoIterator<Item = B>,
        mut forward: impl FnMut(&M, B) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each_scaling(|scaling| {
            scaling.observe();
            Ok(())
        })?;
        self.unprepared = Some(UNCALIBRATED);
        for batch in batches {
            forward(&self.model, batch)?;
        }
        self.prepare()
    }

    /// Fixes the static scales that a calibration or a record left; works for a model that was converted elsewhere, too.
    ///
    /// # Errors
    /// As [`InferenceEngine::calibrate`].
    pub fn prepare(&mut self) -> Result<(), Error> {
        self.each_scaling(ActivationScaling::fix)?;
        self.unprepared = None;
        Ok(())
    }

    /// Runs `run` on the model.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) before the model is converted and calibrated.
    pub fn infer<R>(&self, run: impl FnOnce(&M) -> R) -> Result<R, Error> {
        if let Some(got) = self.unprepared {
            let error = Fault::State.error("engine", "a prepared model", got);
            return Err(error.into());
        }
        Ok(run(&self.model))
    }

    /// Reports the memory before and after the conversion, and now.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) before a conversion,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn memory(&self) -> Result<MemoryReport, Error> {
        let report = self.conversion.as_ref().ok_or_else(not_converted)?;
        Ok(MemoryReport {
            weight_bytes: report.bytes(),
            device_bytes: report.device_bytes,
            device_bytes_now: memory_in_use(&self.device)?,
        })
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the model, to save it or to load a record into it; [`InferenceEngine::prepare`] of a new engine makes it ready again.
    pub fn into_model(self) -> M {
        self.model
    }

    /// Calls a function on the activation scaling of each FP8 weight; refuses a model without FP8 weights.
    fn each_scaling(
        &mut self,
        change: impl FnMut(&mut ActivationScaling) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut each = Each {
            change,
            result: None,
        };
        self.model = self.model.clone().map(&mut each);
        each.result.unwrap_or_else(|| Err(not_converted().into()))
    }
}

fn not_converted() -> Mismatch {
    Fault::State.error("engine", "a converted model", "none yet")
}

/// A walk over the FP8 weights of a module that stops at the first error.
struct Each<F> {
    change: F,
    /// `None` until the walk meets an FP8 weight.
    result: Option<Result<(), Error>>,
}

impl<F: FnMut(&mut ActivationScaling) -> Result<(), Error>> ModuleMapper for Each<F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let weight = match Weight::met(param) {
            Ok(weight) => weight,
            Err(param) => return param,
        };
        let failed = matches!(self.result, Some(Err(_)));
        let Some(mut scaling) = weight.activations().cloned().filter(|_| !failed) else {
            return weight.into_param();
        };
        let changed = (self.change)(&mut scaling);
        match changed.and_then(|()| weight.clone().with_activations(scaling)) {
            Ok(changed) => {
                self.result = Some(Ok(()));
                changed.into_param()
            }
            Err(error) => {
                self.result = Some(Err(error));
                weight.into_param()
            }
        }
    }
}
