//! [`ChosenExperts`]: the experts of tokens, recorded from one forward to be replayed in another.

use super::route::Routing;
use crate::Error;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::Mismatch;
use moebius_ops::routing::Problem;

/// The experts that the tokens of a layer went to, on the host, for [`MoeLayer::forward_along`](super::MoeLayer::forward_along): K distinct
/// ones of E experts for each of T tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenExperts {
    /// The experts \[T,K\].
    indices: Vec<u32>,
    top_k: usize,
    experts: usize,
}

impl ChosenExperts {
    /// The experts `indices` \[T,K\], with K = `top_k`, of `experts` experts. The order of a token's experts is that of its slots, in which
    /// their outputs are summed.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a `top_k` outside 1..=E, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another
    /// number of indices than a multiple of K, for one that isn't below E, and for a token that has an expert twice.
    pub fn new(indices: Vec<u32>, top_k: usize, experts: usize) -> Result<Self, Error> {
        Problem::new(indices.len() / top_k.max(1), experts, top_k)?;
        let whole = indices.len().is_multiple_of(top_k);
        let expected = format_args!("a multiple of top_k = {top_k}");
        Mismatch::unless(whole, "chosen experts", expected, indices.len())?;
        for (token, chosen) in indices.chunks_exact(top_k).enumerate() {
            for (slot, &expert) in chosen.iter().enumerate() {
                let known = (expert as usize) < experts;
                let expected = format_args!("below {experts}");
                let got = format_args!("{expert} at token {token}");
                Mismatch::unless(known, "chosen expert", expected, got)?;
                let twice = chosen[..slot].contains(&expert);
                let got = format_args!("{chosen:?} at token {token}");
                Mismatch::unless(!twice, "experts of a token", "distinct ones", got)?;
            }
        }
        Ok(Self {
            indices,
            top_k,
            experts,
        })
    }

    /// Reads the experts of a routing; waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for slots
    /// without an expert, such as those of a mask that leaves too few, or where experts choose tokens.
    pub fn read(routing: &Routing) -> Result<Self, Error> {
        let [_, top_k] = routing.indices.dims();
        let data = routing.indices.clone().try_into_data();
        let data = data.map_err(Error::device)?;
        Self::new(data.iter::<u32>().collect(), top_k, routing.experts())
    }

    /// The experts \[T,K\], one token after the other.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The number T of tokens.
    pub fn tokens(&self) -> usize {
        self.indices.len() / self.top_k
    }

    /// The number K of experts of a token.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// The number E of experts that there are.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// The experts \[T,K\] on `device`.
    pub(super) fn on(&self, device: &Device) -> Tensor<2, Int> {
        let indices: Vec<i32> = self.indices.iter().map(|&index| index as i32).collect();
        let data = TensorData::new(indices, [self.tokens(), self.top_k]);
        Tensor::from_data(data, (device, DType::I32))
    }
}
