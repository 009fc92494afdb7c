//! Decoding of tokens that spell bytes: each character is a byte (`ByteLevel`), or each token (`ByteFallback`).

/// A decoder of UTF-8 in pieces, which gives the same text as `String::from_utf8_lossy` of the whole.
#[derive(Clone, Default)]
struct Utf8 {
    /// The start of an incomplete character, at most three bytes.
    held: Vec<u8>,
}

impl Utf8 {
    /// Appends to `text` the characters that are complete, and U+FFFD for bytes that can't become valid any more.
    fn push(&mut self, bytes: &[u8], text: &mut String) {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            // Only an incomplete character at the end may still become valid; all other invalid bytes are replaced.
            let wrong = std::str::from_utf8(chunk.invalid()).err();
            match wrong.map(|wrong| wrong.error_len()) {
                Some(None) if chunks.peek().is_none() => self.held = chunk.invalid().to_vec(),
                Some(_) => text.push(char::REPLACEMENT_CHARACTER),
                None => {}
            }
        }
    }

    fn finish(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.held).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// The stage `ByteLevel`.
#[derive(Clone, Default)]
pub(super) struct ByteLevel(Utf8);

impl ByteLevel {
    pub(super) fn push(&mut self, token: &str, next: &mut Vec<String>) {
        let mut text = String::new();
        self.0.push(&of_characters(token), &mut text);
        next.push(text);
    }

    pub(super) fn finish(&mut self, next: &mut Vec<String>) {
        let mut text = String::new();
        self.0.finish(&mut text);
        next.push(text);
    }
}

/// The bytes of a token whose characters each stand for one. Tokens added by hand may have other characters, and stand for themselves.
pub(super) fn of_characters(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(byte).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte that a character stands for in byte-level vocabularies: a printable character of Latin-1 for its own, and the characters from
/// U+0100 on for the other 68 bytes, in order.
fn byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        33..=126 | 161..=172 | 174..=255 => u8::try_from(code).ok(),
        256..=288 => u8::try_from(code - 256).ok(),
        289..=322 => u8::try_from(code - 289 + 127).ok(),
        323 => Some(173),
        _ => None,
    }
}

/// The stage `ByteFallback`: a run of tokens like `<0xE5>` becomes text if its bytes are valid, and else one U+FFFD per token.
#[derive(Clone, Default)]
pub(super) struct ByteRun {
    bytes: Vec<u8>,
}

impl ByteRun {
    pub(super) fn push(&mut self, token: String, next: &mut Vec<String>) {
        match spelled(&token) {
            Some(byte) => self.bytes.push(byte),
            None => {
                self.end(next);
                next.push(token);
            }
        }
    }

    pub(super) fn end(&mut self, next: &mut Vec<String>) {
        if self.bytes.is_empty() {
            return;
        }
        match String::from_utf8(std::mem::take(&mut self.bytes)) {
            Ok(text) => next.push(text),
            Err(error) => {
                let replaced = error.as_bytes().iter().map(|_| "\u{FFFD}".to_owned());
                next.extend(replaced);
            }
        }
    }
}

/// The byte that a token like `<0xE5>` spells.
pub(super) fn spelled(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let digits = (digits.len() == 2).then_some(digits)?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut seen = [false; 256];
        for code in 0..=400 {
            let Some(byte) = char::from_u32(code).and_then(byte) else {
                continue;
            };
            assert!(!std::mem::replace(&mut seen[usize::from(byte)], true));
        }
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!(byte('Ġ'), Some(b' '));
        assert_eq!(byte('Ċ'), Some(b'\n'));
    }

    /// Checks all strings of up to four bytes from these classes: pieces of any length give the text of the whole.
    #[test]
    fn pieces_make_the_text_of_the_whole() {
        let classes = [
            b'a', 0x80, 0xBF, 0xC2, 0xE0, 0xE4, 0xED, 0xF0, 0xF4, 0xA0, 0xFF, 0x9F,
        ];
        let mut strings: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..4 {
            let longer = strings.iter().flat_map(|string| {
                classes
                    .iter()
                    .map(move |&byte| [&string[..], &[byte]].concat())
            });
            strings = longer.collect();
            for string in &strings {
                for length in 1..=string.len() {
                    let (mut utf8, mut text) = (Utf8::default(), String::new());
                    for piece in string.chunks(length) {
                        utf8.push(piece, &mut text);
                        assert!(utf8.held.len() < 4);
                    }
                    utf8.finish(&mut text);
                    assert_eq!(
                        text,
                        String::from_utf8_lossy(string),
                        "{string:x?} by {length}"
                    );
                }
            }
        }
    }
}
