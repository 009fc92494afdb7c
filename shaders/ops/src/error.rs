//! The error of what doesn't fit.

/// What sort of thing doesn't fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A shape, length, dtype or content of tensors.
    Shape,
    /// A setting or an argument: out of its range, or not with the others.
    Config,
    /// The device that something is on.
    Device,
    /// A call too early or too late: what it asks of isn't there yet, or is no longer.
    State,
    /// What the operation asked for can't do.
    Unsupported,
}

impl Fault {
    /// `what` was to satisfy `expected`, and is `got`.
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

    /// Refuses what isn't `right`; the texts are only made then.
    ///
    /// # Errors
    /// That `what` was to satisfy `expected`, and is `got`.
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

/// What doesn't fit an operation: what was expected, and what came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct Mismatch {
    /// What sort of thing it is.
    pub fault: Fault,
    /// The thing that is wrong, e.g. `top_k`.
    pub what: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was given.
    pub got: String,
}

impl Mismatch {
    /// Of a shape `what` that was to satisfy `expected`, and is `got`.
    pub fn new(what: &'static str, expected: impl ToString, got: impl ToString) -> Self {
        Fault::Shape.error(what, expected, got)
    }

    /// Refuses a shape that isn't `right`; the texts are only made then.
    ///
    /// # Errors
    /// That `what` was to satisfy `expected`, and is `got`.
    pub fn unless(
        right: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        Fault::Shape.unless(right, what, expected, got)
    }

    /// Checks that `got` is `expected`.
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

    /// Checks that `slots` are those of tokens with `top_k` choices each.
    pub(crate) fn of_tokens(slots: usize, top_k: usize) -> Result<(), Self> {
        let expected = format_args!("a multiple of top_k = {top_k}");
        Self::unless(slots.is_multiple_of(top_k), "slots", expected, slots)
    }

    /// Checks that kernels can count to the product of `sizes`.
    pub(crate) fn index(what: &'static str, sizes: &[usize]) -> Result<(), Self> {
        if fits(sizes) {
            return Ok(());
        }
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        Err(Self::new(what, INDEX, sizes.join(" x ")))
    }
}

/// What kernels count to.
pub(crate) const INDEX: &str = "at most 2^31 - 1";

/// Whether kernels can count to the product of `sizes`.
pub(crate) fn fits(sizes: &[usize]) -> bool {
    let product = sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size));
    product.is_some_and(|product| product <= i32::MAX as usize)
}
