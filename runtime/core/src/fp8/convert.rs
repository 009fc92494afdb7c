//! Conversion of models for inference with FP8 weights.

use super::activations::{ActivationScaling, Activations};
use super::linear::{Fp8Linear, inner, out_in};
use super::pattern::matches_pattern;
use super::quantizer::Quantizer;
use super::tensor::Fp8Tensor;
use crate::{Error, memory_in_use};
use burn::module::Module;
use burn::nn;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// A linear layer that may be converted: [`burn::nn::Linear`] until it is, [`Fp8Linear`] from then on.
///
/// Made of a [`burn::nn::Linear`] by `Linear::from`; a model holds these in its place.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "handles of tensors that are far larger; a box would be in the way of every pattern"
)]
pub enum Linear {
    /// In floating point; trains.
    Float(nn::Linear),
    /// With FP8 weights.
    Fp8(Fp8Linear),
}

impl From<nn::Linear> for Linear {
    fn from(linear: nn::Linear) -> Self {
        Self::Float(linear)
    }
}

impl Linear {
    /// y \[.., out\] of x \[.., in\].
    ///
    /// # Errors
    /// As [`Fp8Linear::forward`]; none in floating point, where Burn checks.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, Error> {
        match self {
            Self::Float(linear) => Ok(linear.forward(x)),
            Self::Fp8(linear) => linear.forward(x),
        }
    }
}

/// A layer that can be converted: a [`Linear`], or a [`MoeLayer`](crate::moe::MoeLayer).
pub trait Fp8Layer {
    /// Replaces its weights by FP8 codes, where `conversion` doesn't skip them.
    ///
    /// # Errors
    /// As [`Fp8Conversion::convert`].
    fn convert(&mut self, path: &str, conversion: &Fp8Conversion) -> Result<Vec<Converted>, Error>;

    /// Its activation scales, none where activations aren't rounded.
    fn activation_scalings(&mut self) -> Vec<&mut ActivationScaling>;
}

/// A module with layers that can be converted: it names them, or the modules they are in.
///
/// [`fp8_module!`](crate::fp8_module) writes it for a struct from the names of its fields. Vectors,
/// arrays and options of such modules are such modules. Burn's own modules aren't: a
/// [`burn::nn::attention::MultiHeadAttention`], say, holds `burn::nn::Linear`s and stays in floating
/// point; attention to convert is written with four [`Linear`]s.
pub trait Fp8Module {
    /// Visits every layer of this module.
    ///
    /// # Errors
    /// The first error of the visitor.
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error>;
}

/// What a visitor does with a layer at a path.
type Visit<'a> = dyn FnMut(&str, &mut dyn Fp8Layer) -> Result<(), Error> + 'a;

/// Walks through the layers of a model.
pub struct Fp8Visitor<'a> {
    path: Vec<String>,
    visit: &'a mut Visit<'a>,
}

impl<'a> Fp8Visitor<'a> {
    /// Calls `visit` with the path of each layer, its names joined by dots.
    pub fn new(visit: &'a mut Visit<'a>) -> Self {
        let path = Vec::new();
        Self { path, visit }
    }

    /// Visits the module that is called `name` in this one.
    ///
    /// # Errors
    /// The first error of the visitor.
    pub fn child(&mut self, name: &str, module: &mut dyn Fp8Module) -> Result<(), Error> {
        self.path.push(name.to_string());
        let result = module.visit_fp8(self);
        self.path.pop();
        result
    }

    /// Visits a layer, which this module is.
    ///
    /// # Errors
    /// The error of the visitor.
    pub fn layer(&mut self, layer: &mut dyn Fp8Layer) -> Result<(), Error> {
        (self.visit)(&self.path.join("."), layer)
    }
}

impl std::fmt::Debug for Fp8Visitor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fp8Visitor")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Fp8Module for Linear {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        visitor.layer(self)
    }
}

impl<M: Fp8Module> Fp8Module for Vec<M> {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        self.as_mut_slice().visit_fp8(visitor)
    }
}

impl<M: Fp8Module, const N: usize> Fp8Module for [M; N] {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        self.as_mut_slice().visit_fp8(visitor)
    }
}

impl<M: Fp8Module> Fp8Module for [M] {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        let mut modules = self.iter_mut().enumerate();
        modules.try_for_each(|(i, module)| visitor.child(&i.to_string(), module))
    }
}

impl<M: Fp8Module> Fp8Module for Option<M> {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        self.as_mut()
            .map_or(Ok(()), |module| module.visit_fp8(visitor))
    }
}

/// Implements [`Fp8Module`](crate::fp8::Fp8Module) for a struct: the fields that have layers to convert,
/// then those that have none.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::LayerNorm;
/// use moebius::fp8::Linear;
///
/// #[derive(Module, Debug)]
/// struct Network {
///     layers: Vec<Linear>,
///     norm: LayerNorm,
///     head: Linear,
/// }
///
/// moebius::fp8_module!(Network { layers, head } skip { norm });
/// ```
///
/// Every field is named: one that is left out doesn't compile, so that none stays in floating point
/// unnoticed.
///
/// ```compile_fail,E0027
/// # #[derive(burn::module::Module, Debug)]
/// # struct Network {
/// #     layers: Vec<moebius::fp8::Linear>,
/// #     head: moebius::fp8::Linear,
/// # }
/// moebius::fp8_module!(Network { layers });
/// ```
#[macro_export]
macro_rules! fp8_module {
    ($module:ty { $($field:ident),+ $(,)? } $(skip { $($other:ident),+ $(,)? })?) => {
        impl $crate::fp8::Fp8Module for $module {
            fn visit_fp8(
                &mut self,
                visitor: &mut $crate::fp8::Fp8Visitor,
            ) -> Result<(), $crate::Error> {
                let Self { $($field,)+ $($($other: _,)+)? } = self;
                $(visitor.child(stringify!($field), $field)?;)+
                Ok(())
            }
        }
    };
}

/// How a model is converted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Conversion {
    /// How weights are rounded.
    pub quantizer: Quantizer,
    /// Whether and how activations are, too.
    #[serde(default)]
    pub activations: Activations,
    /// Layers whose path matches one of these patterns stay as they are; see [`matches_pattern`].
    #[serde(default)]
    pub skip: Vec<String>,
}

/// What came of one tensor of weights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerReport {
    /// Where it is in the model.
    pub path: String,
    /// Its shape before.
    pub shape: Vec<usize>,
    /// Bytes before.
    pub bytes_before: usize,
    /// Bytes of codes and scales.
    pub bytes_after: usize,
    /// ‖decoded − before‖ / ‖before‖.
    pub relative_error: f32,
}

/// What became of weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Converted {
    /// They are codes now.
    Now(LayerReport),
    /// These were codes already; they take the conversion's activations.
    Already(String),
    /// These stay as they are.
    Skipped(String),
}

/// What came of a conversion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConversionReport {
    /// Converted weights, in the order of the model.
    pub layers: Vec<LayerReport>,
    /// Paths of layers that had FP8 weights already; they take the conversion's activations.
    pub already: Vec<String>,
    /// Paths of layers that were left as they are.
    pub skipped: Vec<String>,
    /// Patterns of layers to skip that none has.
    pub unused_patterns: Vec<String>,
    /// Bytes of live buffers on the device before and after, as its allocator has them; `None` on a
    /// device without one to ask.
    pub device_bytes: Option<[u64; 2]>,
}

impl ConversionReport {
    /// Bytes of the converted weights, before and after.
    pub fn bytes(&self) -> [usize; 2] {
        let sum = |of: fn(&LayerReport) -> usize| self.layers.iter().map(of).sum();
        [sum(|l| l.bytes_before), sum(|l| l.bytes_after)]
    }

    /// This conversion, and one after it.
    pub(super) fn and(mut self, after: Self) -> Self {
        self.layers.extend(after.layers);
        let bytes = self.device_bytes.zip(after.device_bytes);
        Self {
            layers: self.layers,
            device_bytes: bytes.map(|([before, _], [_, now])| [before, now]),
            ..after
        }
    }

    /// The layer with the largest error.
    pub fn worst(&self) -> Option<&LayerReport> {
        let error = |layer: &&LayerReport| layer.relative_error;
        self.layers
            .iter()
            .max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}

impl Fp8Conversion {
    /// Of weights alone, everywhere.
    pub fn new(quantizer: Quantizer) -> Self {
        Self {
            quantizer,
            activations: Activations::Float,
            skip: Vec::new(),
        }
    }

    /// With rounded activations.
    #[must_use]
    pub fn with_activations(self, activations: Activations) -> Self {
        Self {
            activations,
            ..self
        }
    }

    /// Leaves the layers whose path matches `pattern`, such as `blocks.0.*`, as they are.
    #[must_use]
    pub fn skip(mut self, pattern: impl Into<String>) -> Self {
        self.skip.push(pattern.into());
        self
    }

    /// Converts `model` layer by layer, in place: floating-point weights go as their codes come.
    ///
    /// # Errors
    /// The first layer's that can't be converted; those before it are.
    pub fn convert<M: Fp8Module>(
        &self,
        model: &mut M,
        device: &Device,
    ) -> Result<ConversionReport, Error> {
        self.quantizer.validate()?;
        self.activations.validate()?;
        let before = memory_in_use(device)?;
        let mut all = Vec::new();
        let mut visit = |path: &str, layer: &mut dyn Fp8Layer| -> Result<(), Error> {
            match self.skips(path) {
                true => all.push(Converted::Skipped(path.to_string())),
                false => all.extend(layer.convert(path, self)?),
            }
            Ok(())
        };
        model.visit_fp8(&mut Fp8Visitor::new(&mut visit))?;
        let after = memory_in_use(device)?;
        Ok(self.report(
            all,
            before.zip(after).map(|(before, after)| [before, after]),
        ))
    }

    fn report(&self, all: Vec<Converted>, device_bytes: Option<[u64; 2]>) -> ConversionReport {
        let (mut layers, mut already, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for converted in all {
            match converted {
                Converted::Now(layer) => layers.push(layer),
                Converted::Already(path) => already.push(path),
                Converted::Skipped(path) => skipped.push(path),
            }
        }
        let unused = |pattern: &&String| !skipped.iter().any(|path| matches_pattern(pattern, path));
        let unused_patterns = self.skip.iter().filter(unused).cloned().collect();
        ConversionReport {
            layers,
            already,
            skipped,
            unused_patterns,
            device_bytes,
        }
    }

    /// Whether a layer at `path` stays as it is.
    pub fn skips(&self, path: &str) -> bool {
        self.skip
            .iter()
            .any(|pattern| matches_pattern(pattern, path))
    }

    /// A converted copy; `model` stays as it is. What was converted before shares its static or delayed
    /// scales with the copy until one of them observes anew, or takes other activations.
    ///
    /// # Errors
    /// As [`Fp8Conversion::convert`].
    pub fn converted<M: Fp8Module + Clone>(
        &self,
        model: &M,
        device: &Device,
    ) -> Result<(M, ConversionReport), Error> {
        let mut copy = model.clone();
        let report = self.convert(&mut copy, device)?;
        Ok((copy, report))
    }
}

impl Fp8Layer for Linear {
    fn convert(&mut self, path: &str, conversion: &Fp8Conversion) -> Result<Vec<Converted>, Error> {
        let float = match self {
            Self::Float(float) => float,
            Self::Fp8(small) => {
                if small.activations.source() != conversion.activations {
                    let device = small.weight.device();
                    small.activations = ActivationScaling::new(conversion.activations, &device);
                }
                return Ok(vec![Converted::Already(path.to_string())]);
            }
        };
        let weight = out_in(float);
        let small = Fp8Linear::from_linear(float, &conversion.quantizer)?;
        let scaling = ActivationScaling::new(conversion.activations, &small.weight.device());
        let report = LayerReport {
            path: path.to_string(),
            shape: weight.dims().to_vec(),
            bytes_before: weight.shape().num_elements() * weight.dtype().size(),
            bytes_after: small.weight.bytes(),
            relative_error: relative_error(&small.weight.to_tensor()?, weight)?,
        };
        *self = Self::Fp8(small.with_activations(scaling));
        Ok(vec![Converted::Now(report)])
    }

    fn activation_scalings(&mut self) -> Vec<&mut ActivationScaling> {
        match self {
            Self::Fp8(linear) => vec![&mut linear.activations],
            Self::Float(_) => Vec::new(),
        }
    }
}

/// ‖codes − source‖ / ‖source‖, read back.
fn relative_error<const D: usize>(codes: &Fp8Tensor, source: Tensor<D>) -> Result<f32, Error> {
    let error = codes.relative_error(inner(source))?;
    let error = error.try_into_vec_as::<f32>().map_err(Error::device)?;
    Ok(error.first().copied().unwrap_or(0.0))
}
