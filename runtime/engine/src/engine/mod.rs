//! A model that answers many requests at once, on the thread that calls it.

mod launched;

pub use launched::{Experts, Launched};

use std::collections::{BTreeMap, HashMap};

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::{CacheFormat, Pages, Span};
use moebius_model::decoder::{Cache, Logits, Model};
use moebius_model::{ExpertLoad, LayerTokens};
use moebius_ops::Mismatch;

use crate::pages::PAGE;
use crate::schedule::{Limits, Request, RequestId, Sampled, Scheduler, Work};
use crate::{Counts, Draw, History, Refused, SampleError, Sampling, StepError, Usage};
use launched::Computed;

/// How much an engine does at once, and what its cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Pages of the cache, tokens of a step, requests at the same time, tokens of a request.
    pub limits: Limits,
    /// How keys and values are kept.
    pub format: CacheFormat,
}

/// Tokens of a prompt that are computed at a time, where nothing else is said.
const BATCH_TOKENS: usize = 512;

impl EngineOptions {
    /// Room for one request at a time, of `tokens`, prompt and answer; keys and values as they are.
    pub fn for_one(tokens: usize) -> Self {
        Self {
            limits: Limits::new(tokens.div_ceil(PAGE), BATCH_TOKENS, 1),
            format: CacheFormat::F32,
        }
    }
}

/// What is to be generated.
#[derive(Clone, Debug)]
pub struct Generation {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, at least one.
    pub most_new: usize,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Tokens that end the answer; they are no part of it.
    pub ends: Vec<u32>,
    /// As [`Request::salt`].
    pub salt: Vec<u8>,
}

impl Generation {
    /// The likeliest tokens after `prompt`, whatever they are.
    pub fn new(prompt: Vec<u32>, most_new: usize) -> Self {
        Self {
            prompt,
            most_new,
            sampling: Sampling::greedy(),
            ends: Vec::new(),
            salt: Vec::new(),
        }
    }

    /// With another way to choose.
    pub fn with_sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Ended by these tokens, too.
    pub fn with_ends(mut self, ends: impl IntoIterator<Item = u32>) -> Self {
        self.ends.extend(ends);
        self
    }
}

/// What came of a step for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Its next token.
    Token(Draw),
    /// Nothing more comes, and why.
    End(Ended),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The model chose a token that ends it.
    Stop,
    /// It has as many tokens as it may.
    Length,
    /// No token can be chosen of its logits.
    Failed(SampleError),
}

/// A model, its cache, and the requests that it answers.
///
/// [`Engine::step`] computes the next tokens of all requests that run; there is no other thread. [`Engine::launch`] and
/// [`Engine::finish`] are the same for programs that can't block. What a request gets doesn't depend on
/// the others, to the bit.
#[derive(Debug)]
pub struct Engine {
    model: Model,
    cache: Cache,
    device: Device,
    scheduler: Scheduler,
    active: HashMap<RequestId, Active>,
    next: u64,
    /// Where it is counted.
    experts: Option<ExpertLoad>,
}

/// What chooses the tokens of a request.
#[derive(Debug)]
struct Active {
    history: History,
    sampling: Sampling,
    ends: Vec<u32>,
    /// Tokens that it may get yet.
    left: usize,
}

impl Engine {
    /// An engine for `model`, which is on `device`.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for limits that can't be, and [`EngineError::Model`] if the device can't hold the cache.
    pub fn new(model: Model, options: EngineOptions, device: &Device) -> Result<Self, EngineError> {
        let scheduler = Scheduler::new(options.limits)?;
        let Limits { pages, longest, .. } = options.limits;
        let pages = Pages::paged(0, pages, longest).map_err(moebius_model::Error::from)?;
        let cache = Cache::new(model.spec(), pages, options.format, device)?;
        Ok(Self {
            cache,
            device: device.clone(),
            scheduler,
            active: HashMap::new(),
            next: 0,
            experts: None,
            model,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Bytes of the cache.
    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Takes a request, which begins after all that came before.
    ///
    /// # Errors
    /// [`EngineError::Refused`] for one that could never run, [`EngineError::Unfit`] for a token that the model doesn't have.
    pub fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError> {
        let vocabulary = self.model.embedding.dims()[0];
        let known = |token: &&u32| (**token as usize) < vocabulary;
        if let Some(token) = generation.prompt.iter().find(|token| !known(token)) {
            let fits = format!("less than {vocabulary}");
            Mismatch::unless(false, "token of a prompt", fits, token)?;
        }
        let id = RequestId(self.next);
        let history = History::new(&generation.prompt);
        let request = Request::new(id, generation.prompt, generation.most_new);
        self.scheduler.add(request.with_salt(generation.salt))?;
        self.next += 1;
        let active = Active {
            history,
            sampling: generation.sampling,
            ends: generation.ends,
            left: generation.most_new,
        };
        self.active.insert(id, active);
        Ok(id)
    }

    /// Ends a request, of which nothing more comes. Says whether there was such a request.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.active.remove(&id);
        self.scheduler.cancel(id)
    }

    /// Whether there is no request.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// How many pages are what.
    pub fn usage(&self) -> Usage {
        self.scheduler.usage()
    }

    /// What was looked up in the prefix cache and found, and how often a request gave up its pages.
    pub fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    /// Counts from now on, on the device, how many of the tokens that are computed each expert gets. Says whether the model has experts.
    ///
    /// Tokens that the prefix cache has are not computed, those of a request that was preempted are computed again.
    pub fn count_experts(&mut self) -> bool {
        self.experts = ExpertLoad::of(self.model.spec());
        self.experts.is_some()
    }

    /// What the experts got since [`count_experts`](Self::count_experts), by layers; empty where nothing is counted. Waits for the device.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the device failed.
    pub fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError> {
        let read = self.experts.as_ref().map(ExpertLoad::read);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// Computes one step: the next token of every request that runs, or a piece of its prompt. Says what came of it, in the order of the
    /// requests.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the model can't be run; then the step was not, and its requests are as they were before.
    pub fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError> {
        let mut read = Vec::new();
        // Each call of the model is read before the next begins: to XLA both together would be a program of their own.
        let launched = self.launch_each(&mut |computed| {
            if let Some(logits) = computed.logits.clone() {
                let data = logits.try_into_data();
                read.push(data.map_err(|error| EngineError::Device(error.to_string()))?);
            }
            Ok(())
        });
        match launched? {
            Some(launched) => self.finish(launched, &read),
            None => Ok(Vec::new()),
        }
    }

    /// Puts one step in the device's queue and waits for nothing; `None` where there is no request. For programs that can't block: they
    /// read what [`Launched::reads`] lists, and hand it to [`Engine::finish`]. Meanwhile requests may come and be cancelled.
    ///
    /// # Errors
    /// As [`Engine::step`], and [`EngineError::Step`] if the step before was neither finished nor abandoned.
    pub fn launch(&mut self) -> Result<Option<Launched>, EngineError> {
        self.launch_each(&mut |_| Ok(()))
    }

    /// [`Engine::launch`]; `then` is told of each call of the model.
    fn launch_each(
        &mut self,
        then: &mut dyn FnMut(&Computed) -> Result<(), EngineError>,
    ) -> Result<Option<Launched>, EngineError> {
        let step = self.scheduler.step()?;
        if step.work.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for parts in groups(&step.work) {
            let computed = self.compute(&step.work, parts);
            let computed = computed.and_then(|computed| then(&computed).map(|()| computed));
            match computed {
                Ok(computed) => all.push(computed),
                Err(error) => {
                    self.scheduler.abandon();
                    return Err(error);
                }
            }
        }
        Ok(Some(Launched::new(step, all)))
    }

    /// Chooses the next tokens of a step that the device has computed, of what was `read`, and says what came of it as [`Engine::step`].
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for other data than [`Launched::reads`] lists; then the step is abandoned.
    pub fn finish(
        &mut self,
        launched: Launched,
        read: &[TensorData],
    ) -> Result<Vec<(RequestId, Event)>, EngineError> {
        let logits = match launched.logits(read) {
            Ok(logits) => logits,
            Err(error) => {
                self.abandon(launched);
                return Err(error.into());
            }
        };
        let (mut events, mut sampled) = (Vec::new(), Vec::new());
        for (work, logits) in launched.step.work.iter().zip(&logits) {
            let (Some(place), Some(logits)) = (work.samples, logits) else {
                continue;
            };
            self.choose(work.request, place, logits, &mut events, &mut sampled);
        }
        self.scheduler.complete(&sampled)?;
        Ok(events)
    }

    /// Forgets a step whose results can't be read: its requests are as they were before, and compute it again.
    pub fn abandon(&mut self, launched: Launched) {
        drop(launched);
        self.scheduler.abandon();
    }

    /// Chooses a request's token number `place`.
    fn choose(
        &mut self,
        id: RequestId,
        place: usize,
        logits: &[f32],
        events: &mut Vec<(RequestId, Event)>,
        sampled: &mut Vec<Sampled>,
    ) {
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        let drawn = active
            .sampling
            .sample(logits, &active.history, place as u64);
        let ended = match drawn {
            Ok(draw) if active.ends.contains(&draw.id) => {
                sampled.push(Sampled::last(id, draw.id));
                Some(Ended::Stop)
            }
            Ok(draw) => {
                active.history.push(draw.id);
                active.left -= 1;
                sampled.push(Sampled::new(id, draw.id));
                events.push((id, Event::Token(draw)));
                (active.left == 0).then_some(Ended::Length)
            }
            Err(error) => {
                self.scheduler.cancel(id);
                Some(Ended::Failed(error))
            }
        };
        if let Some(ended) = ended {
            self.active.remove(&id);
            events.push((id, Event::End(ended)));
        }
    }

    /// Puts parts of a step with the same number of tokens in the device's queue.
    fn compute(&mut self, work: &[Work], parts: Vec<usize>) -> Result<Computed, EngineError> {
        let works: Vec<&Work> = parts.iter().map(|at| &work[*at]).collect();
        let tokens = works.iter().flat_map(|work| &work.tokens);
        let tokens: Vec<i32> = tokens.map(|token| *token as i32).collect();
        let shape = [works.len(), tokens.len() / works.len()];
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, shape), &self.device);
        let spans = works.iter().map(|work| Span {
            pages: &work.pages,
            start: work.positions.start,
            end: work.positions.end,
        });
        let spans: Vec<Span<'_>> = spans.collect();
        let Logits { logits, routing } = self.model.last_of(tokens, &spans, &mut self.cache)?;
        if let Some(experts) = &mut self.experts {
            experts.add(&routing)?;
        }
        // Pieces of prompts that end before their last token choose nothing.
        let chooses = works.iter().any(|work| work.samples.is_some());
        Ok(Computed {
            parts,
            tokens: shape[1],
            logits: chooses.then_some(logits),
            experts: routing.into_iter().map(|of| of.indices).collect(),
        })
    }
}

/// Why an engine wasn't made, refused a request, or didn't run a step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting or a token doesn't fit.
    #[error(transparent)]
    Unfit(#[from] Mismatch),
    /// A request could never run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The scheduler was told what can't be: a fault of the engine's.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The model, or the device below it, refused.
    #[error(transparent)]
    Model(#[from] moebius_model::Error),
    /// A device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
}

/// The parts with as many new tokens as each other, in the order of the step: those that choose one token are one call, and pieces of
/// prompts seldom have company. A token's bits are the same in any company.
fn groups(work: &[Work]) -> Vec<Vec<usize>> {
    let mut by_length = BTreeMap::<usize, Vec<usize>>::new();
    for (at, work) in work.iter().enumerate() {
        by_length.entry(work.positions.len()).or_default().push(at);
    }
    by_length.into_values().collect()
}
