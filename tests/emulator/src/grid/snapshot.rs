//! Memory as it was before a launch. The first write to each granule is detected: buffers are made read-only, and the signal
//! handler copies the granule before it permits the write.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{hint, io};

/// Bytes of a granule: the largest page size of any Linux that this runs on.
const GRANULE: usize = 1 << 16;

/// Memory that may be read and written.
const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The snapshot that handles write faults.
static ACTIVE: AtomicPtr<Snapshot> = AtomicPtr::new(std::ptr::null_mut());

/// The buffers of a launch with copies of the granules written since.
pub(crate) struct Snapshot {
    ranges: Vec<Range>,
    /// Lock that lets one processor at a time copy a granule.
    busy: AtomicBool,
}

/// An accessible address range, the copies of its granules, and which granules have one.
struct Range {
    start: usize,
    bytes: usize,
    kept: *mut u8,
    dirty: Vec<AtomicBool>,
}

/// The contents that a launch left in the granules written so far: address and bytes.
pub(crate) type Result = Vec<(usize, Box<[u8]>)>;

impl Snapshot {
    /// Write-protects these ranges of whole pages.
    ///
    /// # Errors
    ///
    /// The host has no memory for the copies.
    pub(crate) fn new(ranges: &[(usize, usize)]) -> io::Result<Box<Snapshot>> {
        let ranges = ranges.iter().map(|&range| Range::new(range));
        let mut snapshot = Box::new(Snapshot {
            ranges: ranges.collect::<io::Result<_>>()?,
            busy: AtomicBool::new(false),
        });
        ACTIVE.store(&mut *snapshot, Ordering::Release);
        for range in &snapshot.ranges {
            protect(range.start, range.bytes, libc::PROT_READ)?;
        }
        Ok(snapshot)
    }

    /// The current contents of all granules written since the snapshot.
    pub(crate) fn result(&self) -> Result {
        let starts = self.dirty().map(|(range, offset)| range.start + offset);
        starts.map(|start| (start, memory(start).into())).collect()
    }

    /// Restores all memory to the snapshot.
    pub(crate) fn restore(&self) {
        for (range, offset) in self.dirty() {
            let to = pointer(range.start + offset);
            // SAFETY: the granule was kept here, and it can be written since.
            unsafe { to.copy_from_nonoverlapping(range.kept.add(offset), GRANULE) };
        }
    }

    /// The first address where memory differs from what another run left.
    pub(crate) fn difference(&self, other: &Result) -> Option<usize> {
        self.dirty().find_map(|(range, offset)| {
            let start = range.start + offset;
            let place = other.binary_search_by_key(&start, |(start, _)| *start);
            let expected = match place {
                Ok(index) => &*other[index].1,
                // SAFETY: the granule was kept here.
                Err(_) => unsafe { std::slice::from_raw_parts(range.kept.add(offset), GRANULE) },
            };
            let mut pairs = memory(start).iter().zip(expected);
            let differs = pairs.position(|(now, then)| now != then);
            differs.map(|byte| start + byte)
        })
    }

    /// Flips the highest bit of each four bytes that aren't what they were: the sign of a float.
    pub(crate) fn spoil(&self) {
        for (range, offset) in self.dirty() {
            let start = range.start + offset;
            // SAFETY: the granule was kept here.
            let kept = unsafe { std::slice::from_raw_parts(range.kept.add(offset), GRANULE) };
            let words = memory(start).chunks_exact(4).zip(kept.chunks_exact(4));
            let words = words.enumerate().filter(|(_, (now, then))| now != then);
            let changed: Vec<usize> = words.map(|(word, _)| start + 4 * word).collect();
            for word in changed {
                // The card's words begin with their lowest byte.
                let sign = pointer(word + 3);
                // SAFETY: a byte of the granule, which can be written since it was kept; launches, which alone write it, are over.
                unsafe { sign.write(sign.read() ^ 0x80) };
            }
        }
    }

    /// The granules written so far, by address.
    fn dirty(&self) -> impl Iterator<Item = (&Range, usize)> {
        self.ranges.iter().flat_map(|range| {
            let granules = range.dirty.iter().enumerate();
            let dirty = granules.filter(|(_, dirty)| dirty.load(Ordering::Acquire));
            dirty.map(move |(index, _)| (range, index * GRANULE))
        })
    }

    fn keep(&self, address: usize) -> bool {
        let within = |range: &&Range| (range.start..range.start + range.bytes).contains(&address);
        let Some(range) = self.ranges.iter().find(within) else {
            return false;
        };
        while self.busy.swap(true, Ordering::Acquire) {
            hint::spin_loop();
        }
        let offset = (address - range.start) / GRANULE * GRANULE;
        let dirty = &range.dirty[offset / GRANULE];
        // Another processor may have copied the granule while this one waited.
        let kept = dirty.load(Ordering::Acquire) || {
            let start = range.start + offset;
            // SAFETY: the granule can be read, and its place is mapped.
            unsafe { pointer(start).copy_to_nonoverlapping(range.kept.add(offset), GRANULE) };
            dirty.store(true, Ordering::Release);
            protect(start, GRANULE, WRITABLE).is_ok()
        };
        self.busy.store(false, Ordering::Release);
        kept
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        ACTIVE.store(std::ptr::null_mut(), Ordering::Release);
        for range in &self.ranges {
            // If this fails, the next write faults and shows it.
            let _ = protect(range.start, range.bytes, WRITABLE);
            // SAFETY: the mapping that `Range::new` made.
            unsafe { libc::munmap(range.kept.cast(), range.bytes) };
        }
    }
}

impl Range {
    fn new((start, bytes): (usize, usize)) -> io::Result<Range> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping; memory is taken where it is written.
        let kept = unsafe { libc::mmap(std::ptr::null_mut(), bytes, WRITABLE, flags, -1, 0) };
        if kept == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let dirty = (0..bytes / GRANULE).map(|_| AtomicBool::new(false));
        Ok(Range {
            start,
            bytes,
            kept: kept.cast(),
            dirty: dirty.collect(),
        })
    }
}

fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

fn memory(start: usize) -> &'static [u8] {
    // SAFETY: a granule of a live buffer; launches, which alone write it, are over.
    unsafe { std::slice::from_raw_parts(pointer(start), GRANULE) }
}

fn protect(start: usize, bytes: usize, access: i32) -> io::Result<()> {
    // SAFETY: whole pages of a live buffer.
    match unsafe { libc::mprotect(pointer(start).cast(), bytes, access) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Handles a fault that may be the first write to a granule; returns whether the write can now be made. It runs in a signal
/// handler, so it allocates no memory and takes no lock that the interrupted code could hold.
pub(super) fn first_write(address: usize) -> bool {
    // SAFETY: a snapshot is put here while it lives, and launches end before it does.
    let active = unsafe { ACTIVE.load(Ordering::Acquire).as_ref() };
    active.is_some_and(|snapshot| snapshot.keep(address))
}
