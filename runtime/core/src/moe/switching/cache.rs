//! A cache of experts on the device, which replaces the least recently used expert.

use super::residents::Residents;
use super::weights::{Places, assign, frozen};
use super::{ExpertSource, HostExpert, HostLayer};
use crate::Error;
use crate::check::check_same;
use crate::moe::check::Like;
use crate::moe::experts::feed_forward::FeedForwardExperts;
use burn::tensor::{Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};
use std::sync::Arc;

/// A fixed number of places for experts on the device.
///
/// Weights never change here, so an expert that loses its place is overwritten, and is copied from the host again when a token needs it.
#[derive(Debug)]
pub struct ExpertCache {
    w_in: Places,
    b_in: Option<Tensor<2>>,
    w_out: Places,
    b_out: Option<Tensor<2>>,
    like: Like,
    expert_bytes: u64,
    pub(super) residents: Residents,
    /// Where missing experts are read from, if they aren't in host memory.
    source: Option<Arc<dyn ExpertSource>>,
    statistics: CacheStatistics,
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// The number of times that a batch needed an expert that was on the device.
    pub hits: u64,
    /// The number of times that a batch needed an expert that had to be moved to the device.
    pub misses: u64,
    /// The number of times that an expert lost its place to another.
    pub evictions: u64,
    /// Bytes moved to the device.
    pub moved_bytes: u64,
    /// Bytes read from files, or another [`ExpertSource`], for that; 0 for experts in host memory.
    pub read_bytes: u64,
}

impl CacheStatistics {
    /// What was counted since `earlier` statistics of the same cache.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            evictions: self.evictions - earlier.evictions,
            moved_bytes: self.moved_bytes - earlier.moved_bytes,
            read_bytes: self.read_bytes - earlier.read_bytes,
        }
    }
}

impl ExpertCache {
    /// A cache for the experts of a checked layer, which are `like` this, and of the sizes of `one`.
    pub(super) fn new(
        layer: &HostLayer,
        one: &HostExpert,
        like: Like,
        budget_bytes: u64,
    ) -> Result<Self, Error> {
        let expert_bytes = one.bytes();
        let places = (budget_bytes / expert_bytes).saturating_sub(1);
        let places = places.min(layer.config.experts as u64) as usize;
        let expected = format_args!("at least {} bytes, two experts", 2 * expert_bytes);
        Fault::Config.unless(places > 0, "budget", expected, budget_bytes)?;
        let (device, config) = (&like.device, &layer.config);
        let zeros = |columns| {
            let zeros = Tensor::zeros([places, columns], (device, like.dtype));
            config.bias.then_some(zeros)
        };
        let products = layer.products.as_ref();
        let [of_in, of_out] = [0, 1].map(|at| products.map(|both| &both[at]));
        Ok(Self {
            w_in: Places::new(&one.w_in, places, of_in, device)?,
            b_in: zeros(config.columns_in()),
            w_out: Places::new(&one.w_out, places, of_out, device)?,
            b_out: zeros(config.hidden),
            like,
            expert_bytes,
            residents: Residents::new(places),
            source: layer.source.clone(),
            statistics: CacheStatistics::default(),
        })
    }

    /// The number of experts that fit on the device at once.
    pub fn places(&self) -> usize {
        self.residents.experts.len()
    }

    /// Bytes of one expert.
    pub fn expert_bytes(&self) -> u64 {
        self.expert_bytes
    }

    /// The bytes of all places on the device.
    pub fn device_bytes(&self) -> u64 {
        self.expert_bytes * self.places() as u64
    }

    /// The experts that are on the device, by place.
    pub fn residents(&self) -> &[Option<usize>] {
        &self.residents.experts
    }

    /// Hits, misses, evictions, moved bytes and bytes that were read, since the cache was made.
    pub fn statistics(&self) -> CacheStatistics {
        self.statistics
    }

    pub(super) fn like(&self) -> Like {
        self.like.clone()
    }

    /// Where missing experts are read from, if they aren't in host memory.
    pub(super) fn source(&self) -> Option<&dyn ExpertSource> {
        self.source.as_deref()
    }

    /// The places as a stack of experts. While it exists, a place that is overwritten costs a copy of all.
    pub(super) fn experts(&self) -> Result<FeedForwardExperts, Error> {
        let [b_in, b_out] = [&self.b_in, &self.b_out].map(|bias| bias.clone().map(frozen));
        Ok(FeedForwardExperts {
            w_in: self.w_in.weight()?,
            b_in,
            w_out: self.w_out.weight()?,
            b_out,
        })
    }

    /// Returns the place of every expert of the wave, and the number of places for all other experts: \[E+1\].
    pub(super) fn places_of(&self, wave: &[usize], experts: usize) -> Vec<i32> {
        let mut places = vec![self.places() as i32; experts + 1];
        for expert in wave {
            if let Some(place) = self.residents.place_of(*expert) {
                places[*expert] = place as i32;
            }
        }
        places
    }

    /// Moves the missing experts of `wave`, which fits, to the device.
    pub(super) fn bring(&mut self, wave: &[usize], experts: &[HostExpert]) -> Result<(), Error> {
        let mut missing = Vec::new();
        // Experts that are on the device are marked as used first, so that none of them loses its place.
        for expert in wave {
            match self.residents.place_of(*expert) {
                Some(place) => {
                    self.residents.touch(place);
                    self.statistics.hits += 1;
                }
                None => missing.push(*expert),
            }
        }
        if let Some(source) = &self.source {
            source.expect(&missing);
        }
        for expert in missing {
            let data = match &self.source {
                Some(source) => {
                    let data = source.read(expert)?;
                    self.statistics.read_bytes += source.bytes_of_each();
                    data
                }
                None => experts[expert].clone(),
            };
            self.statistics.misses += 1;
            self.residents.replace(expert, |place, old| {
                self.statistics.evictions += u64::from(old.is_some());
                self.w_in.overwrite(place, data.w_in)?;
                self.w_out.overwrite(place, data.w_out)?;
                for (bias, data) in [(&mut self.b_in, data.b_in), (&mut self.b_out, data.b_out)] {
                    if let Some(bias) = bias {
                        overwrite(bias, data, place)?;
                    }
                }
                // Queued work keeps its buffers; flushing frees this one for the next expert.
                self.like.device.flush().map_err(Error::device)?;
                self.statistics.moved_bytes += self.expert_bytes;
                Ok::<(), Error>(())
            })?;
        }
        Ok(())
    }
}

/// Overwrites the bias in `place`, in place.
///
/// # Errors
/// [`Mismatch`] for a bias that isn't like the others.
fn overwrite(bias: &mut Tensor<2>, with: Option<TensorData>, place: usize) -> Result<(), Mismatch> {
    let found = with
        .as_ref()
        .map(|data| (data.shape().to_vec(), data.dtype()));
    let wanted = Some((vec![bias.dims()[1]], bias.dtype()));
    check_same("bias of an expert", found, wanted)?;
    if let Some(data) = with {
        assign(bias, data, place);
    }
    Ok(())
}
