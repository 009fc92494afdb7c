//! What stands for traces in a build without the feature `otlp`.

use std::future::Future;
use std::time::Instant;

use axum::body::Body;
use axum::http::Request;

use super::TracesError;

/// Where the spans of requests go: nowhere, as this build lacks the feature `otlp`.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

impl Traces {
    /// Refuses.
    ///
    /// # Errors
    /// [`TracesError::NotBuilt`].
    pub fn over_otlp(_: Option<&str>) -> Result<Self, TracesError> {
        Err(TracesError::NotBuilt)
    }

    pub(crate) fn begin(&self, _: &Request<Body>, _: &str) -> Trace {
        Trace(())
    }

    pub(crate) async fn end(self) {}
}

/// The trace of a request, of which nobody is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(());

impl Trace {
    pub(crate) fn current() -> Self {
        Self(())
    }

    pub(crate) fn around<F: Future>(self, work: F) -> F {
        work
    }

    pub(crate) fn asked(&self, _: &str, _: usize) {}

    pub(crate) fn told(&self, _: &'static str, _: usize, _: Instant) {}

    pub(crate) fn generated(&self, _: usize) {}

    pub(crate) fn failed(&self, _: u16) {}

    pub(crate) fn end(&self, _: u16) {}
}
