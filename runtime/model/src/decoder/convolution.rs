//! Short convolution of one layer, and the cache of the values that it needs of earlier tokens.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};
use moebius::attention::{Span, Step};
use moebius::nn::Linear;

use super::rope::Places;
use super::slot::Slot;
use super::spec::ConvolutionSpec;
use super::weights::{Held, Of, decoded, row, row_if};
use crate::error::Error;

/// Gated short convolution, as described by a [`ConvolutionSpec`].
#[derive(Module, Debug)]
pub struct Convolution {
    /// Projection x → b, c and v, side by side.
    pub input: Linear,
    /// Factors of each channel on its last L values of b ⊙ v, the newest last \[H, L\].
    pub factors: Param<Tensor<2>>,
    /// Biases of the sums \[H\].
    pub bias: Option<Param<Tensor<1>>>,
    /// Output projection: c ⊙ sums → y.
    pub out: Linear,
}

impl Convolution {
    pub(super) fn load(spec: &ConvolutionSpec, from: &mut Of<'_>) -> Result<Self, Error> {
        let what = "tokens of a convolution";
        Error::check(spec.taps >= 2, what, "at least 2", spec.taps)?;
        Ok(Self {
            input: from.biased(Slot::ConvolutionIn, Slot::ConvolutionInBias)?,
            factors: from.matrix(Slot::ConvolutionFactors)?,
            bias: from.vector_if(Slot::ConvolutionBias)?,
            out: from.biased(Slot::ConvolutionOut, Slot::ConvolutionOutBias)?,
        })
    }

    /// Computes y \[B · S, H\] from x \[B · S, H\]; with a cache, sums also cover the earlier tokens in it.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        places: &Places,
        cache: Option<ConvolutionCache<'_>>,
    ) -> Result<Tensor<2>, Error> {
        let (b, s) = (places.first.len(), places.tokens);
        let (factors, dtype) = (self.factors.val(), x.dtype());
        let [h, taps] = factors.dims();
        let projected = self.input.forward(x)?;
        let part = |at: usize| projected.clone().narrow(1, at * h, h);
        let values = (part(0) * part(2)).cast(factors.dtype());
        let values = values.reshape([b, s, h]);
        let values = match cache {
            Some(cache) => cache.extended(values),
            None => {
                let options = (&values.device(), values.dtype());
                Tensor::cat(vec![Tensor::zeros([b, taps - 1, h], options), values], 1)
            }
        };
        let term = |tap: usize| {
            let factors = factors.clone().narrow(1, tap, 1).reshape([1, 1, h]);
            let values = values.clone().narrow(1, tap, s);
            let values = match &places.packed {
                Some(packed) => packed.without_first(values, taps - 1 - tap),
                None => values,
            };
            values * factors
        };
        let sums = (1..taps).fold(term(0), |sums, tap| sums + term(tap));
        let sums = match &self.bias {
            Some(bias) => sums + bias.val().reshape([1, 1, h]),
            None => sums,
        };
        let sums = sums.reshape([b * s, h]).cast(dtype);
        Ok(self.out.forward(part(1) * sums)?)
    }

    /// Values that the convolution holds in a slot.
    pub(super) fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::ConvolutionIn => decoded(&self.input.weight),
            Slot::ConvolutionInBias => row_if(&self.input.bias),
            Slot::ConvolutionFactors => row(&self.factors),
            Slot::ConvolutionBias => row_if(&self.bias),
            Slot::ConvolutionOut => decoded(&self.out.weight),
            Slot::ConvolutionOutBias => row_if(&self.out.bias),
            _ => Ok(None),
        }
    }
}

/// The last values of a layer's sequences, for each page: those of the last L − 1 tokens up to the newest one in the page, so that a sequence
/// can go on from its last page, and others from a full page that they share.
#[derive(Clone, Debug)]
pub(super) struct LastValues {
    /// Row 0 is the zeros before a sequence, and row 1 + p is of page p \[1 + pages, (L − 1) · H\]; `None` only while rows are written or added.
    rows: Option<Tensor<2>>,
    /// Number of values of a page, L − 1, and their width H.
    shape: [usize; 2],
}

impl LastValues {
    /// Bytes of a page.
    pub(super) const fn bytes_of_page([values, width]: [usize; 2]) -> usize {
        4 * values * width
    }

    pub(super) fn new(pages: usize, shape: [usize; 2], device: &Device) -> Self {
        let [values, width] = shape;
        let rows = Tensor::zeros([1 + pages, values * width], (device, DType::F32));
        let rows = Some(rows);
        Self { rows, shape }
    }

    /// Adds pages up to `pages`.
    pub(super) fn grow(&mut self, pages: usize) {
        let old = self.rows.take();
        self.rows = old.map(|old| {
            let [rows, width] = old.dims();
            let more = (1 + pages).saturating_sub(rows);
            if more == 0 {
                return old;
            }
            let new = Tensor::zeros([more, width], (&old.device(), DType::F32));
            Tensor::cat(vec![old, new], 0)
        });
    }

    /// Bytes of all pages.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.as_ref().map_or(1, |rows| rows.dims()[0]);
        (rows - 1) * Self::bytes_of_page(self.shape)
    }
}

/// Where the sequences of a step find the last values of their earlier tokens, and which pages get new ones; the same for all layers.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Row of [`LastValues`] that each sequence goes on from \[B\].
    read: Tensor<1, Int>,
    /// Rows of the pages that get new tokens \[W\].
    written: Tensor<1, Int>,
    /// Rows of the last values of these pages, among the L − 1 + S values of all sequences one after the other \[W · (L − 1)\].
    kept: Tensor<1, Int>,
}

/// Number of tokens of a sequence up to the newest one in each page, by which [`Turns`] are checked.
pub(super) type Ends = Vec<usize>;

impl Turns {
    /// The turns of a step, for layers that keep `values` values of each page of `page` tokens. Where fewer than `least` pages get tokens, the
    /// last of them is there again until they are as many, and gets the same values each time. `ends` becomes that after the step.
    ///
    /// # Errors
    /// [`Error::Config`] for a sequence that doesn't go on after the newest token of its last page: the values before it are gone.
    pub(super) fn new(
        step: &Step,
        [values, page]: [usize; 2],
        least: usize,
        ends: &mut Ends,
        device: &Device,
    ) -> Result<Self, Error> {
        let (mut read, mut written, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (number, Span { pages, start, end }) in step.sequences().enumerate() {
            let last = start.checked_sub(1).map(|token| pages[token / page]);
            if let Some(last) = last {
                let newest = ends[last as usize];
                let what = "first new token of a sequence with convolutions";
                Error::check(newest == start, what, newest, start)?;
            }
            read.push(last.map_or(0, |last| 1 + last as i32));
            let first = number * (values + step.tokens());
            for (at, &own) in pages.iter().enumerate().skip(start / page) {
                let until = end.min((at + 1) * page);
                if until > start {
                    written.push(1 + own as i32);
                    kept.extend((0..values).map(|value| (first + until - start + value) as i32));
                    ends[own as usize] = until;
                }
            }
        }
        while (1..least).contains(&written.len()) {
            written.extend_from_within(written.len() - 1..);
            kept.extend_from_within(kept.len() - values..);
        }
        let words = |words: Vec<i32>| {
            let count = words.len();
            Tensor::from_data(TensorData::new(words, [count]), (device, DType::I32))
        };
        Ok(Self {
            read: words(read),
            written: words(written),
            kept: words(kept),
        })
    }
}

/// Last values of one layer during one step.
pub(super) struct ConvolutionCache<'a> {
    pub(super) last: &'a mut LastValues,
    pub(super) turns: &'a Turns,
}

impl ConvolutionCache<'_> {
    /// The new values \[B, S, H\] of each sequence after its last values, \[B, L − 1 + S, H\]. The pages of the step keep those that are the last
    /// now.
    fn extended(self, new: Tensor<3>) -> Tensor<3> {
        let ([sequences, tokens, h], dtype) = (new.dims(), new.dtype());
        let [values, _] = self.last.shape;
        let rows = self.last.rows.take();
        let rows = rows.unwrap_or_else(|| unreachable!("a step puts the rows back"));
        let last = rows.clone().select(0, self.turns.read.clone());
        let last = last.reshape([sequences, values, h]).cast(dtype);
        let all = Tensor::cat(vec![last, new], 1);
        let flat = all.clone().reshape([sequences * (values + tokens), h]);
        let kept = flat.select(0, self.turns.kept.clone()).cast(DType::F32);
        let [written] = self.turns.written.dims();
        let kept = kept.reshape([written, values * h]);
        let (at, assign) = (self.turns.written.clone(), IndexingUpdateOp::Assign);
        self.last.rows = Some(rows.select_assign(0, at, kept, assign));
        all
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "convolution_tests.rs"]
mod tests;
