//! Few sizes for many lengths: where each shape is a program to compile, as on XLA, data that is filled up to one of them on the host needs
//! few programs.
//!
//! ```
//! use moebius::pad::Buckets;
//!
//! # fn main() -> Result<(), moebius::Error> {
//! // At most 12 programs, and over all lengths at most 15 % more tokens than were given: 7 sizes are enough.
//! let buckets = Buckets::new(1..=448, 0.15, 12)?;
//! assert_eq!(buckets.sizes(), [64, 128, 192, 256, 320, 384, 448]);
//! assert_eq!(buckets.size(200)?, 256);
//! // What can be computed in parts wastes less with fewer sizes.
//! assert_eq!(Buckets::doubling(8, 256)?.parts(200), [128, 64, 8]);
//! # Ok(())
//! # }
//! ```

use crate::Error;
use crate::check::check_positive;
use burn::tensor::Device;
use moebius_ops::{Fault, Mismatch};
use std::ops::RangeInclusive;

/// The part of a length that the last of its [`Buckets::parts`] may be filled up by: one in so many.
const FILLED: usize = 8;

/// Whether each shape of a computation is a program to compile on a device, as it is on XLA.
pub fn is_needed(device: &Device) -> bool {
    crate::device::is_xla(device)
}

/// The rows of the last `last` of the first `counts[b]` rows of each sequence b, where each has `tokens` rows and the rest of them fill up: `last`
/// numbers for each sequence, one sequence after the other. A sequence with fewer rows has its first one in place of those that are missing.
pub fn last_rows(counts: &[usize], tokens: usize, last: usize) -> Vec<i32> {
    let rows = counts.iter().enumerate().flat_map(|(sequence, &count)| {
        let first = sequence * tokens;
        (0..last).map(move |at| first + (count + at).saturating_sub(last))
    });
    rows.map(|row| row as i32).collect()
}

/// Sizes that lengths are filled up to: evenly spaced, since no others fill up less where all lengths are equally frequent, or doubling, for
/// what can be computed in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// The smallest length.
    first: usize,
    /// The sizes, in ascending order; the last is the largest length.
    sizes: Vec<usize>,
}

impl Buckets {
    /// The fewest sizes for `lengths`, and at most `most`, for which Σ (size − length) ≤ `waste` · Σ length, sums over each of the lengths
    /// once. A single short length may be filled up by more.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for no lengths or a length of 0, for no sizes, and for a `waste` that takes more than
    /// `most` sizes; the error says what `most` sizes waste.
    pub fn new(lengths: RangeInclusive<usize>, waste: f64, most: usize) -> Result<Self, Error> {
        let (first, last) = (*lengths.start(), *lengths.end());
        let some = (1..=last).contains(&first);
        let got = format_args!("{first} to {last}");
        Fault::Config.unless(some, "lengths", "at least one, all 1 or more", got)?;
        check_positive("sizes", most)?;
        let count = last - first + 1;
        let most = most.min(count);
        let given = (first as f64 + last as f64) * count as f64 / 2.0;
        let wasted = |sizes| filled_up(count, sizes) / given;
        let Some(sizes) = (1..=most).find(|&sizes| wasted(sizes) <= waste) else {
            let expected = format!("at least {:.4} with {most} sizes", wasted(most));
            return Err(Fault::Config.error("waste", expected, waste).into());
        };
        let (step, more) = (count / sizes, count % sizes);
        let size = |at: usize| first - 1 + at * step + (at * more).div_ceil(sizes);
        Ok(Self {
            first,
            sizes: (1..=sizes).map(size).collect(),
        })
    }

    /// `first`, its double and so on up to `most`, which is the last size, for lengths of 1 to `most` and the [`parts`](Self::parts) of any length.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a `first` or a `most` of 0.
    pub fn doubling(first: usize, most: usize) -> Result<Self, Error> {
        check_positive("first size", first)?;
        check_positive("largest size", most)?;
        let doubled = std::iter::successors(Some(first), |size| size.checked_mul(2));
        let smaller = doubled.take_while(|&size| size < most);
        Ok(Self {
            first: 1,
            sizes: smaller.chain([most]).collect(),
        })
    }

    /// Sizes for parts of `length` from its start on; none for a length of 0. All but the last are full. The last is filled up by at most an
    /// eighth of `length`, unless it is the smallest size.
    pub fn parts(&self, length: usize) -> Vec<usize> {
        let (mut rest, mut parts) = (length, Vec::new());
        while rest > 0 {
            let at = self.sizes.partition_point(|&size| size < rest);
            let holds = self.sizes.get(at);
            let holds = holds.filter(|&&size| at == 0 || size - rest <= length / FILLED);
            let size = *holds.unwrap_or_else(|| &self.sizes[at - 1]);
            parts.push(size);
            rest = rest.saturating_sub(size);
        }
        parts
    }

    /// The sizes, in ascending order.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The size that `length` is filled up to.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a length that isn't among those that the sizes are for.
    pub fn size(&self, length: usize) -> Result<usize, Error> {
        let at = self.sizes.partition_point(|&size| size < length);
        let size = self.sizes.get(at).filter(|_| length >= self.first);
        let last = self.sizes.last().unwrap_or(&self.first);
        let expected = || format!("{} to {last}", self.first);
        let size = size.ok_or_else(|| Mismatch::new("length", expected(), length));
        Ok(*size?)
    }
}

/// Σ (size − length) of `count` lengths, one after the other, with `sizes` evenly spaced sizes.
fn filled_up(count: usize, sizes: usize) -> f64 {
    let (step, longer) = ((count / sizes) as f64, (count % sizes) as f64);
    let shorter = sizes as f64 - longer;
    (longer * (step + 1.0) * step + shorter * step * (step - 1.0)) / 2.0
}
