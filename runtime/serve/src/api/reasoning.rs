//! Reasoning before an answer, told apart from it: the text between `<think>` and `</think>`, as many models write it.

use moebius_grammar::Part;
use moebius_text::Tokenizer;

use super::told::{Told, begun_at_end};

/// Marks around the reasoning.
const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
pub(super) const MARKS: [&str; 2] = [OPEN, CLOSE];

/// Tokens at the end of a prompt in which the mark is searched, as templates write line ends after it.
const LAST: usize = 4;

/// Tells reasoning and answer apart, in a text that comes in pieces.
#[derive(Clone, Debug)]
pub(super) struct Reasoning {
    place: Place,
    /// Text that may be the beginning of a mark.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first character that isn't a space.
    Start,
    /// Within the reasoning.
    Reasoning,
    /// In the answer.
    Answer,
}

impl Reasoning {
    /// The beginning of an answer to a prompt. Without the marks in its vocabulary, a model writes no reasoning, and with the first one at
    /// the prompt's end it begins with it.
    pub(super) fn after(prompt: &[u32], tokenizer: &Tokenizer) -> Self {
        let knows = [OPEN, CLOSE].map(|mark| tokenizer.id(mark).is_some());
        let last = &prompt[prompt.len().saturating_sub(LAST)..];
        // A text that can't be decoded has no mark.
        let last = tokenizer.decode(last, false).unwrap_or_default();
        let place = match knows {
            [true, true] if last.trim_end().ends_with(OPEN) => Place::Reasoning,
            [true, true] => Place::Start,
            _ => Place::Answer,
        };
        Self {
            place,
            held: String::new(),
        }
    }

    /// The parts of a text that may come before the answer.
    pub(super) fn parts(&self) -> Vec<Part> {
        let ends = [Part::Through(CLOSE.to_owned()), Part::Space];
        match self.place {
            Place::Reasoning => ends.into(),
            Place::Start => {
                let begins = [Part::Text(OPEN.to_owned())];
                vec![Part::Maybe(begins.into_iter().chain(ends).collect())]
            }
            Place::Answer => Vec::new(),
        }
    }

    /// Takes the next piece, and returns what is sure now.
    pub(super) fn push(&mut self, text: &str) -> Told {
        self.held.push_str(text);
        let mut told = Told::default();
        if self.place == Place::Start {
            let begun = self.held.trim_start();
            if let Some(rest) = begun.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.place = Place::Reasoning;
            } else if OPEN.starts_with(begun) {
                return told;
            } else {
                self.place = Place::Answer;
            }
        }
        if self.place == Place::Reasoning {
            if let Some((before, after)) = self.held.split_once(CLOSE) {
                told.reasoning = before.to_owned();
                self.held = after.to_owned();
                self.place = Place::Answer;
            } else {
                let sure = self.held.len() - begun_at_end(&self.held, &[CLOSE]);
                let held = self.held.split_off(sure);
                told.reasoning = std::mem::replace(&mut self.held, held);
                return told;
            }
        }
        told.answer = std::mem::take(&mut self.held);
        told
    }

    /// Returns what was held back, at the end of the text.
    pub(super) fn finish(&mut self) -> Told {
        let held = std::mem::take(&mut self.held);
        match self.place {
            Place::Reasoning => Told {
                reasoning: held,
                ..Told::default()
            },
            Place::Start | Place::Answer => Told {
                answer: held,
                ..Told::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a text that comes in pieces of a length.
    fn told(place: Place, text: &str, length: usize) -> [String; 2] {
        let held = String::new();
        let mut reasoning = Reasoning { place, held };
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(length).map(String::from_iter);
        let mut parts: Vec<Told> = pieces.map(|piece| reasoning.push(&piece)).collect();
        parts.push(reasoning.finish());
        let all = |part: fn(&Told) -> &str| parts.iter().map(part).collect();
        [all(|told| &told.reasoning), all(|told| &told.answer)]
    }

    #[test]
    fn pieces_of_any_length_give_the_same() {
        for (place, text, expected) in [
            (
                Place::Start,
                "\n<think>\nä </th </think>\n\nyes",
                ["\nä </th ", "\n\nyes"],
            ),
            (Place::Start, "<thin ice", ["", "<thin ice"]),
            (
                Place::Start,
                "no <think>a</think>",
                ["", "no <think>a</think>"],
            ),
            (
                Place::Start,
                "<think>never done </thi",
                ["never done </thi", ""],
            ),
            (Place::Start, "  ", ["", "  "]),
            (Place::Reasoning, "a</think>b</think>c", ["a", "b</think>c"]),
            (Place::Answer, "a</think>b", ["", "a</think>b"]),
        ] {
            for length in 1..=text.len() {
                assert_eq!(told(place, text, length), expected, "{text} by {length}");
            }
        }
    }

    #[test]
    fn models_without_marks_write_answers_alone() {
        let tokenizer = |words: &[&str]| {
            let ids = words
                .iter()
                .zip(0..)
                .map(|(word, id)| (word.to_string(), id));
            let vocabulary: std::collections::BTreeMap<String, u32> = ids.collect();
            let json = serde_json::json!({
                "version": "1.0",
                "added_tokens": [],
                "pre_tokenizer": { "type": "WhitespaceSplit" },
                "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "a" },
            });
            Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap()
        };
        let with = tokenizer(&["a", OPEN, CLOSE]);
        assert_eq!(Reasoning::after(&[0, 0], &with).place, Place::Start);
        assert_eq!(Reasoning::after(&[0, 1], &with).place, Place::Reasoning);
        assert_eq!(Reasoning::after(&[], &with).place, Place::Start);
        let without = tokenizer(&["a", "b"]);
        assert_eq!(Reasoning::after(&[0, 1], &without).place, Place::Answer);

        let closed = [Part::Through(CLOSE.to_owned()), Part::Space];
        assert_eq!(Reasoning::after(&[0, 1], &with).parts(), closed);
        let [through, space] = closed;
        let marked = vec![Part::Text(OPEN.to_owned()), through, space];
        let maybe = [Part::Maybe(marked)];
        assert_eq!(Reasoning::after(&[0, 0], &with).parts(), maybe);
        assert!(Reasoning::after(&[0], &without).parts().is_empty());
    }
}
