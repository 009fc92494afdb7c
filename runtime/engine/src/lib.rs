//! An engine with which a language model answers many requests at once.
//!
//! [`Engine`] runs a model. The schedule of its computations is made by pure functions, without a device, threads or clocks, which work for
//! any other model, too.
//!
//! A [`Scheduler`] takes requests and decides, step by step, which positions of which requests are computed, and in which pages of a cache
//! their keys and values lie. The caller runs the step (with a model on a device, or in a test), reads the logits of the requests that have
//! all their tokens computed, chooses their next tokens by [`Sampling`], and passes the tokens back. Requests have no phases, only tokens
//! of which some are computed: a long prompt is computed in pieces next to tokens of other requests, a common prefix is computed once, and
//! a request that gave up its pages is computed again.
//!
//! Scheduling doesn't change what is generated. If a model gives a position the same bits for any split of its sequence into steps and with
//! any other requests in these steps, a request gets the same tokens alone, among others, after a hit in the prefix cache and after a
//! preemption: no page is written by two requests, or after others may read it, and a draw depends only on a seed and the token's index.
//! For the same reason proposed tokens ([`Engine::speculate_by_ngrams`], [`Engine::speculate_by_draft`]) save steps and change nothing.
//!
//! ```
//! use moebius_engine::{History, Limits, Request, RequestId, Sampled, Sampling, Scheduler};
//!
//! # fn logits(_: &[u32]) -> Vec<f32> { vec![0.0, 1.0, 2.0] }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut scheduler = Scheduler::new(Limits::new(64, 256, 16))?;
//! let prompt = vec![2, 1, 2];
//! let mut history = History::new(&prompt);
//! scheduler.add(Request::new(RequestId(7), prompt, 5))?;
//! let sampling = Sampling::greedy();
//! let mut text = Vec::new();
//! while !scheduler.is_idle() {
//!     let step = scheduler.step()?;
//!     let mut sampled = Vec::new();
//!     for work in &step.work {
//!         let logits = logits(&work.tokens); // Computed by a model, with keys and values in `work.pages`.
//!         if let Some(index) = work.samples {
//!             let draw = sampling.sample(&logits, &history, index as u64)?;
//!             history.push(draw.id);
//!             text.push(draw.id);
//!             sampled.push(Sampled::new(work.request, draw.id));
//!         }
//!     }
//!     scheduler.complete(&sampled)?;
//! }
//! assert_eq!(text, [2; 5]);
//! # Ok(())
//! # }
//! ```

mod constraint;
mod engine;
mod growing;
mod pages;
mod sampler;
mod schedule;
mod shapes;
mod speculative;

pub use constraint::{Allowed, Constraint, ConstraintError};
pub use engine::{
    Ended, Engine, EngineError, EngineOptions, Event, Experts, Generation, Launched, Queue,
    StepSummary,
};
pub use moebius::moe::switching::CacheStatistics;
pub use moebius_model::LayerTokens;
pub use pages::{PAGE, Usage};
pub use sampler::{Draw, History, Logprobs, SampleError, Sampling, SamplingOptions, philox};
pub use schedule::{
    Counts, Limits, Refused, Request, RequestId, Sampled, Scheduler, Step, StepError, Work,
};
pub use speculative::{Ngrams, Proposals};
