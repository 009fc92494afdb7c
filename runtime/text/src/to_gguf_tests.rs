use serde_json::json;

use super::*;

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shipped");

/// The bundled tokenizer.
fn shipped() -> Value {
    let text = std::fs::read_to_string(format!("{SHIPPED}/tokenizer.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn files(tokenizer: &Value, config: &Value) -> Files {
    Files::in_memory([
        ("tokenizer.json", tokenizer.to_string().into_bytes()),
        ("tokenizer_config.json", config.to_string().into_bytes()),
    ])
}

fn refused(tokenizer: &Value, count: usize) -> String {
    let read = files(tokenizer, &json!({})).gguf_vocabulary(count);
    read.unwrap_err().to_string()
}

#[test]
fn the_bundled_tokenizer_has_a_name_for_its_rule() {
    let files = Files::in_folder(SHIPPED.as_ref());
    let tokenizer = Tokenizer::from_files(&files).unwrap();
    let size = tokenizer.vocabulary_size() as usize;
    let vocabulary = files.gguf_vocabulary(size + 3).unwrap();
    assert_eq!(
        (vocabulary.model.as_str(), vocabulary.pre.as_str()),
        ("gpt2", "gpt-2")
    );
    assert_eq!(vocabulary.tokens.len(), size + 3);
    assert_eq!(vocabulary.types[..2], [CONTROL, NORMAL]);
    assert_eq!(vocabulary.types[size..], [UNUSED; 3]);
    assert_eq!(vocabulary.tokens[size], format!("[PAD{size}]"));
    assert_eq!(
        (vocabulary.eos.as_slice(), vocabulary.add_bos),
        (&[0][..], false)
    );
    let made = Tokenizer::from_gguf(vocabulary).unwrap();
    let text = "Call me Ishmael. Some years ago—never mind how long precisely<|endoftext|>";
    assert_eq!(
        made.encode(text, true).unwrap(),
        tokenizer.encode(text, true).unwrap()
    );
}

/// The bundled vocabulary with other rules for words gets their names.
#[test]
fn rules_are_found_by_what_they_do() {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let words = |stages: Vec<Value>, whole: bool, normalizer: Value| {
        let mut tokenizer = shipped();
        tokenizer["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": stages});
        tokenizer["model"]["ignore_merges"] = json!(whole);
        tokenizer["normalizer"] = normalizer;
        tokenizer
    };
    let digits = json!({"type": "Digits", "individual_digits": true});
    let with_regex = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let count = Files::in_folder(SHIPPED.as_ref());
    let count = Tokenizer::from_files(&count).unwrap().vocabulary_size() as usize;
    let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let qwen = llama.replace(r"\p{N}{1,3}", r"\p{N}");
    // The same rule in other words.
    let other = format!("(?:{llama})");
    let nfc = json!({"type": "NFC"});
    for (tokenizer, name) in [
        (
            words(vec![digits, with_regex], false, Value::Null),
            "smollm",
        ),
        (
            words(vec![split(llama), byte_level.clone()], true, Value::Null),
            "llama-bpe",
        ),
        (
            words(vec![split(llama), byte_level.clone()], false, Value::Null),
            "dbrx",
        ),
        (
            words(vec![split(&other), byte_level.clone()], true, Value::Null),
            "llama-bpe",
        ),
        (
            words(vec![split(&qwen), byte_level.clone()], false, nfc),
            "qwen2",
        ),
    ] {
        let vocabulary = files(&tokenizer, &json!({}))
            .gguf_vocabulary(count)
            .unwrap();
        assert_eq!(vocabulary.pre, name);
    }
    let unknown = words(vec![split("[aeiou]"), byte_level], false, Value::Null);
    assert!(refused(&unknown, count).contains("a rule for words that GGUF has a name for"));
}

/// A tokenizer of SentencePiece's kind, with few pieces and all bytes.
fn pieces(spaced: bool) -> Value {
    let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
    let rest = ["▁", "a", "b", "ab", "▁ab"].map(str::to_owned);
    let names = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let all: Vec<String> = names.into_iter().chain(bytes).chain(rest).collect();
    let vocabulary: serde_json::Map<String, Value> = all
        .into_iter()
        .zip((0..).map(|id: u32| json!(id)))
        .collect();
    let mut normalizers =
        vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    if spaced {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
    }
    let special = |id: u32, name: &str| json!({"id": id, "content": name, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    json!({
        "version": "1.0",
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": crate::gguf::of_spaces(spaced),
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocabulary, "merges": [["a", "b"], ["▁", "ab"]],
        },
    })
}

#[test]
fn pieces_get_scores_in_the_order_of_their_merges() {
    let config = json!({"bos_token": "<s>", "eos_token": "</s>"});
    for spaced in [true, false] {
        let vocabulary = files(&pieces(spaced), &config)
            .gguf_vocabulary(264)
            .unwrap();
        assert_eq!(vocabulary.model, "llama");
        assert_eq!((vocabulary.add_space, vocabulary.add_bos), (spaced, true));
        assert_eq!((vocabulary.unknown, vocabulary.bos), (Some(0), Some(1)));
        assert_eq!(vocabulary.eos, [2]);
        assert_eq!(vocabulary.types[..4], [UNKNOWN, CONTROL, CONTROL, BYTE]);
        assert_eq!(vocabulary.types[259..], [NORMAL; 5]);
        // The last two are made by the merges.
        assert_eq!(vocabulary.scores[261..], [-2.0, 0.0, -1.0]);
    }
}

#[test]
fn tokenizers_that_files_cannot_have_are_refused() {
    let text = refused(&shipped(), 16);
    assert!(text.contains("at most 16 tokens"), "{text}");
    let mut other = shipped();
    other["model"] =
        json!({"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"});
    let text = refused(&other, 10_000);
    assert!(
        text.contains("byte pairs (BPE)") && text.ends_with("got WordLevel"),
        "{text}"
    );
    let mut behind = pieces(true);
    let end = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    behind["post_processor"]["single"]
        .as_array_mut()
        .unwrap()
        .push(end);
    let text = refused(&behind, 264);
    assert!(
        text.contains("none behind it, got 2 tokens around it"),
        "{text}"
    );
}
