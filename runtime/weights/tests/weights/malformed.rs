//! A corpus of attacks: each gives its own error, which says where and what is wrong.

use std::fs;
use std::path::Path;
use std::time::Duration;

use moebius_weights::header::HeaderError;
use moebius_weights::{Dtype, InFile, Reader, Unscaled, WeightsError};
use proptest::prelude::*;

use crate::any_bytes::any_bytes;
use crate::files::{bytes, f32s, file, file_with, raw, write};

/// Checks rows `result => error, text, text…;`: each result is this error, and its message contains all of the texts.
macro_rules! refused {
    ($($result:expr => $pattern:pat, $($said:expr),+;)+) => {$(
        match $result {
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(error, $pattern), "expected {}, got {text}", stringify!($pattern));
                $(assert!(text.contains($said), "{} in {text}", $said);)+
            }
            Ok(_) => panic!("expected {}", stringify!($pattern)),
        }
    )+};
}

/// Makes tests from rows `bytes => error of the header, text, text…;`, for files of these bytes.
macro_rules! header {
    ($($bytes:expr => $pattern:pat, $($said:expr),+;)+) => {
        refused! { $(
            Reader::from_bytes("evil.safetensors", $bytes)
                => WeightsError::Header(InFile { source: $pattern, .. }), "evil.safetensors", $($said),+;
        )+ }
    };
}

/// A file with one tensor `w`, with this header entry and `data` bytes of data.
fn one(entry: &str, data: usize) -> Vec<u8> {
    raw(&format!(r#"{{"w":{entry}}}"#), &vec![0; data])
}

fn of(dtype: &str, shape: &str, offsets: &str, data: usize) -> Vec<u8> {
    let entry = format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#);
    one(&entry, data)
}

#[test]
fn the_length_of_a_header_is_not_believed() {
    for cut in 0..8 {
        header! { vec![0; cut] => HeaderError::TooShort { .. }, "truncated"; }
    }
    let mut short = raw("{}", &[]);
    short.pop();
    header! {
        vec![0xFF; 8] => HeaderError::PastEnd { said: u64::MAX, available: 0 }, "truncated";
        vec![0xFF; 4096] => HeaderError::PastEnd { .. }, "4088 are left";
        short => HeaderError::PastEnd { said: 2, available: 1 }, "truncated";
    }
    // The file is sparse: none of its bytes exist, and the reader must not allocate them.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.safetensors");
    let length = 1_000_000_000_u64.to_le_bytes();
    write(folder.path(), "big.safetensors", length);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(2_000_000_000).unwrap();
    refused! {
        Reader::open(&path)
            => WeightsError::Header(InFile { source: HeaderError::TooLarge { max: 100_000_000, .. }, .. }),
            "big.safetensors", "got 1000000000";
    }
}

#[test]
fn a_header_is_an_object_of_tensors() {
    for text in [
        "",
        "[]",
        "null",
        "7",
        "{",
        "{}x",
        r#"{"w":1}"#,
        r#"{"w":{}}"#,
        "{\"w\":[]}",
        "{'w':0}",
    ] {
        header! { raw(text, &[]) => HeaderError::NotValid(_), "not valid"; }
    }
    let mut not_text = raw("{\"w\":7}", &[]);
    not_text[10] = 0xFF;
    header! {
        raw(&"[".repeat(1_000_000), &[]) => HeaderError::NotValid(_), "not valid";
        not_text => HeaderError::NotUtf8 { valid_up_to: 2 }, "not UTF-8";
        raw(r#"{"__metadata__":{"a":1}}"#, &[]) => HeaderError::NotValid(_), "__metadata__";
    }
    let shapes = [
        "[-1]",
        "[1.0]",
        "[1e2]",
        "7",
        "\"7\"",
        "[null]",
        "[18446744073709551616]",
    ];
    for shape in shapes {
        header! { of("F32", shape, "[0,4]", 4) => HeaderError::NotValid(_), "`w`"; }
    }
    for offsets in ["[0]", "[0,4,8]", "[-4,0]", "null", "{}"] {
        header! { of("F32", "[1]", offsets, 4) => HeaderError::NotValid(_), "`w`"; }
    }
}

#[test]
fn keys_may_not_repeat() {
    let w = r#""w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let escaped = r#""\u0077":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let twice = r#"{"__metadata__":{},"__metadata__":{}}"#;
    let text = r#"{"__metadata__":{"a":"1","a":"2"}}"#;
    let field = r#"{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}"#;
    header! {
        raw(&format!("{{{w},{w}}}"), &[0]) => HeaderError::NotValid(_), "duplicate", "`w`";
        raw(&format!("{{{w},{escaped}}}"), &[0]) => HeaderError::NotValid(_), "duplicate";
        raw(twice, &[]) => HeaderError::NotValid(_), "duplicate";
        raw(text, &[]) => HeaderError::NotValid(_), "duplicate key `a`";
        one(field, 1) => HeaderError::NotValid(_), "duplicate field", "`w`";
    }
}

#[test]
fn offsets_cover_the_data_exactly() {
    for (offsets, data) in [("[0,4]", 3), ("[4,0]", 4), ("[0,18446744073709551615]", 4)] {
        header! { of("U8", "[4]", offsets, data) => HeaderError::OffsetsOutOfRange { .. }, "`w`"; }
    }
    let two = |second: &str| {
        let entry =
            |offsets: &str| format!(r#"{{"dtype":"U8","shape":[4],"data_offsets":{offsets}}}"#);
        let (first, second) = (entry("[0,4]"), entry(second));
        raw(&format!(r#"{{"a":{first},"b":{second}}}"#), &[0; 9])
    };
    for offsets in ["[3,7]", "[0,4]", "[2,6]"] {
        header! { two(offsets) => HeaderError::NotContiguous { expected: 4, .. }, "begin at 4"; }
    }
    let end = "[18446744073709551611,18446744073709551615]";
    header! {
        of("U8", "[4]", end, 4) => HeaderError::OffsetsOutOfRange { .. }, "4 bytes of data";
        of("U8", "[4]", "[1,5]", 5) => HeaderError::NotContiguous { expected: 0, got: 1, .. }, "`w`";
        of("U8", "[4]", "[0,4]", 5) => HeaderError::DataLength { expected: 4, got: 5 }, "5";
        raw("{}", &[1]) => HeaderError::DataLength { expected: 0, got: 1 }, "1";
        two("[5,9]") => HeaderError::NotContiguous { expected: 4, got: 5, .. }, "`b`";
    }
}

#[test]
fn shape_and_dtype_fit_the_offsets() {
    header! {
        of("F32", "[3]", "[0,8]", 8) => HeaderError::SizeMismatch { expected: 12, got: 8, dtype: Dtype::F32, .. },
            "`w`", "[3]", "needs 12 bytes";
        of("F64", "[2]", "[0,8]", 8) => HeaderError::SizeMismatch { got: 8, .. }, "`w`", "needs 16 bytes";
        of("F16", "[2]", "[0,8]", 8) => HeaderError::SizeMismatch { got: 8, .. }, "`w`", "needs 4 bytes";
        of("F32", "[0]", "[0,8]", 8) => HeaderError::SizeMismatch { got: 8, .. }, "`w`", "needs 0 bytes";
    }
    for (dtype, shape) in [
        ("F32", "[4294967296,4294967296]"),
        ("F32", "[18446744073709551615]"),
        ("U8", "[18446744073709551615,2,0]"),
        ("F4", "[3]"),
    ] {
        header! { of(dtype, shape, "[0,8]", 8) => HeaderError::ShapeOverflow { .. }, "`w`"; }
    }
    for dtype in ["F33", "", "f32", "F8_E4M3FN"] {
        header! {
            of(dtype, "[2]", "[0,8]", 8) => HeaderError::UnknownDtype { .. }, "`w`", "expected a safetensors dtype";
        }
    }
    let scalar = of("F64", "[]", "[0,8]", 8);
    for sound in [of("F8_E4M3", "[2,4]", "[0,8]", 8), scalar, raw("{}", &[])] {
        assert!(Reader::from_bytes("sound", sound).is_ok());
    }
}

/// A file with a single value.
fn single(name: &'static str, value: f32) -> Vec<u8> {
    file(&[f32s(name, &[1], &[value])])
}

/// A folder with an index that has this map, and two valid files with a tensor each.
fn indexed(map: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "one.safetensors", single("a", 1.0));
    write(folder.path(), "two.safetensors", single("b", 2.0));
    let index = format!(r#"{{"metadata":{{}},"weight_map":{map}}}"#);
    write(folder.path(), "model.safetensors.index.json", index);
    folder
}

#[test]
fn an_index_names_what_is_there() {
    let open = |map: &str| Reader::open(indexed(map).path());
    let sound = open(r#"{"a":"one.safetensors","b":"two.safetensors"}"#).unwrap();
    assert_eq!(sound.read_f32("b").unwrap(), [2.0]);
    let dotted = open(r#"{"a":"./one.safetensors","b":"two.safetensors"}"#).unwrap();
    assert_eq!(dotted.read_f32("a").unwrap(), [1.0]);
    refused! {
        open(r#"{"a":"no.safetensors"}"#)
            => WeightsError::Index { .. }, "the file `no.safetensors` is missing", "index.json";
        open(r#"{"b":"one.safetensors"}"#)
            => WeightsError::Index { .. }, "`b`", "`one.safetensors`, which lacks it";
        open(r#"{"b":"one.safetensors","a":"two.safetensors"}"#) => WeightsError::Index { .. }, "which lacks it";
        open(r#"{"a":"one.safetensors","a":"two.safetensors"}"#) => WeightsError::Json { .. }, "duplicate key `a`";
    }
    for map in ["[]", "7", r#"{"a":7}"#, r#"{"a":null}"#] {
        refused! { open(map) => WeightsError::Json { .. }, "index.json"; }
    }
    for name in [
        "../one.safetensors",
        "/one.safetensors",
        "x/../one.safetensors",
        "..",
        ".",
        "",
        "x\\\\one.safetensors",
        "C:one.safetensors",
        "one.safetensors/",
        "one\\u0000.safetensors",
    ] {
        let map = format!(r#"{{"a":"{name}"}}"#);
        refused! { open(&map) => WeightsError::Index { .. }, "expected the name of a file beside it"; }
    }
}

#[test]
fn a_checkpoint_is_of_one_piece() {
    let folder = indexed(r#"{"a":"one.safetensors","b":"two.safetensors"}"#);
    let path = folder.path();
    let with = |name: &'static str, other: &'static str| {
        file(&[f32s(other, &[1], &[2.0]), f32s(name, &[1], &[2.0])])
    };
    write(path, "two.safetensors", with("b", "a"));
    let read = Reader::open(path).unwrap().read_f32("a").unwrap();
    assert_eq!(read, [1.0], "the file that the index names");
    write(path, "one.safetensors", with("a", "c"));
    write(path, "two.safetensors", with("b", "c"));
    refused! {
        Reader::open(path) => WeightsError::DuplicateTensor { .. }, "`c`", "one.safetensors", "two.safetensors";
    }
    write(path, "one.safetensors", single("a", 1.0));
    write(path, "two.safetensors", &single("b", 2.0)[..20]);
    refused! { Reader::open(path) => WeightsError::Header { .. }, "two.safetensors", "truncated"; }
    write(path, "config.json", r#"{"quantization_config":"#);
    write(path, "two.safetensors", single("b", 2.0));
    refused! { Reader::open(path) => WeightsError::Json { .. }, "config.json"; }
    // The files are longer than an index or a header may be.
    fs::remove_file(path.join("config.json")).unwrap();
    let index = fs::File::options()
        .write(true)
        .open(path.join("model.safetensors.index.json"));
    index.unwrap().set_len(1 << 40).unwrap();
    refused! { Reader::open(path) => WeightsError::TooLarge { .. }, "index.json"; }
}

#[test]
fn a_folder_holds_one_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    refused! {
        Reader::open(path) => WeightsError::NoWeights { .. }, "got neither";
        Reader::open(&path.join("none")) => WeightsError::Read { .. }, "none";
    }
    let holds = |name: &str| Reader::open(path).unwrap().get(name).is_some();
    write(path, "x.safetensors", single("x", 1.0));
    assert!(holds("x"));
    write(path, "y.safetensors", single("y", 1.0));
    refused! { Reader::open(path) => WeightsError::ManyFiles { .. }, "x.safetensors", "y.safetensors"; }
    let index = r#"{"weight_map":{"y":"y.safetensors"}}"#;
    write(path, "z.safetensors.index.json", index);
    assert!(holds("y"));
    write(path, "model.safetensors", single("z", 1.0));
    assert!(holds("z"));
    let inner = path.join("folder.safetensors");
    fs::create_dir(&inner).unwrap();
    refused! { Reader::open(&inner) => WeightsError::NoWeights { .. }, "got neither"; }
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let bytes = file(&[f32s("x", &[64], &[1.0; 64])]);
    write(folder.path(), "x.safetensors", bytes);
    let reader = Reader::open(&path).unwrap();
    let length = path.metadata().unwrap().len();
    let shrinking = fs::File::options().write(true).open(&path).unwrap();
    shrinking.set_len(length - 1).unwrap();
    refused! {
        reader.read("x") => WeightsError::Read { .. }, "x.safetensors";
        reader.read("y") => WeightsError::UnknownTensor { .. }, "`y`";
        reader.read_part("x", 255, &mut [0; 2]) => WeightsError::DataLength { .. }, "`x`";
        reader.read_part("x", u64::MAX, &mut [0; 2]) => WeightsError::DataLength { .. }, "`x`";
    }
}

/// Bytes of two versions of a file would be one model without a sign of it.
#[test]
fn a_file_that_is_written_to_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let bytes = file(&[f32s("x", &[64], &[1.0; 64])]);
    write(folder.path(), "x.safetensors", &bytes);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.read_f32("x").unwrap(), [1.0; 64]);
    // A writer whose change is younger than the clock's tick would not be seen.
    let written = fs::File::options().write(true).open(&path).unwrap();
    let later = written.metadata().unwrap().modified().unwrap() + Duration::from_secs(1);
    written.set_modified(later).unwrap();
    refused! { reader.read("x") => WeightsError::Read { .. }, "has changed since it was opened: open the model again"; }
    // Another file in its place is no change: the reader has the old one.
    let reader = Reader::open(&path).unwrap();
    write(folder.path(), "y.safetensors", &bytes);
    fs::rename(folder.path().join("y.safetensors"), &path).unwrap();
    assert_eq!(reader.read_f32("x").unwrap(), [1.0; 64]);
}

#[test]
fn names_from_files_are_fit_for_a_terminal() {
    let said = |header: &str| {
        let refused = Reader::from_bytes("evil", raw(header, &[]));
        refused.unwrap_err().to_string()
    };
    let error = said(r#"{"\u001b[31m":{"dtype":"Q\n","shape":[0],"data_offsets":[0,0]}}"#);
    let escaped = error.contains(r"`\u{1b}[31m`") && error.contains(r"`Q\n`");
    assert!(escaped, "{error}");
    let error = said(r#"{"\u001b[31m":{"dtype":7,"shape":[0],"data_offsets":[0,0]}}"#);
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

/// A valid file with all kinds of entries.
fn sound() -> Vec<u8> {
    let tensors = [
        bytes("w.weight", Dtype::F8_E4M3, &[2, 40], 0x38),
        f32s("w.weight_scale_inv", &[1, 1], &[2.0]),
        f32s("w.input_scale", &[], &[0.5]),
        bytes("m.weight", Dtype::F8_E5M2, &[2, 40], 0x38),
        bytes("m.weight_scale", Dtype::U8, &[2, 2], 0x7F),
        bytes("s.weight", Dtype::F8_E4M3, &[2, 2, 2], 0x38),
        f32s("s.weight_scale", &[2], &[1.0, 2.0]),
        bytes("b", Dtype::BOOL, &[3], 1),
    ];
    file_with(&tensors, &[("weight_block_size", "[1, 1]")])
}

#[test]
fn the_sound_file_is_sound() {
    let reader = Reader::from_bytes("sound", sound()).unwrap();
    assert_eq!(reader.fp8_layouts(Unscaled::Refuse).unwrap().len(), 3);
    any_bytes(&sound());
    let whole = sound();
    for len in 0..whole.len() {
        let cut = Reader::from_bytes("cut", whole[..len].to_vec());
        assert!(cut.is_err(), "cut at {len}");
    }
}

#[test]
fn a_pipe_is_not_waited_for() {
    // A device has no end; a folder is searched for weights.
    let device = Path::new("/dev/null");
    if cfg!(unix) {
        refused! { Reader::open(device) => WeightsError::NotAFile { .. }, "regular file"; }
    }
}

proptest! {
    // The environment variable PROPTEST_CASES may set more cases.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1024), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        any_bytes(&bytes);
    }

    #[test]
    fn arbitrary_headers_never_panic(text in "[\\{\\}\\[\\]\",:0-9a-z_.F -]{0,200}", data in 0_usize..64) {
        any_bytes(&raw(&text, &vec![0x7F; data]));
    }

    #[test]
    fn arbitrary_edits_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        digit in prop::option::of((any::<prop::sample::Index>(), b'0'..=b'9')),
    ) {
        let mut bytes = sound();
        if let Some((index, digit)) = digit {
            // Replacing a digit by a digit keeps the JSON valid, so that the checks after the parser are reached.
            let digits: Vec<usize> = (8..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
            bytes[digits[index.index(digits.len())]] = digit;
        } else {
            for (index, value) in edits {
                let at = index.index(bytes.len());
                bytes[at] = value;
            }
        }
        any_bytes(&bytes);
    }

    #[test]
    fn arbitrary_pairs_are_read_or_refused(
        weight in prop::collection::vec(0_usize..5, 1..4),
        scales in prop::collection::vec(0_usize..5, 0..4),
        dtype in prop::sample::select(vec![Dtype::F32, Dtype::BF16, Dtype::U8, Dtype::F8_E8M0, Dtype::I8]),
        block in prop::option::of("\\[[0-9], ?[0-9]\\]|[a-z]"),
        fill in any::<u8>(),
    ) {
        let count: usize = scales.iter().product();
        let scale_bytes = vec![fill; count * dtype.bitsize() / 8];
        let tensors = [
            bytes("w.weight", Dtype::F8_E4M3, &weight, fill),
            ("w.weight_scale", dtype, scales, scale_bytes),
        ];
        let text = block.as_deref().map(|block| ("weight_block_size", block));
        any_bytes(&file_with(&tensors, text.as_slice()));
    }
}
