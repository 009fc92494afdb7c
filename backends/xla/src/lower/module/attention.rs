//! Scaled dot-product attention; scores and their softmax in f32 for halves.

use super::super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, DotDims, Reduction, TensorType, Unary, Value};
use burn_ir::AttentionOpIr;

impl Lowering<'_> {
    /// softmax(q kᵀ · scale) v over \[batch, heads, rows, width\].
    pub(super) fn attention(&mut self, d: &AttentionOpIr) -> Result<(), LowerError> {
        let [q, k, v] = [self.get(&d.query)?, self.get(&d.key)?, self.get(&d.value)?];
        let element = self.sum_element(q);
        let scores = self.b.dot(q, k, &DotDims::matmul_transposed(2), element);
        let width = self.b.ty(q).shape[3] as f64;
        let scale = d.options.scale.map(|s| s.elem::<f64>());
        let scale = scale.unwrap_or_else(|| 1.0 / width.sqrt());
        let mut scores = self.b.binary_scalar(Binary::Multiply, scores, scale);
        if let Some(cap) = d.options.softcap {
            let cap = cap.elem();
            scores = self.b.binary_scalar(Binary::Divide, scores, cap);
            scores = self.b.unary(Unary::Tanh, scores);
            scores = self.b.binary_scalar(Binary::Multiply, scores, cap);
        }
        if let Some(mask) = &d.mask {
            let mask = self.get(mask)?;
            scores = self.without(scores, mask);
        }
        if d.options.is_causal {
            let shape = self.b.shape(scores);
            let later = self.later(shape[2], shape[3]);
            scores = self.without(scores, later);
        }
        if let Some(bias) = &d.attn_bias {
            let bias = self.get(bias)?;
            let bias = self.cast(bias, element);
            scores = self.b.binary_broadcast(Binary::Add, scores, bias);
        }
        let weights = self.masked_softmax(scores);
        let weights = self.b.convert(weights, self.b.element(v));
        let y = self.b.dot(weights, v, &DotDims::matmul(2), element);
        self.finish(&d.out, y)
    }

    /// −∞ where `mask`, repeated to their shape, holds.
    fn without(&mut self, scores: Value, mask: Value) -> Value {
        let mask = self.b.broadcast_to(mask, &self.b.shape(scores));
        let nothing = self.b.splat_like(f64::NEG_INFINITY, scores);
        self.b.select(mask, nothing, scores)
    }

    /// Whether a column comes after its row, where the last row and the last column belong together.
    fn later(&mut self, rows: usize, columns: usize) -> Value {
        let ty = TensorType::new([rows, columns], ElementType::S32);
        let (row, column) = (self.b.iota(ty.clone(), 0), self.b.iota(ty.clone(), 1));
        let offset = self.b.splat_int(columns as i128 - rows as i128, ty);
        let row = self.b.add(row, offset);
        self.b.compare(Compare::Gt, column, row)
    }

    /// The softmax over the last dimension, and zeros where all of it is −∞.
    fn masked_softmax(&mut self, scores: Value) -> Value {
        let last = self.b.ty(scores).rank() - 1;
        let (lowest, tiny) = match self.b.element(scores) {
            ElementType::F64 => (f64::MIN, f64::MIN_POSITIVE),
            _ => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
        };
        let largest = self.b.reduce_keep(Reduction::Max, scores, &[last]);
        let largest = self.b.binary_scalar(Binary::Maximum, largest, lowest);
        let scores = self.b.binary_broadcast(Binary::Subtract, scores, largest);
        let exp = self.b.unary(Unary::Exponential, scores);
        let sum = self.b.reduce_keep(Reduction::Sum, exp, &[last]);
        let sum = self.b.binary_scalar(Binary::Maximum, sum, tiny);
        self.b.binary_broadcast(Binary::Divide, exp, sum)
    }
}
