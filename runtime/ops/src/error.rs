//! The two ways a kernel refuses work: the shapes are wrong, or the device can't.

/// A shape, length or value that doesn't fit the operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct ShapeError {
    /// The thing that is wrong, e.g. `top_k`.
    pub what: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was given.
    pub got: String,
}

impl ShapeError {
    /// `what` was to satisfy `expected`, and is `got`.
    pub fn new(what: &'static str, expected: impl ToString, got: impl ToString) -> Self {
        Self {
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// Checks that `got` is `expected`.
    pub fn check(what: &'static str, expected: usize, got: usize) -> Result<(), Self> {
        if expected == got {
            Ok(())
        } else {
            Err(Self::new(what, expected, got))
        }
    }
}
