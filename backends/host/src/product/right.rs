//! The right factor of a product. For few rows, weights whose lines run along the inner dimension are read in place, and transposed square
//! by square in registers.

use super::factor::{Factor, Items, Lines, Part, Run, Scratch, WIDEST};
use super::pairs::are_used;
use super::prefetch::prefetch;
use crate::values::{Stored, Values};
use crate::vector::Transpose;
use pulp::Simd;

/// A right factor, which can be packed, or multiplied in place.
pub(crate) trait Right: Sync {
    /// The factor [in pairs](Factor::in_pairs) if this process multiplies them; `None` for what isn't stored as numbers.
    fn pairs(&self) -> Option<Factor<'_>> {
        None
    }

    /// Where a product with one row is divided among threads, the columns of a part are a multiple of this number.
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
    fn tile(&self) -> usize;

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
            Run::Along => 2 * COLUMNS,
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

    fn tile(&self) -> usize {
        match self.run {
            Run::Along => 8,
            Run::Across => 0,
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

/// The most columns that are transposed together.
const COLUMNS: usize = 16;

/// Adds the products of N rows \[inner\]\[N\] and the columns of a part to `sums`, for a factor whose lines run along the inner dimension.
#[inline(always)]
fn multiply_along<S: Simd, T: Transpose, E: Stored, const N: usize>(
    vectors: (S, T),
    (factor, values): (&Factor, &[E]),
    part: &Part,
    left: &[[f32; N]],
    sums: &mut [[f32; WIDEST]; N],
) {
    // Two squares are processed at a time if there are registers for their sums, because memory is read faster at more places.
    match const { (S::F32_LANES, N) } {
        (16.., _) | (8, 8..) => {
            groups::<S, T, E, N, 1>(vectors, (factor, values), part, left, sums)
        }
        (8, _) | (4, 8..) => groups::<S, T, E, N, 2>(vectors, (factor, values), part, left, sums),
        (4, _) => groups::<S, T, E, N, 4>(vectors, (factor, values), part, left, sums),
        _ => groups::<S, T, E, N, 8>(vectors, (factor, values), part, left, sums),
    }
}

/// Does what [`multiply_along`] does, with V registers of columns at a time.
#[inline(always)]
fn groups<S: Simd, T: Transpose, E: Stored, const N: usize, const V: usize>(
    vectors: (S, T),
    (factor, values): (&Factor, &[E]),
    Part { inner, across }: &Part,
    left: &[[f32; N]],
    sums: &mut [[f32; WIDEST]; N],
) {
    let columns = V * S::F32_LANES;
    for first in across.clone().step_by(columns) {
        let mut runs = [&values[..0]; COLUMNS];
        for (i, run) in runs[..columns].iter_mut().enumerate() {
            let start = factor.start((first + i).min(across.end - 1)) + inner.start;
            *run = &values[start..][..inner.len()];
        }
        let at = first - across.start;
        let ahead = if inner.len() == factor.width {
            ahead(factor, values, first + columns, columns)
        } else {
            &[]
        };
        group::<S, T, E, N, V>(vectors, (&runs, ahead), left, (sums, at));
    }
}

/// Returns the lines that are likely to be read next. The processor prefetches only the continuation of the current lines, which are too
/// short for that to help.
fn ahead<'a, E>(factor: &Factor, values: &'a [E], first: usize, columns: usize) -> &'a [E] {
    if matches!(factor.lines, Lines::At(_)) {
        return &[];
    }
    let start = factor.start(first).min(values.len());
    let end = (start + columns * factor.width).min(values.len());
    &values[start..end]
}

/// Multiplies one group of columns, whose values are read once and in place, and meanwhile prefetches the values `ahead`.
#[inline(always)]
fn group<S: Simd, T: Transpose, E: Stored, const N: usize, const V: usize>(
    (simd, transpose): (S, T),
    (runs, ahead): (&[&[E]; COLUMNS], &[E]),
    left: &[[f32; N]],
    (sums, at): (&mut [[f32; WIDEST]; N], usize),
) {
    let columns = V * S::F32_LANES;
    let mut registers = [[simd.splat_f32s(0.0); V]; N];
    for (registers, sums) in registers.iter_mut().zip(&*sums) {
        registers.copy_from_slice(S::as_simd_f32s(&sums[at..][..columns]).0);
    }
    let mut turned = [[0.0; COLUMNS]; 8];
    let (steps, rest) = left.as_chunks::<8>();
    let squares = &runs.as_chunks::<8>().0[..columns / 8];
    let mut ahead = ahead.chunks(8 * columns);
    for (step, left) in steps.iter().enumerate() {
        prefetch(ahead.next().unwrap_or_default());
        for (square, runs) in squares.iter().enumerate() {
            let turned = &mut turned.as_flattened_mut()[8 * square..];
            turn(transpose, runs, 8 * step, turned);
        }
        add((simd, transpose), left, &turned, &mut registers);
    }
    if !rest.is_empty() {
        for (column, run) in runs[..columns].iter().enumerate() {
            for (turned, value) in turned.iter_mut().zip(&run[8 * steps.len()..]) {
                turned[column] = value.f32();
            }
        }
        add((simd, transpose), rest, &turned, &mut registers);
    }
    for (registers, sums) in registers.iter().zip(sums) {
        let sums = S::as_mut_simd_f32s(&mut sums[at..][..columns]).0;
        sums.copy_from_slice(registers);
    }
}

/// Transposes eight inner values, from `at` on, of eight columns.
#[inline(always)]
fn turn<T: Transpose, E: Stored>(transpose: T, runs: &[&[E]; 8], at: usize, turned: &mut [f32]) {
    let [a, b, c, d, e, f, g, h] = *runs;
    let rows = [
        &eight(a, at),
        &eight(b, at),
        &eight(c, at),
        &eight(d, at),
        &eight(e, at),
        &eight(f, at),
        &eight(g, at),
        &eight(h, at),
    ];
    transpose.square(rows, turned, COLUMNS);
}

#[inline(always)]
fn eight<E: Stored>(run: &[E], at: usize) -> [f32; 8] {
    let mut values = [0.0; 8];
    for (to, value) in values.iter_mut().zip(&run[at..][..8]) {
        *to = value.f32();
    }
    values
}

/// Makes one multiply-add for every row and column at each inner index, in order.
#[inline(always)]
fn add<S: Simd, T: Transpose, const N: usize, const V: usize>(
    (simd, transpose): (S, T),
    left: &[[f32; N]],
    turned: &[[f32; COLUMNS]; 8],
    registers: &mut [[S::f32s; V]; N],
) {
    for (left, turned) in left.iter().zip(turned) {
        let turned = &S::as_simd_f32s(turned).0[..V];
        for (registers, left) in registers.iter_mut().zip(left) {
            let left = simd.splat_f32s(*left);
            for (sum, turned) in registers.iter_mut().zip(turned) {
                *sum = transpose.multiply_add(simd, left, *turned, *sum);
            }
        }
    }
}
