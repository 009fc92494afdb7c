//! The last accesses to memory: up to four are kept for each word of 4 bytes.

use super::check::Site;
use super::written::Pages;
use super::{MOST_LANES, lanes};

const WORD: usize = 4;
const PAGE_WORDS: usize = 256;
const KEPT: usize = 4;

/// An access with what orders it against others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    pub(crate) site: Site,
    pub(crate) block: u32,
    pub(crate) thread: u16,
    /// Number of the block's barriers before the access.
    pub(crate) epoch: u32,
    /// Number of the thread's warp meetings before the access.
    pub(crate) clock: u32,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
}

/// The current access, with the clocks of its warp's lanes that its thread is ordered after.
pub(crate) struct Order<'a> {
    pub(crate) access: Access,
    pub(crate) known: &'a [u32; MOST_LANES],
}

impl Order<'_> {
    /// Whether an earlier access is ordered before the current one.
    fn after(&self, earlier: &Access) -> bool {
        let own = &self.access;
        if earlier.block != own.block {
            return false;
        }
        let width = lanes() as u16;
        let same_warp = earlier.thread / width == own.thread / width;
        earlier.thread == own.thread
            || earlier.epoch < own.epoch
            || same_warp && earlier.clock <= self.known[usize::from(earlier.thread % width)]
    }

    fn conflicts(&self, earlier: &Access) -> bool {
        (self.access.write || earlier.write)
            && !(self.access.atomic && earlier.atomic)
            && !self.after(earlier)
    }
}

/// An earlier access that isn't ordered with the current one.
pub(crate) struct Conflict {
    pub(crate) other: Access,
    pub(crate) address: usize,
}

/// A kept access, and the bytes of the word that it touched as a bit mask; 0 where none is kept.
#[derive(Clone, Copy, Default)]
struct Kept {
    bytes: u8,
    access: Access,
}

#[derive(Clone, Copy, Default)]
struct Word {
    kept: [Kept; KEPT],
    next: u8,
}

/// The last accesses to each word of a memory.
pub(crate) struct Shadow {
    pages: Pages<[Word; PAGE_WORDS]>,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow {
            pages: Pages::new(|| Box::new([Word::default(); PAGE_WORDS])),
        }
    }
}

impl Shadow {
    /// Notes an access; returns an earlier one that conflicts with it.
    pub(crate) fn access(&mut self, at: usize, bytes: u32, order: &Order) -> Option<Conflict> {
        let mut found = None;
        let end = at + bytes as usize;
        for word in at / WORD..end.div_ceil(WORD) {
            let first = at.max(word * WORD) - word * WORD;
            let last = end.min((word + 1) * WORD) - word * WORD;
            let mask = ((1u16 << last) - (1u16 << first)) as u8;
            let page = self.pages.page(word / PAGE_WORDS);
            let other = page[word % PAGE_WORDS].access(mask, order);
            let address = word * WORD + first;
            found = found.or(other.map(|other| Conflict { other, address }));
        }
        found
    }
}

impl Word {
    fn access(&mut self, mask: u8, order: &Order) -> Option<Access> {
        let touches = |kept: &&Kept| kept.bytes & mask != 0;
        let conflict = self
            .kept
            .iter()
            .filter(touches)
            .find(|kept| order.conflicts(&kept.access));
        let conflict = conflict.map(|kept| kept.access);
        let own = Kept {
            bytes: mask,
            access: order.access,
        };
        // Replaces an access that this one makes redundant, else the oldest.
        let covered = |kept: &Kept| {
            kept.bytes & !mask == 0
                && (own.access.write || !kept.access.write)
                && (!own.access.atomic || kept.access.atomic)
                && order.after(&kept.access)
        };
        let place = self
            .kept
            .iter()
            .position(|kept| kept.bytes == 0 || covered(kept));
        let place = place.unwrap_or_else(|| {
            self.next = (self.next + 1) % KEPT as u8;
            usize::from(self.next)
        });
        self.kept[place] = own;
        conflict
    }
}
