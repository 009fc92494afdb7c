//! Memory in large pages.

use bytes::Bytes;
use memmap2::{Advice, MmapMut};
use rayon::prelude::*;
use std::mem;
use std::ops::{Deref, Range};

/// The size of a large page; less memory than that gains nothing.
const PAGE: usize = 2 << 20;
/// The alignment of each value: a line of the processor's caches.
const LINE: usize = 64;

/// Memory for values side by side in one mapping of pages of 2 MiB, if the system has such pages. It is zero until it is written to.
#[derive(Debug)]
pub struct LargePages {
    pages: MmapMut,
    /// Where each value lies.
    places: Vec<Range<usize>>,
}

impl LargePages {
    /// Memory for values of so many bytes each. `None` where they don't fill a page, or the system has no memory for them.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> Option<Self> {
        let (mut places, mut end) = (Vec::new(), 0_usize);
        for size in sizes {
            let begin = end.checked_next_multiple_of(LINE)?;
            end = begin.checked_add(size)?;
            places.push(begin..end);
        }
        if end < PAGE {
            return None;
        }
        let pages = MmapMut::map_anon(end.checked_next_multiple_of(PAGE)?).ok()?;
        // A system without large pages refuses the advice and uses ordinary pages.
        let _ = pages.advise(Advice::HugePage);
        Some(Self { pages, places })
    }

    /// The memory of each value.
    pub fn parts(&mut self) -> Vec<&mut [u8]> {
        let (mut rest, mut at) = (&mut self.pages[..], 0);
        let part = |place: &Range<usize>| {
            let left = &mut mem::take(&mut rest)[place.start - at..];
            let (part, behind) = left.split_at_mut(place.len());
            (rest, at) = (behind, place.end);
            part
        };
        self.places.iter().map(part).collect()
    }

    /// The values, which share the mapping and don't change any more.
    pub fn share(self) -> Vec<Bytes> {
        let all = Bytes::from_owner(self.pages);
        let places = self.places.into_iter();
        places.map(|place| all.slice(place)).collect()
    }
}

/// Copies values to [`LargePages`]. Each value is dropped after its copy is made.
///
/// # Errors
/// The values themselves, if they don't fill a page or the system has no memory for them.
pub fn in_large_pages<V: Deref<Target = [u8]>>(values: Vec<V>) -> Result<Vec<Bytes>, Vec<V>> {
    let Some(mut pages) = LargePages::new(values.iter().map(|value| value.len())) else {
        return Err(values);
    };
    for (to, value) in pages.parts().into_iter().zip(values) {
        let bytes: &[u8] = &value;
        // All threads copy, because the thread that first touches a page waits while the system clears it.
        to.par_chunks_mut(PAGE)
            .zip(bytes.par_chunks(PAGE))
            .for_each(|(to, from)| to.copy_from_slice(from));
    }
    Ok(pages.share())
}
