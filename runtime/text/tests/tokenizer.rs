//! Small tokenizers agree with Python's `tokenizers` (`make_fixtures.py`), and take further settings from the files next to a
//! `tokenizer.json`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use moebius_text::{Error, Files, Tokenizer};
use moebius_weights::gguf::Vocabulary;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Vectors {
    size: u32,
    texts: Vec<Text>,
    arbitrary: Vec<Ids>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    with_special: Vec<u32>,
    decoded: String,
    without_special: String,
}

#[derive(Deserialize)]
struct Ids {
    ids: Vec<u32>,
    decoded: String,
    without_special: String,
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A folder with a small tokenizer and other files.
fn folder(name: &str, files: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = vectors().join(format!("{name}.json"));
    fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
    for (name, value) in files {
        fs::write(folder.path().join(name), value.to_string()).unwrap();
    }
    folder
}

/// Compares a tokenizer with Python's.
fn compare(tokenizer: &Tokenizer, expected: &Vectors, name: &str) {
    assert_eq!(tokenizer.vocabulary_size(), expected.size, "{name}");
    let encoded = |text: &str, special| tokenizer.encode(text, special).unwrap();
    let decoded = |ids: &[u32], skip| tokenizer.decode(ids, skip).unwrap();
    for case in &expected.texts {
        let text = &case.text;
        assert_eq!(encoded(text, false), case.ids, "{name}: {text:?}");
        assert_eq!(encoded(text, true), case.with_special, "{name}: {text:?}");
        assert_eq!(decoded(&case.ids, false), case.decoded, "{name}: {text:?}");
        let without = decoded(&case.with_special, true);
        assert_eq!(without, case.without_special, "{name}: {text:?}");
    }
    for case in &expected.arbitrary {
        let ids = &case.ids;
        assert_eq!(decoded(ids, false), case.decoded, "{name}: {ids:?}");
        assert_eq!(decoded(ids, true), case.without_special, "{name}: {ids:?}");
    }
}

#[test]
fn ids_and_texts_are_those_of_python() {
    for name in ["byte_level", "byte_fallback", "word_piece"] {
        let tokenizer = Tokenizer::from_folder(folder(name, &[]).path()).unwrap();
        let expected: Vectors =
            serde_json::from_value(json(&vectors().join(format!("{name}.vectors.json")))).unwrap();
        compare(&tokenizer, &expected, name);
    }
}

#[test]
fn tokens_have_names_and_kinds() {
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &[]).path()).unwrap();
    assert_eq!(tokenizer.id("<|im_end|>"), Some(2));
    assert_eq!(tokenizer.token(2).as_deref(), Some("<|im_end|>"));
    assert!(tokenizer.is_special(2));
    let think = tokenizer.id("<think>").unwrap();
    assert!(!tokenizer.is_special(think));
    assert_eq!(tokenizer.id("no such token"), None);
    let ending = tokenizer.clone().with_ends(Some(0), vec![1, 2]).unwrap();
    assert_eq!((ending.bos_id(), ending.eos_ids()), (Some(0), &[1, 2][..]));
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (None, &[][..]));
    let error = ending.with_ends(None, vec![483]).unwrap_err().to_string();
    let said = "expected the id of a token, below 483, got 483";
    assert!(error.contains(said), "{error}");
    let size = tokenizer.vocabulary_size();
    assert!(!tokenizer.is_special(size));
    assert_eq!(
        tokenizer.decode(&[size, think, u32::MAX], true).unwrap(),
        "<think>"
    );
}

#[test]
fn ends_come_from_every_file_that_names_them() {
    let none = Tokenizer::from_folder(folder("byte_level", &[]).path()).unwrap();
    assert_eq!((none.eos_ids(), none.bos_id()), (&[][..], None));
    let files = [
        ("generation_config.json", json!({"eos_token_id": [2, 0]})),
        ("config.json", json!({"eos_token_id": 0, "vocab_size": 512})),
        (
            "tokenizer_config.json",
            json!({"eos_token": {"content": "</think>"}, "add_bos_token": true, "pad_token": null}),
        ),
        (
            "special_tokens_map.json",
            json!({"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>", "additional_special_tokens": []}),
        ),
    ];
    let all = Tokenizer::from_folder(folder("byte_level", &files).path()).unwrap();
    assert_eq!(all.eos_ids(), [2, 0, all.id("</think>").unwrap()]);
    assert_eq!(all.bos_id(), Some(1));
    let tokenizer = fs::read(vectors().join("byte_level.json")).unwrap();
    let beside = files.iter();
    let beside = beside.map(|(name, value)| (*name, value.to_string().into_bytes()));
    let in_memory = Files::in_memory(beside.chain([("tokenizer.json", tokenizer)]));
    let in_memory = Tokenizer::from_files(&in_memory).unwrap();
    assert_eq!(in_memory.eos_ids(), all.eos_ids());
    assert_eq!(in_memory.bos_id(), all.bos_id());
    let [one, other] = [&in_memory, &all].map(|of| of.encode("in memory or not", true).unwrap());
    assert_eq!(one, other);
    let nothing = Files::in_memory([("config.json", b"{}".to_vec())]);
    let error = Tokenizer::from_files(&nothing).unwrap_err().to_string();
    assert_eq!(error, "the files: expected a file tokenizer.json, got none");
    let one = [("generation_config.json", json!({"eos_token_id": 2}))];
    let one = Tokenizer::from_folder(folder("byte_level", &one).path()).unwrap();
    assert_eq!(one.eos_ids(), [2]);
}

/// Some folders list tokens outside of `tokenizer.json`, and end ids that no token has.
#[test]
fn tokens_of_other_files_are_added() {
    let files = [
        ("config.json", json!({"eos_token_id": [2, 100_000]})),
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": {
                "484": {"content": "<late>", "special": true},
                "483": {"content": "<tool>", "special": false},
                "2": {"content": "<|im_end|>", "special": false, "lstrip": false},
            }}),
        ),
        ("added_tokens.json", json!({"<last>": 485})),
    ];
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &files).path()).unwrap();
    let ids = ["<tool>", "<late>", "<last>"].map(|token| tokenizer.id(token));
    assert_eq!(ids, [Some(483), Some(484), Some(485)]);
    assert_eq!(tokenizer.encode("<late><tool>", false).unwrap(), [484, 483]);
    assert!(tokenizer.is_special(484) && !tokenizer.is_special(483));
    assert!(
        !tokenizer.is_special(2),
        "the flags of tokenizer_config.json count"
    );
    assert_eq!(tokenizer.eos_ids(), [2]);
}

#[test]
fn files_that_do_not_fit_are_named() {
    for (file, value, said) in [
        (
            "generation_config.json",
            json!({"eos_token_id": "two"}),
            "generation_config.json: expected one or several ids, got the text \"two\"",
        ),
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": {"many": {"content": "<a>"}}}),
            "tokenizer_config.json: expected tokens by their ids, got \"many\"",
        ),
        (
            "tokenizer_config.json",
            json!({"eos_token": "<eos>"}),
            "expected a token of tokenizer.json, got \"<eos>\"",
        ),
        (
            "special_tokens_map.json",
            json!([1]),
            "special_tokens_map.json: expected a JSON object, got an array of 1",
        ),
        (
            "tokenizer.json",
            json!({"model": 3}),
            "tokenizer.json: expected a tokenizer, got",
        ),
    ] {
        let folder = folder("byte_level", &[(file, value)]);
        let error = Tokenizer::from_folder(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Unfit(_)), "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = Tokenizer::from_folder(empty.path()).unwrap_err();
    let said = "expected a file tokenizer.json, got none";
    assert!(error.to_string().contains(said), "{error}");
    fs::create_dir(empty.path().join("tokenizer.json")).unwrap();
    let error = Tokenizer::from_folder(empty.path()).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
}

/// Truncation and padding, which are settings of a training, don't apply to a prompt.
#[test]
fn nothing_is_cut_or_padded() {
    let mut cutting = json(&vectors().join("byte_level.json"));
    cutting["truncation"] =
        json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    cutting["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    let text = "The whale, the whale! Up helm, up helm!";
    let [cut, whole] = [&[("tokenizer.json", cutting)][..], &[]].map(|files| {
        let tokenizer = Tokenizer::from_folder(folder("byte_level", files).path());
        tokenizer.unwrap().encode(text, false).unwrap()
    });
    assert_eq!(cut, whole);
}

/// The vocabulary of a GGUF file, made from the `tokenizer.json` that its converter would have read.
fn parts() -> Vocabulary {
    let json = json(&vectors().join("byte_level.json"));
    let vocab = json["model"]["vocab"].as_object().unwrap().iter();
    let vocab = vocab.map(|(token, id)| (token.clone(), id.as_u64().unwrap()));
    let mut tokens: Vec<(String, u64)> = vocab.collect();
    let mut types = vec![1; 483];
    for added in json["added_tokens"].as_array().unwrap() {
        let token = added["content"].as_str().unwrap();
        let id = added["id"].as_u64().unwrap();
        if tokens.iter().all(|(known, _)| known != token) {
            tokens.push((token.to_owned(), id));
        }
        let special = added["special"].as_bool().unwrap();
        types[usize::try_from(id).unwrap()] = if special { 3 } else { 4 };
    }
    tokens.sort_by_key(|(_, id)| *id);
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| {
        let [first, second] = [0_usize, 1].map(|at| pair[at].as_str().unwrap());
        format!("{first} {second}")
    });
    Vocabulary {
        model: "gpt2".to_owned(),
        pre: "smollm".to_owned(),
        tokens: tokens.into_iter().map(|(token, _)| token).collect(),
        merges: merges.collect(),
        types,
        bos: Some(0),
        eos: vec![2],
        add_bos: true,
        ..Vocabulary::default()
    }
}

/// The vocabulary of the SentencePiece model in the vectors: the first merges have the highest scores.
fn pieces() -> Vocabulary {
    let json = json(&vectors().join("byte_fallback.json"));
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let mut tokens: Vec<(String, u64)> = vocab
        .iter()
        .map(|(token, id)| (token.clone(), id.as_u64().unwrap()))
        .collect();
    tokens.sort_by_key(|(_, id)| *id);
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let ranks: std::collections::HashMap<String, usize> = merges
        .map(|pair| pair[0].as_str().unwrap().to_owned() + pair[1].as_str().unwrap())
        .zip(0..)
        .collect();
    let score = |token: &str| ranks.get(token).map_or(-1e6, |rank| -(*rank as f32));
    let mut types: Vec<i32> = tokens
        .iter()
        .map(|(token, _)| if token.starts_with("<0x") { 6 } else { 1 })
        .collect();
    for added in json["added_tokens"].as_array().unwrap() {
        let id = usize::try_from(added["id"].as_u64().unwrap()).unwrap();
        let content = added["content"].as_str().unwrap();
        if id == tokens.len() {
            tokens.push((content.to_owned(), id as u64));
            types.push(4);
        }
        types[id] = match (content, added["special"].as_bool().unwrap()) {
            ("<unk>", _) => 2,
            (_, true) => 3,
            (_, false) => 4,
        };
    }
    Vocabulary {
        model: "llama".to_owned(),
        scores: tokens.iter().map(|(token, _)| score(token)).collect(),
        tokens: tokens.into_iter().map(|(token, _)| token).collect(),
        types,
        bos: Some(1),
        eos: vec![2],
        add_bos: true,
        add_space: true,
        ..Vocabulary::default()
    }
}

#[test]
fn the_parts_of_a_gguf_file_make_the_same_tokenizer() {
    same_as_the_vectors(parts(), "byte_level", 0);
}

#[test]
fn scores_of_a_gguf_file_make_the_same_tokenizer() {
    same_as_the_vectors(pieces(), "byte_fallback", 1);
    let error = Tokenizer::from_gguf(Vocabulary {
        scores: vec![0.0; 3],
        ..pieces()
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("tokenizer.ggml.scores: expected 4") && error.contains("got 3"),
        "{error}"
    );
    let bare = Vocabulary {
        add_space: false,
        ..pieces()
    };
    let bare = Tokenizer::from_gguf(bare).unwrap();
    for text in [" a  b", "a\n", ""] {
        let ids = bare.encode(text, false).unwrap();
        assert_eq!(bare.decode(&ids, false).unwrap(), text);
    }
}

/// Compares the tokenizer of a GGUF vocabulary with the vectors `name`.
fn same_as_the_vectors(parts: Vocabulary, name: &str, bos: u32) {
    let tokenizer = Tokenizer::from_gguf(parts).unwrap();
    let expected = json(&vectors().join(format!("{name}.vectors.json")));
    let expected: Vectors = serde_json::from_value(expected).unwrap();
    let ends = (tokenizer.bos_id(), tokenizer.eos_ids());
    assert_eq!(ends, (Some(bos), &[2][..]));
    compare(&tokenizer, &expected, "tokenizer.ggml");
}

#[test]
fn every_way_to_cut_a_text_gives_it_back() {
    let none = Vocabulary {
        pre: "none".to_owned(),
        ..parts()
    };
    let error = Tokenizer::from_gguf(none).unwrap_err().to_string();
    let names = error
        .split_once("one of ")
        .and_then(|(_, rest)| rest.split_once(", got"));
    for pre in names.unwrap().0.split(", ") {
        let pre = pre.to_owned();
        let tokenizer = Tokenizer::from_gguf(Vocabulary { pre, ..parts() }).unwrap();
        for text in [
            "I'LL say it's 12345\r\n\n  or 3.14 ",
            "naïve 你好 🙂 camelCaseWords",
            "",
        ] {
            let ids = tokenizer.encode(text, false).unwrap();
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
        }
    }
}

#[test]
fn parts_that_do_not_fit_are_named() {
    // Checks rows `vocabulary => a change of it, text;`: the changed vocabulary is refused with this text.
    macro_rules! refused {
        ($($parts:ident => $change:expr, $said:expr;)+) => {$(
            let mut $parts = parts();
            $change;
            let error = Tokenizer::from_gguf($parts).unwrap_err().to_string();
            assert!(error.contains($said), "{error}");
        )+};
    }
    refused! {
        v => v.model = "bert".to_owned(), "tokenizer.ggml.model: expected gpt2 or llama, got bert";
        v => v.pre = "other".to_owned(), "tokenizer.ggml.pre: expected one of default, gpt-2, ";
        v => v.types.truncate(5), "tokenizer.ggml.token_type: expected 483, one for each token, got 5";
        v => v.merges[7] = "nospace".to_owned(), "tokenizer.ggml.merges[7]: expected two tokens";
        v => v.merges[7] = "no such".to_owned(), "tokenizer.ggml: expected a tokenizer, got";
        v => v.tokens[9] = v.tokens[8].clone(), "different tokens, got \"&\" for the ids 8 and 9";
        v => v.bos = None, "tokenizer.ggml.bos_token_id: expected the id of a token";
        v => (v.tokens, v.types) = (Vec::new(), Vec::new()), "expected";
    }
    // An end id without a token is ignored.
    let ending = Vocabulary {
        eos: vec![483, 2],
        ..parts()
    };
    assert_eq!(Tokenizer::from_gguf(ending).unwrap().eos_ids(), [2]);
}
