//! Reports of a training's progress.

use std::time::Instant;

use burn::tensor::{Int, Tensor, Transaction};
use moebius::fp8::training::{LossScale, LossScaler, products};
use moebius::moe::LoadStatistics;
use serde::Serialize;

use crate::decoder::Model;
use crate::error::Error;

/// Measurements of the steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of steps done since the start of the training.
    pub step: usize,
    /// Cross entropy of each step before its update, in nats per token. For the small decoder, a token is a byte.
    pub losses: Vec<f32>,
    /// Mean of `losses`.
    pub loss: f32,
    /// Mean of the weighted auxiliary losses: balance loss and z-loss.
    pub auxiliary: f32,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Tokens per second; the first steps include the compilation of kernels.
    pub tokens_per_s: f64,
    /// Seconds from the start of the first of these steps to the report.
    pub seconds: f64,
    /// Load of the experts of each layer.
    pub layers: Vec<LayerLoad>,
    /// State of loss scaling and FP8 scales; `None` in a training without loss scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8: Option<Fp8Report>,
}

/// State of loss scaling and of the FP8 scales since the first step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fp8Report {
    /// The next loss scale, the clean steps since it changed, and the skipped steps in all.
    #[serde(flatten)]
    pub loss_scale: LossScale,
    /// Number of scales with a history: of the inputs, the weights and the gradients of every product.
    pub scales: usize,
    /// Number of scales whose tensors never had a value beyond the FP8 range.
    pub never_saturated: usize,
    /// Saturations: steps in which a scale's tensor had a value beyond the FP8 range, summed over the scales.
    pub saturated: u64,
}

impl Fp8Report {
    /// Reads the scales' state, and waits for the device.
    pub(crate) fn read(scaler: &LossScaler, model: &Model) -> Result<Self, Error> {
        let states = products(model);
        let states = states.iter().filter_map(|product| product.state.as_ref());
        let counts = states.map(|state| state.saturated.value_sync().without_autodiff());
        let counts = read(counts.collect())?;
        Ok(Self {
            loss_scale: scaler.read()?,
            scales: counts.len(),
            never_saturated: counts.iter().filter(|&&count| count == 0.0).count(),
            saturated: counts.iter().map(|&count| count as u64).sum(),
        })
    }
}

/// Load of the experts of one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerLoad {
    /// Slots of each expert (a slot is one token at one of its experts).
    pub counts: Vec<u64>,
    /// Share of all slots that each expert got; empty when there were no slots.
    pub utilization: Vec<f64>,
    /// Standard deviation of the counts divided by their mean, 0 for an even load; `None` when there were no slots.
    pub coefficient_of_variation: Option<f64>,
    /// Slots that no expert processed: always 0, as the layers of these models have no capacity limit.
    pub dropped: u64,
}

impl LayerLoad {
    /// Number of experts that got any slot.
    pub fn used(&self) -> usize {
        self.counts.iter().filter(|&&n| n > 0).count()
    }

    fn read(load: Tensor<1, Int>) -> Result<Self, Error> {
        let statistics = LoadStatistics::read(load)?;
        let balance = statistics.balance;
        Ok(Self {
            counts: statistics.counts,
            coefficient_of_variation: balance.as_ref().map(|load| load.coefficient_of_variation),
            utilization: balance.map_or_else(Vec::new, |load| load.utilization),
            dropped: 0,
        })
    }
}

/// What a step measured, as tensors on the device.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Number of the step, from 1.
    pub step: usize,
    /// Cross entropy \[1\] before the step's update, in nats per token.
    pub loss: Tensor<1>,
    /// Weighted auxiliary losses \[1\]: balance loss and z-loss.
    pub auxiliary: Tensor<1>,
    /// Slots of each expert \[E\], for every layer that has experts.
    pub loads: Vec<Tensor<1, Int>>,
}

impl Measured {
    /// A transaction that reads the loss, the auxiliary losses and the loads, in this order.
    pub fn transaction(self) -> Transaction {
        let losses = Transaction::default()
            .register(self.loss)
            .register(self.auxiliary);
        self.loads.into_iter().fold(losses, Transaction::register)
    }
}

/// Measurements gathered on the device between two reports.
#[derive(Default)]
pub(crate) struct Window {
    since: Option<Instant>,
    losses: Vec<Tensor<1>>,
    auxiliary: Vec<Tensor<1>>,
    /// Slots of each expert \[E\], a tensor per layer.
    layers: Vec<Tensor<1, Int>>,
}

impl Window {
    /// Starts the clock, unless it is running.
    pub(crate) fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The loss of the window's first step; waits for the device.
    pub(crate) fn first_loss(&self) -> Result<Option<f32>, Error> {
        Ok(read(self.losses.iter().take(1).cloned().collect())?.pop())
    }

    /// Adds the measurements of a step, without waiting for the device.
    pub(crate) fn add(&mut self, step: Measured) {
        self.losses.push(step.loss);
        self.auxiliary.push(step.auxiliary);
        for (layer, load) in step.loads.into_iter().enumerate() {
            match self.layers.get_mut(layer) {
                Some(sum) => *sum = sum.clone() + load,
                None => self.layers.push(load),
            }
        }
    }

    /// Reads everything and waits for the device. `step` is the number of steps done, `rate` the last learning rate, and `tokens` the
    /// tokens per step.
    pub(crate) fn read(self, step: usize, rate: f64, tokens: usize) -> Result<Report, Error> {
        let losses = read(self.losses)?;
        let auxiliary = read(self.auxiliary)?;
        let seconds = self
            .since
            .map_or(0.0, |since| since.elapsed().as_secs_f64());
        let layers = self.layers.into_iter().map(LayerLoad::read);
        Ok(Report {
            step,
            loss: mean(&losses),
            auxiliary: mean(&auxiliary),
            learning_rate: rate,
            tokens_per_s: (losses.len() * tokens) as f64 / seconds,
            seconds,
            losses,
            layers: layers.collect::<Result<_, _>>()?,
            fp8: None,
        })
    }
}

fn read(tensors: Vec<Tensor<1>>) -> Result<Vec<f32>, Error> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    Tensor::cat(tensors, 0)
        .try_into_vec_as::<f32>()
        .map_err(Error::device)
}

/// The mean; NaN for an empty list.
fn mean(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().copied().map(f64::from).sum();
    (sum / values.len() as f64) as f32
}
