//! Memory in large pages.

use bytes::Bytes;
use memmap2::{Advice, MmapMut};
use rayon::prelude::*;
use std::io;
use std::ops::Deref;

/// Less gains nothing.
const PAGE: usize = 2 << 20;
/// Each value begins with a line of the processor's caches.
const LINE: usize = 64;

/// Copies of some values, side by side in one memory of pages of 2 MiB, where the system has any. A value is dropped when its copy is made.
///
/// # Errors
/// The values themselves, where they don't fill a page or the system has no memory for them.
pub fn in_large_pages<V: Deref<Target = [u8]>>(values: Vec<V>) -> Result<Vec<Bytes>, Vec<V>> {
    let room = |value: &V| value.len().next_multiple_of(LINE);
    let size: usize = values.iter().map(room).sum();
    if size < PAGE {
        return Err(values);
    }
    let Ok(mut pages) = pages(size) else {
        return Err(values);
    };
    let mut at = 0;
    let mut places = Vec::with_capacity(values.len());
    for value in values {
        let bytes: &[u8] = &value;
        let to = pages[at..][..bytes.len()].par_chunks_mut(PAGE);
        // On all threads: the system clears a page for whom it gives it first.
        to.zip(bytes.par_chunks(PAGE))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let end = at + bytes.len();
        places.push(at..end);
        at = end.next_multiple_of(LINE);
    }
    let all = Bytes::from_owner(pages);
    Ok(places.into_iter().map(|place| all.slice(place)).collect())
}

/// Memory that begins with a large page, where the system has any.
fn pages(size: usize) -> io::Result<MmapMut> {
    let pages = MmapMut::map_anon(size.next_multiple_of(PAGE))?;
    // A system without large pages refuses, and has ordinary ones.
    let _ = pages.advise(Advice::HugePage);
    Ok(pages)
}
