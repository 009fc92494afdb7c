//! Ordinary tensors on XLA.
//!
//! Burn's list of backends is closed but for one: the remote backend sends every operation to a server,
//! and a server may host any backend. Ours runs inside the process and hosts a router that records.
//!
//! ```text
//! Tensor → Burn's dispatch → burn-remote ⇄ server.rs → client.rs → recorder.rs → recording.rs
//!                                                       canonical.rs → programs.rs → lower → PJRT
//! ```
//!
//! Each thread has a recording of its own. It runs when the program reads a result, waits, seeds, or marks the end of a
//! step ([`crate::mark_step`]); then it becomes one program, compiled once for all recordings of its structure.
//! A training step that ends with a look at its loss is one program: forward, backward and optimizer.

mod canonical;
mod client;
mod device;
mod programs;
mod recorder;
mod recording;
mod server;

pub use client::{XlaBackend, XlaBridge, XlaChannel, XlaClient};
pub use device::XlaDevice;
pub use recorder::Activity;
pub(crate) use recorder::Recorder;
pub(crate) use server::serve;
