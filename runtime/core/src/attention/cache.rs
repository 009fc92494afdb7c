//! A cache of keys and values across steps: [`Pages`] tracks on the host which page of a pool holds which tokens, and [`KvCache`] is the
//! pool of one layer.

use super::{Attend, Attended, CacheFormat};
use crate::Error;
use crate::check::{check_device, check_equal, check_same, element};
use crate::device::is_flex;
use crate::ops::{self, DeviceValue};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::attention::Sizes;
use moebius_ops::exact::Seen;
use moebius_ops::kv_cache::{Append, Attend as CachedAttention, BLOCK, Layout};
use moebius_ops::{Fault, Mismatch};

/// The page tables of a batch of sequences, shared by the caches of all layers.
///
/// A sequence gets pages when it grows and gives them back when it is released or cut: sequences of any lengths share a pool, and no token
/// moves. The pool may begin small and grow ([`Pages::grow`]).
#[derive(Clone, Debug)]
pub struct Pages {
    /// Tokens in a page.
    page: usize,
    /// Pages in the pool.
    pages: usize,
    /// The most pages that a sequence may have.
    most: usize,
    /// Free pages; the last one is handed out next.
    free: Vec<u32>,
    /// The pages of each sequence, in the order of its tokens.
    owned: Vec<Vec<u32>>,
    /// The number of tokens of each sequence.
    lengths: Vec<usize>,
}

/// The new tokens of every sequence in one step, as tables on a device: an argument of [`KvCache::append`](super::KvCache::append) and
/// [`KvCache::attend`](super::KvCache::attend) in every layer.
#[derive(Clone, Debug)]
pub struct Step {
    /// The pages of each sequence \[B, M\].
    table: Tensor<2, Int>,
    /// The first new token of each sequence, and one past its last \[B, 2\].
    spans: Tensor<2, Int>,
    /// The number of pages of the pool, and of tokens in a page.
    pool: [usize; 2],
    /// The pages of each sequence on the host, and the range of its new tokens.
    sequences: Vec<(Vec<u32>, [usize; 2])>,
    /// The number of rows for the new tokens of each sequence.
    tokens: usize,
}

/// A sequence whose pages the caller assigns, with the range of its new tokens.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The pages of the sequence, in the order of its tokens. Several sequences may share a page that none of them writes.
    pub pages: &'a [u32],
    /// The first new token.
    pub start: usize,
    /// One past the last new token.
    pub end: usize,
}

impl Step {
    /// The largest number of new tokens of a sequence, or what [`filled_up_to`](Self::filled_up_to) made of it: T of k and v, and Sq of q. The
    /// new tokens of a shorter sequence come first in its rows, and the rows after them aren't read.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// This step with `tokens` rows for each sequence.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for fewer rows than a sequence has new tokens.
    pub fn filled_up_to(self, tokens: usize) -> Result<Self, Error> {
        let expected = format_args!("at least {}", self.tokens);
        Mismatch::unless(tokens >= self.tokens, "rows of a step", expected, tokens)?;
        Ok(Self { tokens, ..self })
    }

    /// The pages of each sequence and the range of its new tokens, for what a program caches beside keys and values.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = Span<'_>> {
        let sequences = self.sequences.iter();
        sequences.map(|(pages, [start, end])| Span {
            pages,
            start: *start,
            end: *end,
        })
    }
}

impl Pages {
    /// One page of `capacity` tokens, rounded up to a multiple of 16, for each of `sequences` sequences.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a capacity of 0, or of 2³⁰ tokens or more.
    pub fn contiguous(sequences: usize, capacity: usize) -> Result<Self, Error> {
        Self::new(sequences, [sequences, capacity.div_ceil(BLOCK)], 1)
    }

    /// A pool of `pages` pages of 16 tokens for `sequences` sequences of at most `longest` tokens.
    ///
    /// # Errors
    /// As [`Pages::contiguous`].
    pub fn paged(sequences: usize, pages: usize, longest: usize) -> Result<Self, Error> {
        Self::new(sequences, [pages, 1], longest.div_ceil(BLOCK))
    }

    fn new(sequences: usize, [pages, blocks]: [usize; 2], most: usize) -> Result<Self, Error> {
        let tokens = blocks.saturating_mul(BLOCK);
        check_pool([pages, tokens], most)?;
        Ok(Self {
            page: tokens,
            pages,
            most,
            free: (0..pages as u32).rev().collect(),
            owned: vec![Vec::new(); sequences],
            lengths: vec![0; sequences],
        })
    }

    /// Makes the pool `pages` pages large, and room for `longest` tokens in each sequence. All pages so far keep their numbers and their
    /// sequences; [`KvCache::grow`] follows for every cache of the pool, and the next step is made after it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a pool of fewer pages, shorter sequences, or more than [`Pages::contiguous`]
    /// takes; after an error nothing has changed.
    pub fn grow(&mut self, pages: usize, longest: usize) -> Result<(), Error> {
        let most = longest.div_ceil(self.page);
        check_pool([pages, self.page], most)?;
        for (what, now, then) in [
            ("pages of a pool that grows", self.pages, pages),
            ("pages of a sequence in a pool that grows", self.most, most),
        ] {
            Fault::Config.unless(then >= now, what, format_args!("at least {now}"), then)?;
        }
        // The new pages come after those that are free already, so that low numbers are handed out first.
        let [from, to] = [self.pages, pages].map(|page| page as u32);
        self.free.splice(0..0, (from..to).rev());
        (self.pages, self.most) = (pages, most);
        Ok(())
    }

    /// The number of pages in the pool.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The number of tokens in a page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// The largest number of tokens that a sequence may have.
    pub fn longest(&self) -> usize {
        self.most * self.page
    }

    /// The number of tokens of each sequence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The number of free pages.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Makes room on `device` for `tokens[b]` new tokens of each sequence b.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of sequences, [`ErrorKind::State`](crate::ErrorKind::State) for a
    /// sequence that would have more tokens than its pages hold, and where too few pages are free; after an error no sequence has grown.
    pub fn extend(&mut self, tokens: &[usize], device: &Device) -> Result<Step, Error> {
        check_same("new tokens of sequences", tokens.len(), self.lengths.len())?;
        let longest = self.longest();
        let mut needed = 0;
        for (sequence, more) in tokens.iter().enumerate() {
            let length = self.lengths[sequence].saturating_add(*more);
            if length > longest {
                let expected = format!("at most {longest}");
                let what = "tokens of a sequence";
                return Err(Fault::State.error(what, expected, length).into());
            }
            needed += length.div_ceil(self.page) - self.owned[sequence].len();
        }
        if needed > self.free.len() {
            let expected = format!("at most the {} that are free", self.free.len());
            return Err(Fault::State.error("new pages", expected, needed).into());
        }
        let mut sequences = Vec::with_capacity(tokens.len());
        for (sequence, more) in tokens.iter().enumerate() {
            let (start, end) = (self.lengths[sequence], self.lengths[sequence] + more);
            let missing = end.div_ceil(self.page) - self.owned[sequence].len();
            let kept = self.free.len() - missing;
            self.owned[sequence].extend(self.free.drain(kept..).rev());
            self.lengths[sequence] = end;
            sequences.push((self.owned[sequence].clone(), [start, end]));
        }
        Ok(self.step(sequences, device))
    }

    /// Describes new tokens of sequences in pages of this pool that the caller assigns; the pages and lengths that [`Pages::extend`]
    /// manages stay as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a sequence that ends before it starts, one whose number of pages isn't what its
    /// tokens need or is more than a sequence may have, and a page that the pool doesn't have.
    pub fn step_of(&self, sequences: &[Span<'_>], device: &Device) -> Result<Step, Error> {
        let mut owned = Vec::new();
        for &Span { pages, start, end } in sequences {
            if end < start {
                let expected = format!("at least its start, {start}");
                return Err(Mismatch::new("end of new tokens", expected, end).into());
            }
            let needed = end.div_ceil(self.page);
            if pages.len() != needed || needed > self.most {
                let expected = format!("{needed}, and at most {}", self.most);
                return Err(Mismatch::new("pages of a sequence", expected, pages.len()).into());
            }
            if let Some(page) = pages.iter().find(|page| **page as usize >= self.pages) {
                let expected = format!("less than {}", self.pages);
                return Err(Mismatch::new("page", expected, page).into());
            }
            owned.push((pages.to_vec(), [start, end]));
        }
        Ok(self.step(owned, device))
    }

    fn step(&self, sequences: Vec<(Vec<u32>, [usize; 2])>, device: &Device) -> Step {
        // Unused entries name a page that the pool doesn't have.
        let row = |(pages, _): &(Vec<u32>, _)| {
            let page = |at| pages.get(at).map_or(i32::MAX, |page| *page as i32);
            (0..self.most).map(page).collect::<Vec<_>>()
        };
        let table: Vec<i32> = sequences.iter().flat_map(row).collect();
        let tokens = sequences.iter().map(|(_, [start, end])| end - start);
        let tokens = tokens.max().unwrap_or(0);
        let spans = sequences.iter().flat_map(|(_, span)| *span);
        let spans = spans.map(|token| token as i32).collect();
        let words = |words: Vec<i32>, columns: usize| {
            let data = TensorData::new(words, [sequences.len(), columns]);
            Tensor::from_data(data, (device, DType::I32))
        };
        Step {
            table: words(table, self.most),
            spans: words(spans, 2),
            pool: [self.pages, self.page],
            sequences,
            tokens,
        }
    }

    /// Cuts a sequence to its first `tokens` tokens and frees the pages that become empty.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for a sequence that doesn't exist, or more tokens than it has.
    pub fn truncate(&mut self, sequence: usize, tokens: usize) -> Result<(), Error> {
        let Some(length) = self.lengths.get_mut(sequence) else {
            let expected = format!("less than {}", self.lengths.len());
            return Err(Fault::State.error("sequence", expected, sequence).into());
        };
        if tokens > *length {
            let expected = format!("at most the {length} tokens of the sequence");
            return Err(Fault::State
                .error("tokens to keep", expected, tokens)
                .into());
        }
        *length = tokens;
        let kept = tokens.div_ceil(self.page);
        self.free.extend(self.owned[sequence].drain(kept..).rev());
        Ok(())
    }

    /// Removes all tokens of a sequence, so that another one may take its place.
    ///
    /// # Errors
    /// As [`Pages::truncate`].
    pub fn release(&mut self, sequence: usize) -> Result<(), Error> {
        self.truncate(sequence, 0)
    }
}

/// Checks the number of pages of a pool, of tokens in a page, and of pages that a sequence may have.
fn check_pool([pages, tokens]: [usize; 2], most: usize) -> Result<(), Mismatch> {
    let all = most.saturating_mul(tokens).max(pages);
    let fits = (1..1 << 30).contains(&all) && tokens > 0;
    let got = format_args!("{pages} pages of {tokens}, {most} of them for a sequence");
    Fault::Config.unless(fits, "pages", "1 to 2^30 - 1 tokens and pages", got)
}

/// The keys and values of one layer in pages, appended in place and read in place by an attention.
///
/// The cache is for inference: the results have no gradient. Values are stored as f32, f16 or bf16, or as FP8 with a power-of-two scale for
/// each token and head (infinities become the largest finite value), whatever dtype the device computes in.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::{Attend, CacheFormat, KvCache, Pages};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let random = |heads, tokens| {
///     Tensor::<4>::random([2, heads, tokens, 64], Distribution::Default, &device)
/// };
/// // Two sequences share 100 pages of 16 tokens; either has at most 512 tokens.
/// let mut pages = Pages::paged(2, 100, 512)?;
/// let mut cache = KvCache::new(&pages, 2, [64, 64], CacheFormat::E4m3, &device)?;
/// let attend = Attend::new().causal();
/// // A prompt of 30 tokens and one of 7, and then a token of either.
/// for tokens in [[30, 7], [1, 1]] {
///     let step = pages.extend(&tokens, &device)?;
///     let t = step.tokens();
///     cache.append(random(2, t), random(2, t), &step)?;
///     let out = cache.attend(random(8, t), &step, &attend)?;
///     assert_eq!(out.o.dims(), [2, 8, t, 64]);
/// }
/// assert_eq!(pages.lengths(), [31, 8]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KvCache {
    /// The pool; `None` only while tokens are appended, or pages are added.
    pool: Option<Tensor<2, Int>>,
    layout: Layout,
    device: Device,
}

impl KvCache {
    /// An empty cache of keys of `kv_heads` heads of D elements and values of Dv (multiples of 8, at most 256) on `device`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for other sizes, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a pool of 2³¹
    /// words or more, [`ErrorKind::Device`](crate::ErrorKind::Device) if the host has no memory for the pool on `flex`.
    pub fn new(
        pages: &Pages,
        kv_heads: usize,
        dims: [usize; 2],
        format: CacheFormat,
        device: &Device,
    ) -> Result<Self, Error> {
        let layout = Layout::new([pages.pages(), pages.page()], kv_heads, dims, format)?;
        Ok(Self {
            pool: Some(zeros(&layout, layout.pages(), device)?),
            layout,
            device: device.clone(),
        })
    }

    /// Takes over the pages that `pages` got by [`Pages::grow`]: the pages so far keep what they hold, the new ones hold nothing. The
    /// device copies the pool; until it has, the old pool and the new one take memory.
    ///
    /// # Errors
    /// As [`KvCache::new`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for pages of another size; after an error the cache is
    /// unchanged, and so is one that has as many pages already.
    pub fn grow(&mut self, pages: &Pages) -> Result<(), Error> {
        let l = self.layout;
        check_same("tokens of a page", pages.page(), l.page())?;
        let dims = [l.head_dim(), l.value_dim()];
        let size = [pages.pages(), pages.page()];
        let layout = Layout::new(size, l.kv_heads(), dims, l.format())?;
        if layout.pages() > l.pages() {
            let new = zeros(&layout, layout.pages() - l.pages(), &self.device)?;
            let old = self.pool.take();
            self.pool = Some(Tensor::cat(old.into_iter().chain([new]).collect(), 0));
            self.layout = layout;
        }
        Ok(())
    }

    /// How keys and values are kept.
    pub fn format(&self) -> CacheFormat {
        self.layout.format()
    }

    /// The size of the pool in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// Appends the keys \[B, Hkv, T, D\] and values \[B, Hkv, T, Dv\] of the new tokens of `step`, in place; if a clone of the cache shares
    /// the memory, the memory is copied first.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes or dtypes, or a step of other pages,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) for other devices, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a
    /// device that can't compute the operation; after an error the cache is unchanged.
    pub fn append(&mut self, k: Tensor<4>, v: Tensor<4>, step: &Step) -> Result<(), Error> {
        let l = self.layout;
        let ([batch, most], tokens) = (self.check(step, &k)?, step.tokens());
        let shape = |dim| [batch, l.kv_heads(), tokens, dim];
        check_same("k [B, Hkv, T, D]", k.dims(), shape(l.head_dim()))?;
        check_same("v [B, Hkv, T, Dv]", v.dims(), shape(l.value_dim()))?;
        check_same("dtype of v", v.dtype(), k.dtype())?;
        check_device("device of v", v.device(), &k.device())?;
        let problem = Append {
            layout: l,
            batch,
            tokens,
            table: most,
            element: element(k.dtype())?,
        };
        problem.check()?;
        if batch * tokens == 0 {
            return Ok(());
        }
        let places = [step.table.clone(), step.spans.clone()];
        ops::kv_cache::append([k, v], &mut self.pool, places, problem)
    }

    /// Computes o \[B, Hq, Sq, Dv\] and its log-sum-exp for the queries q \[B, Hq, Sq, D\] of the new tokens of `step`, over all tokens of
    /// their sequences: query i of a sequence is at the position of its new token i. Queries past the new tokens of a shorter sequence have
    /// o = 0 and lse = `f32::MIN`.
    ///
    /// # Errors
    /// As [`KvCache::append`]; also for a dropout, a position, a rule of the program's own, a rule with a table of pairs (documents,
    /// blocks, mask, bias), and a rule that counts keys from the first query.
    pub fn attend(&self, q: Tensor<4>, step: &Step, attend: &Attend) -> Result<Attended, Error> {
        let (problem, tables) = self.problem(&q, step, attend)?;
        let [batch, heads, queries, _] = q.dims();
        let rows = [batch, heads, queries];
        if rows.contains(&0) {
            let o = [batch, heads, queries, self.layout.value_dim()];
            return Ok(Attended {
                o: Tensor::zeros(o, (&self.device, q.dtype())),
                lse: Tensor::zeros(rows, (&self.device, DType::F32)),
            });
        }
        let places = [step.table.clone(), step.spans.clone()];
        let (o, lse) = ops::kv_cache::attend(q, self.words(), places, tables, problem)?;
        Ok(Attended { o, lse })
    }

    /// Computes o as [`KvCache::attend`] does, with the same bits on every device ([`crate::exact`]).
    ///
    /// # Errors
    /// As [`KvCache::attend`], and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a cache or queries that aren't f32, for other
    /// rules than `causal`, `window` and `softcap`, of which the first or the second is there, on XLA, and on a device that records gradients.
    pub fn attend_exactly(
        &self,
        q: Tensor<4>,
        step: &Step,
        attend: &Attend,
    ) -> Result<Tensor<4>, Error> {
        let (problem, sinks) = self.problem(&q, step, attend)?;
        Seen::of(&problem)?;
        let [batch, heads, queries, _] = q.dims();
        if [batch, heads, queries].contains(&0) {
            let o = [batch, heads, queries, self.layout.value_dim()];
            return Ok(Tensor::zeros(o, (&self.device, DType::F32)));
        }
        let places = [step.table.clone(), step.spans.clone()];
        ops::exact::attend(q, self.words(), places, sinks, problem)
    }

    /// The pool.
    fn words(&self) -> Tensor<2, Int> {
        let pool = self.pool.clone();
        pool.unwrap_or_else(|| unreachable!("an append puts the pool back"))
    }

    /// Describes the attention of `q`, with the tables that it reads, after a check of the step.
    fn problem(
        &self,
        q: &Tensor<4>,
        step: &Step,
        attend: &Attend,
    ) -> Result<(CachedAttention, Vec<DeviceValue>), Error> {
        let l = self.layout;
        let [batch, most] = self.check(step, q)?;
        let ([_, heads, _, _], queries) = (q.dims(), step.tokens());
        let expected = [batch, heads, queries, l.head_dim()];
        check_same("q [B, Hq, T, D]", q.dims(), expected)?;
        let sizes = Sizes {
            batch,
            heads,
            kv_heads: l.kv_heads(),
            queries,
            keys: most * l.page(),
            head_dim: l.head_dim(),
            value_dim: l.value_dim(),
        };
        Fault::Unsupported.unless(!attend.has_rule(), "own rule over a cache", "none", "one")?;
        let (problem, tables) = attend.problem(&sizes, q)?;
        Ok((CachedAttention::new(problem, l, most)?, tables))
    }

    /// Returns the number of sequences of a step and of pages in a row of its table, after a check that the step's pages are among this
    /// cache's, and on its device. A cache that has grown may have more pages than the step.
    fn check(&self, step: &Step, rows: &Tensor<4>) -> Result<[usize; 2], Error> {
        let ([pages, page], own) = (step.pool, self.layout.pages());
        check_same("tokens of a page in the step", page, self.layout.page())?;
        let expected = format_args!("at most {own}");
        Fault::Shape.unless(pages <= own, "pages of the step", expected, pages)?;
        let devices = [
            ("device of the step", step.table.device()),
            ("device of new tokens", rows.device()),
        ];
        for (what, device) in devices {
            check_equal(
                Fault::Device,
                what,
                device.inner(),
                self.device.clone().inner(),
            )?;
        }
        Ok(step.table.dims())
    }
}

/// `pages` pages of zeros, words \[pages, words of a page\], for a pool that then has this layout. On Flex an allocation that fails ends
/// the process, so the system is first asked for what the making takes at most: the zeros, of which Burn makes a tensor by a copy, and the
/// new pool.
fn zeros(layout: &Layout, pages: usize, device: &Device) -> Result<Tensor<2, Int>, Error> {
    if is_flex(device) {
        let mut pool: Vec<u8> = Vec::new();
        let expected = format!("memory for {} bytes", layout.bytes());
        let reserved = pool.try_reserve_exact(2 * layout.bytes());
        reserved.map_err(|error| Fault::Device.error("pool of a cache", expected, error))?;
    }
    let shape = [pages, layout.page_words()];
    Ok(Tensor::zeros(shape, (device, DType::I32)))
}
