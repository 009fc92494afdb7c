//! Gradients of the logits, from that of the weights, the probabilities or the logsumexp.
//!
//! The chosen indices are constants; mask, bias and groups only decide which they are. With
//! u = w / scale, and d the incoming gradient,
//!
//! | of | softmax | sigmoid |
//! |---|---|---|
//! | weights, raw | p_e · (scale·d_e − Σ_k d_k·w_k), d_e = 0 unless chosen | scale · d_e · σ'(l_e) |
//! | weights, renormalised | w_e · (d_e − Σ_k d_k·u_k) for the chosen | the same · σ(−l_e) |
//! | probs | p_e · (d_e − Σ_j d_j·p_j) | d_e · σ'(l_e) |
//! | lse | d · exp(l_e − lse) | the same |
//!
//! Shapes: dlogits \[T,E\], d \[T,K\], \[T,E\] or \[T\], all f32. What is masked, or has probability 0 where
//! the formula has p as a factor, gets 0 whatever the incoming gradient. Sums run over k in order,
//! or over e lane by lane and then over the lanes.
//!
//! FLOPs: T·E·(K + 4) at most. Bytes: 4·T·(3·E + 3·K) at most.

use serde::{Deserialize, Serialize};

/// Which output of the choice the incoming gradient is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TopkGradient {
    /// Weights \[T,K\].
    Weights,
    /// Probabilities \[T,E\].
    Probs,
    /// Logsumexp \[T\].
    Lse,
}
