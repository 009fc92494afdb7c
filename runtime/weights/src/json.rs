//! JSON as Python's `json` writes and reads it: with a byte order mark, and with numbers that aren't finite.

use serde::de::DeserializeOwned;

/// Numbers that Python writes by name, longest name first.
const NAMES: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Reads JSON that Python may have written: after a byte order mark, and with the bare names `Infinity`, `-Infinity` and `NaN`, which JSON doesn't
/// have. They are read as `{"__float__": "Infinity"}`, which transformers writes instead since 2025.
///
/// A key that must be a number and holds such an object is refused like any other object; a key that no reader asks for does no harm.
///
/// # Errors
/// The error of `serde_json` for anything else that isn't JSON.
pub fn python_json<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).or_else(|error| {
        let again = serde_json::from_slice(&with_objects(bytes));
        again.map_err(|_| error)
    })
}

/// The JSON with an object in place of each bare name.
fn with_objects(bytes: &[u8]) -> Vec<u8> {
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
    out
}

#[cfg(test)]
mod tests {
    use super::python_json;

    fn read(text: &str) -> serde_json::Result<serde_json::Value> {
        python_json(text.as_bytes())
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
