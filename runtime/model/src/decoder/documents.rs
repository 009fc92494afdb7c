//! Sequences that are made of documents, such as short samples that fill up a sequence together in training.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::rope::{Packed, Places};
use super::{Given, Logits, Model};
use crate::error::Error;

/// The documents of sequences, which see nothing of each other: a token attends to those before it in its own document, and positions begin
/// with each document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// Tokens of each document of each sequence, one after the other.
    lengths: Vec<Vec<usize>>,
    /// Tokens of a sequence, with those that fill it up.
    tokens: usize,
}

impl Documents {
    /// Sequences of documents with these numbers of tokens, one after the other: a list for each sequence.
    ///
    /// # Errors
    /// [`Error::Config`] for sequences of different lengths and for a document without tokens.
    pub fn new(lengths: Vec<Vec<usize>>) -> Result<Self, Error> {
        let tokens: usize = lengths.first().map_or(0, |first| first.iter().sum());
        for of in &lengths {
            let (what, all) = ("tokens of a sequence's documents", of.iter().sum::<usize>());
            Error::check(all == tokens, what, tokens, all)?;
        }
        Self::filled(lengths, tokens)
    }

    /// Sequences of `tokens` tokens that begin with documents with these numbers of tokens. What is left of a sequence only fills it up: no
    /// router learns from it, and nothing of it counts in the loads and losses of a pass's routing.
    ///
    /// # Errors
    /// [`Error::Config`] for more tokens than a sequence has, and for a sequence or a document without tokens.
    pub fn filled(lengths: Vec<Vec<usize>>, tokens: usize) -> Result<Self, Error> {
        for of in &lengths {
            let (what, all) = ("tokens of a sequence's documents", of.iter().sum::<usize>());
            let expected = format!("at most {tokens}");
            Error::check(all <= tokens, what, expected, all)?;
            let least = of.iter().copied().min().unwrap_or(0);
            Error::check(least > 0, "tokens of a document", "at least 1", least)?;
        }
        Ok(Self { lengths, tokens })
    }

    /// Tokens of the longest document.
    pub fn longest(&self) -> usize {
        self.lengths.iter().flatten().copied().max().unwrap_or(0)
    }

    /// The places of the tokens, with tables on `device`. Those that fill a sequence up are a document at its end, all at position 0, since models
    /// may have no more positions than documents need.
    fn places(&self, device: &Device) -> Places {
        let (sequences, tokens) = (self.lengths.len(), self.tokens);
        let shape = [sequences, tokens];
        let (mut positions, mut numbers) = (Vec::new(), Vec::new());
        // 1 for each token of a document, 0 for others.
        let mut counts: Vec<i32> = Vec::new();
        for (sequence, of) in self.lengths.iter().enumerate() {
            for (number, &length) in of.iter().enumerate() {
                positions.extend(0..length);
                numbers.extend(std::iter::repeat_n(number as i32, length));
            }
            counts.resize(positions.len(), 1);
            let end = (sequence + 1) * tokens;
            positions.resize(end, 0);
            numbers.resize(end, of.len() as i32);
            counts.resize(end, 0);
        }
        let some = counts.contains(&0);
        let counts = TensorData::new(counts, [sequences * tokens]);
        let on = (device, DType::I32);
        Places {
            first: vec![0; sequences],
            tokens,
            longest: self.longest(),
            packed: Some(Packed {
                positions,
                numbers: Tensor::from_data(TensorData::new(numbers, shape), on),
                counts: some.then(|| Tensor::<1, Int>::from_data(counts, on).equal_elem(1)),
            }),
            counts: None,
        }
    }
}

impl Model {
    /// Does what [`forward`](Self::forward) does with sequences \[B, S\] of several documents each: the logits of a document's tokens are
    /// those of the document alone, but for the order of sums. Where divisors of rotary positions depend on a sequence's length, those of
    /// the longest document count for all.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Config`] for documents of other sequences, for documents that are longer than a chunk in
    /// which layers attend, and for a model whose passes have the same bits on every device.
    pub fn forward_documents(
        &self,
        tokens: Tensor<2, Int>,
        documents: &Documents,
    ) -> Result<Logits, Error> {
        let (what, expected) = ("documents", "a model that isn't exact");
        Error::check(!self.is_exact(), what, expected, "an exact one")?;
        let [sequences, length] = tokens.dims();
        let fits = [sequences, length] == [documents.lengths.len(), documents.tokens];
        let expected = format!("{} of {}", documents.lengths.len(), documents.tokens);
        let got = format!("{sequences} of {length}");
        Error::check(fits, "sequences of documents", expected, got)?;
        if let Some(chunk) = self.spec.chunk() {
            let expected = format!("at most {chunk}, the chunk in which layers attend");
            let longest = documents.longest();
            Error::check(longest <= chunk, "tokens of a document", expected, longest)?;
        }
        let places = documents.places(&tokens.device());
        self.run(tokens, &places, Given::default())
    }
}
