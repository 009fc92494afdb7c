//! What the answers to a conversation are held to, and how they are read.

use std::slice;
use std::sync::Arc;

use moebius_grammar::{Grammar, Part};
use moebius_text::Tokenizer;

use super::calls::{Choice, Format, Tool};
use super::reading::{self, Reader};
use crate::asked::Plan;
use crate::error::ApiError;
use crate::service::Service;

/// What the answers to a conversation are held to.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The schema of an answer in JSON, and the name of the field that asks for it.
    schema: Option<(&'static str, String)>,
    tools: Vec<Tool>,
    choice: Choice,
    /// Whether an answer may call several functions.
    several: bool,
    /// How the model's family writes answers, if they have other parts than text.
    format: Option<Format>,
}

impl Wanted {
    /// Answers without tools: in JSON by a schema that the field `param` asks for, or any.
    pub(super) fn text(service: &Service, param: &'static str, schema: Option<String>) -> Self {
        let format = Self::format(service);
        Self {
            schema: schema.map(|schema| (param, schema)),
            tools: Vec::new(),
            choice: Choice::None,
            several: false,
            format: format.filter(|format| *format == Format::Harmony),
        }
    }

    /// These answers, which may call tools, or several of them at once, or must.
    ///
    /// # Errors
    /// 400 for calls that must be, of a model whose family writes them in a way that isn't known.
    pub(super) fn with_tools(
        self,
        service: &Service,
        (tools, choice): (Vec<Tool>, Choice),
        several: bool,
    ) -> Result<Self, ApiError> {
        if tools.is_empty() {
            return Ok(self);
        }
        let format = Self::format(service);
        if matches!(choice, Choice::Required | Choice::One(_)) && format.is_none() {
            let why = "expected a model whose way to write calls of tools is known, got another";
            return Err(ApiError::unsupported_here("tool_choice", why));
        }
        Ok(Self {
            tools,
            choice,
            several,
            format,
            ..self
        })
    }

    /// How the model's family writes calls of tools, if that is known.
    fn format(service: &Service) -> Option<Format> {
        service.text.template.as_ref().and_then(Format::of)
    }

    /// The plan for answers that are read so: with their marks, which may be special tokens, up to those that end them.
    pub(super) fn marked(&self, plan: Plan, tokenizer: &Tokenizer) -> Plan {
        let ends = self.format.into_iter().flat_map(Format::ends);
        let ends = ends.filter_map(|mark| tokenizer.id(mark));
        plan.with_marks(reading::shown(self.format, tokenizer), ends)
    }

    /// The beginning of an answer to a prompt.
    pub(super) fn reader(&self, prompt: &[u32], tokenizer: &Tokenizer) -> Reader {
        Reader::new(self.format, &self.tools, prompt, tokenizer)
    }

    /// Whether an answer may call several functions.
    pub(super) fn several(&self) -> bool {
        self.several
    }

    /// The grammar of the answers that `reader` reads; `None` for any answer.
    ///
    /// # Errors
    /// As [`Service::grammar`].
    pub(super) async fn grammar(
        &self,
        service: &Arc<Service>,
        reader: &Reader,
    ) -> Result<Option<Grammar>, ApiError> {
        match self.parts(reader) {
            Some((param, parts)) => service.grammar(param, parts).await.map(Some),
            None => Ok(None),
        }
    }

    /// The parts of an answer, and the field that asks for them; `None` for any answer.
    fn parts(&self, reader: &Reader) -> Option<(&'static str, Vec<Part>)> {
        let must = |tools: &[Tool], several: bool| {
            let calls = self.format?.parts(tools, several);
            Some(("tools", reader.after_reasoning(calls)))
        };
        match &self.choice {
            Choice::Required => must(&self.tools, self.several),
            Choice::One(tool) => must(slice::from_ref(tool), false),
            Choice::None | Choice::Auto => {
                let (param, schema) = self.schema.clone()?;
                let calls = self.format.filter(|_| !self.tools.is_empty());
                let calls = calls.map(|format| format.parts(&self.tools, self.several));
                Some((param, reader.json(schema, calls)))
            }
        }
    }
}
