//! The compiled variants of quantisation: every format, kind of scale and element type.

use super::amax::Finish;
use super::plan_amax;
use super::{Buffers, Plan, Problem, launch, launch_amax, launch_by, launch_dequantize, plan};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use crate::fp8::Conversion;
use cubecl::client::Client;
use moebius_ops::Element;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::AmaxProblem;
use moebius_ops::scaling::Granularity;

const BLOCK: Granularity = Granularity::of_blocks(128, 128);

/// Blocks whose columns end inside words.
const CUT: Granularity = Granularity::of_blocks(3, 5);

const GROUP: Granularity = Granularity::of_blocks(1, 128);

/// Problems of 512 rows of 1024 values: both formats saturating, one overflow to NaN, and every element type in E4M3.
fn samples(granularity: Granularity) -> Vec<Problem> {
    let of = |element, format, overflow| {
        let problem = Problem::new([1, 512, 1024], element, granularity, format);
        valid(problem).with_overflow(overflow)
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

fn entry(sample: Problem, kernel: &'static str) -> KernelEntry {
    converted(sample, kernel, Conversion::Bits)
}

/// An entry of a kernel by `conversion`; `kernel` names instructions if they are used.
fn converted(sample: Problem, kernel: &'static str, conversion: Conversion) -> KernelEntry {
    type Launch = fn(&Client, &Plan, Buffers);
    let (name, launch): (_, Launch) = match kernel {
        "quantize" | "quantize by instructions" => (super::quantize_name(&sample), launch),
        "quantize by scales" => (super::quantize_by_name(&sample), launch_by),
        _ => (super::dequantize_name(&sample), launch_dequantize),
    };
    let launch = move |at: &Machine| {
        let plan =
            plan(sample, &at.capability).and_then(|plan| plan.by(conversion, &at.capability));
        at.launch(&[], plan, launch)
    };
    let name = name + conversion.suffix();
    let entry = KernelEntry::new("fp8", kernel, name, launch).of(sample.element());
    conversion.entry(entry)
}

/// The largest magnitude of so many values that they are reduced in parts.
fn amax(at: &Machine, element: Element) -> Planned {
    let plan = plan_amax(AmaxProblem::new(1 << 20, element)?, &at.capability)?;
    launch_amax(at.client(), &plan, at.buffer(), at.buffer());
    Ok(())
}

/// The scale of a matrix so large that computing it is a separate launch.
fn scale(at: &Machine) -> Planned {
    let shape = [1, 1024, 1024];
    let problem = Problem::new(shape, Element::F32, Granularity::Tensor, Fp8Format::E4M3)?;
    at.launch(&[], plan(problem, &at.capability), launch)
}

/// Quantisers and dequantisers with both kinds of scales, and largest magnitudes in every element type.
pub fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for granularity in KINDS {
        let samples = samples(granularity);
        for kernel in ["quantize", "quantize by scales"] {
            entries.extend(samples.iter().map(|sample| entry(*sample, kernel)));
        }
        let decoded = samples
            .iter()
            .filter(|s| s.overflow() == Overflow::Saturate);
        entries.extend(decoded.map(|sample| entry(*sample, "dequantize")));
    }
    for kernel in ["quantize by instructions", "dequantize by instructions"] {
        entries.push(converted(
            samples(GROUP)[0],
            kernel,
            Conversion::Instructions,
        ));
    }
    let whole = samples(BLOCK)[0];
    entries.push(entry(whole, "quantize"));
    let cut = samples(CUT)[0];
    entries.push(entry(cut, "quantize by scales"));
    entries.push(entry(cut, "dequantize"));
    for element in Element::ALL {
        let name = format!("fp8_amax_parts_{element}");
        let launch = move |at: &Machine| amax(at, element);
        entries.push(KernelEntry::new("fp8", "amax", name, launch).of(element));
    }
    let (name, blocks) = (Finish::Magnitude.name(), |at: &Machine| {
        amax(at, Element::F32)
    });
    entries.push(KernelEntry::new("fp8", "amax", name, blocks));
    let name = Finish::Scale(Fp8Format::E4M3).name();
    entries.push(KernelEntry::new("fp8", "amax", name, scale));
    entries
}
