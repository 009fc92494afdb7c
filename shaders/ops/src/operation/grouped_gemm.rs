//! Products per expert, and dense products.

use super::operands::{Computed, Operands};
use super::quantize::scale_scalar;
use super::{HostTensor, Signature, signature_where};
use crate::blocks::interleaved;
use crate::error::Mismatch;
use crate::fp8::LANES_PER_WORD;
use crate::fp8_mma;
use crate::grouped_gemm::{
    Problem, Stored, WeightLayout, bias_gradient, fp8, reference, sparse24, weight_gradient,
};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::grouped_gemm`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupedGemm {
    /// rows · W_eᵀ + b_e over sorted rows, or over all rows in a dense product; without gate or activation. Of W all values may be stored,
    /// or two of each four with their places ([`sparse24`]).
    Linear(Problem),
    /// The gradients of a [`Self::Linear`]: of the rows dy · W_e, of W Σ_r dy_r ⊗ rows_r, of the bias Σ_r dy_r.
    LinearBackward {
        /// The forward product.
        problem: Problem,
        /// Whether to compute the gradient of the rows.
        rows: bool,
        /// Whether to compute the gradient of W; only if all of its values are stored.
        w: bool,
        /// Whether to compute the gradient of the bias.
        bias: bool,
    },
    /// act(x · W_eᵀ + b_e), or its gated form, with weights as FP8 codes ([`fp8`]) or in blocks ([`crate::blocks`]).
    CodedLinear(Problem),
    /// The gradients of a plain [`Self::CodedLinear`] over sorted rows: of x dy · W_e, of the bias Σ_r dy_r. Codes have none.
    CodedLinearBackward {
        /// The forward product.
        problem: Problem,
        /// Whether to compute the gradient of x.
        x: bool,
        /// Whether to compute the gradient of the bias.
        bias: bool,
    },
    /// y \[R, n\] f32 from FP8 codes of x and of the weights ([`fp8_mma`]). It needs matrix instructions.
    Fp8Codes(fp8_mma::Problem),
}

impl GroupedGemm {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Linear(p) => multiplied("grouped linear", p, |_| true),
            Self::LinearBackward {
                problem,
                rows,
                w,
                bias,
            } => multiplied("grouped linear backward", problem, |tensor| match tensor {
                "drows" => *rows,
                "dW" => *w,
                "db" => *bias,
                _ => true,
            }),
            Self::CodedLinear(p) => {
                let [dense, grouped, _] = names(p);
                of_codes(if p.dense { dense } else { grouped }, p, |_| true)
            }
            Self::CodedLinearBackward { problem, x, bias } => {
                let [_, _, backward] = names(problem);
                of_codes(backward, problem, |tensor| match tensor {
                    "dx" => *x,
                    "db" => *bias,
                    _ => true,
                })
            }
            Self::Fp8Codes(p) => fp8_codes(p),
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Linear(p) | Self::LinearBackward { problem: p, .. } => {
                p.check()?;
                let values = matches!(p.stored, Stored::Values | Stored::Sparse24);
                let right = p.is_plain() && values;
                let expected = "a plain product of sorted rows and [E, n, k]";
                Mismatch::unless(right, "grouped linear", expected, format_args!("{p:?}"))?;
                let of_w = matches!(self, Self::LinearBackward { w: true, .. });
                let right = !of_w || p.stored == Stored::Values;
                let expected = "a W of which all values are stored";
                let got = format_args!("{:?}", p.stored);
                Mismatch::unless(right, "gradient of W", expected, got)
            }
            Self::CodedLinear(p) => {
                check_codes(p)?;
                let (right, expected) = (p.layout == WeightLayout::OutIn, "codes of [E, n, k]");
                Mismatch::unless(right, "coded linear", expected, format_args!("{p:?}"))
            }
            Self::CodedLinearBackward { problem: p, .. } => {
                check_codes(p)?;
                let (what, expected) = ("coded linear backward", "a plain product of sorted rows");
                Mismatch::unless(p.is_plain(), what, expected, format_args!("{p:?}"))
            }
            Self::Fp8Codes(p) => fp8_mma::Problem::new(p.product, p.x).map(drop),
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let y = match self {
            Self::Linear(p) => product(p, b, b.floats("rows"), &weights(p, b)),
            Self::LinearBackward { problem, .. } => return Ok(gradients(problem, b)),
            Self::CodedLinear(p) => product(p, b, b.floats("x"), &decoded(p, b)),
            Self::CodedLinearBackward { problem, .. } => {
                let [dx, db] = of_rows_and_bias(problem, b, &decoded(problem, b));
                return Ok(vec![("dx", dx.into()), ("db", db.into())]);
            }
            Self::Fp8Codes(p) => product_of_codes(p, b),
        };
        Ok(vec![("y", y.into())])
    }
}

fn product(p: &Problem, b: &Operands<'_>, x: &[f64], weights: &[f32]) -> Vec<f64> {
    let bias = b.maybe_f32s("b");
    reference(p, &b.sorted(p.row_bound), x, weights, bias.as_deref())
}

/// The values of W \[E, n, k\].
fn weights(p: &Problem, b: &Operands<'_>) -> Vec<f32> {
    let w = b.f32s("W");
    match p.stored {
        Stored::Sparse24 => sparse24::decoded(&w, b.words("places"), p.k),
        Stored::Values | Stored::Fp8(_) | Stored::Blocks(_) => w,
    }
}

/// Checks a product with FP8 codes or with blocks.
fn check_codes(p: &Problem) -> Result<(), Mismatch> {
    p.check()?;
    match p.stored {
        Stored::Blocks(_) => Ok(()),
        _ => fp8::matrix(p).map(drop),
    }
}

/// The values of W \[E, n, k\] that codes stand for.
fn decoded(p: &Problem, b: &Operands<'_>) -> Vec<f32> {
    let codes = b.words("codes");
    match p.stored {
        Stored::Blocks(format) if p.interleaved => {
            let mut rows: Vec<interleaved::Word> =
                codes.iter().map(|word| word.to_ne_bytes()).collect();
            interleaved::to_rows(&mut rows, format, [p.n * p.parts(), format.row_words(p.k)]);
            let rows: Vec<u32> = rows.into_iter().map(u32::from_ne_bytes).collect();
            format.decoded(&rows, p.k)
        }
        Stored::Blocks(format) => format.decoded(codes, p.k),
        _ => fp8::decoded(p, codes, &scale_words(b)),
    }
}

/// The gradients of the rows and of the bias of a product with these weights.
fn of_rows_and_bias(p: &Problem, b: &Operands<'_>, weights: &[f32]) -> [Vec<f64>; 2] {
    let (sorted, dy) = (b.sorted(p.row_bound), b.floats("dy"));
    let of_b = bias_gradient::Problem::of(p);
    [
        reference(&p.turned(), &sorted, dy, weights, None),
        bias_gradient::reference(&of_b, &sorted, dy, None),
    ]
}

fn gradients(p: &Problem, b: &Operands<'_>) -> Computed {
    let [drows, db] = of_rows_and_bias(p, b, &weights(p, b));
    let of_w = weight_gradient::Problem::of(p);
    let (sorted, dy) = (b.sorted(p.row_bound), b.floats("dy"));
    let dw = weight_gradient::reference(&of_w, &sorted, dy, b.floats("rows"));
    vec![
        ("drows", drows.into()),
        ("dW", dw.into()),
        ("db", db.into()),
    ]
}

fn product_of_codes(p: &fp8_mma::Problem, b: &Operands<'_>) -> Vec<f64> {
    let [x_scales, scales, bias] = ["x_scales", "scales", "b"].map(|name| b.f32s(name));
    let (x, weights) = (b.words("x"), b.words("codes"));
    let sorted = b.sorted(p.product.row_bound);
    fp8_mma::reference(p, &sorted, (x, &x_scales), (weights, &scales), &bias)
}

/// The words of the scales: the bits of each f32, or four E8M0 bytes per word.
fn scale_words(b: &Operands<'_>) -> Vec<u32> {
    match b.find("scales") {
        Some(HostTensor::Words(words)) => words.clone(),
        _ => b.f32s("scales").into_iter().map(f32::to_bits).collect(),
    }
}

/// The signature `name` of a product over sorted rows, or over all rows without a sort if it is dense, of those tensors alone for whose names
/// `there` is true.
fn multiplied(name: &str, p: &Problem, there: impl Fn(&str) -> bool) -> Signature {
    let [down, across] = fp8::scale_shape(p);
    let sparse = p.stored == Stored::Sparse24;
    let sizes = [
        ('R', p.row_bound),
        ('E', p.experts),
        ('n', p.n),
        ('k', p.k),
        ('B', p.experts + 1),
        ('S', p.slots),
        ('m', p.input_rows()),
        ('c', p.n * p.parts()),
        ('P', p.experts * p.parts() * p.n.div_ceil(fp8::PANEL)),
        ('q', p.k.div_ceil(LANES_PER_WORD)),
        ('p', fp8::PANEL),
        ('d', down),
        ('a', across),
        ('v', if sparse { p.k / 2 } else { p.k }),
        ('g', sparse24::place_words(p.k)),
        (
            'z',
            p.stored.blocks().map_or(1, |format| format.row_words(p.k)),
        ),
    ];
    signature_where(name, p.element, &sizes, |tensor| match tensor {
        "places" => sparse,
        "order" | "offsets" => !p.dense,
        "b" => p.bias,
        other => there(other),
    })
}

/// The names of products with codes of this form: of all rows, of sorted rows, and of their gradients.
fn names(p: &Problem) -> [&'static str; 3] {
    match p.stored {
        Stored::Blocks(_) => [
            "block linear",
            "grouped block linear",
            "block linear backward",
        ],
        _ => ["fp8 linear", "grouped fp8 linear", "fp8 linear backward"],
    }
}

/// The signature `name` of a product with codes, or of its gradients, as [`multiplied`] makes it.
fn of_codes(name: &str, p: &Problem, there: impl Fn(&str) -> bool) -> Signature {
    let mut signature = multiplied(name, p, there);
    if let Some(weights) = p.stored.fp8() {
        signature.operands[2].scalar = scale_scalar(weights.granularity);
    }
    signature
}

fn fp8_codes(p: &fp8_mma::Problem) -> Signature {
    let mut signature = multiplied("fp8 product of codes", &p.product, |_| true);
    signature.operands[1].shape = p.x_scale_shape().to_vec();
    signature
}
