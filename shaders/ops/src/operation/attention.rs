//! Attention under score rules.

use super::operands::{Computed, Operands};
use super::{Signature, signature_where};
use crate::attention::{
    Dropout, Inputs, Pattern, Problem, Rule, Tables, reference, reference_backward,
};
use crate::error::Mismatch;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::attention`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// The attention's sizes, type, scale and rules.
    pub problem: Problem,
    /// Whether this is the forward pass or a backward pass.
    pub pass: AttentionPass,
}

/// The forward pass, or the backward pass through one of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttentionPass {
    /// The output o and its log-sum-exp.
    Forward,
    /// The backward pass from the gradient of o.
    Output(TableGradients),
    /// The backward pass from the gradient of the log-sum-exp; v gets no gradient.
    LogSumExp(TableGradients),
}

/// The wanted gradients beside those of q, k and v; the problem must have the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableGradients {
    /// The gradient of the dense bias.
    pub bias: bool,
    /// The gradient of the relative bias.
    pub relative: bool,
    /// The gradient of the sinks.
    pub sinks: bool,
}

impl Attention {
    pub(super) fn signature(&self) -> Signature {
        let (p, rules) = (&self.problem, self.problem.rules());
        let name = match self.pass {
            AttentionPass::Forward => "attention",
            AttentionPass::Output(_) => "attention backward",
            AttentionPass::LogSumExp(_) => "attention backward of lse",
        };
        let wanted = match self.pass {
            AttentionPass::Forward => TableGradients::default(),
            AttentionPass::Output(tables) | AttentionPass::LogSumExp(tables) => tables,
        };
        signature_where(name, p.element(), &self.letters(), |tensor| match tensor {
            "dropout" => p.dropout(),
            "query_documents" | "key_documents" => rules.has(Rule::Documents),
            "blocks" => rules.blocks().is_some(),
            "mask" => rules.mask().is_some(),
            "slopes" => rules.has(Rule::Alibi),
            "bias" => rules.bias().is_some(),
            "relative" => rules.relative().is_some(),
            "sinks" => p.sinks(),
            "dbias" => wanted.bias,
            "drelative" => wanted.relative,
            "dsinks" => wanted.sinks,
            _ => true,
        })
    }

    /// The sizes under their letters in the signature.
    fn letters(&self) -> [(char, usize); 15] {
        let (p, s) = (&self.problem, self.problem.sizes());
        let none = Pattern {
            batch: false,
            heads: false,
        };
        let rules = p.rules();
        let [bias, mask] = [rules.bias(), rules.mask()].map(|table| table.unwrap_or(none).shape(s));
        let block = rules.blocks().unwrap_or(1);
        [
            ('B', s.batch),
            ('H', s.heads),
            ('G', s.kv_heads),
            ('Q', s.queries),
            ('K', s.keys),
            ('D', s.head_dim),
            ('E', s.value_dim),
            ('s', Dropout::WORDS),
            ('b', bias[0]),
            ('h', bias[1]),
            ('m', mask[0]),
            ('n', mask[1]),
            ('x', s.queries.div_ceil(block)),
            ('y', s.keys.div_ceil(block)),
            ('r', 2 * rules.relative().unwrap_or(0) + 1),
        ]
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        self.problem.check()?;
        let tables = match self.pass {
            AttentionPass::Forward => return Ok(()),
            AttentionPass::Output(tables) | AttentionPass::LogSumExp(tables) => tables,
        };
        let rules = self.problem.rules();
        let wanted = [
            ("bias", tables.bias, rules.bias().is_some()),
            ("relative", tables.relative, rules.relative().is_some()),
            ("sinks", tables.sinks, self.problem.sinks()),
        ];
        for (what, wanted, there) in wanted {
            Mismatch::unless(!wanted || there, what, "a table of the attention", "none")?;
        }
        Ok(())
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let p = &self.problem;
        let inputs = Inputs {
            q: b.floats("q"),
            k: b.floats("k"),
            v: b.floats("v"),
            tables: b.tables(),
        };
        if self.pass == AttentionPass::Forward {
            let attended = reference(p, &inputs);
            return Ok(vec![("o", attended.o.into()), ("lse", attended.lse.into())]);
        }
        // Either do or dlse is an operand; the other one is 0.
        let or_zeros = |name, len| match b.find(name) {
            Some(_) => b.floats(name).to_vec(),
            None => vec![0.0; len],
        };
        let rows = p.query_rows();
        let (d_o, d_lse) = (
            or_zeros("do", rows * p.sizes().value_dim),
            or_zeros("dlse", rows),
        );
        // A log-sum-exp doesn't depend on v; zeros avoid 0 · NaN = NaN.
        let no_values = vec![0.0; inputs.v.len()];
        let v = match self.pass {
            AttentionPass::LogSumExp(_) => &no_values,
            _ => inputs.v,
        };
        let d = reference_backward(p, &Inputs { v, ..inputs }, &d_o, &d_lse);
        Ok(vec![
            ("dq", d.dq.into()),
            ("dk", d.dk.into()),
            ("dv", d.dv.into()),
            ("dbias", d.dbias.into()),
            ("drelative", d.drelative.into()),
            ("dsinks", d.dsinks.into()),
        ])
    }

    /// The backward pass through `result`.
    pub(super) fn gradient(self, result: &str, needs: impl Fn(&str) -> bool) -> Self {
        let rules = self.problem.rules();
        let tables = TableGradients {
            bias: needs("bias") && rules.bias().is_some(),
            relative: needs("relative") && rules.relative().is_some(),
            sinks: needs("sinks") && self.problem.sinks(),
        };
        let pass = match result {
            "lse" => AttentionPass::LogSumExp(tables),
            _ => AttentionPass::Output(tables),
        };
        Self { pass, ..self }
    }
}

impl Operands<'_> {
    /// The tables that rules read.
    pub(super) fn tables(&self) -> Tables<'_> {
        Tables {
            query_documents: self.words("query_documents"),
            key_documents: self.words("key_documents"),
            blocks: self.words("blocks"),
            mask: self.words("mask"),
            slopes: self.floats("slopes"),
            bias: self.floats("bias"),
            relative: self.floats("relative"),
            sinks: self.floats("sinks"),
            dropout: self.words("dropout"),
            rule: None,
        }
    }
}
