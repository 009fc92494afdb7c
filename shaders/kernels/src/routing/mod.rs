//! How CubeCL computes [`moebius_ops::routing`].
//!
//! | plan | launches |
//! |---|---|
//! | [`plan_logits`], [`plan_logits_backward`] | logits, and their gradients |
//! | [`plan`], [`plan_topk_backward`] | the choice of experts, and the gradients of the logits through it |
//! | [`plan_hash`] | a choice by hash, without logits |
//! | [`plan_load`] | how many tokens chose each expert |

#[cfg(feature = "emit")]
mod entries;
pub(crate) mod hash;
mod load;
mod logits;
mod logits_backward;
mod selection;
mod topk;
mod topk_backward;

#[cfg(feature = "emit")]
pub use entries::entries;
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
