//! Which operation computes an operation's gradients.

use super::{
    Attention, AttentionPass, Experts, GroupedGemm, Operation, Permute, Quantize, Routing,
    SegmentAttention,
};
use crate::routing::TopkGradient;

/// How the gradients of an operation's operands follow from that of one of its results.
#[derive(Clone, Debug, PartialEq)]
pub enum Gradient {
    /// The first operand's is the result's.
    Same,
    /// By an operation of its own. It calls the forward's tensors as the forward does, the gradient of a tensor by a `d`
    /// before its name.
    By {
        /// The operation.
        operation: Box<Operation>,
        /// Tensors that it calls otherwise: its name, and what the forward calls the same tensor.
        names: &'static [(&'static str, &'static str)],
    },
}

impl Operation {
    /// The results that have a gradient.
    pub fn differentiable(&self) -> &'static [&'static str] {
        match self {
            Self::Quantize(Quantize::FakeQuantize(_) | Quantize::FakeQuantizeBy(_)) => &["y"],
            Self::Routing(Routing::Logits {
                backward: false, ..
            }) => &["logits"],
            Self::Routing(Routing::Route { .. }) => &["weights", "probs", "lse"],
            Self::Permute(Permute::Gather(_)) => &["rows"],
            Self::Permute(Permute::Combine { .. }) => &["y"],
            Self::SegmentAttention(SegmentAttention {
                backward: false, ..
            }) => &["o"],
            Self::GroupedGemm(GroupedGemm::Linear(_)) | Self::Experts(Experts::Forward { .. }) => {
                &["y"]
            }
            Self::Attention(Attention {
                pass: AttentionPass::Forward,
                ..
            }) => &["o", "lse"],
            _ => &[],
        }
    }

    /// The gradients through `result`, of the operands that `needs` names where there is a choice; `None` where there are none.
    pub fn gradient(&self, result: &str, needs: impl Fn(&str) -> bool) -> Option<Gradient> {
        if !self.differentiable().contains(&result) {
            return None;
        }
        let mut names: &'static [(&'static str, &'static str)] = &[];
        let mut operation = self.clone();
        match &mut operation {
            Self::Quantize(_) => return Some(Gradient::Same),
            Self::Routing(Routing::Logits { backward, .. })
            | Self::SegmentAttention(SegmentAttention { backward, .. }) => {
                *backward = true;
            }
            Self::Routing(routing) => *routing = through_choice(*routing, result)?,
            Self::Permute(permute) => {
                *permute = match *permute {
                    Permute::Gather(problem) => {
                        names = &[("rows", "drows"), ("y", "dx")];
                        let weighted = false;
                        Permute::Combine { problem, weighted }
                    }
                    Permute::Combine {
                        problem,
                        weighted: false,
                    } => {
                        names = &[("x", "dy"), ("rows", "drows")];
                        Permute::Gather(problem)
                    }
                    Permute::Combine { problem, .. } => Permute::CombineBackward(problem),
                    _ => return None,
                }
            }
            Self::GroupedGemm(product) => *product = through_product(*product, needs)?,
            Self::Experts(experts) => *experts = through_experts(*experts, needs)?,
            Self::Attention(attention) => *attention = attention.gradient(result, needs),
            Self::KvCache(_) => return None,
        }
        let operation = Box::new(operation);
        Some(Gradient::By { operation, names })
    }
}

fn through_choice(routing: Routing, result: &str) -> Option<Routing> {
    let Routing::Route { problem, mask, .. } = routing else {
        return None;
    };
    let of = match result {
        "weights" => TopkGradient::Weights,
        "probs" => TopkGradient::Probs,
        _ => TopkGradient::Lse,
    };
    Some(Routing::RouteBackward { problem, mask, of })
}

fn through_product(product: GroupedGemm, needs: impl Fn(&str) -> bool) -> Option<GroupedGemm> {
    let GroupedGemm::Linear(problem) = product else {
        return None;
    };
    Some(GroupedGemm::LinearBackward {
        problem,
        rows: needs("rows"),
        w: needs("W"),
        bias: needs("b"),
    })
}

fn through_experts(experts: Experts, needs: impl Fn(&str) -> bool) -> Option<Experts> {
    let Experts::Forward { problem, keep } = experts else {
        return None;
    };
    Some(Experts::Backward {
        problem,
        pre: keep,
        x: needs("x"),
        weights: ["w_in", "w_out", "b_in", "b_out"].into_iter().any(needs),
    })
}

#[cfg(test)]
#[path = "gradient_tests.rs"]
pub(in crate::operation) mod tests;
