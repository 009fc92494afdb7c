//! Products with weights in blocks of codes ([`moebius_ops::blocks`]) whose rows are interleaved.
//!
//! Products have the bits of those with the decoded weights. Where a scale is infinite, weights may be NaN that would be infinite.

use super::columns::{ACROSS, Blocks, Plane, WORD};
use super::decoded::{Decode, Decoded, Room};
use super::lanes::Take;
use super::{coded, coded_backward};
use crate::permute::Segments;
use crate::product::{Part, Run};
use crate::values::Matrices;
use crate::vector::Transpose;
use moebius_ops::blocks::interleaved::Panel;
use moebius_ops::blocks::{BlockFormat, Layout};
use moebius_ops::grouped_gemm::{Problem, Stored};
use pulp::Simd;
use pulp::bytemuck::cast_slice;
use std::ops::Range;

/// Weights that are decoded at once; a multiple of the values of every block.
const DEPTH: usize = 256;

/// Room for the bytes of the blocks with [`DEPTH`] weights of a row, of which the first and the last may have others, too.
const ROOM: usize = 512;

/// Words, 4 KiB, by which prefetches are ahead.
const AHEAD: usize = 1024;

/// Computes \[R,n\] from x \[T,k\] or \[R,k\], interleaved words of blocks \[E, n or 2n, words of a row\] and a bias \[E, n or 2n\], for rows sorted
/// as `segments` says, or without a sort for all rows of a single expert.
pub fn linear(
    problem: &Problem,
    segments: Option<&Segments>,
    x: Matrices<'_>,
    words: &[i32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let right = |e| Interleaved::of(problem, words, e, Run::Along);
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
    let right = |e| Interleaved::of(problem, words, e, Run::Across);
    coded_backward(problem, segments, needs, dy, right)
}

/// The weights of one expert.
#[derive(Clone, Copy)]
struct Interleaved<'a> {
    format: BlockFormat,
    /// The expert's words.
    words: &'a [i32],
    /// The number of words of a row.
    width: usize,
}

impl<'a> Interleaved<'a> {
    /// The weights of expert `e` of a product with these interleaved rows; their lines run as `run` says.
    fn of(problem: &Problem, words: &'a [i32], e: usize, run: Run) -> Decoded<'a> {
        let Stored::Blocks(format) = problem.stored else {
            unreachable!("a call with blocks has a problem with blocks");
        };
        let width = format.row_words(problem.k);
        let size = problem.n * problem.parts() * width;
        let words = &words[e * size..][..size];
        Decoded::new(
            Self {
                format,
                words,
                width,
            },
            run,
        )
    }

    /// The words of the panel with row `row`, and the number of its rows.
    #[inline(always)]
    fn panel(&self, row: usize) -> (&'a [i32], usize) {
        let words = &self.words[row / ACROSS * ACROSS * self.width..];
        let words = &words[..words.len().min(ACROSS * self.width)];
        (words, words.len() / self.width)
    }

    /// How the rows of a panel of `count` rows lie.
    #[inline(always)]
    fn rows(&self, count: usize) -> Panel {
        Panel::new(self.format, self.width, count)
    }

    /// The byte planes of a panel with all rows, or those in `places` of another one in `room`, where lanes that lack are 0.
    fn planes<'b>(
        &self,
        row: usize,
        places: [Range<usize>; 2],
        room: &'b mut Room,
    ) -> [&'b [Plane]; 2]
    where
        'a: 'b,
    {
        let (words, count) = self.panel(row);
        let bytes: &[u8] = cast_slice(words);
        if count == ACROSS {
            let planes = bytes.as_chunks().0;
            return places.map(|places| &planes[places]);
        }
        let Room(room) = room;
        room.clear();
        let (heads, panel) = (places[0].len(), self.rows(count));
        for unit in places.into_iter().flat_map(|places| panel.units(places)) {
            let (of_rows, begin) = (&bytes[count * unit.at..][..count * unit.size], room.len());
            room.resize(begin + unit.size, [0; ACROSS]);
            room[begin..].as_flattened_mut()[..of_rows.len()].copy_from_slice(of_rows);
        }
        room.split_at(heads).into()
    }

    /// Has the blocks of a part taken, one of each column at a time.
    #[inline(always)]
    fn take_blocks<S: Simd, T: Transpose, const BYTES: usize>(
        &self,
        vectors: (S, T),
        layout: &Layout,
        (Part { inner, across }, room): (&Part, &mut Room),
        to: &mut impl Take,
    ) {
        debug_assert!(
            across.start.is_multiple_of(ACROSS),
            "parts begin with a panel"
        );
        let values = layout.values;
        let heads = WORD * self.format.head();
        let [first, past] = [inner.start, inner.end].map(|value| heads + value / values * BYTES);
        let [heads, bytes] = self.planes(across.start, [0..heads, first..past], room);
        // The processor's own prefetches end with a page of 4 KiB.
        let ahead =
            (across.start * self.width + ACROSS / WORD * first + AHEAD).min(self.words.len());
        let mut ahead = self.words[ahead..].chunks(ACROSS / WORD * BYTES);
        for (block, bytes) in bytes.as_chunks::<BYTES>().0.iter().enumerate() {
            let ahead = ahead.next().unwrap_or_default();
            let blocks = Blocks {
                heads,
                bytes,
                ahead,
            };
            to.take(vectors, layout, blocks, block * values);
        }
    }
}

impl Decode for Interleaved<'_> {
    const IN_LANES: bool = true;

    #[inline(always)]
    fn decode(&self, row: usize, column: usize, to: &mut [f32]) {
        let Layout { values, bytes, .. } = self.format.layout();
        let (words, count) = self.panel(row);
        let (words, panel) = (cast_slice(words), self.rows(count));
        let heads = WORD * self.format.head();
        let mut head = [0; WORD];
        panel.read(words, row % ACROSS, 0..heads, &mut head);
        let head = u32::from_le_bytes(head);
        let mut column = column;
        for to in to.chunks_mut(DEPTH) {
            let first = heads + column / values * bytes;
            let past = heads + (column + to.len()).div_ceil(values) * bytes;
            let mut blocks = [0_u8; ROOM];
            panel.read(words, row % ACROSS, first..past, &mut blocks);
            self.format.decode(head, &blocks, column % values, to);
            column += to.len();
        }
    }

    #[inline(always)]
    fn in_lanes<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        part: &Part,
        room: &mut Room,
        to: &mut impl Take,
    ) {
        macro_rules! by_format {
            ($($format:ident)*) => {
                match self.format {
                    // Sizes that the compiler knows need no checks.
                    $(BlockFormat::$format => {
                        const LAYOUT: Layout = BlockFormat::$format.layout();
                        self.take_blocks::<S, T, { LAYOUT.bytes }>(vectors, &LAYOUT, (part, room), to);
                    })*
                }
            };
        }
        by_format!(Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4K Q5K Q6K Iq4Nl Mxfp4 Int4_32 Int4_64 Int4_128 Nvfp4 F16 Bf16);
    }
}
