//! Names that templates expect beside Jinja's own.

use std::error::Error as _;
use std::fmt;

use minijinja::{Error, ErrorKind, Value};

/// What a template said when it refused a conversation.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The function `raise_exception`.
pub(super) fn raise_exception(message: &Value) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "raise_exception was called");
    Err(error.with_source(Refusal(message.to_string())))
}

/// What the template said, if `error` comes from `raise_exception`.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Refusal(message)) = cause.downcast_ref() {
            return Some(message.clone());
        }
        source = cause.source();
    }
    None
}
