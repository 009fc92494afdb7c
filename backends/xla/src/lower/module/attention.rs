//! Scaled dot-product attention, as [`crate::custom::attention`] computes it; scores and their softmax in f32 for halves.

use super::super::{Lowering, Result};
use crate::custom::{
    CallError, Tiling,
    attention::{Tables, Terms, forward},
};
use crate::stablehlo::Value;
use burn_ir::{AttentionOpIr, TensorIr};
use moebius_ops::attention::{MAX_HEAD_DIM, Pattern, Problem, Rule, Rules, Sizes};

impl Lowering<'_> {
    /// softmax(q kᵀ · scale) v over \[batch, heads, rows, width\]. Scores are capped, masked, cut by causality, where the last
    /// query is beside the last key, and then biased; rows without a key are 0.
    pub(super) fn attention(&self, d: &AttentionOpIr) -> Result<Value> {
        let b = self.b;
        let qkv = [self.get(&d.query)?, self.get(&d.key)?, self.get(&d.value)?];
        let [q, k, v] = qkv.map(|x| b.shape(x));
        // Problems bound the width of heads for kernels' sake; the lowering reads it from the operands.
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
        let tables = Tables {
            mask: self.table(d.mask.as_ref())?.map(|hidden| b.not(hidden)),
            bias: self.table(d.attn_bias.as_ref())?,
            ..Tables::default()
        };
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
            pattern(tables.mask).map(Rule::Mask),
            d.options.is_causal.then_some(Rule::Causal),
            pattern(tables.bias).map(Rule::Bias),
        ];
        let problem = Rules::new(rules.into_iter().flatten())
            .and_then(|rules| Problem::new(sizes)?.with_rules(rules))
            .map_err(CallError::Sizes)?;
        let usual = 1.0 / (q[3] as f64).sqrt();
        let terms = Terms {
            scale: d.options.scale.map_or(usual, |scale| scale.elem()),
            cap: cap.unwrap_or(1.0),
            ..Terms::new(&problem, tables)
        };
        let [y, _] = forward(b, &terms, qkv, Tiling::default());
        Ok(y)
    }

    /// A table of pairs \[B or 1, heads or 1, queries or 1, keys or 1\].
    fn table(&self, table: Option<&TensorIr>) -> Result<Option<Value>> {
        let table = table.map(|table| self.get(table)).transpose()?;
        Ok(table.map(|table| {
            let shape = self.b.shape(table);
            let missing = vec![1; 4_usize.saturating_sub(shape.len())];
            self.b.reshape(table, &[missing, shape].concat())
        }))
    }
}
