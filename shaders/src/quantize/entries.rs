//! Kernels of quantisation for emission: every format, kind of scale and element type.

use super::amax::{Finish, fp8_amax_blocks, fp8_amax_parts};
use super::apply::{fp8_dequantize, fp8_quantize_by};
use super::block::fp8_quantize;
use super::plan::Variant;
use super::{Plan, Problem, SizesCompilationArg, plan, plan_amax};
use crate::element::DeviceElement;
use crate::emit::{KernelEntry, Machine, Planned, buffer, valid};
use crate::error::PlanError;
use moebius_ops::Element;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::AmaxProblem;
use moebius_ops::scaling::Granularity;

const BLOCK: Granularity = Granularity::Block {
    rows: 128,
    columns: 128,
};

/// Its columns cut words apart.
const CUT: Granularity = Granularity::Block {
    rows: 3,
    columns: 5,
};

const GROUP: Granularity = Granularity::Block {
    rows: 1,
    columns: 128,
};

fn sizes() -> SizesCompilationArg {
    SizesCompilationArg {
        rows: (),
        columns: (),
        row_words: (),
        block_rows: (),
        block_columns: (),
        block_words: (),
        down: (),
        across: (),
        padded: (),
        lines: (),
    }
}

/// What an entry quantises: 512 rows of 1024.
#[derive(Clone, Copy)]
struct Sample {
    element: Element,
    granularity: Granularity,
    format: Fp8Format,
    overflow: Overflow,
}

impl Sample {
    fn problem(self) -> Problem {
        let shape = [1, 512, 1024];
        let problem = Problem::new(shape, self.element, self.granularity, self.format);
        valid(problem).with_overflow(self.overflow)
    }

    fn plan(self, at: &Machine) -> Result<Plan, PlanError> {
        Ok(plan(self.problem(), &at.capability)?)
    }
}

/// Both formats saturating, and an overflow to NaN; element types of one of them.
fn samples(granularity: Granularity) -> Vec<Sample> {
    let of = |element, format, overflow| Sample {
        element,
        granularity,
        format,
        overflow,
    };
    let elements = Element::ALL.map(|element| of(element, Fp8Format::E4M3, Overflow::Saturate));
    let others = [
        of(Element::F32, Fp8Format::E5M2, Overflow::Saturate),
        of(Element::F32, Fp8Format::E4M3, Overflow::Ieee),
    ];
    elements.into_iter().chain(others).collect()
}

/// The two kinds of scales.
const KINDS: [Granularity; 2] = [GROUP, Granularity::Mx];

fn quantize(sample: Sample) -> KernelEntry {
    let build = move |at: &Machine| -> Planned {
        let plan = sample.plan(at)?;
        let Variant::Cube(grid) = plan.variant else {
            unreachable!("no target is a CPU runtime");
        };
        let (settings, device, target) = at.parts(grid.dim());
        Ok(Box::new(fp8_quantize::Fp8Quantize::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            buffer(),
            sizes(),
            (),
            plan.lanes,
            plan.block_spec(grid.units),
            sample.element.elem_type(),
        )))
    };
    let name = super::quantize_name(&sample.problem());
    KernelEntry::new(("fp8", "quantize"), name, build).of(sample.element)
}

fn quantize_by(sample: Sample) -> KernelEntry {
    let build = move |at: &Machine| -> Planned {
        let plan = sample.plan(at)?;
        let (settings, device, target) = at.parts(plan.words.dim());
        Ok(Box::new(fp8_quantize_by::Fp8QuantizeBy::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            buffer(),
            sizes(),
            plan.lanes,
            plan.apply_spec(),
            sample.element.elem_type(),
        )))
    };
    let name = super::quantize_by_name(&sample.problem());
    KernelEntry::new(("fp8", "quantize by scales"), name, build).of(sample.element)
}

fn dequantize(sample: Sample) -> KernelEntry {
    let build = move |at: &Machine| -> Planned {
        let plan = sample.plan(at)?;
        let (settings, device, target) = at.parts(plan.words.dim());
        Ok(Box::new(fp8_dequantize::Fp8Dequantize::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            buffer(),
            sizes(),
            plan.lanes,
            plan.apply_spec(),
            sample.element.elem_type(),
        )))
    };
    let name = super::dequantize_name(&sample.problem());
    KernelEntry::new(("fp8", "dequantize"), name, build).of(sample.element)
}

fn amax_parts(element: Element) -> KernelEntry {
    let build = move |at: &Machine| -> Planned {
        let plan = plan_amax(AmaxProblem::new(1 << 20, element)?, &at.capability)?.reduction;
        let (settings, device, target) = at.parts(plan.of_parts.dim());
        Ok(Box::new(fp8_amax_parts::Fp8AmaxParts::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            super::amax::sizes_argument(),
            (),
            4,
            Finish::Magnitude,
            plan.of_parts.units,
            element.elem_type(),
        )))
    };
    KernelEntry::new(("fp8", "amax"), format!("fp8_amax_parts_{element}"), build).of(element)
}

fn amax_blocks(finish: Finish) -> KernelEntry {
    let build = move |at: &Machine| -> Planned {
        let problem = AmaxProblem::new(1 << 20, Element::F32)?;
        let plan = plan_amax(problem, &at.capability)?.reduction;
        let (settings, device, target) = at.parts(plan.of_blocks.dim());
        Ok(Box::new(fp8_amax_blocks::Fp8AmaxBlocks::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            (),
            (),
            finish,
            plan.of_blocks.units,
        )))
    };
    KernelEntry::new(("fp8", "amax"), finish.name(), build)
}

/// Quantisers and dequantisers with both kinds of scales, largest magnitudes of every element type.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for granularity in KINDS {
        let samples = samples(granularity);
        entries.extend(samples.iter().map(|sample| quantize(*sample)));
        entries.extend(samples.iter().map(|sample| quantize_by(*sample)));
        let decoded = samples.iter().filter(|s| s.overflow == Overflow::Saturate);
        entries.extend(decoded.map(|sample| dequantize(*sample)));
    }
    let whole = Sample {
        granularity: BLOCK,
        ..samples(BLOCK)[0]
    };
    entries.push(quantize(whole));
    let cut = Sample {
        granularity: CUT,
        ..whole
    };
    entries.push(quantize_by(cut));
    entries.push(dequantize(cut));
    entries.extend(Element::ALL.map(amax_parts));
    entries.push(amax_blocks(Finish::Magnitude));
    entries.push(amax_blocks(Finish::Scale(Fp8Format::E4M3)));
    entries
}
