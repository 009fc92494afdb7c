//! A step that has been queued on the device.

use burn::tensor::{Int, Tensor, TensorData, Transaction};
use moebius_ops::Mismatch;

use super::StepSummary;
use crate::schedule::{RequestId, Step, Work};

/// A step that the device is computing.
#[derive(Debug)]
pub struct Launched {
    pub(super) step: Step,
    computed: Vec<Computed>,
}

/// Output of one call of the model.
#[derive(Debug)]
pub(super) struct Computed {
    /// Indices of the parts of the step that were computed.
    pub(super) parts: Vec<usize>,
    /// New tokens of each part.
    pub(super) tokens: usize,
    /// Number of the last tokens of each part that have logits.
    pub(super) last: usize,
    /// Logits \[parts, last, V\], if any of the parts chooses a token.
    pub(super) logits: Option<Tensor<3>>,
    /// Experts of the tokens \[parts · tokens, K\], for every layer that has experts.
    pub(super) experts: Vec<Tensor<2, Int>>,
}

/// The experts that computed logits from which one of a request's next tokens is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Id of the request.
    pub request: RequestId,
    /// Experts that the token before went to, the best first, for every layer that has experts.
    pub layers: Vec<Vec<u32>>,
}

impl Launched {
    pub(super) fn new(step: Step, computed: Vec<Computed>) -> Self {
        Self { step, computed }
    }

    /// A transaction that reads the step's logits from the device, followed, with `experts`, by the input of [`Launched::experts`]. It
    /// reads nothing if the step has only pieces of prompts.
    pub fn reads(&self, experts: bool) -> Transaction {
        let logits = self.choosing().filter_map(|of| of.logits.clone());
        let reads = logits.fold(Transaction::default(), Transaction::register);
        if !experts {
            return reads;
        }
        let last = self.choosing().flat_map(Computed::last_experts);
        last.fold(reads, Transaction::register)
    }

    /// The calls of the model.
    pub(super) fn computed(&self) -> &[Computed] {
        &self.computed
    }

    /// What the step is made of.
    pub(super) fn summary(&self) -> StepSummary {
        let tokens = self.step.work.iter().map(|work| work.positions.len());
        StepSummary {
            tokens: tokens.sum(),
            began: self.step.admitted.clone(),
        }
    }

    /// Whether the step has logits to read.
    pub fn chooses(&self) -> bool {
        self.choosing().next().is_some()
    }

    /// Returns the experts of each request that chooses a token, in the order of the requests, from the data that was read. A request with n
    /// proposed tokens has n + 1 of them, one after the other; those after as many as it gets tokens belong to rejected tokens.
    ///
    /// # Errors
    /// [`Mismatch`] for data that doesn't match [`Launched::reads`].
    pub fn experts(&self, read: &[TensorData]) -> Result<Vec<Experts>, Mismatch> {
        let logits = self.choosing().count();
        let layers: usize = self.choosing().map(|of| of.experts.len()).sum();
        Mismatch::unless(
            read.len() == logits + layers,
            "tensors that were read",
            logits + layers,
            read.len(),
        )?;
        let mut read = read[logits..].iter();
        let mut all = Vec::new();
        for of in self.choosing() {
            let data: Vec<&TensorData> = read.by_ref().take(of.experts.len()).collect();
            let layers = of.experts.iter().zip(data).map(|(tensor, data)| {
                let [_, top_k] = tensor.dims();
                rows(data, [of.parts.len() * of.last, top_k])
            });
            let layers = layers.collect::<Result<Vec<Vec<Vec<u32>>>, _>>()?;
            for (number, part) in of.parts.iter().enumerate() {
                let work = &self.step.work[*part];
                let all_rows = number * of.last..(number + 1) * of.last;
                for row in all_rows.skip(of.first_row(work)) {
                    let layers = layers.iter().map(|rows| rows[row].clone()).collect();
                    let request = work.request;
                    all.push((*part, Experts { request, layers }));
                }
            }
        }
        all.sort_by_key(|(part, _)| *part);
        Ok(all.into_iter().map(|(_, experts)| experts).collect())
    }

    /// The logits from which each part of the step chooses tokens: after its last token, or after the last that isn't proposed and each
    /// proposed one. None for parts that choose no token.
    pub(super) fn logits(&self, read: &[TensorData]) -> Result<Vec<Vec<Vec<f32>>>, Mismatch> {
        let mut all = vec![Vec::new(); self.step.work.len()];
        let count = self.choosing().count();
        let enough = read.len() >= count;
        Mismatch::unless(enough, "tensors that were read", count, read.len())?;
        for (of, data) in self.choosing().zip(read) {
            let vocabulary = of.logits.as_ref().map_or(0, |logits| logits.dims()[2]);
            let mut rows = rows(data, [of.parts.len() * of.last, vocabulary])?.into_iter();
            for part in &of.parts {
                let own = rows.by_ref().take(of.last);
                let own = own.skip(of.first_row(&self.step.work[*part]));
                all[*part] = own.collect();
            }
        }
        Ok(all)
    }

    fn choosing(&self) -> impl Iterator<Item = &Computed> {
        self.computed.iter().filter(|of| of.logits.is_some())
    }
}

impl Computed {
    /// The first of the `last` rows of a part from which it chooses a token; `last` for a part that chooses none.
    fn first_row(&self, work: &Work) -> usize {
        match work.samples {
            Some(_) => self.last - 1 - work.proposed,
            None => self.last,
        }
    }

    /// The experts \[parts · last, K\] of the last tokens of each part, for every layer that has experts.
    fn last_experts(&self) -> impl Iterator<Item = Tensor<2, Int>> {
        self.experts.iter().map(|experts| {
            let [_, top_k] = experts.dims();
            let all = experts
                .clone()
                .reshape([self.parts.len(), self.tokens, top_k]);
            let last = all.narrow(1, self.tokens - self.last, self.last);
            last.reshape([self.parts.len() * self.last, top_k])
        })
    }
}

/// Splits data that was read into `count` rows of `width` values.
fn rows<T: burn::tensor::Element>(
    data: &TensorData,
    [count, width]: [usize; 2],
) -> Result<Vec<Vec<T>>, Mismatch> {
    let values: Vec<T> = data.iter::<T>().collect();
    let expected = format_args!("{count} rows of {width}");
    let fits = values.len() == count * width;
    Mismatch::unless(fits, "values that were read", expected, values.len())?;
    Ok((0..count)
        .map(|row| values[row * width..][..width].to_vec())
        .collect())
}
