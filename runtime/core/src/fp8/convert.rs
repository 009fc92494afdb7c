//! Conversion of models for inference with FP8 weights.

use super::activations::{ActivationScaling, Activations};
use super::matrices::Instructions;
use super::weight::{ATTACHED, Weight, check_activations};
use crate::{Error, memory_in_use};
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use moebius_ops::matches_pattern;
use moebius_ops::quantize::Quantizer;
use serde::{Deserialize, Serialize};

/// The container name that `#[derive(Module)]` gives a struct when a walk enters it. The macro also names the type, so that a renamed type
/// fails to compile here.
macro_rules! container {
    ($module:ident) => {{
        const _: usize = size_of::<$module>();
        concat!("Struct:", stringify!($module))
    }};
}

/// Asserts at compile time that the name by which a conversion knows a module is the module's container name.
macro_rules! known_container {
    ($module:ident, $known:ident) => {
        const _: () = assert!(
            $crate::fp8::same_name($crate::fp8::container!($module), $crate::fp8::$known),
            "conversion to FP8 knows this module by another name"
        );
    };
}

pub(crate) use {container, known_container};

/// The container of the expert that every token goes to; its weights appear under the name of that expert.
pub(crate) const SHARED_EXPERT: &str = "Struct:SharedExpert";

/// The container of experts that share one frozen network, which is never converted.
pub(crate) const FROZEN_EXPERTS: &str = "Struct:ParameterEfficientExperts";

/// Whether two names are equal, in a constant expression.
pub(crate) const fn same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut same = a.len() == b.len();
    let mut at = 0;
    while same && at < a.len() {
        same = a[at] == b[at];
        at += 1;
    }
    same
}

/// The settings of a conversion to FP8.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Conversion {
    /// How weights are rounded.
    pub quantizer: Quantizer,
    /// How activations are rounded, if at all.
    #[serde(default)]
    pub activations: Activations,
    /// The FP8 instructions of the device that products with codes use.
    #[serde(default)]
    pub instructions: Instructions,
    /// Layers whose path matches one of these patterns keep their weights; see [`matches_pattern`].
    #[serde(default)]
    pub skip: Vec<String>,
}

/// The conversion of one weight tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerReport {
    /// The path of the weight in the model.
    pub path: String,
    /// The shape of the weight before.
    pub shape: Vec<usize>,
    /// Bytes of the weight before.
    pub bytes_before: usize,
    /// Bytes of codes and scales.
    pub bytes_after: usize,
    /// The relative error ‖decoded − before‖ / ‖before‖.
    pub relative_error: f32,
}

/// A matrix that stays in floating point although no pattern skips it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The path of the matrix in the model.
    pub path: String,
    /// The reason why it stays.
    pub reason: String,
}

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConversionReport {
    /// Converted weights, in the order of the model.
    pub layers: Vec<LayerReport>,
    /// Paths of layers whose weights were FP8 already; they take over the conversion's activations and instructions.
    pub already: Vec<String>,
    /// Paths of layers that were skipped because a pattern matches them.
    pub skipped: Vec<String>,
    /// Matrices that stay as they are because they are no [`Weight`], or are frozen; biases and norms aren't listed.
    pub left_out: Vec<LeftOut>,
    /// Patterns that match no layer.
    pub unused_patterns: Vec<String>,
    /// Bytes of live buffers on the device before and after, as its allocator counts them; `None` on a device without such an allocator.
    pub device_bytes: Option<[u64; 2]>,
}

impl ConversionReport {
    /// Bytes of the converted weights, before and after.
    pub fn bytes(&self) -> [usize; 2] {
        let sum = |of: fn(&LayerReport) -> usize| self.layers.iter().map(of).sum();
        [sum(|l| l.bytes_before), sum(|l| l.bytes_after)]
    }

    /// Appends the report of a later conversion.
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

setters! { Fp8Conversion:
    /// Sets how activations are rounded.
    #[must_use]
    with_activations: activations: Activations,
    /// Sets the FP8 instructions of the device that products use.
    #[must_use]
    with_unproven_instructions: instructions: Instructions,
}

impl Fp8Conversion {
    /// Converts all weights with `quantizer`, and no activations.
    pub fn new(quantizer: Quantizer) -> Self {
        Self {
            quantizer,
            activations: Activations::Float,
            instructions: Instructions::None,
            skip: Vec::new(),
        }
    }

    /// Leaves the layers whose path matches `pattern`, such as `blocks.0.*`, as they are.
    #[must_use]
    pub fn skip(mut self, pattern: impl Into<String>) -> Self {
        self.skip.push(pattern.into());
        self
    }

    /// Returns the model with FP8 codes in place of every [`Weight`] that no pattern skips, and without gradients. The conversion goes
    /// weight by weight: the values of a weight are freed when its codes exist, unless a clone of the model holds them. Layers that were
    /// FP8 already share their static or delayed scales with clones until one of the clones observes anew or takes other activations.
    ///
    /// The conversion walks the model with Burn's module mapper, so a model needs `#[derive(Module)]` and nothing else. Paths are those of
    /// records without the names of enum variants; a linear layer has the path of its weight.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) where the quantizer or the activations are out of their range, or don't fit a
    /// weight; and the errors of [`Weight::quantize`].
    pub fn convert<M: Module>(
        &self,
        model: M,
        device: &Device,
    ) -> Result<(M, ConversionReport), Error> {
        self.quantizer.validate()?;
        self.activations.validate()?;
        let before = memory_in_use(device)?;
        let plain = model.valid();
        drop(model);
        let mut walk = Walk {
            conversion: self,
            at: Vec::new(),
            report: ConversionReport::default(),
            failed: None,
        };
        let model = plain.map(&mut walk);
        if let Some(error) = walk.failed {
            return Err(error);
        }
        let mut report = walk.report;
        let unused = |pattern: &&String| {
            !report
                .skipped
                .iter()
                .any(|path| matches_pattern(pattern, path))
        };
        report.unused_patterns = self.skip.iter().filter(unused).cloned().collect();
        let after = memory_in_use(device)?;
        report.device_bytes = before.zip(after).map(|(before, after)| [before, after]);
        Ok((model, report))
    }

    fn skips(&self, path: &str) -> bool {
        let matches = |pattern: &String| matches_pattern(pattern, path);
        self.skip.iter().any(matches)
    }
}

/// The state of a walk over a model.
struct Walk<'a> {
    conversion: &'a Fp8Conversion,
    /// Names and containers from the root to the current module.
    at: Vec<(String, String)>,
    report: ConversionReport,
    failed: Option<Error>,
}

impl Walk<'_> {
    /// The path of the names down to `depth`, without enum variants and without the body of a shared expert, which counts as the expert
    /// itself.
    fn path(&self, depth: usize) -> String {
        let counts = |(name, container): &&(String, String)| {
            !container.starts_with("Enum:")
                && (name.as_str(), container.as_str()) != ("experts", SHARED_EXPERT)
        };
        let names = self.at[..depth].iter().filter(counts);
        names
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(".")
    }

    /// The path of the current weight, and of its layer.
    fn paths(&self) -> [String; 2] {
        let layer = self.path(self.at.len().saturating_sub(1));
        match self.at.last() {
            Some((name, _)) if name == "weight" => [layer.clone(), layer],
            _ => [self.path(self.at.len()), layer],
        }
    }

    /// The path of the outermost enclosing module that a pattern matches.
    fn skipped(&self) -> Option<String> {
        let mut paths = (1..=self.at.len()).map(|depth| self.path(depth));
        paths.find(|path| self.conversion.skips(path))
    }

    /// The reason why a matrix that is no [`Weight`] stays as it is.
    fn reason(&self) -> String {
        let container = self.at.last().map_or("", |(_, container)| container);
        if container == container!(Linear) {
            return "Burn's own layer; `moebius::nn::Linear` has weights that convert".to_string();
        }
        match container.split_once(':') {
            Some((_, name)) => format!("`{name}` has no `moebius::fp8::Weight` here"),
            None => "a parameter by itself".to_string(),
        }
    }

    /// Returns the replacement of a weight; `None` if the weight stays.
    fn convert<const D: usize>(&mut self, weight: &Weight<D>) -> Result<Option<Weight<D>>, Error> {
        let [path, layer] = self.paths();
        if let Some(skipped) = self.skipped() {
            add(&mut self.report.skipped, skipped);
            return Ok(None);
        }
        if self
            .at
            .iter()
            .any(|(_, container)| container == FROZEN_EXPERTS)
        {
            let reason = "frozen below what is trained in floating point".to_string();
            self.report.left_out.push(LeftOut { path, reason });
            return Ok(None);
        }
        let Fp8Conversion {
            quantizer,
            activations,
            instructions,
            ..
        } = self.conversion;
        check_activations::<D>(*activations)?;
        let scaling = ActivationScaling::new(*activations, &weight.device());
        if let Some(before) = weight.activations().map(ActivationScaling::source) {
            add(&mut self.report.already, layer);
            let weight = if before == *activations {
                weight.clone()
            } else {
                weight.clone().with_activations(scaling)?
            };
            return weight.with_unproven_instructions(*instructions).map(Some);
        }
        let (codes, relative_error) = weight.quantize(quantizer)?;
        self.report.layers.push(LayerReport {
            path,
            shape: weight.dims().to_vec(),
            bytes_before: weight.bytes(),
            bytes_after: codes.bytes(),
            relative_error,
        });
        let codes = codes.with_activations(scaling)?;
        codes.with_unproven_instructions(*instructions).map(Some)
    }
}

/// Adds a path unless it is the last one already.
fn add(paths: &mut Vec<String>, path: String) {
    if paths.last() != Some(&path) {
        paths.push(path);
    }
}

impl ModuleMapper for Walk<'_> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.at.push((name.to_string(), container_type.to_string()));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.at.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        match Weight::met(param) {
            Ok(weight) => match self.convert(&weight) {
                Ok(other) => other.unwrap_or(weight).into_param(),
                Err(error) => {
                    self.failed = Some(error);
                    weight.into_param()
                }
            },
            Err(param) => {
                // Tensors attached to a weight are part of the weight.
                let attached = |(_, container): &(String, String)| container == ATTACHED;
                if D > 1 && !self.at.iter().any(attached) {
                    let (path, reason) = (self.path(self.at.len()), self.reason());
                    self.report.left_out.push(LeftOut { path, reason });
                }
                param
            }
        }
    }
}
