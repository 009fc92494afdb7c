//! A language model that answers many requests at once.
//!
//! [`Engine`] runs a model; what it computes next is decided by pure functions, without a device, threads or clocks, that serve
//! any other model, too.
//!
//! A [`Scheduler`] is told of requests and says, step by step, which positions of which are computed and in which pages of a cache
//! their keys and values lie. Whoever runs a step (a model on a device, or a test) reads the logits of those that end theirs,
//! chooses the next token by [`Sampling`], and hands it back. There are no phases: a request has tokens, of which some are computed,
//! so a long prompt is computed in pieces beside the tokens of others, a common start is computed once, and a request that had to give
//! up its pages is computed again.
//!
//! None of it changes what is generated. If a model gives a position the same bits however its sequence is cut into steps and
//! whatever shares them, a request gets the same tokens alone, beside others, after a hit in the prefix cache and after it was preempted:
//! no page is written by two requests or after others may read it, and a draw depends on a seed and the token's place only.
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

mod engine;
mod pages;
mod sampler;
mod schedule;

pub use engine::{Ended, Engine, EngineError, EngineOptions, Event, Experts, Generation, Launched};
pub use pages::{PAGE, Usage};
pub use sampler::{Draw, History, Logprobs, SampleError, Sampling, SamplingOptions, philox};
pub use schedule::{
    Counts, Limits, Refused, Request, RequestId, Sampled, Scheduler, Step, StepError, Work,
};
