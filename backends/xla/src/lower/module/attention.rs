//! Scaled dot-product attention; scores and their softmax in f32 for halves.

use super::super::{Lowering, Result};
use crate::ElementType;
use crate::stablehlo::{Builder, DotDims, Reduction, Repeated, TensorType, Unary, Value};
use burn_ir::AttentionOpIr;

impl Lowering<'_> {
    /// softmax(q kᵀ · scale) v over \[batch, heads, rows, width\].
    pub(super) fn attention(&self, d: &AttentionOpIr) -> Result<Value> {
        let b = self.b;
        let [q, k, v] = [self.get(&d.query)?, self.get(&d.key)?, self.get(&d.value)?];
        let element = b.sum_element(q);
        let scores = b.dot(q, k, &DotDims::matmul_transposed(2), element);
        let width = b.ty(q).shape[3] as f64;
        let scale = d.options.scale.map_or(1.0 / width.sqrt(), |s| s.elem());
        let mut scores = b.mul(scores, scale);
        if let Some(cap) = d.options.softcap {
            let cap: f64 = cap.elem();
            scores = b.mul(b.unary(Unary::Tanh, b.div(scores, cap)), cap);
        }
        if let Some(mask) = &d.mask {
            scores = b.never_where(scores, self.get(mask)?);
        }
        if d.options.is_causal {
            let shape = b.shape(scores);
            scores = b.never_where(scores, b.later(shape[2], shape[3]));
        }
        if let Some(bias) = &d.attn_bias {
            scores = b.add(scores, Repeated(b.cast(self.get(bias)?, element)));
        }
        let weights = b.convert(b.masked_softmax(scores), b.element(v));
        Ok(b.dot(weights, v, &DotDims::matmul(2), element))
    }
}

impl Builder {
    /// −∞ where `mask`, repeated to their shape, holds.
    fn never_where(&self, scores: Value, mask: Value) -> Value {
        let mask = self.broadcast_to(mask, &self.shape(scores));
        self.select_number(mask, f64::NEG_INFINITY, scores)
    }

    /// Whether a column comes after its row, where the last row and the last column belong together.
    fn later(&self, rows: usize, columns: usize) -> Value {
        let ty = TensorType::new([rows, columns], ElementType::S32);
        let (row, column) = (self.iota(ty.clone(), 0), self.iota(ty.clone(), 1));
        let offset = self.splat_int(columns as i128 - rows as i128, ty);
        self.gt(column, self.add(row, offset))
    }

    /// The softmax over the last dimension, and zeros where all of it is −∞.
    fn masked_softmax(&self, scores: Value) -> Value {
        let last = self.ty(scores).rank() - 1;
        let (lowest, tiny) = match self.element(scores) {
            ElementType::F64 => (f64::MIN, f64::MIN_POSITIVE),
            _ => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
        };
        let largest = self.max(self.reduce_keep(Reduction::Max, scores, &[last]), lowest);
        let exp = self.exp(self.sub(scores, Repeated(largest)));
        let sum = self.max(self.reduce_keep(Reduction::Sum, exp, &[last]), tiny);
        self.div(exp, Repeated(sum))
    }
}
