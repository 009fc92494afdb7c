//! What an operation costs at least, as far as its description tells: bytes that it moves, and floating-point operations of its products.
//!
//! Work that a backward pass repeats counts as time, not as work: a product has two gradients of its own size.

use super::{
    Attention, AttentionPass, Exact, Experts, GroupedGemm, KvCache, Operation, Routing, Signature,
    TensorInfo,
};
use crate::kv_cache::Append;

/// The operands of which each expert has a part.
const OF_EXPERTS: [&str; 9] = [
    "W", "places", "b", "codes", "scales", "w_in", "w_out", "b_in", "b_out",
];

impl Operation {
    /// The bytes that the operation reads and writes: each operand and each result once, of the experts' weights those of as many experts
    /// as there are rows, and of a pool of pages what is appended. `None` for attention over a cache, since the lengths of its sequences
    /// are values of an operand.
    pub fn bytes(&self) -> Option<u64> {
        if let Self::KvCache(KvCache::Attend(_)) | Self::Exact(Exact::Attend(_)) = self {
            return None;
        }
        let Signature {
            operands, results, ..
        } = self.signature();
        // A pool is also the result, in which new tokens are written.
        let read = operands.iter().filter(|operand| operand.name != "pool");
        let moved = read.chain(&results).map(|tensor| self.bytes_of(tensor));
        Some(moved.sum())
    }

    fn bytes_of(&self, tensor: &TensorInfo) -> u64 {
        let all = tensor.bytes() as u64;
        let [experts, rows] = match self {
            Self::KvCache(KvCache::Append(append)) if tensor.name == "pool" => {
                return appended(append);
            }
            Self::Experts(Experts::Forward { problem, .. } | Experts::Backward { problem, .. }) => {
                [problem.routing.experts(), problem.row_bound]
            }
            Self::GroupedGemm(product) => {
                let problem = product.problem();
                [problem.experts, problem.row_bound]
            }
            _ => return all,
        };
        if OF_EXPERTS.contains(&tensor.name) {
            all / experts as u64 * rows.min(experts) as u64
        } else {
            all
        }
    }

    /// The floating-point operations of the products, two for each multiplication with its addition, when every sorted row has an expert.
    /// `None` for operations without products, and for those whose number depends on the values of operands: attention over a cache, and
    /// within the rows of an expert.
    pub fn flops(&self) -> Option<u64> {
        match self {
            Self::GroupedGemm(product) => Some(product.flops()),
            Self::Experts(experts) => Some(experts.flops()),
            Self::Attention(attention) => Some(attention.flops()),
            Self::Exact(Exact::Product(product)) => Some(product.flops()),
            Self::Routing(Routing::Logits {
                problem,
                hidden,
                backward,
                ..
            }) => {
                let products = if *backward { 2 } else { 1 };
                let [tokens, experts] = [problem.tokens(), problem.experts()];
                Some(products * 2 * (tokens * experts) as u64 * *hidden as u64)
            }
            Self::Quantize(_)
            | Self::Routing(_)
            | Self::Permute(_)
            | Self::SegmentAttention(_)
            | Self::KvCache(_)
            | Self::Exact(_) => None,
        }
    }
}

/// The bytes that new tokens take in a cache's pages.
fn appended(append: &Append) -> u64 {
    let of_token = 4 * append.layout.page_words() / append.layout.page();
    (append.batch * append.tokens * of_token) as u64
}

impl GroupedGemm {
    fn problem(&self) -> &crate::grouped_gemm::Problem {
        match self {
            Self::Linear(problem)
            | Self::LinearBackward { problem, .. }
            | Self::CodedLinear(problem)
            | Self::CodedLinearBackward { problem, .. } => problem,
            Self::Fp8Codes(codes) => &codes.product,
        }
    }

    fn flops(&self) -> u64 {
        let products = match self {
            Self::LinearBackward { rows, w, .. } => u64::from(*rows) + u64::from(*w),
            Self::CodedLinearBackward { x, .. } => u64::from(*x),
            _ => 1,
        };
        products * self.problem().flops()
    }
}

impl Experts {
    fn flops(&self) -> u64 {
        match self {
            Self::Forward { problem, .. } => problem.flops(),
            Self::Backward {
                problem,
                x,
                weights,
                ..
            } => {
                // The gate and the up projection are products of the same size as the second product.
                let second = problem.flops() / if problem.gated { 3 } else { 2 };
                let first = problem.flops() - second;
                second + u64::from(*x) * first + u64::from(*weights) * problem.flops()
            }
        }
    }
}

impl Attention {
    fn flops(&self) -> u64 {
        let sizes = self.problem.sizes();
        let columns = match self.pass {
            AttentionPass::Forward => sizes.head_dim + sizes.value_dim,
            AttentionPass::Output(_) => 2 * (sizes.head_dim + sizes.value_dim),
            AttentionPass::LogSumExp(_) => 2 * sizes.head_dim,
        };
        2 * self.problem.pairs() * columns as u64
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
