//! The schedule: which requests compute which of their tokens next, and in which pages.

mod request;

pub use request::{Limits, Refused, Request, RequestId, Sampled, Step, StepError, Work};

use std::collections::VecDeque;

use moebius_ops::Mismatch;

use crate::pages::{PAGE, PagePool, Usage};
use request::{Sequence, UnderWay, pair};

/// A scheduler, which distributes the pages of a cache and the tokens of steps among requests. Its state depends only on the sequence of
/// method calls.
///
/// A step first continues the running requests, in the order of arrival, and then admits waiting ones, in the same order. Each gets as many
/// of the step's remaining tokens as it needs: prompts are cut where the step is full. When pages run out, cached pages without users are
/// evicted; after these, the request that was admitted last is preempted: it gives up its pages and waits again, before all others, and the
/// step admits no request. The first request always continues, so all requests end.
///
/// What a step has left, of its tokens and of the pages, makes room for tokens that the caller proposes ([`Scheduler::make_room`]): no request
/// waits for a proposal, is cut or loses its pages for one. After the step, the pages of proposed tokens that weren't chosen are given back.
#[derive(Clone, Debug)]
pub struct Scheduler {
    limits: Limits,
    pages: PagePool,
    /// Running requests in the order of arrival; they all arrived before the waiting ones.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    /// The step that is being computed.
    under_way: Option<Vec<UnderWay>>,
    /// Largest number of proposed tokens of a request in a step.
    proposed: usize,
    counts: Counts,
}

/// Counters of a scheduler since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of newly admitted requests, which were looked up in the prefix cache.
    pub looked_up: u64,
    /// Tokens of `looked_up` that were found.
    pub found: u64,
    /// Number of times that a request gave up its pages.
    pub preemptions: u64,
}

impl Scheduler {
    /// Makes a scheduler without requests, for a cache whose pages hold nothing.
    ///
    /// # Errors
    /// [`Mismatch`] for limits with which no request, or not every admitted request, could run.
    pub fn new(limits: Limits) -> Result<Self, Mismatch> {
        limits.check()?;
        Ok(Self {
            limits,
            pages: PagePool::new(limits.pages),
            running: Vec::new(),
            waiting: VecDeque::new(),
            under_way: None,
            proposed: 0,
            counts: Counts::default(),
        })
    }

    /// Makes room in later steps for up to `tokens` proposed tokens of each request that chooses a token ([`Work::propose`]); 0, as at the
    /// start, for none.
    pub fn make_room(&mut self, tokens: usize) {
        self.proposed = tokens;
    }

    /// Adds a request, which begins after all earlier requests.
    ///
    /// # Errors
    /// [`Refused`] for a request that could never run, or whose id is in use.
    pub fn add(&mut self, request: Request) -> Result<(), Refused> {
        self.limits.admit(&request)?;
        let id = request.id;
        let mut there = self.running.iter().chain(&self.waiting);
        if there.any(|sequence| sequence.id == id) {
            return Err(Refused::Known { id });
        }
        self.waiting.push_back(Sequence::new(request));
        Ok(())
    }

    /// Cancels a request; others can still find its full pages. A request in the step under way ends with that step, and its token, if it
    /// gets one, is dropped. Returns whether the request existed.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        if let Some(at) = self.waiting.iter().position(|sequence| sequence.id == id) {
            self.waiting.remove(at);
            return true;
        }
        let Some(at) = self.place(id) else {
            return false;
        };
        let in_step = |parts: &Vec<UnderWay>| parts.iter().any(|part| part.id == id);
        if self.under_way.as_ref().is_some_and(in_step) {
            return !std::mem::replace(&mut self.running[at].cancelled, true);
        }
        self.end(at);
        true
    }

    /// Returns the step to compute next, which must be followed by [`Scheduler::complete`] or [`Scheduler::abandon`] unless it is empty. It
    /// is empty only if there are no requests.
    ///
    /// # Errors
    /// [`StepError::UnderWay`] if the previous step was neither completed nor abandoned.
    pub fn step(&mut self) -> Result<Step, StepError> {
        if self.under_way.is_some() {
            return Err(StepError::UnderWay);
        }
        let mut step = Step::default();
        let left = self.go_on(&mut step);
        if step.preempted.is_empty() {
            let left = self.admit(&mut step, left);
            self.give_room(&mut step, left);
        }
        let parts = step.work.iter().map(|work| UnderWay {
            id: work.request,
            end: work.positions.end,
            samples: work.samples.is_some(),
            room: work.room,
        });
        self.under_way = (!step.work.is_empty()).then(|| parts.collect());
        Ok(step)
    }

    /// Completes the step under way with the chosen tokens, one for each request that chooses a token in it, in any order. Returns the
    /// requests that ended, either with their last token or because they may have no more.
    ///
    /// A request with proposed tokens may have more than one, in their order. All but the last of them must be the first proposed ones, whose
    /// keys and values the step computed; what it computed of the other proposed tokens is forgotten, and no request finds it.
    ///
    /// # Errors
    /// [`StepError`] if no step is under way, or the tokens don't match it; the step then stays under way.
    pub fn complete(&mut self, sampled: &[Sampled]) -> Result<Vec<RequestId>, StepError> {
        let parts = self.under_way.as_ref().ok_or(StepError::NoStep)?;
        let cancelled = |id| self.place(id).is_some_and(|at| self.running[at].cancelled);
        let tokens = pair(parts, sampled, cancelled)?;
        let mut ended = Vec::new();
        for part in self.under_way.take().unwrap_or_default() {
            let at = self.place(part.id);
            let at = at.unwrap_or_else(|| unreachable!("requests stay while they are in a step"));
            let chosen: &[Sampled] = tokens.get(&part.id).map_or(&[], Vec::as_slice);
            let ids = chosen.iter().map(|sampled| sampled.token);
            self.running[at].tokens.extend(ids);
            // Keys and values of the last chosen token aren't computed yet.
            let end = part.end + chosen.len().saturating_sub(1);
            self.advance(at, end);
            if part.room > 0 {
                self.shorten(at, end);
            }
            let sequence = &self.running[at];
            if sequence.cancelled {
                self.end(at);
            } else if let Some(last) = chosen.last()
                && (last.last || sequence.is_complete())
            {
                self.end(at);
                ended.push(part.id);
            }
        }
        Ok(ended)
    }

    /// Abandons the step under way, of which nothing was computed: its requests return to their earlier state, except for those that were
    /// cancelled meanwhile. Returns whether there was a step.
    pub fn abandon(&mut self) -> bool {
        let parts = self.under_way.take();
        for part in parts.iter().flatten().filter(|part| part.room > 0) {
            if let Some(at) = self.place(part.id) {
                self.shorten(at, part.end);
            }
        }
        for at in (0..self.running.len()).rev() {
            if self.running[at].cancelled {
                self.end(at);
            }
        }
        parts.is_some()
    }

    /// Abandons the step under way as [`Self::abandon`] does, although some of it may have been computed: its requests go back to multiples
    /// of `tokens` tokens, up to which their pages still hold what a step needs.
    pub(crate) fn rewind(&mut self, tokens: usize) {
        let parts = self.under_way.as_deref().unwrap_or_default();
        for sequence in &mut self.running {
            if parts.iter().any(|part| part.id == sequence.id) {
                sequence.computed -= sequence.computed % tokens;
            }
        }
        self.abandon();
    }

    /// Whether there are no requests.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// The running requests in the order of arrival, with their pages.
    pub fn running(&self) -> impl Iterator<Item = (RequestId, &[u32])> {
        let running = self.running.iter();
        running.map(|sequence| (sequence.id, sequence.pages.as_slice()))
    }

    /// The waiting requests, which have no pages, in the order in which they will begin.
    pub fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter().map(|sequence| sequence.id)
    }

    /// Numbers of pages by their state.
    pub fn usage(&self) -> Usage {
        self.pages.usage()
    }

    /// The counters since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of pages that the cache must have for all steps so far.
    pub(crate) fn pages_reached(&self) -> usize {
        self.pages.reached()
    }

    /// Limits the cache to its first `pages` pages, as if it had no others. Pages beyond that requests have go back to the pool: they were
    /// given for steps that were abandoned, and nothing was computed in them. A limit below [`Self::pages_reached`] is for the time between
    /// steps.
    ///
    /// With fewer pages than [`Limits::pages`], a request may lack pages although it is alone; [`Self::step`] then returns an empty step,
    /// and the request is the [`Self::first`].
    pub(crate) fn limit(&mut self, pages: usize) {
        for sequence in &mut self.running {
            let beyond = |page: &u32| *page as usize >= pages;
            let kept = sequence.pages.iter().position(beyond);
            let kept = kept.unwrap_or(sequence.pages.len());
            self.pages.release(&sequence.pages.split_off(kept));
        }
        self.pages.limit(pages);
    }

    /// The tokens of a running request so far: its prompt, and those that were chosen.
    pub(crate) fn tokens(&self, id: RequestId) -> Option<&[u32]> {
        let at = self.place(id)?;
        Some(&self.running[at].tokens)
    }

    /// The request that arrived before all others.
    pub(crate) fn first(&self) -> Option<RequestId> {
        let running = self.running.first();
        running.or(self.waiting.front()).map(|sequence| sequence.id)
    }

    /// Gives the running requests their parts of a step, and returns how many of the step's tokens are left.
    fn go_on(&mut self, step: &mut Step) -> usize {
        let mut left = self.limits.batch_tokens;
        let mut at = 0;
        while at < self.running.len() && left > 0 {
            let sequence = &mut self.running[at];
            let end = sequence.tokens.len().min(sequence.computed + left);
            let missing = end.div_ceil(PAGE).saturating_sub(sequence.pages.len());
            match self.pages.take(missing) {
                Some(pages) => {
                    sequence.pages.extend(pages);
                    left -= end - sequence.computed;
                    step.work.push(part(sequence, end));
                    at += 1;
                }
                // This may preempt the present request, but the first only under a lower limit: alone it has all pages, and `add` has
                // checked that they are enough.
                None => self.preempt(step),
            }
        }
        left
    }

    /// Preempts the request that was admitted last: it gives up its pages, and is the next to be admitted. Its full pages may still be
    /// found then.
    fn preempt(&mut self, step: &mut Step) {
        let last = self.running.pop();
        let mut last = last.unwrap_or_else(|| unreachable!("one that runs lacks pages"));
        self.pages.release(&std::mem::take(&mut last.pages));
        last.computed = 0;
        self.counts.preemptions += 1;
        step.preempted.push(last.id);
        self.waiting.push_front(last);
    }

    /// Admits waiting requests while there is room, and returns how many of the step's tokens are left.
    fn admit(&mut self, step: &mut Step, mut left: usize) -> usize {
        while left > 0 && self.running.len() < self.limits.running {
            let Some(sequence) = self.waiting.front_mut() else {
                break;
            };
            let total = sequence.tokens.len();
            // The last token is always computed, as its logits are needed and no page holds them.
            let found = self.pages.find(sequence.keys((total - 1) / PAGE));
            let computed = found.len() * PAGE;
            let end = total.min(computed + left);
            let missing = end.div_ceil(PAGE) - found.len();
            let reserve = if self.running.is_empty() {
                0
            } else {
                self.limits.reserve()
            };
            let available = self.pages.usage().available() - self.pages.idle(&found);
            if missing + reserve > available {
                break;
            }
            self.pages.share(&found);
            sequence.pages = found;
            let taken = self.pages.take(missing);
            let taken = taken.unwrap_or_else(|| unreachable!("they were counted"));
            sequence.pages.extend(taken);
            sequence.computed = computed;
            if !std::mem::replace(&mut sequence.ran, true) {
                self.counts.looked_up += total as u64;
                self.counts.found += computed as u64;
            }
            left -= end - computed;
            step.admitted.push(sequence.id);
            step.work.push(part(sequence, end));
            self.running.extend(self.waiting.pop_front());
        }
        left
    }

    /// Gives the requests that choose a token room for proposed ones, of the `left` tokens of the step and of pages without users.
    fn give_room(&mut self, step: &mut Step, mut left: usize) {
        for work in &mut step.work {
            let (Some(index), Some(at)) = (work.samples, self.place(work.request)) else {
                continue;
            };
            let sequence = &mut self.running[at];
            // Keys and values of the last token that a request may have are never computed.
            let most = sequence.most_new - index - 1;
            let wanted = work.positions.end + most.min(self.proposed).min(left);
            let missing = wanted.div_ceil(PAGE).saturating_sub(sequence.pages.len());
            sequence
                .pages
                .extend(self.pages.take(missing).unwrap_or_default());
            let end = wanted.min(sequence.pages.len() * PAGE);
            work.room = end - work.positions.end;
            work.pages = sequence.pages[..end.div_ceil(PAGE)].to_vec();
            left -= work.room;
        }
    }

    /// Gives back the pages that a running request has behind its first `tokens` tokens.
    fn shorten(&mut self, at: usize, tokens: usize) {
        let pages = &mut self.running[at].pages;
        let behind = pages.split_off(pages.len().min(tokens.div_ceil(PAGE)));
        self.pages.release(&behind);
    }

    /// Advances a request whose tokens up to `end` have been computed, and publishes its full pages.
    fn advance(&mut self, at: usize, end: usize) {
        let sequence = &mut self.running[at];
        let full = sequence.computed / PAGE..end / PAGE;
        sequence.computed = end;
        for page in full {
            let key = sequence.keys(page + 1)[page];
            sequence.pages[page] = self.pages.publish(sequence.pages[page], key);
        }
    }

    /// Removes a running request and releases its pages.
    fn end(&mut self, at: usize) {
        let sequence = self.running.remove(at);
        self.pages.release(&sequence.pages);
    }

    /// The index of a request among the running ones.
    fn place(&self, id: RequestId) -> Option<usize> {
        self.running.iter().position(|sequence| sequence.id == id)
    }
}

/// The part of a sequence from its computed tokens up to `end`.
fn part(sequence: &Sequence, end: usize) -> Work {
    Work {
        request: sequence.id,
        positions: sequence.computed..end,
        tokens: sequence.tokens[sequence.computed..end].to_vec(),
        pages: sequence.pages[..end.div_ceil(PAGE)].to_vec(),
        samples: (end == sequence.tokens.len()).then(|| sequence.generated()),
        room: 0,
        proposed: 0,
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
