//! Work on the bytes of files that several threads share.

use std::cell::Cell;
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

thread_local! {
    /// The number of threads that share the work of a call from this one, where it does a task of another call.
    static SHARE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Keeps what [`SHARE`] was, until it is dropped.
struct Before(Option<usize>);

impl Drop for Before {
    fn drop(&mut self) {
        SHARE.set(self.0);
    }
}

/// Does `work` for all `tasks` on the processors of the host; whichever thread is done with one takes the next. A single task stays on the
/// calling thread. Calls from within `work` share the processors that each of the threads has for itself.
///
/// # Errors
/// An error of `work`. Other threads then still do the tasks that are left.
pub fn on_threads<T: Send, E: Send>(
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let most = SHARE.get().unwrap_or_else(threads);
    let threads = most.min(tasks.len());
    if threads <= 1 {
        return tasks.into_iter().try_for_each(work);
    }
    let queue = Mutex::new(tasks.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let turn = || -> Result<(), E> {
        let _before = Before(SHARE.replace(Some(most / threads)));
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
    use super::{MOST, SHARE, on_threads, threads};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

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
        assert_eq!(SHARE.get(), None, "later calls have all processors");
    }

    #[test]
    fn a_call_within_a_task_has_the_processors_of_its_thread() {
        let half = (threads() > 1).then_some(threads() / 2);
        let share = |_: usize| match SHARE.get() {
            share if share == half => Ok(()),
            share => Err(share),
        };
        assert_eq!(on_threads(vec![0, 1], share), Ok(()));
        let inner = |_: usize| {
            let own = thread::current().id();
            on_threads(vec![0, 1, 2], |_: usize| {
                // Time for others to take the next task, if there were any.
                thread::sleep(Duration::from_millis(1));
                let here = thread::current().id();
                if here == own { Ok(()) } else { Err(here) }
            })
        };
        assert_eq!(on_threads((0..MOST).collect(), inner), Ok(()));
    }
}
