//! PJRT, the interface of XLA's plugins, without Python: devices, buffers and compiled programs.
//!
//! A plugin is a shared library that drives one kind of device. [`locate`] finds its file, [`Plugin`] loads it, a
//! [`Client`] has its devices. Programs are StableHLO text: [`Client::compile`] makes a [`LoadedExecutable`] of it,
//! which takes and gives [`Buffer`]s; a [`Topology`] compiles for devices that are not there.
//!
//! ```no_run
//! use moebius_pjrt::{
//!     Buffer, Client, CompileOptions, Donate, ElementType, Environment, Platform, Plugin, TensorType,
//! };
//!
//! # fn main() -> Result<(), moebius_pjrt::Error> {
//! // After `pip install xla-cpu-pjrt==0.0.1`, or with the plugin's file in MOEBIUS_PJRT_CPU.
//! let plugin = Plugin::open(Platform::Cpu, &Environment::from_process())?;
//! let client = Client::new(plugin, &[])?;
//! let vector = TensorType::new([4], ElementType::F32);
//! let text = format!(
//!     "func.func public @main(%x: {vector}) -> {vector} {{
//!        %y = stablehlo.add %x, %x : {vector}
//!        return %y : {vector}
//!      }}"
//! );
//! let twice = client.compile(&text, &CompileOptions::default(), vec![vector.clone()])?;
//! let ones = [1.0_f32; 4].map(f32::to_ne_bytes).concat();
//! let x = Buffer::from_host(&client.device(0)?, &vector, &ones)?;
//! let results = twice.execute(&[&x], Donate::Nothing)?;
//! assert_eq!(results[0].read()?, [2.0_f32; 4].map(f32::to_ne_bytes).concat());
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `ffi.rs` | the records and functions of the C API, declared by hand |
//! | `locate.rs`, `hardware.rs` | where a plugin's file is, and whether its hardware is there |
//! | `plugin.rs`, `value.rs` | calls of a plugin's functions, the objects that it makes, and its named values |
//! | `client.rs`, `topology.rs` | devices, present or not |
//! | `types.rs`, `buffer.rs` | tensors on devices, and events of work that has begun |
//! | `compile.rs`, `executable.rs`, `loaded_executable.rs` | programs: compiled, described, run |
//! | `serialized.rs`, `cache.rs` | programs as bytes, and on disk |
//! | `error.rs` | errors |
//!
//! No function here is unsafe to call. Plugins end the process for many mistakes that could be errors; those that were
//! found are refused before a plugin sees them: [`Error::ClientOption`], [`Error::CompileOptions`], [`Error::Program`],
//! [`Error::Topology`] and [`Error::Serialized`].

#![allow(
    unsafe_code,
    reason = "a C API can't be called without; each call says why its pointers hold"
)]

mod buffer;
mod cache;
mod client;
mod compile;
mod error;
mod executable;
mod ffi;
mod hardware;
mod loaded_executable;
mod locate;
mod plugin;
mod serialized;
mod topology;
mod types;
mod value;

pub use buffer::{Buffer, Event, PendingRead};
pub use cache::{Cached, DiskCache};
pub use client::{Client, Description, Device};
pub use compile::{CompileOptions, ProgramCounts, program_counts};
pub use error::{Code, Error};
pub use executable::{CompiledMemory, Executable, OptimizedProgram};
pub use loaded_executable::{Donate, LoadedExecutable};
pub use locate::{Environment, NotFound, Platform, locate};
pub use plugin::Plugin;
pub use topology::Topology;
pub use types::{ElementType, TensorType};
pub use value::Value;
