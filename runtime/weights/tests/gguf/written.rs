//! Files that are written are read again as they were declared.

use std::fs;
use std::path::Path;

use moebius_weights::WeightsError;
use moebius_weights::gguf::{
    GgmlType, GgufFile, GgufNumbers, GgufSpec, GgufValue, GgufWriter, Vocabulary,
};

fn spec(name: &str, kind: GgmlType, shape: &[usize]) -> GgufSpec {
    GgufSpec {
        name: name.to_owned(),
        kind,
        shape: shape.to_vec(),
    }
}

fn values(count: usize) -> Vec<f32> {
    (0..count)
        .map(|at| ((at * 37) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

/// Metadata of every kind, with numbers at the ends of their types.
fn metadata() -> Vec<(String, GgufValue)> {
    let numbers = GgufNumbers::from(&[i32::MIN, 0, i32::MAX][..]);
    let singles = GgufNumbers::from(&[-0.5_f32, 1e-6][..]);
    let texts = |texts: &[&str]| GgufValue::Texts(texts.iter().collect());
    let all = [
        ("general.architecture", GgufValue::Text("llama".to_owned())),
        ("a.narrow", GgufValue::Unsigned(u32::MAX.into())),
        ("a.wide", GgufValue::Unsigned(u64::MAX)),
        ("a.below", GgufValue::Signed(-1)),
        ("a.far", GgufValue::Signed(i64::MIN)),
        ("a.single", GgufValue::Single(1e-6)),
        ("a.double", GgufValue::Double(1e-300)),
        ("a.flag", GgufValue::Flag(true)),
        ("a.texts", texts(&["▁the", "", "\u{0}"])),
        ("a.none", texts(&[])),
        ("a.numbers", GgufValue::Numbers(numbers)),
        ("a.singles", GgufValue::Numbers(singles)),
        (
            "a.lists",
            GgufValue::Lists(vec![texts(&["x"]), GgufValue::Lists(Vec::new())]),
        ),
    ];
    all.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

#[test]
fn a_file_is_read_as_it_was_declared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let specs = [
        spec("b", GgmlType::Q8_0, &[3, 64]),
        spec("a", GgmlType::F32, &[5]),
        spec("c", GgmlType::Q4_K, &[2, 1, 256]),
        spec("empty", GgmlType::F16, &[0, 4]),
    ];
    let mut writer = GgufWriter::begin(&path, &metadata(), &specs).unwrap();
    let all = values(512);
    // In another order, and in pieces.
    writer.append("c", &all[..256]).unwrap();
    writer.append("a", &all[..5]).unwrap();
    writer.append("b", &all[..64]).unwrap();
    writer.append("c", &all[256..]).unwrap();
    writer.append("b", &all[64..192]).unwrap();
    assert!(!path.exists());
    let written = writer.finish().unwrap();
    let names: Vec<_> = written.iter().map(|of| of.spec.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c", "empty"]);
    assert_eq!(written[0].bytes, 6 * 34);
    assert_eq!(written[1].relative_rms, 0.0);
    assert!(written[2].relative_rms > 0.0 && written[2].relative_rms < 0.1);

    let file = GgufFile::open(&path).unwrap();
    assert_eq!(file.version(), 3);
    assert!(file.file_bytes().is_multiple_of(32));
    assert_eq!(file.file_bytes(), fs::metadata(&path).unwrap().len());
    for (key, value) in metadata() {
        assert_eq!(file.value(&key), Some(&value), "{key}");
    }
    for spec in &specs {
        let info = file.get(&spec.name).unwrap();
        assert_eq!((info.kind, &info.shape), (spec.kind, &spec.shape));
    }
    assert_eq!(file.read_f32("a").unwrap(), &all[..5]);
    let near = |name: &str, values: &[f32], most: f32| {
        let got = file.read_f32(name).unwrap();
        assert_eq!(got.len(), values.len());
        assert!(
            got.iter().zip(values).all(|(a, b)| (a - b).abs() <= most),
            "{name}"
        );
    };
    near("b", &all[..192], 1.0 / 127.0);
    near("c", &all, 0.17);
}

/// Values that are filled in as they lie in memory are those of a vector, in one piece or several, whatever is between the file and memory.
#[test]
fn values_are_read_to_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    // Of the last one more values than are decoded at a time.
    let kinds = [
        (GgmlType::F32, 512),
        (GgmlType::F16, 700),
        (GgmlType::BF16, 512),
        (GgmlType::Q6_K, 512),
        (GgmlType::Q4_0, 1 << 18),
    ];
    let specs = kinds.map(|(kind, count)| spec(&kind.to_string(), kind, &[2, count / 2]));
    let mut writer = GgufWriter::begin(&path, &metadata(), &specs).unwrap();
    for (kind, count) in kinds {
        writer.append(&kind.to_string(), &values(count)).unwrap();
    }
    writer.finish().unwrap();
    let file = GgufFile::open(&path).unwrap();
    for (kind, count) in kinds {
        let (name, before) = (kind.to_string(), file.bytes_read());
        let mut bytes = vec![0; 4 * count];
        let (first, second) = bytes.split_at_mut(2 * count);
        file.read_f32_to(&name, (count / 2) as u64, second).unwrap();
        file.read_f32_to(&name, 0, first).unwrap();
        let read = file.bytes_read() - before;
        assert_eq!(read, file.get(&name).unwrap().bytes(), "{name}");
        let got = bytes.as_chunks::<4>().0.iter();
        let got: Vec<f32> = got.map(|four| f32::from_ne_bytes(*four)).collect();
        assert!(got == file.read_f32(&name).unwrap(), "{name}");
        let past = file.read_f32_to(&name, 256, &mut vec![0; 4 * count]);
        assert!(
            matches!(past, Err(WeightsError::DataLength { .. })),
            "{name}"
        );
    }
    let part = file.read_f32_to("Q6_K", 0, &mut [0; 16]).unwrap_err();
    assert!(part.to_string().contains("whole blocks of 256"), "{part}");
}

fn refused(path: &Path, specs: &[GgufSpec]) -> String {
    let refused = GgufWriter::begin(path, &metadata(), specs);
    refused.unwrap_err().to_string()
}

#[test]
fn what_a_reader_would_refuse_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let one = spec("a", GgmlType::F32, &[5]);
    let long = spec(&"n".repeat(65), GgmlType::F32, &[5]);
    let parts = spec("a", GgmlType::Q8_0, &[2, 48]);
    let vast = spec("a", GgmlType::F32, &[usize::MAX, usize::MAX]);
    let deep = spec("a", GgmlType::F32, &[1, 1, 1, 1, 1]);
    for (specs, said) in [
        (vec![one.clone(), one.clone()], "twice"),
        (vec![long], "a name of at most 64 bytes"),
        (vec![parts], "rows of whole blocks of 32 values of Q8_0"),
        (vec![vast], "its size overflows"),
        (vec![deep], "at most 4 extents"),
    ] {
        let text = refused(&path, &specs);
        assert!(text.contains(said), "{said} in {text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn no_file_is_replaced_and_none_is_left_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let specs = [spec("a", GgmlType::Q8_0, &[2, 32])];
    let begin = || GgufWriter::begin(&path, &metadata(), &specs);

    let mut writer = begin().unwrap();
    assert!(matches!(begin().unwrap_err(), WeightsError::Busy(_)));
    writer.append("a", &values(32)).unwrap();
    let unknown = writer.append("b", &values(32)).unwrap_err();
    assert!(matches!(unknown, WeightsError::UnknownTensor(_)));
    let more = writer.append("a", &values(64)).unwrap_err();
    assert!(matches!(more, WeightsError::DataLength { .. }), "{more}");
    let less = writer.finish().unwrap_err();
    assert!(matches!(less, WeightsError::DataLength { .. }), "{less}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let mut writer = begin().unwrap();
    let bad = writer.append("a", &[f32::NAN; 32]).unwrap_err();
    assert!(bad.to_string().starts_with("tensor `a`: expected"), "{bad}");
    writer.append("a", &values(64)).unwrap();
    writer.finish().unwrap();
    let before = fs::read(&path).unwrap();
    let error = begin().unwrap_err();
    assert!(matches!(error, WeightsError::FileExists(_)), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// A vocabulary of either kind comes back, with the tokens that end an answer first by their keys.
#[test]
fn vocabularies_come_back() {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let byte_pairs = Vocabulary {
        model: "gpt2".to_owned(),
        pre: "qwen2".to_owned(),
        tokens: texts(&["a", "b", "ab", "<|im_end|>", "<s>"]),
        merges: texts(&["a b"]),
        types: vec![1, 1, 1, 3, 3],
        bos: Some(4),
        eos: vec![4, 3],
        ..Vocabulary::default()
    };
    let pieces = Vocabulary {
        model: "llama".to_owned(),
        tokens: texts(&["<unk>", "<s>", "</s>", "▁a"]),
        types: vec![2, 3, 3, 1],
        scores: vec![0.0, 0.0, 0.0, -1.5],
        unknown: Some(0),
        bos: Some(1),
        eos: vec![2],
        add_bos: true,
        add_space: false,
        ..Vocabulary::default()
    };
    for vocabulary in [byte_pairs, pieces] {
        let file = GgufWriter::declared("m", &vocabulary.metadata(), &[]).unwrap();
        let read = file.vocabulary().unwrap().unwrap();
        // A file of byte pairs has no such key, and its reader doesn't ask.
        let add_space = vocabulary.add_space || vocabulary.model == "gpt2";
        let expected = Vocabulary {
            add_space,
            ..vocabulary
        };
        assert_eq!(read, expected);
    }
}
