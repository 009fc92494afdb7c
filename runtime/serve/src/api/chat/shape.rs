//! Answers to a conversation, as clients get them.

use std::sync::Arc;

use moebius_engine::Draw;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::Answers;
use crate::api::output::{ChatLogprobs, Tokens};
use crate::api::reading::Reader;
use crate::api::stream::Shape;
use crate::api::told::{Call, Told};
use crate::error::ApiError;
use crate::service::{Service, seconds};
use crate::worker::{Finish, Update};

/// Answers to a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: Tokens,
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
struct ChatChoice {
    index: usize,
    message: Answer,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
}

/// The message of an answer.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    role: &'static str,
    /// Text of the answer; none if it does nothing but call functions.
    content: Option<String>,
    /// Reasoning before the content, of models that mark it.
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    /// Calls of functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

/// A call of a function.
#[derive(Debug, Serialize, ToSchema)]
struct ToolCall {
    /// Number among the calls of an answer, in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    r#type: &'static str,
    function: CalledFunction,
}

/// What a call calls.
#[derive(Debug, Serialize, ToSchema)]
struct CalledFunction {
    name: String,
    /// Arguments, a text in JSON.
    arguments: String,
}

/// A part of an answer that is streamed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatChunk {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChunkChoice>,
    /// Numbers of tokens, in the last event; there only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Tokens>)]
    usage: Option<Option<Tokens>>,
}

/// A part of one answer.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkChoice {
    index: usize,
    delta: Delta,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

/// What a part adds to a message.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    /// Calls of functions, each whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

const ASSISTANT: &str = "assistant";

/// Reason for the end of an answer that calls functions.
const CALLS: &str = "tool_calls";

impl ToolCall {
    /// The call number `index` of an answer.
    fn new(index: usize, call: Call) -> Self {
        Self {
            index: Some(index),
            id: format!("call_{}", uuid::Uuid::new_v4().simple()),
            r#type: "function",
            function: CalledFunction {
                name: call.name,
                arguments: call.arguments,
            },
        }
    }
}

impl Delta {
    fn is_empty(&self) -> bool {
        let texts = [&self.content, &self.reasoning_content];
        texts.iter().all(|text| text.is_none()) && self.tool_calls.is_empty()
    }
}

/// Makes the parts of answers that a client gets.
pub(super) struct ChatShape {
    id: String,
    created: u64,
    service: Arc<Service>,
    /// Reads each answer.
    readers: Vec<Reader>,
    /// Number of calls of each answer so far.
    called: Vec<usize>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens of all answers so far.
    generated: usize,
    telling: Telling,
}

/// What a client wants to be told beside the answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    /// Whether more than the first call of an answer is told.
    pub(super) several: bool,
    /// Whether a stream ends with the numbers of tokens.
    pub(super) usage: bool,
    /// Whether probabilities are told.
    pub(super) logprobs: bool,
}

impl ChatShape {
    /// Nothing yet of answers to a prompt of `prompt` tokens.
    pub(super) fn new(
        service: &Arc<Service>,
        readers: Vec<Reader>,
        prompt: usize,
        telling: Telling,
    ) -> Self {
        Self {
            id: format!("chatcmpl-{}", uuid::Uuid::new_v4().simple()),
            created: seconds(),
            service: service.clone(),
            called: vec![0; readers.len()],
            readers,
            prompt,
            generated: 0,
            telling,
        }
    }

    /// Waits for the answers, and returns all of them.
    pub(super) async fn whole(mut self, mut answers: Answers) -> Result<ChatCompletion, ApiError> {
        let choice = |index| ChatChoice {
            index,
            message: Answer {
                role: ASSISTANT,
                content: Some(String::new()),
                reasoning_content: String::new(),
                tool_calls: Vec::new(),
            },
            logprobs: self.telling.logprobs.then(ChatLogprobs::default),
            finish_reason: "",
        };
        let mut choices: Vec<ChatChoice> = (0..self.readers.len()).map(choice).collect();
        while let Some((number, update)) = answers.next().await? {
            let choice = &mut choices[number];
            match update {
                Update::Token { draw, text } => {
                    self.generated += 1;
                    let told = self.readers[number].push(&text);
                    self.add(number, told, &mut choice.message);
                    if let Some(logprobs) = &mut choice.logprobs {
                        logprobs.push(&self.service.text.tokenizer, &draw);
                    }
                }
                Update::End { finish, text } => {
                    for told in self.readers[number].end(&text) {
                        self.add(number, told, &mut choice.message);
                    }
                    let empty = choice.message.content.as_deref() == Some("");
                    if empty && self.called[number] > 0 {
                        choice.message.content = None;
                    }
                    choice.finish_reason = self.reason(number, finish);
                }
            }
        }
        Ok(ChatCompletion {
            object: "chat.completion",
            created: self.created,
            model: self.service.options.model.clone(),
            choices,
            usage: Tokens::new(self.prompt, self.generated),
            id: self.id,
        })
    }

    /// Adds what is told of an answer to its message.
    fn add(&mut self, choice: usize, told: Told, message: &mut Answer) {
        let calls = self.calls(choice, told.calls);
        let calls = calls.into_iter().map(|call| ToolCall {
            index: None,
            ..call
        });
        message.tool_calls.extend(calls);
        message.reasoning_content.push_str(&told.reasoning);
        let content = message.content.get_or_insert_default();
        content.push_str(&told.answer);
    }

    /// The delta for what is told of an answer, without parts that are empty.
    fn delta(&mut self, choice: usize, told: Told) -> Delta {
        let there = |text: String| Some(text).filter(|text| !text.is_empty());
        Delta {
            role: None,
            tool_calls: self.calls(choice, told.calls),
            content: there(told.answer),
            reasoning_content: there(told.reasoning),
        }
    }

    /// The next calls of an answer, those that are told.
    fn calls(&mut self, choice: usize, calls: Vec<Call>) -> Vec<ToolCall> {
        let called = &mut self.called[choice];
        let mut told = Vec::new();
        for call in calls {
            if self.telling.several || *called == 0 {
                told.push(ToolCall::new(*called, call));
            }
            *called += 1;
        }
        told
    }

    /// Why an answer ended, in the words of clients.
    fn reason(&self, choice: usize, finish: Finish) -> &'static str {
        match finish {
            Finish::Stop if self.called[choice] > 0 => CALLS,
            _ => finish.name(),
        }
    }

    fn chunk(&self, choices: Vec<ChunkChoice>, usage: Option<Tokens>) -> ChatChunk {
        ChatChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.service.options.model.clone(),
            choices,
            usage: self.telling.usage.then_some(usage),
        }
    }

    fn part(&self, index: usize, delta: Delta, reason: Option<&'static str>) -> ChatChunk {
        let choice = ChunkChoice {
            index,
            delta,
            logprobs: None,
            finish_reason: reason,
        };
        self.chunk(vec![choice], None)
    }
}

impl Shape for ChatShape {
    type Chunk = ChatChunk;

    fn first(&mut self) -> Vec<ChatChunk> {
        let begin = |choice| {
            let delta = Delta {
                role: Some(ASSISTANT),
                content: Some(String::new()),
                ..Delta::default()
            };
            self.part(choice, delta, None)
        };
        (0..self.readers.len()).map(begin).collect()
    }

    fn token(&mut self, choice: usize, draw: &Draw, text: String) -> Option<ChatChunk> {
        self.generated += 1;
        let told = self.readers[choice].push(&text);
        let delta = self.delta(choice, told);
        if delta.is_empty() && !self.telling.logprobs {
            return None;
        }
        let mut chunk = self.part(choice, delta, None);
        if self.telling.logprobs {
            let mut logprobs = ChatLogprobs::default();
            logprobs.push(&self.service.text.tokenizer, draw);
            for choice in &mut chunk.choices {
                choice.logprobs = Some(logprobs.clone());
            }
        }
        Some(chunk)
    }

    fn end(&mut self, choice: usize, finish: Finish, text: String) -> Vec<ChatChunk> {
        let mut chunks = Vec::new();
        for told in self.readers[choice].end(&text) {
            let delta = self.delta(choice, told);
            if !delta.is_empty() {
                chunks.push(self.part(choice, delta, None));
            }
        }
        let reason = self.reason(choice, finish);
        chunks.push(self.part(choice, Delta::default(), Some(reason)));
        chunks
    }

    fn last(&mut self) -> Vec<ChatChunk> {
        let all = Tokens::new(self.prompt, self.generated);
        let Telling { usage, .. } = self.telling;
        let tell = usage.then(|| self.chunk(Vec::new(), Some(all)));
        tell.into_iter().collect()
    }
}
