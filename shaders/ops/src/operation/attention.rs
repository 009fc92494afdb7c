//! Attention under score rules.

use super::operands::{Computed, Operands};
use super::{Signature, signature};
use crate::attention::{
    Dropout, Inputs, Pattern, Problem, Rule, Tables, reference, reference_backward,
};
use crate::error::Mismatch;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::attention`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// The attention.
    pub problem: Problem,
    /// What of it.
    pub pass: AttentionPass,
}

/// Forward, or the gradients through one of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttentionPass {
    /// o and its log-sum-exp.
    Forward,
    /// Gradients from that of o.
    Output(TableGradients),
    /// Gradients from that of the log-sum-exp; there is none of v.
    LogSumExp(TableGradients),
}

/// Which gradients beside those of q, k and v are wanted, of tables that the problem has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableGradients {
    /// Of the dense bias.
    pub bias: bool,
    /// Of the biases by distance.
    pub relative: bool,
    /// Of the sinks.
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
        let signature = signature(name, p.element(), &self.letters())
            .with(&["dropout"], p.dropout())
            .with(
                &["query_documents", "key_documents"],
                rules.has(Rule::Documents),
            )
            .with(&["blocks"], rules.blocks().is_some())
            .with(&["mask"], rules.mask().is_some())
            .with(&["slopes"], rules.has(Rule::Alibi))
            .with(&["bias"], rules.bias().is_some())
            .with(&["relative"], rules.relative().is_some())
            .with(&["sinks"], p.sinks());
        match self.pass {
            AttentionPass::Forward => signature,
            AttentionPass::Output(tables) | AttentionPass::LogSumExp(tables) => signature
                .with(&["dbias"], tables.bias)
                .with(&["drelative"], tables.relative)
                .with(&["dsinks"], tables.sinks),
        }
    }

    /// The sizes by their letters.
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
        // One of the two gradients is an operand, and the other 0.
        let or_zeros = |name, len| match b.find(name) {
            Some(_) => b.floats(name).to_vec(),
            None => vec![0.0; len],
        };
        let rows = p.query_rows();
        let (d_o, d_lse) = (
            or_zeros("do", rows * p.sizes().value_dim),
            or_zeros("dlse", rows),
        );
        // No value takes part in a log-sum-exp: 0 · NaN would be NaN.
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

    /// Its gradients through `result`.
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
    /// What rules read.
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
