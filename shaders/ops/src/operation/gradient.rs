//! The operation that computes another operation's gradients.

use super::{
    Attention, AttentionPass, Experts, GroupedGemm, Operation, Permute, Quantize, Routing,
    SegmentAttention,
};
use crate::grouped_gemm::Stored;
use crate::routing::TopkGradient;

/// How to compute the gradients of an operation's operands from the gradient of one of its results.
#[derive(Clone, Debug, PartialEq)]
pub enum Gradient {
    /// The gradient of the first operand equals the gradient of the result.
    Same,
    /// A separate operation computes the gradients. It uses the forward's names of tensors, and `d` followed by a tensor's name
    /// for its gradient, except for `names`.
    By {
        /// The operation that computes the gradients.
        operation: Box<Operation>,
        /// Exceptions: the operation's name of a tensor, and the forward's name of the same tensor.
        names: &'static [(&'static str, &'static str)],
    },
}

impl Operation {
    /// The names of the results that have a gradient.
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
            Self::GroupedGemm(GroupedGemm::CodedLinear(problem)) if problem.is_plain() => &["y"],
            Self::Attention(Attention {
                pass: AttentionPass::Forward,
                ..
            }) => &["o", "lse"],
            _ => &[],
        }
    }

    /// How to compute the gradients through `result`, limited to operands that `needs` selects where the operation allows that;
    /// `None` if `result` has no gradient.
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
            Self::KvCache(_) | Self::Exact(_) => return None,
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
    let bias = needs("b");
    match product {
        GroupedGemm::Linear(problem) => Some(GroupedGemm::LinearBackward {
            problem,
            rows: needs("rows"),
            w: problem.stored == Stored::Values && needs("W"),
            bias,
        }),
        GroupedGemm::CodedLinear(problem) => Some(GroupedGemm::CodedLinearBackward {
            problem,
            x: needs("x"),
            bias,
        }),
        _ => None,
    }
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
