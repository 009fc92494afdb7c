//! Calls whose arguments a model writes as pairs of a name and a value between marks, as Qwen3-Coder and GLM do. Texts have no quotes there,
//! so that only the schema of a tool tells the text `1` from the number.

use moebius_grammar::Part;
use serde_json::{Map, Value};

use super::text;
use super::tools::{Tool, is_name};
use crate::api::told::Call;

/// Marks around the name of a function and its arguments, of Qwen3-Coder.
pub(super) const FUNCTION: &str = "<function=";
pub(super) const FUNCTION_END: &str = "</function>";

/// Marks around the name of an argument and around its value, of GLM.
pub(super) const KEY: &str = "<arg_key>";
pub(super) const KEY_END: &str = "</arg_key>";
pub(super) const VALUE: &str = "<arg_value>";
pub(super) const VALUE_END: &str = "</arg_value>";

/// The marks of a family around arguments.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Before the name of an argument.
    name: &'static str,
    /// Behind the name.
    named: &'static str,
    /// Before the value, if there is such a mark.
    value: &'static str,
    /// Behind the value.
    end: &'static str,
    /// Whether a value stands on lines of its own.
    lines: bool,
}

/// The marks of Qwen3-Coder.
pub(super) const CODER: Pairs = Pairs {
    name: "<parameter=",
    named: ">",
    value: "",
    end: "</parameter>",
    lines: true,
};

/// The marks of GLM.
pub(super) const GLM: Pairs = Pairs {
    name: KEY,
    named: KEY_END,
    value: VALUE,
    end: VALUE_END,
    lines: false,
};

/// The call that a text of Qwen3-Coder is; `None` for anything else.
pub(super) fn coder(text: &str, tools: &[Tool]) -> Option<Call> {
    let (name, rest) = text.trim().strip_prefix(FUNCTION)?.split_once('>')?;
    let arguments = rest.strip_suffix(FUNCTION_END).unwrap_or(rest);
    CODER.call(name, arguments, tools)
}

/// The call that a text of GLM is; `None` for anything else.
pub(super) fn glm(text: &str, tools: &[Tool]) -> Option<Call> {
    let (name, arguments) = text.split_at(text.find(KEY).unwrap_or(text.len()));
    GLM.call(name.trim(), arguments, tools)
}

impl Pairs {
    /// The call of the tool `name` with the arguments in a text; `None` if the text has anything else in it.
    fn call(&self, name: &str, mut text: &str, tools: &[Tool]) -> Option<Call> {
        let tool = tools.iter().find(|tool| tool.name == name);
        let schema = tool.map(schema).unwrap_or_default();
        let mut arguments = Map::new();
        while !text.trim_start().is_empty() {
            let begun = text.trim_start().strip_prefix(self.name)?;
            let (key, rest) = begun.split_once(self.named)?;
            let rest = if self.lines { rest } else { rest.trim_start() };
            let (value, rest) = rest.strip_prefix(self.value)?.split_once(self.end)?;
            let value = if self.lines { lines(value) } else { value };
            arguments.insert(key.to_owned(), typed(value, property(&schema, key)));
            text = rest;
        }
        is_name(name).then(|| Call {
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        })
    }

    /// The parts of the arguments of a tool, in the order of its schema.
    pub(super) fn parts(&self, tool: &Tool) -> Vec<Part> {
        let schema = schema(tool);
        let required = |name: &str| {
            let names = schema["required"].as_array();
            names.is_some_and(|names| names.iter().any(|one| one == name))
        };
        let properties = schema["properties"].as_object();
        let names = properties.into_iter().flat_map(Map::keys);
        let names = names.filter(|name| !name.is_empty());
        let parts = names.flat_map(|name| {
            let parts = self.pair(name, &schema);
            if required(name) {
                parts
            } else {
                vec![Part::Maybe(parts)]
            }
        });
        parts.collect()
    }

    /// The parts of an argument. A value that may be a text is free, unless the schema lists the texts.
    fn pair(&self, name: &str, schema: &Value) -> Vec<Part> {
        let own = property(schema, name);
        let before = if self.lines { "\n" } else { "" };
        let end = format!("{before}{}", self.end);
        let listed = own["enum"].as_array().into_iter().flatten();
        let listed: Option<Vec<&str>> = listed.map(Value::as_str).collect();
        let listed = listed.filter(|texts| !texts.is_empty() && !texts.contains(&""));
        let value = if let Some(texts) = listed {
            let texts = texts.into_iter().map(|one| vec![text(one)]);
            vec![Part::OneOf(texts.collect()), text(&end)]
        } else if kinds(own).is_none_or(|kinds| kinds.contains(&"string")) {
            vec![Part::Through(end)]
        } else {
            let mut own = own.clone();
            for place in ["$defs", "definitions"] {
                if let Some(named) = schema.get(place) {
                    own[place] = named.clone();
                }
            }
            vec![Part::Json(own.to_string()), text(&end)]
        };
        let begin = [self.name, name, self.named, "\n", self.value];
        let begin = begin.into_iter().filter(|mark| !mark.is_empty()).map(text);
        begin.chain(value).chain([text("\n")]).collect()
    }
}

/// The schema of a tool's arguments.
fn schema(tool: &Tool) -> Value {
    // Null, which has no properties, stands for a text that is no JSON; no tool has one.
    serde_json::from_str(&tool.parameters).unwrap_or_default()
}

/// The schema of an argument; where it refers to another place of the tool's schema, the one there.
fn property<'a>(schema: &'a Value, name: &str) -> &'a Value {
    let own = &schema["properties"][name];
    let place = own["$ref"].as_str();
    let place = place.and_then(|place| schema.pointer(place.strip_prefix('#')?));
    place.unwrap_or(own)
}

/// A value without the ends of lines around it.
fn lines(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// A value as the schema of its argument has it: JSON, or a word of Python, of a permitted type, and otherwise the text itself.
fn typed(text: &str, schema: &Value) -> Value {
    let json = match text.trim() {
        "True" => "true",
        "False" => "false",
        "None" => "null",
        other => other,
    };
    let permitted = |value: &Value| {
        let kinds = kinds(schema);
        !value.is_string() && kinds.is_none_or(|kinds| kinds.contains(&kind(value)))
    };
    let read = serde_json::from_str::<Value>(json).ok().filter(permitted);
    read.unwrap_or_else(|| Value::from(text))
}

/// The types of the values that a schema permits, whole numbers among the numbers; `None` if the schema doesn't say.
fn kinds(schema: &Value) -> Option<Vec<&str>> {
    let mut several = ["anyOf", "oneOf"].into_iter();
    if let Some(ways) = several.find_map(|name| schema[name].as_array()) {
        let all: Option<Vec<Vec<&str>>> = ways.iter().map(kinds).collect();
        return all.map(|all| all.concat());
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().map(kind).collect());
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let plain = names.into_iter().map(|name| match name {
        "integer" => "number",
        other => other,
    });
    Some(plain.collect())
}

/// The type of a value, as schemas call it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool() -> Tool {
        let schema = json!({
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["C", "F"]},
                "days": {"type": ["integer", "null"]},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "spot": {"$ref": "#/$defs/spot"},
                "any": {},
            },
            "required": ["unit", "days"],
            "$defs": {"spot": {"type": "object"}},
        });
        Tool {
            name: "f".to_owned(),
            parameters: schema.to_string(),
        }
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let tool = schema(&tool());
        for (name, text, expected) in [
            ("city", "12", json!("12")),
            ("city", "\"quoted\"", json!("\"quoted\"")),
            ("unit", "C", json!("C")),
            ("days", " 3 ", json!(3)),
            ("days", "None", json!(null)),
            ("days", "three", json!("three")),
            ("note", "null", json!(null)),
            ("note", "1", json!("1")),
            ("spot", "{\"x\": [1]}", json!({"x": [1]})),
            ("any", "True", json!(true)),
            ("any", "words", json!("words")),
            ("unknown", "1.5", json!(1.5)),
        ] {
            assert_eq!(typed(text, property(&tool, name)), expected, "{name}");
        }
    }

    #[test]
    fn arguments_are_asked_for_by_their_schemas() {
        let t = super::text;
        let begin = |name: &str| [t("<parameter="), t(name), t(">"), t("\n")];
        let pair = |name: &str, value: Vec<Part>| {
            let all = begin(name).into_iter().chain(value).chain([t("\n")]);
            all.collect::<Vec<Part>>()
        };
        let end = || t("\n</parameter>");
        let free = |name| Part::Maybe(pair(name, vec![Part::Through("\n</parameter>".to_owned())]));
        let json = |schema: Value| Part::Json(schema.to_string());
        let defs = json!({"spot": {"type": "object"}});
        let days = json(json!({"type": ["integer", "null"], "$defs": defs}));
        let spot = json(json!({"type": "object", "$defs": defs}));
        let units = Part::OneOf(vec![vec![t("C")], vec![t("F")]]);
        let expected = [
            vec![free("city")],
            pair("unit", vec![units, end()]),
            pair("days", vec![days, end()]),
            vec![
                free("note"),
                Part::Maybe(pair("spot", vec![spot, end()])),
                free("any"),
            ],
        ];
        assert_eq!(CODER.parts(&tool()), expected.concat());
        let glm = GLM.parts(&tool()).remove(0);
        let marks = ["<arg_key>", "city", "</arg_key>", "\n", "<arg_value>"];
        let value = [Part::Through("</arg_value>".to_owned()), t("\n")];
        let all = marks.into_iter().map(t).chain(value);
        assert_eq!(glm, Part::Maybe(all.collect()));
    }
}
