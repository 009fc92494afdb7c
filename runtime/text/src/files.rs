//! The files of a Hugging Face folder.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use crate::Error;

/// The bytes of a file, or none where there is no such file.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The text of a file, or none where there is no such file.
pub(crate) fn text(path: &Path) -> Result<Option<String>, Error> {
    let text = bytes(path)?.map(String::from_utf8).transpose();
    text.map_err(|error| Error::unfit(path.display(), "UTF-8", error.utf8_error()))
}

/// The JSON object in a file, or none where there is no such file.
pub(crate) fn object(path: &Path) -> Result<Option<Value>, Error> {
    let bytes = bytes(path)?;
    bytes.map(|bytes| parse(&bytes, path.display())).transpose()
}

/// The JSON object in these bytes, which errors call `what`.
pub(crate) fn parse(bytes: &[u8], what: impl fmt::Display) -> Result<Value, Error> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| Error::unfit(&what, "JSON", error))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(Error::unfit(what, "a JSON object", kind(&value))),
    }
}

/// What a value is, for errors.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(fields) => format!("an object of {}", fields.len()),
    }
}

/// The special tokens that `tokenizer_config.json` and `special_tokens_map.json` name, as pairs like `bos_token` and `<s>`, sorted.
/// Of a token that both name, the first file's counts.
pub(crate) fn special_tokens(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut found: Vec<(String, String)> = Vec::new();
    for name in ["tokenizer_config.json", "special_tokens_map.json"] {
        let path = folder.join(name);
        let Some(Value::Object(fields)) = object(&path)? else {
            continue;
        };
        for (key, value) in fields.iter().filter(|(key, _)| key.ends_with("_token")) {
            // Older files have an object with the token's properties in place of its text.
            let content = value.get("content").unwrap_or(value);
            let token = match content {
                // Flags like `add_bos_token` end alike.
                Value::Null | Value::Bool(_) => continue,
                Value::String(token) => token,
                other => {
                    let what = format!("{key} in {}", path.display());
                    return Err(Error::unfit(what, "a token's text", kind(other)));
                }
            };
            if found.iter().all(|(known, _)| known != key) {
                found.push((key.clone(), token.clone()));
            }
        }
    }
    found.sort();
    Ok(found)
}
