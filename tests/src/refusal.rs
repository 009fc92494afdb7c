//! Input that must be refused.

use moebius::{Error, ErrorKind};

/// Asserts that `result` is an error of this kind, and returns its message.
#[track_caller]
pub fn assert_refused<T>(kind: ErrorKind, result: Result<T, Error>) -> String {
    let Err(error) = result else {
        panic!("expected an error, {kind:?}");
    };
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}
