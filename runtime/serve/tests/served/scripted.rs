//! A generator whose answers to all requests are the same tokens.

use std::collections::BTreeMap;

use moebius_engine::{
    Counts, Draw, Ended, EngineError, Event, Generation, LayerTokens, Proposals, Queue, RequestId,
    StepSummary, Usage,
};
use moebius_serve::Generator;

/// Answers with a script, a token in each step.
pub(crate) struct Scripted {
    script: Vec<u32>,
    /// Requests with the number of their tokens so far.
    active: BTreeMap<RequestId, (Generation, usize)>,
    next: u64,
    step: StepSummary,
}

impl Scripted {
    pub(crate) fn new(script: Vec<u32>) -> Self {
        Self {
            script,
            active: BTreeMap::new(),
            next: 0,
            step: StepSummary::default(),
        }
    }
}

impl Generator for Scripted {
    fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError> {
        let id = RequestId(self.next);
        self.next += 1;
        self.active.insert(id, (generation, 0));
        Ok(id)
    }

    fn cancel(&mut self, id: RequestId) -> bool {
        self.active.remove(&id).is_some()
    }

    fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError> {
        let mut events = Vec::new();
        self.step = StepSummary::default();
        self.active.retain(|id, (generation, told)| {
            self.step.tokens += 1;
            if *told == 0 {
                self.step.began.push(*id);
            }
            let next = self.script.get(*told).copied();
            let next = next.filter(|token| !generation.ends.contains(token));
            let Some(token) = next else {
                events.push((*id, Event::End(Ended::Stop)));
                return false;
            };
            *told += 1;
            let draw = Draw {
                id: token,
                logprobs: None,
            };
            events.push((*id, Event::Token(draw)));
            let goes_on = *told < generation.most_new;
            if !goes_on {
                events.push((*id, Event::End(Ended::Length)));
            }
            goes_on
        });
        Ok(events)
    }

    fn last_logits(&mut self, _: &[u32]) -> Result<Vec<f32>, EngineError> {
        Ok(Vec::new())
    }

    fn last_step(&self) -> &StepSummary {
        &self.step
    }

    fn queue(&self) -> Queue {
        Queue {
            running: self.active.len(),
            waiting: 0,
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            free: 1,
            cached: 0,
            used: 0,
        }
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn proposals(&self) -> Proposals {
        Proposals::default()
    }

    fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError> {
        Ok(Vec::new())
    }

    fn cache_bytes(&self) -> usize {
        0
    }
}
