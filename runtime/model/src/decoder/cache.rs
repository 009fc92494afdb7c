//! The cache of what all layers keep of earlier tokens, and the memory that it takes.

use burn::tensor::{DType, Device, Tensor};
use moebius::ErrorKind;
use moebius::attention::{Attend, CacheFormat, KvCache, Pages, Span, Step};
use moebius_ops::kv_cache::{BLOCK, Layout};
use moebius_weights::Unfit;

use super::convolution::{ConvolutionCache, Ends, LastValues, Turns};
use super::spec::{AttentionSpec, CacheScales, LayerSpec, Mixer, ModelSpec, check_chunk};
use crate::error::{Error, NoRoom};

/// Multiple that the width of a head in a cache is padded to.
const LANES: usize = 8;

/// Bytes that stay free when a cache grows, for the values that a step computes.
const SPARE: u64 = 64 << 20;

/// Cache of what all layers of a model keep of earlier tokens, for sequences that share a pool of pages: keys and values of attention, and the
/// last values of convolutions. A sequence of a model with convolutions can be shortened to full pages only.
#[derive(Clone, Debug)]
pub struct Cache {
    pages: Pages,
    layers: Vec<Pool>,
    /// Number of values that convolutions keep of a sequence; `None` for a model without convolutions.
    last_values: Option<usize>,
    /// Number of tokens of a sequence up to the newest one in each page; empty for a model without convolutions.
    ends: Ends,
    /// Scales of each layer in FP8, `None` where each token gets its own.
    scales: Vec<Option<CacheScales>>,
    memory: CacheMemory,
    /// Tokens of the longest sequence, once the cache has grown.
    longest: usize,
    /// Tokens of the smallest chunk in which a layer attends.
    chunk: Option<usize>,
    device: Device,
}

/// What one layer keeps of earlier tokens.
#[derive(Clone, Debug)]
enum Pool {
    Attention(KvCache),
    Convolution(LastValues),
}

/// The new tokens of a step.
pub(super) struct NewTokens {
    step: Step,
    /// Their places for convolutions; `None` for a model without convolutions.
    turns: Option<Turns>,
}

/// Cache of one layer during one step.
pub(super) enum LayerCache<'a> {
    Attention(AttentionCache<'a>),
    Convolution(ConvolutionCache<'a>),
}

/// Cache of the keys and values of one layer during one step.
pub(super) struct AttentionCache<'a> {
    pub(super) cache: &'a mut KvCache,
    pub(super) step: &'a Step,
    pub(super) scales: Option<CacheScales>,
}

/// Width of a head in a cache; the zeros that fill it up change no product.
fn padded(width: usize) -> usize {
    width.next_multiple_of(LANES)
}

/// Widths of a layer's keys and values in a cache.
fn dims(attention: &AttentionSpec) -> [usize; 2] {
    [attention.head_dim, attention.value_dim].map(padded)
}

impl Cache {
    /// Makes an empty cache for `pages`, which sets the number of sequences and their largest length. In FP8 a layer with
    /// [`cache_scales`](ModelSpec::cache_scales) uses them; keys and values that are more than 448 times as large become the largest code.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if the device's memory doesn't hold the cache, [`Error::Moebius`] with the errors of [`KvCache::new`], and
    /// [`Error::Config`] as [`ModelSpec::check_cached`].
    pub fn new(
        spec: &ModelSpec,
        pages: Pages,
        format: CacheFormat,
        device: &Device,
    ) -> Result<Self, Error> {
        spec.check_cached(pages.longest())?;
        let memory = CacheMemory::new(spec, [pages.pages(), pages.page()], format)?;
        memory.check(0, 0, device)?;
        let layers = spec.layers.iter().map(|layer| match &layer.mixer {
            Mixer::Attention(of) => {
                KvCache::new(&pages, of.kv_heads, dims(of), format, device).map(Pool::Attention)
            }
            Mixer::Convolution(of) => {
                let shape = [of.last_values(), spec.hidden];
                let last = LastValues::new(pages.pages(), shape, device);
                Ok(Pool::Convolution(last))
            }
        });
        let last_values = spec.last_values()?;
        let in_fp8 = format == CacheFormat::E4m3;
        let scales = |layer: usize| spec.cache_scales.get(layer).copied().flatten();
        let scales = (0..spec.layers.len()).map(|layer| scales(layer).filter(|_| in_fp8));
        Ok(Self {
            scales: scales.collect(),
            layers: layers.collect::<Result<_, _>>()?,
            device: device.clone(),
            longest: pages.longest(),
            chunk: spec.chunk(),
            ends: vec![0; last_values.map_or(0, |_| pages.pages())],
            last_values,
            memory,
            pages,
        })
    }

    /// Declares that sequences of up to `longest` tokens are expected once the cache has grown: rotary positions that depend on the length
    /// of a sequence are those of this length from its first token on.
    #[must_use]
    pub fn up_to(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// Tokens of the longest sequence, once the cache has grown.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Makes the cache `pages` pages large, with room for `longest` tokens in each sequence. What it holds stays where it is, to the bit,
    /// and the results of later steps don't depend on when it grew, but on XLA, whose order of summation depends on the shapes.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if the device's memory doesn't hold the larger cache, and [`Error::Moebius`] for fewer pages, and with the errors of
    /// [`Pages::grow`] and [`KvCache::grow`], [`Error::Config`] as [`ModelSpec::check_cached`]. After an error the cache is as before, unless
    /// the device has failed.
    pub fn grow(&mut self, pages: usize, longest: usize) -> Result<(), Error> {
        check_chunk(self.chunk, longest)?;
        let memory = CacheMemory {
            pages: pages as u64,
            ..self.memory
        };
        let now = self.memory.pages;
        memory.check(now, SPARE, &self.device)?;
        let mut grown = self.pages.clone();
        grown.grow(pages, longest)?;
        for layer in &mut self.layers {
            let layer = match layer {
                Pool::Attention(cache) => cache,
                Pool::Convolution(last) => {
                    last.grow(pages);
                    continue;
                }
            };
            layer.grow(&grown).map_err(|error| match error.kind() {
                // Something else has taken the memory since it was free. Layers that have grown go on with the pages so far.
                ErrorKind::Device => {
                    let free = moebius::memory_free(&self.device);
                    Error::NoRoom(memory.refused(free, now))
                }
                _ => Error::from(error),
            })?;
        }
        (self.pages, self.memory) = (grown, memory);
        if self.last_values.is_some() {
            self.ends.resize(pages, 0);
        }
        // On XLA this also keeps the growth out of the program of the next step.
        Ok(moebius::release_memory(&self.device)?)
    }

    /// The page table of the sequences, which can forget or shorten a sequence.
    pub fn pages(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// Number of pages.
    pub fn page_count(&self) -> usize {
        self.pages.pages()
    }

    /// Number of cached tokens of each sequence.
    pub fn lengths(&self) -> &[usize] {
        self.pages.lengths()
    }

    /// Number of tokens to whose multiples a sequence can be shortened, so that its next tokens are computed as if the others had never been
    /// there. 1 where all layers attend, as attention keeps the keys and values of each token; those of a page in a model with convolutions.
    pub fn shortened_to(&self) -> usize {
        self.last_values.map_or(1, |_| self.pages.page())
    }

    /// Bytes of the caches of all layers.
    pub fn bytes(&self) -> usize {
        let of = |layer: &Pool| match layer {
            Pool::Attention(cache) => cache.bytes(),
            Pool::Convolution(last) => last.bytes(),
        };
        self.layers.iter().map(of).sum()
    }

    pub(super) fn sequences(&self) -> usize {
        self.pages.lengths().len()
    }

    /// The step that puts new tokens into pages which the caller keeps.
    pub(super) fn step_of(&mut self, sequences: &[Span<'_>]) -> Result<NewTokens, Error> {
        let step = self.pages.step_of(sequences, &self.device)?;
        self.placed(step, 0)
    }

    /// Does what [`step_of`](Self::step_of) does with `tokens` rows for each sequence, in tables whose sizes depend on nothing else.
    pub(super) fn step_of_padded(
        &mut self,
        sequences: &[Span<'_>],
        tokens: usize,
    ) -> Result<NewTokens, Error> {
        let step = self.pages.step_of(sequences, &self.device)?;
        let page = self.pages.page();
        // The first of a sequence's new tokens may be the last of a page.
        let pages = (tokens + page - 2) / page + 1;
        self.placed(step.filled_up_to(tokens)?, sequences.len() * pages)
    }

    /// Makes room for new tokens: `tokens` has their number for each sequence.
    pub(super) fn extend(&mut self, tokens: &[usize]) -> Result<NewTokens, Error> {
        let step = self.pages.extend(tokens, &self.device)?;
        self.placed(step, 0)
    }

    /// The new tokens of a step, and for convolutions their turns, in tables for at least `least` pages.
    fn placed(&mut self, step: Step, least: usize) -> Result<NewTokens, Error> {
        let turns = match self.last_values {
            Some(values) => {
                let (sizes, ends) = ([values, self.pages.page()], &mut self.ends);
                Some(Turns::new(&step, sizes, least, ends, &self.device)?)
            }
            None => None,
        };
        Ok(NewTokens { step, turns })
    }

    pub(super) fn layer<'a>(&'a mut self, layer: usize, new: &'a NewTokens) -> LayerCache<'a> {
        match (&mut self.layers[layer], &new.turns) {
            (Pool::Attention(cache), _) => LayerCache::Attention(AttentionCache {
                cache,
                step: &new.step,
                scales: self.scales[layer],
            }),
            (Pool::Convolution(last), Some(turns)) => {
                LayerCache::Convolution(ConvolutionCache { last, turns })
            }
            (Pool::Convolution(_), None) => unreachable!("a model with convolutions has turns"),
        }
    }
}

/// The memory that a cache takes, from a model's description alone: a device is asked for it before anything is made. A step and a margin are
/// counted where a caller adds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMemory {
    /// Number of pages.
    pages: u64,
    /// Tokens of a page.
    page: u64,
    /// Bytes of a page, over all layers.
    all: u64,
    /// Bytes of a page in the layer in which it has the most.
    largest: u64,
    /// Bytes of the values that a step computes.
    step: u64,
    /// Percent of the needed bytes that must be free beyond them.
    margin: u32,
}

impl CacheMemory {
    /// The memory of a cache of a model, with `pages` pages of `page` tokens.
    ///
    /// # Errors
    /// [`Error::Config`] for more tokens than a cache of the model can have on any device, [`Error::Moebius`] for heads that no cache takes.
    pub fn new(
        spec: &ModelSpec,
        [pages, page]: [usize; 2],
        format: CacheFormat,
    ) -> Result<Self, Error> {
        let (mut all, mut largest) = (0, 0);
        for layer in &spec.layers {
            let attention = match &layer.mixer {
                Mixer::Attention(attention) => attention,
                Mixer::Convolution(of) => {
                    let shape = [of.last_values(), spec.hidden];
                    let bytes = LastValues::bytes_of_page(shape) as u64;
                    (all, largest) = (all + bytes, bytes.max(largest));
                    continue;
                }
            };
            let (heads, dims) = (attention.kv_heads, dims(attention));
            let one = Layout::new([1, BLOCK], heads, dims, format).map_err(moebius::Error::from)?;
            let words = one.page_words().saturating_mul(page / BLOCK);
            // A word's place in the pool of a layer is a signed number of 32 bits.
            let most = i32::MAX as usize / words.max(1);
            if pages > most {
                let expected = format!("at most {}", most * page);
                let got = pages.saturating_mul(page);
                return Err(Error::Config(Unfit::new(
                    "tokens of a cache",
                    expected,
                    got,
                )));
            }
            let bytes = 4 * words as u64;
            (all, largest) = (all + bytes, bytes.max(largest));
        }
        Ok(Self {
            pages: pages as u64,
            page: page as u64,
            all,
            largest,
            step: 0,
            margin: 0,
        })
    }

    /// This memory, with that of a step over `tokens` tokens, of which `rows` get logits: an estimate, for values in f32. The parts of layers
    /// and the head compute one after another in the same memory, so that the one with the most values counts. Logits of several rows are there
    /// twice.
    #[must_use]
    pub fn with_step(self, spec: &ModelSpec, tokens: usize, rows: usize) -> Self {
        self.with_exact_step(spec, tokens, rows, 0)
    }

    /// As [`Self::with_step`], of a model whose passes have the same bits on every device ([`Model::with_exact`](super::Model::with_exact)): its
    /// kernels keep the score of each query and each of the `keys` tokens that a sequence's pages have room for. On Flex, which has no kernels,
    /// threads keep those of one query, and `keys` is 0.
    #[must_use]
    pub fn with_exact_step(
        self,
        spec: &ModelSpec,
        tokens: usize,
        rows: usize,
        keys: usize,
    ) -> Self {
        let of_layer = |layer: &LayerSpec| layer.values(spec.hidden, keys) as u64;
        let of_token = spec.layers.iter().map(of_layer).max().unwrap_or(0);
        let of_layers = (tokens as u64).saturating_mul(of_token);
        let before = (tokens as u64).saturating_mul(2 * spec.hidden as u64);
        // Flex computes columns of several rows apart, and copies them together.
        let copies = if rows > 1 { 2 } else { 1 };
        let logits = (rows as u64).saturating_mul(spec.vocabulary as u64);
        let logits = logits.saturating_mul(copies);
        let most = of_layers.max(before.saturating_add(logits));
        let step = most.saturating_mul(4);
        Self { step, ..self }
    }

    /// This memory, with so many bytes of a step for weights that its products decode ahead; without a step it stays as it is.
    #[must_use]
    pub(crate) fn with_decoded(self, bytes: u64) -> Self {
        let decoded = if self.step > 0 { bytes } else { 0 };
        let step = self.step.saturating_add(decoded);
        Self { step, ..self }
    }

    /// This memory, for a check that wants so many percent more to be free than what it counts.
    #[must_use]
    pub fn with_margin(self, percent: u32) -> Self {
        Self {
            margin: percent,
            ..self
        }
    }

    /// Bytes that are counted, those of the pages while they are made and of a step, without the margin.
    pub fn bytes(&self) -> u64 {
        self.needed(0).saturating_add(self.step)
    }

    /// Checks that a device has memory for this cache and `beside` bytes more, where `now` of the pages are there already.
    ///
    /// # Errors
    /// [`NoRoom`] for more bytes than are free, or than one buffer may have. A device that doesn't tell ([`moebius::memory_free`]) passes.
    pub(crate) fn check(&self, now: u64, beside: u64, device: &Device) -> Result<(), NoRoom> {
        if let Some(most) = moebius::largest_buffer(device) {
            let needed = self.pages.saturating_mul(self.largest);
            if needed > most {
                let tokens = most / self.largest * self.page;
                return Err(NoRoom {
                    needed,
                    free: most,
                    tokens,
                });
            }
        }
        let release = || moebius::release_memory(device).is_ok();
        self.check_free([now, beside], || moebius::memory_free(device), release)
    }

    /// As [`Self::check`], with what `free` tells. Before memory is refused, `release` makes a device's pools give back what they keep without
    /// use, which counts as taken until then.
    fn check_free(
        &self,
        [now, beside]: [u64; 2],
        free: impl Fn() -> Option<u64>,
        release: impl FnOnce() -> bool,
    ) -> Result<(), NoRoom> {
        let fits = || free().map_or(Ok(()), |free| self.check_within(free, now, beside));
        fits().or_else(|refused| if release() { fits() } else { Err(refused) })
    }

    /// Checks that this cache, a step, `beside` bytes more and the margin fit into `free` bytes, where `now` of the pages are there already.
    /// While a layer's pool is made, zeros and the pool before exist beside it, at most twice its bytes. The margin takes no tokens away from
    /// those that would fit.
    fn check_within(&self, free: u64, now: u64, beside: u64) -> Result<(), NoRoom> {
        let beside = beside.saturating_add(self.step);
        let needed = self.needed(now).saturating_add(beside);
        let margin = u128::from(needed) * u128::from(self.margin) / 100;
        let needed = needed.saturating_add(u64::try_from(margin).unwrap_or(u64::MAX));
        if needed <= free {
            return Ok(());
        }
        let room = free.saturating_sub(beside).saturating_add(now * self.all);
        let fits = room.checked_div(self.making()).unwrap_or(0).max(now);
        Err(NoRoom {
            needed,
            free,
            tokens: fits * self.page,
        })
    }

    /// Bytes that are left of `free` bytes beside this cache, a step, `beside` bytes more and the margin.
    pub(crate) fn left(&self, free: u64, beside: u64) -> u64 {
        let usable = u128::from(free) * 100 / (100 + u128::from(self.margin));
        let usable = u64::try_from(usable).unwrap_or(u64::MAX);
        let taken = self.needed(0).saturating_add(self.step);
        usable.saturating_sub(taken.saturating_add(beside))
    }

    /// Bytes that this cache needs where `now` of the pages are there already.
    fn needed(&self, now: u64) -> u64 {
        let pages = self.pages.saturating_mul(self.making());
        pages.saturating_sub(now * self.all)
    }

    /// Bytes for each page while the cache is made.
    fn making(&self) -> u64 {
        self.all + 2 * self.largest
    }

    /// The error of a system that refused the memory, with `now` pages there already.
    fn refused(&self, free: Option<u64>, now: u64) -> NoRoom {
        NoRoom {
            needed: self.needed(now),
            free: free.unwrap_or(0),
            tokens: now * self.page,
        }
    }
}

impl AttentionCache<'_> {
    /// Appends the new keys and values, then computes o \[B, heads, S, Dv\] of the queries over all tokens so far.
    pub(super) fn attend(
        &mut self,
        [q, k, v]: [Tensor<4>; 3],
        attend: &Attend,
    ) -> Result<Tensor<4>, Error> {
        let [b, heads, s, width] = v.dims();
        let [_, queries, ..] = q.dims();
        debug_assert!(queries.is_multiple_of(heads));
        let [k, v] = match self.scales {
            Some(scales) => [divided(k, scales.keys), divided(v, scales.values)],
            None => [k, v],
        };
        let [q, k, v] = [q, k, v].map(wide);
        self.cache.append(k, v, self.step)?;
        let found = self.cache.attend(q, self.step, attend)?.o;
        let found = match self.scales {
            Some(scales) => found.mul_scalar(scales.values),
            None => found,
        };
        Ok(if padded(width) == width {
            found
        } else {
            found.slice([0..b, 0..queries, 0..s, 0..width])
        })
    }

    /// Does what [`attend`](Self::attend) does with the same bits on every device, in a cache in f32.
    pub(super) fn attend_exactly(
        &mut self,
        [q, k, v]: [Tensor<4>; 3],
        attend: &Attend,
    ) -> Result<Tensor<4>, Error> {
        let format = self.cache.format();
        let right = format == CacheFormat::F32;
        Error::check(right, "cache of an exact model", "f32", format)?;
        let ([b, _, s, width], [_, queries, ..]) = (v.dims(), q.dims());
        let [q, k, v] = [q, k, v].map(wide);
        self.cache.append(k, v, self.step)?;
        let found = self.cache.attend_exactly(q, self.step, attend)?;
        Ok(found.slice([0..b, 0..queries, 0..s, 0..width]))
    }
}

/// Keys or values over a scale, as codes of E4M3 will hold them: up to 448, and in steps of 2⁻⁹ below 2⁻⁶. The power of two that the cache
/// divides them by is at most 1 then, and changes no rounding.
fn divided(heads: Tensor<4>, scale: f32) -> Tensor<4> {
    const LARGEST: f32 = 448.0;
    const SMALLEST: f32 = 0.015_625;
    const STEPS: f32 = 512.0;
    let x = heads.cast(DType::F32).div_scalar(scale);
    let x = x.clamp(-LARGEST, LARGEST);
    let is_small = x.clone().abs().lower_elem(SMALLEST);
    let stepped = x.clone().mul_scalar(STEPS).round().div_scalar(STEPS);
    x.mask_where(is_small, stepped)
}

/// Heads, filled up with zeros to their width in caches.
fn wide(heads: Tensor<4>) -> Tensor<4> {
    let [b, n, s, width] = heads.dims();
    let missing = padded(width) - width;
    if missing == 0 {
        return heads;
    }
    let zeros = Tensor::zeros([b, n, s, missing], (&heads.device(), heads.dtype()));
    Tensor::cat(vec![heads, zeros], 3)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "cache_scales_tests.rs"]
mod scales_tests;
