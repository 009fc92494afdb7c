//! Feed-forward experts and their gradients: [`moebius_ops::experts`].
//!
//! Products sum in f32, and their operands have the type of x. In the forward pass a block of rows goes through both
//! products before the next block, so that its hidden rows stay in the cache, except what is kept for a backward pass.
//! In the backward pass, with dy the gradient of y, h = act(pre), and a row r of slot s = (t,k) of expert e:
//!
//! | gradient | formula |
//! |---|---|
//! | hidden, unweighted | g_r = W_outᵀ · dy_t |
//! | first product | dpre_r = w_s · g_r ∘ act'(pre_r) |
//! | router weights | ⟨g_r, h_r⟩ + ⟨dy_t, b_out⟩, since ⟨dy, W h⟩ = ⟨Wᵀ dy, h⟩ |
//! | dW_out, db_out | Σ_r w_s · dy_t ⊗ h_r, Σ_r w_s · dy_t |
//! | dW_in, db_in | Σ_r dpre_r ⊗ x_t, Σ_r dpre_r |
//! | dx | Σ_k W_inᵀ · dpre_(t,k) |
//!
//! In a dense network w_s is 1 and has no gradient.

use super::grouped_gemm::activation::{gated, slope, through_gated, value};
use super::grouped_gemm::segments::{Block, Segments, affine, product};
use super::permute::{combine, row_of};
use super::values::rows_where;
use crate::stablehlo::{Along, Builder, DotDims, Value};
use moebius_ops::Experts;
use moebius_ops::experts::Problem;
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

pub(super) fn lower(b: &Builder, operation: &Experts, inputs: &[Value]) -> Vec<Value> {
    rounded(b, operation, inputs, sums(b, operation, inputs))
}

/// Appends the operation and returns its results before they are rounded to the type of x: all in f32, but for the
/// first product that a forward pass keeps.
pub(super) fn sums(b: &Builder, operation: &Experts, inputs: &[Value]) -> Vec<Value> {
    match operation {
        Experts::Forward { problem, keep } => forward(b, problem, *keep, inputs),
        Experts::Backward {
            problem,
            x,
            weights,
            ..
        } => backward(b, problem, (*x, *weights), inputs),
    }
}

/// The results of [`sums`] in the types of the operation's results.
pub(super) fn rounded(
    b: &Builder,
    operation: &Experts,
    inputs: &[Value],
    sums: Vec<Value>,
) -> Vec<Value> {
    // The gradient of router weights stays f32.
    let (x, of_weights) = match operation {
        Experts::Forward { .. } => (inputs[0], None),
        Experts::Backward { problem, x, .. } => {
            (inputs[1], (!problem.dense).then_some(usize::from(*x)))
        }
    };
    let dtype = b.element(x);
    let round = |(at, sum): (usize, Value)| match of_weights {
        Some(weights) if at == weights => sum,
        _ => b.convert(sum, dtype),
    };
    sums.into_iter().enumerate().map(round).collect()
}

/// The slots of the sorted rows. A dense network has none: it has one row for each token.
struct Slots {
    /// Router weights \[T,K\].
    weights: Value,
    /// The slot of each sorted row, i32 \[R\].
    of_rows: Value,
    /// The token of each sorted row, i32 \[R\].
    tokens: Value,
    /// The row of each slot.
    positions: Value,
}

impl Slots {
    /// Splits the operands after x into the slots, the experts' segments, and the operands after those.
    fn of<'a>(
        b: &'a Builder,
        p: &Problem,
        inputs: &'a [Value],
    ) -> (Option<Self>, Segments<'a>, &'a [Value]) {
        if p.dense {
            let offsets = b.integers(&[0, p.row_bound as i64], S32);
            return (None, Segments::new(b, p.row_bound, offsets), inputs);
        }
        let [weights, order, offsets, positions, rest @ ..] = inputs else {
            unreachable!("the operands are counted")
        };
        let segments = Segments::new(b, p.row_bound, *offsets);
        let of_rows = b.convert(b.slice_dim(*order, 0, 0..p.row_bound), S32);
        let slots = Self {
            weights: *weights,
            of_rows,
            tokens: b.div(of_rows, p.routing.top_k() as f64),
            positions: *positions,
        };
        (Some(slots), segments, rest)
    }
}

/// A block's rows of `x`, which has one row for each token.
fn of_tokens(b: &Builder, slots: Option<&Slots>, block: &Block, x: Value) -> Value {
    match slots {
        Some(slots) => b.take(x, block.rows(slots.tokens)),
        None => block.rows(x),
    }
}

/// Sums the rows of each token, weighted by `weights` \[T,K\] if given; f32.
fn to_tokens(
    b: &Builder,
    p: &Problem,
    slots: Option<&Slots>,
    rows: Value,
    weights: Option<Value>,
) -> Value {
    let shape = [p.routing.tokens(), p.routing.top_k()];
    match slots {
        Some(slots) => combine(b, rows, slots.positions, weights, shape),
        None => rows,
    }
}

/// The gate and up columns of the first product; only the gate if the network isn't gated.
fn parts(b: &Builder, p: &Problem, pre: Value) -> (Value, Option<Value>) {
    if !p.gated {
        return (pre, None);
    }
    let gate = b.slice_dim(pre, 1, 0..p.inter);
    (gate, Some(b.slice_dim(pre, 1, p.inter..2 * p.inter)))
}

/// The hidden rows \[B,F\] from the first product: act(pre), or act(gate) ∘ up.
fn hidden(b: &Builder, p: &Problem, pre: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let act = value(b, p.activation, gate);
    match up {
        Some(up) => b.mul(act, gated(b, p.activation, up)),
        None => act,
    }
}

/// The first product's gradient, from the hidden rows' gradient.
fn through(b: &Builder, p: &Problem, pre: Value, dhidden: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let slope = slope(b, p.activation, gate);
    let Some(up) = up else {
        return b.mul(dhidden, slope);
    };
    let dup = b.mul(dhidden, value(b, p.activation, gate));
    let dup = through_gated(b, p.activation, up, dup);
    let up = gated(b, p.activation, up);
    b.concatenate(&[b.mul(b.mul(dhidden, up), slope), dup], 1)
}

/// Appends the forward pass: y in f32 and, with `keep`, the first product before its activation, which the backward pass
/// reads, in the type of x; 0 past the last expert's rows.
fn forward(b: &Builder, p: &Problem, keep: bool, inputs: &[Value]) -> Vec<Value> {
    let (x, dtype) = (inputs[0], b.element(inputs[0]));
    let (slots, segments, stacks) = Slots::of(b, p, &inputs[1..]);
    let mut rows = vec![TensorType::new([p.row_bound, p.hidden], F32)];
    if keep {
        rows.push(TensorType::new([p.row_bound, p.columns_in()], dtype));
    }
    let mut results = segments.walk(stacks, &rows, &[], |block, matrices| {
        let (w_in, w_out) = (matrices[0], matrices[1]);
        let x = of_tokens(b, slots.as_ref(), block, x);
        let pre = affine(b, x, w_in, matrices.get(2).copied());
        let hidden = b.convert(hidden(b, p, pre), dtype);
        let mut results = vec![affine(b, hidden, w_out, matrices.get(3).copied())];
        if keep {
            results.push(b.convert(pre, dtype));
        }
        results
    });
    let weights = slots.as_ref().map(|slots| slots.weights);
    results[0] = to_tokens(b, p, slots.as_ref(), results[0], weights);
    results
}

/// A block's rows, in f32 or the type of x; 0 where a row isn't the expert's.
struct Rows {
    x: Value,
    dy: Value,
    /// Router weights, f32 \[B\]; absent in a dense network.
    weight: Option<Value>,
    /// The first product; present if the forward pass kept it.
    pre: Option<Value>,
}

/// The gradients of one block: those of the rows' router weights if there are any, the rows of dx, and the sums for the
/// expert's weights.
fn block_gradients(
    b: &Builder,
    p: &Problem,
    (of_x, of_weights): (bool, bool),
    rows: &Rows,
    matrices: &[Value],
) -> Vec<Value> {
    let dtype = b.element(rows.x);
    let (w_in, w_out) = (matrices[0], matrices[1]);
    let pre = match rows.pre {
        Some(pre) => b.convert(pre, F32),
        None => affine(b, rows.x, w_in, matrices.get(2).copied()),
    };
    let h = hidden(b, p, pre);
    let g = product(b, rows.dy, w_out, &DotDims::matmul(0));
    let mut dots = rows.weight.map(|_| b.sum(b.mul(g, h), &[1]));
    let dy = b.convert(rows.dy, F32);
    if let (Some(dots), Some(b_out)) = (&mut dots, matrices.get(3)) {
        let more = b.mul(dy, Along(b.convert(*b_out, F32), [1]));
        *dots = b.add(*dots, b.sum(more, &[1]));
    }
    let weighted = |x: Value| match rows.weight {
        Some(weight) => b.mul(x, Along(weight, [0])),
        None => x,
    };
    let dpre = through(b, p, pre, weighted(g));
    let dpre_rows = b.convert(dpre, dtype);
    let mut results = Vec::from_iter(dots);
    if of_x {
        results.push(product(b, dpre_rows, w_in, &DotDims::matmul(0)));
    }
    if of_weights {
        let wdy = weighted(dy);
        let (wdy_rows, h) = (b.convert(wdy, dtype), b.convert(h, dtype));
        let outer = DotDims::batched(0, 0, 0);
        results.push(b.dot(dpre_rows, rows.x, &outer, F32));
        results.push(b.dot(wdy_rows, h, &outer, F32));
        if p.bias {
            results.extend([dpre, wdy].map(|rows| b.sum(rows, &[0])));
        }
    }
    results
}

/// Appends the backward pass: gradients of x and of the experts' weights as far as `needed` says, and of the router
/// weights if there are any, in f32. The operands are dy, those of the forward pass, and the first product if it was kept.
fn backward(b: &Builder, p: &Problem, needed: (bool, bool), inputs: &[Value]) -> Vec<Value> {
    let (dy, x) = (inputs[0], inputs[1]);
    let (slots, segments, stacks) = Slots::of(b, p, &inputs[2..]);
    let (stacks, pre) = stacks.split_at(if p.bias { 4 } else { 2 });
    let slots = slots.as_ref();
    let weights = slots.map(|slots| b.reshape(b.convert(slots.weights, F32), &[p.routing.slots()]));
    let mut row_types = Vec::from_iter(slots.map(|_| TensorType::new([p.row_bound], F32)));
    if needed.0 {
        row_types.push(TensorType::new([p.row_bound, p.hidden], F32));
    }
    let mut sums = Vec::new();
    if needed.1 {
        sums.extend([vec![p.columns_in(), p.hidden], vec![p.hidden, p.inter]]);
        if p.bias {
            sums.extend([vec![p.columns_in()], vec![p.hidden]]);
        }
    }
    let sum_types: Vec<_> = sums.into_iter().map(|s| TensorType::new(s, F32)).collect();
    let results = segments.walk(stacks, &row_types, &sum_types, |block, matrices| {
        let masked = |x| block.masked(of_tokens(b, slots, block, x));
        let weight = |(slots, weights): (&Slots, Value)| {
            block.masked(b.take(weights, block.rows(slots.of_rows)))
        };
        let rows = Rows {
            x: masked(x),
            dy: masked(dy),
            weight: slots.zip(weights).map(weight),
            pre: pre.first().map(|pre| block.masked(block.rows(*pre))),
        };
        block_gradients(b, p, needed, &rows, matrices)
    });
    let (rows, sums) = results.split_at(row_types.len());
    let (dots, dx) = rows.split_at(usize::from(slots.is_some()));
    let mut gradients = Vec::new();
    if let Some(dx) = dx.first() {
        gradients.push(to_tokens(b, p, slots, *dx, None));
    }
    if let (Some(slots), Some(dots)) = (slots, dots.first()) {
        let shape = [p.routing.tokens(), p.routing.top_k()];
        gradients.push(to_slots(b, *dots, slots.positions, shape));
    }
    gradients.extend(sums);
    gradients
}

/// Gathers the rows' values by slot, \[T,K\]; 0 for slots without a row.
fn to_slots(b: &Builder, rows: Value, positions: Value, shape: [usize; 2]) -> Value {
    if b.shape(rows)[0] == 0 {
        return b.splat(0.0, TensorType::new(shape, F32));
    }
    let (found, values) = row_of(b, rows, positions);
    b.reshape(rows_where(b, found, values), &shape)
}
