//! Messages of a conversation, as clients write them, for a model's template.

use moebius_text::Message;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::ApiError;

/// A message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub(crate) struct ChatMessage {
    /// Author of the message, such as `system`, `user`, `assistant` or `tool`; the template says which there are.
    role: String,
    /// Text of the message, or its parts, which must be texts.
    content: Option<Content>,
    /// Name of the author.
    name: Option<String>,
    /// Calls of tools that the message made.
    #[schema(value_type = Option<Vec<Object>>)]
    tool_calls: Option<Vec<Value>>,
    /// Call that the message answers.
    tool_call_id: Option<String>,
    /// Reasoning of the author before the text.
    reasoning_content: Option<String>,
}

/// Text of a message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a text or a list of parts with a type, got another value"
)]
enum Content {
    /// One text.
    Text(String),
    /// Several parts.
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
struct Part {
    /// Kind of the part; only `text` is supported.
    r#type: String,
    /// Text of the part.
    text: Option<String>,
}

/// The messages of a request's field for a template.
///
/// # Errors
/// 400 that names a part which isn't a text, or a call whose arguments aren't JSON.
pub(crate) fn for_template(
    messages: Vec<ChatMessage>,
    field: &str,
) -> Result<Vec<Message>, ApiError> {
    let messages = messages.into_iter().enumerate();
    let messages = messages.map(|(at, message)| message.into_message(&format!("{field}[{at}]")));
    messages.collect()
}

impl ChatMessage {
    /// The message for a template; errors call it `place`.
    fn into_message(self, place: &str) -> Result<Message, ApiError> {
        let message = Message::new(self.role, String::new());
        let text = self.content.map(|content| content.text(place));
        let message = message.with("content", text.transpose()?);
        let calls = self.tool_calls.map(|calls| {
            let calls = calls.into_iter().enumerate();
            let calls = calls.map(|(number, call)| with_arguments(call, place, number));
            calls.collect::<Result<Vec<Value>, ApiError>>()
        });
        Ok(message
            .with("name", self.name)
            .with("tool_calls", calls.transpose()?)
            .with("tool_call_id", self.tool_call_id)
            .with("reasoning_content", self.reasoning_content))
    }
}

impl Content {
    /// The text, in which parts are lines.
    fn text(self, message: &str) -> Result<String, ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let texts = parts.into_iter().enumerate().map(|(number, part)| {
            let param = format!("{message}.content[{number}]");
            match (part.r#type.as_str(), part.text) {
                ("text" | "input_text" | "output_text", Some(text)) => Ok(text),
                ("text" | "input_text" | "output_text", None) => {
                    let message = format!("{param}.text: expected a text, got none");
                    Err(ApiError::field(format!("{param}.text"), message))
                }
                (other, _) => {
                    let message = format!("{param}.type: expected \"text\", got {other:?}");
                    Err(ApiError::field(format!("{param}.type"), message))
                }
            }
        });
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        Ok(texts.join("\n"))
    }
}

/// A call with its arguments as an object: clients write them as a text, empty for a call without any, and templates read their fields.
fn with_arguments(mut call: Value, message: &str, number: usize) -> Result<Value, ApiError> {
    let function = call.get_mut("function");
    let arguments = function.and_then(|function| function.get_mut("arguments"));
    if let Some(arguments) = arguments
        && let Value::String(text) = &arguments
    {
        let param = format!("{message}.tool_calls[{number}].function.arguments");
        let text = match text.as_str() {
            "" => "{}",
            text => text,
        };
        let read: Result<Value, _> = serde_json::from_str(text);
        *arguments = read.map_err(|error| {
            let message = format!("{param}: expected JSON, got an error: {error}");
            ApiError::field(param.clone(), message)
        })?;
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_text::{Chat, ChatTemplate};
    use serde_json::json;

    fn rendered(message: Value) -> Result<String, ApiError> {
        let template = "{{ messages[0].role }}|{{ messages[0].content }}|{{ messages[0].tool_calls[0].function.arguments.city }}";
        let template = ChatTemplate::new("test", template).unwrap();
        let message: ChatMessage = serde_json::from_value(message).unwrap();
        let chat = Chat::new([message.into_message("messages[3]")?]);
        Ok(template.render(&chat).unwrap())
    }

    #[test]
    fn parts_and_calls_become_what_templates_read() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let calls = json!([{"type": "function", "function": {"name": "f", "arguments": "{\"city\":\"Bern\"}"}}]);
        let message = json!({"role": "assistant", "content": parts, "tool_calls": calls});
        assert_eq!(rendered(message).unwrap(), "assistant|a\nb|Bern");
    }

    #[test]
    fn fields_keep_their_order() {
        let text = r#"{"z":1,"a":[true,null,-2,2.5,18446744073709551615],"m":{"y":"ä","b":{}}}"#;
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let twice: Value = serde_json::from_str(r#"{"b":1,"a":2,"b":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&twice).unwrap(), r#"{"b":3,"a":2}"#);
    }

    #[test]
    fn a_call_may_have_no_arguments() {
        let calls = json!([{"type": "function", "function": {"name": "f", "arguments": ""}}]);
        let message = json!({"role": "assistant", "content": "a", "tool_calls": calls});
        assert_eq!(rendered(message).unwrap(), "assistant|a|");
    }

    #[test]
    fn a_part_that_is_no_text_is_refused_by_name() {
        let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
        let refused = rendered(json!({"role": "user", "content": image})).unwrap_err();
        let said = serde_json::to_string(&refused.body()).unwrap();
        assert!(said.contains("messages[3].content[0].type"), "{said}");
        let calls = json!([{"function": {"arguments": "{"}}]);
        assert!(rendered(json!({"role": "assistant", "tool_calls": calls})).is_err());
    }
}
