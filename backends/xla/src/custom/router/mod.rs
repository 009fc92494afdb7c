//! Router logits, the choice of experts, and counts of choices.
//!
//! Shapes: x \[T,H\], Wg \[E,H\], logits and probs f32 \[T,E\], indices i32 and weights f32 \[T,K\], lse f32
//! \[T\], mask \[E\] (0 = unavailable), bias f32 \[E\]. A masked expert is never chosen and has
//! probability 0; a slot that finds no expert holds index E and weight 0.

mod backward;
mod best;
mod choose;
mod hash;

pub use backward::{RouteBackward, RouteOutput};
pub use choose::{Groups, Route, Score};
pub use hash::{Hash, HashKey};

use super::grouped::{self, Pass, Segments};
use super::{Lower, words};
use crate::ElementType;
use crate::stablehlo::{Builder, Compare, DotDims, Reduction, TensorType, Value};
use serde::{Deserialize, Serialize};

/// logits = x · Wgᵀ in f32. Operands: x, Wg of one type. Result: logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logits {
    /// Tokens T.
    pub tokens: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Experts E.
    pub experts: usize,
}

impl Lower for Logits {
    fn name(&self) -> &'static str {
        "router logits"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        vec![
            vec![self.tokens, self.hidden],
            vec![self.experts, self.hidden],
        ]
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let dims = DotDims::matmul_transposed(0);
        vec![self.product(b, [inputs[0], inputs[1]], &dims, self.experts)]
    }
}

impl Logits {
    /// A product of rows \[T,…\] and Wg, f32 \[T, `columns`\]: in blocks of one shape, as if all rows were of one
    /// expert, so that a token's don't depend on the others.
    fn product(
        &self,
        b: &mut Builder,
        [rows, w]: [Value; 2],
        dims: &DotDims,
        columns: usize,
    ) -> Value {
        let w = b.reshape(w, &[1, self.experts, self.hidden]);
        let all = b.integers(&[0, self.tokens as i64], ElementType::S32);
        let pass = Pass {
            stacks: &[w],
            rows: &[TensorType::new([self.tokens, columns], ElementType::F32)],
            sums: &[],
        };
        let segments = Segments::new(b, self.tokens, all);
        let results = segments.walk(b, &pass, |b, block, matrices| {
            let rows = block.rows(b, rows);
            vec![grouped::product(b, rows, matrices[0], dims)]
        });
        results[0]
    }
}

/// Gradients of router logits: dx = dlogits · Wg, dWg = dlogitsᵀ · x, of the types of x and Wg.
/// Operands: x, Wg, dlogits. Results: dx, dWg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogitsBackward {
    /// The product.
    pub logits: Logits,
}

impl Lower for LogitsBackward {
    fn name(&self) -> &'static str {
        "router logits backward"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let mut shapes = self.logits.operands();
        shapes.push(vec![self.logits.tokens, self.logits.experts]);
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let (x, w, dlogits) = (inputs[0], inputs[1], inputs[2]);
        let types = [b.element(x), b.element(w)];
        let [x, w] = [x, w].map(|value| b.convert(value, ElementType::F32));
        let p = &self.logits;
        let dx = p.product(b, [dlogits, w], &DotDims::matmul(0), p.hidden);
        let dw = b.dot(dlogits, x, &DotDims::batched(0, 0, 0), ElementType::F32);
        vec![b.convert(dx, types[0]), b.convert(dw, types[1])]
    }
}

/// How often every expert was chosen, in groups of tokens. Operand: indices, of which E and above count
/// nowhere. Result: counts i32 \[G,E\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Tokens T.
    pub tokens: usize,
    /// Slots of a token K.
    pub top_k: usize,
    /// Experts E.
    pub experts: usize,
    /// Groups G of T / G neighbours.
    pub groups: usize,
}

impl Lower for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        vec![vec![self.tokens, self.top_k]]
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let slots = self.tokens / self.groups.max(1) * self.top_k;
        let all = vec![self.groups, slots, self.experts];
        if all.contains(&0) {
            return vec![b.splat(
                0.0,
                TensorType::new([self.groups, self.experts], ElementType::S32),
            )];
        }
        let indices = words(b, inputs[0]);
        let indices = b.reshape(indices, &all[..2]);
        let indices = b.broadcast(indices, &all, &[0, 1]);
        let expert = b.iota(TensorType::new(all, ElementType::U32), 2);
        let here = b.compare(Compare::Eq, indices, expert);
        let here = b.convert(here, ElementType::S32);
        vec![b.reduce(Reduction::Sum, here, &[1])]
    }
}
