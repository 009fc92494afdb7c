//! The run of a launch: the blocks of a grid are distributed over the host's processors.

pub(crate) mod block;
pub(crate) mod check;
mod shadow;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod traps;
pub(crate) mod written;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{num, thread};

use block::{Fault, Threads, Work};
use state::{Block, Calls, Dim3, KernelEntry};

use crate::settings;

static CALLS: Calls = Calls {
    barrier: block::barrier,
    together: block::together,
    access: check::access,
};

/// The largest number of lanes in a warp of any card.
pub(crate) const MOST_LANES: usize = 64;

/// The number of lanes in a warp of this process' card.
pub(crate) fn lanes() -> usize {
    settings::get().card.lanes as usize
}

/// The shape of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: u32,
}

/// A kernel with its arguments, shared by the processors: all threads read the pointers, and none writes them.
#[derive(Clone, Copy)]
struct Shared(Work);

// SAFETY: see above; the launch waits for its threads before the arguments go.
unsafe impl Sync for Shared {}

/// Runs every block, in this order on each processor.
///
/// # Safety
///
/// The entry is that of a loaded kernel, and the arguments are what its parameters say.
pub(crate) unsafe fn run(
    entry: *const KernelEntry,
    arguments: &[*mut c_void],
    shape: &Shape,
    order: Order,
    check: *mut check::Check,
) -> Result<(), Fault> {
    traps::install();
    let blocks = shape.grid.count();
    let shared = Shared(Work {
        entry,
        arguments: arguments.as_ptr(),
    });
    let check = Checked(check);
    let run = Run {
        shape,
        order,
        turn: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        blocks,
    };
    let helpers = helpers(shape, check.0);
    let first: Mutex<Option<Fault>> = Mutex::new(None);
    let work = || {
        let (shared, check) = (&shared, &check);
        if let Err(fault) = run.blocks_of(shared.0, check.0) {
            run.stop.store(true, Ordering::Relaxed);
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(fault);
        }
    };
    on_processors(helpers, &work);
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
    first.map_or(Ok(()), Err)
}

struct Checked(*mut check::Check);

// SAFETY: the checks are behind a lock of their own.
unsafe impl Sync for Checked {}

/// How many processors to use beside the caller's. Small grids end before another processor has started; checked launches use
/// one processor, so that reports repeat.
fn helpers(shape: &Shape, check: *mut check::Check) -> usize {
    const SMALL: u64 = 2048;
    if !check.is_null() || shape.grid.count() * shape.block.count() <= SMALL {
        return 0;
    }
    usize::try_from(shape.grid.count() - 1).unwrap_or(usize::MAX)
}

/// A piece of shared memory, with shared memory's alignment.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line(#[allow(dead_code, reason = "read by the kernel")] [u64; 16]);

struct Run<'a> {
    shape: &'a Shape,
    order: Order,
    turn: AtomicU64,
    stop: AtomicBool,
    blocks: u64,
}

thread_local! {
    static THREADS: std::cell::RefCell<Threads> = std::cell::RefCell::default();
}

impl Run<'_> {
    fn blocks_of(&self, work: Work, check: *mut check::Check) -> Result<(), Fault> {
        // At least one line, so that there is an address even without shared memory.
        let bytes = self.shape.shared_bytes as usize;
        let mut shared: Vec<Line> = vec![Line([u64::MAX; 16]); bytes / size_of::<Line>() + 1];
        let mut block = Block {
            block: Dim3::default(),
            block_size: self.shape.block,
            grid_size: self.shape.grid,
            shared_bytes: self.shape.shared_bytes,
            shared: shared.as_mut_ptr().cast(),
            calls: &CALLS,
            check,
            number: 0,
        };
        let block: *mut Block = &mut block;
        // The plain loop runs the threads of a block in forward order only.
        let loops = self.order == Order::Forward;
        // SAFETY: the entry is a kernel's, as the caller of `run` promises.
        let waits = unsafe { (*work.entry).waits } != 0 || !loops;
        THREADS.with_borrow_mut(|threads| {
            if !waits {
                return threads.run_freely(work, block, &mut || self.next(block, &mut shared));
            }
            while self.next(block, &mut shared) {
                threads.run_waiting(work, block, &self.order)?;
            }
            Ok(())
        })
    }

    /// Prepares the next block: its position, and shared memory full of NaN.
    fn next(&self, block: *mut Block, shared: &mut [Line]) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if turn >= self.blocks || self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let number = self.order.block(turn, self.blocks);
        if self.shape.shared_bytes > 0 {
            shared.fill(Line([u64::MAX; 16]));
        }
        // SAFETY: the block is this processor's own, and none of its threads runs now.
        unsafe {
            (*block).block = self.shape.grid.place(number);
            (*block).number = number;
            // Null, or the check of this launch, which runs on a single processor.
            if let Some(check) = (*block).check.as_mut() {
                check.begin_block();
            }
        }
        true
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Worker processors, which wait for work so that their threads' stacks are reused from launch to launch.
struct Pool {
    processors: Vec<Mutex<Sender<Task>>>,
}

/// Counts the tasks that have not ended.
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

/// Runs `work` on the caller's processor and on up to `others` more at once, and returns when all are done.
fn on_processors(others: usize, work: &(dyn Fn() + Sync)) {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order in which blocks, warps and lanes run between two barriers: a GPU promises none, and a correct kernel gives the
/// same bits in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Blocks, warps and lanes from first to last.
    Forward,
    /// Blocks, warps and lanes from last to first.
    Backward,
    /// A random order from this seed, different in each phase.
    Random(u64),
    /// Odd blocks and warps before even ones, lanes forward.
    Warps,
    /// The last lane of each warp ahead of the others, which run forward.
    Ahead,
}

impl Order {
    /// Parses an order's name, as in `MOEBIUS_EMULATOR_ORDERS`.
    pub(crate) fn parse(name: &str) -> Option<Order> {
        match name.trim() {
            "forward" => Some(Order::Forward),
            "backward" => Some(Order::Backward),
            "warps" => Some(Order::Warps),
            "ahead" => Some(Order::Ahead),
            other => {
                let seed = other.strip_prefix("random:")?;
                seed.parse().ok().map(Order::Random)
            }
        }
    }

    /// The number of the block that runs in this turn.
    pub(crate) fn block(&self, turn: u64, count: u64) -> u64 {
        match self {
            Order::Forward | Order::Ahead => turn,
            Order::Backward => count - 1 - turn,
            Order::Warps => odd_first(turn, count),
            Order::Random(seed) => shuffled(turn, count, *seed),
        }
    }

    /// The number of the warp that runs in this turn.
    pub(crate) fn warp(&self, turn: usize, count: usize, phase: u64) -> usize {
        match self {
            Order::Random(seed) => narrow(shuffled(turn as u64, count as u64, seed ^ phase << 1)),
            Order::Ahead => turn,
            other => narrow(other.block(turn as u64, count as u64)),
        }
    }

    /// The number of the lane that runs in this turn.
    pub(crate) fn lane(&self, turn: usize, count: usize, phase: u64) -> usize {
        match self {
            Order::Forward | Order::Warps => turn,
            Order::Backward => count - 1 - turn,
            Order::Ahead => (turn + count - 1) % count,
            Order::Random(seed) => narrow(shuffled(turn as u64, count as u64, seed ^ phase << 9)),
        }
    }
}

fn narrow(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn odd_first(turn: u64, count: u64) -> u64 {
    let odd = count / 2;
    if turn < odd {
        2 * turn + 1
    } else {
        2 * (turn - odd)
    }
}

/// Permutes without a table: takes steps of a length coprime to the count.
fn shuffled(turn: u64, count: u64, seed: u64) -> u64 {
    let mixed = seed
        .wrapping_add(0x9E37_79B9_7F4A_7C15)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB);
    let mixed = mixed ^ mixed >> 32;
    let mut step = mixed % count + 1;
    while divisor(step, count) != 1 {
        step += 1;
    }
    let place = u128::from(turn) * u128::from(step) + u128::from(mixed >> 20);
    (place % u128::from(count)) as u64
}

fn divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}
