//! How CubeCL computes [`moebius_ops::routing`].
//!
//! | plan | launches |
//! |---|---|
//! | [`plan_logits`], [`plan_logits_backward`] | logits, and their gradients |
//! | [`plan`], [`plan_topk_backward`] | the choice of experts, and the gradients of the logits through it |
//! | [`plan_hash`] | a choice that reads no logits |
//! | [`plan_load`] | how many rows chose every expert |

mod hash;
mod load;
mod logits;
mod logits_backward;
mod selection;
mod topk;
mod topk_backward;

pub use hash::{HashBuffers, HashPlan, launch_hash, plan_hash};
pub use load::{LoadPlan, launch_load, plan_load};
pub use logits::{LogitsPlan, launch_logits, plan_logits};
pub use logits_backward::{
    LogitsBackwardBuffers, LogitsBackwardPlan, launch_logits_backward, plan_logits_backward,
};
pub use topk::{Plan, RouteBuffers, launch, plan};
pub use topk_backward::{
    TopkBackwardBuffers, TopkBackwardPlan, launch_topk_backward, plan_topk_backward,
};

use moebius_ops::routing::{Groups, Problem, Score};

/// Every kernel of the family.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    let mut entries: Vec<_> = logits::entries().into();
    entries.extend(topk::entries());
    entries.extend(logits_backward::entries());
    entries.extend(topk_backward::entries());
    entries.extend(hash::entries());
    entries.extend(load::entries());
    entries
}

/// The compilation argument of a buffer that may be absent.
#[cfg(feature = "emit")]
fn optional_argument<B: cubecl::prelude::CubePrimitive>(
    present: bool,
) -> cubecl::prelude::ComptimeOptionCompilationArg<&'static [B]> {
    use cubecl::prelude::ComptimeOptionCompilationArg::{None, Some};
    if present {
        Some(crate::emit::buffer())
    } else {
        None
    }
}
