//! Checks of every access, while `MOEBIUS_EMULATOR_CHECK` is set: it must lie in a tensor of the launch or in the block's
//! shared memory, be ordered with other threads' accesses to the same bytes, and read only what was written.

use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::process::Command;

use super::shadow::{Access, Conflict, Order, Shadow};
use super::state::{Block, Dim3, Thread, Wait};
use super::written::{self, Written};
use super::{MOST_LANES, lanes};
use crate::driver::memory::buffers;

/// The access kinds of `grid.h`: whether each reads, writes, and is atomic.
const KINDS: [(bool, bool, bool); 5] = [
    (true, false, false),
    (false, true, false),
    (true, true, true),
    (true, false, true),
    (false, true, true),
];

/// The place of an access in the text: a return address, or for warp operations a line number, which is always smaller.
pub(crate) type Site = usize;
const LINES: Site = 1 << 20;

/// A finding; each pair of places in the text is reported once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) what: What,
    pub(crate) site: Site,
    pub(crate) at: (Dim3, Dim3),
    pub(crate) address: usize,
    pub(crate) bytes: u32,
    /// Whether the access was to shared memory; then `address` is an offset into it.
    pub(crate) shared: bool,
    /// The other access of a race: its site, block and thread.
    pub(crate) other: Option<(Site, Dim3, Dim3)>,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Outside,
    Race,
    Unwritten,
}

/// The checks of a launch.
pub(crate) struct Check {
    buffers: Vec<(usize, usize)>,
    global: Shadow,
    shared: Shadow,
    shared_written: Written,
    written: written::Guard,
    /// For each thread of the block and each lane of its warp, the clock up to which the lane's accesses are ordered before the
    /// thread's.
    known: Vec<[u32; MOST_LANES]>,
    epoch: u32,
    grid: Dim3,
    block_size: Dim3,
    seen: HashSet<(What, Site, Site)>,
    pub(crate) found: Vec<Found>,
}

impl Check {
    /// Starts the checks of a launch with this shape, which may touch these sorted, disjoint ranges.
    pub(crate) fn new(grid: Dim3, block_size: Dim3, buffers: Vec<(usize, usize)>) -> Check {
        Check {
            buffers,
            global: Shadow::default(),
            shared: Shadow::default(),
            shared_written: Written::default(),
            written: written::lock(),
            known: Vec::new(),
            epoch: 0,
            grid,
            block_size,
            seen: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// Starts a block: no accesses are ordered yet, and its shared memory is unwritten.
    pub(crate) fn begin_block(&mut self) {
        let threads = usize::try_from(self.block_size.count()).unwrap_or(usize::MAX);
        self.known.clear();
        self.known.resize(threads, [0; MOST_LANES]);
        for (thread, known) in self.known.iter_mut().enumerate() {
            known[thread % lanes()] = 1;
        }
        self.epoch = 0;
        self.shared = Shadow::default();
        self.shared_written = Written::default();
    }

    /// Notes that all threads of the block have met.
    pub(crate) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Notes that these lanes of a warp have met: each is now ordered after what the others did.
    pub(crate) fn meet(&mut self, first: usize, present: u64) {
        let present = || (0..lanes()).filter(|lane| present >> lane & 1 == 1);
        let mut joined = [0; MOST_LANES];
        for lane in present() {
            for (all, own) in joined.iter_mut().zip(self.known[first + lane]) {
                *all = own.max(*all);
            }
        }
        for lane in present() {
            self.known[first + lane] = joined;
            self.known[first + lane][lane] += 1;
        }
    }

    /// Checks a thread's access; false if it is forbidden.
    fn access(&mut self, thread: &Thread, block: &Block, given: Given) -> bool {
        let Given { at, bytes, .. } = given;
        let end = at + bytes as usize;
        let base = block.shared.addr();
        let shared = (base..base + block.shared_bytes as usize).contains(&at);
        let by = By {
            thread,
            block,
            shared,
        };
        let room = if shared {
            base + block.shared_bytes as usize
        } else {
            self.buffer_end(at).unwrap_or(0)
        };
        if end > room {
            if room == 0 && known_to_the_loader(at) {
                return true;
            }
            self.find(&by, given, What::Outside, None);
            return false;
        }
        if self.reads_unwritten(&given, shared) {
            self.find(&by, given, What::Unwritten, None);
        }
        let number = self.block_size.number(thread.thread) as usize;
        let access = Access {
            site: given.site,
            block: block.number as u32,
            thread: number as u16,
            epoch: self.epoch,
            clock: self.known[number][thread.lane as usize],
            write: given.writes,
            atomic: given.atomic,
        };
        let order = Order {
            access,
            known: &self.known[number],
        };
        let shadow = if shared {
            &mut self.shared
        } else {
            &mut self.global
        };
        if let Some(Conflict { other, address: at }) = shadow.access(at, bytes, &order) {
            let (block, thread) = self.place(&other);
            let other = Some((other.site, block, thread));
            self.find(&by, Given { at, ..given }, What::Race, other);
        }
        true
    }

    /// Marks the bytes that an access writes; returns whether it reads bytes that were never written.
    fn reads_unwritten(&mut self, given: &Given, shared: bool) -> bool {
        let written = if shared {
            &mut self.shared_written
        } else {
            &mut *self.written
        };
        let unwritten = given.reads && !written.all(given.at, given.bytes as usize);
        if given.writes {
            written.mark(given.at, given.bytes as usize);
        }
        unwritten
    }

    fn buffer_end(&self, at: usize) -> Option<usize> {
        let index = self.buffers.partition_point(|&(start, _)| start <= at);
        let (_, end) = *self.buffers.get(index.checked_sub(1)?)?;
        (at < end).then_some(end)
    }

    fn place(&self, access: &Access) -> (Dim3, Dim3) {
        let block = self.grid.place(u64::from(access.block));
        (block, self.block_size.place(u64::from(access.thread)))
    }

    fn find(&mut self, by: &By, given: Given, what: What, other: Option<(Site, Dim3, Dim3)>) {
        let pair = other.map_or(0, |(site, ..)| site);
        let about = (what, given.site.min(pair), given.site.max(pair));
        if !self.seen.insert(about) {
            return;
        }
        let base = if by.shared { by.block.shared.addr() } else { 0 };
        self.found.push(Found {
            what,
            site: given.site,
            at: (by.block.block, by.thread.thread),
            address: given.at - base,
            bytes: given.bytes,
            shared: by.shared,
            other,
        });
    }
}

/// The thread and block of an access, and whether it is to shared memory.
struct By<'a> {
    thread: &'a Thread,
    block: &'a Block,
    shared: bool,
}

/// An access as a kernel reports it.
#[derive(Clone, Copy)]
struct Given {
    at: usize,
    bytes: u32,
    reads: bool,
    writes: bool,
    atomic: bool,
    site: Site,
}

/// Whether an address belongs to a loaded shared object: a kernel's constant tables lie there.
fn known_to_the_loader(at: usize) -> bool {
    // SAFETY: `dladdr` only looks the address up.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(std::ptr::without_provenance(at), &mut info) != 0
    }
}

/// Checks an access that a kernel is about to make. A forbidden access ends the thread.
///
/// # Safety
///
/// Called by a kernel on the stack of one of its threads, with the state of one of them.
pub(crate) unsafe extern "C" fn access(
    thread: *mut Thread,
    at: *const c_void,
    bytes: u32,
    kind: u32,
    code: *const c_void,
) {
    // SAFETY: as the caller promises; checks run on one processor.
    let allowed = unsafe {
        let (thread, block) = (&*thread, &*(*thread).block);
        let Some(check) = block.check.as_mut() else {
            return;
        };
        let site = if code.is_null() {
            thread.line as Site
        } else {
            code.addr() - 1
        };
        let (reads, writes, atomic) = KINDS[kind as usize % KINDS.len()];
        let given = Given {
            at: at.addr(),
            bytes,
            reads,
            writes,
            atomic,
            site,
        };
        bytes == 0 || check.access(thread, block, given)
    };
    if !allowed {
        // The running thread, which for a warp operation may differ from the accessing one.
        let mark = 0u8;
        let running = Thread::at((&raw const mark).addr());
        // SAFETY: this runs on a thread's stack; the thread is never resumed.
        unsafe { (*(*running).yielder).suspend(Wait::Refused) };
    }
}

/// Marks the bytes that a host copy or fill writes.
pub(crate) fn copied(to: usize, from: Option<usize>, bytes: usize) {
    if crate::settings::get().check {
        let ours = from.filter(|&from| buffers().around(from).is_some());
        let mut written = written::lock();
        match ours {
            Some(from) => written.copy(to, from, bytes),
            None => written.mark(to, bytes),
        }
    }
}

/// The line of a kernel's text for a site.
pub(crate) fn line(site: Site) -> Option<u32> {
    if site < LINES {
        return u32::try_from(site).ok().filter(|&line| line > 0);
    }
    line_of(site)
}

/// The line of `kernel.cu` that compiled code comes from, looking through code inlined from our headers; the host's `addr2line`
/// finds it.
fn line_of(code: usize) -> Option<u32> {
    // SAFETY: `dladdr` only looks the address up; the name it gives has an end.
    let (file, offset) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(std::ptr::without_provenance(code), &mut info) == 0 {
            return None;
        }
        let file = CStr::from_ptr(info.dli_fname).to_str().ok()?.to_owned();
        (file, code - info.dli_fbase.addr())
    };
    let mut lookup = Command::new("addr2line");
    lookup.args(["-i", "-e", &file, &format!("{offset:#x}")]);
    let answer = lookup.output().ok()?;
    let text = String::from_utf8_lossy(&answer.stdout);
    text.lines().find_map(|frame| {
        let (_, line) = frame.split_once("kernel.cu:")?;
        let digits = line.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}
