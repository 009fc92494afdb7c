//! Which variants of the grouped GEMM are compiled for every target.

use super::{Activation, Choice, Fp8Weights, Operands, Problem, Segments, Source, Variant};
use super::{WeightLayout, launch, plan};
use crate::emit::{KernelEntry, Machine, Planned};
use moebius_ops::Element;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::Granularity;

/// A way to use the kernel: the options of its problem.
#[derive(Clone, Copy)]
struct Case {
    rows: Source,
    layout: WeightLayout,
    gated: bool,
    activation: Option<Activation>,
    bias: bool,
    dense: bool,
    fp8: Option<Fp8Weights>,
}

const GATHER_RELU: Case = Case {
    rows: Source::Tokens,
    layout: WeightLayout::OutIn,
    gated: false,
    activation: Some(Activation::Relu),
    bias: false,
    dense: false,
    fp8: None,
};

const GATHER_GELU_BIAS: Case = Case {
    activation: Some(Activation::Gelu),
    bias: true,
    ..GATHER_RELU
};

const GATHER_GATED_SILU: Case = Case {
    gated: true,
    activation: Some(Activation::Silu),
    ..GATHER_RELU
};

const SORTED: Case = Case {
    rows: Source::Sorted,
    activation: None,
    ..GATHER_RELU
};

const SORTED_BIAS: Case = Case {
    bias: true,
    ..SORTED
};

const GATHER_MISH: Case = Case {
    activation: Some(Activation::Mish),
    ..GATHER_RELU
};

/// The gradient of the hidden rows from those of the tokens, and of the inputs from sorted rows.
const GATHER_IN_OUT: Case = Case {
    layout: WeightLayout::InOut,
    activation: None,
    ..GATHER_RELU
};

const SORTED_IN_OUT: Case = Case {
    rows: Source::Sorted,
    ..GATHER_IN_OUT
};

const DENSE: Case = Case {
    rows: Source::Sorted,
    activation: None,
    dense: true,
    ..GATHER_RELU
};

/// An ordinary layer, and the gradient of its input.
const DENSE_BIAS: Case = Case {
    bias: true,
    ..DENSE
};

const DENSE_IN_OUT: Case = Case {
    layout: WeightLayout::InOut,
    ..DENSE
};

/// Codes: both formats, every kind of scale, every source of rows.
const DENSE_BLOCK: Case = Case {
    fp8: codes(
        Fp8Format::E4M3,
        Granularity::Block {
            rows: 128,
            columns: 128,
        },
    ),
    ..DENSE
};

const DENSE_TENSOR: Case = Case {
    bias: true,
    fp8: codes(Fp8Format::E5M2, Granularity::Tensor),
    ..DENSE
};

const GATHER_GATED_ROW: Case = Case {
    fp8: codes(Fp8Format::E4M3, Granularity::Row),
    ..GATHER_GATED_SILU
};

const SORTED_MX: Case = Case {
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
const FULL: &[Case] = &[
    GATHER_RELU,
    GATHER_GELU_BIAS,
    GATHER_GATED_SILU,
    GATHER_MISH,
    SORTED_BIAS,
    GATHER_IN_OUT,
    SORTED_IN_OUT,
    DENSE,
];

const FP8: &[Case] = &[DENSE_BLOCK, DENSE_TENSOR, GATHER_GATED_ROW, SORTED_MX];
const FP8_HALF: &[Case] = &[DENSE_BLOCK, GATHER_GATED_ROW];
const HALF: &[Case] = &[GATHER_GATED_SILU, SORTED, SORTED_IN_OUT];
const LAYER: &[Case] = &[DENSE_BIAS, DENSE_IN_OUT];
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
    (Variant::Unit, Element::F32, LAYER),
    (Variant::Unit, Element::F16, LAYER),
    (Variant::Unit, Element::Bf16, LAYER),
    (Variant::Gemv, Element::F32, LAYER),
    (Variant::Gemv, Element::F16, LAYER),
    (Variant::Gemv, Element::Bf16, LAYER),
    (Variant::Cpu, Element::F32, LAYER),
    (Variant::Cpu, Element::F16, LAYER),
    (Variant::Cpu, Element::Bf16, LAYER),
    (Variant::Unit, Element::F32, FP8),
    (Variant::Unit, Element::F16, FP8_HALF),
    (Variant::Unit, Element::Bf16, FP8_HALF),
    (Variant::Gemv, Element::F32, FP8),
    (Variant::Gemv, Element::F16, FP8_HALF),
    (Variant::Gemv, Element::Bf16, FP8_HALF),
    (Variant::Naive, Element::F32, FP8),
    (Variant::Cpu, Element::F32, FP8),
    (Variant::Cpu, Element::F16, FP8_HALF),
    (Variant::Cpu, Element::Bf16, FP8_HALF),
];

/// Every variant, in the cases that compile to different code.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for &(variant, element, cases) in ENTRIES {
        for &case in cases {
            let family = match case.fp8 {
                Some(_) => "fp8_gemm",
                None => "grouped_gemm",
            };
            let problem = case.problem(element);
            let name = super::name(&problem, variant);
            let launch = move |at: &Machine| product(at, variant, problem);
            let entry = KernelEntry::new((family, variant.name()), name, launch).of(element);
            entries.push(entry.proven(variant != Variant::TensorCore));
        }
    }
    entries
}

impl Case {
    /// 1024 tokens, 2 of 8 experts, 512 columns either way.
    fn problem(self, element: Element) -> Problem {
        let (slots, experts, top_k) = if self.dense {
            (1024, 1, 1)
        } else {
            (2048, 8, 2)
        };
        Problem {
            slots,
            row_bound: slots,
            experts,
            top_k,
            n: 512,
            k: 512,
            element,
            rows: self.rows,
            layout: self.layout,
            gated: self.gated,
            activation: self.activation,
            bias: self.bias,
            dense: self.dense,
            fp8: self.fp8,
        }
    }
}

fn product(at: &Machine, variant: Variant, problem: Problem) -> Planned {
    let choice = Choice {
        variant: Some(variant),
        allow_unproven: true,
    };
    let plan = plan(problem, &at.capability, choice)?;
    let operands = Operands {
        x: at.buffer(),
        segments: Segments::unless(problem.dense, at),
        weights: at.buffer(),
        scales: problem.fp8.map(|_| at.buffer()),
        bias: problem.bias.then(|| at.buffer()),
        out: at.buffer(),
    };
    launch(at.client(), &plan, &operands);
    Ok(())
}

impl Segments {
    /// The segments of several experts.
    pub(crate) fn unless(dense: bool, at: &Machine) -> Option<Self> {
        (!dense).then(|| Self {
            order: at.buffer(),
            offsets: at.buffer(),
            tiles: at.buffer(),
        })
    }
}
