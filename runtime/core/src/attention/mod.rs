//! Attention under composable score rules: one operation for the forward and one for the backward pass, neither of which keeps a matrix of
//! scores.
//!
//! [`Attend`] holds the rules that change scores and hide keys; [`Attend::forward`] takes any numbers of heads, queries and keys, and
//! [`Attend::weights`] shows which keys a query attends to. [`attention`] has the parameters of Burn's function of that name, [`merge`]
//! joins attentions over parts of the keys, [`Ring`] computes the attention of a sequence in several places, and [`Attention`] is the
//! layer. A [`KvCache`] keeps keys and values from step to step. A program's own rule is a [`ScoreRule`] for devices and a [`HostRule`] for
//! the host.
//!
//! ```
//! use burn::tensor::{Distribution, Tensor};
//! use moebius::attention::Attend;
//!
//! # fn main() -> Result<(), moebius::Error> {
//! # #[cfg(feature = "flex")] {
//! let device = moebius::open(&moebius::Device::Flex)?;
//! let random = |heads, tokens| {
//!     Tensor::<4>::random([2, heads, tokens, 64], Distribution::Default, &device)
//! };
//! // Eight query heads share two key heads; a query sees the last 256 keys.
//! let (q, k, v) = (random(8, 300), random(2, 300), random(2, 300));
//! let out = Attend::new().softcap(50.0).window(256).forward(q, k, v)?;
//! assert_eq!(out.o.dims(), [2, 8, 300, 64]);
//! assert_eq!(out.lse.dims(), [2, 8, 300]);
//! # }
//! # Ok(())
//! # }
//! ```

mod attend;
mod cache;
#[cfg(feature = "autodiff")]
mod check_rule;
mod layer;
mod parts;
mod ring;
mod tables;
mod weights;

pub use attend::Attend;
pub use cache::{KvCache, Pages, Span, Step};
#[cfg(feature = "autodiff")]
pub use check_rule::check_rule;
pub use layer::Attention;
pub use moebius_ops::attention::{HostRule, Pair};
pub use moebius_ops::kv_cache::CacheFormat;
pub use moebius_shaders::attention::{LaunchRule, Pairs, RuleArgs, ScoreRule};
pub use parts::{Attended, merge};
pub use ring::Ring;

use crate::Error;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Tensor};

/// Computes o \[B, Hq, Sq, Dv\] with the parameters of `burn::tensor::module::attention` and its order of rules: the scores of q \[B, Hq,
/// Sq, D\] and k \[B, Hkv, Skv, D\] times `scale` (1/√D by default), the cap, the mask (true hides a key), the causal rule with the last
/// query beside the last key, and then the bias; v is \[B, Hkv, Skv, Dv\]. Queries that see no key have o = 0.
///
/// Three things differ from Burn's function: it panics on inputs that don't fit where this returns an error, Hkv may be a divisor of Hq
/// here, and mask and bias \[B or 1, Hq or 1, Sq, Skv\] may have one sequence or head for all.
///
/// # Errors
/// As [`Attend::forward`].
pub fn attention(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<Tensor<4, Bool>>,
    attn_bias: Option<Tensor<4>>,
    options: AttentionModuleOptions,
) -> Result<Tensor<4>, Error> {
    let mut attend = Attend::new();
    if let Some(scale) = options.scale {
        attend = attend.scale(scale as f32);
    }
    if let Some(cap) = options.softcap {
        attend = attend.softcap(cap as f32);
    }
    if let Some(mask) = mask {
        attend = attend.mask(mask);
    }
    if options.is_causal {
        attend = attend.causal();
    }
    if let Some(bias) = attn_bias {
        attend = attend.bias(bias);
    }
    Ok(attend.forward(query, key, value)?.o)
}
