//! The messages of a conversation, and the model that answers.

use moebius_engine::{Engine, Generation, Sampling};
use moebius_text::{Chat, ChatTemplate, Message, Tokenizer};

use super::interrupt::{self, Answering};
use crate::error::CliError;
use crate::published::{Answer, AnswerStream};
use crate::screen::Screen;

/// A model with all that was said.
pub(super) struct Conversation<'a> {
    /// Keeps the keys and values of what was said: a message costs its own tokens only.
    pub(super) engine: Engine,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) template: &'a ChatTemplate,
    pub(super) sampling: Sampling,
    /// Texts that end an answer.
    pub(super) stops: &'a [String],
    /// Tokens of the conversation at most.
    pub(super) context: usize,
    /// Tokens of an answer at most.
    pub(super) most_new: usize,
    pub(super) system: Option<String>,
    /// A message of the user and an answer in turns: role and text.
    pub(super) messages: Vec<(&'static str, String)>,
}

/// An answer, and of how many tokens it came.
pub(super) struct Turn {
    pub(super) answer: Answer,
    pub(super) prompt: usize,
}

impl Conversation<'_> {
    /// Answers `text`, shows the answer and keeps both; on an error neither.
    pub(super) fn ask(&mut self, text: &str, screen: &mut Screen) -> Result<Turn, CliError> {
        self.messages.push(("user", text.to_owned()));
        let turn = self.answer(screen);
        match &turn {
            Ok(turn) => {
                let text = turn.answer.text.clone();
                self.messages.push(("assistant", text));
            }
            Err(_) => {
                self.messages.pop();
            }
        }
        turn
    }

    /// Forgets the last message and its answer; the message, if there was one.
    pub(super) fn undo(&mut self) -> Option<String> {
        self.messages.pop()?;
        self.messages.pop().map(|(_, text)| text)
    }

    fn answer(&mut self, screen: &mut Screen) -> Result<Turn, CliError> {
        let ids = self.ids()?;
        let prompt = ids.len();
        let left = self.context.saturating_sub(prompt);
        if left == 0 {
            let message = format!(
                "the conversation has {prompt} tokens and leaves no room for an answer within {}: /undo and /clear make room, --context gives more",
                self.context
            );
            return Err(CliError::usage(message, None));
        }
        let generation = Generation::new(ids, self.most_new.min(left))
            .with_sampling(self.sampling.clone())
            .with_ends(self.tokenizer.eos_ids().iter().copied());
        let stream = AnswerStream::new(self.tokenizer, self.stops)?;
        let answering = Answering::begin();
        let answer = stream.follow(&mut self.engine, generation, &interrupt::came, screen);
        drop(answering);
        Ok(Turn {
            answer: answer?,
            prompt,
        })
    }

    fn ids(&self) -> Result<Vec<u32>, CliError> {
        let system = self.system.iter().map(|text| ("system", text));
        let said = self.messages.iter().map(|(role, text)| (*role, text));
        let messages = system.chain(said);
        let messages = messages.map(|(role, text)| Message::new(role, text.as_str()));
        let chat = Chat::new(messages).with_generation_prompt(true);
        // A template writes the special tokens itself.
        Ok(self
            .tokenizer
            .encode(&self.template.render(&chat)?, false)?)
    }
}
