//! Answers of gpt-oss: messages in channels for reasoning, for calls of tools and for the answer (the format "harmony").

use moebius_grammar::Part;

use super::text;
use crate::api::told::{Call, Told, begun_at_end};

pub(super) const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";
const START: &str = "<|start|>";
const END: &str = "<|end|>";
/// Mark behind a call, which also ends an answer.
pub(super) const CALL: &str = "<|call|>";
const RETURN: &str = "<|return|>";

/// All marks.
pub(super) const MARKS: [&str; 7] = [CHANNEL, MESSAGE, CONSTRAIN, START, END, CALL, RETURN];

/// Marks that end a message; a model may leave them out before those that begin one.
const ENDS: [&str; 5] = [END, CALL, RETURN, START, CHANNEL];

/// Author of answers.
const AUTHOR: &str = "assistant";

/// What names a tool in the head of a message.
const TO: &str = "to=functions.";

/// Name of the channel for reasoning.
const ANALYSIS: &str = "analysis";

/// Tells the messages of an answer apart, in a text that comes in pieces.
#[derive(Clone, Debug)]
pub(in crate::api) struct Channels {
    place: Place,
    /// Text that isn't sure yet.
    held: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Before the text of a message.
    Head,
    Reasoning,
    Answer,
    /// In the arguments of a call of this tool.
    Call(String),
}

impl Channels {
    /// The beginning of an answer.
    pub(in crate::api) fn new() -> Self {
        Self {
            place: Place::Head,
            held: String::new(),
        }
    }

    /// Takes the next piece, and returns what is sure now.
    pub(in crate::api) fn push(&mut self, text: &str) -> Told {
        self.held.push_str(text);
        let mut told = Told::default();
        while self.advance(&mut told) {}
        told
    }

    /// Returns what was held back, at the end of the text. A head without a text says nothing.
    pub(in crate::api) fn finish(&mut self) -> Told {
        let (mut told, held) = (Told::default(), std::mem::take(&mut self.held));
        self.say(&held, true, &mut told);
        self.place = Place::Head;
        told
    }

    /// Takes what is sure of the held text; returns whether there may be more.
    fn advance(&mut self, told: &mut Told) -> bool {
        if self.place == Place::Head {
            if let Some((head, rest)) = self.held.split_once(MESSAGE) {
                self.place = place(head);
                self.held = rest.to_owned();
            } else if may_be_head(&self.held) {
                return false;
            } else {
                // A model that writes no messages still answers.
                self.place = Place::Answer;
            }
            return true;
        }
        let held = std::mem::take(&mut self.held);
        let ends = ENDS
            .iter()
            .filter_map(|mark| Some((held.find(mark)?, *mark)));
        if let Some((at, mark)) = ends.min() {
            self.say(&held[..at], true, told);
            // These two belong to the next head.
            let rest = if [START, CHANNEL].contains(&mark) {
                at
            } else {
                at + mark.len()
            };
            self.held = held[rest..].to_owned();
            self.place = Place::Head;
            return true;
        }
        let mut sure = held.len() - begun_at_end(&held, &ENDS);
        if matches!(self.place, Place::Call(_)) {
            sure = 0;
        }
        self.say(&held[..sure], false, told);
        self.held = held[sure..].to_owned();
        false
    }

    /// Tells a piece of a message's text, the last one if it `ends`.
    fn say(&self, text: &str, ends: bool, told: &mut Told) {
        match &self.place {
            Place::Head => {}
            Place::Reasoning => told.reasoning.push_str(text),
            Place::Answer => told.answer.push_str(text),
            Place::Call(name) if ends => told.calls.push(Call {
                name: name.clone(),
                arguments: text.trim().to_owned(),
            }),
            Place::Call(_) => {}
        }
    }
}

/// What a message is for, by its head.
fn place(head: &str) -> Place {
    let word = |text: &str| {
        let end = text.find(|c: char| c.is_whitespace() || c == '<');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    if let Some((_, to)) = head.split_once(TO) {
        return Place::Call(word(to));
    }
    let channel = head.split_once(CHANNEL);
    match channel.map(|(_, channel)| word(channel)).as_deref() {
        Some(ANALYSIS) => Place::Reasoning,
        _ => Place::Answer,
    }
}

/// Whether a text is the beginning of a message's head, or may become one.
fn may_be_head(text: &str) -> bool {
    let text = text.trim_start();
    let begins = |known: &str| text.starts_with(known) || known.starts_with(text);
    MARKS.iter().any(|mark| begins(mark)) || begins(AUTHOR) || begins("to=")
}

/// The parts of an answer's reasoning, which may be left out, up to the author of the next message.
pub(super) fn reasoning() -> Part {
    Part::Maybe(vec![
        text(CHANNEL),
        text(ANALYSIS),
        text(MESSAGE),
        Part::Through(END.to_owned()),
        text(START),
        text(AUTHOR),
    ])
}

/// The parts of a message with a call of the tool `name`.
pub(super) fn call(name: &str, arguments: Part) -> Vec<Part> {
    vec![
        text(CHANNEL),
        text(&format!("commentary {TO}{name} ")),
        text(CONSTRAIN),
        text("json"),
        text(MESSAGE),
        arguments,
    ]
}

impl Channels {
    /// The parts of an answer that is `answer`, after reasoning or without.
    pub(in crate::api) fn answer(answer: Part) -> Vec<Part> {
        vec![
            reasoning(),
            text(CHANNEL),
            text("final"),
            text(MESSAGE),
            answer,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: [&str; 2], calls: &[&str]) {
        let characters: Vec<char> = text.chars().collect();
        for length in 1..=characters.len() {
            let mut channels = Channels::new();
            let pieces = characters.chunks(length).map(String::from_iter);
            let mut parts: Vec<Told> = pieces.map(|piece| channels.push(&piece)).collect();
            parts.push(channels.finish());
            let all = |part: fn(&Told) -> &str| parts.iter().map(part).collect::<String>();
            let said = [all(|told| &told.reasoning), all(|told| &told.answer)];
            assert_eq!(said, expected, "{text} by {length}");
            let made = parts.iter().flat_map(|told| &told.calls);
            let made = made.map(|call| format!("{}({})", call.name, call.arguments));
            assert_eq!(made.collect::<Vec<_>>(), calls, "{text} by {length}");
        }
    }

    #[test]
    fn messages_are_told_by_their_channels() {
        let thinks = "<|channel|>analysis<|message|>It <is> ä.<|end|>";
        let answer = "<|start|>assistant<|channel|>final<|message|>No.<|return|>";
        check(&format!("{thinks}{answer}"), ["It <is> ä.", "No."], &[]);
        let call = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|> {\"a\": 1}\n<|call|>";
        let made = "f({\"a\": 1})";
        check(&format!("{thinks}{call}"), ["It <is> ä.", ""], &[made]);
        // The name may come before the channel, and the end of the answer in place of the last mark.
        let other = " to=functions.f-2<|channel|>commentary json<|message|>{}";
        check(other, ["", ""], &["f-2({})"]);
        let preamble = "<|channel|>commentary<|message|>First.<|end|>";
        check(&format!("{preamble}{call}"), ["", "First."], &[made]);
        check("<|message|>Plain.", ["", "Plain."], &[]);
        check("Neither <|mark|> nor", ["", "Neither <|mark|> nor"], &[]);
        check(
            "<|channel|>analysis<|message|>cut <|e",
            ["cut <|e", ""],
            &[],
        );
        check("<|channel|>fin", ["", ""], &[]);
        // A model may forget the end of a message.
        let forgets = "<|channel|>analysis<|message|>a<|channel|>final<|message|>b";
        check(forgets, ["a", "b"], &[]);
    }
}
