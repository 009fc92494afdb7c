//! Operations of modules: linear layers, embeddings, normalisation and attention; convolutions and images are in files
//! of their own.

mod conv;
mod pool;
mod resize;

use super::{Lowering, Result};
use crate::custom::attention::{Tables, Terms, forward};
use crate::custom::{CallError, Tiling};
use crate::stablehlo::{Builder, DotDims, Reduction, Repeated, Unary, Value};
use burn_ir::{
    AttentionOpIr, BatchNormOpIr, EmbeddingBackwardOpIr, EmbeddingOpIr, LayerNormOpIr,
    LinearBiasBackwardOpIr, LinearOpIr, LinearWeightBackwardOpIr, ModuleOperationIr, ScalarIr,
    TensorIr,
};
use moebius_ops::attention::{MAX_HEAD_DIM, Pattern, Problem, Rule, Rules, Sizes};

impl Lowering<'_> {
    /// Lowers operations with one result.
    fn layer(&self, op: &ModuleOperationIr) -> Result<Value> {
        use ModuleOperationIr as Op;
        match op {
            Op::BatchNorm(d) => self.batch_norm(d),
            Op::LayerNorm(d) => self.layer_norm(d),
            Op::Embedding(d) => self.embedding(d),
            Op::EmbeddingBackward(d) => self.embedding_backward(d),
            Op::Linear(d) => self.linear(d),
            Op::LinearXBackward(d) => {
                let (grad, weight) = (self.get(&d.output_grad)?, self.get(&d.weight)?);
                Ok(self.b.contract_last(grad, weight, 1))
            }
            Op::LinearWeightBackward(d) => self.linear_weight_backward(d),
            Op::LinearBiasBackward(d) => self.linear_bias_backward(d),
            Op::Attention(d) => self.attention(d),
            Op::Unfold4d(d) => self.unfold_image(d),
            Op::Interpolate(d) => self.interpolate(d),
            Op::InterpolateBackward(d) => self.interpolate_backward(d),
            Op::DeformableConv2d(_)
            | Op::DeformableConv2dBackward(_)
            | Op::CtcLoss(_)
            | Op::CtcLossBackward(_) => unreachable!("not listed as lowered"),
            other => self.convolutions(other),
        }
    }
}

impl Lowering<'_> {
    /// The linear layer: \[…, in\] × \[in, out\] + \[out\].
    fn linear(&self, d: &LinearOpIr) -> Result<Value> {
        let (x, weight) = (self.get(&d.x)?, self.get(&d.weight)?);
        let mut y = self.b.contract_last(x, weight, 0);
        if let Some(bias) = &d.bias {
            let bias = self.b.cast(self.get(bias)?, self.b.element(y));
            y = self.b.add(y, Repeated(bias));
        }
        Ok(y)
    }

    fn linear_weight_backward(&self, d: &LinearWeightBackwardOpIr) -> Result<Value> {
        let (x, grad) = (self.get(&d.x)?, self.get(&d.output_grad)?);
        let grad = self.b.cast(grad, self.b.element(x));
        let rows: Vec<usize> = (0..self.b.ty(x).rank() - 1).collect();
        let dims = DotDims {
            lhs_contract: rows.clone(),
            rhs_contract: rows,
            ..DotDims::default()
        };
        Ok(self.b.dot(x, grad, &dims, self.b.sum_element(x)))
    }

    fn linear_bias_backward(&self, d: &LinearBiasBackwardOpIr) -> Result<Value> {
        let grad = self.get_wide(&d.output_grad)?;
        let rows: Vec<usize> = (0..self.b.ty(grad).rank() - 1).collect();
        Ok(self.b.sum(grad, &rows))
    }

    fn embedding(&self, d: &EmbeddingOpIr) -> Result<Value> {
        let (weights, at) = (self.get(&d.weights)?, self.get(&d.indices)?);
        let at = self.b.reshape(at, &[self.b.ty(at).elements()]);
        Ok(self.b.take(weights, at))
    }

    fn embedding_backward(&self, d: &EmbeddingBackwardOpIr) -> Result<Value> {
        let (grad, at) = (self.get_wide(&d.out_grad)?, self.get(&d.indices)?);
        let count = self.b.ty(at).elements();
        let at = self.b.reshape(at, &[count]);
        let shape = d.out.shape.to_vec();
        let mut y = self.b.splat(0.0, self.b.ty(grad).with_shape(shape.clone()));
        if count > 0 {
            let grad = self.b.reshape(grad, &[count, shape[1]]);
            y = self.b.put(y, at, grad, Some(Reduction::Sum));
        }
        Ok(y)
    }
}

impl Builder {
    /// The product of `x` and a matrix, over the last dimension of `x` and dimension `dim` of the matrix.
    fn contract_last(&self, x: Value, matrix: Value, dim: usize) -> Value {
        let matrix = self.cast(matrix, self.element(x));
        let dims = DotDims::batched(0, self.ty(x).rank() - 1, dim);
        self.dot(x, matrix, &dims, self.sum_element(x))
    }
}

impl Lowering<'_> {
    /// Normalisation over the last dimension, computed in f32 for f16 and bf16.
    fn layer_norm(&self, d: &LayerNormOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get_wide(&d.input)?;
        let last = b.ty(x).rank() - 1;
        let x = b.sub(x, Repeated(b.mean_keep(x, &[last])));
        let scale = b.inverse_deviation(b.mean_keep(b.mul(x, x), &[last]), d.epsilon);
        let y = b.mul(x, Repeated(scale));
        let mut y = b.mul(y, Repeated(self.get_wide(&d.gamma)?));
        if let Some(beta) = &d.beta {
            y = b.add(y, Repeated(self.get_wide(beta)?));
        }
        Ok(y)
    }

    /// Normalisation with given statistics of each channel (dimension 1), computed in f32 for f16 and bf16.
    fn batch_norm(&self, d: &BatchNormOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get_wide(&d.x)?;
        let shape = b.shape(x);
        let scale = b.inverse_deviation(self.get_wide(&d.variance)?, d.epsilon);
        let scale = b.mul(scale, self.get_wide(&d.gamma)?);
        let (mean, beta) = (self.get_wide(&d.mean)?, self.get_wide(&d.beta)?);
        let [mean, scale, beta] = [mean, scale, beta].map(|v| b.broadcast(v, &shape, &[1]));
        Ok(b.add(b.mul(b.sub(x, mean), scale), beta))
    }
}

impl Builder {
    /// 1 / √(variance + ε).
    fn inverse_deviation(&self, variance: Value, epsilon: ScalarIr) -> Value {
        self.unary(Unary::Rsqrt, self.add(variance, epsilon.elem::<f64>()))
    }
}

impl Lowering<'_> {
    /// Attention, softmax(q kᵀ · scale) v over \[batch, heads, rows, width\], as [`crate::custom::attention`] computes
    /// it: scores and softmax are f32 for f16 and bf16. Scores are capped, masked, cut by causality with the last query
    /// at the last key, and then biased; rows without a key are 0.
    fn attention(&self, d: &AttentionOpIr) -> Result<Value> {
        let b = self.b;
        let qkv = [self.get(&d.query)?, self.get(&d.key)?, self.get(&d.value)?];
        let [q, k, v] = qkv.map(|x| b.shape(x));
        // A problem limits the head width for the kernels' sake; the lowering reads the width from the operands.
        let width = |shape: &[usize]| shape[3].clamp(1, MAX_HEAD_DIM);
        let sizes = Sizes {
            batch: q[0],
            heads: q[1],
            kv_heads: k[1],
            queries: q[2],
            keys: k[2],
            head_dim: width(&q),
            value_dim: width(&v),
        };
        let mask = self.table(d.mask.as_ref())?.map(|hidden| b.not(hidden));
        let bias = self.table(d.attn_bias.as_ref())?;
        let pattern = |table: Option<Value>| {
            let shape = b.shape(table?);
            Some(Pattern {
                batch: shape[0] == sizes.batch,
                heads: shape[1] == sizes.heads,
            })
        };
        let cap = d.options.softcap.map(|cap| cap.elem::<f64>());
        let rules = [
            cap.map(|cap| Rule::Softcap(cap as f32)),
            pattern(mask).map(Rule::Mask),
            d.options.is_causal.then_some(Rule::Causal),
            pattern(bias).map(Rule::Bias),
        ];
        let problem = Rules::new(rules.into_iter().flatten())
            .and_then(|rules| Problem::new(sizes)?.with_rules(rules))
            .map_err(CallError::Sizes)?;
        let usual = 1.0 / (q[3] as f64).sqrt();
        let scale = d.options.scale.map_or(usual, |scale| scale.elem());
        let operands = qkv.into_iter().chain(mask).chain(bias);
        let operands: Vec<_> = operands.map(|value| (value, None)).collect();
        let made = b.part(&operands, &[None], |b, inputs| {
            let mut tables = inputs[3..].iter().copied();
            let tables = Tables {
                mask: mask.and_then(|_| tables.next()),
                bias: bias.and_then(|_| tables.next()),
                ..Tables::default()
            };
            let terms = Terms {
                scale,
                cap: cap.unwrap_or(1.0),
                ..Terms::new(&problem, tables)
            };
            let qkv = [inputs[0], inputs[1], inputs[2]];
            let [y, _] = forward(b, &terms, qkv, Tiling::default());
            Ok::<_, CallError>(vec![y])
        })?;
        Ok(made[0])
    }

    /// A table of pairs as \[B or 1, heads or 1, queries or 1, keys or 1\].
    fn table(&self, table: Option<&TensorIr>) -> Result<Option<Value>> {
        let table = table.map(|table| self.get(table)).transpose()?;
        Ok(table.map(|table| {
            let shape = self.b.shape(table);
            let missing = vec![1; 4_usize.saturating_sub(shape.len())];
            self.b.reshape(table, &[missing, shape].concat())
        }))
    }
}
