//! Reads answers as the templates of their models have them written: reasoning, answer and calls of tools.

use moebius_grammar::Part;
use moebius_text::Tokenizer;

use super::calls::{Channels, Format, Marked, Tool};
use super::reasoning::{self, Reasoning};
use super::told::Told;

/// Tells the parts of an answer apart, in a text that comes in pieces.
#[derive(Clone, Debug)]
pub(super) enum Reader {
    /// Reasoning between its marks, and then the answer with its calls.
    Marks(Reasoning, Option<Marked>),
    /// Messages in channels.
    Channels(Channels),
}

impl Reader {
    /// The beginning of an answer to a prompt, whose calls of these tools are written in `format`.
    pub(super) fn new(
        format: Option<Format>,
        tools: &[Tool],
        prompt: &[u32],
        tokenizer: &Tokenizer,
    ) -> Self {
        if format == Some(Format::Harmony) {
            return Self::Channels(Channels::new());
        }
        let marked = format.filter(|_| !tools.is_empty());
        let marked = marked.map(|format| Marked::new(format, tools.to_vec()));
        Self::Marks(Reasoning::after(prompt, tokenizer), marked)
    }

    /// Takes the next piece, and returns what is sure now.
    pub(super) fn push(&mut self, text: &str) -> Told {
        match self {
            Self::Channels(channels) => channels.push(text),
            Self::Marks(reasoning, None) => reasoning.push(text),
            Self::Marks(reasoning, Some(marked)) => {
                let told = reasoning.push(text);
                Told {
                    reasoning: told.reasoning,
                    ..marked.push(&told.answer)
                }
            }
        }
    }

    /// Returns what was held back, at the end of the text.
    pub(super) fn finish(&mut self) -> Told {
        match self {
            Self::Channels(channels) => channels.finish(),
            Self::Marks(reasoning, None) => reasoning.finish(),
            Self::Marks(reasoning, Some(marked)) => {
                let told = reasoning.finish();
                let (mut all, rest) = (marked.push(&told.answer), marked.finish());
                all.reasoning = told.reasoning;
                all.answer.push_str(&rest.answer);
                all.calls.extend(rest.calls);
                all
            }
        }
    }

    /// Takes the last piece, and returns all that is left.
    pub(super) fn end(&mut self, text: &str) -> [Told; 2] {
        [self.push(text), self.finish()]
    }

    /// The parts of an answer in JSON by this schema, with the reasoning that may come before; or, in place of the answer, of calls.
    pub(super) fn json(&self, schema: String, calls: Option<Vec<Part>>) -> Vec<Part> {
        let answer = Part::Json(schema);
        let answer = match self {
            Self::Marks(..) => vec![answer],
            Self::Channels(_) => Channels::answer(answer),
        };
        let either = match calls {
            Some(calls) => vec![Part::OneOf(vec![answer, calls])],
            None => answer,
        };
        self.after_reasoning(either)
    }

    /// These parts after the reasoning that may come before, in formats whose parts don't have it.
    pub(super) fn after_reasoning(&self, parts: Vec<Part>) -> Vec<Part> {
        match self {
            Self::Marks(reasoning, _) => reasoning.parts().into_iter().chain(parts).collect(),
            Self::Channels(_) => parts,
        }
    }
}

/// Ids of the special tokens that answers must be read with.
pub(super) fn shown(format: Option<Format>, tokenizer: &Tokenizer) -> Vec<u32> {
    let marks = format.into_iter().flat_map(Format::marks);
    let marks = marks.chain(&reasoning::MARKS);
    marks.filter_map(|mark| tokenizer.id(mark)).collect()
}
