//! The run of a block: its threads run as coroutines from barrier to barrier, and the lanes of a warp from meeting to meeting.

use std::ffi::c_void;
use std::io;

use corosensei::{Coroutine, CoroutineResult};

use super::Order;
use super::check::Check;
use super::state::{
    Act, Block, Dim3, End, Go, KernelEntry, Meeting, STACK_BYTES, Thread, ThreadStack, Trap, Wait,
};
use super::traps;
use super::{MOST_LANES, lanes};

/// The reason why a block couldn't be run to its end.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A thread accessed unmapped memory, or divided by zero.
    Trap {
        trap: Trap,
        block: Dim3,
        thread: Dim3,
    },
    /// Some threads wait for others that will never come.
    Stuck {
        block: Dim3,
        thread: Dim3,
        line: u32,
        other: Option<(Dim3, u32)>,
    },
    /// A check found a forbidden access.
    Refused,
    /// There is no memory for the threads' stacks, or too little in one of them.
    Stacks(String),
}

type Fibre = Coroutine<Go, Wait, End, ThreadStack>;

/// The state of a thread in its block.
enum At {
    Ready,
    Barrier { line: u32 },
    Meeting(Meeting),
    Ended,
}

struct Slot {
    fibre: Fibre,
    state: *const Thread,
    at: At,
}

/// The stacks on which a processor runs blocks, reused from block to block.
#[derive(Default)]
pub(crate) struct Threads {
    stacks: Vec<ThreadStack>,
}

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) entry: *const KernelEntry,
    pub(crate) arguments: *const *mut c_void,
}

impl Threads {
    /// Runs blocks of a kernel in which no thread waits for another, all on one stack; `next` prepares a block and returns
    /// false when there are no more.
    pub(crate) fn run_freely(
        &mut self,
        work: Work,
        block: *mut Block,
        next: &mut dyn FnMut() -> bool,
    ) -> Result<(), Fault> {
        let stack = self.take(0)?;
        let state = stack.state();
        let next: *mut (dyn FnMut() -> bool + '_) = next;
        // SAFETY: the coroutine ends, or is reset, before `next` goes out of scope below.
        let next: *mut (dyn FnMut() -> bool + 'static) = unsafe { std::mem::transmute(next) };
        let mut fibre = Fibre::with_stack(stack, move |yielder, _| {
            // SAFETY: the state lies at the low end of this stack, and the entry is the kernel's own.
            unsafe {
                state.write(thread(block, Dim3::default(), 0, yielder));
                while (*next)() {
                    ((*work.entry).threads)(work.arguments, state);
                }
            }
            End::Returned
        });
        let outcome = match resume(&mut fibre, Go::On) {
            // SAFETY: the thread ran until now.
            CoroutineResult::Return(End::Trap(trap)) => Err(unsafe { at_trap(trap, state) }),
            CoroutineResult::Yield(_) => Err(Fault::Refused),
            CoroutineResult::Return(End::Returned) => Ok(()),
        };
        self.stacks.push(finish(fibre));
        outcome
    }

    /// Runs a block whose threads may wait for each other.
    pub(crate) fn run_waiting(
        &mut self,
        work: Work,
        block: *mut Block,
        order: &Order,
    ) -> Result<(), Fault> {
        // SAFETY: the caller's block, which lives until the run is over.
        let (size, check) = unsafe { ((*block).block_size, (*block).check) };
        let count = usize::try_from(size.count()).unwrap_or(usize::MAX);
        let slots = (0..count).map(|number| self.start(work, block, size, number));
        let mut slots = slots.collect::<Result<Vec<Slot>, Fault>>()?;
        let outcome = run_all(&mut slots, order, check);
        for slot in slots {
            self.stacks.push(finish(slot.fibre));
        }
        outcome
    }

    fn start(
        &mut self,
        work: Work,
        block: *mut Block,
        size: Dim3,
        number: usize,
    ) -> Result<Slot, Fault> {
        let stack = self.take(number)?;
        let state = stack.state();
        let place = size.place(number as u64);
        let fibre = Fibre::with_stack(stack, move |yielder, _| {
            // SAFETY: the state lies at the low end of this stack, and the entry is the kernel's own.
            unsafe {
                state.write(thread(block, place, number, yielder));
                ((*work.entry).thread)(work.arguments);
            }
            End::Returned
        });
        Ok(Slot {
            fibre,
            state,
            at: At::Ready,
        })
    }

    fn take(&mut self, number: usize) -> Result<ThreadStack, Fault> {
        let kept = self.stacks.pop().map(Ok);
        let stack = kept.unwrap_or_else(|| ThreadStack::new(number));
        stack.map_err(|error: io::Error| Fault::Stacks(error.to_string()))
    }
}

fn thread(
    block: *mut Block,
    place: Dim3,
    number: usize,
    yielder: &corosensei::Yielder<Go, Wait>,
) -> Thread {
    Thread {
        thread: place,
        lane: (number % lanes()) as u32,
        line: 0,
        block,
        yielder,
    }
}

/// Waits at a barrier of the block.
///
/// # Safety
///
/// A kernel calls it, on the stack of this thread.
pub(crate) unsafe extern "C" fn barrier(thread: *mut Thread, line: u32) {
    // SAFETY: as the caller promises; the yielder lives as long as the thread.
    unsafe { (*(*thread).yielder).suspend(Wait::Barrier { line }) };
}

/// Waits for the lanes of the warp in the mask, and runs `act` for all of them if the emulator chooses this lane.
///
/// # Safety
///
/// As [`barrier`]; `lane` is what `act` takes for this lane.
pub(crate) unsafe extern "C" fn together(
    thread: *mut Thread,
    line: u32,
    mask: u64,
    act: Act,
    lane: *mut c_void,
) {
    let meeting = Meeting {
        line,
        mask,
        act,
        lane,
    };
    // SAFETY: as the caller promises; the lanes' pointers are those of lanes that wait at this meeting.
    unsafe {
        (*thread).line = line;
        let yielder = &*(*thread).yielder;
        let mut told = yielder.suspend(Wait::Together(meeting));
        while let Go::Act { lanes, present } = told {
            act(lanes, present);
            told = yielder.suspend(Wait::Acted);
        }
    }
}

fn resume(fibre: &mut Fibre, go: Go) -> CoroutineResult<Wait, End> {
    traps::enter(fibre.trap_handler());
    let outcome = fibre.resume(go);
    traps::leave();
    outcome
}

/// Takes back the stack of a coroutine that has ended or won't be resumed.
fn finish(mut fibre: Fibre) -> ThreadStack {
    if fibre.started() && !fibre.done() {
        // SAFETY: only a kernel's C++ is on the stack, which owns nothing.
        unsafe { fibre.force_reset() };
    }
    fibre.into_stack()
}

/// # Safety
///
/// `state` is that of a thread that ran.
unsafe fn at_trap(trap: Trap, state: *const Thread) -> Fault {
    if trap.address & !(STACK_BYTES - 1) == state.addr() {
        let room = STACK_BYTES >> 10;
        let reason = format!("a thread needs more than the {room} KiB of its stack");
        return Fault::Stacks(reason);
    }
    // SAFETY: as the caller promises.
    let (thread, block) = unsafe { ((*state).thread, (*(*state).block).block) };
    Fault::Trap {
        trap,
        block,
        thread,
    }
}

fn run_all(slots: &mut [Slot], order: &Order, check: *mut Check) -> Result<(), Fault> {
    let width = lanes();
    let warps = slots.len().div_ceil(width);
    for phase in 0.. {
        for turn in 0..warps {
            let warp = order.warp(turn, warps, phase);
            let end = ((warp + 1) * width).min(slots.len());
            let meetings = Meetings {
                check,
                first: warp * width,
            };
            run_warp(&mut slots[warp * width..end], order, phase, meetings)?;
        }
        if !release(slots)? {
            break;
        }
        // SAFETY: no thread runs; the check is this processor's own for the launch.
        if let Some(check) = unsafe { check.as_mut() } {
            check.barrier();
        }
    }
    Ok(())
}

/// Tells a check about the meetings of a warp.
#[derive(Clone, Copy)]
struct Meetings {
    check: *mut Check,
    /// Number of the warp's first thread.
    first: usize,
}

impl Meetings {
    fn tell(self, present: u64) {
        // SAFETY: no thread runs; the check is this processor's own for the launch.
        if let Some(check) = unsafe { self.check.as_mut() } {
            check.meet(self.first, present);
        }
    }
}

/// Runs a warp until each of its lanes is at a barrier or has ended.
fn run_warp(
    lanes: &mut [Slot],
    order: &Order,
    phase: u64,
    meetings: Meetings,
) -> Result<(), Fault> {
    loop {
        for turn in 0..lanes.len() {
            let lane = order.lane(turn, lanes.len(), phase);
            if matches!(lanes[lane].at, At::Ready) {
                run_lane(&mut lanes[lane], Go::On)?;
            }
        }
        if !lanes.iter().any(|lane| matches!(lane.at, At::Meeting(_))) {
            return Ok(());
        }
        let Some((present, leader)) = gathered(lanes) else {
            return Err(stuck(lanes));
        };
        // A warp's common operation comes after all that its lanes did before, and before all that they do next.
        meetings.tell(present);
        meet(lanes, present, leader)?;
        meetings.tell(present);
    }
}

fn run_lane(slot: &mut Slot, go: Go) -> Result<(), Fault> {
    slot.at = match resume(&mut slot.fibre, go) {
        CoroutineResult::Yield(Wait::Barrier { line }) => At::Barrier { line },
        CoroutineResult::Yield(Wait::Together(meeting)) => At::Meeting(meeting),
        CoroutineResult::Yield(Wait::Acted) => At::Ready,
        CoroutineResult::Yield(Wait::Refused) => return Err(Fault::Refused),
        CoroutineResult::Return(End::Returned) => At::Ended,
        CoroutineResult::Return(End::Trap(trap)) => {
            slot.at = At::Ended;
            // SAFETY: the thread ran until now.
            return Err(unsafe { at_trap(trap, slot.state) });
        }
    };
    Ok(())
}

/// The lanes of a complete meeting, and the lane that acts for them. Of several meetings the one earliest in the text comes
/// first, so that lanes that left a loop wait for those still inside.
fn gathered(lanes: &[Slot]) -> Option<(u64, usize)> {
    let candidates = lanes
        .iter()
        .enumerate()
        .filter_map(|(lane, slot)| match &slot.at {
            At::Meeting(meeting) => Some((meeting.line, lane)),
            _ => None,
        });
    let mut candidates: Vec<(u32, usize)> = candidates.collect();
    candidates.sort_unstable();
    let mut leaders = candidates.into_iter().map(|(_, lane)| lane);
    leaders.find_map(|lane| Some((complete(lanes, lane)?, lane)))
}

fn complete(lanes: &[Slot], leader: usize) -> Option<u64> {
    let At::Meeting(own) = lanes[leader].at else {
        return None;
    };
    let mut present = 0u64;
    for (lane, slot) in lanes.iter().enumerate() {
        let here = matches!(&slot.at, At::Meeting(other)
            if other.line == own.line && other.mask == own.mask && std::ptr::fn_addr_eq(other.act, own.act));
        let named = own.mask == 0 || own.mask >> lane & 1 == 1;
        if here && named {
            present |= 1u64 << lane;
        } else if own.mask != 0 && named && !matches!(slot.at, At::Ended) {
            return None;
        }
    }
    Some(present)
}

fn meet(lanes: &mut [Slot], present: u64, leader: usize) -> Result<(), Fault> {
    let mut pointers = [std::ptr::null_mut(); MOST_LANES];
    for (lane, slot) in lanes.iter().enumerate() {
        if let At::Meeting(meeting) = &slot.at
            && present >> lane & 1 == 1
        {
            pointers[lane] = meeting.lane;
        }
    }
    let act = Go::Act {
        lanes: pointers.as_ptr(),
        present,
    };
    run_lane(&mut lanes[leader], act)?;
    for (lane, slot) in lanes.iter_mut().enumerate() {
        if present >> lane & 1 == 1 {
            slot.at = At::Ready;
        }
    }
    Ok(())
}

/// Describes a deadlock: a thread that waits in vain, and one that is elsewhere.
fn stuck(slots: &[Slot]) -> Fault {
    let place = |slot: &Slot| {
        // SAFETY: the thread has run, so its state is written.
        let state = unsafe { &*slot.state };
        // SAFETY: the block outlives its threads.
        (state.thread, unsafe { (*state.block).block })
    };
    let line = |slot: &Slot| match slot.at {
        At::Meeting(Meeting { line, .. }) | At::Barrier { line } => Some(line),
        At::Ready | At::Ended => None,
    };
    let waits = |slot: &Slot| line(slot).map(|line| (place(slot), line));
    let mut waiting = slots.iter().filter_map(waits);
    let Some(((thread, block), line)) = waiting.next() else {
        unreachable!("only what waits can be stuck");
    };
    let elsewhere = waiting.find(|(_, other)| *other != line);
    Fault::Stuck {
        block,
        thread,
        line,
        other: elsewhere.map(|((thread, _), line)| (thread, line)),
    }
}

/// Resumes the threads that wait at the block's barrier; false if none is left.
fn release(slots: &mut [Slot]) -> Result<bool, Fault> {
    let mut lines = slots.iter().filter_map(|slot| match slot.at {
        At::Barrier { line } => Some(line),
        _ => None,
    });
    let Some(first) = lines.next() else {
        return Ok(false);
    };
    if lines.any(|line| line != first) {
        return Err(stuck(slots));
    }
    for slot in slots.iter_mut() {
        if matches!(slot.at, At::Barrier { .. }) {
            slot.at = At::Ready;
        }
    }
    Ok(true)
}
