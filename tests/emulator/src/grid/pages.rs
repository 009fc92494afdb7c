//! Something for each page of memory, made where it is touched. Accesses come in runs on one page.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by the numbers of pages.
pub(super) struct Pages<T> {
    places: HashMap<usize, usize, BuildHasherDefault<Mixed>>,
    pages: Vec<Box<T>>,
    /// The page that was asked for last, and where it is.
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

    /// Makes a page what it was before anything touched it.
    pub(super) fn forget(&mut self, number: usize) {
        if let Some(&place) = self.places.get(&number) {
            self.pages[place] = (self.fresh)();
        }
    }
}

/// A hash that costs one product: the keys are numbers of pages.
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
