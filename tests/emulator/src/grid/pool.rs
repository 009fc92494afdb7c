//! Processors that wait for work, so that their threads' stacks are kept from launch to launch.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::{num, thread};

type Task = Box<dyn FnOnce() + Send>;

struct Pool {
    processors: Vec<Mutex<Sender<Task>>>,
}

/// How many of the tasks are still to end.
#[derive(Default)]
struct Left {
    count: Mutex<usize>,
    none: Condvar,
}

impl Pool {
    fn get() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let count = thread::available_parallelism().map_or(1, num::NonZero::get);
            Pool {
                processors: (1..count).filter_map(|_| processor()).collect(),
            }
        })
    }
}

fn processor() -> Option<Mutex<Sender<Task>>> {
    let (sender, tasks) = channel::<Task>();
    let run = move || tasks.into_iter().for_each(|task| task());
    let name = "emulated processor".to_owned();
    let started = thread::Builder::new().name(name).spawn(run);
    started.is_ok().then(|| Mutex::new(sender))
}

/// Runs `work` on the caller's processor and on up to this many others at once, and returns when all are done.
pub(super) fn on_processors(others: usize, work: &(dyn Fn() + Sync)) {
    let left = Left::default();
    // SAFETY: both outlive the tasks, which are waited for below; nothing here unwinds before that.
    let (work_always, left_always) = unsafe {
        (
            std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work),
            std::mem::transmute::<&Left, &'static Left>(&left),
        )
    };
    for processor in Pool::get().processors.iter().take(others) {
        *lock(&left.count) += 1;
        let task: Task = Box::new(move || {
            work_always();
            let mut count = lock(&left_always.count);
            *count -= 1;
            if *count == 0 {
                left_always.none.notify_all();
            }
        });
        if lock(processor).send(task).is_err() {
            *lock(&left.count) -= 1;
        }
    }
    work();
    let mut count = lock(&left.count);
    while *count > 0 {
        count = left
            .none
            .wait(count)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
