//! What a template is given.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minijinja::Value;
use minijinja::value::{Serde, ValueKind};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{map, time};

/// One message of a conversation: who says it, what, and whatever else the template knows of.
#[derive(Clone, Debug)]
pub struct Message {
    /// In the order in which they came, which templates that print a message show.
    fields: Vec<(String, Value)>,
}

impl Message {
    /// A message of plain text. Templates know the roles `system`, `user` and `assistant`, and some `tool`, `developer` and others.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let (role, content): (String, String) = (role.into(), content.into());
        let fields = [("role", role), ("content", content)];
        let fields = fields.map(|(name, text)| (name.to_owned(), Value::from(text)));
        Self {
            fields: fields.into(),
        }
    }

    /// The same with another field, like `tool_calls` or `reasoning_content`, or with other content, like a list of parts.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = Value::from(Serde(value));
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, field)) => *field = value,
            None => self.fields.push((name.to_owned(), value)),
        }
        self
    }

    /// Who says it.
    pub fn role(&self) -> &str {
        let role = self.fields.iter().find(|(name, _)| name == "role");
        role.and_then(|(_, role)| role.as_str()).unwrap_or_default()
    }

    fn value(&self) -> Value {
        map(self.fields.iter().cloned())
    }
}

/// Any object with a text called `role`, as requests for chats have it.
impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.kind() != ValueKind::Map {
            let got = value.kind();
            return Err(D::Error::custom(format!(
                "message: expected an object, got a {got}"
            )));
        }
        let mut fields = Vec::new();
        for name in value.try_iter().map_err(D::Error::custom)? {
            let field = value.get_item(&name).map_err(D::Error::custom)?;
            fields.push((name.to_string(), field));
        }
        let role = fields.iter().find(|(name, _)| name == "role");
        match role.map(|(_, role)| role.as_str()) {
            Some(Some(_)) => Ok(Self { fields }),
            _ => Err(D::Error::custom(
                "message: expected a text called role, got none",
            )),
        }
    }
}

/// A conversation, and what else a template may ask for.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    messages: Vec<Message>,
    generation_prompt: bool,
    variables: Vec<(String, Value)>,
    time: Option<Duration>,
}

impl Chat {
    /// A conversation of these messages.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            messages: messages.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether the text ends with what an answer starts with (`add_generation_prompt`); it doesn't at first.
    pub fn with_generation_prompt(mut self, add: bool) -> Self {
        self.generation_prompt = add;
        self
    }

    /// Another name that the template may read, like `tools`, `documents` or `enable_thinking`. It hides what has the same name.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = Value::from(Serde(value));
        self.variables.push((name.to_owned(), value));
        self
    }

    /// The time that `strftime_now` tells, since 1970 in UTC. Without it the clock is read, which not all browsers' targets have.
    pub fn with_time(mut self, since_1970: Duration) -> Self {
        self.time = Some(since_1970);
        self
    }

    /// All names that a template may read.
    pub(super) fn context(&self, tokens: &[(String, String)]) -> Value {
        let messages: Vec<Value> = self.messages.iter().map(Message::value).collect();
        let time = self.time;
        let strftime_now = move |format: &str| {
            let now = || SystemTime::now().duration_since(UNIX_EPOCH);
            time::strftime(time.unwrap_or_else(|| now().unwrap_or_default()), format)
        };
        let given = [
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(self.generation_prompt)),
            // Defined, and none, as in Python: templates tell one from the other.
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("strftime_now", Value::from_function(strftime_now)),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value));
        let tokens = tokens
            .iter()
            .map(|(name, token)| (name.clone(), Value::from(token.clone())));
        map(given
            .into_iter()
            .chain(tokens)
            .chain(self.variables.iter().cloned()))
    }
}
