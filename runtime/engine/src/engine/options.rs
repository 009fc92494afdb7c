//! Options of an engine.

use moebius::attention::CacheFormat;
use moebius_model::decoder::{CacheMemory, ModelSpec};

use super::EngineError;
use crate::pages::PAGE;
use crate::schedule::Limits;

/// Default number of prompt tokens that are computed in one step.
const BATCH_TOKENS: usize = 512;

/// Default number of pages that a cache has from the start, for 1024 tokens.
const FIRST_PAGES: usize = 64;

/// Limits of an engine, and the format and first size of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Limits on the pages of the cache, the tokens of a step, the concurrent requests and the tokens of a request.
    pub limits: Limits,
    /// Format of the cached keys and values.
    pub format: CacheFormat,
    /// Number of pages that the cache has from the start, at least one and at most [`Limits::pages`]. The cache doubles where tokens need
    /// more, up to these, as far as the device has memory.
    pub reserve: usize,
    /// Percent of what [`Self::memory`] counts that must be free beyond it before a model is loaded, because a step's memory is an estimate and
    /// others use the device, too. 0 leaves the step out as well: weights and first pages alone must fit then.
    pub margin: u32,
}

impl EngineOptions {
    /// Default of [`Self::margin`].
    pub const MARGIN: u32 = 20;

    /// Options with these limits; keys and values are stored in f32, and the cache begins with room for 1024 tokens.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            format: CacheFormat::F32,
            reserve: FIRST_PAGES,
            margin: Self::MARGIN,
        }
    }

    /// Options for one request at a time with at most `tokens` tokens of prompt and answer, otherwise as [`Self::new`] has them.
    pub fn for_one(tokens: usize) -> Self {
        Self::for_all([tokens])
    }

    /// Options for requests that run at the same time, with at most so many tokens of prompt and answer each, otherwise as [`Self::new`] has
    /// them. Of more than 512 requests the later ones wait until others have ended: the cache may have pages for the 512 longest.
    pub fn for_all(tokens: impl IntoIterator<Item = usize>) -> Self {
        let mut needed: Vec<usize> = tokens.into_iter().map(|some| some.div_ceil(PAGE)).collect();
        needed.sort_unstable();
        let longest = needed.last().map_or(0, |most| most.saturating_mul(PAGE));
        let running = needed.len().clamp(1, BATCH_TOKENS);
        let together = needed.iter().rev().take(running);
        let pages = together.fold(0, |sum: usize, some| sum.saturating_add(*some));
        // Beside others a request begins only where a hundredth of all pages stays free.
        let spare = if running > 1 { pages.div_ceil(99) } else { 0 };
        let limits = Limits::new(pages.saturating_add(spare), BATCH_TOKENS, running);
        Self::new(Limits { longest, ..limits })
    }

    /// These options, with all pages from the start: nothing grows while requests run, as a measurement wants it.
    pub fn reserved(self) -> Self {
        Self {
            reserve: self.limits.pages,
            ..self
        }
    }

    /// The memory that the cache takes at the start and a step as large as the limits allow, with the margin, for a check before a model's
    /// weights are loaded ([`ModelFiles::check_memory`](moebius_model::load::ModelFiles::check_memory)).
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for invalid limits, and [`EngineError::Model`] for more tokens than a cache can have on any device.
    pub fn memory(&self, spec: &ModelSpec) -> Result<CacheMemory, EngineError> {
        self.counted(spec, false)
    }

    /// As [`Self::memory`], for a model whose passes have the same bits on every device
    /// ([`Model::with_exact`](moebius_model::decoder::Model::with_exact)) on a device with kernels, which keep the scores of a step and of all
    /// tokens that the first pages hold. On Flex it is [`Self::memory`], too.
    ///
    /// # Errors
    /// As [`Self::memory`].
    pub fn exact_memory(&self, spec: &ModelSpec) -> Result<CacheMemory, EngineError> {
        self.counted(spec, true)
    }

    fn counted(&self, spec: &ModelSpec, scores: bool) -> Result<CacheMemory, EngineError> {
        CacheMemory::new(spec, [self.limits.pages, PAGE], self.format)?;
        self.limits.check()?;
        spec.check_cached(self.limits.longest)?;
        let first = CacheMemory::new(spec, [self.first(), PAGE], self.format)?;
        if self.margin == 0 {
            return Ok(first);
        }
        // No step has more tokens than the cache may get.
        let Limits {
            pages,
            batch_tokens,
            running,
            longest,
            ..
        } = self.limits;
        let tokens = batch_tokens.min(pages.saturating_mul(PAGE));
        let keys = longest.min(self.first().saturating_mul(PAGE));
        let keys = if scores { keys } else { 0 };
        let with_step = first.with_exact_step(spec, tokens, running.min(tokens), keys);
        Ok(with_step.with_margin(self.margin))
    }

    /// Number of pages that the cache has from the start.
    pub(super) fn first(&self) -> usize {
        self.reserve.clamp(1, self.limits.pages.max(1))
    }
}
