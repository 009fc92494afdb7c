//! Streaming: a detokeniser gives the text of decoding all ids at once, and stop strings are found however a text is split.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use moebius_text::{Detokenizer, StopStrings, TextStream, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer as Library;

/// The small tokenizers, and one of them with other decoders.
fn tokenizers() -> Vec<(String, Value)> {
    let read = |name: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{name}.json"));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let fixtures = ["byte_level", "byte_fallback", "word_piece"];
    let mut all: Vec<(String, Value)> = fixtures.map(|name| (name.to_owned(), read(name))).into();
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let regex = json!({"type": "Replace", "pattern": {"Regex": "e+|\\s"}, "content": "_"});
    let (bytes, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
    let strip = |start: u8, stop: u8| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    let metaspace = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let sequence = |decoders: &[&Value]| json!({"type": "Sequence", "decoders": decoders});
    let decoders = [
        Value::Null,
        metaspace("always"),
        metaspace("never"),
        json!({"type": "BPEDecoder", "suffix": "e"}),
        json!({"type": "WordPiece", "prefix": "e", "cleanup": true}),
        json!({"type": "CTC", "pad_token": "e", "word_delimiter_token": "▁", "cleanup": true}),
        sequence(&[&replace, &bytes, &fuse]),
        sequence(&[&replace, &bytes, &fuse, &strip(0, 2)]),
        sequence(&[
            &bytes,
            &replace,
            &sequence(&[&strip(1, 0), &fuse]),
            &strip(2, 3),
        ]),
        sequence(&[&bytes, &metaspace("first")]),
        sequence(&[&bytes, &fuse, &metaspace("first"), &strip(1, 1)]),
        sequence(&[&level, &regex]),
        sequence(&[&fuse, &bytes]),
        sequence(&[&regex, &level, &strip(1, 0)]),
        sequence(&[
            &json!({"type": "CTC", "pad_token": "<unk>", "word_delimiter_token": "▁", "cleanup": false}),
            &bytes,
        ]),
        sequence(&[&bytes, &json!({"type": "BPEDecoder", "suffix": "▁"}), &fuse]),
    ];
    for decoder in decoders {
        let mut tokenizer = read("byte_fallback");
        tokenizer["decoder"] = decoder;
        all.push((tokenizer["decoder"].to_string(), tokenizer));
    }
    all
}

fn ours(json: &Value) -> Tokenizer {
    Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap()
}

/// The joined output of a detokeniser. Ids without a token change nothing.
fn streamed(tokenizer: &Tokenizer, ids: &[u32], skip_special: bool) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer, skip_special);
    let mut text = String::new();
    for &id in ids {
        text.push_str(&detokenizer.push(id).unwrap());
    }
    text + &detokenizer.finish().unwrap()
}

/// Ids of all kinds: arbitrary, special, spelling bytes in either vocabulary, and beyond the vocabulary.
fn any_ids() -> impl Strategy<Value = Vec<u32>> {
    let id = prop_oneof![4 => 0_u32..483, 1 => 0_u32..4, 3 => 0_u32..260, 2 => 120_u32..260, 1 => 430_u32..500, 1 => any::<u32>()];
    prop::collection::vec(id, 0..40)
}

#[test]
fn any_ids_stream_as_the_whole_decodes() {
    let all = tokenizers().into_iter().map(|(name, json)| {
        let library: Library = serde_json::from_value(json.clone()).unwrap();
        (name, ours(&json), library)
    });
    let all: Vec<_> = all.collect();
    let compared = Cell::new(0);
    proptest!(|(ids in any_ids(), skip_special: bool)| {
        for (name, tokenizer, library) in &all {
            let text = streamed(tokenizer, &ids, skip_special);
            let known: Vec<u32> = ids.iter().copied().filter(|id| tokenizer.token(*id).is_some()).collect();
            prop_assert_eq!(&text, &tokenizer.decode(&known, skip_special).unwrap(), "{}", name);
            // Some of the library's decoders panic on tokens that are shorter than what they strip, or empty.
            let whole = catch_unwind(AssertUnwindSafe(|| library.decode(&known, skip_special).unwrap()));
            if let Ok(whole) = whole {
                prop_assert_eq!(&text, &whole, "{}", name);
                compared.set(compared.get() + 1);
            }
            prop_assert_eq!(&text, &tokenizer.decode(&ids, skip_special).unwrap(), "{}", name);
        }
    });
    assert!(compared.get() > 256 * 17, "{compared:?} comparisons");
}

/// A character's text is returned with the id that completes it, and not earlier.
#[test]
fn a_character_comes_with_its_last_byte() {
    let tokenizer = ours(&tokenizers()[0].1);
    for text in ["a你b", "👩‍👩‍👧", "é"] {
        let ids = tokenizer.encode(text, false).unwrap();
        let mut detokenizer = Detokenizer::new(&tokenizer, true);
        let mut given = String::new();
        for (i, &id) in ids.iter().enumerate() {
            given += &detokenizer.push(id).unwrap();
            let all = tokenizer.decode(&ids[..=i], true).unwrap();
            assert_eq!(given, all.trim_end_matches('\u{FFFD}'), "{text}");
        }
        assert_eq!(given, text);
        assert_eq!(detokenizer.finish().unwrap(), "");
    }
}

/// With half a million ids, a push that looked back at all of them would take hours.
#[test]
fn some_special_tokens_may_be_shown() {
    let (_, json) = tokenizers().swap_remove(0);
    let tokenizer = ours(&json);
    let ids = tokenizer.encode("<|im_start|>a<|im_end|>", false).unwrap();
    for (shown, expected) in [(&[][..], "a"), (&[2, 300][..], "a<|im_end|>")] {
        let shown = shown.iter().copied();
        let mut text = Detokenizer::new(&tokenizer, true).showing(shown.clone());
        let pieces: String = ids.iter().map(|id| text.push(*id).unwrap()).collect();
        assert_eq!(pieces + &text.finish().unwrap(), expected);
        let stops = StopStrings::new(["|>"]).unwrap();
        let mut answer = TextStream::new(&tokenizer, stops).showing(shown);
        let pieces = ids.iter().map(|id| answer.push(*id).unwrap());
        let stopped = pieces.filter(|piece| piece.stop.is_some()).count();
        assert_eq!(stopped, usize::from(expected.ends_with("|>")));
    }
}

#[test]
fn long_texts_take_no_longer_by_the_id() {
    for (name, json) in &tokenizers()[..3] {
        let tokenizer = ours(json);
        let id = |i: u32| i.wrapping_mul(2_654_435_761) % 200;
        let ids: Vec<u32> = (0..500_000).map(id).collect();
        let text = streamed(&tokenizer, &ids, true);
        assert!(text.len() > 100_000, "{name}");
    }
}

/// The text before the stop string that ends it, and the index of that string: the first to be completed, and the longest of several.
fn naive(text: &str, stops: &[String]) -> (String, Option<usize>) {
    for end in 1..=text.len() {
        let complete = stops
            .iter()
            .enumerate()
            .filter(|(_, stop)| text.as_bytes()[..end].ends_with(stop.as_bytes()));
        // Of equally long ones the first is taken; `max_by_key` alone would take the last.
        if let Some((i, stop)) = complete.rev().max_by_key(|(_, stop)| stop.len()) {
            return (text[..end - stop.len()].to_owned(), Some(i));
        }
    }
    (text.to_owned(), None)
}

/// The length of the longest end of `text` that a stop string starts with.
fn could_become(text: &str, stops: &[String]) -> usize {
    let starts = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
    let mut starts = starts.filter(|at| stops.iter().any(|stop| stop.starts_with(&text[*at..])));
    text.len() - starts.next().unwrap_or(text.len())
}

#[test]
fn arbitrary_texts_stop_where_a_search_stops_them() {
    let letters =
        |most: usize| proptest::collection::vec(prop_oneof!["a", "b", "é", "🙂"], 1..most);
    let stops = proptest::collection::vec(letters(6).prop_map(|letters| letters.concat()), 0..5);
    let pieces = proptest::collection::vec(letters(7).prop_map(|letters| letters.concat()), 0..12);
    proptest!(|(stops in stops, pieces in pieces)| {
        let whole = pieces.concat();
        let (expected, stop) = naive(&whole, &stops);
        let mut search = StopStrings::new(stops.clone()).unwrap();
        let (mut text, mut came, mut found) = (String::new(), String::new(), None);
        for piece in &pieces {
            came.push_str(piece);
            let next = search.push(piece);
            text.push_str(&next.text);
            if found.is_some() {
                prop_assert_eq!(&next.text, "");
            }
            found = next.stop;
            if found.is_none() {
                prop_assert_eq!(came.len() - text.len(), could_become(&came, &stops));
            }
        }
        text.push_str(&search.finish());
        prop_assert_eq!((text, found), (expected, stop));
    });
}

#[test]
fn stop_strings_end_texts() {
    let mut search = StopStrings::new(["\n\n", "</s>", "s>"]).unwrap();
    let next = search.push("one\n");
    assert_eq!((next.text.as_str(), next.stop), ("one", None));
    let next = search.push("two<");
    assert_eq!((next.text.as_str(), next.stop), ("\ntwo", None));
    let next = search.push("/s> and more");
    assert_eq!((next.text.as_str(), next.stop), ("", Some(1)));
    assert_eq!(search.push("more").text, "");
    assert_eq!(search.finish(), "");

    let mut none = StopStrings::new(Vec::<String>::new()).unwrap();
    assert_eq!(none.push("all of it").text, "all of it");
    let error = StopStrings::new(["a", ""]).unwrap_err().to_string();
    assert_eq!(error, "stop string 1: expected a text, got an empty one");
}

/// The first byte of an incomplete character becomes U+FFFD in the rest of the text, which completes a stop string.
#[test]
fn a_stop_string_that_the_rest_completes_ends_the_answer() {
    let json = include_str!("vectors/byte_fallback.json");
    let tokenizer = Tokenizer::from_bytes(json.as_bytes()).unwrap();
    let (letter_a, first_of_three_bytes) = (295, 229);
    for (stop, text, found) in [("\u{FFFD}", "", Some(0)), ("b", "\u{FFFD}", None)] {
        let stops = StopStrings::new([stop]).unwrap();
        let mut stream = TextStream::new(&tokenizer, stops);
        let mut said = stream.push(letter_a).unwrap().text;
        said.push_str(&stream.push(first_of_three_bytes).unwrap().text);
        let rest = stream.finish().unwrap();
        let got = (&said[..], &rest.text[..], rest.stop);
        assert_eq!(got, ("a", text, found));
        assert_eq!(stream.finish().unwrap().text, "");
    }
}
