//! Models on Hugging Face, or on a server that stands in for it: fetched into the cache that Hugging Face's programs share, and found there.
//!
//! The layout of the cache is that of the crate hf-hub, which says too little about what it transfers: here the number of bytes and the
//! SHA-256 of every file in LFS are checked before its name appears in the cache.

mod client;
mod download;
mod error;
mod fetch;
mod listing;
mod local;
mod name;
mod select;
mod settings;
mod store;

pub(crate) use client::Told;
pub(crate) use download::Held;
pub(crate) use error::HubError;
pub(crate) use fetch::{Fetched, Order, fetch};
pub(crate) use local::located;
pub(crate) use name::{ModelName, revision};
pub(crate) use settings::{Settings, cache};
