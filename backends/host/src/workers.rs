//! The threads that share the work.

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
