//! A bit for each byte of memory: whether it has ever been written.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Bytes of memory that one word of bits stands for.
const WORD: usize = 64;
const PAGE_WORDS: usize = 64;

/// The written bytes, page by page.
pub(crate) struct Written {
    pages: Pages<[u64; PAGE_WORDS]>,
}

/// The card's written bytes, locked for a launch or a copy.
pub(crate) type Guard = MutexGuard<'static, Written>;

/// Locks the card's written bytes.
pub(crate) fn lock() -> Guard {
    static GLOBAL: LazyLock<Mutex<Written>> = LazyLock::new(Mutex::default);
    GLOBAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Written {
    fn default() -> Written {
        Written {
            pages: Pages::new(|| Box::new([0; PAGE_WORDS])),
        }
    }
}

impl Written {
    fn word(&mut self, number: usize) -> &mut u64 {
        &mut self.pages.page(number / PAGE_WORDS)[number % PAGE_WORDS]
    }

    /// Marks these bytes as written.
    pub(crate) fn mark(&mut self, at: usize, bytes: usize) {
        for (number, bits) in words(at, bytes) {
            *self.word(number) |= bits;
        }
    }

    /// Whether all of these bytes were written.
    pub(crate) fn all(&mut self, at: usize, bytes: usize) -> bool {
        words(at, bytes).all(|(number, bits)| *self.word(number) & bits == bits)
    }

    /// Marks each of these bytes as its source is marked; the ranges may overlap.
    pub(crate) fn copy(&mut self, to: usize, from: usize, bytes: usize) {
        let known: Vec<bool> = (from..from + bytes).map(|byte| self.all(byte, 1)).collect();
        for (offset, known) in known.into_iter().enumerate() {
            let (number, bit) = ((to + offset) / WORD, 1 << ((to + offset) % WORD));
            if known {
                *self.word(number) |= bit
            } else {
                *self.word(number) &= !bit
            }
        }
    }

    /// Marks as unwritten all pages that these bytes touch.
    pub(crate) fn forget(&mut self, at: usize, bytes: usize) {
        let page = WORD * PAGE_WORDS;
        for number in at / page..(at + bytes).div_ceil(page) {
            self.pages.forget(number);
        }
    }
}

/// The words with the bits of these bytes, and a mask of the bits.
fn words(at: usize, bytes: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = at + bytes;
    (at / WORD..end.div_ceil(WORD)).map(move |number| {
        let start = number * WORD;
        let (first, last) = (at.max(start) - start, end.min(start + WORD) - start);
        let below = |bit: usize| (1u128 << bit) - 1;
        (number, (below(last) & !below(first)) as u64)
    })
}

/// A value for each page of memory, by page number, made when the page is first touched. The last page is remembered, because
/// accesses come in runs.
pub(super) struct Pages<T> {
    places: HashMap<usize, usize, BuildHasherDefault<Mixed>>,
    pages: Vec<Box<T>>,
    /// The number of the page used last, and its index in `pages`.
    last: (usize, usize),
    fresh: fn() -> Box<T>,
}

impl<T> Pages<T> {
    pub(super) fn new(fresh: fn() -> Box<T>) -> Pages<T> {
        Pages {
            places: HashMap::default(),
            pages: Vec::new(),
            last: (usize::MAX, 0),
            fresh,
        }
    }

    /// The value of a page.
    pub(super) fn page(&mut self, number: usize) -> &mut T {
        if self.last.0 != number {
            let (pages, fresh) = (&mut self.pages, self.fresh);
            let place = *self.places.entry(number).or_insert_with(|| {
                pages.push(fresh());
                pages.len() - 1
            });
            self.last = (number, place);
        }
        &mut self.pages[self.last.1]
    }

    /// Resets a page to its initial value.
    pub(super) fn forget(&mut self, number: usize) {
        if let Some(&place) = self.places.get(&number) {
            self.pages[place] = (self.fresh)();
        }
    }
}

/// A hash of page numbers that costs one multiplication.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        let mixed = (self.0 ^ value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_bytes() {
        let mut written = Written::default();
        written.mark(60, 200);
        assert!(written.all(60, 200));
        assert!(!written.all(59, 2) && !written.all(259, 2));
        written.copy(1000, 58, 4);
        assert!(written.all(1002, 2) && !written.all(1001, 1));
        written.forget(0, 4096);
        assert!(!written.all(100, 1));
    }
}
