//! Parts of an answer, and the grammar that they make in the library's language.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use moebius_text::Tokenizer;
use serde_json::Value;

use crate::error::GrammarError;
use crate::schema;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// This text. The name of a special token stands for the token.
    Text(String),
    /// JSON that this schema describes, a text in JSON; fields have the order of the schema's `properties`.
    Json(String),
    /// Any text up to this one and with it, which may be the name of a special token.
    Through(String),
    /// Spaces and ends of lines, or nothing.
    Space,
    /// These parts or nothing.
    Maybe(Vec<Part>),
    /// These parts any number of times, or never.
    Repeated(Vec<Part>),
    /// One of several lists of parts, of which there is at least one.
    OneOf(Vec<Vec<Part>>),
}

/// A grammar in the making.
struct Writer<'a> {
    tokenizer: &'a Tokenizer,
    /// Rules beside the first.
    rules: Vec<String>,
    schemas: Vec<Value>,
}

/// The grammar of these parts, one after the other.
///
/// # Errors
/// [`GrammarError::Schema`].
pub(crate) fn grammar(
    parts: &[Part],
    tokenizer: &Tokenizer,
) -> Result<TopLevelGrammar, GrammarError> {
    if let [Part::Json(schema)] = parts {
        return Ok(TopLevelGrammar::from_json_schema(schema::read(schema)?));
    }
    let mut writer = Writer {
        tokenizer,
        rules: Vec::new(),
        schemas: Vec::new(),
    };
    let start = format!("start: {}", writer.sequence(parts)?);
    let Writer { rules, schemas, .. } = writer;
    let text: Vec<String> = [start].into_iter().chain(rules).collect();
    let of_schemas = schemas.into_iter().enumerate();
    let of_schemas = of_schemas.map(|(number, schema)| GrammarWithLexer {
        name: Some(name(number)),
        ..GrammarWithLexer::from_json_schema(schema)
    });
    let whole = GrammarWithLexer::from_lark(text.join("\n"));
    Ok(TopLevelGrammar {
        grammars: [whole].into_iter().chain(of_schemas).collect(),
        max_tokens: None,
    })
}

/// Name of the grammar of a schema.
fn name(schema: usize) -> String {
    format!("schema{schema}")
}

impl Writer<'_> {
    fn sequence(&mut self, parts: &[Part]) -> Result<String, GrammarError> {
        let parts = parts.iter().map(|part| self.part(part));
        Ok(parts.collect::<Result<Vec<String>, _>>()?.join(" "))
    }

    fn part(&mut self, part: &Part) -> Result<String, GrammarError> {
        Ok(match part {
            Part::Text(text) => self.special(text).unwrap_or_else(|| quoted(text)),
            Part::Json(schema) => {
                self.schemas.push(schema::read(schema)?);
                format!("@{}", name(self.schemas.len() - 1))
            }
            Part::Through(text) => self.through(text),
            Part::Space => r"/[ \t\r\n]+/?".to_owned(),
            Part::Maybe(parts) => format!("({})?", self.sequence(parts)?),
            Part::Repeated(parts) => format!("({})*", self.sequence(parts)?),
            Part::OneOf(ways) => {
                let ways = ways.iter().map(|parts| self.sequence(parts));
                format!("({})", ways.collect::<Result<Vec<_>, _>>()?.join(" | "))
            }
        })
    }

    fn through(&mut self, text: &str) -> String {
        // No text has a special token in it.
        if let Some(token) = self.special(text) {
            return format!("/(?s:.+)/? {token}");
        }
        let rule = format!("through{}", self.rules.len());
        let ends = quoted(text);
        self.rules.push(format!("{rule}[suffix={ends}]: /(?s:.*)/"));
        rule
    }

    /// The special token of this name, if there is one.
    fn special(&self, name: &str) -> Option<String> {
        let id = self.tokenizer.id(name)?;
        self.tokenizer.is_special(id).then(|| format!("<[{id}]>"))
    }
}

/// A text as the language writes it: as JSON does.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_are_written_in_the_language_of_the_library() {
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": [{
                "id": 1, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            }],
            "pre_tokenizer": { "type": "WhitespaceSplit" },
            "model": { "type": "WordLevel", "vocab": { "a": 0, "<|end|>": 1 }, "unk_token": "a" },
        });
        let tokenizer = Tokenizer::from_bytes(tokenizer.to_string().as_bytes()).unwrap();
        let text = |text: &str| Part::Text(text.to_owned());
        let parts = [
            Part::Maybe(vec![Part::Through("</a>".to_owned()), Part::Space]),
            Part::OneOf(vec![
                vec![text("\"x\"\n"), Part::Json(r#"{"const":1}"#.to_owned())],
                vec![Part::Repeated(vec![text("<|end|>")])],
            ]),
            Part::Through("<|end|>".to_owned()),
        ];
        let TopLevelGrammar { grammars, .. } = grammar(&parts, &tokenizer).unwrap();
        let [whole, schema] = &grammars[..] else {
            unreachable!("a grammar and that of its schema")
        };
        let expected = "start: (through0 /[ \\t\\r\\n]+/?)? (\"\\\"x\\\"\\n\" @schema0 | (<[1]>)*) /(?s:.+)/? <[1]>\n\
            through0[suffix=\"</a>\"]: /(?s:.*)/";
        assert_eq!(whole.lark_grammar.as_deref(), Some(expected));
        assert_eq!(schema.name.as_deref(), Some("schema0"));
        assert_eq!(schema.json_schema, Some(json!({"const": 1})));
    }
}
