//! Attacks on the reader: no bytes cause a panic, and no false value in a header is accepted.

use std::fs;

use proptest::prelude::*;
use safetensors::Dtype;

use super::*;

const GOOD_METADATA: &str =
    r#""__metadata__":{"op":"route","params":"{}","tol":"{\"y\":{\"exact\":true}}"}"#;

/// A file with this header and `data` zero bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A file with the metadata of a valid case and these tensors.
fn tensors(entries: &str, data: usize) -> Vec<u8> {
    file(&format!("{{{GOOD_METADATA},{entries}}}"), data)
}

fn metadata(entries: &str) -> Vec<u8> {
    let y = r#""out.y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    file(&format!(r#"{{"__metadata__":{{{entries}}},{y}}}"#), 1)
}

fn good() -> Vec<u8> {
    tensors(
        r#""in.x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
           "out.y":{"dtype":"U8","shape":[2,1],"data_offsets":[8,10]}"#,
        10,
    )
}

/// Makes tests from rows `bytes => error`: reading the bytes gives this error.
macro_rules! refused {
    ($($bytes:expr => $pattern:pat),+ $(,)?) => {$(
        match CaseFile::parse($bytes) {
            Err($pattern) => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    )+};
}

#[test]
fn a_sound_file_is_read() {
    let mut bytes = good();
    if let Some(last) = bytes.last_mut() {
        *last = 7;
    }
    let owned = CaseFile::parse(bytes.clone()).expect("sound");
    let embedded = CaseFile::parse(&*bytes.leak()).expect("sound");
    for case in [owned, embedded] {
        assert_eq!(case.op(), "route");
        assert_eq!(case.inputs()["x"].to_f32().expect("floats"), [0.0, 0.0]);
        let (name, view, tolerance) = case.outputs().next().expect("one output");
        assert_eq!((name, tolerance), ("y", Tolerance::Exact));
        assert_eq!(view.shape, [2, 1]);
        assert_eq!(view.bytes, [0, 7]);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = good();
    for len in 0..whole.len() {
        let cut = CaseFile::parse(whole[..len].to_vec());
        assert!(cut.is_err(), "cut at {len}");
    }
}

#[test]
fn a_flipped_byte_never_panics() {
    let whole = good();
    for index in 0..whole.len() {
        for value in [0, 1, b'"', b'{', b'9', 0x7F, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[index] = value;
            let _ = CaseFile::parse(bytes);
        }
    }
}

#[test]
fn the_header_length_is_not_believed() {
    refused! {
        Vec::new() => CaseError::Header(HeaderError::TooShort(0)),
        vec![0xFF; 8] => CaseError::Header(HeaderError::PastEnd { said: u64::MAX, available: 0 }),
        vec![0xFF; 64] => CaseError::Header(HeaderError::PastEnd { said: u64::MAX, .. }),
        file("", 0) => CaseError::Header(HeaderError::NotValid(_)),
    }
    let field = (MAX_FILE - 8).to_le_bytes();
    let length = header_length(field, MAX_FILE, MAX_HEADER);
    assert!(matches!(length, Err(HeaderError::TooLarge { .. })));
}

#[test]
fn the_header_must_be_an_object_in_utf8() {
    let mut bytes = 4_u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{\xFF\"}");
    refused! {
        bytes => CaseError::Header(HeaderError::NotUtf8 { valid_up_to: 1 }),
        file("{}", 0) => CaseError::MissingMetadata("op"),
    }
    let [number, empty, surrogate] = [r#"{"a":1}"#, r#"{"a":{}}"#, r#"{"a\ud800":{}}"#];
    for header in ["[]", "null", "7", "{", "{}x", number, empty, surrogate] {
        refused! { file(header, 0) => CaseError::Header(HeaderError::NotValid(_)) }
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = "[".repeat(1_000_000);
    let ignored =
        format!(r#"{{"in.x":{{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":{deep}"#);
    let params = format!(r#""op":"a","tol":"{{}}","params":"{{\"a\":{deep}""#);
    refused! {
        file(&deep, 0) => CaseError::Header(HeaderError::NotValid(_)),
        file(&format!(r#"{{"in.x":{deep}"#), 0) => CaseError::Header(HeaderError::NotValid(_)),
        file(&ignored, 1) => CaseError::Header(HeaderError::NotValid(_)),
        metadata(&params) => CaseError::BadMetadata { key: "params", .. },
    }
}

#[test]
fn names_may_not_repeat() {
    let x = r#""in.x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let op = r#""op":"a","op":"b","params":"{}","tol":"{}""#;
    let tol = r#""op":"a","params":"{}","tol":"{\"y\":{\"exact\":true},\"y\":{\"rel_l2\":9}}""#;
    refused! {
        tensors(&format!("{x},{x}"), 1) => CaseError::Header(HeaderError::NotValid(_)),
        tensors(GOOD_METADATA, 0) => CaseError::Header(HeaderError::NotValid(_)),
        metadata(op) => CaseError::Header(HeaderError::NotValid(_)),
        metadata(tol) => CaseError::BadMetadata { key: "tol", .. },
    }
}

#[test]
fn metadata_must_be_what_this_version_knows() {
    let tol = r#""tol":"{\"y\":{\"exact\":true}}""#;
    let with = |rest: &str| metadata(&format!("{tol},{rest}"));
    assert!(CaseFile::parse(with(r#""op":"a","params":"{}""#)).is_ok());
    refused! {
        with(r#""params":"{}""#) => CaseError::MissingMetadata("op"),
        with(r#""op":"a""#) => CaseError::MissingMetadata("params"),
        metadata(r#""op":"a","params":"{}""#) => CaseError::MissingMetadata("tol"),
        with(r#""op":"a","params":"{}","seed":"7""#) => CaseError::UnknownMetadata { .. },
        with(r#""op":7,"params":"{}""#) => CaseError::Header(HeaderError::NotValid(_)),
    }
    for params in ["", "[]", "7", "{", "no"] {
        let entry = format!(r#""op":"a","params":"{params}""#);
        refused! { with(&entry) => CaseError::BadMetadata { key: "params", .. } }
    }
}

#[test]
fn outputs_and_tolerances_pair_up() {
    let with = |tol: &str| {
        let tol = tol.replace('"', "\\\"");
        metadata(&format!(r#""op":"a","params":"{{}}","tol":"{tol}""#))
    };
    let of_y = |entry: &str| with(&format!(r#"{{"y":{entry}}}"#));
    assert!(CaseFile::parse(of_y(r#"{"rel_l2":0}"#)).is_ok());
    refused! {
        with("{}") => CaseError::MissingTolerance { .. },
        with(r#"{"y":{"exact":true},"z":{"exact":true}}"#) => CaseError::UnusedTolerance { .. },
        of_y(r#"{"exact":false}"#) => CaseError::BadTolerance { .. },
        of_y(r#"{"rel_l2":-1}"#) => CaseError::BadTolerance { .. },
        of_y(r#"{"exact":true,"rel_l2":1}"#) => CaseError::BadTolerance { .. },
        of_y("{}") => CaseError::BadTolerance { .. },
        of_y(r#"{"abs":1}"#) => CaseError::BadMetadata { key: "tol", .. },
        of_y(r#"{"rel_l2":1e999}"#) => CaseError::BadMetadata { key: "tol", .. },
        of_y(r#"{"rel_l2":"1"}"#) => CaseError::BadMetadata { key: "tol", .. },
        of_y("1") => CaseError::BadMetadata { key: "tol", .. },
    }
}

#[test]
fn tensors_are_inputs_or_outputs() {
    let stray = r#""x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    let none = r#"{"__metadata__":{"op":"a","params":"{}","tol":"{}"}}"#;
    refused! {
        tensors(stray, 0) => CaseError::StrayTensor { .. },
        file(none, 0) => CaseError::NoOutputs,
    }
}

#[test]
fn values_are_converted_or_refused() {
    fn view(dtype: Dtype, bytes: &[u8]) -> TensorView<'_> {
        TensorView {
            name: "in.x",
            dtype,
            shape: &[1],
            bytes,
        }
    }
    for (dtype, bytes, expected) in [
        (Dtype::F64, &0.1_f64.to_le_bytes()[..], 0.1),
        (Dtype::F16, &[0x00, 0x3C], 1.0),
        (Dtype::BF16, &[0x80, 0xBF], -1.0),
    ] {
        assert_eq!(view(dtype, bytes).to_f32().expect("float"), [expected]);
    }
    for (dtype, bytes) in [(Dtype::I32, &[0xFF; 4][..]), (Dtype::I64, &[0xFF; 8])] {
        let mut ints = view(dtype, bytes).ints().expect("int");
        assert_eq!(ints.next(), Some(-1));
    }
    assert!(view(Dtype::I32, &[0; 4]).to_f32().is_err());
    assert!(view(Dtype::F8_E4M3, &[2]).to_f32().is_err());
    assert!(view(Dtype::F32, &[0; 4]).ints().is_err());
    assert_eq!(view(Dtype::BOOL, &[1]).to_bool().expect("bool"), [true]);
    let two = view(Dtype::U8, &[2]).to_bool();
    assert!(matches!(two, Err(CaseError::WrongTensor { got, .. }) if got == "2"));
}

#[test]
fn a_file_on_disk_is_read_and_measured_first() {
    macro_rules! refused {
        ($path:expr, $pattern:pat) => {
            assert!(matches!(CaseFile::read($path), Err($pattern)));
        };
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("case.safetensors");
    fs::write(&path, good()).expect("written");
    assert_eq!(CaseFile::read(&path).expect("sound").op(), "route");
    fs::write(&path, &good()[..good().len() - 1]).expect("written");
    refused!(
        &path,
        CaseError::Header(HeaderError::OffsetsOutOfRange { .. })
    );
    // The file is sparse: none of its bytes exist, and the reader must not allocate them.
    let sparse = fs::File::create(&path).expect("created");
    sparse.set_len(MAX_FILE + 1).expect("sparse");
    refused!(&path, CaseError::TooLarge { .. });
    sparse.set_len(MAX_FILE).expect("sparse");
    refused!(&path, CaseError::Header(HeaderError::NotValid(_)));
    refused!(folder.path(), CaseError::NotAFile | CaseError::Io(_));
    refused!(&folder.path().join("none"), CaseError::Io(_));
}

#[test]
fn names_from_a_file_are_shown_without_control_characters() {
    assert_eq!(quoted("a\u{1b}[31m\n"), "`a\\u{1b}[31m\\n`");
    assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = CaseFile::parse(bytes);
    }

    #[test]
    fn arbitrary_headers_never_panic(header in "[\\{\\}\\[\\]\",:0-9a-z_. -]{0,200}", data in 0_usize..32) {
        let _ = CaseFile::parse(file(&header, data));
    }

    #[test]
    fn arbitrary_layouts_are_refused_or_readable(
        dtype in prop::sample::select(vec!["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3"]),
        shape in prop::collection::vec(0_u64..5, 0..4),
        begin in 0_u64..4,
        end in 0_u64..80,
        data in 0_usize..80,
    ) {
        let entry = format!(r#""out.y":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#);
        if let Ok(case) = CaseFile::parse(tensors(&entry, data)) {
            let (_, view, _) = case.outputs().next().expect("one output");
            let elements: usize = view.shape.iter().product();
            if let Ok(values) = view.floats() {
                prop_assert_eq!(values.count(), elements);
            }
            if let Ok(values) = view.ints() {
                prop_assert_eq!(values.count(), elements);
            }
        }
    }
}
