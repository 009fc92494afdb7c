//! A cache of experts on the device, which replaces the least recently used expert.

use super::HostExpert;
use super::residents::Residents;
use crate::Error;
use crate::moe::check::Like;
use crate::moe::config::MoeConfig;
use crate::ops::FeedForward;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};

/// A fixed number of places for experts on the device.
///
/// Weights never change here, so an expert that loses its place is overwritten, and is copied from the host again when a token needs it.
#[derive(Debug)]
pub struct ExpertCache {
    experts: FeedForward,
    expert_bytes: u64,
    pub(super) residents: Residents,
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
}

impl ExpertCache {
    pub(super) fn new(
        config: &MoeConfig,
        dtype: DType,
        budget_bytes: u64,
        device: &Device,
    ) -> Result<Self, Mismatch> {
        let (h, f, columns) = (config.hidden, config.inter, config.columns_in());
        let biases = if config.bias { columns + h } else { 0 };
        let elements = h * (columns + f) + biases;
        let expert_bytes = (elements * dtype.size()) as u64;
        let places = (budget_bytes / expert_bytes).saturating_sub(1);
        let places = places.min(config.experts as u64) as usize;
        let expected = format_args!("at least {} bytes, two experts", 2 * expert_bytes);
        Fault::Config.unless(places > 0, "budget", expected, budget_bytes)?;
        let matrix = |columns| {
            let zeros = Tensor::zeros([places, columns], (device, dtype));
            config.bias.then_some(zeros)
        };
        let stack = |shape: [usize; 3]| Tensor::zeros(shape, (device, dtype));
        Ok(Self {
            experts: FeedForward {
                w_in: stack([places, columns, h]),
                b_in: matrix(columns),
                w_out: stack([places, h, f]),
                b_out: matrix(h),
            },
            expert_bytes,
            residents: Residents::new(places),
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

    /// Hits, misses, evictions and moved bytes since the cache was made.
    pub fn statistics(&self) -> CacheStatistics {
        self.statistics
    }

    pub(super) fn like(&self) -> Like {
        let w_in = &self.experts.w_in;
        Like {
            dtype: w_in.dtype(),
            device: w_in.device(),
        }
    }

    /// The places as a stack of experts.
    pub(super) fn experts(&self) -> FeedForward {
        self.experts.clone()
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
        for expert in missing {
            let (place, old) = self.residents.replace(expert);
            self.statistics.misses += 1;
            self.statistics.evictions += u64::from(old.is_some());
            self.statistics.moved_bytes += self.expert_bytes;
            self.overwrite(place, &experts[expert])?;
        }
        Ok(())
    }

    fn overwrite(&mut self, place: usize, expert: &HostExpert) -> Result<(), Error> {
        let Like { dtype, device } = self.like();
        let stack = &mut self.experts;
        let at = (place, dtype, &device);
        assign(&mut stack.w_in, &expert.w_in, at);
        assign(&mut stack.w_out, &expert.w_out, at);
        for (bias, data) in [
            (&mut stack.b_in, &expert.b_in),
            (&mut stack.b_out, &expert.b_out),
        ] {
            if let (Some(bias), Some(data)) = (bias, data) {
                assign(bias, data, at);
            }
        }
        // Queued work keeps its buffers; flushing frees this one for the next expert.
        device.flush().map_err(Error::device)
    }
}

/// Overwrites one entry of a stack in place with `data`.
fn assign<const D: usize>(
    stack: &mut Tensor<D>,
    data: &TensorData,
    (place, dtype, device): (usize, DType, &Device),
) {
    let shape: Vec<usize> = [1].into_iter().chain(data.shape().to_vec()).collect();
    let data = TensorData::from_bytes(data.bytes().clone(), shape, dtype);
    let expert = Tensor::<D>::from_data(data, (device, dtype));
    // The cache gives up its tensor first, because a shared one would be copied as a whole.
    let hole = Tensor::empty([1; D], (device, dtype));
    let tensor = std::mem::replace(stack, hole);
    let entry = place..place + 1;
    *stack = tensor.slice_assign([entry], expert);
}
