//! A grammar that follows the tokens of one answer.

use std::fmt;

use llguidance::Matcher;
use moebius_engine::{Allowed, Constraint, ConstraintError};

use crate::error::first_line;

/// A compiled grammar, and how far an answer has come in it. A clone goes on from the same place by itself.
///
/// An answer is complete when nothing may follow. Where the grammar lets it end or go on, tokens that end an answer are allowed as well.
pub struct Grammar(Matcher);

impl Grammar {
    pub(crate) fn new(matcher: Matcher) -> Self {
        Self(matcher)
    }
}

impl Constraint for Grammar {
    fn allowed(&mut self) -> Result<Allowed, ConstraintError> {
        let mask = self.0.compute_mask();
        let mask = mask.map_err(|error| failed(&error.to_string()))?;
        Ok(Allowed::from_words(mask.as_slice().to_vec()))
    }

    fn push(&mut self, id: u32) -> Result<bool, ConstraintError> {
        let taken = self.0.consume_token(id);
        taken.map_err(|error| failed(&error.to_string()))?;
        Ok(self.0.is_stopped())
    }

    fn copied(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

impl Clone for Grammar {
    fn clone(&self) -> Self {
        // A shallow clone would share what the lexer has learnt, and with that its limits.
        Self(self.0.deep_clone())
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar")
            .field("stopped", &self.0.is_stopped())
            .finish_non_exhaustive()
    }
}

fn failed(said: &str) -> ConstraintError {
    ConstraintError::new(format!("the answer's grammar: {}", first_line(said)))
}
