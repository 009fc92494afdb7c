//! Bodies of requests: read within limits, and parsed as JSON of a limited depth.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::error::ApiError;
use crate::options::ServeLimits;

const JSON: &str = "application/json";

/// Reads the body of a request as JSON.
///
/// # Errors
/// 415 for another type, 413, 408, and 400 for text that isn't JSON of the form of `T`, which names the field.
pub(crate) async fn json<T: DeserializeOwned>(
    request: Request,
    limits: &ServeLimits,
) -> Result<T, ApiError> {
    check_type(request.headers(), JSON)?;
    let bytes = read(request.into_body(), limits).await?;
    parse(&bytes, limits.json_depth)
}

/// Checks the type of a request's body.
///
/// # Errors
/// 415 for another type.
pub(crate) fn check_type(headers: &HeaderMap, expected: &str) -> Result<(), ApiError> {
    let got = headers.get(header::CONTENT_TYPE);
    let got = got.map_or(Ok(""), |got| got.to_str()).unwrap_or("others");
    let essence = got.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(ApiError::media_type(expected, got))
    }
}

/// Reads a body within the limits.
///
/// # Errors
/// 413 for a longer one, 408 for one that comes too slowly, 400 for one that ends early.
pub(crate) async fn read(body: Body, limits: &ServeLimits) -> Result<Bytes, ApiError> {
    let (most, within) = (limits.body_bytes, limits.body_time);
    let declared = axum::body::HttpBody::size_hint(&body).lower();
    if declared > most as u64 {
        return Err(ApiError::too_large(most));
    }
    match tokio::time::timeout(within, to_bytes(body, most)).await {
        Err(_) => Err(ApiError::slow_body(within.as_secs_f64())),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length(&error) => Err(ApiError::too_large(most)),
        Ok(Err(error)) => Err(ApiError::malformed(format!(
            "expected a whole body, got {error}"
        ))),
    }
}

/// Whether a body could not be read because it is too long.
fn is_length(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// Parses JSON whose lists and objects nest no deeper than `depth`.
fn parse<T: DeserializeOwned>(bytes: &[u8], depth: usize) -> Result<T, ApiError> {
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to();
        let message = format!("expected a body in UTF-8, got other bytes at {at}");
        return Err(ApiError::malformed(message));
    }
    if nesting(bytes) > depth {
        let message = format!("expected JSON of at most {depth} levels, got more");
        return Err(ApiError::malformed(message));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let param = if path == "." { String::new() } else { path };
            ApiError::field(param, inner.to_string())
        } else {
            ApiError::malformed(format!("expected JSON: {inner}"))
        }
    })?;
    let end = json.end();
    end.map_err(|error| ApiError::malformed(format!("expected one JSON value: {error}")))?;
    Ok(value)
}

/// The depth of the deepest list or object; text that isn't JSON gives any number.
fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                // The end of the string is a quotation mark without a backslash.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Form {
        name: String,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        count: u8,
    }

    fn told(text: &[u8]) -> String {
        let error = parse::<Form>(text, 4).unwrap_err();
        serde_json::to_string(&error.body()).unwrap()
    }

    #[test]
    fn depth_is_that_of_lists_and_objects_outside_of_texts() {
        for (text, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":2}]}"#, 3),
            (r#"["[[[","\"[[",{}]"#, 2),
            ("]]][", 1),
            ("\"[", 0),
        ] {
            assert_eq!(nesting(text.as_bytes()), depth, "{text}");
        }
    }

    #[test]
    fn a_fault_is_told_with_its_field() {
        let form: Form = parse(br#"{"name":"a","inner":{"count":3},"more":[[1]]}"#, 4).unwrap();
        assert_eq!((form.name.as_str(), form.inner.unwrap().count), ("a", 3));
        for (text, parts) in [
            (&br#"{"name":1}"#[..], [r#""param":"name""#, "invalid type"]),
            (br#"{}"#, [r#""param":null"#, "missing field"]),
            (
                br#"{"name":"a","inner":{"count":-1}}"#,
                [r#""param":"inner.count""#, "-1"],
            ),
            (
                br#"{"name":"a","name":"b"}"#,
                [r#""code":"invalid_value""#, "duplicate field"],
            ),
            (br#"{"name":"\ud800"}"#, ["invalid_json", "hex escape"]),
            (br#"{"name":NaN}"#, ["invalid_json", "expected JSON"]),
            (br#"{"name":"a"} 1"#, ["invalid_json", "trailing"]),
            (b"{\"name\":\"\xff\"}", ["invalid_json", "UTF-8"]),
            (br#"{"x":[[[[1]]]]}"#, ["invalid_json", "4 levels"]),
            (b"", ["invalid_json", "EOF"]),
        ] {
            let said = told(text);
            for part in parts {
                assert!(said.contains(part), "{part} in {said}");
            }
        }
    }
}
