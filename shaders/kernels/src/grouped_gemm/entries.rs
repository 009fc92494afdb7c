//! The variants of the grouped GEMM that are compiled for every target.

use super::pipeline::{HOPPER, Instruction};
use super::{Activation, Choice, Fp8Scheme, Problem, Source, Stored, Variant};
use super::{WeightLayout, launch, plan};
use crate::emit::{KernelEntry, Machine, Planned};
use crate::fp8::Conversion;
use moebius_ops::Element;
use moebius_ops::blocks::BlockFormat;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::Granularity;

/// A layer of 1024 tokens, 2 of 8 experts, and 512 columns either way, in f32.
const fn of(rows: Source, activation: Option<Activation>, bias: bool) -> Problem {
    Problem {
        slots: 2048,
        row_bound: 2048,
        experts: 8,
        top_k: 2,
        n: 512,
        k: 512,
        element: Element::F32,
        rows,
        layout: WeightLayout::OutIn,
        gated: false,
        activation,
        bias,
        dense: false,
        stored: Stored::Values,
        interleaved: false,
    }
}

/// A dense layer of 1024 tokens.
const fn dense(bias: bool) -> Problem {
    Problem {
        slots: 1024,
        row_bound: 1024,
        experts: 1,
        top_k: 1,
        dense: true,
        ..of(Source::Sorted, None, bias)
    }
}

/// The product that a gradient needs: of the hidden rows from those of the tokens, or of the inputs.
const fn turned(problem: Problem) -> Problem {
    Problem {
        layout: WeightLayout::InOut,
        ..problem
    }
}

const fn coded(problem: Problem, format: Fp8Format, granularity: Granularity) -> Problem {
    Problem {
        stored: Stored::Fp8(Fp8Scheme {
            format,
            granularity,
        }),
        ..problem
    }
}

/// The problem with two of each four weights.
const fn sparse(problem: Problem) -> Problem {
    Problem {
        stored: Stored::Sparse24,
        ..problem
    }
}

/// The problem with weights in blocks.
const fn in_blocks(problem: Problem, format: BlockFormat) -> Problem {
    Problem {
        stored: Stored::Blocks(format),
        ..problem
    }
}

const GATHER_RELU: Problem = of(Source::Tokens, Some(Activation::Relu), false);
const GATHER_GELU_BIAS: Problem = of(Source::Tokens, Some(Activation::Gelu), true);
const GATHER_MISH: Problem = of(Source::Tokens, Some(Activation::Mish), false);
const GATHER_GATED_SILU: Problem = Problem {
    gated: true,
    ..of(Source::Tokens, Some(Activation::Silu), false)
};
const SORTED: Problem = of(Source::Sorted, None, false);
const SORTED_BIAS: Problem = of(Source::Sorted, None, true);
const GATHER_IN_OUT: Problem = turned(of(Source::Tokens, None, false));
const SORTED_IN_OUT: Problem = turned(SORTED);
const BLOCK: Granularity = Granularity::of_blocks(128, 128);

/// FP8 weights: both formats, every kind of scale, every source of rows.
const DENSE_BLOCK: Problem = coded(dense(false), Fp8Format::E4M3, BLOCK);
const DENSE_TENSOR: Problem = coded(dense(true), Fp8Format::E5M2, Granularity::Tensor);
const GATHER_GATED_ROW: Problem = coded(GATHER_GATED_SILU, Fp8Format::E4M3, Granularity::Row);
const SORTED_MX: Problem = coded(SORTED, Fp8Format::E4M3, Granularity::Mx);
/// Those for the gradients of the rows.
const DENSE_BLOCK_IN_OUT: Problem = turned(DENSE_BLOCK);
const SORTED_ROW_IN_OUT: Problem = coded(SORTED_IN_OUT, Fp8Format::E5M2, Granularity::Row);

/// The cases in f32, which cover every option, and those in 16-bit types, which cover the stores.
const FULL: &[Problem] = &[
    GATHER_RELU,
    GATHER_GELU_BIAS,
    GATHER_GATED_SILU,
    GATHER_MISH,
    SORTED_BIAS,
    GATHER_IN_OUT,
    SORTED_IN_OUT,
    dense(false),
];

const FP8: &[Problem] = &[
    DENSE_BLOCK,
    DENSE_TENSOR,
    GATHER_GATED_ROW,
    SORTED_MX,
    DENSE_BLOCK_IN_OUT,
    SORTED_ROW_IN_OUT,
];
const FP8_HALF: &[Problem] = &[DENSE_BLOCK, GATHER_GATED_ROW, DENSE_BLOCK_IN_OUT];
const HALF: &[Problem] = &[GATHER_GATED_SILU, SORTED, SORTED_IN_OUT];
const LAYER: &[Problem] = &[dense(true), turned(dense(false))];
/// Products with 2:4 weights, and those for the gradients of their rows.
const SPARSE: &[Problem] = &[
    sparse(dense(true)),
    sparse(SORTED),
    sparse(turned(dense(false))),
];

/// Every format of blocks, in products of every kind.
const BLOCKS: &[Problem] = &[
    in_blocks(dense(true), BlockFormat::Q8_0),
    in_blocks(dense(false), BlockFormat::Q4_0),
    in_blocks(dense(false), BlockFormat::Q4_1),
    in_blocks(dense(false), BlockFormat::Q5_0),
    in_blocks(dense(false), BlockFormat::Q5_1),
    in_blocks(GATHER_GATED_SILU, BlockFormat::Q4K),
    in_blocks(dense(false), BlockFormat::Q5K),
    in_blocks(SORTED_BIAS, BlockFormat::Q6K),
    in_blocks(dense(false), BlockFormat::Iq4Nl),
    in_blocks(GATHER_GATED_SILU, BlockFormat::Mxfp4),
    in_blocks(dense(false), BlockFormat::Int4_32),
    in_blocks(dense(false), BlockFormat::Int4_64),
    in_blocks(dense(false), BlockFormat::Int4_128),
    in_blocks(dense(false), BlockFormat::Nvfp4),
    in_blocks(dense(false), BlockFormat::F16),
    in_blocks(GATHER_GATED_SILU, BlockFormat::Bf16),
    in_blocks(SORTED_IN_OUT, BlockFormat::Q4K),
    in_blocks(turned(dense(false)), BlockFormat::Q8_0),
];
const BLOCKS_HALF: &[Problem] = &[
    in_blocks(dense(true), BlockFormat::Q8_0),
    in_blocks(GATHER_GATED_SILU, BlockFormat::Q4K),
    in_blocks(turned(dense(false)), BlockFormat::Q8_0),
];

const MATRIX: &[Problem] = &[
    GATHER_RELU,
    GATHER_GATED_SILU,
    SORTED,
    SORTED_IN_OUT,
    DENSE_BLOCK,
    GATHER_GATED_ROW,
    DENSE_BLOCK_IN_OUT,
    sparse(dense(true)),
    sparse(turned(dense(false))),
    in_blocks(dense(true), BlockFormat::Q8_0),
    in_blocks(GATHER_GATED_SILU, BlockFormat::Q4K),
    in_blocks(turned(dense(false)), BlockFormat::Q8_0),
];

const ALL: &[Variant] = &[Variant::Unit, Variant::Gemv, Variant::Naive, Variant::Cpu];
const FAST: &[Variant] = &[Variant::Unit, Variant::Gemv, Variant::Cpu];

/// Variants with their cases in f32 and in 16-bit types; the naive variant has none of the latter.
const ENTRIES: [(&[Variant], &[Problem], &[Problem]); 6] = [
    (ALL, FULL, HALF),
    (&[Variant::TensorCore, Variant::Pipelined], &[], MATRIX),
    (FAST, LAYER, LAYER),
    (ALL, FP8, FP8_HALF),
    (ALL, SPARSE, SPARSE),
    (ALL, BLOCKS, BLOCKS_HALF),
];

/// Every variant, in the cases that compile to different code.
pub fn entries() -> Vec<KernelEntry> {
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
                if variant == Variant::Pipelined {
                    entries.extend(half.iter().map(|case| of_hopper(of(case))));
                }
            }
        }
    }
    entries.push(converted(Variant::Unit, Element::F32));
    entries.push(converted(Variant::TensorCore, Element::F16));
    entries
}

fn entry(variant: Variant, problem: Problem) -> KernelEntry {
    let family = super::family(&problem);
    let name = super::name(&problem, variant);
    let launch = move |at: &Machine| product(at, variant, problem, Conversion::Bits);
    let entry = KernelEntry::new(family, variant.name(), name, launch).of(problem.element);
    entry.proven(variant.proven())
}

/// The pipelined variant by Hopper's instructions.
fn of_hopper(problem: Problem) -> KernelEntry {
    let entry = entry(Variant::Pipelined, problem).since_sm(HOPPER);
    entry.by(Instruction::OF_HOPPER, Instruction::Group.suffix())
}

/// FP8 weights decoded by conversion instructions.
fn converted(variant: Variant, element: Element) -> KernelEntry {
    let problem = Problem {
        element,
        ..DENSE_BLOCK
    };
    let of = match variant {
        Variant::TensorCore => "tensor_core by instructions",
        _ => "unit by instructions",
    };
    let conversion = Conversion::Instructions;
    let name = super::name(&problem, variant) + conversion.suffix();
    let launch = move |at: &Machine| product(at, variant, problem, conversion);
    let entry = KernelEntry::new("fp8_gemm", of, name, launch);
    conversion.entry(entry.of(element))
}

fn product(at: &Machine, variant: Variant, problem: Problem, conversion: Conversion) -> Planned {
    let plan = plan(problem, &at.capability, Choice::of(variant))
        .and_then(|plan| Ok(plan.by(conversion, &at.capability)?));
    let given = [
        ("offsets", !problem.dense),
        ("scales", problem.stored.fp8().is_some()),
        ("places", problem.stored == Stored::Sparse24),
        ("b", problem.bias),
    ];
    at.launch(&given, plan, launch)
}
