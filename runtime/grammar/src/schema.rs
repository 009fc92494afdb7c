//! Reads schemas, and refuses those that would become too large.
//!
//! The library bounds most of what a schema costs, but not what it copies: where keywords are combined with a reference or with alternatives,
//! it writes both out, and a few references to one another can stand for any number of copies. What they stand for is bounded here before.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::GrammarError;

/// Longest schema in bytes.
const LONGEST: usize = 64 << 10;

/// Largest number of parts of a schema whose combined keywords are written out.
const LARGEST: f64 = 300_000.0;

/// Largest number of `patternProperties`, each of which is compared with all others.
const PATTERNS: usize = 32;

/// Keywords that say nothing about a value, or only where a schema refers to.
const ANNOTATIONS: &str = "$anchor $defs definitions $schema $id id $comment title description default readOnly writeOnly examples \
    contentMediaType contentEncoding";

/// Number of types that a schema without `type` allows.
const TYPES: f64 = 6.0;

/// Reads a schema.
///
/// # Errors
/// [`GrammarError::Schema`] for a text that is too long or no schema in JSON, and for a schema that is too large.
pub(crate) fn read(text: &str) -> Result<Value, GrammarError> {
    if text.len() > LONGEST {
        let expected = format!("at most {LONGEST} bytes");
        return Err(GrammarError::schema(expected, text.len()));
    }
    let read = serde_json::from_str::<Value>(text);
    let root = read.map_err(|error| GrammarError::schema("JSON", error))?;
    let got = match &root {
        Value::Object(_) | Value::Bool(_) => None,
        Value::Array(_) => Some("a list"),
        Value::String(_) => Some("a text"),
        Value::Number(_) => Some("a number"),
        Value::Null => Some("null"),
    };
    if let Some(got) = got {
        return Err(GrammarError::schema("an object or a flag", got));
    }
    check(&root)?;
    Ok(root)
}

/// Checks that a schema isn't too large.
fn check(root: &Value) -> Result<(), GrammarError> {
    let mut survey = Survey {
        root,
        referred: HashMap::new(),
        patterns: 0,
    };
    let size = survey.size(root);
    if survey.patterns > PATTERNS {
        let expected = format!("at most {PATTERNS} patternProperties");
        return Err(GrammarError::schema(expected, survey.patterns));
    }
    if size.is_infinite() {
        let expected = "references to itself in places of their own";
        let got = "one beside other keywords";
        return Err(GrammarError::schema(expected, got));
    }
    if size > LARGEST {
        let expected = format!("at most {LARGEST} parts when combined keywords are written out");
        return Err(GrammarError::schema(expected, format!("about {size:.1e}")));
    }
    Ok(())
}

/// Counts the parts of a schema.
struct Survey<'a> {
    root: &'a Value,
    /// Sizes of what references stand for, by their texts; without an end while they are being counted, as one that is met meanwhile
    /// contains itself.
    referred: HashMap<&'a str, f64>,
    patterns: usize,
}

impl<'a> Survey<'a> {
    /// Number of parts of a value that is anything in a schema: each once, and those that are combined as they are written out.
    fn size(&mut self, value: &'a Value) -> f64 {
        let inner: f64 = match value {
            Value::Array(items) => items.iter().map(|item| self.size(item)).sum(),
            Value::Object(fields) => {
                let patterns = fields.get("patternProperties");
                self.patterns += patterns.and_then(Value::as_object).map_or(0, Map::len);
                let combined = if combines(fields) {
                    self.written(value)
                } else {
                    0.0
                };
                let inner: f64 = fields.values().map(|field| self.size(field)).sum();
                combined + inner
            }
            _ => 0.0,
        };
        1.0 + inner
    }

    /// Number of parts of a schema in which every reference is written out, at most: the product of those that are combined.
    fn written(&mut self, schema: &'a Value) -> f64 {
        let Some(fields) = schema.as_object() else {
            return 1.0;
        };
        let (mut factor, mut plain) = (1.0, 0.0);
        for (name, value) in fields {
            match name.as_str() {
                "$ref" => factor *= self.referred(value),
                "allOf" => {
                    let parts = value.as_array().into_iter().flatten();
                    factor *= parts.map(|part| self.written(part)).product::<f64>();
                }
                "anyOf" | "oneOf" => factor *= self.listed(value).max(1.0),
                "enum" | "const" => factor *= nodes(value),
                // A property is combined with the pattern that its name matches.
                "patternProperties" => factor *= 1.0 + self.named(value),
                "properties" => plain += 1.0 + self.named(value),
                "items" | "prefixItems" | "additionalItems" | "additionalProperties" => {
                    plain += 1.0 + self.listed(value);
                }
                name if is_annotation(name) => {}
                _ => plain += 1.0,
            }
        }
        match fields.get("type") {
            _ if plain == 0.0 => factor,
            Some(Value::String(_)) => factor * (1.0 + plain),
            _ => factor * (TYPES + plain),
        }
    }

    /// Number of parts of a list of schemas, or of a single one.
    fn listed(&mut self, value: &'a Value) -> f64 {
        match value {
            Value::Array(items) => items.iter().map(|item| self.written(item)).sum(),
            _ => self.written(value),
        }
    }

    /// Number of parts of an object's schemas.
    fn named(&mut self, value: &'a Value) -> f64 {
        let fields = value.as_object().into_iter().flat_map(Map::values);
        fields.map(|field| self.written(field)).sum()
    }

    /// Number of parts of what a reference stands for.
    fn referred(&mut self, reference: &'a Value) -> f64 {
        let Some(reference) = reference.as_str() else {
            return 1.0;
        };
        if let Some(size) = self.referred.get(reference) {
            return *size;
        }
        self.referred.insert(reference, f64::INFINITY);
        let path = reference.strip_prefix('#').unwrap_or_default();
        let target = match path {
            "" | "/" => Some(self.root),
            _ => found(self.root, path),
        };
        // The library refuses a reference that leads nowhere.
        let size = target.map_or(1.0, |target| self.written(target));
        self.referred.insert(reference, size);
        size
    }
}

/// The place in a document that a path names, as the library finds it: with names as they are.
fn found<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let mut names = path.strip_prefix('/')?.split('/');
    names.try_fold(root, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    })
}

/// Whether a schema has several keywords that are combined with each other.
fn combines(fields: &Map<String, Value>) -> bool {
    let (mut parts, mut plain) = (0, 0);
    for (name, value) in fields {
        match name.as_str() {
            "allOf" => parts += value.as_array().map_or(0, Vec::len),
            "$ref" | "anyOf" | "oneOf" | "enum" | "const" | "patternProperties" => parts += 1,
            name if is_annotation(name) => {}
            _ => plain = 1,
        }
    }
    parts + plain > 1
}

fn is_annotation(name: &str) -> bool {
    ANNOTATIONS.split_whitespace().any(|known| known == name)
}

/// Number of values in a value, with itself.
fn nodes(value: &Value) -> f64 {
    let inner: f64 = match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum(),
        _ => 0.0,
    };
    1.0 + inner
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(schema: &Value) -> Option<String> {
        let read = read(&schema.to_string());
        read.err().map(|error| error.to_string())
    }

    /// Definitions in which each one refers twice to the next, with or without other keywords beside.
    fn doubling(levels: usize, beside: bool) -> Value {
        let of = |level: usize| {
            let mut next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            if beside {
                next["properties"] = json!({});
            }
            let properties = json!({"x": next, "y": next});
            let schema = json!({"type": "object", "properties": properties});
            (format!("d{level}"), schema)
        };
        let mut definitions: Map<String, Value> = (0..levels).map(of).collect();
        definitions.insert(format!("d{levels}"), json!({"type": "null"}));
        json!({"$ref": "#/$defs/d0", "$defs": definitions})
    }

    #[test]
    fn what_is_written_out_is_bounded() {
        // References by themselves stay what they are.
        assert_eq!(refused(&doubling(40, false)), None);
        let said = refused(&doubling(40, true)).unwrap();
        let expected = "schema: expected at most 300000 parts";
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(refused(&doubling(2, true)), None);

        let ways = |count: usize| -> Value {
            let way = |n: usize| {
                let name = format!("p{n}");
                json!({"type": "object", "properties": {name: {}}})
            };
            (0..count).map(way).collect()
        };
        let both = |count| json!({"allOf": [{"anyOf": ways(count)}, {"anyOf": ways(count)}]});
        assert_eq!(refused(&both(5)), None);
        assert!(refused(&both(200)).is_some());
    }

    #[test]
    fn a_schema_may_refer_to_itself_where_nothing_is_combined() {
        let tree = json!({
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#"}},
                "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}], "title": "none at the end"},
            },
            "required": ["value"],
            "additionalProperties": false,
        });
        assert_eq!(refused(&tree), None);
        let mut beside = tree.clone();
        beside["properties"]["next"] = json!({"$ref": "#", "minProperties": 1});
        let said = refused(&beside).unwrap();
        let expected = "schema: expected references to itself in places of their own, got one beside other keywords";
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_no_schema_or_too_long_is_refused() {
        for (text, expected) in [
            ("{", "schema: expected JSON, got EOF"),
            ("[1]", "schema: expected an object or a flag, got a list"),
            ("null", "schema: expected an object or a flag, got null"),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(read("true").is_ok());
        let long = json!({"title": "a".repeat(LONGEST)});
        assert!(refused(&long).unwrap().contains("at most 65536 bytes"));
        let patterns = |count: usize| {
            let patterns = (0..count).map(|n| (format!("^{n}$"), json!({})));
            json!({"type": "object", "patternProperties": patterns.collect::<Map<_, _>>()})
        };
        assert_eq!(refused(&patterns(PATTERNS)), None);
        let said = refused(&patterns(PATTERNS + 1)).unwrap();
        assert_eq!(
            said,
            "schema: expected at most 32 patternProperties, got 33"
        );
        // Common schemas are far from the limits.
        let options: Vec<String> = (0..2000).map(|n| format!("option {n}")).collect();
        let common = json!({"type": "string", "enum": options});
        assert_eq!(refused(&common), None);
    }
}
