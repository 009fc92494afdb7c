//! Products with weights in blocks of codes ([`moebius_ops::blocks`]).

use super::decoded::{Decode, Decoded};
use super::lanes::{ACROSS, Few};
use super::turned::{Raw, Rows};
use super::{coded, coded_backward};
use crate::permute::Segments;
use crate::product::{Part, Run};
use crate::values::Matrices;
use crate::vector::Transpose;
use moebius_ops::blocks::{BlockFormat, Layout};
use moebius_ops::grouped_gemm::{Problem, Stored};
use pulp::Simd;
use std::ops::Range;

/// The bytes of a word.
const WORD: usize = 4;

/// Weights that are decoded at once; a multiple of the values of every block.
const DEPTH: usize = 256;

/// Room for the bytes of the blocks with [`DEPTH`] weights of a row, of which the first and the last may have others, too.
const ROOM: usize = 512;

/// Computes \[R,n\] from x \[T,k\] or \[R,k\], words of blocks \[E, n or 2n, words of a row\] and a bias \[E, n or 2n\], for rows sorted as
/// `segments` says, or without a sort for all rows of a single expert.
pub fn linear(
    problem: &Problem,
    segments: Option<&Segments>,
    x: Matrices<'_>,
    words: &[i32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let right = |e| Blocks::of(problem, words, e, Run::Along);
    coded(problem, segments, (x, bias), right)
}

/// Computes the gradients that are needed of a plain product of sorted rows, from that of its result \[R,n\]: of x \[R,k\], and of the biases
/// \[E,n\].
pub fn linear_backward(
    problem: &Problem,
    segments: &Segments,
    needs: [bool; 2],
    dy: &[f32],
    words: &[i32],
) -> [Option<Vec<f32>>; 2] {
    let right = |e| Blocks::of(problem, words, e, Run::Across);
    coded_backward(problem, segments, needs, dy, right)
}

/// The weights of one expert.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    format: BlockFormat,
    /// The words of all experts.
    words: &'a [i32],
    /// The numbers of values and of words in a row.
    values: usize,
    width: usize,
    /// The expert's first row.
    first: usize,
}

impl<'a> Blocks<'a> {
    /// The weights of expert `e` of a product whose rows of words are these; their lines run as `run` says.
    fn of(problem: &Problem, words: &'a [i32], e: usize, run: Run) -> Decoded<'a> {
        let Stored::Blocks(format) = problem.stored else {
            unreachable!("a call with blocks has a problem with blocks");
        };
        let rows = Self {
            format,
            words,
            values: problem.k,
            width: format.row_words(problem.k),
            first: e * problem.n * problem.parts(),
        };
        Decoded::new(rows, run)
    }

    /// The words of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [i32] {
        &self.words[(self.first + row) * self.width..][..self.width]
    }

    /// The share of some inner values in the words of [`ACROSS`] rows from row `first` on, of which the last may lack.
    #[inline(always)]
    fn share(&self, first: usize, inner: &Range<usize>) -> &'a [i32] {
        let at = |value: usize| {
            let before = (self.first + first) * self.width;
            (before + ACROSS * (self.width * value / self.values)).min(self.words.len())
        };
        &self.words[at(inner.start)..at(inner.end)]
    }
}

impl Decode for Blocks<'_> {
    #[inline(always)]
    fn decode(&self, row: usize, column: usize, to: &mut [f32]) {
        let Layout { values, bytes, .. } = self.format.layout();
        let (head, words) = self.row(row).split_at(self.format.head());
        let head = head.first().map_or(0, |word| word.cast_unsigned());
        let mut column = column;
        for to in to.chunks_mut(DEPTH) {
            let first = column / values * bytes;
            let past = (column + to.len()).div_ceil(values) * bytes;
            let mut blocks = [0_u8; ROOM];
            let words = &words[first / WORD..past.div_ceil(WORD)];
            for (bytes, word) in blocks.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            self.format
                .decode(head, &blocks[first % WORD..], column % values, to);
            column += to.len();
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        raw: &mut Raw,
        few: &mut Few<'_>,
    ) {
        let rows = Rows {
            format: self.format,
            words: std::array::from_fn(|i| self.row((across.start + i).min(across.end - 1))),
            inner: inner.clone(),
            ahead: self.share(across.start + ACROSS, inner),
        };
        rows.multiply(vectors, raw, few);
    }
}
