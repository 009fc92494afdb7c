//! Proposals by a draft: a smaller model with the same vocabulary, with a cache and pages of its own.
//!
//! The draft follows the text of each request that asks for proposals. Its pages hold the keys and values of some tokens; what they have in
//! common with the request's text stays, however the text came about, and the rest is computed again. So a rejected proposal, an abandoned
//! step and a preemption need no notice. Full pages of texts are found by other requests, as in the model's own cache.

use std::collections::BTreeMap;

use burn::tensor::Device;
use moebius::attention::Span;
use moebius_model::Error;
use moebius_model::decoder::Model;

use super::Ask;
use crate::growing::GrowingCache;
use crate::pages::{PAGE, PageKey, PagePool};
use crate::sampler::History;
use crate::schedule::{Limits, RequestId};
use crate::shapes::{self, New, Shapes};

/// A draft model, and what it has computed of the requests' texts.
#[derive(Debug)]
pub(crate) struct Draft {
    model: Model,
    cache: GrowingCache,
    limits: Limits,
    /// Largest number of tokens to propose.
    tokens: usize,
    /// Tokens of the longest text that the model can go on with.
    longest: usize,
    pages: PagePool,
    held: BTreeMap<RequestId, Held>,
    /// Shapes that calls are filled up to, if they are.
    shapes: Option<Shapes>,
    device: Device,
}

/// The tokens of a request whose keys and values are in pages.
#[derive(Debug)]
struct Held {
    tokens: Vec<u32>,
    pages: Vec<u32>,
    /// Number of the first pages that other requests can find: full pages of the request's text before its last token.
    published: usize,
    /// Key of the last of these, or the one that pages of the request's salt start from.
    key: PageKey,
}

impl Held {
    /// The pages of a new request that others have computed.
    fn found(ask: &Ask<'_>, pages: &mut PagePool) -> Self {
        let root = PageKey::root(ask.salt);
        let (mut keys, mut key) = (Vec::new(), root);
        let full = (ask.text.len() - 1) / PAGE;
        for tokens in ask.text.chunks_exact(PAGE).take(full) {
            key = key.after(tokens);
            keys.push(key);
        }
        let found = pages.find(&keys);
        pages.share(&found);
        let published = found.len();
        Self {
            tokens: ask.text[..published * PAGE].to_vec(),
            key: keys[..published].last().copied().unwrap_or(root),
            pages: found,
            published,
        }
    }
}

/// A proposal in the making.
struct Writing<'a> {
    /// Place of the request among those that ask.
    at: usize,
    ask: &'a Ask<'a>,
    /// History of the request with the proposed tokens.
    history: History,
    proposed: Vec<u32>,
    /// Whether no token could be drawn from the last logits.
    failed: bool,
}

impl<'a> Writing<'a> {
    fn new(at: usize, ask: &'a Ask<'a>) -> Self {
        Self {
            at,
            ask,
            history: ask.history.clone(),
            proposed: Vec::new(),
            failed: false,
        }
    }

    /// Draws the next token as the request would from these logits.
    fn draw(&mut self, logits: &[f32]) {
        let index = self.ask.index + self.proposed.len();
        let drawn = self
            .ask
            .sampling
            .sample(logits, &self.history, index as u64);
        match drawn {
            Ok(draw) => {
                self.history.push(draw.id);
                self.proposed.push(draw.id);
            }
            // What the draft can't foresee, the model still computes.
            Err(_) => self.failed = true,
        }
    }

    fn goes_on(&self) -> bool {
        !self.failed && self.proposed.len() < self.ask.room
    }
}

impl Draft {
    /// A draft that proposes up to `tokens` tokens, with an empty cache.
    pub(crate) fn new(
        model: Model,
        tokens: usize,
        cache: GrowingCache,
        limits: Limits,
        shapes: Option<Shapes>,
        device: &Device,
    ) -> Self {
        let positions = model.positions.as_ref();
        let positions = positions.map(|learned| learned.val().dims()[0]);
        Self {
            longest: limits.longest.min(positions.unwrap_or(usize::MAX)),
            pages: PagePool::new(limits.pages),
            held: BTreeMap::new(),
            shapes,
            device: device.clone(),
            model,
            cache,
            limits,
            tokens,
        }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Bytes of the cache as it is now.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache.now().bytes()
    }

    /// Gives back the pages of requests that aren't `alive`.
    pub(crate) fn forget(&mut self, alive: &dyn Fn(RequestId) -> bool) {
        let gone = self.held.keys().copied().filter(|id| !alive(*id));
        for id in gone.collect::<Vec<_>>() {
            if let Some(held) = self.held.remove(&id) {
                self.pages.release(&held.pages);
            }
        }
    }

    /// Lets the cache grow again, after the device had no memory for that.
    pub(crate) fn try_again(&mut self) {
        self.pages.limit(self.limits.pages);
    }

    /// Proposes tokens for each of `asks`; none where pages or memory are lacking, or while the draft is still computing a long text, of which
    /// it takes no more than [`Limits::batch_tokens`] a step.
    pub(crate) fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Vec<u32>>, Error> {
        let mut proposed = vec![Vec::new(); asks.len()];
        let pieces = self.pieces(asks);
        match self.cache.grow(self.pages.reached()) {
            Ok(()) => {}
            Err(Error::NoRoom(_)) => {
                self.forget(&|_| false);
                self.pages.limit(self.cache.now().page_count());
                return Ok(proposed);
            }
            Err(error) => return Err(error),
        }
        let mut writings = self.catch_up(asks, pieces)?;
        loop {
            let going = writings.iter_mut().filter(|writing| writing.goes_on());
            let mut going: Vec<&mut Writing<'_>> = going.collect();
            if going.is_empty() {
                break;
            }
            let last = |writing: &&mut Writing<'_>| {
                let last = writing.proposed.last().copied();
                (writing.ask.request, last.into_iter().collect::<Vec<u32>>())
            };
            let new: Vec<(RequestId, Vec<u32>)> = going.iter().map(last).collect();
            let all = self.compute(&new)?;
            for (writing, logits) in going.iter_mut().zip(&all) {
                writing.draw(logits);
            }
        }
        for writing in writings {
            proposed[writing.at] = writing.proposed;
        }
        Ok(proposed)
    }

    /// The tokens of each request's text to compute now, with the request's place among `asks`, after pages were taken for them and for the
    /// proposed tokens.
    fn pieces(&mut self, asks: &[Ask<'_>]) -> Vec<(usize, Vec<u32>)> {
        let (mut left, mut pieces) = (self.limits.batch_tokens, Vec::new());
        for (at, ask) in asks.iter().enumerate() {
            let from = self.hold(ask);
            let all = ask.text.len();
            let end = all.min(from + left);
            // The last proposed token is never computed.
            let reach = if end == all { all + ask.room - 1 } else { end };
            if end == from || reach > self.longest || !self.reserve(ask.request, reach, asks) {
                continue;
            }
            left -= end - from;
            pieces.push((at, ask.text[from..end].to_vec()));
        }
        pieces
    }

    /// Number of tokens of a request's text whose keys and values are there, of all but its last token, whose logits are needed. What is there
    /// of other tokens is given up.
    fn hold(&mut self, ask: &Ask<'_>) -> usize {
        let pages = &mut self.pages;
        let held = self.held.entry(ask.request);
        let held = held.or_insert_with(|| Held::found(ask, pages));
        let known = &ask.text[..ask.text.len() - 1];
        let both = held.tokens.iter().zip(known);
        let same = both.take_while(|(one, other)| one == other).count();
        held.tokens.truncate(same);
        let kept = held.pages.len().min(same.div_ceil(PAGE));
        self.pages.release(&held.pages.split_off(kept));
        same
    }

    /// Takes the pages that a request lacks for its first `tokens` tokens, if need be those of requests that don't ask. Returns whether there
    /// are enough.
    fn reserve(&mut self, request: RequestId, tokens: usize, asks: &[Ask<'_>]) -> bool {
        let has = self.held.get(&request).map_or(0, |held| held.pages.len());
        let missing = tokens.div_ceil(PAGE).saturating_sub(has);
        let mut taken = self.pages.take(missing);
        if taken.is_none() {
            self.forget(&|id| asks.iter().any(|ask| ask.request == id));
            taken = self.pages.take(missing);
        }
        let (Some(taken), Some(held)) = (taken, self.held.get_mut(&request)) else {
            return false;
        };
        held.pages.extend(taken);
        true
    }

    /// Computes these pieces of texts, and draws the first proposed token of each request whose text is complete.
    fn catch_up<'a>(
        &mut self,
        asks: &'a [Ask<'a>],
        pieces: Vec<(usize, Vec<u32>)>,
    ) -> Result<Vec<Writing<'a>>, Error> {
        let mut by_length = BTreeMap::<usize, Vec<(usize, Vec<u32>)>>::new();
        for (at, tokens) in pieces {
            let same = by_length.entry(tokens.len()).or_default();
            same.push((at, tokens));
        }
        let mut writings = Vec::new();
        for group in by_length.into_values() {
            let places: Vec<usize> = group.iter().map(|(at, _)| *at).collect();
            let of = |(at, tokens): (usize, Vec<u32>)| (asks[at].request, tokens);
            let new: Vec<(RequestId, Vec<u32>)> = group.into_iter().map(of).collect();
            let all = self.compute(&new)?;
            for (at, logits) in places.into_iter().zip(&all) {
                let ask = &asks[at];
                if self.publish(ask) == ask.text.len() {
                    let mut writing = Writing::new(at, ask);
                    writing.draw(logits);
                    writings.push(writing);
                }
            }
        }
        Ok(writings)
    }

    /// Lets others find the full pages of a request's text, and returns how many of its tokens are computed.
    fn publish(&mut self, ask: &Ask<'_>) -> usize {
        let Some(held) = self.held.get_mut(&ask.request) else {
            return 0;
        };
        // The last token is computed again if the request asks again, and a page that others may read is never written.
        let full = held.tokens.len().min(ask.text.len() - 1) / PAGE;
        for page in held.published..full {
            held.key = held.key.after(&held.tokens[page * PAGE..][..PAGE]);
            held.pages[page] = self.pages.publish(held.pages[page], held.key);
        }
        held.published = held.published.max(full);
        held.tokens.len()
    }

    /// Computes the next tokens of requests, as many of each, and returns the logits \[V\] after the last of each.
    fn compute(&mut self, new: &[(RequestId, Vec<u32>)]) -> Result<Vec<Vec<f32>>, Error> {
        let tokens = new.first().map_or(0, |(_, tokens)| tokens.len());
        let all: Vec<(RequestId, &[u32])> = new.iter().map(|(id, of)| (*id, &of[..])).collect();
        let Some(shapes) = self.shapes.clone() else {
            return self.call(&all, None);
        };
        if tokens == 1 {
            return self.call(&all, Some([shapes.sequences(new.len())?, 1]));
        }
        let mut logits = Vec::new();
        for (id, mut rest) in all {
            let mut last = Vec::new();
            for size in shapes.parts(tokens) {
                let (now, later) = rest.split_at(size.min(rest.len()));
                last = self.call(&[(id, now)], Some([1, size]))?;
                rest = later;
            }
            logits.append(&mut last);
        }
        Ok(logits)
    }

    /// Does what [`Self::compute`] does in one call of the model, filled up to so many sequences and tokens.
    fn call(
        &mut self,
        new: &[(RequestId, &[u32])],
        filled: Option<[usize; 2]>,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let calls = new.iter().map(|(request, tokens)| {
            let held = &self.held[request];
            let start = held.tokens.len();
            let end = start + tokens.len();
            let pages = &held.pages[..end.div_ceil(PAGE)];
            let span = Span { pages, start, end };
            New { tokens, span }
        });
        let calls: Vec<New<'_>> = calls.collect();
        let (model, cache) = (&self.model, self.cache.now_mut());
        let logits = shapes::compute(model, cache, &calls, 1, filled, &self.device)?.logits;
        let [_, _, vocabulary] = logits.dims();
        // This is read before the next call begins, because XLA would compile both calls together as another program.
        let data = logits.try_into_data();
        let data = data.map_err(|error| Error::Device(error.to_string()))?;
        for (request, tokens) in new {
            if let Some(held) = self.held.get_mut(request) {
                held.tokens.extend(*tokens);
            }
        }
        let values: Vec<f32> = data.iter::<f32>().collect();
        let rows = values.chunks(vocabulary).take(new.len());
        Ok(rows.map(<[f32]>::to_vec).collect())
    }
}
