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
//! # Ok(())
//! # }
//! ```

use crate::Error;
use crate::check::check_positive;
use moebius_ops::{Fault, Mismatch};
use std::ops::RangeInclusive;

/// Sizes that lengths are filled up to, evenly spaced, since no others fill up less where all lengths are equally frequent.
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
