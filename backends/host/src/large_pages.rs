//! Memory in large pages.

use bytes::Bytes;
use memmap2::{Advice, MmapMut};
use rayon::prelude::*;
use std::io;
use std::ops::Deref;

/// The size of a large page; less memory than that gains nothing.
const PAGE: usize = 2 << 20;
/// The alignment of each value: a line of the processor's caches.
const LINE: usize = 64;

/// Copies values side by side into one mapping of pages of 2 MiB, if the system has such pages. Each value is dropped after its copy is
/// made.
///
/// # Errors
/// The values themselves, if they don't fill a page or the system has no memory for them.
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
        // All threads copy, because the thread that first touches a page waits while the system clears it.
        to.zip(bytes.par_chunks(PAGE))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let end = at + bytes.len();
        places.push(at..end);
        at = end.next_multiple_of(LINE);
    }
    let all = Bytes::from_owner(pages);
    Ok(places.into_iter().map(|place| all.slice(place)).collect())
}

/// Maps memory that begins with a large page, if the system has such pages.
fn pages(size: usize) -> io::Result<MmapMut> {
    let pages = MmapMut::map_anon(size.next_multiple_of(PAGE))?;
    // A system without large pages refuses the advice and uses ordinary pages.
    let _ = pages.advise(Advice::HugePage);
    Ok(pages)
}
