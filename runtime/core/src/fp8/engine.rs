//! A model on its way to inference: converted, calibrated, then used.

use super::convert::{ConversionReport, Fp8Conversion, Fp8Layer, Fp8Module, Fp8Visitor};
use crate::{Error, memory_in_use};
use burn::tensor::Device;
use moebius_ops::ShapeError;
use serde::Serialize;

/// Converts a model, calibrates it where activations have static scales, and then runs it.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::{Activations, Fp8Conversion, InferenceEngine, Linear, Quantizer};
/// use moebius::fp8::{Fp8Format, Granularity};
///
/// #[derive(Module, Debug)]
/// struct Network {
///     first: Linear,
///     second: Linear,
/// }
/// moebius::fp8_module!(Network { first, second });
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let network = Network {
///     first: LinearConfig::new(64, 128).init(&device).into(),
///     second: LinearConfig::new(128, 8).init(&device).into(),
/// };
/// let forward = |network: &Network, x| network.second.forward(network.first.forward(x)?);
///
/// let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
/// let conversion = Fp8Conversion::new(quantizer).with_activations(Activations::Static);
/// let mut engine = InferenceEngine::new(network, &device);
/// let report = engine.convert(&conversion)?;
/// assert_eq!(report.layers.len(), 2);
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
    stage: Stage,
    conversion: Option<ConversionReport>,
}

/// How far a model has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Float,
    Uncalibrated,
    Ready,
}

/// Memory of a converted model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Bytes of the converted weights before and after, by their tensors.
    pub weight_bytes: [usize; 2],
    /// Bytes of live buffers on the device before and after the conversion, as its allocator has them;
    /// `None` on a device without one to ask.
    pub device_bytes: Option<[u64; 2]>,
    /// The same now.
    pub device_bytes_now: Option<u64>,
}

impl<M: Fp8Module> InferenceEngine<M> {
    /// Takes a model on `device`.
    pub fn new(model: M, device: &Device) -> Self {
        Self {
            model,
            device: device.clone(),
            stage: Stage::Float,
            conversion: None,
        }
    }

    /// Converts the model in place; what was converted before stays in the report.
    ///
    /// # Errors
    /// As [`Fp8Conversion::convert`].
    pub fn convert(&mut self, conversion: &Fp8Conversion) -> Result<&ConversionReport, Error> {
        let report = conversion.convert(&mut self.model, &self.device)?;
        self.stage = match self.uncalibrated()? {
            0 => Stage::Ready,
            _ => Stage::Uncalibrated,
        };
        let report = match self.conversion.take() {
            Some(before) => before.and(report),
            None => report,
        };
        Ok(self.conversion.insert(report))
    }

    /// Runs `forward` on every batch while static scales observe, then fixes them. They are read back
    /// once to see that there are any.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) before a conversion and where a layer saw no
    /// batch or nothing but zeros; whatever `forward` returns.
    pub fn calibrate<B>(
        &mut self,
        batches: impl IntoIterator<Item = B>,
        mut forward: impl FnMut(&M, B) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_converted()?;
        self.stage = Stage::Uncalibrated;
        self.each_scaling(|scaling| {
            scaling.observe();
            Ok(())
        })?;
        for batch in batches {
            forward(&self.model, batch)?;
        }
        self.prepare()
    }

    /// Takes the static scales that a calibration or a record left; for a model that was converted
    /// elsewhere, too.
    ///
    /// # Errors
    /// As [`InferenceEngine::calibrate`].
    pub fn prepare(&mut self) -> Result<(), Error> {
        self.check_converted()?;
        self.each_scaling(|scaling| scaling.fix())?;
        self.stage = Stage::Ready;
        Ok(())
    }

    /// Runs the model.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) before it is converted and calibrated.
    pub fn infer<R>(&self, run: impl FnOnce(&M) -> R) -> Result<R, Error> {
        let missing = match self.stage {
            Stage::Ready => return Ok(run(&self.model)),
            Stage::Float => "one that isn't converted",
            Stage::Uncalibrated => "one whose static scales aren't calibrated",
        };
        Err(ShapeError::new("engine", "a prepared model", missing).into())
    }

    /// What memory the conversion saved.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) before a conversion,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn memory(&self) -> Result<MemoryReport, Error> {
        let Some(report) = &self.conversion else {
            return Err(ShapeError::new("engine", "a converted model", "none yet").into());
        };
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

    /// The model, to save it or to load a record into it; a new engine's [`InferenceEngine::prepare`]
    /// takes it from there.
    pub fn into_model(self) -> M {
        self.model
    }

    /// Refuses a model without a layer in FP8.
    fn check_converted(&mut self) -> Result<(), Error> {
        let mut layers = 0;
        self.each_scaling(|_| {
            layers += 1;
            Ok(())
        })?;
        if layers == 0 {
            return Err(ShapeError::new("engine", "a converted model", "none yet").into());
        }
        Ok(())
    }

    fn uncalibrated(&mut self) -> Result<usize, Error> {
        let mut count = 0;
        self.each_scaling(|scaling| {
            count += usize::from(scaling.needs_calibration());
            Ok(())
        })?;
        Ok(count)
    }

    fn each_scaling(
        &mut self,
        mut f: impl FnMut(&mut super::ActivationScaling) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut visit = |_: &str, layer: &mut dyn Fp8Layer| -> Result<(), Error> {
            layer.activation_scalings().into_iter().try_for_each(&mut f)
        };
        self.model.visit_fp8(&mut Fp8Visitor::new(&mut visit))
    }
}
