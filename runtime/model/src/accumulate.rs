//! The sum of the batches that one step of a training computes after one another.

use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Int, Tensor};
use moebius::fp8::training::Finite;

use crate::decoder::{Documents, Model};

/// A batch of a step on the device.
pub(crate) struct Batch {
    /// \[B, S\].
    pub(crate) tokens: Tensor<2, Int>,
    /// The tokens that follow \[B, S\].
    pub(crate) targets: Tensor<2, Int>,
    /// What samples need beside their tokens; `None` for windows of a text.
    pub(crate) samples: Option<OfSamples>,
}

/// Which tokens of a batch of samples belong together, and which are learnt.
pub(crate) struct OfSamples {
    pub(crate) documents: Documents,
    /// 1 for each target that is learnt, else 0 \[1, B · S\].
    pub(crate) weights: Tensor<2>,
    /// Number of targets that all batches of the step learn together.
    pub(crate) learnt: usize,
}

/// What a batch, or all batches of a step, give before parameters change.
pub(crate) struct Computed {
    /// Mean cross entropy \[1\]; of a batch, its share of it.
    pub(crate) loss: Tensor<1>,
    /// Weighted auxiliary losses of all layers \[1\]; of a batch, its share of them.
    pub(crate) extra: Tensor<1>,
    /// Slots of each expert \[E\], for every layer that has experts.
    pub(crate) loads: Vec<Tensor<1, Int>>,
    pub(crate) gradients: GradientsParams,
    /// Whether all gradients are finite, with loss scaling.
    pub(crate) finite: Option<Finite>,
}

/// The sum of several batches. Gradients are added in the order of the batches, so that each run gives the same bits.
pub(crate) struct Sum {
    gradients: GradientsAccumulator<Model>,
    /// All else of the sum, without gradients.
    rest: Option<Computed>,
}

impl Sum {
    pub(crate) fn new() -> Self {
        Self {
            gradients: GradientsAccumulator::new(),
            rest: None,
        }
    }

    /// Adds a batch, whose gradients are those of the parameters of `model`. What is kept of its losses has no graph.
    pub(crate) fn add(&mut self, model: &Model, batch: Computed) {
        self.gradients.accumulate(model, batch.gradients);
        let batch = Computed {
            loss: batch.loss.detach(),
            extra: batch.extra.detach(),
            gradients: GradientsParams::new(),
            ..batch
        };
        self.rest = Some(match self.rest.take() {
            None => batch,
            Some(before) => {
                let loads = before.loads.into_iter().zip(batch.loads);
                Computed {
                    loss: before.loss + batch.loss,
                    extra: before.extra + batch.extra,
                    loads: loads.map(|(sum, load)| sum + load).collect(),
                    gradients: batch.gradients,
                    finite: both(before.finite, batch.finite),
                }
            }
        });
    }

    /// The sum; `None` without a batch.
    pub(crate) fn finish(mut self) -> Option<Computed> {
        let gradients = self.gradients.grads();
        self.rest.map(|rest| Computed { gradients, ..rest })
    }
}

/// Whether the gradients of two batches are finite, where loss scaling asks.
fn both(one: Option<Finite>, other: Option<Finite>) -> Option<Finite> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(&other)),
        (one, other) => one.or(other),
    }
}
