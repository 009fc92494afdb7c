//! Passes and steps over tokens that are filled up to one of few shapes.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::Span;
use moebius::moe::Routing;
use moebius::pad::{Buckets, last_rows};

use super::cache::Cache;
use super::rope::Places;
use super::{Given, Logits, Model};
use crate::error::Error;

impl Model {
    /// Does what [`last_logits`](Self::last_logits) does with `ids` filled up to a size of `buckets`: on XLA, where each number of tokens is
    /// a program to compile, all lengths together need one program for each size.
    ///
    /// No token sees what comes after it, so the tokens that fill up change nothing. On Flex the logits have the bits of `last_logits`; on
    /// XLA they agree to 1e-5, because its order of summation depends on the program. Nothing is trained on a device that records gradients.
    ///
    /// # Errors
    /// As [`last_logits`](Self::last_logits), and [`Error::Moebius`] for a number of tokens that isn't among the lengths of `buckets`.
    pub fn last_logits_padded(
        &self,
        ids: &[u32],
        buckets: &Buckets,
        device: &Device,
    ) -> Result<Vec<f32>, Error> {
        if self.is_exact() {
            // XLA, for whose programs tokens are filled up, has no exact operations.
            return self.last_logits(ids, device);
        }
        if self.embedding.val().is_autodiff() {
            return self
                .valid()
                .last_logits_padded(ids, buckets, &device.clone().inner());
        }
        let size = buckets.size(ids.len())?;
        let mut padded = ids.to_vec();
        padded.resize(size, 0);
        let tokens = self.tokens(&padded, device)?;
        let places = Places {
            first: vec![0],
            tokens: size,
            longest: ids.len(),
            packed: None,
            counts: Some(vec![ids.len()]),
        };
        // The last token's place is data: as the bound of a slice it would be part of the program.
        let last = TensorData::new(vec![ids.len() as i32 - 1], [1]);
        let last = Tensor::<1, Int>::from_data(last, device);
        let logits = moebius::on_workers(device, self.of_head(size), || {
            let (x, _) = self.hidden(tokens, &places, Given::default())?;
            self.logits(x.select(0, last))
        })?;
        let logits = logits.unsqueeze::<3>();
        let routing = Vec::new();
        Logits { logits, routing }.read_last()
    }

    /// Does what [`last_few_of`](Self::last_few_of) does with `tokens` \[B, S\] that are filled up, with any tokens of the vocabulary: row b has
    /// the new tokens of sequence b first, 1 to S, and rows after those of `sequences` have none. Where these rows lie and how many there are is
    /// data, so that on XLA all steps of one shape are one program.
    ///
    /// Returns logits \[B, `last`, V\] after the last tokens of each sequence, the newest last; those of a sequence with fewer tokens, and of rows
    /// without any, mean nothing where there is no token. What fills up goes to no expert in `routing` (number E in `indices`), is in no
    /// page of the cache, and changes no other token: on Flex logits have the bits of `last_few_of`. Nothing is trained on a device that
    /// records gradients.
    ///
    /// # Errors
    /// As [`last_few_of`](Self::last_few_of), and [`Error::Config`] for a sequence without new tokens or with more than S, and for more
    /// sequences than rows.
    pub fn last_few_of_padded(
        &self,
        tokens: Tensor<2, Int>,
        last: usize,
        sequences: &[Span<'_>],
        cache: &mut Cache,
    ) -> Result<Logits, Error> {
        if self.embedding.val().is_autodiff() {
            let tokens = tokens.inner();
            return self
                .valid()
                .last_few_of_padded(tokens, last, sequences, cache);
        }
        let [rows, length] = tokens.dims();
        let counts = counts(sequences, [rows, length])?;
        let expected = format!("1 to {length}");
        let some = (1..=length).contains(&last);
        Error::check(some, "logits of a sequence", expected, last)?;
        let none = Span {
            pages: &[],
            start: 0,
            end: 0,
        };
        let mut spans = sequences.to_vec();
        spans.resize(rows, none);
        let device = tokens.device();
        let chosen = last_rows(&counts, length, last);
        let chosen = TensorData::new(chosen, [rows * last]);
        let chosen = Tensor::<1, Int>::from_data(chosen, &device);
        let places = Places {
            first: spans.iter().map(|of| of.start).collect(),
            tokens: length,
            longest: cache.longest(),
            packed: None,
            counts: Some(counts.clone()),
        };
        let step = cache.step_of_padded(&spans, length)?;
        let work = self.of_head(rows * length);
        let (logits, routing) = moebius::on_workers(&device, work, || {
            let (x, routing) = self.hidden(tokens, &places, Given::cached(cache, step))?;
            Ok::<_, Error>((self.logits(x.select(0, chosen))?, routing))
        })?;
        let [_, vocabulary] = logits.dims();
        Ok(Logits {
            logits: logits.reshape([rows, last, vocabulary]),
            routing: without_filling(routing, &counts, length),
        })
    }
}

/// The number of tokens of each of `rows` rows of `length` tokens, of which the first are those of `sequences`.
fn counts(sequences: &[Span<'_>], [rows, length]: [usize; 2]) -> Result<Vec<usize>, Error> {
    let fits = (1..=rows).contains(&sequences.len());
    let expected = format!("1 to {rows}");
    Error::check(fits, "sequences of a step", expected, sequences.len())?;
    let counts = sequences.iter().map(|of| of.end.saturating_sub(of.start));
    let mut counts: Vec<usize> = counts.collect();
    for &count in &counts {
        let (fits, expected) = ((1..=length).contains(&count), format!("1 to {length}"));
        Error::check(fits, "new tokens of a sequence", expected, count)?;
    }
    counts.resize(rows, 0);
    Ok(counts)
}

/// The routing of rows of `length` tokens of which the first `counts[b]` of row b are tokens; the others go to expert E, which is none.
fn without_filling(routing: Vec<Routing>, counts: &[usize], length: usize) -> Vec<Routing> {
    let there = counts
        .iter()
        .flat_map(|&count| (0..length).map(move |at| i32::from(at < count)));
    let there = TensorData::new(there.collect::<Vec<i32>>(), [counts.len() * length, 1]);
    let without = |of: Routing| {
        let none = of.experts() as i64;
        let options = (&of.indices.device(), of.indices.dtype());
        let there = Tensor::<2, Int>::from_data(there.clone(), options);
        let gone = there.clone().mul_scalar(-none).add_scalar(none);
        Routing {
            indices: of.indices * there + gone,
            ..of
        }
    };
    routing.into_iter().map(without).collect()
}
