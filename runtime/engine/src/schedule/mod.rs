//! Which requests compute which of their tokens next, and in which pages.

mod request;

pub use request::{Limits, Refused, Request, RequestId, Sampled, Step, StepError, Work};

use std::collections::VecDeque;

use moebius_ops::Mismatch;

use crate::pages::{PAGE, PagePool, Usage};
use request::{Sequence, UnderWay, pair};

/// Shares the pages of a cache and the tokens of steps among requests: a state that only its methods change, and that is the same after
/// the same calls.
///
/// A step first goes on with the requests that run, in the order in which they came, and then begins with those that wait, in that order,
/// too. Each gets as many of the step's tokens as it lacks and are left: prompts are cut where the step is full. Where pages are
/// missing, those go that no request uses, then the request that was admitted last gives up its own and waits again, before all others, and
/// no request is admitted in that step. The first request always goes on, so all of them end.
#[derive(Clone, Debug)]
pub struct Scheduler {
    limits: Limits,
    pages: PagePool,
    /// In the order in which they came, as those that wait; whoever runs came before whoever waits.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    /// The step that is being computed.
    under_way: Option<Vec<UnderWay>>,
    counts: Counts,
}

/// What a scheduler counts from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of requests that were admitted for the first time: what was looked for in the prefix cache.
    pub looked_up: u64,
    /// Those of them that were there.
    pub found: u64,
    /// Times that a request gave up its pages.
    pub preemptions: u64,
}

impl Scheduler {
    /// Without requests, over a cache whose pages hold nothing.
    ///
    /// # Errors
    /// [`Mismatch`] for limits that let no request run, or not all that are admitted.
    pub fn new(limits: Limits) -> Result<Self, Mismatch> {
        limits.check()?;
        Ok(Self {
            limits,
            pages: PagePool::new(limits.pages as u32),
            running: Vec::new(),
            waiting: VecDeque::new(),
            under_way: None,
            counts: Counts::default(),
        })
    }

    /// Takes a request, which begins after all that came before.
    ///
    /// # Errors
    /// [`Refused`] for one that could never run, or whose name is in use.
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

    /// Ends a request; what it has computed in full pages can be found by others. One that is in the step under way ends with that, and
    /// its token, if it gets one, is dropped. Says whether there was such a request.
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

    /// What is computed next. It has to be handed back by [`Scheduler::complete`] or [`Scheduler::abandon`], unless it is empty, which it
    /// only is where there is no request.
    ///
    /// # Errors
    /// [`StepError::UnderWay`] if the step before wasn't handed back.
    pub fn step(&mut self) -> Result<Step, StepError> {
        if self.under_way.is_some() {
            return Err(StepError::UnderWay);
        }
        let mut step = Step::default();
        let left = self.go_on(&mut step);
        if step.preempted.is_empty() {
            self.admit(&mut step, left);
        }
        let parts = step.work.iter().map(|work| UnderWay {
            id: work.request,
            end: work.positions.end,
            samples: work.samples.is_some(),
        });
        self.under_way = (!step.work.is_empty()).then(|| parts.collect());
        Ok(step)
    }

    /// Takes what came of the step under way: a token of each request that chooses one in it, in any order. Says which requests ended,
    /// because it was their last token or they may have no more.
    ///
    /// # Errors
    /// [`StepError`] if no step is under way, or these aren't the tokens that it chooses; then the step still is.
    pub fn complete(&mut self, sampled: &[Sampled]) -> Result<Vec<RequestId>, StepError> {
        let parts = self.under_way.as_ref().ok_or(StepError::NoStep)?;
        let cancelled = |id| self.place(id).is_some_and(|at| self.running[at].cancelled);
        let tokens = pair(parts, sampled, cancelled)?;
        let mut ended = Vec::new();
        for part in self.under_way.take().unwrap_or_default() {
            let at = self.place(part.id);
            let at = at.unwrap_or_else(|| unreachable!("requests stay while they are in a step"));
            self.advance(at, part.end);
            let sequence = &mut self.running[at];
            if sequence.cancelled {
                self.end(at);
            } else if let Some(sampled) = tokens.get(&part.id) {
                sequence.tokens.push(sampled.token);
                if sampled.last || sequence.is_complete() {
                    self.end(at);
                    ended.push(part.id);
                }
            }
        }
        Ok(ended)
    }

    /// Takes back the step under way: nothing of it was computed. Its requests are as they were before, but for those that were
    /// cancelled meanwhile. Says whether there was one.
    pub fn abandon(&mut self) -> bool {
        for at in (0..self.running.len()).rev() {
            if self.running[at].cancelled {
                self.end(at);
            }
        }
        self.under_way.take().is_some()
    }

    /// Whether there is no request.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// The requests that have pages, in the order in which they came, and these.
    pub fn running(&self) -> impl Iterator<Item = (RequestId, &[u32])> {
        let running = self.running.iter();
        running.map(|sequence| (sequence.id, sequence.pages.as_slice()))
    }

    /// The requests that have none, in the order in which they will begin.
    pub fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter().map(|sequence| sequence.id)
    }

    /// How many pages are what.
    pub fn usage(&self) -> Usage {
        self.pages.usage()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Gives the requests that run their part of a step, and says how many of its tokens are left.
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
                // It may be this one, but not the first: alone it has all pages, and `add` has seen that they are enough.
                None => self.preempt(step),
            }
        }
        left
    }

    /// The request that was admitted last gives up its pages and is the next to be admitted. What it has in full pages may still be there
    /// then.
    fn preempt(&mut self, step: &mut Step) {
        let last = self.running.pop();
        let mut last = last.unwrap_or_else(|| unreachable!("one that runs lacks pages"));
        self.pages.release(&std::mem::take(&mut last.pages));
        last.computed = 0;
        self.counts.preemptions += 1;
        step.preempted.push(last.id);
        self.waiting.push_front(last);
    }

    /// Begins with requests that wait while there is room.
    fn admit(&mut self, step: &mut Step, mut left: usize) {
        while left > 0 && self.running.len() < self.limits.running {
            let Some(sequence) = self.waiting.front_mut() else {
                return;
            };
            let total = sequence.tokens.len();
            // The last token is always computed: its logits are wanted, and no page has those.
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
                return;
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
    }

    /// A request has computed its tokens up to `end`. Pages that are full now can be found.
    fn advance(&mut self, at: usize, end: usize) {
        let sequence = &mut self.running[at];
        let full = sequence.computed / PAGE..end / PAGE;
        sequence.computed = end;
        for page in full {
            let key = sequence.keys(page + 1)[page];
            sequence.pages[page] = self.pages.publish(sequence.pages[page], key);
        }
    }

    /// Forgets a request that runs.
    fn end(&mut self, at: usize) {
        let sequence = self.running.remove(at);
        self.pages.release(&sequence.pages);
    }

    /// Where a request is among those that run.
    fn place(&self, id: RequestId) -> Option<usize> {
        self.running.iter().position(|sequence| sequence.id == id)
    }
}

/// The part of a sequence up to `end`.
fn part(sequence: &Sequence, end: usize) -> Work {
    Work {
        request: sequence.id,
        positions: sequence.computed..end,
        tokens: sequence.tokens[sequence.computed..end].to_vec(),
        pages: sequence.pages[..end.div_ceil(PAGE)].to_vec(),
        samples: (end == sequence.tokens.len()).then(|| sequence.generated()),
    }
}
