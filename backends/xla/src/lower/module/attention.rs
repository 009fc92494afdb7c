//! Scaled dot-product attention, as [`crate::custom::attention`] computes it; scores and their softmax in f32 for halves.

use super::super::{LowerError, Lowering};
use crate::custom::{
    CallError, Tiling,
    attention::{Tables, Terms, forward},
};
use crate::stablehlo::{Unary, Value};
use burn_ir::{AttentionOpIr, TensorIr};
use moebius_ops::ShapeError;
use moebius_ops::attention::{MAX_HEAD_DIM, Pattern, Problem, Rule, Rules, Sizes};

impl Lowering<'_> {
    /// softmax(q kᵀ · scale) v over \[batch, heads, rows, width\]. Scores are capped, masked, cut by causality, where the last
    /// query is beside the last key, and then biased; rows without a key are 0.
    pub(super) fn attention(&mut self, d: &AttentionOpIr) -> Result<(), LowerError> {
        let qkv = [self.get(&d.query)?, self.get(&d.key)?, self.get(&d.value)?];
        let [q, k, v] = qkv.map(|x| self.b.shape(x));
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
        let mask = match &d.mask {
            Some(mask) => {
                let hidden = self.table(mask)?;
                Some(self.b.unary(Unary::Not, hidden))
            }
            None => None,
        };
        let bias = d.attn_bias.as_ref().map(|bias| self.table(bias));
        let bias = bias.transpose()?;
        let tables = Tables {
            mask,
            bias,
            ..Tables::default()
        };
        let pattern = |table: Option<Value>| {
            let shape = self.b.shape(table?);
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
        let problem = problem(sizes, rules).map_err(CallError::Sizes)?;
        let scale = d.options.scale.map(|scale| scale.elem::<f64>());
        let terms = Terms {
            scale: scale.unwrap_or_else(|| 1.0 / (q[3] as f64).sqrt()),
            cap: cap.unwrap_or(1.0),
            ..Terms::new(&problem, tables)
        };
        let [y, _] = forward(self.b, &terms, qkv, Tiling::default());
        self.finish(&d.out, y)
    }

    /// A table of pairs \[B or 1, heads or 1, queries or 1, keys or 1\].
    fn table(&mut self, table: &TensorIr) -> Result<Value, LowerError> {
        let table = self.get(table)?;
        let shape = self.b.shape(table);
        let missing = vec![1; 4_usize.saturating_sub(shape.len())];
        Ok(self.b.reshape(table, &[missing, shape].concat()))
    }
}

fn problem(
    sizes: Sizes,
    rules: impl IntoIterator<Item = Option<Rule>>,
) -> Result<Problem, ShapeError> {
    let rules = Rules::new(rules.into_iter().flatten())?;
    Problem::new(sizes)?.with_rules(rules)
}
