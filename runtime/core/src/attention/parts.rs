//! The result of an attention, and the merge of results over parts of the keys.

use crate::Error;
use crate::check::{check_device, check_same};
use burn::tensor::{DType, Tensor};
use moebius_ops::Mismatch;

/// What [`Attend::forward`](super::Attend::forward) returns.
#[derive(Clone, Debug)]
pub struct Attended {
    /// \[B, Hq, Sq, Dv\] in the dtype of q; 0 for queries that see no key.
    pub o: Tensor<4>,
    /// The logarithm of the sum of each query's exponentials \[B, Hq, Sq\], f32; `f32::MIN` for queries that see no key, unless
    /// there are sinks. It has a gradient, too.
    pub lse: Tensor<3>,
}

/// Computes the attention over all keys from `parts`, each over some of the keys: lse = ln Σ_p exp(lse_p) and o = Σ_p exp(lse_p − lse) ·
/// o_p. Burn's operations compute both, so that every part gets its gradients (Dao 2022). A part in which a query sees no key adds nothing.
/// Only one part may have sinks.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::{Attend, merge};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let random = |tokens| Tensor::<4>::random([1, 2, tokens, 8], Distribution::Default, &device);
/// let (q, k, v) = (random(5), random(12), random(12));
/// let whole = Attend::new().forward(q.clone(), k.clone(), v.clone())?;
/// let part = |from, keys| {
///     let [k, v] = [&k, &v].map(|t| t.clone().narrow(2, from, keys));
///     Attend::new().forward(q.clone(), k, v)
/// };
/// let merged = merge(&[part(0, 7)?, part(7, 5)?])?;
/// let difference = (merged.o - whole.o).abs().max().into_scalar::<f32>();
/// assert!(difference < 1e-5);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) without a part, or for parts of different shapes or dtypes,
/// [`ErrorKind::Device`](crate::ErrorKind::Device) for parts on several devices.
pub fn merge(parts: &[Attended]) -> Result<Attended, Error> {
    let Some(first) = parts.first() else {
        return Err(Mismatch::new("parts of an attention", "at least 1", 0).into());
    };
    for part in parts {
        check_same("o of a part [B, Hq, Sq, Dv]", part.o.dims(), first.o.dims())?;
        check_same(
            "lse of a part [B, Hq, Sq]",
            part.lse.dims(),
            first.lse.dims(),
        )?;
        check_same("dtype of a part", part.o.dtype(), first.o.dtype())?;
        check_device("device of a part", part.o.device(), &first.o.device())?;
    }
    let [b, h, s, _] = first.o.dims();
    check_same("lse of a part [B, Hq, Sq]", first.lse.dims(), [b, h, s])?;
    if b * h * s == 0 {
        return Ok(first.clone());
    }
    let sums: Vec<Tensor<3>> = parts.iter().map(|part| part.lse.clone()).collect();
    // The largest lse gets no gradient: it cancels.
    let largest = sums.iter().cloned().reduce(|a, b| a.max_pair(b));
    let largest = largest.unwrap_or_else(|| first.lse.clone()).detach();
    let weights: Vec<Tensor<3>> = sums
        .into_iter()
        .map(|lse| (lse - largest.clone()).exp())
        .collect();
    let total = weights.iter().cloned().reduce(|a, b| a + b);
    let total = total.unwrap_or_else(|| largest.ones_like());
    let mut o: Option<Tensor<4>> = None;
    for (part, weight) in parts.iter().zip(weights) {
        let weight = (weight / total.clone()).unsqueeze_dim::<4>(3);
        let weighted = part.o.clone().cast(DType::F32) * weight;
        o = Some(match o {
            Some(sum) => sum + weighted,
            None => weighted,
        });
    }
    let o = o.unwrap_or_else(|| first.o.clone());
    Ok(Attended {
        o: o.cast(first.o.dtype()),
        lse: largest + total.log(),
    })
}
