//! Routes of requests: the experts that their tokens went to, kept by the places of the cache's pages.

use std::collections::{BTreeMap, HashMap};

use moebius::moe::ChosenExperts;
use moebius_model::decoder::{FeedForwardSpec, ModelSpec, Routes};
use moebius_ops::{Fault, Mismatch};

use super::launched::{Computed, Launched};
use super::{Ended, Engine, EngineError, Event};
use crate::pages::PAGE;
use crate::schedule::RequestId;

/// The experts of tokens that were computed, by their place in the cache, so that a request that finds a prefix there gets its experts, too.
/// A place is computed again before other tokens are read from it.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// The experts of a place's token in all layers, one layer after the other.
    places: HashMap<usize, Vec<u32>>,
    running: HashMap<RequestId, Running>,
    /// The experts of the tokens of requests that have ended.
    ended: BTreeMap<RequestId, Vec<Vec<u32>>>,
}

#[derive(Debug)]
struct Running {
    /// Number of tokens of prompt and answer.
    tokens: usize,
    /// Number of tokens that were computed, and their pages.
    computed: usize,
    pages: Vec<u32>,
}

/// The experts of all tokens of a call of the model, a row for each token, for every layer that has experts.
pub(super) type Rows = Vec<Vec<Vec<u32>>>;

impl Recorder {
    pub(super) fn begin(&mut self, id: RequestId, tokens: usize) {
        let running = Running {
            tokens,
            computed: 0,
            pages: Vec::new(),
        };
        self.running.insert(id, running);
    }

    pub(super) fn forget(&mut self, id: RequestId) {
        self.running.remove(&id);
    }

    /// Notes the experts of a step, of which `read` has those of each call of the model.
    pub(super) fn note(&mut self, launched: &Launched, read: &[Rows]) {
        for (of, layers) in launched.computed().iter().zip(read) {
            for (number, piece) in of.pieces.iter().enumerate() {
                let work = &launched.step.work[piece.part];
                for (at, position) in piece.positions.clone().enumerate() {
                    let row = number * of.shape[1] + at;
                    let experts = layers.iter().flat_map(|rows| rows[row].iter().copied());
                    let place = place(&work.pages, position);
                    self.places.insert(place, experts.collect());
                }
                if let Some(running) = self.running.get_mut(&work.request) {
                    running.computed = piece.positions.end;
                    running.pages.clone_from(&work.pages);
                }
            }
        }
    }

    /// Counts tokens, and gathers the experts of the requests that end.
    pub(super) fn follow(&mut self, events: &[(RequestId, Event)]) {
        for (id, event) in events {
            match event {
                Event::Token(_) => {
                    if let Some(running) = self.running.get_mut(id) {
                        running.tokens += 1;
                    }
                }
                Event::End(Ended::Stop | Ended::Length) => self.end(*id),
                // The pages of a request that found no memory may be another's already.
                Event::End(Ended::Failed(_) | Ended::NoRoom(_)) => self.forget(*id),
            }
        }
    }

    fn end(&mut self, id: RequestId) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        // The last token was drawn, and not computed unless the request asked what follows it.
        let positions = 0..running.tokens.saturating_sub(1).min(running.computed);
        let of = |position| self.places.get(&place(&running.pages, position)).cloned();
        if let Some(experts) = positions.map(of).collect() {
            self.ended.insert(id, experts);
        }
    }
}

/// The place of a position in the pool of pages.
fn place(pages: &[u32], position: usize) -> usize {
    pages[position / PAGE] as usize * PAGE + position % PAGE
}

/// The routes of tokens with these `experts`, each of which has those of all layers, one after the other.
fn routes(spec: &ModelSpec, experts: &[Vec<u32>]) -> Result<Routes, moebius_model::Error> {
    let (mut layers, mut from) = (Vec::new(), 0);
    for layer in &spec.layers {
        let FeedForwardSpec::Experts(of) = &layer.feed_forward else {
            continue;
        };
        let to = from + of.top_k();
        let indices = experts.iter().flat_map(|token| token[from..to].iter());
        let indices = indices.copied().collect();
        layers.push(ChosenExperts::new(indices, of.top_k(), of.experts)?);
        from = to;
    }
    Routes::new(spec, layers)
}

impl Engine {
    /// Starts to record the experts that tokens go to, before the first request. Each step then reads the experts of all its tokens, and
    /// [`Engine::launch`] is refused, which reads fewer.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for a model without experts, and after the first request, whose tokens others may find in the cache.
    pub fn record_routes(&mut self) -> Result<(), EngineError> {
        let layers = self.model.spec().layers.iter();
        let mixed = layers.filter(|of| matches!(of.feed_forward, FeedForwardSpec::Experts(_)));
        let some = mixed.count() > 0;
        Fault::Config.unless(some, "layers to record routes of", "some with experts", 0)?;
        let (what, expected) = ("requests before routes are recorded", "none");
        Fault::State.unless(self.next == 0, what, expected, self.next)?;
        self.recorder = Some(Recorder::default());
        Ok(())
    }

    /// Takes the routes of a request that has ended: the experts of all tokens of its prompt and answer but the last, which are those whose
    /// logits chose or could have chosen the next token. `None` for a request that runs, that was cancelled or failed, or that has fewer than
    /// two tokens.
    ///
    /// # Errors
    /// [`EngineError::Model`] for routes that no file could hold ([`Routes::new`]).
    pub fn take_routes(&mut self, id: RequestId) -> Result<Option<Routes>, EngineError> {
        let recorder = self.recorder.as_mut();
        let experts = recorder.and_then(|recorder| recorder.ended.remove(&id));
        let experts = experts.filter(|experts| !experts.is_empty());
        let spec = self.model.spec();
        let routes = experts.map(|experts| routes(spec, &experts));
        Ok(routes.transpose()?)
    }

    /// Refuses a step that isn't read at once while routes are recorded.
    pub(super) fn check_launch(&self) -> Result<(), Mismatch> {
        let what = "step while routes are recorded";
        let none = self.recorder.is_none();
        Fault::State.unless(none, what, "one that `step` computes", "one to be launched")
    }
}

impl Computed {
    /// Reads the experts of all tokens from the device.
    pub(super) fn read_experts(&self) -> Result<Rows, EngineError> {
        let read = self.experts.iter().map(|experts| {
            let [_, top_k] = experts.dims();
            let data = experts.clone().try_into_data();
            let data = data.map_err(|error| EngineError::Device(error.to_string()))?;
            let experts: Vec<u32> = data.iter::<u32>().collect();
            Ok(experts.chunks(top_k).map(<[u32]>::to_vec).collect())
        });
        read.collect()
    }
}
