//! Speculative decoding by an engine: who proposes tokens, and which of them requests get.

use std::borrow::Cow;

use moebius_model::decoder::{Cache, Model};
use moebius_ops::{Fault, Mismatch};

use super::{Engine, EngineError, Event};
use crate::growing::GrowingCache;
use crate::schedule::{RequestId, Sampled, Step, Work};
use crate::speculative::{Ask, Draft, Ngrams, Proposals, Proposer};

impl Engine {
    /// Verifies tokens from now on that n-grams of each request's own text propose. The tokens of requests and their probabilities are those
    /// without proposals, but on XLA, whose order of summation depends on the number of tokens of a step.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for a model whose cache can't forget single tokens.
    pub fn speculate_by_ngrams(&mut self, ngrams: Ngrams) -> Result<(), EngineError> {
        check_forgets("model with proposed tokens", self.cache.now())?;
        self.proposer = Some(Proposer::Ngrams(ngrams));
        self.propose_at_most(usize::MAX);
        Ok(())
    }

    /// Verifies tokens from now on that `draft`, a model with the same vocabulary on the engine's device, proposes: up to `tokens` for each
    /// request in a step, drawn as the request draws. The tokens of requests are those without proposals, as with
    /// [`Engine::speculate_by_ngrams`].
    ///
    /// The draft has a cache of its own, with the format, limits and first pages of the engine's. Where the device has no memory for it to
    /// grow, fewer tokens are proposed.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] for no tokens, another vocabulary, and models whose cache can't forget single tokens; [`EngineError::Model`] as
    /// [`Engine::new`].
    pub fn speculate_by_draft(&mut self, draft: Model, tokens: usize) -> Result<(), EngineError> {
        let what = "tokens that a draft model proposes";
        Fault::Config.unless(tokens > 0, what, "at least 1", tokens)?;
        let [expected, got] = [&self.model, &draft].map(|model| model.vocabulary());
        let what = "vocabulary of a draft model";
        Fault::Config.unless(
            expected == got,
            what,
            format_args!("{expected} tokens"),
            got,
        )?;
        check_forgets("model with proposed tokens", self.cache.now())?;
        let (limits, device) = (self.limits, &self.device);
        let cache = GrowingCache::new(draft.spec(), limits, self.first, device)?;
        check_forgets("draft model", cache.now())?;
        let shapes = self.shapes.clone();
        let draft = Draft::new(draft, tokens, cache, limits, shapes, device);
        self.proposer = Some(Proposer::Draft(Box::new(draft)));
        self.propose_at_most(usize::MAX);
        Ok(())
    }

    /// Lets no more than `tokens` tokens be proposed for a request in a step from now on; 0 pauses proposals, and [`usize::MAX`] lets as many
    /// be proposed as at the start. Changes no token, but the time that they take.
    pub fn propose_at_most(&mut self, tokens: usize) {
        let most = self.proposer.as_ref().map_or(0, Proposer::tokens);
        self.scheduler.make_room(most.min(tokens));
    }

    /// Counts of proposed and accepted tokens.
    pub fn proposals(&self) -> Proposals {
        self.proposals
    }

    /// Proposes tokens for the parts of a step that have room for them.
    pub(super) fn propose(&mut self, step: &mut Step) -> Result<(), EngineError> {
        let Some(proposer) = &mut self.proposer else {
            return Ok(());
        };
        let (mut places, mut asks) = (Vec::new(), Vec::new());
        for (place, work) in step.work.iter().enumerate() {
            let request = work.request;
            let text = self.scheduler.tokens(request);
            if let (Some(index), Some(active), Some(text)) =
                (work.samples, self.active.get(&request), text)
                && work.room > 0
            {
                places.push(place);
                asks.push(Ask {
                    request,
                    text,
                    room: work.room,
                    index,
                    sampling: &active.sampling,
                    history: &active.history,
                    salt: &active.salt,
                });
            }
        }
        let active = &self.active;
        let proposed = proposer.propose(&asks, &|id| active.contains_key(&id))?;
        for (place, tokens) in places.into_iter().zip(proposed) {
            step.work[place].propose(&tokens);
        }
        Ok(())
    }

    /// Chooses the next token of a part from the first of its logits, and as long as the chosen tokens are the proposed ones, further tokens
    /// from the others. Adds the events.
    pub(super) fn verify(
        &mut self,
        work: &Work,
        logits: &[Cow<'_, [f32]>],
        events: &mut Vec<(RequestId, Event)>,
        sampled: &mut Vec<Sampled>,
    ) {
        let Some(place) = work.samples else {
            return;
        };
        let (before, proposed) = (sampled.len(), work.proposal());
        for (number, logits) in logits.iter().enumerate() {
            let token = self.choose(work.request, place + number, logits, events, sampled);
            if token.is_none() || token != proposed.get(number).copied() {
                break;
            }
        }
        let chosen = sampled.len() - before;
        self.proposals.proposed += work.proposed as u64;
        // The last chosen token follows from the others, proposed or not.
        self.proposals.accepted += chosen.saturating_sub(1) as u64;
    }
}

/// Refuses a cache whose sequences can't be shortened by single tokens, as they are where proposals are rejected.
fn check_forgets(what: &'static str, cache: &Cache) -> Result<(), Mismatch> {
    let tokens = cache.shortened_to();
    let expected = "one whose cache can forget single tokens";
    let got = format_args!("one whose sequences have a multiple of {tokens} tokens left then");
    Fault::Unsupported.unless(tokens == 1, what, expected, got)
}
