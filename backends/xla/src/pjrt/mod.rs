//! PJRT, the interface of XLA's plugins: devices, buffers and compiled programs.
//!
//! A plugin is a shared library that drives one kind of device. [`locate`] finds its file, [`Plugin`] loads it, a [`Client`] has
//! its devices. Programs are StableHLO text: [`Client::compile`] makes a [`LoadedExecutable`] of it, which takes and gives
//! [`Buffer`]s; a [`Topology`] compiles for devices that are not there.
//!
//! The records and functions of the C API are declared by hand, in `ffi`. No function here is unsafe to call.
//! Plugins end the process for many mistakes that could be errors; those that were found are refused before a plugin sees
//! them: [`Error::ClientOption`], [`Error::CompileOptions`], [`Error::Program`], [`Error::Topology`] and
//! [`Error::Serialized`].

#![allow(
    unsafe_code,
    reason = "a C API can't be called without; each call says why its pointers hold"
)]

mod buffer;
mod cache;
mod client;
mod compile;
mod compile_options;
mod description;
mod error;
mod event;
mod executable;
mod ffi;
mod hardware;
mod loaded_executable;
mod locate;
mod object;
mod plugin;
mod serialized;
mod tensor;
mod topology;
mod value;

pub use buffer::{Buffer, PendingRead};
pub use cache::{Cached, DiskCache};
pub use client::{Client, Device};
pub use compile::{ProgramCounts, program_counts};
pub use compile_options::CompileOptions;
pub use description::Description;
pub use error::{Code, Error};
pub use event::Event;
pub use executable::{CompiledMemory, Executable, OptimizedProgram};
pub use loaded_executable::{Donate, LoadedExecutable};
pub use locate::{Environment, NotFound, Platform, locate};
pub use plugin::Plugin;
pub use topology::Topology;
pub use value::Value;
