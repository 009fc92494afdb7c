//! Lists in a program's text.

use std::fmt;

/// Numbers in brackets, as attributes have them.
pub(super) fn list<T: fmt::Display>(numbers: impl IntoIterator<Item = T>) -> String {
    format!("[{}]", joined(numbers))
}

/// An `array<i64: …>` attribute.
pub(super) fn array(numbers: &[usize]) -> String {
    match numbers {
        [] => "array<i64>".to_owned(),
        _ => format!("array<i64: {}>", joined(numbers)),
    }
}

/// `%1, %2` of values, `tensor<…>, tensor<…>` of types.
pub(super) fn joined<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(", ")
}
