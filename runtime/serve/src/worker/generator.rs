//! What the worker needs of an engine.

use moebius_engine::{
    CacheStatistics, Counts, Engine, EngineError, Event, Generation, LayerTokens, Proposals, Queue,
    RequestId, StepSummary, Usage,
};

/// Source of answers that a server drives on one thread: an [`Engine`], or a program's own around one.
pub trait Generator {
    /// As [`Engine::add`].
    ///
    /// # Errors
    /// [`EngineError`] for a request that could never run.
    fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError>;

    /// As [`Engine::cancel`].
    fn cancel(&mut self, id: RequestId) -> bool;

    /// As [`Engine::is_idle`].
    fn is_idle(&self) -> bool;

    /// As [`Engine::step`].
    ///
    /// # Errors
    /// [`EngineError`] if nothing can be computed any more.
    fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError>;

    /// As [`Engine::last_logits`].
    ///
    /// # Errors
    /// [`EngineError`] for tokens that the model doesn't have, and if the device can't compute.
    fn last_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError>;

    /// As [`Engine::last_step`].
    fn last_step(&self) -> &StepSummary;

    /// As [`Engine::queue`].
    fn queue(&self) -> Queue;

    /// As [`Engine::usage`].
    fn usage(&self) -> Usage;

    /// As [`Engine::counts`].
    fn counts(&self) -> Counts;

    /// As [`Engine::proposals`].
    fn proposals(&self) -> Proposals;

    /// As [`Engine::expert_load`].
    ///
    /// # Errors
    /// [`EngineError`] if the device failed.
    fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError>;

    /// As [`Engine::cache_bytes`].
    fn cache_bytes(&self) -> usize;

    /// The moves of experts to the device; zeros where all of them are there.
    fn expert_cache(&self) -> CacheStatistics {
        CacheStatistics::default()
    }
}

impl Generator for Engine {
    fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError> {
        Engine::add(self, generation)
    }

    fn cancel(&mut self, id: RequestId) -> bool {
        Engine::cancel(self, id)
    }

    fn is_idle(&self) -> bool {
        Engine::is_idle(self)
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError> {
        Engine::step(self)
    }

    fn last_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        Engine::last_logits(self, tokens)
    }

    fn last_step(&self) -> &StepSummary {
        Engine::last_step(self)
    }

    fn queue(&self) -> Queue {
        Engine::queue(self)
    }

    fn usage(&self) -> Usage {
        Engine::usage(self)
    }

    fn counts(&self) -> Counts {
        Engine::counts(self)
    }

    fn proposals(&self) -> Proposals {
        Engine::proposals(self)
    }

    fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError> {
        Engine::expert_load(self)
    }

    fn cache_bytes(&self) -> usize {
        Engine::cache_bytes(self)
    }

    fn expert_cache(&self) -> CacheStatistics {
        self.model().expert_cache().unwrap_or_default()
    }
}
