//! Gradients of feed-forward experts.
//!
//! With dy the gradient of y, h = act(pre), and a row r of slot s = (t,k) of expert e:
//!
//! | gradient | formula |
//! |---|---|
//! | hidden, unweighted | g_r = W_outᵀ · dy_t |
//! | first product | dpre_r = w_s · g_r ∘ act'(pre_r) |
//! | router weights | ⟨g_r, h_r⟩ + ⟨dy_t, b_out⟩, since ⟨dy, W h⟩ = ⟨Wᵀ dy, h⟩ |
//! | dW_out, db_out | Σ_r w_s · dy_t ⊗ h_r, Σ_r w_s · dy_t |
//! | dW_in, db_in | Σ_r dpre_r ⊗ x_t, Σ_r dpre_r |
//! | dx | Σ_k W_inᵀ · dpre_(t,k) |

use super::activation::{hidden, through};
use super::{Inputs, product, slots_and_tokens, taken};
use crate::ElementType;
use crate::custom::grouped::{self, Block, Pass, Segments, combine, row_of};
use crate::custom::{along, rows_where};
use crate::stablehlo::{Builder, DotDims, Reduction, TensorType, Value};
use moebius_ops::moe::Problem;

/// The pass, and which gradients are needed beside that of the router weights.
struct Backward<'a> {
    p: &'a Problem,
    x: bool,
    weights: bool,
}

/// A block's rows in f32 or the type of x, 0 where they aren't the expert's.
struct Rows {
    x: Value,
    dy: Value,
    /// f32 \[B\].
    weight: Value,
    /// Present if the forward kept it.
    pre: Option<Value>,
}

impl Backward<'_> {
    fn row_types(&self) -> Vec<TensorType> {
        let p = self.p;
        let mut rows = vec![TensorType::new([p.row_bound], ElementType::F32)];
        if self.x {
            rows.push(TensorType::new([p.row_bound, p.hidden], ElementType::F32));
        }
        rows
    }

    fn sum_types(&self) -> Vec<TensorType> {
        let p = self.p;
        let mut shapes = Vec::new();
        if self.weights {
            shapes.extend([vec![p.columns_in(), p.hidden], vec![p.hidden, p.inter]]);
            if p.bias {
                shapes.extend([vec![p.columns_in()], vec![p.hidden]]);
            }
        }
        let shapes = shapes.into_iter();
        shapes
            .map(|s| TensorType::new(s, ElementType::F32))
            .collect()
    }

    /// Dots of the router weights' gradient, dx rows, and the sums, of one block.
    fn block(&self, b: &mut Builder, rows: &Rows, matrices: &[Value]) -> Vec<Value> {
        let p = self.p;
        let dtype = b.element(rows.x);
        let (w_in, w_out) = (matrices[0], matrices[1]);
        let pre = match rows.pre {
            Some(pre) => b.convert(pre, ElementType::F32),
            None => product(b, rows.x, w_in, matrices.get(2).copied()),
        };
        let h = hidden(b, p, pre);
        let g = grouped::product(b, rows.dy, w_out, &DotDims::matmul(0));
        let gh = b.mul(g, h);
        let mut dots = b.reduce(Reduction::Sum, gh, &[1]);
        let dy = b.convert(rows.dy, ElementType::F32);
        if let Some(b_out) = matrices.get(3) {
            let shape = b.shape(dy);
            let bias = b.convert(*b_out, ElementType::F32);
            let bias = along(b, bias, &shape, 1);
            let more = b.mul(dy, bias);
            let more = b.reduce(Reduction::Sum, more, &[1]);
            dots = b.add(dots, more);
        }
        let shape = b.shape(g);
        let weight = along(b, rows.weight, &shape, 0);
        let weighted = b.mul(g, weight);
        let dpre = through(b, p, pre, weighted);
        let dpre_rows = b.convert(dpre, dtype);
        let mut results = vec![dots];
        if self.x {
            let dx = grouped::product(b, dpre_rows, w_in, &DotDims::matmul(0));
            results.push(dx);
        }
        if self.weights {
            let shape = b.shape(dy);
            let weight = along(b, rows.weight, &shape, 0);
            let wdy = b.mul(dy, weight);
            let (wdy_rows, h) = (b.convert(wdy, dtype), b.convert(h, dtype));
            let outer = DotDims::batched(0, 0, 0);
            results.push(b.dot(dpre_rows, rows.x, &outer, ElementType::F32));
            results.push(b.dot(wdy_rows, h, &outer, ElementType::F32));
            if p.bias {
                results.push(b.reduce(Reduction::Sum, dpre, &[0]));
                results.push(b.reduce(Reduction::Sum, wdy, &[0]));
            }
        }
        results
    }
}

/// Gradients of what `x` and `weights` say and of the router weights, from dy, the operands of the forward pass, and
/// its first product if it was kept.
pub(in crate::custom) fn backward(
    b: &mut Builder,
    p: &Problem,
    (x, weights): (bool, bool),
    inputs: &[Value],
) -> Vec<Value> {
    let this = Backward { p, x, weights };
    let stacks = if p.bias { 4 } else { 2 };
    let forward = Inputs::of(&inputs[1..6 + stacks]);
    let (dy, pre) = (inputs[0], inputs.get(6 + stacks).copied());
    let dtype = b.element(forward.x);
    let segments = Segments::new(b, p.row_bound, forward.offsets);
    let [slots, tokens] = slots_and_tokens(b, &segments, forward.order, p.routing.top_k());
    let weights = b.convert(forward.weights, ElementType::F32);
    let weights = b.reshape(weights, &[p.routing.slots()]);
    let (row_types, sum_types) = (this.row_types(), this.sum_types());
    let pass = Pass {
        stacks: forward.stacks,
        rows: &row_types,
        sums: &sum_types,
    };
    let results = segments.walk(b, &pass, |b, block: &Block, matrices| {
        let masked = |b: &mut Builder, x, index| {
            let rows = taken(b, block, x, index);
            block.masked(b, rows)
        };
        let rows = Rows {
            x: masked(b, forward.x, tokens),
            dy: masked(b, dy, tokens),
            weight: masked(b, weights, slots),
            pre: pre.map(|pre| {
                let rows = block.rows(b, pre);
                block.masked(b, rows)
            }),
        };
        this.block(b, &rows, matrices)
    });
    let (rows, sums) = results.split_at(row_types.len());
    let shape = [p.routing.tokens(), p.routing.top_k()];
    let mut gradients = Vec::new();
    if let Some(dx) = rows.get(1) {
        let dx = combine(b, *dx, forward.positions, None, shape);
        gradients.push(b.convert(dx, dtype));
    }
    gradients.push(to_slots(b, rows[0], forward.positions, shape));
    gradients.extend(sums.iter().map(|sum| b.convert(*sum, dtype)));
    gradients
}

/// \[T,K\]: the rows' values by slot, 0 for slots without a row.
fn to_slots(b: &mut Builder, rows: Value, positions: Value, shape: [usize; 2]) -> Value {
    if b.shape(rows)[0] == 0 {
        return b.splat(0.0, TensorType::new(shape, ElementType::F32));
    }
    let (found, values) = row_of(b, rows, positions);
    let values = rows_where(b, found, values);
    b.reshape(values, &shape)
}
