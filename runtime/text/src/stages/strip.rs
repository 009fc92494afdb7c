//! The stage `Strip`: up to so many of one character are taken from the start of a token, and from its end.

use tokenizers::decoders::strip::Strip;

/// Of each token.
#[derive(Clone)]
pub(super) struct StripEach {
    content: char,
    start: usize,
    stop: usize,
}

impl StripEach {
    pub(super) fn new(strip: &Strip) -> Self {
        Self {
            content: strip.content,
            start: strip.start,
            stop: strip.stop,
        }
    }

    pub(super) fn strip(&self, token: &str) -> String {
        let mut whole = StripWhole {
            each: self.clone(),
            stripping: true,
            taken: 0,
            held: 0,
        };
        whole.push(token)
    }
}

/// Of one token that comes in pieces.
#[derive(Clone)]
pub(super) struct StripWhole {
    each: StripEach,
    /// Whether all that came so far was taken from the start.
    stripping: bool,
    taken: usize,
    /// How many of the character are held back, because the token may end with them.
    held: usize,
}

impl StripWhole {
    pub(super) fn new(strip: &Strip) -> Self {
        Self {
            each: StripEach::new(strip),
            stripping: true,
            taken: 0,
            held: 0,
        }
    }

    /// What of the pieces so far is sure to stay; what is held back at the end is gone.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let StripEach {
            content,
            start,
            stop,
        } = self.each;
        let mut text = String::new();
        for character in piece.chars() {
            if self.stripping && self.taken < start && character == content {
                self.taken += 1;
                continue;
            }
            self.stripping = false;
            if character == content && self.held < stop {
                self.held += 1;
                continue;
            }
            if character != content {
                text.extend(std::iter::repeat_n(content, std::mem::take(&mut self.held)));
            }
            text.push(character);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_stripped_however_the_token_comes() {
        for (token, start, stop, expected) in [
            ("  a  ", 1, 1, " a "),
            ("  a   ", 3, 2, "a "),
            ("a", 1, 1, "a"),
            (" ", 1, 1, ""),
            ("   ", 1, 1, " "),
            ("", 2, 2, ""),
            (" a b ", 0, 5, " a b"),
        ] {
            let strip = Strip::new(' ', start, stop);
            assert_eq!(StripEach::new(&strip).strip(token), expected, "{token:?}");
            let mut whole = StripWhole::new(&strip);
            let pieces = token.chars().map(|c| whole.push(&c.to_string()));
            assert_eq!(pieces.collect::<String>(), expected, "{token:?}");
        }
    }
}
