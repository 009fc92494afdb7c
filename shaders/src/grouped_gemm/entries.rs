//! Which variants of the grouped GEMM are compiled for every target.

use super::{Activation, Choice, Problem, Source, Variant, WeightLayout};
use super::{cpu, naive, plan, tensor_core, tile};
use crate::element::Element;
use crate::emit::{KernelEntry, Machine, Planned};

/// A way to use the kernel: what is appended to its name, and the options of its problem.
#[derive(Clone, Copy)]
struct Case {
    suffix: &'static str,
    rows: Source,
    layout: WeightLayout,
    gated: bool,
    activation: Option<Activation>,
    bias: bool,
}

const GATHER_RELU: Case = Case {
    suffix: "gather_relu",
    rows: Source::Tokens,
    layout: WeightLayout::OutIn,
    gated: false,
    activation: Some(Activation::Relu),
    bias: false,
};
const GATHER_GELU_BIAS: Case = Case {
    suffix: "gather_gelu_bias",
    activation: Some(Activation::Gelu),
    bias: true,
    ..GATHER_RELU
};
const GATHER_GATED_SILU: Case = Case {
    suffix: "gather_gated_silu",
    gated: true,
    activation: Some(Activation::Silu),
    ..GATHER_RELU
};
const SORTED: Case = Case {
    suffix: "sorted",
    rows: Source::Sorted,
    activation: None,
    ..GATHER_RELU
};
const SORTED_BIAS: Case = Case {
    suffix: "sorted_bias",
    bias: true,
    ..SORTED
};
const GATHER_MISH: Case = Case {
    suffix: "gather_mish",
    activation: Some(Activation::Mish),
    ..GATHER_RELU
};
/// The gradient of the hidden rows from those of the tokens, and of the inputs from sorted rows.
const GATHER_IN_OUT: Case = Case {
    suffix: "gather_in_out",
    layout: WeightLayout::InOut,
    activation: None,
    ..GATHER_RELU
};
const SORTED_IN_OUT: Case = Case {
    suffix: "sorted_in_out",
    rows: Source::Sorted,
    ..GATHER_IN_OUT
};

/// The cases of f32, which cover every option, and those of 16-bit types, which cover the stores.
const FULL: &[Case] = &[
    GATHER_RELU,
    GATHER_GELU_BIAS,
    GATHER_GATED_SILU,
    GATHER_MISH,
    SORTED_BIAS,
    GATHER_IN_OUT,
    SORTED_IN_OUT,
];
const HALF: &[Case] = &[GATHER_GATED_SILU, SORTED, SORTED_IN_OUT];
const MATRIX: &[Case] = &[GATHER_RELU, GATHER_GATED_SILU, SORTED];

const ENTRIES: &[(Variant, Element, &[Case])] = &[
    (Variant::Unit, Element::F32, FULL),
    (Variant::Unit, Element::F16, HALF),
    (Variant::Unit, Element::Bf16, HALF),
    (Variant::Gemv, Element::F32, FULL),
    (Variant::Gemv, Element::F16, HALF),
    (Variant::Gemv, Element::Bf16, HALF),
    (Variant::Naive, Element::F32, FULL),
    (Variant::Cpu, Element::F32, FULL),
    (Variant::Cpu, Element::F16, HALF),
    (Variant::Cpu, Element::Bf16, HALF),
    (Variant::TensorCore, Element::F16, MATRIX),
    (Variant::TensorCore, Element::Bf16, MATRIX),
];

/// Every variant, in the cases that compile to different code.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for &(variant, element, cases) in ENTRIES {
        for &case in cases {
            let name = format!("grouped_gemm_{}_{element}_{}", variant.name(), case.suffix);
            let build = move |at: &Machine| build(at, variant, element, case);
            entries
                .push(KernelEntry::new(("grouped_gemm", variant.name()), name, build).of(element));
        }
    }
    entries
}

fn build(at: &Machine, variant: Variant, element: Element, case: Case) -> Planned {
    let problem = Problem {
        element,
        rows: case.rows,
        layout: case.layout,
        gated: case.gated,
        activation: case.activation,
        bias: case.bias,
        ..Problem::new(2048, 8, 2, 512, 512)?
    };
    let choice = Choice {
        variant: Some(variant),
        allow_unproven: true,
    };
    let plan = plan(problem, &at.capability, choice)?;
    Ok(match variant {
        Variant::Unit | Variant::Gemv => tile::kernel(at, &plan),
        Variant::Naive => naive::kernel(at, &plan),
        Variant::Cpu => cpu::kernel(at, &plan),
        Variant::TensorCore => tensor_core::kernel(at, &plan),
    })
}
