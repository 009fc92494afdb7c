//! What a sort says of the experts' rows.

use crate::custom::grouped_gemm::segments::{Block, Segments};
use crate::custom::permute::rows::combine;
use crate::stablehlo::{Builder, Value};
use moebius_ops::experts::Problem;
use moebius_pjrt::ElementType::S32;

/// The sort of the experts' rows; a dense network has none, and a row for each token.
pub(super) struct Slots {
    /// Router weights \[T,K\].
    pub(super) weights: Value,
    /// Slots of the sorted rows, i32 \[R\].
    pub(super) of_rows: Value,
    /// Their tokens, i32 \[R\].
    tokens: Value,
    /// Rows of the slots.
    pub(super) positions: Value,
}

impl Slots {
    /// Those of the operands after x, the experts' segments, and the operands after them.
    pub(super) fn of<'a>(
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

/// A block's rows of what has one for each token.
pub(super) fn of_tokens(b: &Builder, slots: Option<&Slots>, block: &Block, x: Value) -> Value {
    match slots {
        Some(slots) => b.take(x, block.rows(slots.tokens)),
        None => block.rows(x),
    }
}

/// The sums f32 of each token's rows, which `weights` \[T,K\] may weigh.
pub(super) fn to_tokens(
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
