//! Files from any source give a tokenizer or an error, and never a panic that leaves the library.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod any_bytes;

use std::path::Path;

use any_bytes::{any_model, any_template, any_tokenizer};
use moebius_text::{Files, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{name}.json"));
    std::fs::read(path).unwrap()
}

#[test]
fn every_truncation_is_refused() {
    // The file ends with a brace, without which it isn't valid JSON.
    let bytes = fixture("word_piece");
    for length in (0..bytes.len()).rev().step_by(7) {
        let error = any_tokenizer(&bytes[..length]).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: expected"), "{error}");
    }
}

#[test]
fn arbitrary_bytes_are_read_or_refused() {
    proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..200))| {
        let _ = any_tokenizer(&bytes);
        let _ = any_model(&bytes);
        any_template(&String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn arbitrary_changes_are_read_or_refused() {
    let files = ["byte_level", "byte_fallback", "word_piece"].map(fixture);
    proptest!(|(file in 0_usize..3, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4))| {
        let mut bytes = files[file].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = any_tokenizer(&bytes);
    });
}

/// A model file of SentencePiece with five pieces: a text of a length below 128 in each field.
fn model_file() -> Vec<u8> {
    let mut file = Vec::new();
    for (piece, kind) in [
        ("<unk>", 2),
        ("<s>", 3),
        ("</s>", 3),
        ("\u{2581}a", 1),
        ("<0x41>", 6),
    ] {
        let mut message = vec![0x0A, piece.len() as u8];
        message.extend(piece.bytes());
        message.push(0x15);
        message.extend((-1.0_f32).to_le_bytes());
        message.extend([0x18, kind]);
        file.extend([0x0A, message.len() as u8]);
        file.extend(message);
    }
    file.extend([0x12, 2, 0x18, 2]);
    file
}

#[test]
fn arbitrary_changes_of_a_model_file_are_read_or_refused() {
    let model = model_file();
    any_model(&model).unwrap();
    proptest!(|(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>())| {
        let mut bytes = model.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = any_model(&bytes);
        let _ = any_model(&bytes[..cut.index(bytes.len())]);
    });
}

/// Settings of any kind beside a tokenizer give a tokenizer or an error.
#[test]
fn arbitrary_settings_are_read_or_refused() {
    let keys = [
        "added_tokens_decoder",
        "additional_special_tokens",
        "bos_token",
        "eos_token",
        "add_bos_token",
        "chat_template",
    ];
    let token = json!({"content": "<a>", "special": 3, "lstrip": true, "normalized": null});
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(""),
        json!("<a>"),
        json!(["<a>", 3, [], {"content": ""}]),
        json!({"7": token, "18446744073709551615": {"content": "<a>"}}),
        json!({"-1": token}),
        token.clone(),
        json!({}),
    ];
    let tokenizer = fixture("byte_level");
    proptest!(|(chosen in prop::collection::vec((0..keys.len(), 0..values.len()), 1..4))| {
        let mut config = json!({});
        for (key, value) in chosen {
            config[keys[key]] = values[value].clone();
        }
        let files = Files::in_memory([
            ("tokenizer.json", tokenizer.clone()),
            ("tokenizer_config.json", config.to_string().into_bytes()),
        ]);
        if let Ok(tokenizer) = Tokenizer::from_files(&files) {
            let _ = tokenizer.encode("a <a>", true);
        }
    });
}

/// Replaces a value anywhere in the file by another one.
#[test]
fn arbitrary_values_are_read_or_refused() {
    let files = ["byte_level", "byte_fallback", "word_piece"]
        .map(|name| -> Value { serde_json::from_slice(&fixture(name)).unwrap() });
    let values = [
        json!(null),
        json!(-1),
        json!(4_294_967_295_u64),
        json!(1e300),
        json!(""),
        json!("zz"),
        json!([]),
        json!({}),
        json!([["e", "e"]]),
        json!(true),
    ];
    proptest!(|(file in 0_usize..3, steps in prop::collection::vec(any::<prop::sample::Index>(), 1..5), value in 0..values.len())| {
        let mut json = files[file].clone();
        let mut at = &mut json;
        for step in steps {
            let length = at.as_object().map_or(0, |o| o.len()).max(at.as_array().map_or(0, |a| a.len()));
            if length == 0 {
                break;
            }
            let i = step.index(length);
            at = match at {
                Value::Object(fields) => fields.values_mut().nth(i).unwrap(),
                Value::Array(items) => &mut items[i],
                _ => unreachable!("only these have a length"),
            };
        }
        *at = values[value].clone();
        let _ = any_tokenizer(json.to_string().as_bytes());
    });
}

/// Files on which the `tokenizers` library itself panics.
#[test]
fn files_that_contradict_themselves_are_refused() {
    let good: Value = serde_json::from_slice(&fixture("byte_fallback")).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut json = good.clone();
        change(&mut json);
        any_tokenizer(json.to_string().as_bytes())
    };
    let regex =
        |regex: &str| json!({"type": "Replace", "pattern": {"Regex": regex}, "content": ""});
    // A merge whose result is longer than any token.
    let merge = changed(&|json| {
        let longest = "x".repeat(40);
        json["model"]["vocab"][&longest] = json!(600);
        json["model"]["merges"] = json!([[longest, longest]]);
    });
    let last = changed(&|json| json["model"]["vocab"]["last"] = json!(u32::MAX));
    for (got, said) in [
        (merge, "expected a tokenizer"),
        (last, "expected ids below 2^32 - 1"),
        (any_tokenizer(b"\xFF\xFE"), "expected JSON"),
    ] {
        let error = got.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    // A pattern that would need more steps than are allowed, and an invalid pattern.
    let _ = changed(&|json| json["decoder"] = regex("(a|a?)+$(?=b)"));
    assert!(changed(&|json| json["decoder"] = regex("(")).is_err());
    // A decoder that strips more characters than a token has.
    let strip = json!({"type": "Strip", "content": " ", "start": 9, "stop": 9});
    assert!(changed(&|json| json["decoder"] = strip.clone()).is_ok());
    let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(100_000));
    let deep = format!("{{\"decoder\":{open}1{close}}}");
    assert!(any_tokenizer(deep.as_bytes()).is_err());
}

#[test]
fn arbitrary_templates_give_text_or_an_error() {
    // Fragments of templates, separated by `¦`.
    let words = "{{¦}}¦{%¦%}¦{#¦#}¦-¦ if ¦ else ¦ endif ¦ for m in messages ¦ endfor ¦ m ¦messages¦[0]¦.role¦['content']¦|tojson¦(indent=2)¦\
        \x20+ ¦ ~ ¦'a'¦1¦(¦)¦ set x = ¦x¦|join¦ not ¦ generation ¦ endgeneration ¦\n¦é¦raise_exception¦strftime_now¦|length¦*¦9999999999¦\
        \x20macro f(a) ¦ endmacro ¦f(1)";
    let words = prop::sample::select(words.split('¦').collect::<Vec<_>>());
    proptest!(|(words in prop::collection::vec(words, 0..30))| {
        any_template(&words.concat());
    });
}
