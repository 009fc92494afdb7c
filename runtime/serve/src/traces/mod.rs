//! Traces of requests, of which a build with the feature `otlp` tells a collector.

#[cfg(not(feature = "otlp"))]
mod nowhere;
#[cfg(feature = "otlp")]
mod otlp;

#[cfg(not(feature = "otlp"))]
pub(crate) use nowhere::Trace;
#[cfg(not(feature = "otlp"))]
pub use nowhere::Traces;
#[cfg(feature = "otlp")]
pub(crate) use otlp::Trace;
#[cfg(feature = "otlp")]
pub use otlp::Traces;

/// Why no collector can be told of requests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracesError {
    /// The build lacks the feature `otlp`.
    #[error("OTLP: expected a build with the feature otlp, got one without")]
    NotBuilt,
    /// The collector's address is none.
    #[error("OTLP: expected an address such as http://127.0.0.1:4318, got {0:?}")]
    Address(String),
    /// What the environment says of the exporter can't be used.
    #[error("OTLP: {0}")]
    Exporter(String),
}
