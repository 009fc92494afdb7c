//! An HTTP server in the shape of OpenAI's interface, for a language model on an [`Engine`](moebius_engine::Engine).
//!
//! [`Server::start`] listens and loads the model; [`Server::run`] answers until it is told to stop, and then drains. The engine has a thread
//! of its own, which waits for no client. Everything that clients can ask for at once is bounded by [`ServeLimits`], and refused beyond
//! that; [`Keys`] tell who may ask. At `/` a page lets the model write, and shows the queue and the experts' load.
//!
//! ```no_run
//! use moebius_serve::{Access, Generator, ServeOptions, ServedText, Server};
//!
//! # fn load() -> Result<Box<dyn Generator>, moebius_serve::LoadError> { Err("no model".into()) }
//! # async fn serve(text: ServedText) -> Result<(), moebius_serve::ServeError> {
//! let options = ServeOptions::new("SmolLM2", 4096);
//! let server = Server::start(options, Access::local(8000), text, Box::new(load)).await?;
//! println!("http://{}", server.address());
//! server.run(std::future::pending()).await
//! # }
//! ```

mod admission;
mod answers;
mod api;
mod asked;
mod body;
mod connections;
mod error;
mod form;
mod keys;
mod metrics;
mod options;
mod panics;
mod phase;
mod server;
mod service;
mod steady;
mod tls;
mod traces;
mod worker;

pub use error::ServeError;
pub use keys::{KeyError, KeyRing, Keys};
pub use options::{ServeLimits, ServeOptions};
pub use server::{Access, Server};
pub use service::ServedText;
pub use tls::Certificate;
pub use traces::{Traces, TracesError};
pub use worker::{Generator, LoadError, Loader};
