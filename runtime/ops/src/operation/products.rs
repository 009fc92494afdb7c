//! Products per expert, dense ones too, and feed-forward experts.

use super::rows::{offsets, order, positions};
use super::{Signature, TensorInfo, f32s, floats, signature, words};
use crate::error::ShapeError;
use crate::fp8::LANES_PER_WORD;
use crate::grouped_gemm::{Problem, Source, WeightLayout, fp8};
use crate::moe;
use crate::permute::check_row_bound;
use crate::scaling::ScaleType;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::grouped_gemm`] or [`crate::moe`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Product {
    /// rows · W_eᵀ + b_e of sorted rows, or of all rows in a dense product; without gate or activation.
    Linear(Problem),
    /// Gradients of such a product: of the rows dy · W_e, of W Σ_r dy_r ⊗ rows_r, of the bias Σ_r dy_r.
    LinearBackward {
        /// The product.
        problem: Problem,
        /// Whether the rows' gradient is needed.
        rows: bool,
        /// Whether that of W is.
        w: bool,
        /// Whether that of the bias is.
        bias: bool,
    },
    /// act(x · W_eᵀ + b_e), gated too, with weights as FP8 codes ([`fp8`]).
    Fp8Linear(Problem),
    /// Feed-forward experts.
    Experts {
        /// The experts and the batch.
        problem: moe::Problem,
        /// Whether the first product before its activation is a result, too.
        keep: bool,
    },
    /// Gradients of feed-forward experts.
    ExpertsBackward {
        /// The experts and the batch.
        problem: moe::Problem,
        /// Whether the forward kept its first product; it is computed again otherwise.
        pre: bool,
        /// Whether the gradient of x is needed.
        x: bool,
        /// Whether those of the weights and biases are.
        weights: bool,
    },
}

impl Product {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Linear(p) => {
                let bias = p.bias.then(|| floats("b", [p.experts, p.n], p.element));
                let operands = [rows("rows", p, p.k), weights("W", p), starts(p), bias];
                signature("grouped linear", operands, [rows("y", p, p.n)])
            }
            Self::LinearBackward {
                problem: p,
                rows: of_rows,
                w,
                bias,
            } => {
                let operands = [
                    rows("dy", p, p.n),
                    rows("rows", p, p.k),
                    weights("W", p),
                    starts(p),
                ];
                let results = [
                    rows("drows", p, p.k).filter(|_| *of_rows),
                    weights("dW", p).filter(|_| *w),
                    bias.then(|| floats("db", [p.experts, p.n], p.element)),
                ];
                signature("grouped linear backward", operands, results)
            }
            Self::Fp8Linear(p) => fp8_linear(p),
            Self::Experts { problem: p, keep } => {
                let [w_in, w_out, b_in, b_out] = stacks(["w_in", "w_out", "b_in", "b_out"], p);
                let [x, weights, order, offsets, positions] = batch(p);
                let operands = [
                    x, weights, order, offsets, positions, w_in, w_out, b_in, b_out,
                ];
                signature("experts", operands, [tokens("y", p), pre(p, *keep)])
            }
            Self::ExpertsBackward {
                problem: p,
                pre: kept,
                x: of_x,
                weights: of_weights,
            } => {
                let [w_in, w_out, b_in, b_out] = stacks(["w_in", "w_out", "b_in", "b_out"], p);
                let [x, weights, order, offsets, positions] = batch(p);
                let operands = [
                    tokens("dy", p),
                    x,
                    weights,
                    order,
                    offsets,
                    positions,
                    w_in,
                    w_out,
                    b_in,
                    b_out,
                    pre(p, *kept),
                ];
                let stacks = stacks(["dw_in", "dw_out", "db_in", "db_out"], p);
                let [w_in, w_out, b_in, b_out] = stacks.map(|stack| stack.filter(|_| *of_weights));
                let dx = tokens("dx", p).filter(|_| *of_x);
                let dweights = router_weights("dweights", p);
                let results = [dx, dweights, w_in, w_out, b_in, b_out];
                signature("experts backward", operands, results)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Linear(p) | Self::LinearBackward { problem: p, .. } => {
                p.check()?;
                let plain = !p.gated && p.activation.is_none() && p.fp8.is_none();
                if plain && p.layout == WeightLayout::OutIn && p.rows == Source::Sorted {
                    return Ok(());
                }
                let expected = "a plain product of sorted rows and [E, n, k]";
                Err(ShapeError::new(
                    "grouped linear",
                    expected,
                    format!("{p:?}"),
                ))
            }
            Self::Fp8Linear(p) => {
                p.check()?;
                fp8::matrix(p)?;
                if p.layout == WeightLayout::OutIn {
                    return Ok(());
                }
                let expected = "codes of [E, n, k]";
                Err(ShapeError::new("fp8 linear", expected, format!("{p:?}")))
            }
            Self::Experts { problem: p, .. } | Self::ExpertsBackward { problem: p, .. } => {
                p.routing.check()?;
                check_row_bound(p.row_bound, p.routing.slots())?;
                p.check()
            }
        }
    }
}

/// Sorted rows of `width` columns.
fn rows(name: &'static str, p: &Problem, width: usize) -> Option<TensorInfo> {
    Some(floats(name, [p.row_bound, width], p.element))
}

/// \[E,n,k\].
fn weights(name: &'static str, p: &Problem) -> Option<TensorInfo> {
    Some(floats(name, [p.experts, p.n, p.k], p.element))
}

/// The offsets, unless one expert has all rows.
fn starts(p: &Problem) -> Option<TensorInfo> {
    offsets(p.experts).filter(|_| !p.dense)
}

fn fp8_linear(p: &Problem) -> Signature {
    let [down, across] = fp8::scale_shape(p);
    let shape = [p.experts, down, across];
    let e8m0 = |w: fp8::Fp8Weights| w.granularity.scale_type() == ScaleType::E8M0;
    let scales = match p.fp8.is_some_and(e8m0) {
        true => words("scales", shape),
        false => f32s("scales", shape),
    };
    let panels = p.experts * p.parts() * p.n.div_ceil(fp8::PANEL);
    let operands = [
        Some(floats("x", [p.input_rows(), p.k], p.element)),
        Some(words(
            "codes",
            [panels, p.k.div_ceil(LANES_PER_WORD), fp8::PANEL],
        )),
        Some(scales),
        order(p.slots).filter(|_| !p.dense),
        starts(p),
        p.bias
            .then(|| floats("b", [p.experts, p.n * p.parts()], p.element)),
    ];
    let name = if p.dense {
        "fp8 linear"
    } else {
        "grouped fp8 linear"
    };
    signature(name, operands, [rows("y", p, p.n)])
}

fn tokens(name: &'static str, p: &moe::Problem) -> Option<TensorInfo> {
    Some(floats(name, [p.routing.tokens(), p.hidden], p.element))
}

fn router_weights(name: &'static str, p: &moe::Problem) -> Option<TensorInfo> {
    Some(f32s(name, [p.routing.tokens(), p.routing.top_k()]))
}

/// x, router weights, order, offsets, positions.
fn batch(p: &moe::Problem) -> [Option<TensorInfo>; 5] {
    let (slots, experts) = (p.routing.slots(), p.routing.experts());
    let weights = router_weights("weights", p);
    [
        tokens("x", p),
        weights,
        order(slots),
        offsets(experts),
        positions(slots),
    ]
}

/// w_in, w_out, and the biases if there are any.
fn stacks(names: [&'static str; 4], p: &moe::Problem) -> [Option<TensorInfo>; 4] {
    let (e, h, columns) = (p.routing.experts(), p.hidden, p.columns_in());
    [
        Some(floats(names[0], [e, columns, h], p.element)),
        Some(floats(names[1], [e, h, p.inter], p.element)),
        p.bias.then(|| floats(names[2], [e, columns], p.element)),
        p.bias.then(|| floats(names[3], [e, h], p.element)),
    ]
}

/// The first product before its activation.
fn pre(p: &moe::Problem, kept: bool) -> Option<TensorInfo> {
    kept.then(|| floats("pre", [p.row_bound, p.columns_in()], p.element))
}
