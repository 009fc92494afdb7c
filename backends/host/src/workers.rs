//! The threads that share the work.

use rayon::prelude::*;

/// Runs `f` on one of the threads that share the work of an operation, where there are several.
///
/// A thread outside of them that calls an operation wakes all of them and sleeps until they are done, which takes longer than a small product.
/// From inside, only the others are woken. Worth it around many operations in a row.
pub fn on_workers<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if rayon::current_num_threads() > 1 {
        return rayon::scope(|_| f());
    }
    f()
}

/// `f` of every row of `values` and its number, on as many threads as pay off.
pub(crate) fn each_row<T: Send>(
    values: &mut [T],
    width: usize,
    f: &(impl Fn(usize, &mut [T]) + Sync),
) {
    /// Elements that take a thread longer than waking another.
    const FEWEST: usize = 1 << 15;
    let width = width.max(1);
    if values.len() < 2 * FEWEST {
        let lines = values.chunks_mut(width).enumerate();
        return lines.for_each(|(at, line)| f(at, line));
    }
    let lines = values.par_chunks_mut(width).enumerate();
    let lines = lines.with_min_len(FEWEST.div_ceil(width));
    lines.for_each(|(at, line)| f(at, line));
}
