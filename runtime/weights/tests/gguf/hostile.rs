//! Malformed files: each is refused with an error that says what is wrong, and none makes the reader allocate more than its bytes justify.

use moebius_weights::WeightsError;
use moebius_weights::gguf::{GgufFile, GgufValue};
use proptest::prelude::*;

use crate::any_bytes::any_bytes;
use crate::builder::{Builder, F32, FLAG, LIST, TEXT, list, text};

fn open(builder: &Builder) -> Result<GgufFile, WeightsError> {
    GgufFile::from_bytes("test", builder.bytes())
}

/// Makes tests from rows `file => part, part…;`: each file is refused by an error that contains all parts.
macro_rules! refused {
    ($($file:expr => $($part:expr),+;)+) => {
        $(refused(&$file, &[$($part),+]);)+
    };
}

fn refused(builder: &Builder, parts: &[&str]) {
    let error = open(builder).unwrap_err();
    assert!(matches!(error, WeightsError::Gguf(_)), "{error:?}");
    let error = error.to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} isn't in: {error}");
    }
}

#[test]
fn a_file_is_read_as_it_is() {
    let numbers = list(F32, 2, &[0, 0, 128, 63, 0, 0, 0, 192]);
    let texts = list(TEXT, 2, &[text("é"), text("")].concat());
    let nested = list(LIST, 2, &[numbers.clone(), texts.clone()].concat());
    let mut file = Builder::new()
        .value("texts", LIST, &texts)
        .value("numbers", LIST, &numbers)
        .value("nested", LIST, &nested)
        .value("flag", FLAG, &[1])
        .value("small", 1, &[0xfe])
        .value("large", 10, &u64::MAX.to_le_bytes())
        .tensor("a", &[2, 3], 0, 24)
        .tensor("empty", &[32, 0], 8, 0)
        .tensor("b", &[32, 2], 8, 68);
    file.data[20..24].copy_from_slice(&2.5_f32.to_le_bytes());
    for version in [2, 3] {
        file.version = version;
        let file = open(&file).unwrap();
        assert_eq!(file.version(), version);
        assert_eq!(file.value("flag"), Some(&GgufValue::Flag(true)));
        assert_eq!(file.value("small"), Some(&GgufValue::Signed(-2)));
        assert_eq!(file.value("large"), Some(&GgufValue::Unsigned(u64::MAX)));
        let Some(GgufValue::Texts(texts)) = file.value("texts") else {
            panic!("texts");
        };
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["é", ""]);
        let Some(GgufValue::Numbers(numbers)) = file.value("numbers") else {
            panic!("numbers");
        };
        let expected = [1.0, -2.0].map(GgufValue::Single);
        assert_eq!(numbers.iter().collect::<Vec<_>>(), expected);
        let Some(GgufValue::Lists(lists)) = file.value("nested") else {
            panic!("lists");
        };
        assert_eq!(lists[1], GgufValue::Texts(texts.clone()));
        assert_eq!(file.get("a").unwrap().shape, [3, 2]);
        assert_eq!(file.read_f32("a").unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 2.5]);
        assert_eq!(file.read_f32("b").unwrap(), [0.0; 64]);
        assert!(file.read_f32("empty").unwrap().is_empty());
        assert_eq!(file.bytes_read(), 24 + 68);
        assert_eq!(file.read_f32_part("a", 4, 2).unwrap(), [0.0, 2.5]);
    }
}

/// The data of a file without any begin where the next multiple of 32 would be.
#[test]
fn an_empty_tensor_past_the_end_of_the_file_is_empty() {
    let mut bytes = Builder::new().entry("empty", &[4, 0], 0, 0).bytes();
    bytes.pop();
    let file = GgufFile::from_bytes("test", bytes).unwrap();
    assert!(file.read_f32("empty").unwrap().is_empty());
}

#[test]
fn parts_of_blocks_and_more_than_there_is_are_refused() {
    let file = Builder::new()
        .tensor("b", &[32, 2], 8, 68)
        .tensor("c", &[256], 16, 66);
    let file = open(&file).unwrap();
    for (from, count, said) in [
        (1, 32, "whole blocks"),
        (0, 33, "whole blocks"),
        (32, 64, "68"),
        (1 << 40, 32, "68"),
    ] {
        let error = file
            .read_f32_part("b", from, count)
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{error}");
    }
    let error = file.read_f32("c").unwrap_err().to_string();
    assert!(
        error.contains("IQ4_XS or MXFP4") && error.contains("got IQ2_XXS"),
        "{error}"
    );
    let error = file.read_f32("d").unwrap_err();
    assert!(matches!(error, WeightsError::UnknownTensor(_)));
}

#[test]
fn other_files_and_versions_are_refused() {
    let of = |version| Builder {
        version,
        ..Builder::new()
    };
    refused! {
        Builder { magic: *b"GGML", ..Builder::new() } => "`GGUF`", "`GGML`";
        of(1) => "2 or 3", "got 1";
        of(4) => "2 or 3", "got 4";
        of(3_u32.swap_bytes()) => "other order of bytes";
    }
}

#[test]
fn counts_and_lengths_are_those_of_the_file() {
    for counts in [
        [u64::MAX, 0],
        [0, u64::MAX],
        [1 << 40, 1 << 40],
        [2, 0],
        [0, 2],
    ] {
        let file = Builder {
            counts: Some(counts),
            ..Builder::new()
        };
        refused(&file, &["truncated", "are left in the file"]);
    }
    let long = (1_u64 << 60).to_le_bytes();
    for kind in [0, F32, FLAG, TEXT, LIST, 12] {
        let huge = list(kind, u64::MAX / 2, &[]);
        refused! { Builder::new().value("key", LIST, &huge) => "truncated", "`key`"; }
    }
    let mut name = Builder::new();
    name.metadata.extend(long);
    name.entries = 1;
    name.data = vec![0; 64];
    refused! {
        Builder::new().value("key", TEXT, &long) => "`key`", "1152921504606846976 bytes";
        name => "metadata entry 0";
    }
}

#[test]
fn values_have_known_types() {
    let key = |kind: u32, value: &[u8]| Builder::new().value("key", kind, value);
    let mut deep = list(TEXT, 0, &[]);
    for _ in 0..40 {
        deep = list(LIST, 1, &deep);
    }
    refused! {
        key(13, &[0; 8]) => "`key`", "0 to 12", "13";
        key(LIST, &list(99, 1, &[0; 8])) => "`key`", "0 to 12", "99";
        key(FLAG, &[2]) => "`key`", "0 or 1", "got 2";
        key(LIST, &list(FLAG, 2, &[1, 7])) => "got 7";
        key(LIST, &deep) => "`key`", "depth of 4";
    }
}

#[test]
fn names_and_texts_are_utf8_and_there_once() {
    let new = Builder::new;
    let bad = [b'a', 0xff];
    let [tensor, key] = [65, 65536].map(|length| "x".repeat(length));
    refused! {
        new().value(bad, FLAG, &[1]) => "metadata entry 0", "UTF-8", "byte 1";
        new().value("tokenizer.key", TEXT, &text(bad)) => "`tokenizer.key`", "UTF-8";
        new().value("tokenizer.key", LIST, &list(TEXT, 1, &text(bad))) => "`tokenizer.key`";
        new().entry(bad, &[1], 0, 0) => "tensor 0 of the table", "UTF-8";
        new().size("key", 1).size("key", 2) => "key `key`", "twice";
        new().tensor("t", &[1], 0, 4).tensor("t", &[1], 0, 4) => "tensor `t`", "twice";
        new().tensor(&tensor, &[1], 0, 4) => "tensor 0 of the table", "at most 64 bytes", "got 65";
        new().size(&key, 1) => "metadata entry 0", "at most 65535 bytes";
        // Control sequences of a terminal are escaped.
        new().size("\u{1b}[2J", 1).size("\u{1b}[2J", 2) => "\\u{1b}";
    }
}

/// A name that another program wrote in Latin-1, where é is the byte 0xe9, keeps no model from being read.
#[test]
fn values_in_latin_1_are_read() {
    let written = text([b'R', b'e', b'n', 0xe9]);
    let file = Builder::new()
        .value("general.author", TEXT, &written)
        .value("general.tags", LIST, &list(TEXT, 1, &written));
    let file = open(&file).unwrap();
    let author = file.value("general.author").and_then(GgufValue::as_text);
    assert_eq!(author, Some("René"));
    let Some(GgufValue::Texts(tags)) = file.value("general.tags") else {
        panic!("texts");
    };
    assert_eq!(tags.iter().collect::<Vec<_>>(), ["René"]);
}

#[test]
fn tensors_have_extents_and_places_that_hold() {
    let data = |file: Builder| Builder {
        data: vec![0; 256],
        ..file
    };
    let one = |shape: &[u64], kind, at| data(Builder::new().entry("t", shape, kind, at));
    let first = Builder::new().entry("a", &[16], 0, 0);
    refused! {
        one(&[1; 5], 0, 0) => "tensor `t`", "at most 4 extents", "got 5";
        one(&[1], 99, 0) => "tensor `t`", "F32", "type 99";
        one(&[48], 8, 0) => "whole blocks of 32 values of Q8_0", "[48]";
        one(&[32, 8], 12, 0) => "whole blocks of 256";
        one(&[1 << 32, 1 << 32], 0, 0) => "fit 64 bits";
        one(&[1 << 63, 1 << 63, 0], 0, 0) => "fit 64 bits";
        one(&[1], 0, u64::MAX - 1) => "fit 64 bits";
        one(&[1], 0, 4) => "a multiple of 32", "4..8";
        one(&[65], 0, 0) => "the 256 of the file's data", "0..260: download it again";
        one(&[1], 0, 1 << 40) => "the 256";
        data(first.entry("b", &[16], 0, 32)) => "tensor `b`", "behind those of `a`";
    }
}

#[test]
fn the_alignment_is_a_power_of_two() {
    let key = "general.alignment";
    for bad in [0_u32, 3, 48] {
        refused! { Builder::new().size(key, bad) => key, "power of two", &bad.to_string(); }
    }
    let at = |at| Builder {
        data: vec![0; 64],
        ..Builder::new().size(key, 8).entry("t", &[1], 0, at)
    };
    assert!(open(&at(8)).is_ok());
    refused! {
        Builder::new().text(key, "32") => "power of two", "`32`";
        at(4) => "a multiple of 8";
    }
}

/// A small valid file with all kinds of entries.
fn sample() -> Vec<u8> {
    let texts = list(TEXT, 3, &[text("a"), text("b"), text("c")].concat());
    let file = Builder::new()
        .text("general.architecture", "llama")
        .size("general.alignment", 32)
        .size("llama.block_count", 1)
        .size("llama.embedding_length", 32)
        .value("llama.rope.freq_base", F32, &1e4_f32.to_le_bytes())
        .value("tokenizer.ggml.tokens", LIST, &texts)
        .text("tokenizer.ggml.model", "gpt2")
        .value("nested", LIST, &list(LIST, 1, &list(4, 1, &[1, 0, 0, 0])))
        .tensor("token_embd.weight", &[32, 3], 8, 102)
        .tensor("blk.0.attn_q.weight", &[256, 1], 12, 144)
        .tensor("output_norm.weight", &[32], 0, 128);
    file.bytes()
}

#[test]
fn every_beginning_of_a_file_is_refused() {
    let whole = sample();
    for len in 0..whole.len() {
        let file = GgufFile::from_bytes("test", whole[..len].to_vec());
        assert!(file.is_err(), "the first {len} of {} bytes", whole.len());
    }
    any_bytes(&whole);
}

#[test]
fn every_byte_may_be_another() {
    let whole = sample();
    for at in 0..whole.len() {
        for other in [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            whole[at] ^ 1,
            whole[at].wrapping_add(1),
        ] {
            let mut bytes = whole.clone();
            bytes[at] = other;
            any_bytes(&bytes);
        }
    }
}

proptest! {
    // The environment variable PROPTEST_CASES may set more cases.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1024), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        any_bytes(&[b"GGUF\x03\0\0\0", &bytes[..]].concat());
        any_bytes(&bytes);
    }

    #[test]
    fn arbitrary_changes_are_read_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        end in any::<proptest::sample::Index>(),
    ) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        any_bytes(&bytes);
        let end = end.index(bytes.len());
        bytes.truncate(end);
        any_bytes(&bytes);
    }
}
