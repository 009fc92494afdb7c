//! Vocabularies that are learnt from a text.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use moebius_text::{Error, Tokenizer};

const TEXT: &str = "the whale, the white whale; the sea and the whaler and the whaling";

fn learnt(size: usize) -> Vec<u8> {
    Tokenizer::learn(TEXT, size, "<|end|>").unwrap()
}

#[test]
fn what_the_text_repeats_becomes_one_token() {
    let tokenizer = Tokenizer::from_bytes(&learnt(270)).unwrap();
    assert_eq!(tokenizer.vocabulary_size(), 270);
    assert_eq!(tokenizer.id("<|end|>"), Some(0));
    assert!(tokenizer.is_special(0));
    // The text has " the" or "the" seven times, and "whal" in five words.
    let ids = tokenizer.encode("and the whal", false).unwrap();
    let tokens: Vec<_> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
    assert!(tokens.contains(&"Ġthe".to_owned()), "{tokens:?}");
    assert!(ids.len() < "and the whal".len() / 2, "{tokens:?}");
}

#[test]
fn every_text_comes_back() {
    let tokenizer = Tokenizer::from_bytes(&learnt(270)).unwrap();
    for text in [
        TEXT,
        "",
        "  two  spaces\n\n",
        "żółw 鯨 🐳\u{0}\t",
        "<|end|>",
    ] {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    }
}

#[test]
fn the_same_text_gives_the_same_vocabulary() {
    assert_eq!(learnt(270), learnt(270));
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (size, expected) in [(0, "more than 256"), (256, "more than 256"), (5000, "5000")] {
        let refused = Tokenizer::learn(TEXT, size, "<|end|>").unwrap_err();
        assert!(matches!(refused, Error::Unfit(_)));
        let message = refused.to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("tokens of a vocabulary"), "{message}");
    }
}
