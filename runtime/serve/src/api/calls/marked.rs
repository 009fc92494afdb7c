//! Calls that a model writes in or after marks in the text of its answer, most as objects in JSON.

use serde_json::{Map, Value};

use super::tools::{Tool, is_name};
use super::{Format, pairs};
use crate::api::told::{Call, Told, begun_at_end};

/// Marks around a call of Hermes and others.
pub(super) const OPEN: &str = "<tool_call>";
pub(super) const CLOSE: &str = "</tool_call>";

/// Mark before the calls of Mistral's models, of newer ones before each.
pub(super) const CALLS: &str = "[TOOL_CALLS]";

/// Marks behind the name of a call of newer ones: before an id, which may be left out, and before the arguments.
pub(super) const ID: &str = "[CALL_ID]";
pub(super) const ARGUMENTS: &str = "[ARGS]";

/// Mark before the calls of some of Llama's models.
pub(super) const PYTHON: &str = "<|python_tag|>";

/// Tells an answer and its calls apart, in a text that comes in pieces. What looks like a call but is none stays in the answer.
#[derive(Clone, Debug)]
pub(in crate::api) struct Marked {
    format: Format,
    /// The tools that the client gave.
    tools: Vec<Tool>,
    place: Place,
    /// Text that may belong to a mark or a call.
    held: String,
    /// Spaces at the end of the answer so far, which are left out where a call follows.
    spaces: String,
    /// Whether there was a call.
    called: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first character that isn't a space.
    Start,
    /// In the answer.
    Answer,
    /// In a call, or in what may be one.
    Call,
}

impl Marked {
    /// The beginning of an answer that may call these tools.
    pub(in crate::api) fn new(format: Format, tools: Vec<Tool>) -> Self {
        Self {
            format,
            tools,
            place: if format == Format::Llama {
                Place::Start
            } else {
                Place::Answer
            },
            held: String::new(),
            spaces: String::new(),
            called: false,
        }
    }

    /// Takes the next piece, and returns what is sure now.
    pub(in crate::api) fn push(&mut self, text: &str) -> Told {
        self.held.push_str(text);
        let mut told = Told::default();
        while self.advance(&mut told) {}
        told
    }

    /// Returns what was held back, at the end of the text.
    pub(in crate::api) fn finish(&mut self) -> Told {
        let (mut told, held) = (Told::default(), std::mem::take(&mut self.held));
        match self.place {
            Place::Start | Place::Answer => self.say(&held, &mut told),
            Place::Call => self.end_call(&held, "", &mut told),
        }
        if !self.called {
            told.answer.push_str(&std::mem::take(&mut self.spaces));
        }
        told
    }

    /// Takes what is sure of the held text; returns whether there may be more.
    fn advance(&mut self, told: &mut Told) -> bool {
        match self.place {
            Place::Start => match self.begins_call() {
                Some(true) => self.place = Place::Call,
                Some(false) => self.place = Place::Answer,
                None => return false,
            },
            Place::Answer => return self.look_for_call(told),
            Place::Call => {
                let closed = self.held.split_once(CLOSE);
                let closed = closed.filter(|_| self.mark() == Some(OPEN));
                let Some((call, after)) = closed else {
                    return false;
                };
                let (call, after) = (call.to_owned(), after.to_owned());
                self.held = after;
                self.place = Place::Answer;
                self.end_call(&call, CLOSE, told);
            }
        }
        true
    }

    /// Whether the answer begins with an object; `None` if that isn't sure yet.
    fn begins_call(&self) -> Option<bool> {
        let begun = self.held.trim_start();
        if begun.is_empty() || (PYTHON.starts_with(begun) && begun != PYTHON) {
            return None;
        }
        let rest = begun.strip_prefix(PYTHON).unwrap_or(begun).trim_start();
        (!rest.is_empty()).then(|| rest.starts_with('{'))
    }

    /// Tells the answer up to the next call; returns whether there is one.
    fn look_for_call(&mut self, told: &mut Told) -> bool {
        let held = std::mem::take(&mut self.held);
        let Some(mark) = self.mark() else {
            self.say(&held, told);
            return false;
        };
        if let Some((before, after)) = held.split_once(mark) {
            self.say(before, told);
            self.held = after.to_owned();
            self.place = Place::Call;
            return true;
        }
        let sure = held.len() - begun_at_end(&held, &[mark]);
        self.say(&held[..sure], told);
        self.held = held[sure..].to_owned();
        false
    }

    /// The mark before calls that may stand anywhere in an answer.
    fn mark(&self) -> Option<&'static str> {
        match self.format {
            Format::Hermes | Format::Coder | Format::Glm => Some(OPEN),
            Format::Mistral | Format::MistralNamed => Some(CALLS),
            Format::Llama | Format::Harmony => None,
        }
    }

    /// Tells the calls that a text between marks is, or the text with its marks if it is none.
    fn end_call(&mut self, text: &str, close: &str, told: &mut Told) {
        let tools = &self.tools;
        let calls = match self.format {
            Format::Coder => pairs::coder(text, tools).map(|call| vec![call]),
            Format::Glm => pairs::glm(text, tools).map(|call| vec![call]),
            Format::MistralNamed => named(text),
            Format::Hermes | Format::Mistral => calls(text),
            Format::Llama | Format::Harmony => {
                let object = text.trim_start();
                let calls = calls(object.strip_prefix(PYTHON).unwrap_or(object));
                // Without a mark around it, only the name tells a call from an answer in JSON.
                let known = |call: &Call| tools.iter().any(|tool| tool.name == call.name);
                calls.filter(|calls| calls.iter().all(known))
            }
        };
        match calls {
            Some(calls) => {
                self.spaces.clear();
                self.called = true;
                told.calls.extend(calls);
            }
            None => {
                let open = self.mark().unwrap_or_default();
                self.say(&format!("{open}{text}{close}"), told);
            }
        }
    }

    /// Tells a text of the answer, without the spaces at its end.
    fn say(&mut self, text: &str, told: &mut Told) {
        let solid = text.trim_end();
        if !solid.is_empty() {
            told.answer.push_str(&std::mem::take(&mut self.spaces));
            told.answer.push_str(solid);
        }
        self.spaces.push_str(&text[solid.len()..]);
    }
}

/// The calls that a text in JSON is: objects, or lists of them, with nothing but spaces and semicolons between. `None` for anything else.
fn calls(text: &str) -> Option<Vec<Call>> {
    let (mut rest, mut calls) = (text, Vec::new());
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if rest.is_empty() {
            return Some(calls).filter(|calls| !calls.is_empty());
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next()?.ok()? {
            Value::Array(items) => {
                for item in &items {
                    calls.push(call(item)?);
                }
            }
            object => calls.push(call(&object)?),
        }
        rest = &rest[values.byte_offset()..];
    }
}

/// The calls that a text of newer models of Mistral is: names with an object behind each. `None` for anything else.
fn named(text: &str) -> Option<Vec<Call>> {
    let calls = text.split(CALLS).map(|call| {
        let (head, arguments) = call.split_once(ARGUMENTS)?;
        let name = head.split(ID).next().map(str::trim)?;
        let arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        is_name(name).then(|| Call {
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        })
    });
    calls.collect()
}

/// The call that an object is.
fn call(object: &Value) -> Option<Call> {
    let name = object["name"].as_str()?;
    let arguments = object.get("arguments");
    let arguments = match arguments.or(object.get("parameters")) {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(arguments @ Value::Object(_)) => arguments.to_string(),
        Some(_) => return None,
    };
    Some(Call {
        name: name.to_owned(),
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a text that comes in pieces of a length, and its calls as `name(arguments)`.
    fn told(format: Format, text: &str, length: usize) -> (String, Vec<String>) {
        let tools = ["f", "g"].map(|name| Tool {
            name: name.to_owned(),
            parameters: r#"{"properties": {"text": {"type": "string"}}}"#.to_owned(),
        });
        let mut marked = Marked::new(format, tools.into());
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(length).map(String::from_iter);
        let mut parts: Vec<Told> = pieces.map(|piece| marked.push(&piece)).collect();
        parts.push(marked.finish());
        let answer = parts.iter().map(|told| told.answer.as_str()).collect();
        let calls = parts.iter().flat_map(|told| &told.calls);
        let calls = calls.map(|call| format!("{}({})", call.name, call.arguments));
        (answer, calls.collect())
    }

    #[track_caller]
    fn check(format: Format, text: &str, answer: &str, calls: &[&str]) {
        for length in 1..=text.chars().count() {
            let (said, made) = told(format, text, length);
            assert_eq!(said, answer, "{text} by {length}");
            assert_eq!(made, calls, "{text} by {length}");
        }
    }

    #[test]
    fn hermes_and_qwen() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::Hermes, text, answer, calls);
        };
        let one = "Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": \"ä\"}}\n</tool_call>";
        check(one, "Let me see.", &[r#"f({"z":1,"a":"ä"})"#]);
        let two = "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"arguments\":\"{}\",\"name\":\"other\"}</tool_call>\n";
        check(two, "", &["f({})", "other({})"]);
        // The end of the answer stands for the mark that is missing.
        check(
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}",
            "",
            &["g({})"],
        );
        let after = "a <tool_call>{\"name\":\"f\"}</tool_call> b ";
        check(after, "a b", &["f({})"]);
        for text in [
            "no call at all \n",
            "<tool_call>no object</tool_call>",
            "<tool_call>{\"name\": 1}</tool_call> then <b>",
            "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>",
            "<tool_call>{\"name\": \"f\"",
            "ends with <tool_cal",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn llama() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::Llama, text, answer, calls);
        };
        let one = "\n{\"name\": \"f\", \"parameters\": {\"city\": \"Bern\"}}";
        check(one, "", &[r#"f({"city":"Bern"})"#]);
        let two = "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}";
        check(two, "", &["f({})", "g({})"]);
        for text in [
            "It is {\"name\": \"f\", \"parameters\": {}}",
            "{\"name\": \"unknown\", \"parameters\": {}}",
            " {\"legs\": 8}\n",
            "{not json",
            "<|python_tag|>print(1)",
            "<|pyth",
            " ",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn mistral() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::Mistral, text, answer, calls);
        };
        let two = "Sure. [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"x\", \"arguments\": {}, \"id\": \"9\"}]";
        check(two, "Sure.", &[r#"f({"a":[1]})"#, "x({})"]);
        check("[TOOL_CALLS][{\"name\":\"f\"}]", "", &["f({})"]);
        for text in ["[TOOL_CALLS] []", "[TOOL_CALLS] none", "[TOOL] x"] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn newer_mistral() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::MistralNamed, text, answer, calls);
        };
        let two =
            "Sure. [TOOL_CALLS]f[ARGS]{\"b\": 1, \"a\": [2]}[TOOL_CALLS]x[CALL_ID]9[ARGS] {} ";
        check(two, "Sure.", &[r#"f({"b":1,"a":[2]})"#, "x({})"]);
        for text in [
            "[TOOL_CALLS]",
            "[TOOL_CALLS]f",
            "[TOOL_CALLS]f[ARGS]{\"a\"",
            "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]no name[ARGS]{}",
            "[TOOL_CALLS][{\"name\":\"f\"}]",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn qwen_coder() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::Coder, text, answer, calls);
        };
        let two = "So:\n<tool_call>\n<function=f>\n<parameter=text>\na\n\n<b>\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=x></function></tool_call>";
        check(two, "So:", &[r#"f({"text":"a\n\n<b>","n":3})"#, "x({})"]);
        for text in [
            "<tool_call>{\"name\": \"f\"}</tool_call>",
            "<tool_call><function=f>words</function></tool_call>",
            "<tool_call><function=f><parameter=text>never ends",
            "<function=f></function>",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn glm() {
        let check = |text: &str, answer: &str, calls: &[&str]| {
            check(Format::Glm, text, answer, calls);
        };
        let two = "\n<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>1</arg_value>\n<arg_key>n</arg_key>\n<arg_value>[true]</arg_value>\n</tool_call><tool_call>g</tool_call>";
        check(two, "", &[r#"f({"text":"1","n":[true]})"#, "g({})"]);
        let close = "<tool_call>f<arg_key>text</arg_key><arg_value></arg_value></tool_call>";
        check(close, "", &[r#"f({"text":""})"#]);
        for text in [
            "<tool_call>no name</tool_call>",
            "<tool_call></tool_call>",
            "<tool_call>f<arg_key>a</arg_key>1</tool_call>",
        ] {
            check(text, text, &[]);
        }
    }
}
