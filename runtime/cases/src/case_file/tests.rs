//! Attacks: no bytes may panic the reader, and no lie in a header may get past it.

use std::fs;

use proptest::prelude::*;
use safetensors::Dtype;

use super::*;

const GOOD_METADATA: &str =
    r#""__metadata__":{"op":"route","params":"{}","tol":"{\"y\":{\"exact\":true}}"}"#;

/// A file of this header and this many zero bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A file with the metadata of a sound case and these tensors.
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

macro_rules! refused {
    ($bytes:expr, $pattern:pat) => {
        match CaseFile::parse($bytes) {
            Err($pattern) => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    };
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
        assert_eq!(
            (name, view.shape, tolerance),
            ("y", &[2, 1][..], Tolerance::Exact)
        );
        assert_eq!(view.bytes, [0, 7]);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = good();
    for len in 0..whole.len() {
        assert!(
            CaseFile::parse(whole[..len].to_vec()).is_err(),
            "cut at {len}"
        );
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
    refused!(Vec::new(), CaseError::Header(HeaderError::TooShort(0)));
    refused!(
        vec![0xFF; 8],
        CaseError::Header(HeaderError::PastEnd {
            said: u64::MAX,
            available: 0
        })
    );
    refused!(
        vec![0xFF; 64],
        CaseError::Header(HeaderError::PastEnd { said: u64::MAX, .. })
    );
    let field = (MAX_FILE - 8).to_le_bytes();
    assert!(matches!(
        header_length(field, MAX_FILE, MAX_HEADER),
        Err(HeaderError::TooLarge { .. })
    ));
    refused!(file("", 0), CaseError::Header(HeaderError::NotValid(_)));
}

#[test]
fn the_header_must_be_an_object_in_utf8() {
    let mut bytes = 4_u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{\xFF\"}");
    refused!(
        bytes,
        CaseError::Header(HeaderError::NotUtf8 { valid_up_to: 1 })
    );
    for header in [
        "[]",
        "null",
        "7",
        "{",
        "{}x",
        r#"{"a":1}"#,
        r#"{"a":{}}"#,
        r#"{"a\ud800":{}}"#,
    ] {
        refused!(file(header, 0), CaseError::Header(HeaderError::NotValid(_)));
    }
    refused!(file("{}", 0), CaseError::MissingMetadata("op"));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = "[".repeat(1_000_000);
    refused!(file(&deep, 0), CaseError::Header(HeaderError::NotValid(_)));
    refused!(
        file(&format!(r#"{{"in.x":{deep}"#), 0),
        CaseError::Header(HeaderError::NotValid(_))
    );
    let ignored =
        format!(r#"{{"in.x":{{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":{deep}"#);
    refused!(
        file(&ignored, 1),
        CaseError::Header(HeaderError::NotValid(_))
    );
    let params = format!(r#""op":"a","tol":"{{}}","params":"{{\"a\":{deep}""#);
    refused!(
        metadata(&params),
        CaseError::BadMetadata { key: "params", .. }
    );
}

#[test]
fn names_may_not_repeat() {
    let x = r#""in.x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    refused!(
        tensors(&format!("{x},{x}"), 1),
        CaseError::Header(HeaderError::NotValid(_))
    );
    refused!(
        tensors(GOOD_METADATA, 0),
        CaseError::Header(HeaderError::NotValid(_))
    );
    refused!(
        metadata(r#""op":"a","op":"b","params":"{}","tol":"{}""#),
        CaseError::Header(HeaderError::NotValid(_))
    );
    let tol = r#""tol":"{\"y\":{\"exact\":true},\"y\":{\"rel_l2\":9}}""#;
    refused!(
        metadata(&format!(r#""op":"a","params":"{{}}",{tol}"#)),
        CaseError::BadMetadata { key: "tol", .. }
    );
}

#[test]
fn metadata_must_be_what_this_version_knows() {
    let tol = r#""tol":"{\"y\":{\"exact\":true}}""#;
    let with = |rest: &str| metadata(&format!("{tol},{rest}"));
    assert!(CaseFile::parse(with(r#""op":"a","params":"{}""#)).is_ok());
    refused!(with(r#""params":"{}""#), CaseError::MissingMetadata("op"));
    refused!(with(r#""op":"a""#), CaseError::MissingMetadata("params"));
    refused!(
        metadata(r#""op":"a","params":"{}""#),
        CaseError::MissingMetadata("tol")
    );
    refused!(
        with(r#""op":"a","params":"{}","seed":"7""#),
        CaseError::UnknownMetadata { .. }
    );
    refused!(
        with(r#""op":7,"params":"{}""#),
        CaseError::Header(HeaderError::NotValid(_))
    );
    for params in ["", "[]", "7", "{", "no"] {
        let entry = format!(r#""op":"a","params":"{params}""#);
        refused!(with(&entry), CaseError::BadMetadata { key: "params", .. });
    }
}

#[test]
fn outputs_and_tolerances_pair_up() {
    let with = |tol: &str| {
        metadata(&format!(
            r#""op":"a","params":"{{}}","tol":"{}""#,
            tol.replace('"', "\\\"")
        ))
    };
    assert!(CaseFile::parse(with(r#"{"y":{"rel_l2":0}}"#)).is_ok());
    refused!(with("{}"), CaseError::MissingTolerance { .. });
    refused!(
        with(r#"{"y":{"exact":true},"z":{"exact":true}}"#),
        CaseError::UnusedTolerance { .. }
    );
    for entry in [
        r#"{"exact":false}"#,
        r#"{"rel_l2":-1}"#,
        r#"{"exact":true,"rel_l2":1}"#,
        "{}",
    ] {
        refused!(
            with(&format!(r#"{{"y":{entry}}}"#)),
            CaseError::BadTolerance { .. }
        );
    }
    for entry in [
        r#"{"abs":1}"#,
        r#"{"rel_l2":1e999}"#,
        r#"{"rel_l2":"1"}"#,
        "1",
    ] {
        refused!(
            with(&format!(r#"{{"y":{entry}}}"#)),
            CaseError::BadMetadata { key: "tol", .. }
        );
    }
}

#[test]
fn tensors_are_inputs_or_outputs() {
    let stray = r#""x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    refused!(tensors(stray, 0), CaseError::StrayTensor { .. });
    let none = r#"{"__metadata__":{"op":"a","params":"{}","tol":"{}"}}"#;
    refused!(file(none, 0), CaseError::NoOutputs);
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
    assert_eq!(
        view(Dtype::F64, &0.1_f64.to_le_bytes())
            .to_f32()
            .expect("float"),
        [0.1]
    );
    assert_eq!(
        view(Dtype::F16, &[0x00, 0x3C]).to_f32().expect("float"),
        [1.0]
    );
    assert_eq!(
        view(Dtype::BF16, &[0x80, 0xBF]).to_f32().expect("float"),
        [-1.0]
    );
    assert!(view(Dtype::I32, &[0; 4]).to_f32().is_err());
    assert_eq!(
        view(Dtype::I32, &[0xFF; 4]).ints().expect("int").next(),
        Some(-1)
    );
    assert_eq!(
        view(Dtype::I64, &[0xFF; 8]).ints().expect("int").next(),
        Some(-1)
    );
    assert!(view(Dtype::F32, &[0; 4]).ints().is_err());
    assert_eq!(view(Dtype::BOOL, &[1]).to_bool().expect("bool"), [true]);
    assert!(matches!(
        view(Dtype::U8, &[2]).to_bool(),
        Err(CaseError::WrongTensor { got, .. }) if got == "2"
    ));
    assert!(view(Dtype::F8_E4M3, &[2]).to_f32().is_err());
}

#[test]
fn a_file_on_disk_is_read_and_measured_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("case.safetensors");
    fs::write(&path, good()).expect("written");
    assert_eq!(CaseFile::read(&path).expect("sound").op(), "route");
    fs::write(&path, &good()[..good().len() - 1]).expect("written");
    assert!(matches!(
        CaseFile::read(&path),
        Err(CaseError::Header(HeaderError::OffsetsOutOfRange { .. }))
    ));
    // Sparse: none of these bytes exist, and none may be asked for.
    let sparse = fs::File::create(&path).expect("created");
    sparse.set_len(MAX_FILE + 1).expect("sparse");
    assert!(matches!(
        CaseFile::read(&path),
        Err(CaseError::TooLarge { .. })
    ));
    sparse.set_len(MAX_FILE).expect("sparse");
    assert!(matches!(
        CaseFile::read(&path),
        Err(CaseError::Header(HeaderError::NotValid(_)))
    ));
    assert!(matches!(
        CaseFile::read(folder.path()),
        Err(CaseError::NotAFile | CaseError::Io(_))
    ));
    assert!(matches!(
        CaseFile::read(&folder.path().join("none")),
        Err(CaseError::Io(_))
    ));
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
