//! Work on the bytes of files that several threads share.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The most threads that share work: reading is bound by memory, and each thread takes its time to begin.
const MOST: usize = 16;

/// The number of threads that share work; 1 where a program has no others, as in a browser.
pub(crate) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let processors = thread::available_parallelism();
        processors.map_or(1, NonZero::get).min(MOST)
    })
}

/// Does `work` for all `tasks` on the processors of the host; whichever thread is done with one takes the next. A single task stays on the
/// calling thread.
///
/// # Errors
/// An error of `work`. Other threads then still do the tasks that are left.
pub fn on_threads<T: Send, E: Send>(
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = threads().min(tasks.len());
    if threads <= 1 {
        return tasks.into_iter().try_for_each(work);
    }
    let queue = Mutex::new(tasks.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let turn = || -> Result<(), E> {
        while let Some(task) = next() {
            work(task)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // Where the system has no room for another thread, fewer do the same.
        let begun = (1..threads).map_while(|_| {
            let begun = thread::Builder::new().spawn_scoped(scope, turn);
            begun.ok()
        });
        let others: Vec<_> = begun.collect();
        let own = turn();
        others.into_iter().fold(own, |done, other| {
            done.and(other.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::on_threads;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_is_done_once() {
        let mut done = vec![0_u8; 100];
        let tasks = done.iter_mut().collect();
        let counted: Result<(), ()> = on_threads(tasks, |task: &mut u8| {
            *task += 1;
            Ok(())
        });
        assert_eq!(counted, Ok(()));
        assert_eq!(done, [1; 100]);
    }

    #[test]
    fn an_error_is_returned() {
        let begun = AtomicUsize::new(0);
        let failed = on_threads((0..100).collect(), |task| {
            begun.fetch_add(1, Ordering::Relaxed);
            if task == 17 { Err(task) } else { Ok(()) }
        });
        assert_eq!(failed, Err(17));
        assert!(begun.into_inner() > 17);
    }
}
