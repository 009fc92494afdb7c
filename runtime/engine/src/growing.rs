//! A cache of a model that grows with the pages that its sequences reach.

use burn::tensor::Device;
use moebius::attention::{CacheFormat, Pages};
use moebius::pad;
use moebius_model::NoRoom;
use moebius_model::decoder::{Cache, ModelSpec};

use crate::pages::PAGE;
use crate::schedule::Limits;
use crate::shapes;

/// A cache that begins small, and doubles when tokens need more pages.
#[derive(Debug)]
pub(crate) struct GrowingCache {
    cache: Cache,
    limits: Limits,
}

impl GrowingCache {
    /// A cache of a model's sequences, with `first` pages at the start and up to [`Limits::pages`].
    ///
    /// # Errors
    /// As [`Cache::new`].
    pub(crate) fn new(
        spec: &ModelSpec,
        limits: Limits,
        (format, first): (CacheFormat, usize),
        device: &Device,
    ) -> Result<Self, moebius_model::Error> {
        let pages = Pages::paged(0, first, longest(&limits, first))?;
        let cache = Cache::new(spec, pages, format, device)?.up_to(limits.longest);
        if pad::is_needed(device) {
            // Keeps the making out of the program of the first call.
            shapes::end(device)?;
        }
        Ok(Self { cache, limits })
    }

    /// Makes the cache large enough for `needed` pages: twice as large as it is, as far as the limit allows, or if the device has no memory
    /// for that, by half of what would fit, so that there is memory left for other things.
    ///
    /// # Errors
    /// As [`Cache::grow`].
    pub(crate) fn grow(&mut self, needed: usize) -> Result<(), moebius_model::Error> {
        let now = self.cache.page_count();
        if needed <= now {
            return Ok(());
        }
        let twice = needed.max(2 * now).min(self.limits.pages);
        let mut grow = |pages| self.cache.grow(pages, longest(&self.limits, pages));
        match grow(twice) {
            Err(moebius_model::Error::NoRoom(NoRoom { tokens, .. })) if twice > needed => {
                let fits = tokens as usize / PAGE;
                grow(needed.max(needed.midpoint(fits)).min(twice))
            }
            grown => grown,
        }
    }

    /// The cache as it is now.
    pub(crate) fn now(&self) -> &Cache {
        &self.cache
    }

    /// The cache as it is now, for a model's next tokens.
    pub(crate) fn now_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }
}

/// Number of tokens that the longest request may have in a cache of `pages` pages.
fn longest(limits: &Limits, pages: usize) -> usize {
    limits.longest.min(pages.saturating_mul(PAGE))
}
