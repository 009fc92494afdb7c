//! The error for arguments that don't fit an operation.

/// The kind of a [`Mismatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A shape, length, dtype or content of tensors.
    Shape,
    /// A setting or an argument out of its range or in conflict with others.
    Config,
    /// The device that holds a tensor or module.
    Device,
    /// A call too early or too late: the state it needs doesn't exist yet, or no longer.
    State,
    /// A request that the operation doesn't support.
    Unsupported,
}

impl Fault {
    /// A [`Mismatch`] of this kind: `what` should have been `expected` but is `got`.
    pub fn error(
        self,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Mismatch {
        Mismatch {
            fault: self,
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// Returns an error unless `right`; the texts are formatted only in that case.
    ///
    /// # Errors
    /// [`Mismatch`] of this kind, saying that `what` should have been `expected` but is `got`.
    pub fn unless(
        self,
        right: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Mismatch> {
        if right {
            Ok(())
        } else {
            Err(self.error(what, expected, got))
        }
    }
}

/// An argument that doesn't fit an operation, with the expected and the given value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct Mismatch {
    /// The kind of error.
    pub fault: Fault,
    /// The name of the wrong argument, e.g. `top_k`.
    pub what: &'static str,
    /// A description of valid values.
    pub expected: String,
    /// The given value.
    pub got: String,
}

impl Mismatch {
    /// A [`Fault::Shape`] error: `what` should have been `expected` but is `got`.
    pub fn new(what: &'static str, expected: impl ToString, got: impl ToString) -> Self {
        Fault::Shape.error(what, expected, got)
    }

    /// Returns a [`Fault::Shape`] error unless `right`; the texts are formatted only in that case.
    ///
    /// # Errors
    /// [`Mismatch`] saying that `what` should have been `expected` but is `got`.
    pub fn unless(
        right: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        Fault::Shape.unless(right, what, expected, got)
    }

    /// Checks that `got` equals `expected`.
    pub fn check(what: &'static str, expected: usize, got: usize) -> Result<(), Self> {
        Self::unless(expected == got, what, expected, got)
    }

    /// Checks that every size is at least 1.
    pub(crate) fn positive(sizes: &[(&'static str, usize)]) -> Result<(), Self> {
        match sizes.iter().find(|(_, size)| *size == 0) {
            Some((what, size)) => Err(Self::new(what, "at least 1", size)),
            None => Ok(()),
        }
    }

    /// Checks that `slots` is a multiple of `top_k`, the slots per token.
    pub(crate) fn of_tokens(slots: usize, top_k: usize) -> Result<(), Self> {
        let expected = format_args!("a multiple of top_k = {top_k}");
        Self::unless(slots.is_multiple_of(top_k), "slots", expected, slots)
    }

    /// Checks that the product of `sizes` fits a kernel's 31-bit index.
    pub(crate) fn index(what: &'static str, sizes: &[usize]) -> Result<(), Self> {
        if fits(sizes) {
            return Ok(());
        }
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        Err(Self::new(what, INDEX, sizes.join(" x ")))
    }
}

/// The range of a kernel's index, for error messages.
pub(crate) const INDEX: &str = "at most 2^31 - 1";

/// Whether the product of `sizes` fits a kernel's 31-bit index.
pub(crate) fn fits(sizes: &[usize]) -> bool {
    let product = sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size));
    product.is_some_and(|product| product <= i32::MAX as usize)
}
