//! An engine that answers many requests at once, on the caller's thread.

mod calls;
mod launched;
mod options;
mod proposing;
mod recording;

pub use launched::{Experts, Launched};
pub use options::EngineOptions;

use std::collections::HashMap;

use burn::tensor::{Device, TensorData};
use moebius::attention::CacheFormat;
use moebius_model::decoder::Model;
use moebius_model::{ExpertLoad, LayerTokens, NoRoom};
use moebius_ops::Mismatch;
use tracing::trace_span;

use crate::constraint::Constraint;
use crate::growing::GrowingCache;
use crate::schedule::{Limits, Request, RequestId, Sampled, Scheduler, Step};
use crate::shapes::Shapes;
use crate::speculative::{Proposals, Proposer};
use crate::{Counts, Draw, History, Refused, SampleError, Sampling, StepError, Usage};
use calls::calls;
use launched::Computed;
use recording::Recorder;

/// A request to generate tokens.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Largest number of tokens to generate, at least 1.
    pub most_new: usize,
    /// Options for choosing the next token.
    pub sampling: Sampling,
    /// Tokens that end the answer, and aren't part of it.
    pub ends: Vec<u32>,
    /// Salt of the prefix cache, see [`Request::salt`].
    pub salt: Vec<u8>,
    /// What restricts the tokens, if anything does.
    pub constraint: Option<Box<dyn Constraint>>,
}

impl Generation {
    /// Generation of the most likely tokens after `prompt`, without tokens that end it.
    pub fn new(prompt: Vec<u32>, most_new: usize) -> Self {
        Self {
            prompt,
            most_new,
            sampling: Sampling::greedy(),
            ends: Vec::new(),
            salt: Vec::new(),
            constraint: None,
        }
    }

    /// This generation with other options for choosing tokens.
    pub fn with_sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// This generation with further tokens that end the answer.
    pub fn with_ends(mut self, ends: impl IntoIterator<Item = u32>) -> Self {
        self.ends.extend(ends);
        self
    }

    /// This generation with a restriction of its tokens, which also ends the answer when it is complete.
    pub fn with_constraint(mut self, constraint: Box<dyn Constraint>) -> Self {
        self.constraint = Some(constraint);
        self
    }
}

/// Result of a step for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Next token of the request.
    Token(Draw),
    /// End of the request, and the reason.
    End(Ended),
}

/// Numbers of an engine's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Requests that have begun, and have pages.
    pub running: usize,
    /// Requests that have not begun, or gave up their pages.
    pub waiting: usize,
}

/// What a step was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSummary {
    /// Tokens that were computed, of prompts and of answers.
    pub tokens: usize,
    /// Rows beside those of tokens, computed to fill calls of the model up ([`Engine::fill_up`]).
    pub filled: usize,
    /// Requests that began in the step, or began again after they gave up their pages.
    pub began: Vec<RequestId>,
}

/// Reason why an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The model chose a token that ends the answer, or the answer is all that its constraint allows.
    Stop,
    /// The answer has the largest number of tokens.
    Length,
    /// No token can be chosen from the logits, or the constraint can't go on.
    Failed(SampleError),
    /// The device has no memory for the request's next tokens, even without other requests. The tokens so far are valid.
    NoRoom(NoRoom),
}

/// An engine: a model, its cache, and the requests that the model answers.
///
/// [`Engine::step`] computes the next tokens of all requests that run; there is no other thread. [`Engine::launch`] and [`Engine::finish`]
/// do the same for programs that can't block. The tokens of a request don't depend on other requests, to the bit.
///
/// The cache begins small ([`EngineOptions::reserve`]) and doubles when tokens need more pages, up to [`Limits::pages`]. Where the device has
/// no memory for that, requests share the pages that there are, as if there could be no more; a request that lacks pages without any other
/// ends with [`Ended::NoRoom`]. Each new request lets the cache try to grow again.
///
/// With [`Engine::speculate_by_ngrams`] or [`Engine::speculate_by_draft`] a step may give a request several tokens, which are those that it
/// would have got one by one. Who cancels a request because of a token ignores the request's later events of the same step.
#[derive(Debug)]
pub struct Engine {
    model: Model,
    cache: GrowingCache,
    device: Device,
    limits: Limits,
    /// Format of cached keys and values, and number of pages that a cache has from the start.
    first: (CacheFormat, usize),
    scheduler: Scheduler,
    active: HashMap<RequestId, Active>,
    next: u64,
    /// Why the cache last couldn't grow.
    no_room: Option<NoRoom>,
    /// Events of requests that ended because of that, to be returned with those of the next step.
    ended: Vec<(RequestId, Event)>,
    /// Counts of the tokens of each expert, if they are counted.
    experts: Option<ExpertLoad>,
    /// The experts of tokens, if they are recorded.
    recorder: Option<Recorder>,
    /// The way to propose tokens, if any are proposed.
    proposer: Option<Proposer>,
    proposals: Proposals,
    /// Shapes that calls of the model are filled up to, if they are.
    shapes: Option<Shapes>,
    /// Summary of the last finished step.
    last: StepSummary,
}

/// State for choosing the tokens of a request.
#[derive(Debug)]
struct Active {
    history: History,
    sampling: Sampling,
    ends: Vec<u32>,
    /// Number of tokens that may still be generated.
    left: usize,
    /// Salt of the prefix cache.
    salt: Vec<u8>,
    /// What restricts the tokens.
    constraint: Option<Box<dyn Constraint>>,
}

impl Active {
    /// Chooses token number `place` as the constraint allows it, and returns whether the answer is complete with it.
    fn draw(&mut self, logits: &[f32], place: u64) -> Result<(Draw, bool), SampleError> {
        let (sampling, history) = (&self.sampling, &self.history);
        let Some(constraint) = &mut self.constraint else {
            return Ok((sampling.sample(logits, history, place)?, false));
        };
        let allowed = constraint.allowed()?;
        let draw = sampling.sample_among(Some(&allowed), logits, history, place)?;
        let complete = constraint.push(draw.id)?;
        Ok((draw, complete))
    }
}

impl Engine {
    /// Makes an engine for `model`, whose weights are on `device`.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for invalid limits, and [`EngineError::Model`] for more tokens than a cache can have, for sequences that may
    /// outgrow a chunk in which the model attends, and if the device can't hold the cache's first pages.
    pub fn new(model: Model, options: EngineOptions, device: &Device) -> Result<Self, EngineError> {
        options.memory(model.spec())?;
        let limits = options.limits;
        let first = (options.format, options.first());
        Ok(Self {
            shapes: Shapes::of(&model, &limits, device)?,
            cache: GrowingCache::new(model.spec(), limits, first, device)?,
            device: device.clone(),
            scheduler: Scheduler::new(limits)?,
            limits,
            first,
            active: HashMap::new(),
            next: 0,
            no_room: None,
            ended: Vec::new(),
            experts: None,
            recorder: None,
            proposer: None,
            proposals: Proposals::default(),
            last: StepSummary::default(),
            model,
        })
    }

    /// The engine's model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Bytes of the cache as it is now, and of the cache of a draft model, if there is one.
    pub fn cache_bytes(&self) -> usize {
        let draft = self.proposer.as_ref().map_or(0, Proposer::cache_bytes);
        self.cache.now().bytes() + draft
    }

    /// Adds a request, which begins after all earlier requests.
    ///
    /// # Errors
    /// [`EngineError::Refused`] for a request that could never run, [`EngineError::Unfit`] for a token that isn't in the vocabulary.
    pub fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError> {
        self.check_tokens(&generation.prompt)?;
        let id = RequestId(self.next);
        let (history, tokens) = (History::new(&generation.prompt), generation.prompt.len());
        let request = Request::new(id, generation.prompt, generation.most_new);
        let request = request.with_salt(generation.salt.as_slice());
        self.scheduler.add(request)?;
        // Memory may have become free.
        self.scheduler.limit(self.limits.pages);
        if let Some(proposer) = &mut self.proposer {
            proposer.try_again();
        }
        self.next += 1;
        let active = Active {
            history,
            sampling: generation.sampling,
            ends: generation.ends,
            left: generation.most_new,
            salt: generation.salt,
            constraint: generation.constraint,
        };
        self.active.insert(id, active);
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(id, tokens);
        }
        Ok(id)
    }

    /// Cancels a request, which then gives no more events. Returns whether the request existed.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.active.remove(&id);
        if let Some(recorder) = &mut self.recorder {
            recorder.forget(id);
        }
        let events = self.ended.len();
        self.ended.retain(|(ended, _)| *ended != id);
        self.scheduler.cancel(id) || self.ended.len() < events
    }

    /// Whether there are no requests, and no events to return.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.ended.is_empty()
    }

    /// Numbers of pages by their state.
    pub fn usage(&self) -> Usage {
        self.scheduler.usage()
    }

    /// Counts of tokens looked up and found in the prefix cache, and of preemptions.
    pub fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    /// Numbers of requests by whether they have begun.
    pub fn queue(&self) -> Queue {
        Queue {
            running: self.scheduler.running().count(),
            waiting: self.scheduler.waiting().count(),
        }
    }

    /// What the last finished step was made of; nothing before the first.
    pub fn last_step(&self) -> &StepSummary {
        &self.last
    }

    /// Computes the logits \[V\] of the token after `tokens` in one pass without the cache, and waits for them.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for no tokens, more than a request may have, or one that isn't in the vocabulary, and [`EngineError::Model`] if
    /// the device can't compute.
    pub fn last_logits(&self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        let fits = (1..=self.limits.longest).contains(&tokens.len());
        let expected = format_args!("1 to {}", self.limits.longest);
        Mismatch::unless(fits, "tokens before the logits", expected, tokens.len())?;
        self.check_tokens(tokens)?;
        let (model, device) = (&self.model, &self.device);
        Ok(match &self.shapes {
            Some(shapes) => model.last_logits_padded(tokens, shapes.whole(), device)?,
            None => model.last_logits(tokens, device)?,
        })
    }

    /// Checks that tokens are in the vocabulary.
    fn check_tokens(&self, tokens: &[u32]) -> Result<(), Mismatch> {
        let vocabulary = self.model.vocabulary();
        let known = |token: &&u32| (**token as usize) < vocabulary;
        match tokens.iter().find(|token| !known(token)) {
            Some(token) => {
                let fits = format!("less than {vocabulary}");
                Err(Mismatch::new("token of a prompt", fits, token))
            }
            None => Ok(()),
        }
    }

    /// Starts counting, on the device, how many of the computed tokens each expert gets. Returns whether the model has experts.
    ///
    /// Tokens found in the prefix cache aren't computed and not counted; tokens of a preempted request are computed and counted again, and
    /// proposed tokens are counted, whether they are accepted or not.
    pub fn count_experts(&mut self) -> bool {
        self.experts = ExpertLoad::of(self.model.spec());
        self.experts.is_some()
    }

    /// Returns the tokens of each expert since [`count_experts`](Self::count_experts), by layer, and waits for the device. Empty if nothing
    /// is counted.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the device failed.
    pub fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError> {
        let read = self.experts.as_ref().map(ExpertLoad::read);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// Computes one step: the next token of every running request, and those that were proposed behind it, or a piece of its prompt. Returns
    /// the events in the order of the requests.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the model can't be run; the step then has no effect.
    pub fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError> {
        let _span = trace_span!("step").entered();
        let (mut read, mut experts) = (Vec::new(), Vec::new());
        let records = self.recorder.is_some();
        // The result of each call of the model is read before the next call begins, because XLA would compile both calls together as
        // another program.
        let launched = self.launch_each(&mut |computed| {
            // With another handle of the logits, a processor's memory would be copied.
            if let Some(logits) = computed.logits.take() {
                let data = trace_span!("wait").in_scope(|| logits.try_into_data());
                read.push(data.map_err(|error| EngineError::Device(error.to_string()))?);
            }
            if records {
                experts.push(computed.read_experts()?);
            }
            Ok(())
        });
        let Some(launched) = launched? else {
            return Ok(Vec::new());
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.note(&launched, &experts);
        }
        let events = self.finish(launched, &read)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.follow(&events);
        }
        Ok(events)
    }

    /// Queues one step on the device without waiting; `None` if there are no requests. Programs that can't block read the data that
    /// [`Launched::reads`] lists, and pass it to [`Engine::finish`]. Meanwhile, requests can be added and cancelled. With a draft model, this
    /// waits for the draft's tokens.
    ///
    /// # Errors
    /// As [`Engine::step`], [`EngineError::Step`] if the previous step was neither finished nor abandoned, and [`EngineError::Unfit`] while
    /// routes are recorded.
    pub fn launch(&mut self) -> Result<Option<Launched>, EngineError> {
        self.check_launch()?;
        self.launch_each(&mut |_| Ok(()))
    }

    /// Like [`Engine::launch`], and calls `then` after each call of the model.
    fn launch_each(
        &mut self,
        then: &mut dyn FnMut(&mut Computed) -> Result<(), EngineError>,
    ) -> Result<Option<Launched>, EngineError> {
        let mut step = self.scheduled()?;
        if step.work.is_empty() && self.ended.is_empty() {
            return Ok(None);
        }
        let proposed = self.propose(&mut step);
        let calls = proposed.and_then(|()| calls(&step.work, self.shapes.as_ref()));
        let calls = calls.inspect_err(|_| {
            self.scheduler.abandon();
        })?;
        let mut all = Vec::new();
        for call in calls {
            let computed = self.compute(&step.work, call);
            let computed = computed.and_then(|mut of| then(&mut of).map(|()| of));
            match computed {
                Ok(computed) => all.push(computed),
                Err(error) => {
                    self.go_back();
                    return Err(error);
                }
            }
        }
        Ok(Some(Launched::new(step, all)))
    }

    /// Schedules a step, for whose pages the cache grows first if it must. If it can't, the step is scheduled with the pages that there are,
    /// and a request that then can't go on although it is alone ends. Empty if there are no requests left.
    fn scheduled(&mut self) -> Result<Step, EngineError> {
        loop {
            let step = self.scheduler.step()?;
            if step.work.is_empty() {
                let (Some(id), Some(error)) = (self.scheduler.first(), self.no_room) else {
                    return Ok(step);
                };
                self.scheduler.cancel(id);
                self.active.remove(&id);
                self.ended.push((id, Event::End(Ended::NoRoom(error))));
                continue;
            }
            match self.cache.grow(self.scheduler.pages_reached()) {
                Ok(()) => return Ok(step),
                Err(moebius_model::Error::NoRoom(error)) => {
                    self.scheduler.abandon();
                    self.scheduler.limit(self.cache.now().page_count());
                    self.no_room = Some(error);
                }
                Err(error) => {
                    self.scheduler.abandon();
                    return Err(error.into());
                }
            }
        }
    }

    /// Finishes a launched step: chooses the next tokens from the data that was `read`, and returns events like [`Engine::step`].
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for data that doesn't match [`Launched::reads`]; the step is then abandoned.
    pub fn finish(
        &mut self,
        launched: Launched,
        read: &[TensorData],
    ) -> Result<Vec<(RequestId, Event)>, EngineError> {
        let _span = trace_span!("choose").entered();
        let logits = match launched.logits(read) {
            Ok(logits) => logits,
            Err(error) => {
                self.abandon(launched);
                return Err(error.into());
            }
        };
        let (mut events, mut sampled) = (std::mem::take(&mut self.ended), Vec::new());
        for (work, logits) in launched.step.work.iter().zip(&logits) {
            self.verify(work, logits, &mut events, &mut sampled);
        }
        if !launched.step.work.is_empty() {
            self.scheduler.complete(&sampled)?;
        }
        self.last = launched.summary();
        Ok(events)
    }

    /// Abandons a step whose results can't be read: its requests return to their earlier state, and the step is computed again.
    pub fn abandon(&mut self, launched: Launched) {
        drop(launched);
        self.go_back();
    }

    /// Abandons the step under way, of which the cache may hold something: what it kept of the tokens before may be gone.
    fn go_back(&mut self) {
        self.scheduler.rewind(self.cache.now().shortened_to());
    }

    /// Chooses token number `place` of a request, and adds the events. Returns the token unless the request ended.
    fn choose(
        &mut self,
        id: RequestId,
        place: usize,
        logits: &[f32],
        events: &mut Vec<(RequestId, Event)>,
        sampled: &mut Vec<Sampled>,
    ) -> Option<u32> {
        let active = self.active.get_mut(&id)?;
        let mut token = None;
        let ended = match active.draw(logits, place as u64) {
            Ok((draw, _)) if active.ends.contains(&draw.id) => {
                sampled.push(Sampled::last(id, draw.id));
                Some(Ended::Stop)
            }
            Ok((draw, complete)) => {
                token = Some(draw.id);
                active.history.push(draw.id);
                active.left -= 1;
                let full = (active.left == 0).then_some(Ended::Length);
                let ended = complete.then_some(Ended::Stop).or(full);
                sampled.push(Sampled {
                    last: ended.is_some(),
                    ..Sampled::new(id, draw.id)
                });
                events.push((id, Event::Token(draw)));
                ended
            }
            Err(error) => {
                self.scheduler.cancel(id);
                Some(Ended::Failed(error))
            }
        };
        if let Some(ended) = ended {
            self.active.remove(&id);
            events.push((id, Event::End(ended)));
            return None;
        }
        token
    }
}

/// Error of an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting or a token is invalid.
    #[error(transparent)]
    Unfit(#[from] Mismatch),
    /// The request could never run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A call of the scheduler was out of order, which is a bug of the engine.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The model or its device failed.
    #[error(transparent)]
    Model(#[from] moebius_model::Error),
    /// A device failed during a computation.
    #[error("the device failed: {0}")]
    Device(String),
}
