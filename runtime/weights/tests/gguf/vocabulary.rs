//! The vocabulary of a tokenizer in a GGUF file.

use moebius_weights::gguf::{GgufFile, Vocabulary};

use crate::builder::{Builder, FLAG, LIST, TEXT, list, text};

/// The type of floats of 32 bits.
const SINGLE: u32 = 6;

fn parts(builder: Builder) -> Result<Option<Vocabulary>, String> {
    let file = GgufFile::from_bytes("test", builder.bytes()).unwrap();
    file.vocabulary().map_err(|error| error.to_string())
}

fn texts(all: &[&str]) -> Vec<u8> {
    let bytes: Vec<u8> = all.iter().flat_map(text).collect();
    list(TEXT, all.len() as u64, &bytes)
}

#[test]
fn a_file_hands_out_its_tokenizer_and_template() {
    let case = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/cases/gguf/llama_f32.gguf"
    );
    let file = GgufFile::open(case.as_ref()).unwrap();
    let parts = file.vocabulary().unwrap().unwrap();
    assert_eq!((&parts.model[..], &parts.pre[..]), ("gpt2", "smollm"));
    assert_eq!((parts.tokens.len(), parts.types.len()), (99, 99));
    assert_eq!(
        (&parts.tokens[98][..], &parts.types[1..4]),
        ("t98", &[3, 3, 1][..])
    );
    assert_eq!(parts.merges, ["t 1", "t 2"]);
    let ends = (parts.bos, parts.eos, parts.add_bos);
    assert_eq!(ends, (Some(1), vec![2], false));
    let template = file.chat_template().unwrap();
    assert!(template.starts_with("{% for m in messages %}"));
}

#[test]
fn what_a_file_does_not_say_is_empty() {
    assert_eq!(parts(Builder::new()), Ok(None));
    let least = || {
        Builder::new().text("tokenizer.ggml.model", "gpt2").value(
            "tokenizer.ggml.tokens",
            LIST,
            &texts(&["a", "b"]),
        )
    };
    let got = parts(least()).unwrap().unwrap();
    let expected = Vocabulary {
        model: "gpt2".to_owned(),
        tokens: vec!["a".to_owned(), "b".to_owned()],
        add_space: true,
        ..Vocabulary::default()
    };
    assert_eq!(got, expected);
    // In files older than `add_bos_token`, the kind of vocabulary decides.
    let llama3 = least().text("tokenizer.ggml.pre", "llama-bpe");
    assert!(parts(llama3.clone()).unwrap().unwrap().add_bos);
    let said = llama3.value("tokenizer.ggml.add_bos_token", FLAG, &[0]);
    assert!(!parts(said).unwrap().unwrap().add_bos);
    let ends = least()
        .size("tokenizer.ggml.eos_token_id", 1)
        .size("tokenizer.ggml.eot_token_id", 1)
        .size("tokenizer.ggml.eom_token_id", 0);
    assert_eq!(parts(ends).unwrap().unwrap().eos, [1, 0]);
}

/// Many files declare only the end of a text, although their models end turns with another token.
#[test]
fn tokens_that_end_a_turn_are_known_by_name() {
    let ends = |tokens: &[&str]| {
        let file = Builder::new()
            .text("tokenizer.ggml.model", "gpt2")
            .value("tokenizer.ggml.tokens", LIST, &texts(tokens))
            .size("tokenizer.ggml.eos_token_id", 1);
        parts(file).unwrap().unwrap().eos
    };
    assert_eq!(ends(&["a", "<|endoftext|>", "<|im_end|>"]), [1, 2]);
    assert_eq!(ends(&["<|end|>", "b"]), [1, 0]);
    assert_eq!(ends(&["<|end|>", "<|return|>", "<|call|>"]), [1, 2]);
}

/// The metadata of a SentencePiece model: scores in place of merges.
#[test]
fn scores_and_defaults_of_the_kind_llama_are_read() {
    let scores: Vec<u8> = [0.0_f32, -1.5]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let llama = Builder::new()
        .text("tokenizer.ggml.model", "llama")
        .value("tokenizer.ggml.tokens", LIST, &texts(&["a", "b"]))
        .value("tokenizer.ggml.scores", LIST, &list(SINGLE, 2, &scores))
        .size("tokenizer.ggml.unknown_token_id", 1);
    let got = parts(llama.clone()).unwrap().unwrap();
    assert_eq!((got.scores, got.unknown), (vec![0.0, -1.5], Some(1)));
    assert!(got.add_bos && got.add_space);
    let said = llama.value("tokenizer.ggml.add_space_prefix", FLAG, &[0]);
    assert!(!parts(said).unwrap().unwrap().add_space);
}

#[test]
fn parts_of_other_types_are_refused() {
    let model = || Builder::new().text("tokenizer.ggml.model", "gpt2");
    let tokens = model().text("tokenizer.ggml.tokens", "a");
    let negative = model()
        .value("tokenizer.ggml.tokens", LIST, &texts(&["a"]))
        .value("tokenizer.ggml.bos_token_id", 5, &(-1_i32).to_le_bytes());
    let none = "`tokenizer.ggml.tokens`: expected a list of texts, got none";
    for (file, said) in [
        (model(), none),
        (tokens, "got `a`"),
        (negative, "the id of a token, got -1"),
    ] {
        let error = parts(file).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
