//! The form that an answer must have: any text, or JSON, as OpenAI's interface asks for it.

use moebius_engine::Generation;
use moebius_grammar::{Grammar, GrammarError};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Schema of JSON of any fields.
pub(crate) const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// The form that an answer must have.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub(crate) struct ResponseFormat {
    /// `text`, `json_object`, or `json_schema` for JSON that a schema describes.
    r#type: String,
    /// The schema of `json_schema`.
    json_schema: Option<NamedSchema>,
    /// The schema of `json_schema`, as `/v1/responses` takes it.
    #[schema(value_type = Option<Object>)]
    schema: Option<Value>,
}

/// A schema, whose name has no effect, and which is always followed strictly.
#[derive(Clone, Debug, Deserialize, ToSchema)]
struct NamedSchema {
    /// The schema.
    #[schema(value_type = Option<Object>)]
    schema: Option<Value>,
}

impl ResponseFormat {
    /// The schema of an answer in JSON; `None` for any text. `param` is the name of the field with this format.
    ///
    /// # Errors
    /// 400 for an unknown type, and for a schema that is missing.
    pub(crate) fn schema(&self, param: &str) -> Result<Option<String>, ApiError> {
        match self.r#type.as_str() {
            "text" => return Ok(None),
            "json_object" => return Ok(Some(ANY_OBJECT.to_owned())),
            "json_schema" => {}
            other => {
                let param = format!("{param}.type");
                let expected = "\"text\", \"json_object\" or \"json_schema\"";
                let message = format!("{param}: expected {expected}, got {other:?}");
                return Err(ApiError::field(param, message));
            }
        }
        let named = self.json_schema.as_ref();
        let named = named.and_then(|named| named.schema.as_ref());
        let Some(schema) = named.or(self.schema.as_ref()) else {
            let param = format!("{param}.json_schema");
            let message = format!("{param}: expected a schema, got none");
            return Err(ApiError::field(param, message));
        };
        Ok(Some(schema.to_string()))
    }
}

/// Holds generations to a grammar, each on its own, if there is one.
pub(crate) fn restrict(generations: &mut [Generation], grammar: Option<&Grammar>) {
    if let Some(grammar) = grammar {
        for generation in generations {
            generation.constraint = Some(Box::new(grammar.clone()));
        }
    }
}

/// The error for a grammar that the field `param` asks for and that can't be made.
pub(crate) fn refused(param: &str, error: &GrammarError) -> ApiError {
    match error {
        GrammarError::Tokenizer(_) | GrammarError::Vocabulary(_) => {
            ApiError::unsupported_here(param, error)
        }
        GrammarError::Thread(_) => ApiError::internal("no_thread", error.to_string()),
        _ => ApiError::field(param, format!("{param}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn schema(format: Value) -> Result<Option<String>, String> {
        let format: ResponseFormat = serde_json::from_value(format).unwrap();
        let schema = format.schema("response_format");
        schema.map_err(|error| serde_json::to_string(&error.body()).unwrap())
    }

    #[test]
    fn formats_name_schemas() {
        assert_eq!(schema(json!({"type": "text"})), Ok(None));
        let any = r#"{"type":"object"}"#.to_owned();
        assert_eq!(schema(json!({"type": "json_object"})), Ok(Some(any)));
        // Fields keep their order.
        let text = r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"z":1,"a":{"y":2,"b":3}}}}"#;
        let format: ResponseFormat = serde_json::from_str(text).unwrap();
        let nested = r#"{"z":1,"a":{"y":2,"b":3}}"#.to_owned();
        assert_eq!(format.schema("response_format"), Ok(Some(nested)));
        let flat = json!({"type": "json_schema", "name": "n", "schema": {"type": "null"}});
        let null = r#"{"type":"null"}"#.to_owned();
        assert_eq!(schema(flat), Ok(Some(null)));
        let missing = "response_format.json_schema";
        for (format, param) in [
            (json!({"type": "xml"}), "response_format.type"),
            (json!({"type": "json_schema"}), missing),
            (
                json!({"type": "json_schema", "json_schema": {"name": "n"}}),
                missing,
            ),
        ] {
            let said = schema(format).unwrap_err();
            assert!(said.contains(&format!(r#""param":"{param}""#)), "{said}");
        }
    }
}
