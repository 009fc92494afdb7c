//! Tools that a client tells a model of, and whether it must call one.

use serde_json::Value;

use crate::error::ApiError;
use crate::form::ANY_OBJECT;

/// Longest name of a tool, in characters.
const LONGEST: usize = 64;

/// A function that a model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) struct Tool {
    pub(in crate::api) name: String,
    /// Schema of the arguments, a text in JSON.
    pub(in crate::api) parameters: String,
}

/// Whether an answer calls tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) enum Choice {
    /// It doesn't, and the model isn't told of them.
    None,
    /// As the model chooses.
    Auto,
    /// At least one.
    Required,
    /// This one.
    One(Tool),
}

/// Whether a text may be the name of a tool.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    (1..=LONGEST).contains(&text.len()) && text.chars().all(plain)
}

impl Tool {
    /// Reads a client's tool number `at`.
    ///
    /// # Errors
    /// 400 for anything but a function with a name of letters, digits, `_` and `-` and an object of parameters.
    pub(in crate::api) fn read(tool: &Value, at: usize) -> Result<Self, ApiError> {
        let wrong = |field: &str, expected: &str| {
            let param = format!("tools[{at}].{field}");
            let message = format!("{param}: expected {expected}, got another value or none");
            ApiError::field(param, message)
        };
        let kind = tool["type"].as_str();
        if kind != Some("function") {
            return Err(wrong("type", "\"function\""));
        }
        let function = &tool["function"];
        let name = function["name"].as_str();
        let Some(name) = name.filter(|name| is_name(name)) else {
            let expected = "1 to 64 letters, digits, \"_\" or \"-\"";
            return Err(wrong("function.name", expected));
        };
        let parameters = match &function["parameters"] {
            Value::Null => ANY_OBJECT.to_owned(),
            schema @ Value::Object(_) => schema.to_string(),
            _ => return Err(wrong("function.parameters", "a schema")),
        };
        Ok(Self {
            name: name.to_owned(),
            parameters,
        })
    }
}

impl Choice {
    /// Reads a client's choice among these tools; without one, the model chooses.
    ///
    /// # Errors
    /// 400 for an unknown choice, and for one that no tool fits.
    pub(in crate::api) fn read(choice: Option<&Value>, tools: &[Tool]) -> Result<Self, ApiError> {
        let wrong = |expected: &str, got: &str| {
            let message = format!("tool_choice: expected {expected}, got {got}");
            ApiError::field("tool_choice", message)
        };
        let name = match choice {
            None | Some(Value::Null) => return Ok(Self::Auto),
            Some(Value::String(word)) => match word.as_str() {
                "none" => return Ok(Self::None),
                "auto" => return Ok(Self::Auto),
                "required" if tools.is_empty() => return Err(wrong("tools to call", "none")),
                "required" => return Ok(Self::Required),
                _ => None,
            },
            Some(choice) => {
                let function = choice["type"] == "function";
                let name = choice["function"]["name"].as_str();
                name.filter(|_| function)
            }
        };
        let Some(name) = name else {
            let expected = "\"none\", \"auto\", \"required\" or a function";
            let got = choice.map(Value::to_string).unwrap_or_default();
            return Err(wrong(expected, &got));
        };
        let found = tools.iter().find(|tool| tool.name == name);
        let found = found.ok_or_else(|| wrong("a function of tools", &format!("{name:?}")))?;
        Ok(Self::One(found.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(tool: &Value) -> Result<Tool, String> {
        let read = Tool::read(tool, 2);
        read.map_err(|error| serde_json::to_string(&error.body()).unwrap())
    }

    #[test]
    fn tools_are_functions() {
        let parameters = json!({"type": "object", "properties": {"x": {}}});
        let function = json!({"name": "a-1", "parameters": parameters});
        let tool = json!({"type": "function", "function": function});
        let found = read(&tool).unwrap();
        assert_eq!(found.name, "a-1");
        let schema: Value = serde_json::from_str(&found.parameters).unwrap();
        assert_eq!(schema, parameters);
        let bare = json!({"type": "function", "function": {"name": "b"}});
        assert_eq!(read(&bare).unwrap().parameters, ANY_OBJECT);
        for (wrong, param) in [
            (json!({"type": "custom"}), "tools[2].type"),
            (json!({"type": "function"}), "tools[2].function.name"),
            (
                json!({"type": "function", "function": {"name": "a b"}}),
                "tools[2].function.name",
            ),
            (
                json!({"type": "function", "function": {"name": "a", "parameters": 1}}),
                "tools[2].function.parameters",
            ),
        ] {
            let said = read(&wrong).unwrap_err();
            assert!(said.contains(&format!(r#""param":"{param}""#)), "{said}");
        }
    }

    #[test]
    fn choices_are_among_the_tools() {
        let tool = |name: &str| Tool {
            name: name.to_owned(),
            parameters: ANY_OBJECT.to_owned(),
        };
        let tools = [tool("f"), tool("g")];
        let function = |name: &str| json!({"type": "function", "function": {"name": name}});
        for (choice, expected) in [
            (json!(null), Choice::Auto),
            (json!("auto"), Choice::Auto),
            (json!("none"), Choice::None),
            (json!("required"), Choice::Required),
            (function("g"), Choice::One(tool("g"))),
        ] {
            let read = Choice::read(Some(&choice), &tools);
            assert_eq!(read, Ok(expected), "{choice}");
        }
        assert_eq!(Choice::read(None, &[]), Ok(Choice::Auto));
        assert!(Choice::read(Some(&json!("required")), &[]).is_err());
        for wrong in [json!("any"), json!(1), json!({"type": "x"}), function("h")] {
            let read = Choice::read(Some(&wrong), &tools);
            assert!(read.is_err(), "{wrong}");
        }
    }
}
