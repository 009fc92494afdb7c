//! The threads that share the work of an operation.

use rayon::Yield;
use rayon::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The least number of multiply-adds of an operation for which waking other threads pays off. It is low because a product with one row is
/// bound by reading weights, so that each multiply-add takes longer.
const LEAST_WORK: usize = 1 << 18;

/// The least number of multiply-adds of a product or an attention that is shared: less than [`LEAST_WORK`] on a worker, whose fellows are still
/// looking for work when an operation follows the one before.
pub(crate) fn least_work() -> usize {
    match rayon::current_thread_index() {
        Some(_) => LEAST_WORK / 4,
        None => LEAST_WORK,
    }
}

/// The calls of [`on_workers`] that go on.
static PASSES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the thread is in such a call or looks for work already. It then doesn't look for work in between: a call would wait for the end
    /// of others, and of calls that overlap, one after the other, each would leave its search on the stack until all have ended.
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` on one of the worker threads that share the work of an operation, if there are several and the largest operation in `f` has
/// enough multiply-adds to be shared.
///
/// A thread outside of the workers that calls an operation wakes all of them and sleeps until they are done, which takes longer than a
/// small product. A call from inside wakes only the others, which stay awake until `f` is done. This pays around many operations in a row.
pub fn on_workers<R: Send>(multiply_adds: usize, f: impl FnOnce() -> R + Send) -> R {
    if multiply_adds >= LEAST_WORK && rayon::current_num_threads() > 1 {
        return rayon::scope(|_| {
            let _awake = Awake::new();
            f()
        });
    }
    f()
}

/// Runs `a` and `b` at the same time within [`on_workers`], where a worker that has done its part of one takes up parts of the other; on any
/// other thread one after the other.
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    match rayon::current_thread_index() {
        Some(_) => rayon::join(a, b),
        None => (a(), b()),
    }
}

/// Keeps the other workers awake until it is dropped.
struct Awake {
    /// What [`TAKEN`] was before.
    taken: bool,
}

impl Awake {
    fn new() -> Self {
        PASSES.fetch_add(1, Ordering::Relaxed);
        // Nobody waits for these searches: a worker that is busy throughout the pass begins its search later, and ends it at once.
        rayon::spawn_broadcast(|_| look_for_work());
        let taken = TAKEN.replace(true);
        Self { taken }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        TAKEN.set(self.taken);
        PASSES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does the work of other workers until no pass goes on, or until there was none for a while. A worker that Rayon finds no work for falls asleep after
/// some 20 µs, less than passes between two products of a small model; to wake it takes as long as a small product.
fn look_for_work() {
    const LONGEST: Duration = Duration::from_millis(1);
    if TAKEN.replace(true) {
        return;
    }
    let mut last = Instant::now();
    while PASSES.load(Ordering::Relaxed) > 0 {
        match rayon::yield_now() {
            Some(Yield::Executed) => last = Instant::now(),
            _ if last.elapsed() > LONGEST => break,
            _ => std::thread::yield_now(),
        }
    }
    TAKEN.set(false);
}

/// Calls `f` for every row of `values` with its number, on as many threads as pay off.
pub(crate) fn each_row<T: Send>(
    values: &mut [T],
    width: usize,
    f: &(impl Fn(usize, &mut [T]) + Sync),
) {
    /// The least number of elements per thread, below which waking a thread takes longer than its work.
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
