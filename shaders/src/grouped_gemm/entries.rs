//! Which variants of the grouped GEMM are compiled for every target.

use super::{Activation, Choice, Fp8Weights, Operands, Problem, Source, Variant};
use super::{WeightLayout, launch, plan};
use crate::emit::{KernelEntry, Machine, Planned};
use moebius_ops::Element;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::Granularity;

/// 1024 tokens, 2 of 8 experts, 512 columns either way; of another element where an entry says so.
const GATHER_RELU: Problem = Problem {
    slots: 2048,
    row_bound: 2048,
    experts: 8,
    top_k: 2,
    n: 512,
    k: 512,
    element: Element::F32,
    rows: Source::Tokens,
    layout: WeightLayout::OutIn,
    gated: false,
    activation: Some(Activation::Relu),
    bias: false,
    dense: false,
    fp8: None,
};

const GATHER_GELU_BIAS: Problem = Problem {
    activation: Some(Activation::Gelu),
    bias: true,
    ..GATHER_RELU
};

const GATHER_GATED_SILU: Problem = Problem {
    gated: true,
    activation: Some(Activation::Silu),
    ..GATHER_RELU
};

const SORTED: Problem = Problem {
    rows: Source::Sorted,
    activation: None,
    ..GATHER_RELU
};

const SORTED_BIAS: Problem = Problem {
    bias: true,
    ..SORTED
};

const GATHER_MISH: Problem = Problem {
    activation: Some(Activation::Mish),
    ..GATHER_RELU
};

/// The gradient of the hidden rows from those of the tokens, and of the inputs from sorted rows.
const GATHER_IN_OUT: Problem = Problem {
    layout: WeightLayout::InOut,
    activation: None,
    ..GATHER_RELU
};

const SORTED_IN_OUT: Problem = Problem {
    rows: Source::Sorted,
    ..GATHER_IN_OUT
};

const DENSE: Problem = Problem {
    slots: 1024,
    row_bound: 1024,
    experts: 1,
    top_k: 1,
    rows: Source::Sorted,
    activation: None,
    dense: true,
    ..GATHER_RELU
};

/// An ordinary layer, and the gradient of its input.
const DENSE_BIAS: Problem = Problem {
    bias: true,
    ..DENSE
};

const DENSE_IN_OUT: Problem = Problem {
    layout: WeightLayout::InOut,
    ..DENSE
};

/// Codes: both formats, every kind of scale, every source of rows.
const DENSE_BLOCK: Problem = Problem {
    fp8: codes(
        Fp8Format::E4M3,
        Granularity::Block {
            rows: 128,
            columns: 128,
        },
    ),
    ..DENSE
};

const DENSE_TENSOR: Problem = Problem {
    bias: true,
    fp8: codes(Fp8Format::E5M2, Granularity::Tensor),
    ..DENSE
};

const GATHER_GATED_ROW: Problem = Problem {
    fp8: codes(Fp8Format::E4M3, Granularity::Row),
    ..GATHER_GATED_SILU
};

const SORTED_MX: Problem = Problem {
    fp8: codes(Fp8Format::E4M3, Granularity::Mx),
    ..SORTED
};

const fn codes(format: Fp8Format, granularity: Granularity) -> Option<Fp8Weights> {
    Some(Fp8Weights {
        format,
        granularity,
    })
}

/// The cases of f32, which cover every option, and those of 16-bit types, which cover the stores.
const FULL: &[Problem] = &[
    GATHER_RELU,
    GATHER_GELU_BIAS,
    GATHER_GATED_SILU,
    GATHER_MISH,
    SORTED_BIAS,
    GATHER_IN_OUT,
    SORTED_IN_OUT,
    DENSE,
];

const FP8: &[Problem] = &[DENSE_BLOCK, DENSE_TENSOR, GATHER_GATED_ROW, SORTED_MX];
const FP8_HALF: &[Problem] = &[DENSE_BLOCK, GATHER_GATED_ROW];
const HALF: &[Problem] = &[GATHER_GATED_SILU, SORTED, SORTED_IN_OUT];
const LAYER: &[Problem] = &[DENSE_BIAS, DENSE_IN_OUT];
const MATRIX: &[Problem] = &[GATHER_RELU, GATHER_GATED_SILU, SORTED];

const ALL: &[Variant] = &[Variant::Unit, Variant::Gemv, Variant::Naive, Variant::Cpu];
const FAST: &[Variant] = &[Variant::Unit, Variant::Gemv, Variant::Cpu];

/// Variants with their cases of f32 and of 16-bit types, which the naive one has none of.
const ENTRIES: [(&[Variant], &[Problem], &[Problem]); 4] = [
    (ALL, FULL, HALF),
    (&[Variant::TensorCore], &[], MATRIX),
    (FAST, LAYER, LAYER),
    (ALL, FP8, FP8_HALF),
];

/// Every variant, in the cases that compile to different code.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for (variants, full, half) in ENTRIES {
        for &variant in variants {
            entries.extend(full.iter().map(|case| entry(variant, *case)));
            let halves = Element::ALL
                .into_iter()
                .filter(|element| element.bytes() == 2);
            for element in halves.filter(|_| variant != Variant::Naive) {
                let of = |case: &Problem| Problem { element, ..*case };
                entries.extend(half.iter().map(|case| entry(variant, of(case))));
            }
        }
    }
    entries
}

fn entry(variant: Variant, problem: Problem) -> KernelEntry {
    let family = match problem.fp8 {
        Some(_) => "fp8_gemm",
        None => "grouped_gemm",
    };
    let name = super::name(&problem, variant);
    let launch = move |at: &Machine| product(at, variant, problem);
    let entry = KernelEntry::new((family, variant.name()), name, launch).of(problem.element);
    entry.proven(variant.proven())
}

fn product(at: &Machine, variant: Variant, problem: Problem) -> Planned {
    let plan = plan(problem, &at.capability, Choice::of(variant));
    let given = [
        ("offsets", !problem.dense),
        ("scales", problem.fp8.is_some()),
        ("b", problem.bias),
    ];
    at.launch(&given, plan, |client, plan, operands: Operands| {
        launch(client, plan, &operands);
    })
}
