//! Ordinary tensors on XLA.
//!
//! Burn's list of backends is closed, but one of them, the remote backend, sends every operation to a server, and a
//! server may host any backend. The server here runs inside the process and hosts a router that records.
//!
//! ```text
//! Tensor → Burn's dispatch → burn-remote ⇄ client.rs → recorder.rs → recording.rs → programs.rs → lower → PJRT
//! ```
//!
//! Each thread has its own recording. A recording runs when the thread reads a result, waits, seeds, or marks the end
//! of a step ([`crate::mark_step`]): it becomes one program, compiled once for all recordings of the same structure. A
//! training step that ends by reading its loss is one program: forward, backward and optimizer.
//!
//! Over several devices a program is the same, and XLA divides it among them (`stored.rs` has how tensors lie there).

mod client;
mod programs;
mod recorder;
mod recording;
mod stored;

pub(crate) use client::serve;
pub use client::{XlaBackend, XlaBridge, XlaChannel, XlaClient, XlaDevice};
pub use recorder::Activity;
pub(crate) use recorder::Recorder;
