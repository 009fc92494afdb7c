//! What a load looks like, read by the host.

use crate::Error;
use burn::tensor::{Int, Tensor, TensorData};

/// The slots of every expert.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatistics {
    /// A_e: slots that chose each expert.
    pub counts: Vec<u64>,
    /// How they are shared out; `None` when there were no slots.
    pub balance: Option<LoadBalance>,
}

/// How slots are shared out among experts.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalance {
    /// A_e / Σ A.
    pub utilization: Vec<f64>,
    /// Standard deviation (unbiased) over the mean of A_e: 0 when balanced.
    pub coefficient_of_variation: f64,
    /// Largest A_e over the mean: 1 when balanced, E at collapse.
    pub max_over_mean: f64,
    /// Smallest A_e over the mean: 1 when balanced, 0 when an expert has nothing.
    pub min_over_mean: f64,
    /// −Σ_e u_e · ln u_e of the utilization u: ln E when balanced, 0 at collapse.
    pub assignment_entropy: f64,
}

impl LoadStatistics {
    /// Reads a load \[E\], such as [`Routing::load`](super::Routing::load): waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(load: Tensor<1, Int>) -> Result<Self, Error> {
        let data = load.try_into_data().map_err(Error::device)?;
        Ok(Self::of(&data))
    }

    /// [`LoadStatistics::read`] for a caller that can't block, such as a browser.
    ///
    /// # Errors
    /// As [`LoadStatistics::read`].
    pub async fn read_async(load: Tensor<1, Int>) -> Result<Self, Error> {
        let data = load.into_data_async().await.map_err(Error::device)?;
        Ok(Self::of(&data))
    }

    fn of(load: &TensorData) -> Self {
        let counts = load.iter::<i64>().map(|count| count.max(0) as u64);
        Self::new(counts.collect())
    }

    /// Of counts A_e.
    pub fn new(counts: Vec<u64>) -> Self {
        let balance = LoadBalance::of(&counts);
        Self { counts, balance }
    }
}

impl LoadBalance {
    fn of(counts: &[u64]) -> Option<Self> {
        let all = counts.iter().sum::<u64>() as f64;
        if all == 0.0 {
            return None;
        }
        let experts = counts.len() as f64;
        let mean = all / experts;
        let utilization: Vec<f64> = counts.iter().map(|count| *count as f64 / all).collect();
        let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
        // One expert has no deviation; its sum of squares is 0.
        let variance = squares.sum::<f64>() / (experts - 1.0).max(1.0);
        let entropy = utilization.iter().filter(|u| **u > 0.0);
        let over_mean = |count: Option<&u64>| count.map_or(0.0, |count| *count as f64 / mean);
        Some(Self {
            coefficient_of_variation: variance.sqrt() / mean,
            max_over_mean: over_mean(counts.iter().max()),
            min_over_mean: over_mean(counts.iter().min()),
            assignment_entropy: -entropy.map(|u| u * u.ln()).sum::<f64>(),
            utilization,
        })
    }
}
