//! A step that has been queued on the device.

use std::borrow::Cow;
use std::ops::Range;

use burn::tensor::{Element, Int, Tensor, TensorData, Transaction};
use moebius::pad::last_rows;
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
    /// What was computed of parts of the step, one of each.
    pub(super) pieces: Vec<Piece>,
    /// Numbers of sequences and of tokens of each: those of the pieces, or more where the call was filled up.
    pub(super) shape: [usize; 2],
    /// Number of the last tokens of each piece that have logits.
    pub(super) last: usize,
    /// Number of logits V of a token, if any of the pieces chooses one.
    pub(super) vocabulary: Option<usize>,
    /// Logits \[sequences, last, V\] of a call that chooses tokens, until they are read.
    pub(super) logits: Option<Tensor<3>>,
    /// Experts of the tokens \[sequences · tokens, K\], for every layer that has experts.
    pub(super) experts: Vec<Tensor<2, Int>>,
}

/// Tokens of one part of a step.
#[derive(Debug)]
pub(super) struct Piece {
    /// Index of the part.
    pub(super) part: usize,
    /// Positions of the tokens in their sequence.
    pub(super) positions: Range<usize>,
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
            filled: self.computed.iter().map(Computed::filled).sum(),
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
                rows(data, [of.experts_read(), top_k])
            });
            let layers = layers.collect::<Result<Vec<Vec<Cow<'_, [u32]>>>, _>>()?;
            let numbers = of.rows_read();
            for (piece, numbers) in of.pieces.iter().zip(numbers.chunks(of.last)) {
                let work = &self.step.work[piece.part];
                for &row in &numbers[of.first_row(work)..] {
                    let of_layer = |rows: &Vec<Cow<'_, [u32]>>| rows[row as usize].to_vec();
                    let layers = layers.iter().map(of_layer).collect();
                    let request = work.request;
                    all.push((piece.part, Experts { request, layers }));
                }
            }
        }
        all.sort_by_key(|(part, _)| *part);
        Ok(all.into_iter().map(|(_, experts)| experts).collect())
    }

    /// The logits from which each part of the step chooses tokens: after its last token, or after the last that isn't proposed and each
    /// proposed one. None for parts that choose no token.
    pub(super) fn logits<'a>(
        &self,
        read: &'a [TensorData],
    ) -> Result<Vec<Vec<Cow<'a, [f32]>>>, Mismatch> {
        let mut all = vec![Vec::new(); self.step.work.len()];
        let count = self.choosing().count();
        let enough = read.len() >= count;
        Mismatch::unless(enough, "tensors that were read", count, read.len())?;
        for (of, data) in self.choosing().zip(read) {
            let vocabulary = of.vocabulary.unwrap_or(0);
            let mut rows = rows(data, [of.shape[0] * of.last, vocabulary])?.into_iter();
            for Piece { part, .. } in &of.pieces {
                let own = rows.by_ref().take(of.last);
                let own = own.skip(of.first_row(&self.step.work[*part]));
                all[*part] = own.collect();
            }
        }
        Ok(all)
    }

    fn choosing(&self) -> impl Iterator<Item = &Computed> {
        self.computed.iter().filter(|of| of.vocabulary.is_some())
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

    /// Number of rows that belong to no token.
    fn filled(&self) -> usize {
        let tokens: usize = self.pieces.iter().map(|of| of.positions.len()).sum();
        self.shape[0] * self.shape[1] - tokens
    }

    /// The experts of the last tokens of each piece \[pieces · last, K\], for every layer that has experts; those of all rows
    /// \[sequences · tokens, K\] of a call that was filled up, as where its tokens end is no part of its program.
    fn last_experts(&self) -> impl Iterator<Item = Tensor<2, Int>> {
        let [sequences, tokens] = self.shape;
        self.experts.iter().map(move |experts| {
            if self.filled() > 0 {
                return experts.clone();
            }
            let [_, top_k] = experts.dims();
            let all = experts.clone().reshape([sequences, tokens, top_k]);
            let last = all.narrow(1, tokens - self.last, self.last);
            last.reshape([sequences * self.last, top_k])
        })
    }

    /// Number of rows of [`Self::last_experts`].
    fn experts_read(&self) -> usize {
        let [sequences, tokens] = self.shape;
        sequences * if self.filled() > 0 { tokens } else { self.last }
    }

    /// Numbers of the rows of [`Self::last_experts`] that belong to the last tokens of each piece, `last` for each.
    fn rows_read(&self) -> Vec<i32> {
        let of = |piece: &Piece| match self.filled() {
            0 => self.last,
            _ => piece.positions.len(),
        };
        let counts: Vec<usize> = self.pieces.iter().map(of).collect();
        let tokens = self.experts_read() / self.shape[0].max(1);
        last_rows(&counts, tokens, self.last)
    }
}

/// Splits data that was read into `count` rows of `width` values, which are copied only where they are of another type.
fn rows<T: Element>(
    data: &TensorData,
    [count, width]: [usize; 2],
) -> Result<Vec<Cow<'_, [T]>>, Mismatch> {
    let got = data.num_elements();
    let expected = format_args!("{count} rows of {width}");
    Mismatch::unless(got == count * width, "values that were read", expected, got)?;
    let row = |row: usize| row * width..(row + 1) * width;
    if let Ok(values) = data.as_slice::<T>() {
        let rows = (0..count).map(|number| Cow::Borrowed(&values[row(number)]));
        return Ok(rows.collect());
    }
    let values: Vec<T> = data.iter::<T>().collect();
    let rows = (0..count).map(|number| Cow::Owned(values[row(number)].to_vec()));
    Ok(rows.collect())
}
