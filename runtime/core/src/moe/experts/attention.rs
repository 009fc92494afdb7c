//! Attention experts: the tokens of a sequence that were routed to the same expert attend to each other.

use super::{Slots, bias_of, biases, stacked};
use crate::Error;
use crate::moe::check::Like;
use crate::moe::config::MoeConfig;
use crate::moe::experts::ExpertKind;
use crate::ops::Assignment;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use moebius_ops::Mismatch;

/// expert(x) = W_o · attention(W_q x, W_k x, W_v x): softmax attention with scale 1/√D among the
/// tokens of one sequence that were routed to the expert; heads of D = F / heads.
#[derive(Module, Debug)]
pub struct AttentionExperts {
    /// The query projection \[E,F,H\].
    pub w_q: Param<Tensor<3>>,
    /// The key projection \[E,F,H\].
    pub w_k: Param<Tensor<3>>,
    /// The value projection \[E,F,H\].
    pub w_v: Param<Tensor<3>>,
    /// The output projection \[E,H,F\].
    pub w_o: Param<Tensor<3>>,
    /// The bias of the query projection, \[E,F\].
    pub b_q: Option<Param<Tensor<2>>>,
    /// The bias of the key projection, \[E,F\].
    pub b_k: Option<Param<Tensor<2>>>,
    /// The bias of the value projection, \[E,F\].
    pub b_v: Option<Param<Tensor<2>>>,
    /// The bias of the output projection, \[E,H\].
    pub b_o: Option<Param<Tensor<2>>>,
}

impl AttentionExperts {
    pub(super) fn new(config: &MoeConfig, device: &Device) -> Self {
        let (e, h, f) = (config.experts, config.hidden, config.inter);
        let weight = || stacked([e, f, h], device);
        let bias = || biases(config.bias, [e, f], h, device);
        Self {
            w_q: weight(),
            w_k: weight(),
            w_v: weight(),
            w_o: stacked([e, h, f], device),
            b_q: bias(),
            b_k: bias(),
            b_v: bias(),
            b_o: biases(config.bias, [e, h], f, device),
        }
    }

    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let (heads, causal) = match config.kind {
            ExpertKind::Attention { heads, causal } => (heads, causal),
            // The kind is checked before every forward.
            _ => unreachable!("attention experts have heads"),
        };
        let rows = assignment.gather(slots.x)?;
        let project =
            |w: &Param<Tensor<3>>, b| assignment.linear(rows.clone(), w.val(), bias_of(b));
        let q = project(&self.w_q, &self.b_q)?;
        let k = project(&self.w_k, &self.b_k)?;
        let v = project(&self.w_v, &self.b_v)?;
        let rows = assignment.attention([q, k, v], heads, slots.sequence, causal)?;
        let rows = assignment.linear(rows, self.w_o.val(), bias_of(&self.b_o))?;
        assignment.combine(rows, Some(slots.weights))
    }

    pub(super) fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), Mismatch> {
        let (e, h, f) = (config.experts, config.hidden, config.inter);
        let projections = [
            ("w_q [E,F,H]", &self.w_q, &self.b_q),
            ("w_k [E,F,H]", &self.w_k, &self.b_k),
            ("w_v [E,F,H]", &self.w_v, &self.b_v),
        ];
        for (what, weight, bias) in projections {
            like.check(what, weight, [e, f, h])?;
            like.check_optional("b_q, b_k and b_v [E,F]", bias, config.bias, [e, f])?;
        }
        like.check("w_o [E,H,F]", &self.w_o, [e, h, f])?;
        like.check_optional("b_o [E,H]", &self.b_o, config.bias, [e, h])
    }
}
