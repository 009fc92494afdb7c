//! How the training goes.

use std::time::Instant;

use burn::tensor::{Int, Tensor};
use moebius::fp8::training::{LossScale, LossScaler, products};
use moebius::moe::LoadStatistics;
use serde::Serialize;

use crate::decoder::Model;
use crate::error::Error;

/// The steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Steps done in all.
    pub step: usize,
    /// Cross entropy of each step, in nats a token, before its update. A byte is a token of the small decoder.
    pub losses: Vec<f32>,
    /// Their mean.
    pub loss: f32,
    /// Mean of what balance and z-loss added.
    pub auxiliary: f32,
    /// Rate of the last step.
    pub learning_rate: f64,
    /// Tokens learned from in a second; the first steps include the compilation of kernels.
    pub tokens_per_s: f64,
    /// Time of these steps, without what came between them and the steps before.
    pub seconds: f64,
    /// What the experts of each block got.
    pub layers: Vec<LayerLoad>,
    /// Of a training with loss scaling: how it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8: Option<Fp8Report>,
}

/// How loss scaling and the scales of FP8 do, since the first step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fp8Report {
    /// What the next loss is multiplied by, clean steps since it changed, skipped steps in all.
    #[serde(flatten)]
    pub loss_scale: LossScale,
    /// Scales with a history: of the inputs, the weights and the gradients of every product.
    pub scales: usize,
    /// Those whose tensors never had a value beyond the range, which would have saturated.
    pub never_saturated: usize,
    /// Saturations: steps in which the tensor of a scale had such a value, summed over the scales.
    pub saturated: u64,
}

impl Fp8Report {
    /// Waits for the device.
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

/// What the experts of one block got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerLoad {
    /// Slots of each expert.
    pub counts: Vec<u64>,
    /// Share of each expert in all slots; empty where there were none.
    pub utilization: Vec<f64>,
    /// Standard deviation of the counts over their mean: 0 where all get the same; `None` where
    /// there were no slots.
    pub coefficient_of_variation: Option<f64>,
    /// Slots that reached no expert: none, as the layers of these models have no capacity.
    pub dropped: u64,
}

impl LayerLoad {
    /// Experts that got something.
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

/// What is gathered on the device between two reports.
#[derive(Default)]
pub(crate) struct Window {
    since: Option<Instant>,
    losses: Vec<Tensor<1>>,
    auxiliary: Vec<Tensor<1>>,
    /// Slots of each expert of a layer \[E\].
    layers: Vec<Tensor<1, Int>>,
}

impl Window {
    /// Starts the clock, if it isn't running.
    pub(crate) fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The loss of the first step in here; waits for the device.
    pub(crate) fn first_loss(&self) -> Result<Option<f32>, Error> {
        Ok(read(self.losses.iter().take(1).cloned().collect())?.pop())
    }

    /// Adds a step, without waiting for it.
    pub(crate) fn add(
        &mut self,
        loss: Tensor<1>,
        auxiliary: Tensor<1>,
        layers: impl Iterator<Item = Result<Tensor<1, Int>, moebius::Error>>,
    ) -> Result<(), Error> {
        self.losses.push(loss.inner());
        self.auxiliary.push(auxiliary.inner());
        for (layer, load) in layers.enumerate() {
            let load = load?.inner();
            match self.layers.get_mut(layer) {
                Some(sum) => *sum = sum.clone() + load,
                None => self.layers.push(load),
            }
        }
        Ok(())
    }

    /// Waits for the device and reads everything, at step `step`, of which each learned from `tokens` and the last went at `rate`.
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

/// NaN for nothing.
fn mean(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().copied().map(f64::from).sum();
    (sum / values.len() as f64) as f32
}
