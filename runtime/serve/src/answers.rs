//! The answers of a request while they are generated.

use std::sync::Arc;
use std::time::Instant;

use moebius_engine::Generation;
use moebius_grammar::Grammar;
use tokio::sync::mpsc;

use crate::admission::Place;
use crate::asked::Plan;
use crate::error::ApiError;
use crate::form::restrict;
use crate::service::Service;
use crate::traces::Trace;
use crate::worker::{Command, Failure, Job, Update};

/// Updates of an answer beside its tokens: the end, and one to spare.
const BESIDE_TOKENS: usize = 2;

/// The answers to one request. Dropping them cancels those that are not complete.
pub(crate) struct Answers {
    service: Arc<Service>,
    updates: mpsc::Receiver<(usize, Result<Update, Failure>)>,
    /// Number of answers that have not ended.
    open: usize,
    /// Number of tokens of all answers so far.
    generated: usize,
    /// The request's trace.
    pub(crate) trace: Trace,
}

impl Answers {
    /// Starts the answers of a request that arrived at `arrived`, each in its place and held to the grammar, if there is one.
    ///
    /// # Errors
    /// 429 if too many tokens wait, those of the plan's stop strings, and 500 if the engine is gone.
    pub(crate) fn start(
        service: &Arc<Service>,
        plan: &Plan,
        (mut generations, grammar): (Vec<Generation>, Option<&Grammar>),
        mut places: Vec<Place>,
        arrived: Instant,
    ) -> Result<Self, ApiError> {
        restrict(&mut generations, grammar);
        service.queue(&mut places, generations.iter().map(|of| of.prompt.len()))?;
        let trace = Trace::current();
        let prompts = generations.iter().step_by(plan.choices);
        let tokens = prompts.map(|of| of.prompt.len()).sum();
        trace.asked(&service.options.model, tokens);
        let times = service.times(arrived);
        let open = generations.len();
        let room = |of: &Generation| of.most_new + BESIDE_TOKENS;
        let room = generations.iter().map(room).sum();
        let (sender, updates) = mpsc::channel(room);
        for (choice, (generation, place)) in generations.into_iter().zip(places).enumerate() {
            let job = Job {
                choice,
                counts_prompt: choice.is_multiple_of(plan.choices),
                text: plan.text(&service.text.tokenizer)?,
                updates: sender.clone(),
                place,
                times,
                trace: trace.clone(),
            };
            let sent = service
                .worker
                .send(Command::Answer(Box::new(job), generation));
            sent.map_err(|failure| ApiError::failure(&failure, 0))?;
        }
        Ok(Self {
            service: service.clone(),
            updates,
            open,
            generated: 0,
            trace,
        })
    }

    /// The next update of any of the answers, with the answer's number; `None` after all have ended.
    ///
    /// # Errors
    /// The failure of an answer, which ends all of them.
    pub(crate) async fn next(&mut self) -> Result<Option<(usize, Update)>, ApiError> {
        if self.open == 0 {
            return Ok(None);
        }
        // The engine's thread drops the senders when it fails.
        let next = self.updates.recv().await;
        let (choice, update) = next.unwrap_or((0, Err(Failure::Gone)));
        match update {
            Ok(update) => {
                let ends = matches!(update, Update::End { .. });
                self.open -= usize::from(ends);
                self.generated += usize::from(!ends);
                Ok(Some((choice, update)))
            }
            Err(failure) => {
                self.open = 0;
                self.updates.close();
                let wait = self.service.admission.wait();
                Err(ApiError::failure(&failure, wait))
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.trace.generated(self.generated);
    }
}
