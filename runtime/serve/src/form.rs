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
}

/// The form that an answer of `/v1/responses` must have, whose schema lies beside its name.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub(crate) struct TextFormat {
    /// `text`, `json_object`, or `json_schema` for JSON that a schema describes.
    r#type: String,
    /// The schema of `json_schema`, which is always followed strictly.
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
        let named = self.json_schema.as_ref();
        let schema = named.and_then(|named| named.schema.as_ref());
        schema_of(&self.r#type, schema, (param, "json_schema.schema"))
    }
}

impl TextFormat {
    /// The schema of an answer in JSON; `None` for any text. `param` is the name of the field with this format.
    ///
    /// # Errors
    /// As [`ResponseFormat::schema`].
    pub(crate) fn schema(&self, param: &str) -> Result<Option<String>, ApiError> {
        schema_of(&self.r#type, self.schema.as_ref(), (param, "schema"))
    }
}

/// The schema of a format of this type, whose field `param` has one, if it does, in its field `place`.
fn schema_of(
    kind: &str,
    schema: Option<&Value>,
    (param, place): (&str, &str),
) -> Result<Option<String>, ApiError> {
    let wrong = |field: &str, why: &str| {
        let param = format!("{param}.{field}");
        let message = format!("{param}: expected {why}");
        Err(ApiError::field(param, message))
    };
    match (kind, schema) {
        ("text", _) => Ok(None),
        ("json_object", _) => Ok(Some(ANY_OBJECT.to_owned())),
        ("json_schema", Some(schema)) => Ok(Some(schema.to_string())),
        ("json_schema", None) => wrong(place, "a schema, got none"),
        (other, _) => {
            let known = "\"text\", \"json_object\" or \"json_schema\"";
            wrong("type", &format!("{known}, got {other:?}"))
        }
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
        let missing = "response_format.json_schema.schema";
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

    #[test]
    fn formats_of_responses_have_their_schema_beside_its_name() {
        let schema = |format: Value| {
            let format: TextFormat = serde_json::from_value(format).unwrap();
            format.schema("text.format")
        };
        let null = r#"{"type":"null"}"#.to_owned();
        let flat =
            json!({"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "null"}});
        assert_eq!(schema(flat), Ok(Some(null)));
        assert_eq!(schema(json!({"type": "text"})), Ok(None));
        let nested = json!({"type": "json_schema", "json_schema": {"schema": {}}});
        let message = "text.format.schema: expected a schema, got none";
        let missing = ApiError::field("text.format.schema", message);
        assert_eq!(schema(nested), Err(missing));
    }
}
