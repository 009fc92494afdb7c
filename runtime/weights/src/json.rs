//! JSON as Python's `json` writes and reads it: with a byte order mark, and with numbers that aren't finite.

use std::borrow::Cow;

/// Numbers that Python writes by name, longest name first.
const NAMES: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// The JSON of a configuration that Python may have written: without a byte order mark, and with `{"__float__": "Infinity"}`, as transformers
/// writes such numbers since 2025, in place of the bare names `Infinity`, `-Infinity` and `NaN`, which JSON doesn't have.
///
/// A key that must be a number and holds such an object is refused like any other object; a key that nobody reads does no harm.
pub fn python_json(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    if !has(b"Infinity") && !has(b"NaN") {
        return Cow::Borrowed(bytes);
    }
    let (mut out, mut rest, mut in_text) = (Vec::with_capacity(bytes.len()), bytes, false);
    while let Some((&byte, after)) = rest.split_first() {
        let name = NAMES.into_iter().find(|name| rest.starts_with(name));
        if let (Some(name), false) = (name, in_text) {
            out.extend_from_slice(b"{\"__float__\":\"");
            out.extend_from_slice(name);
            out.extend_from_slice(b"\"}");
            rest = &rest[name.len()..];
            continue;
        }
        out.push(byte);
        rest = after;
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                if let Some((&escaped, after)) = rest.split_first() {
                    out.push(escaped);
                    rest = after;
                }
            }
            _ => {}
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::python_json;

    fn read(text: &str) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&python_json(text.as_bytes()))
    }

    /// Python's `json.dumps` writes these names; the object is that of transformers' `to_json_string`.
    #[test]
    fn numbers_without_a_value_become_objects() {
        let value = read(r#"{"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "d": 1}"#);
        let expected = serde_json::json!({
            "a": [0.0, {"__float__": "Infinity"}], "b": {"__float__": "-Infinity"}, "c": {"__float__": "NaN"}, "d": 1,
        });
        assert_eq!(value.ok(), Some(expected));
    }

    #[test]
    fn texts_and_marks_are_left_alone() {
        let text = r#"{"NaN": "to \"Infinity\" \\", "b": "-Infinity"}"#;
        let value = read(text).ok();
        assert_eq!(value, serde_json::from_str(text).ok());
        assert_eq!(
            read("\u{feff}{\"a\": 1}").ok(),
            Some(serde_json::json!({"a": 1}))
        );
        for bad in [
            "{\"a\": Infinit}",
            "NaN0",
            "{\"a\": \"NaN",
            "\\NaN\"",
            "{\"a\": --Infinity}",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
