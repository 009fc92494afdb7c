//! Names of special tokens that stand for their characters. A mark, a character that no text has, is put into each name, so that a tokenizer
//! doesn't find the name, and is taken out again before the text is cut into tokens.

use std::collections::HashMap;

use crate::Error;

/// First and last of the characters that Unicode reserves for such a use (noncharacters).
const MARKS: [char; 2] = ['\u{FDD0}', '\u{FDEF}'];

/// Whether a character may be a mark.
pub(crate) fn is_mark(character: char) -> bool {
    (MARKS[0]..=MARKS[1]).contains(&character)
}

/// A mark that `text` doesn't contain.
pub(crate) fn unused(text: &str) -> Result<char, Error> {
    let mut marks = MARKS[0]..=MARKS[1];
    let mark = marks.find(|mark| !text.contains(*mark));
    mark.ok_or_else(|| {
        let message = "expected a text without some of the characters U+FDD0 to U+FDEF, got all";
        Error::Encode(message.to_owned())
    })
}

/// Names of special tokens, by their first characters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<char, Vec<String>>);

impl Names {
    /// A name of one character has no place for a mark, and is left out.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut by_first: HashMap<char, Vec<String>> = HashMap::new();
        for name in names {
            let mut characters = name.chars();
            if let (Some(first), Some(_)) = (characters.next(), characters.next()) {
                by_first.entry(first).or_default().push(name);
            }
        }
        Self(by_first)
    }

    /// The text with a mark after the first character of each name, and of each start of a name at the text's end, which another text may
    /// complete; `None` if there are none.
    pub(crate) fn marked(&self, text: &str, mark: char) -> Option<String> {
        let mut marked = String::new();
        let mut done = 0;
        for (at, first) in text.char_indices() {
            let rest = &text[at..];
            let begins = |name: &String| rest.starts_with(name.as_str()) || name.starts_with(rest);
            let names = self.0.get(&first);
            if names.is_some_and(|names| names.iter().any(begins)) {
                let end = at + first.len_utf8();
                marked.push_str(&text[done..end]);
                marked.push(mark);
                done = end;
            }
        }
        (done > 0).then(|| marked + &text[done..])
    }
}

/// Whether a token's text has the form of a control token, as some files list them without saying that they are special.
pub(crate) fn looks_special(token: &str) -> bool {
    let within = |open: &str, close: &str| {
        let inner = token.strip_prefix(open);
        inner.is_some_and(|inner| inner.ends_with(close))
    };
    within("<|", "|>") || within("<｜", "｜>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_marks_wherever_they_begin() {
        let names = ["<|end|>", "<|end|><s>", "<s>", "é", "\u{1F600}x"];
        let names = Names::new(names.map(str::to_owned));
        for (text, expected) in [
            ("", None),
            ("<end> s> é", None),
            ("a<|end|>b", Some("a<.|end|>b")),
            ("<|end|><s>", Some("<.|end|><.s>")),
            ("<<s>", Some("<<.s>")),
            ("ends in <|en", Some("ends in <.|en")),
            ("ends in <", Some("ends in <.")),
            ("\u{1F600}x\u{1F600}", Some("\u{1F600}.x\u{1F600}.")),
        ] {
            assert_eq!(names.marked(text, '.').as_deref(), expected, "{text}");
        }
        assert_eq!(Names::default().marked("<s>", '.'), None);
    }

    #[test]
    fn a_mark_is_a_character_that_the_text_lacks() {
        assert_eq!(unused("<s>").unwrap(), '\u{FDD0}');
        assert_eq!(unused("\u{FDD1}\u{FDD0}").unwrap(), '\u{FDD2}');
        let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
        assert!(matches!(unused(&all), Err(Error::Encode(_))));
        assert!(all.chars().all(is_mark) && !is_mark('\u{FDF0}') && !is_mark('\u{FDCF}'));
    }

    #[test]
    fn control_tokens_are_told_by_their_brackets() {
        assert!(looks_special("<|im_end|>") && looks_special("<｜User｜>"));
        let others = ["<think>", "<|", "|>", "    ", "<|a|> ", "<|>"];
        assert!(!others.iter().any(|token| looks_special(token)));
    }
}
