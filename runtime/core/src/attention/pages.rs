//! Which page of a pool holds which tokens: on the host.

use crate::Error;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::kv_cache::BLOCK;
use moebius_ops::{Fault, Mismatch};

/// The pages of some sequences, which the caches of all layers share.
///
/// Tokens get pages when a sequence grows, and give them back when it is released or cut: sequences of any lengths share a pool,
/// and nothing moves.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Tokens of a page.
    page: usize,
    /// Pages of the pool.
    pages: usize,
    /// Pages of a sequence at most.
    most: usize,
    /// Pages that hold nothing; the last is the next.
    free: Vec<u32>,
    /// The pages of each sequence, in the order of its tokens.
    owned: Vec<Vec<u32>>,
    /// The tokens of each sequence.
    lengths: Vec<usize>,
}

/// New tokens of every sequence, on a device: what [`KvCache::append`](super::KvCache::append) and
/// [`KvCache::attend`](super::KvCache::attend) of every layer take.
#[derive(Clone, Debug)]
pub struct Step {
    /// Pages \[B, M\].
    pub(super) table: Tensor<2, Int>,
    /// The first new token, and one past the last \[B, 2\].
    pub(super) spans: Tensor<2, Int>,
    /// The most new tokens of a sequence.
    pub(super) tokens: usize,
    /// Pages of the pool, and tokens of a page.
    pub(super) pool: [usize; 2],
}

/// Where a sequence's tokens are, whose pages are kept elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Its pages, in the order of its tokens. Several sequences may share one that none of them writes.
    pub pages: &'a [u32],
    /// The first new token.
    pub start: usize,
    /// One past the last.
    pub end: usize,
}

impl Step {
    /// The most new tokens of a sequence: T of k and v, and Sq of q. Those of shorter sequences come first, and what follows
    /// them isn't read.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

impl Pages {
    /// One page of `capacity` tokens, rounded up to 16, for each of `sequences`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for no tokens, or 2³⁰ and more.
    pub fn contiguous(sequences: usize, capacity: usize) -> Result<Self, Error> {
        Self::new(sequences, [sequences, capacity.div_ceil(BLOCK)], 1)
    }

    /// `pages` pages of 16 tokens for `sequences` of at most `longest` tokens.
    ///
    /// # Errors
    /// As [`Pages::contiguous`].
    pub fn paged(sequences: usize, pages: usize, longest: usize) -> Result<Self, Error> {
        Self::new(sequences, [pages, 1], longest.div_ceil(BLOCK))
    }

    fn new(sequences: usize, [pages, blocks]: [usize; 2], most: usize) -> Result<Self, Error> {
        let limit = 1 << 30;
        let tokens = blocks.saturating_mul(BLOCK);
        let all = most.saturating_mul(tokens).max(pages);
        if all == 0 || all >= limit || tokens == 0 {
            let expected = "1 to 2^30 - 1 tokens and pages";
            let got = format!("{pages} pages of {tokens}, {most} of them for a sequence");
            return Err(Fault::Config.error("pages", expected, got).into());
        }
        Ok(Self {
            page: tokens,
            pages,
            most,
            free: (0..pages as u32).rev().collect(),
            owned: vec![Vec::new(); sequences],
            lengths: vec![0; sequences],
        })
    }

    /// Pages of the pool.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Tokens of a page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Pages of a sequence at most.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The tokens of each sequence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Pages that hold nothing.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Makes room for so many new tokens of each sequence, on `device`.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of sequences, [`ErrorKind::State`](crate::ErrorKind::State) for one that would have more tokens than its pages hold,
    /// and where too few pages are free; then no sequence has grown.
    pub fn extend(&mut self, tokens: &[usize], device: &Device) -> Result<Step, Error> {
        crate::check::check_same("new tokens of sequences", tokens.len(), self.lengths.len())?;
        let longest = self.most * self.page;
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
        let mut spans = Vec::new();
        for (sequence, more) in tokens.iter().enumerate() {
            let (start, end) = (self.lengths[sequence], self.lengths[sequence] + more);
            let missing = end.div_ceil(self.page) - self.owned[sequence].len();
            let kept = self.free.len() - missing;
            self.owned[sequence].extend(self.free.drain(kept..).rev());
            self.lengths[sequence] = end;
            spans.extend([start as i32, end as i32]);
        }
        let owned: Vec<&[u32]> = self.owned.iter().map(Vec::as_slice).collect();
        Ok(self.step(&owned, spans, tokens, device))
    }

    /// New tokens of sequences in pages of this pool that the caller hands out: those that [`Pages::extend`] gives sequences stay
    /// as they are, and so do the lengths.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a sequence that ends before it starts, one with other pages than its tokens need
    /// or more than a sequence has, and a page that isn't there.
    pub fn step_of(&self, sequences: &[Span<'_>], device: &Device) -> Result<Step, Error> {
        let (mut owned, mut spans, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for &Span { pages, start, end } in sequences {
            let Some(new) = end.checked_sub(start) else {
                let expected = format!("at least its start, {start}");
                return Err(Mismatch::new("end of new tokens", expected, end).into());
            };
            let needed = end.div_ceil(self.page);
            if pages.len() != needed || needed > self.most {
                let expected = format!("{needed}, and at most {}", self.most);
                return Err(Mismatch::new("pages of a sequence", expected, pages.len()).into());
            }
            if let Some(page) = pages.iter().find(|page| **page as usize >= self.pages) {
                let expected = format!("less than {}", self.pages);
                return Err(Mismatch::new("page", expected, page).into());
            }
            owned.push(pages);
            spans.extend([start as i32, end as i32]);
            tokens.push(new);
        }
        Ok(self.step(&owned, spans, &tokens, device))
    }

    fn step(&self, owned: &[&[u32]], spans: Vec<i32>, tokens: &[usize], device: &Device) -> Step {
        let sequences = owned.len();
        // Places without a page name one that the pool doesn't have.
        let row = |owned: &&[u32]| {
            let page = |at| owned.get(at).map_or(i32::MAX, |page| *page as i32);
            (0..self.most).map(page).collect::<Vec<_>>()
        };
        let table: Vec<i32> = owned.iter().flat_map(row).collect();
        let words = |words: Vec<i32>, columns: usize| {
            let data = TensorData::new(words, [sequences, columns]);
            Tensor::from_data(data, (device, DType::I32))
        };
        Step {
            table: words(table, self.most),
            spans: words(spans, 2),
            tokens: tokens.iter().copied().max().unwrap_or(0),
            pool: [self.pages, self.page],
        }
    }

    /// Cuts a sequence to its first `tokens` tokens; pages that then hold none are free.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for a sequence that isn't there, or more tokens than it has.
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

    /// Forgets a sequence, whose place another may take.
    ///
    /// # Errors
    /// As [`Pages::truncate`].
    pub fn release(&mut self, sequence: usize) -> Result<(), Error> {
        self.truncate(sequence, 0)
    }
}
