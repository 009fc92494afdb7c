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
fn tokens_are_the_bytes_of_texts() {
    let tokenizer = |name| Tokenizer::from_folder(folder(name, &[]).path()).unwrap();
    let bytes = |tokenizer: &Tokenizer, text: &str| -> Vec<u8> {
        let ids = tokenizer.encode(text, false).unwrap();
        ids.iter()
            .flat_map(|id| tokenizer.bytes(*id).unwrap())
            .collect()
    };
    let text = "The ship, \u{c4}pfel\n\u{1F6A2} \u{7ed3}\u{675f} ok<think>";
    let [level, fallback] = ["byte_level", "byte_fallback"].map(tokenizer);
    assert_eq!(bytes(&level, text), text.as_bytes());
    // A text begins with a space there, which decoding takes out again.
    assert_eq!(bytes(&fallback, text), format!(" {text}").into_bytes());
    for (id, expected) in [(2, ""), (483, ""), (480, "<think>"), (223, " ")] {
        assert_eq!(level.bytes(id).unwrap(), expected.as_bytes(), "{id}");
    }
    let words = tokenizer("word_piece");
    let id = words.encode("the", false).unwrap()[0];
    let said = words.bytes(id).unwrap_err().to_string();
    assert!(said.starts_with("vocabulary: expected tokens"), "{said}");
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
            json!({"eos_token": {"content": "</think>"}, "pad_token": null}),
        ),
        (
            "special_tokens_map.json",
            json!({"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>", "additional_special_tokens": []}),
        ),
    ];
    let all = Tokenizer::from_folder(folder("byte_level", &files).path()).unwrap();
    // The map of special tokens counts before the configuration.
    assert_eq!(all.eos_ids(), [2, 0]);
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
    let said = "the files: expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt, got none of them";
    assert_eq!(error, said);
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
                "2": {"content": "<|im_end|>", "special": false, "lstrip": true, "normalized": false},
            }}),
        ),
        // Beside `added_tokens_decoder` this file doesn't count.
        ("added_tokens.json", json!({"<last>": 485})),
    ];
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &files).path()).unwrap();
    let ids = ["<tool>", "<late>", "<last>"].map(|token| tokenizer.id(token));
    assert_eq!(ids, [Some(483), Some(484), None]);
    assert_eq!(tokenizer.encode("<late><tool>", false).unwrap(), [484, 483]);
    assert!(tokenizer.is_special(484) && !tokenizer.is_special(483));
    assert!(tokenizer.is_special(2), "special in one of the files");
    let spaced = tokenizer.encode("  <|im_end|>", false).unwrap();
    assert_eq!(spaced, [2], "the spaces before it belong to it");
    assert_eq!(tokenizer.eos_ids(), [2]);
    let legacy = [("added_tokens.json", json!({"<last>": 484, "<first>": 483}))];
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &legacy).path()).unwrap();
    let ids = ["<first>", "<last>"].map(|token| tokenizer.id(token));
    assert_eq!(ids, [Some(483), Some(484)]);
    assert!(!tokenizer.is_special(483));
}

/// Tokens that files name become special tokens, also where `tokenizer.json` doesn't have them.
#[test]
fn named_tokens_are_special() {
    let files = [(
        "tokenizer_config.json",
        json!({
            "eos_token": "<eos>", "unk_token": {"__type": "AddedToken", "content": "</think>", "normalized": true},
            "additional_special_tokens": ["<think>", "<new>"],
        }),
    )];
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &files).path()).unwrap();
    let ids = ["<eos>", "<new>"].map(|token| tokenizer.id(token));
    assert_eq!(ids, [Some(483), Some(484)]);
    assert_eq!(tokenizer.eos_ids(), [483]);
    for token in ["<eos>", "<new>", "<think>", "</think>"] {
        assert!(
            tokenizer.is_special(tokenizer.id(token).unwrap()),
            "{token}"
        );
    }
}

/// Expected ids are those of `AutoTokenizer` in transformers 5.24.
#[test]
fn settings_of_older_folders_say_what_a_text_begins_and_ends_with() {
    let whole = json(&vectors().join("byte_level.json"));
    let vocabulary = whole["model"]["vocab"].to_string().into_bytes();
    let older = [("vocab.json", vocabulary), ("merges.txt", Vec::new())];
    let whole = [("tokenizer.json", whole.to_string().into_bytes())];
    let ends = |files: &[(&str, Vec<u8>)], settings: &Value| {
        let settings = settings.to_string().into_bytes();
        let files = files.iter().cloned();
        let files = files.chain([("tokenizer_config.json", settings)]);
        let tokenizer = Tokenizer::from_files(&Files::in_memory(files)).unwrap();
        let ids = tokenizer.encode("a", true).unwrap();
        ids.into_iter().filter(|id| *id < 3).collect::<Vec<u32>>()
    };
    let [start, end] = ["<|im_start|>", "<|im_end|>"];
    let cases: [(Value, &[u32]); 5] = [
        (json!({"bos_token": start, "eos_token": end}), &[]),
        (
            json!({"bos_token": start, "eos_token": end, "add_bos_token": true, "add_eos_token": true}),
            &[1, 2],
        ),
        (json!({"bos_token": start, "add_bos_token": false}), &[]),
        (
            json!({"bos_token": null, "eos_token": null, "add_bos_token": true}),
            &[],
        ),
        (json!({"add_bos_token": true}), &[0]),
    ];
    for (settings, expected) in cases {
        assert_eq!(ends(&older, &settings), expected, "{settings}");
        // This `tokenizer.json` begins a text with <|endoftext|>, which has the id 0, whatever the settings are.
        assert_eq!(ends(&whole, &settings), [0], "{settings}");
    }
}

#[test]
fn names_of_special_tokens_are_text_on_request() {
    let tokenizer = Tokenizer::from_folder(folder("byte_level", &[]).path()).unwrap();
    let text = tokenizer.clone().with_special_as_text(true);
    // The tokens "<", "|", "im", "_", "e", "nd", "|" and ">" of the file.
    let characters = [30, 94, 378, 65, 71, 268, 94, 32];
    assert_eq!(text.encode("<|im_end|>", false).unwrap(), characters);
    assert_eq!(text.encode("<|im_end|>", true).unwrap()[1..], characters);
    assert_eq!(tokenizer.encode("<|im_end|>", false).unwrap(), [2]);
    for plain in ["", "a <b> |c|", "<|im_", "<"] {
        let ids = [&text, &tokenizer].map(|of| of.encode(plain, true).unwrap());
        assert_eq!(ids[0], ids[1], "{plain}");
    }
    let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
    assert!(matches!(text.encode(&all, false), Err(Error::Encode(_))));
    assert!(tokenizer.encode(&all, false).is_ok());
    // With a space before the text, as SentencePiece's vocabularies have it.
    let pieces = Tokenizer::from_folder(folder("byte_fallback", &[]).path()).unwrap();
    let apart = pieces.encode("a<", false).unwrap();
    let ids = pieces
        .clone()
        .with_special_as_text(true)
        .encode("a</s>", false)
        .unwrap();
    assert_eq!(pieces.decode(&ids, false).unwrap(), "a</s>");
    assert_eq!(ids[..apart.len()], apart);
    assert!(ids.iter().all(|id| !pieces.is_special(*id)));
}

/// The files of GPT-2's time for the vocabulary of the vectors.
#[test]
fn vocabulary_and_merges_are_a_tokenizer() {
    let whole = json(&vectors().join("byte_level.json"));
    let merges = whole["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| {
        format!(
            "{} {}\n",
            pair[0].as_str().unwrap(),
            pair[1].as_str().unwrap()
        )
    });
    let merges = format!("#version: 0.2\n{}", merges.collect::<String>());
    let vocabulary = whole["model"]["vocab"].to_string();
    let set = |config: Value, merges: &str| {
        Tokenizer::from_files(&Files::in_memory([
            ("vocab.json", vocabulary.clone().into_bytes()),
            ("merges.txt", merges.as_bytes().to_vec()),
            ("tokenizer_config.json", config.to_string().into_bytes()),
        ]))
    };
    let with = |class: &str, merges: &str| {
        let config = json!({"tokenizer_class": class, "eos_token": "<|im_end|>"});
        set(config, merges)
    };
    let tokenizer = with("GPT2Tokenizer", &merges).unwrap();
    assert_eq!(tokenizer.eos_ids(), [2]);
    let expected: Vectors =
        serde_json::from_value(json(&vectors().join("byte_level.vectors.json"))).unwrap();
    // Numbers are cut otherwise, and the tokens that were added later are missing.
    let texts = expected.texts.iter().filter(|case| {
        let text = &case.text;
        !text.contains(|c: char| c.is_numeric()) && !text.contains("think>") && !text.contains("<|")
    });
    let mut compared = 0;
    for case in texts {
        assert_eq!(tokenizer.encode(&case.text, false).unwrap(), case.ids);
        compared += 1;
    }
    assert!(compared > 10, "{compared} texts");
    // Expected ids are those of the classes in transformers 5.24.
    let [gpt2, qwen2] = ["GPT2Tokenizer", "Qwen2Tokenizer"].map(|class| {
        let named = set(json!({"tokenizer_class": class}), &merges).unwrap();
        assert_eq!(named.encode("a<|endoftext|>b", true).unwrap(), [67, 0, 68]);
        assert_eq!(named.eos_ids(), [0], "{class}");
        let nothing = json!({"tokenizer_class": class, "eos_token": null});
        let none = set(nothing, &merges).unwrap().eos_ids().len();
        assert_eq!(none, 0, "{class}");
        let spaced = json!({"tokenizer_class": class, "add_prefix_space": true});
        let spaced = set(spaced, &merges).unwrap();
        let ids = spaced.encode("Call me\nIshmael", true).unwrap();
        (named.bos_id(), ids)
    });
    let ids = vec![449, 389, 346, 201, 43, 85, 74, 79, 67, 395];
    assert_eq!(gpt2, (Some(0), ids));
    let ids = vec![449, 389, 346, 223, 201, 299, 85, 74, 79, 67, 395];
    assert_eq!(qwen2, (None, ids));
    for (class, merges, said) in [
        (
            "BartTokenizer",
            merges.as_str(),
            "expected GPT2Tokenizer or Qwen2Tokenizer beside vocab.json",
        ),
        (
            "GPT2Tokenizer",
            "Ġ t\nalone\n",
            "merges.txt, line 2: expected two tokens with a space between them, got \"alone\"",
        ),
        (
            "GPT2Tokenizer",
            "no such\n",
            "vocab.json: expected a tokenizer",
        ),
    ] {
        let error = with(class, merges).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// A field of a message of protocol buffers that has bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    let mut field = vec![
        (number << 3) | 2,
        (length & 0x7F) as u8 | 0x80,
        (length >> 7) as u8,
    ];
    field.extend(bytes);
    field
}

/// A model file of SentencePiece with the vocabulary of the vectors.
fn model_file(kind: u8) -> Vec<u8> {
    let pieces = pieces();
    let mut file = Vec::new();
    for (at, token) in pieces.tokens.iter().enumerate() {
        let mut piece = field(1, token.as_bytes());
        piece.push((2 << 3) | 5);
        piece.extend(pieces.scores[at].to_le_bytes());
        piece.extend([3 << 3, u8::try_from(pieces.types[at]).unwrap()]);
        file.extend(field(1, &piece));
    }
    file.extend(field(2, &[3 << 3, kind]));
    file
}

/// Expected tokens are those of `AutoTokenizer` in transformers 5.24.
#[test]
fn the_rules_of_llamas_class_take_the_place_of_the_files() {
    let vocabulary = [
        "<unk>", "<s>", "</s>", "▁", "a", "b", "[", "]", "▁a", "▁b", "▁[", "▁▁",
    ];
    let ids = vocabulary.iter().zip(0..);
    let ids: serde_json::Map<_, _> = ids
        .map(|(token, id)| (token.to_string(), json!(id)))
        .collect();
    let special = json!([
        {"id": 1, "content": "<s>", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false},
    ]);
    let file = json!({
        "version": "1.0", "added_tokens": special, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": ids,
            "merges": ["▁ a", "▁ b", "▁ [", "▁ ▁"]},
    });
    let tokens = |family: &str, settings: &Value, text: &str| {
        let config = json!({ "model_type": family });
        let files = [
            ("tokenizer.json", &file),
            ("tokenizer_config.json", settings),
            ("config.json", &config),
        ];
        let files = files.map(|(name, json)| (name, json.to_string().into_bytes()));
        let tokenizer = Tokenizer::from_files(&Files::in_memory(files)).unwrap();
        let ids = tokenizer.encode(text, false).unwrap();
        let names = ids.into_iter().map(|id| tokenizer.token(id).unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    let class = |legacy: Value| json!({"tokenizer_class": "LlamaTokenizerFast", "legacy": legacy});
    let prompt = "<s>[a] b";
    for legacy in [Value::Null, json!(false)] {
        assert_eq!(
            tokens("llama", &class(legacy.clone()), prompt),
            "<s> [ a ] ▁b"
        );
        assert_eq!(tokens("llama", &class(legacy), "▁a"), "▁a");
    }
    assert_eq!(
        tokens("llama", &class(json!(true)), prompt),
        "<s> ▁[ a ] ▁b"
    );
    // Other classes and some families keep the rules of the file, which give each part of a text a space.
    for (family, settings) in [
        (
            "llama",
            json!({"tokenizer_class": "PreTrainedTokenizerFast"}),
        ),
        ("llama", json!({})),
        ("mistral", class(json!(false))),
    ] {
        assert_eq!(
            tokens(family, &settings, prompt),
            "<s> ▁[ a ] ▁b",
            "{family}"
        );
        assert_eq!(tokens(family, &settings, "▁a"), "▁ ▁a", "{family}");
    }
}

#[test]
fn a_model_file_of_sentencepiece_is_a_tokenizer() {
    let with = |bytes: Vec<u8>, config: Value| {
        Tokenizer::from_files(&Files::in_memory([
            ("tokenizer.model", bytes),
            ("tokenizer_config.json", config.to_string().into_bytes()),
        ]))
    };
    let legacy = with(
        model_file(2),
        json!({"legacy": true, "add_bos_token": true}),
    )
    .unwrap();
    assert_eq!((legacy.bos_id(), legacy.eos_ids()), (Some(1), &[2][..]));
    // Since then a word after a special token has no space of its own.
    let newer = with(model_file(2), json!({"add_bos_token": true})).unwrap();
    // Of Mistral's files the rule is SentencePiece's own, which the vectors have.
    let mistral = Tokenizer::from_files(&Files::in_memory([
        ("tokenizer.model", model_file(2)),
        (
            "tokenizer_config.json",
            br#"{"add_bos_token": true}"#.to_vec(),
        ),
        ("config.json", br#"{"model_type": "mistral"}"#.to_vec()),
    ]))
    .unwrap();
    let expected = json(&vectors().join("byte_fallback.vectors.json"));
    let expected: Vectors = serde_json::from_value(expected).unwrap();
    compare(&mistral, &expected, "tokenizer.model");
    // Expected ids and texts are those of LlamaTokenizer's stages in transformers 5.24, on the same vocabulary.
    let two_spaces = &[1, 321, 322, 317, 309, 321, 344, 310, 403, 437, 321];
    let the_whale = &[1, 331, 2, 414, 295, 359];
    let cases: [(&str, &[u32], &[u32], &str); 3] = [
        ("a</s>a", &[1, 325, 2, 325], &[1, 325, 2, 295], "aa"),
        ("  two  spaces  ", two_spaces, two_spaces, " two  spaces  "),
        (" the </s> whale", the_whale, the_whale, "the  whale"),
    ];
    for (text, old, new, decoded) in cases {
        assert_eq!(legacy.encode(text, true).unwrap(), old, "{text:?}");
        assert_eq!(newer.encode(text, true).unwrap(), new, "{text:?}");
        assert_eq!(newer.decode(new, true).unwrap(), decoded);
    }
    for (bytes, said) in [
        (
            model_file(1),
            "tokenizer.model: expected a BPE model without a normalization of its own; ",
        ),
        (
            b"\x0A\xFF".to_vec(),
            "tokenizer.model: expected a model of SentencePiece, got other bytes",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\n".to_vec(),
            "git lfs pull",
        ),
    ] {
        let error = with(bytes, json!({})).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
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
            json!({"eos_token": 3}),
            "tokenizer_config.json: expected a token's text, got 3",
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
    let said = "or vocab.json and merges.txt, got none of them";
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
