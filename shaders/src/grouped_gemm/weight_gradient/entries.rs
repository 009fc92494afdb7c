//! Which variants of the weight gradient are compiled for every target.

use super::{Choice, Problem, Source, Variant, cpu, naive, plan, tile};
use crate::element::Element;
use crate::emit::{KernelEntry, Machine, Planned};

/// A variant, its element type, what is appended to its name, and the columns and sources of a and b.
struct Case(Variant, Element, &'static str, [usize; 2], [Source; 2]);

const SORTED_BY_TOKEN: [Source; 2] = [Source::Sorted, Source::Tokens];
const TOKEN_BY_SORTED: [Source; 2] = [Source::Tokens, Source::Sorted];

/// 16-bit types differ in their loads, columns that are no multiple of four in loads and stores.
const CASES: [Case; 9] = [
    Case(Variant::Unit, Element::F32, "", [512, 256], SORTED_BY_TOKEN),
    Case(
        Variant::Unit,
        Element::F32,
        "_ragged",
        [511, 255],
        TOKEN_BY_SORTED,
    ),
    Case(Variant::Unit, Element::F16, "", [512, 256], TOKEN_BY_SORTED),
    Case(
        Variant::Unit,
        Element::Bf16,
        "",
        [512, 256],
        TOKEN_BY_SORTED,
    ),
    Case(
        Variant::Naive,
        Element::F32,
        "",
        [512, 256],
        SORTED_BY_TOKEN,
    ),
    Case(Variant::Cpu, Element::F32, "", [512, 256], SORTED_BY_TOKEN),
    Case(
        Variant::Cpu,
        Element::F32,
        "_ragged",
        [511, 255],
        TOKEN_BY_SORTED,
    ),
    Case(Variant::Cpu, Element::F16, "", [512, 256], TOKEN_BY_SORTED),
    Case(Variant::Cpu, Element::Bf16, "", [512, 256], TOKEN_BY_SORTED),
];

/// Every variant, in the cases that compile to different code.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let entry = |Case(variant, element, suffix, columns, sources): Case| {
        let name = format!("weight_gradient_{}_{element}{suffix}", variant.name());
        let build = move |at: &Machine| build(at, variant, element, columns, sources);
        KernelEntry::new(("weight_gradient", variant.name()), name, build).of(element)
    };
    CASES.map(entry).into()
}

fn build(
    at: &Machine,
    variant: Variant,
    element: Element,
    [m, n]: [usize; 2],
    [a, b]: [Source; 2],
) -> Planned {
    let problem = Problem {
        element,
        a,
        b,
        ..Problem::new(2048, 8, 2, m, n)?
    };
    let choice = Choice {
        variant: Some(variant),
        ..Choice::default()
    };
    let plan = plan(problem, &at.capability, choice)?;
    Ok(match variant {
        Variant::Cpu => cpu::kernel(at, &plan),
        Variant::Naive => naive::kernel(at, &plan),
        _ => tile::kernel(at, &plan),
    })
}
