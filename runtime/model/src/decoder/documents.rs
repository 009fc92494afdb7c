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
    /// Tokens of a sequence.
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
            let all = of.iter().sum::<usize>();
            Error::check(
                all == tokens,
                "tokens of a sequence's documents",
                tokens,
                all,
            )?;
            let least = of.iter().copied().min().unwrap_or(0);
            Error::check(least > 0, "tokens of a document", "at least 1", least)?;
        }
        Ok(Self { lengths, tokens })
    }

    /// Tokens of the longest document.
    pub fn longest(&self) -> usize {
        self.lengths.iter().flatten().copied().max().unwrap_or(0)
    }

    /// The places of the tokens, with tables on `device`.
    fn places(&self, device: &Device) -> Places {
        let (sequences, tokens) = (self.lengths.len(), self.tokens);
        let documents = self.lengths.iter().flatten();
        let positions = documents.flat_map(|&length| 0..length).collect();
        let numbers = self.lengths.iter().flat_map(|of| {
            let of = of.iter().enumerate();
            of.flat_map(|(number, &length)| std::iter::repeat_n(number as i32, length))
        });
        let numbers = TensorData::new(numbers.collect::<Vec<i32>>(), [sequences, tokens]);
        Places {
            first: vec![0; sequences],
            tokens,
            longest: self.longest(),
            packed: Some(Packed {
                positions,
                numbers: Tensor::from_data(numbers, (device, DType::I32)),
            }),
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
