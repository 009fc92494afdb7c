//! What a training learns from: a text, of which it takes windows, or samples, which fill its sequences together.

use std::collections::BTreeMap;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::decoder::Documents;
use crate::error::Error;
use crate::random::Random;

/// What a training learns from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainingData {
    /// A text of tokens: sequences are windows of it, and each token is predicted from those before it in its window.
    Text(Vec<u32>),
    /// Samples that fill sequences together and see nothing of each other.
    Samples(Dataset),
}

impl From<Vec<u32>> for TrainingData {
    fn from(ids: Vec<u32>) -> Self {
        Self::Text(ids)
    }
}

impl From<Dataset> for TrainingData {
    fn from(samples: Dataset) -> Self {
        Self::Samples(samples)
    }
}

/// A sequence of tokens to learn from, such as a conversation, and which of its tokens are predicted in training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    ids: Vec<u32>,
    learnt: Vec<bool>,
}

impl Sample {
    /// The sample of these tokens; those for which `learnt` is true are predicted from the tokens before them.
    ///
    /// # Errors
    /// [`Error::Config`] for another number of flags than of tokens.
    pub fn new(ids: Vec<u32>, learnt: Vec<bool>) -> Result<Self, Error> {
        let (expected, got) = (ids.len(), learnt.len());
        Error::check(got == expected, "flags of a sample's tokens", expected, got)?;
        Ok(Self { ids, learnt })
    }

    /// The sample without the tokens that a sequence of `sequence` inputs has no room for.
    fn cut(mut self, sequence: usize) -> Self {
        self.ids.truncate(sequence + 1);
        self.learnt.truncate(sequence + 1);
        self
    }

    /// Number of inputs: all tokens but the last, which is predicted only.
    fn inputs(&self) -> usize {
        self.ids.len().saturating_sub(1)
    }

    /// Number of tokens that are predicted; the first one has nothing to be predicted from.
    fn targets(&self) -> usize {
        self.learnt.iter().skip(1).filter(|&&learnt| learnt).count()
    }
}

/// Samples in sequences of one length, as few as a best fit finds. A sample is in one sequence, whole; one that is longer than a sequence loses
/// its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    samples: Vec<Sample>,
    sequence: usize,
    /// The samples of each sequence.
    rows: Vec<Vec<usize>>,
    cut: usize,
    left_out: usize,
}

impl Dataset {
    /// Puts samples into sequences of `sequence` tokens: the longest first, each into the fullest sequence that has room. Samples without a
    /// token to learn are left out.
    ///
    /// # Errors
    /// [`Error::Config`] for sequences of no tokens, and if no sample has a token to learn.
    pub fn pack(samples: Vec<Sample>, sequence: usize) -> Result<Self, Error> {
        Error::check(sequence > 0, "sequence", "at least 1", sequence)?;
        let all = samples.len();
        let cut = samples.iter().filter(|of| of.inputs() > sequence).count();
        let samples: Vec<Sample> = samples
            .into_iter()
            .map(|of| of.cut(sequence))
            .filter(|of| of.targets() > 0)
            .collect();
        let (expected, got) = ("one with a token to learn", format!("none of {all}"));
        Error::check(!samples.is_empty(), "samples", expected, got)?;
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_by_key(|&number| std::cmp::Reverse(samples[number].inputs()));
        let mut rows: Vec<Vec<usize>> = Vec::new();
        // The sequences that have so much room left.
        let mut room: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in order {
            let needed = samples[number].inputs();
            let fullest = room.range(needed..).next().map(|(&left, _)| left);
            let taken = fullest.and_then(|left| Some((left, room.get_mut(&left)?.pop()?)));
            let (left, row) = taken.unwrap_or_else(|| {
                rows.push(Vec::new());
                (sequence, rows.len() - 1)
            });
            if room.get(&left).is_some_and(Vec::is_empty) {
                room.remove(&left);
            }
            rows[row].push(number);
            room.entry(left - needed).or_default().push(row);
        }
        Ok(Self {
            left_out: all - samples.len(),
            samples,
            sequence,
            rows,
            cut,
        })
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Number of sequences that the samples fill.
    pub fn sequences(&self) -> usize {
        self.rows.len()
    }

    /// Tokens of a sequence.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// Number of samples that lost their end because a sequence has no room for it.
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// Number of samples that were left out because nothing of them is learnt.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Number of tokens that are predicted.
    pub fn targets(&self) -> usize {
        self.samples.iter().map(Sample::targets).sum()
    }

    /// All tokens of all samples.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.samples.iter().flat_map(|of| of.ids.iter().copied())
    }

    /// The bytes by which a checkpoint knows the samples: for each its number of tokens, and each token with whether it is learnt.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.samples.iter().flat_map(|of| {
            let tokens = of.ids.iter().zip(&of.learnt);
            let tokens = tokens.flat_map(|(id, &learnt)| {
                let [a, b, c, d] = id.to_le_bytes();
                [a, b, c, d, u8::from(learnt)]
            });
            (of.ids.len() as u64)
                .to_le_bytes()
                .into_iter()
                .chain(tokens)
        })
    }

    /// The sequences of a step, which depend only on `seed` and `step`: all sequences once in a drawn order, then all of them in another order,
    /// and so on.
    pub(crate) fn drawn(&self, seed: u64, step: usize, sequences: usize) -> Vec<usize> {
        let count = self.rows.len();
        let mut known: Option<(usize, Vec<usize>)> = None;
        let first = step * sequences;
        let places = first..first + sequences;
        let drawn = places.map(|place| {
            let (round, at) = (place / count, place % count);
            let of_round = known.take().filter(|(of, _)| *of == round);
            let order = || shuffled(count, &[seed, round as u64]);
            let (_, order) = known.insert(of_round.unwrap_or_else(|| (round, order())));
            order[at]
        });
        drawn.collect()
    }

    /// The sequences with these numbers, as one batch on `device`.
    pub(crate) fn batch(&self, sequences: &[usize], device: &Device) -> Result<Packed, Error> {
        let shape = [sequences.len(), self.sequence];
        let size = shape[0] * shape[1];
        let (mut inputs, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = Vec::new();
        for (number, &row) in sequences.iter().enumerate() {
            let samples = self.rows[row].iter().map(|&of| &self.samples[of]);
            let mut of_row = Vec::new();
            for Sample { ids, learnt } in samples {
                inputs.extend(ids.iter().map(|&id| id as i32).take(ids.len() - 1));
                targets.extend(ids.iter().map(|&id| id as i32).skip(1));
                weights.extend(
                    learnt
                        .iter()
                        .map(|&learnt| f32::from(u8::from(learnt)))
                        .skip(1),
                );
                of_row.push(ids.len() - 1);
            }
            let end = (number + 1) * self.sequence;
            inputs.resize(end, 0);
            targets.resize(end, 0);
            weights.resize(end, 0.0);
            lengths.push(of_row);
        }
        let words =
            |words: Vec<i32>| Tensor::<2, Int>::from_data(TensorData::new(words, shape), device);
        Ok(Packed {
            learnt: weights.iter().filter(|&&weight| weight > 0.0).count(),
            tokens: words(inputs),
            targets: words(targets),
            weights: Tensor::from_data(TensorData::new(weights, [1, size]), device),
            documents: Documents::filled(lengths, self.sequence)?,
        })
    }
}

/// Sequences of samples on a device.
pub(crate) struct Packed {
    /// \[B, S\].
    pub(crate) tokens: Tensor<2, Int>,
    /// The tokens that follow \[B, S\].
    pub(crate) targets: Tensor<2, Int>,
    /// 1 for each target that is learnt, else 0 \[1, B · S\].
    pub(crate) weights: Tensor<2>,
    pub(crate) documents: Documents,
    /// Number of targets that are learnt.
    pub(crate) learnt: usize,
}

/// The numbers below `count` in an order that follows from the seeds (Fisher and Yates 1938).
fn shuffled(count: usize, seeds: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = Random::new(seeds);
    for at in (1..count).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}

#[cfg(test)]
#[path = "dataset_tests.rs"]
mod tests;
