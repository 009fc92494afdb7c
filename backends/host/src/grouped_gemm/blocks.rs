//! Products with weights in blocks of codes ([`moebius_ops::blocks`]).

use super::decoded::{Decode, Decoded};
use super::lanes::Take;
use super::turned::{ACROSS, Form, Raw, SQUARE, table};
use super::{coded, coded_backward};
use crate::permute::Segments;
use crate::product::{Part, Run, prefetch};
use crate::values::Matrices;
use crate::vector::Transpose;
use moebius_ops::blocks::{BlockFormat, Layout};
use moebius_ops::grouped_gemm::{Problem, Stored};
use pulp::Simd;
use pulp::bytemuck::cast_slice;
use std::ops::Range;

/// The bytes of a word.
const WORD: usize = 4;

/// The words in a line of the processor's caches.
const LINE: usize = 16;

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
    const IN_LANES: bool = true;

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
    fn in_lanes<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        raw: &mut Raw,
        to: &mut impl Take,
    ) {
        let rows = Rows {
            format: self.format,
            words: std::array::from_fn(|i| self.row((across.start + i).min(across.end - 1))),
            inner: inner.clone(),
            ahead: self.share(across.start + ACROSS, inner),
        };
        rows.turn(vectors, raw, to);
    }
}

/// Rows of weights in blocks, each a column of a product.
struct Rows<'a> {
    format: BlockFormat,
    /// The words of each row.
    words: [&'a [i32]; ACROSS],
    /// The inner values to turn, which are whole blocks.
    inner: Range<usize>,
    /// Words that are likely to be read next. The processor prefetches only the continuation of rows, which are too short for that to help.
    ahead: &'a [i32],
}

impl Rows<'_> {
    /// Turns the blocks of all rows, one of each row at a time, in words whose values are arbitrary at first, and has them taken.
    #[inline(always)]
    fn turn<S: Simd, T: Transpose>(&self, vectors: (S, T), raw: &mut Raw, to: &mut impl Take) {
        macro_rules! by_format {
            ($($format:ident)*) => {
                match self.format {
                    // Sizes that the compiler knows need no checks.
                    $(BlockFormat::$format => {
                        const LAYOUT: Layout = BlockFormat::$format.layout();
                        const TABLE: [u32; 16] = table(LAYOUT.levels);
                        let form = (&LAYOUT, &TABLE);
                        self.turn_blocks::<S, T, { LAYOUT.bytes }>(vectors, form, raw, to);
                    })*
                }
            };
        }
        by_format!(Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4K Q5K Q6K Iq4Nl Mxfp4 Int4_32 Int4_64 Int4_128 Nvfp4);
    }

    #[inline(always)]
    fn turn_blocks<S: Simd, T: Transpose, const BYTES: usize>(
        &self,
        vectors: (S, T),
        form: Form<'_>,
        raw: &mut Raw,
        to: &mut impl Take,
    ) {
        let layout = form.0;
        let blocks = self.inner.start / layout.values..self.inner.end / layout.values;
        let none: &[[u8; BYTES]] = &[];
        let mut rows = [none; ACROSS];
        let heads = raw.0.iter_mut().flat_map(|square| &mut square.of_rows);
        let heads = rows.iter_mut().zip(heads);
        for ((row, head), words) in heads.zip(&self.words) {
            let (of_row, words) = words.split_at(usize::from(layout.scales.has_rows()));
            *head = of_row.first().map_or(0, |word| word.cast_unsigned());
            let bytes: &[u8] = cast_slice(words);
            *row = &bytes.as_chunks::<BYTES>().0[blocks.clone()];
        }
        let squares = (blocks.len() * (ACROSS / SQUARE)).max(1);
        let some = self.ahead.len().div_ceil(squares).next_multiple_of(LINE);
        let mut ahead = self.ahead.chunks(some.max(LINE));
        for block in 0..blocks.len() {
            for (square, rows) in raw.0.iter_mut().zip(rows.as_chunks::<SQUARE>().0) {
                prefetch(ahead.next().unwrap_or_default());
                let mut blocks = [&[0; BYTES]; SQUARE];
                for (of_row, row) in blocks.iter_mut().zip(rows) {
                    *of_row = &row[block];
                }
                square.turn(vectors.1, layout, &blocks);
            }
            to.take(vectors, form, raw, block * layout.values);
        }
    }
}
