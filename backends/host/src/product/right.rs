//! The right factor of a product. For few rows, weights whose lines run along the inner dimension are read in place: the words of a few columns
//! are transposed in registers, and multiplied while they are in a cache.

use super::factor::{Factor, Items, Lines, Part, Run, Scratch, WIDEST};
use super::pairs::are_used;
use super::prefetch::prefetch;
use crate::values::{InWords, Values};
use crate::vector::Transpose;
use pulp::Simd;

/// A right factor, which can be packed, or multiplied in place.
pub(crate) trait Right: Sync {
    /// The factor [in pairs](Factor::in_pairs) if this process multiplies them; `None` for what isn't stored as numbers.
    fn pairs(&self) -> Option<Factor<'_>> {
        None
    }

    /// Where a product with few rows is divided among threads, the columns of a part are a multiple of this number.
    fn unit(&self) -> usize {
        WIDEST
    }

    /// The number of columns that are packed together, for panels of `width` columns: those that whole cache lines hold.
    fn together(&self, width: usize) -> usize;

    /// Packs a part into panels of a given number of columns, one after the other, each ordered by inner index; columns past the part hold
    /// arbitrary values.
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        part: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    );

    /// The most rows that [`Right::multiply`] takes at once in a product with few rows: 8, 4, or 0 if the factor has to be packed.
    fn tile<S: Simd>(&self) -> usize;

    /// Adds the products of N rows \[inner\]\[N\] and the columns of a part, at most [`WIDEST`], to `sums`.
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        part: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    );
}

impl Right for Factor<'_> {
    fn pairs(&self) -> Option<Factor<'_>> {
        self.in_pairs().filter(|_| are_used())
    }

    fn unit(&self) -> usize {
        match self.run {
            Run::Along => COLUMNS,
            Run::Across => WIDEST,
        }
    }

    fn together(&self, width: usize) -> usize {
        match self.run {
            Run::Along => width,
            Run::Across => WIDEST,
        }
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        (_, transpose): (S, T),
        part: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        Factor::pack(self, transpose, part, panels, scratch);
    }

    fn tile<S: Simd>(&self) -> usize {
        match self.run {
            // The bytes of values are taken for those of little-endian words.
            Run::Along if cfg!(target_endian = "little") => 8,
            Run::Along | Run::Across => 0,
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        part: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        match self.items {
            Items::Pairs(pairs) => multiply_along(vectors, (self, pairs), part, left, sums),
            Items::Numbers(Values::F32(values)) => {
                multiply_along(vectors, (self, values), part, left, sums)
            }
            Items::Numbers(Values::F16(values)) => {
                multiply_along(vectors, (self, values), part, left, sums)
            }
            Items::Numbers(Values::Bf16(values)) => {
                multiply_along(vectors, (self, values), part, left, sums)
            }
        }
    }
}

/// Columns that are transposed together, in squares of [`SQUARE`].
const COLUMNS: usize = 32;
const SQUARE: usize = 16;
/// The bytes of a column that are transposed before those of the next ones: a line of the processor's caches, because columns may be so far apart
/// that a cache can't hold a line of each.
const LINE: usize = 64;
/// The words that these are.
const WORDS: usize = LINE / 4;
/// The bytes, and words, of each column that are transposed at once.
const BYTES: usize = 16;
const FOUR: usize = BYTES / 4;

/// Words of neighbouring columns, side by side. Vectors as wide as a line of the caches begin with one.
#[repr(align(64))]
struct Turned([[u32; COLUMNS]; WORDS]);

/// Adds the products of N rows \[inner\]\[N\] and the columns of a part to `sums`, for a factor whose lines run along the inner dimension.
#[inline(always)]
fn multiply_along<S: Simd, T: Transpose, E: InWords, const N: usize>(
    vectors: (S, T),
    (factor, values): (&Factor, &[E]),
    Part { inner, across }: &Part,
    left: &[[f32; N]],
    sums: &mut [[f32; WIDEST]; N],
) {
    let mut turned = Turned([[0; COLUMNS]; WORDS]);
    let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    for first in across.clone().step_by(COLUMNS) {
        for (i, column) in columns.iter_mut().enumerate() {
            let start = factor.start((first + i).min(across.end - 1)) + inner.start;
            *column = E::bytes(&values[start..][..inner.len()]);
        }
        let ahead = if inner.len() == factor.width {
            ahead(factor, values, first + COLUMNS)
        } else {
            &[]
        };
        let count = (across.end - first).min(COLUMNS);
        let runs = Runs {
            columns: &columns[..count.next_multiple_of(SQUARE)],
            at: 0,
            ahead: ahead.chunks(SQUARE * BYTES / size_of::<E>()),
        };
        let sums = (&mut *sums, first - across.start);
        group::<S, T, E, N>(vectors, runs, &mut turned, left, sums);
    }
}

/// Returns the lines that are likely to be read next. The processor prefetches only the continuation of the current lines, which are too
/// short for that to help.
fn ahead<'a, E>(factor: &Factor, values: &'a [E], first: usize) -> &'a [E] {
    if matches!(factor.lines, Lines::At(_)) {
        return &[];
    }
    let start = factor.start(first).min(values.len());
    let end = (start + COLUMNS * factor.width).min(values.len());
    &values[start..end]
}

/// Multiplies one group of columns, whose values are read once and in place, and meanwhile prefetches those that are likely to be read next.
#[inline(always)]
fn group<S: Simd, T: Transpose, E: InWords, const N: usize>(
    vectors: (S, T),
    mut runs: Runs<'_, E>,
    turned: &mut Turned,
    left: &[[f32; N]],
    sums: (&mut [[f32; WIDEST]; N], usize),
) {
    let runs = &mut runs;
    // Several registers of columns at a time hide how long a sum waits for the one before, if there are registers for them.
    match const { (S::F32_LANES, N) } {
        (16.., _) => at_once::<S, T, E, N, 2>(vectors, runs, turned, left, sums),
        (8, 1) => at_once::<S, T, E, N, 4>(vectors, runs, turned, left, sums),
        (4, 1) => at_once::<S, T, E, N, 8>(vectors, runs, turned, left, sums),
        (8, ..=4) => by_pieces::<S, T, E, N, 2>(vectors, runs, turned, left, sums),
        (8, _) => by_pieces::<S, T, E, N, 1>(vectors, runs, turned, left, sums),
        (4, ..=4) => by_pieces::<S, T, E, N, 4>(vectors, runs, turned, left, sums),
        (4, _) => by_pieces::<S, T, E, N, 2>(vectors, runs, turned, left, sums),
        _ => by_pieces::<S, T, E, N, 8>(vectors, runs, turned, left, sums),
    }
}

/// Multiplies words as soon as they are transposed: V registers hold the sums of all columns of a row.
#[inline(always)]
fn at_once<S: Simd, T: Transpose, E: InWords, const N: usize, const V: usize>(
    vectors: (S, T),
    runs: &mut Runs<'_, E>,
    turned: &mut Turned,
    left: &[[f32; N]],
    (sums, at): (&mut [[f32; WIDEST]; N], usize),
) {
    let mut registers = [[vectors.0.splat_f32s(0.0); V]; N];
    for (registers, sums) in registers.iter_mut().zip(&*sums) {
        registers.copy_from_slice(S::as_simd_f32s(&sums[at..][..COLUMNS]).0);
    }
    for left in left.chunks(WORDS * E::IN_WORD) {
        runs.turn(vectors.1, turned);
        add::<S, T, E, N, V>(vectors, left, (&turned.0, 0), &mut registers);
    }
    for (registers, sums) in registers.iter().zip(sums) {
        let sums = S::as_mut_simd_f32s(&mut sums[at..][..COLUMNS]).0;
        sums.copy_from_slice(registers);
    }
}

/// Transposes some words of all columns, and multiplies these by V registers of columns at a time.
#[inline(always)]
fn by_pieces<S: Simd, T: Transpose, E: InWords, const N: usize, const V: usize>(
    vectors: (S, T),
    runs: &mut Runs<'_, E>,
    turned: &mut Turned,
    left: &[[f32; N]],
    (sums, at): (&mut [[f32; WIDEST]; N], usize),
) {
    let columns = V * S::F32_LANES;
    for left in left.chunks(WORDS * E::IN_WORD) {
        runs.turn(vectors.1, turned);
        for first in (0..COLUMNS).step_by(columns) {
            let mut registers = [[vectors.0.splat_f32s(0.0); V]; N];
            for (registers, sums) in registers.iter_mut().zip(&*sums) {
                let sums = &sums[at + first..][..columns];
                registers.copy_from_slice(S::as_simd_f32s(sums).0);
            }
            add::<S, T, E, N, V>(vectors, left, (&turned.0, first), &mut registers);
            for (registers, sums) in registers.iter().zip(&mut *sums) {
                let sums = &mut sums[at + first..][..columns];
                S::as_mut_simd_f32s(sums).0.copy_from_slice(registers);
            }
        }
    }
}

/// The runs of a group's columns in memory, and what is read after them.
struct Runs<'a, E> {
    /// The bytes of each column; the last stands for those that lack.
    columns: &'a [&'a [u8]],
    /// The first byte that isn't transposed.
    at: usize,
    /// The values to prefetch, as many at a time as are transposed of sixteen columns.
    ahead: std::slice::Chunks<'a, E>,
}

impl<E: InWords> Runs<'_, E> {
    /// Transposes the next words of all columns, and prefetches as many values. Words after the last are 0.
    #[inline(always)]
    fn turn<T: Transpose>(&mut self, transpose: T, to: &mut Turned) {
        for (square, columns) in self.columns.as_chunks::<SQUARE>().0.iter().enumerate() {
            let mut ends;
            let rows = match lines(columns, self.at) {
                Some(rows) => rows,
                None => {
                    ends = [[0; LINE]; SQUARE];
                    for (end, column) in ends.iter_mut().zip(columns) {
                        end[..column.len() - self.at].copy_from_slice(&column[self.at..]);
                    }
                    ends.each_ref()
                }
            };
            for (four, to) in to.0.as_chunks_mut::<FOUR>().0.iter_mut().enumerate() {
                prefetch(self.ahead.next().unwrap_or_default());
                let mut bytes = [&[0; BYTES]; SQUARE];
                for (bytes, row) in bytes.iter_mut().zip(rows) {
                    *bytes = &row.as_chunks().0[four];
                }
                transpose.words(bytes, to, SQUARE * square);
            }
        }
        self.at += LINE;
    }
}

/// The bytes of sixteen columns from byte `at` on; `None` if there are fewer.
#[inline(always)]
fn lines<'a>(columns: &[&'a [u8]; SQUARE], at: usize) -> Option<[&'a [u8; LINE]; SQUARE]> {
    let mut lines = [&[0; LINE]; SQUARE];
    for (line, column) in lines.iter_mut().zip(columns) {
        *line = column.get(at..)?.first_chunk()?;
    }
    Some(lines)
}

/// Makes one multiply-add for every row and column at each inner value of some words, in order, with the registers of columns from `first` on.
#[inline(always)]
fn add<S: Simd, T: Transpose, E: InWords, const N: usize, const V: usize>(
    vectors: (S, T),
    left: &[[f32; N]],
    (turned, first): (&[[u32; COLUMNS]], usize),
    registers: &mut [[S::f32s; V]; N],
) {
    for (left, words) in left.chunks(E::IN_WORD).zip(turned) {
        let words = &S::as_simd_u32s(&words[first..]).0[..V];
        // Both numbers of a word of two, as the compiler then knows, or the last of an odd number of them.
        if left.len() == E::IN_WORD {
            add_word::<S, T, E, N, V>(vectors, words, &left[..E::IN_WORD], registers);
        } else {
            add_word::<S, T, E, N, V>(vectors, words, &left[..1], registers);
        }
    }
}

/// Makes one multiply-add for every row and column at each inner value of a word, in order.
#[inline(always)]
fn add_word<S: Simd, T: Transpose, E: InWords, const N: usize, const V: usize>(
    (simd, transpose): (S, T),
    words: &[S::u32s],
    left: &[[f32; N]],
    registers: &mut [[S::f32s; V]; N],
) {
    for (number, left) in left.iter().enumerate() {
        let mut values = [simd.splat_f32s(0.0); V];
        for (value, words) in values.iter_mut().zip(words) {
            *value = E::of_words((simd, transpose), *words, number);
        }
        for (registers, left) in registers.iter_mut().zip(left) {
            let left = simd.splat_f32s(*left);
            for (sum, value) in registers.iter_mut().zip(&values) {
                *sum = transpose.multiply_add(simd, left, *value, *sum);
            }
        }
    }
}
