//! The plan of a conversion, made from headers before anything is read or written; names and shapes show which tensors are weights of
//! matrix products.

use std::collections::{BTreeMap, BTreeSet};

use moebius_ops::matches_pattern;
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use safetensors::Dtype;

use super::ConvertOptions;
use crate::error::{Unfit, WeightsError, tensor};
use crate::fp8::{StoredFp8, is_float};
use crate::reader::Reader;
use crate::writer::TensorSpec;

/// A step of a conversion, for one tensor, or for an FP8 weight and its scales.
#[derive(Debug)]
pub(super) enum Step {
    /// Copies the bytes.
    Copy(String),
    /// Quantises the values to FP8.
    Quantize(String),
    /// Carries over codes and scales.
    Carry(StoredFp8),
    /// Decodes the FP8 weight and quantises it again.
    Requantize(StoredFp8),
}

impl Step {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Copy(name) | Self::Quantize(name) => name,
            Self::Carry(layout) | Self::Requantize(layout) => &layout.name,
        }
    }

    fn is_copy(&self) -> bool {
        matches!(self, Self::Copy(_))
    }
}

/// All steps of a conversion, and the tensors that they write.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) specs: Vec<TensorSpec>,
}

impl Plan {
    pub(super) fn new(source: &Reader, options: &ConvertOptions) -> Result<Self, WeightsError> {
        let scheme = options.scheme;
        if let Granularity::Block { rows, columns } = scheme.granularity
            && (rows == 0 || columns == 0)
        {
            return Err(WeightsError::Scheme(scheme.to_string()));
        }
        let layouts = source.fp8_layouts(options.unscaled)?;
        let scales: BTreeSet<String> = layouts.iter().filter_map(|l| l.scale.clone()).collect();
        let mut layouts: BTreeMap<String, StoredFp8> = layouts
            .into_iter()
            .map(|layout| (layout.name.clone(), layout))
            .collect();
        let mut plan = Self::default();
        for name in source.names_in_order() {
            if scales.contains(name) {
                continue; // Handled with the weight of these scales.
            }
            let step = step(source, options, name, layouts.remove(name))?;
            let info = source.info(name)?;
            match step {
                Step::Copy(_) => plan.specs.push(TensorSpec {
                    name: name.to_owned(),
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                }),
                _ => plan
                    .specs
                    .extend(TensorSpec::of_fp8(name, &info.shape, scheme)),
            }
            plan.steps.push(step);
        }
        Ok(plan)
    }

    /// Whether the result has any FP8 weight.
    pub(super) fn has_fp8(&self) -> bool {
        !self.steps.iter().all(Step::is_copy)
    }

    /// Whether every FP8 weight has a scale of its input.
    pub(super) fn is_calibrated(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Copy(_) => true,
            Step::Quantize(_) => false,
            Step::Carry(layout) | Step::Requantize(layout) => layout.input_scale.is_some(),
        })
    }

    /// Names of the modules whose matrices stay as they are.
    pub(super) fn ignored(&self, source: &Reader) -> Vec<String> {
        let copied = self.steps.iter().filter(|step| step.is_copy());
        let matrices = copied.map(Step::name).filter(|name| {
            let info = source.get(name);
            info.is_some_and(|info| is_float(info.dtype) && is_matrix(name, &info.shape))
        });
        matrices
            .map(|name| name.strip_suffix(".weight").unwrap_or(name).to_owned())
            .collect()
    }
}

fn step(
    source: &Reader,
    options: &ConvertOptions,
    name: &str,
    layout: Option<StoredFp8>,
) -> Result<Step, WeightsError> {
    let info = source.info(name)?;
    let skipped = options
        .skip
        .iter()
        .any(|pattern| matches_pattern(pattern, name));
    if let Some(layout) = layout {
        if is_same(&layout, options.scheme) {
            return Ok(Step::Carry(layout));
        }
        if !skipped {
            return Ok(Step::Requantize(layout));
        }
        let fault = Unfit::new(tensor(name), options.scheme, layout.scheme);
        return Err(WeightsError::SkippedFp8(fault));
    }
    if matches!(info.dtype, Dtype::F8_E4M3FNUZ | Dtype::F8_E5M2FNUZ) {
        return Err(source.wrong(name, "F8_E4M3 or F8_E5M2", info.dtype));
    }
    let quantized = !skipped && is_float(info.dtype) && is_matrix(name, &info.shape);
    Ok(if quantized {
        Step::Quantize(name.to_owned())
    } else {
        Step::Copy(name.to_owned())
    })
}

/// Whether the codes and scales of `layout` have the scheme `scheme`, possibly with a differently named granularity that gives the same
/// blocks.
fn is_same(layout: &StoredFp8, scheme: Fp8Scheme) -> bool {
    let (here, there) = (layout.scheme.granularity, scheme.granularity);
    let matrix = layout.matrix();
    let [rows, columns] = [matrix.rows, matrix.columns];
    let block = |granularity: Granularity| {
        let [r, c] = granularity.block(rows, columns);
        [r.min(rows), c.min(columns)]
    };
    let same = here == there
        || (block(here) == block(there)
            && here.scale_type() == there.scale_type()
            && rows != 0
            && columns != 0);
    same && layout.scheme.format == scheme.format
}

/// Patterns of tensors that stay as they are: embeddings, norms, the output head and routers.
pub const DEFAULT_SKIPS: &[&str] = &[
    "*embed*",
    "*wte*",
    "*wpe*",
    "*norm*",
    "*ln_*",
    "*lm_head*",
    "*router*",
    "*.gate.weight",
    "*.gate.wg.weight",
    "*.shared_expert_gate.weight",
];

/// Whether a tensor is a matrix, or a stack of one per expert, that multiplies rows of tokens.
///
/// With two extents, the name must end in `.weight`, or have a part `experts` and be neither bias nor scale. With three, a part of the name
/// must name experts, to tell a stack from a convolution.
fn is_matrix(name: &str, shape: &[usize]) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let weight = last == "weight";
    let part = |text: &str| name.split('.').any(|part| part.contains(text));
    let of_experts = part("experts") && !last.contains("bias") && !last.contains("scale");
    match shape.len() {
        2 => weight || of_experts,
        3 => of_experts || (weight && part("moe")),
        _ => false,
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
