//! Settings that can't be.

/// Something that is other than it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct Unfit {
    /// The setting.
    pub what: &'static str,
    /// What would fit.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl Unfit {
    /// An error unless `fits`.
    pub(crate) fn unless(
        fits: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        if fits {
            Ok(())
        } else {
            Err(Self {
                what,
                expected: expected.to_string(),
                got: got.to_string(),
            })
        }
    }
}
