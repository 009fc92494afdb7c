//! Checkpoints read from sources of bytes that aren't files.

use std::io;
use std::sync::Mutex;
use std::thread;

use half::{bf16, f16};
use moebius_weights::gguf::GgufFile;
use moebius_weights::{Dtype, ReadAt, Reader, WeightsError};

use crate::files::{bytes, f32s, file, write};

/// A source of bytes that records its reads, and fails to read past `broken_from`.
#[derive(Debug)]
struct Noted {
    bytes: Vec<u8>,
    broken_from: u64,
    reads: &'static Mutex<Vec<(u64, usize)>>,
}

impl ReadAt for Noted {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.reads.lock().unwrap().push((at, out.len()));
        if at + out.len() as u64 > self.broken_from {
            Err(io::Error::other("the drive was taken out"))
        } else {
            self.bytes.read_at(at, out)
        }
    }
}

fn boxed(name: &str, bytes: Vec<u8>) -> (String, Box<dyn ReadAt>) {
    (name.to_owned(), Box::new(bytes))
}

#[test]
fn files_in_parts_are_one_checkpoint() {
    let first = file(&[f32s("a", &[2], &[1.0, 2.0])]);
    let second = file(&[bytes("b", Dtype::U8, &[3], 7)]);
    let parts = [boxed("one", first.clone()), boxed("two", second)];
    let config = serde_json::json!({ "model_type": "none" });
    let reader = Reader::from_sources(parts, Some(("config.json", config.clone()))).unwrap();
    assert_eq!(reader.read_f32("a").unwrap(), [1.0, 2.0]);
    assert_eq!(reader.read("b").unwrap(), [7; 3]);
    assert_eq!(reader.config(), Some(&config));
    assert_eq!(reader.folder(), None);
    let twice = [boxed("one", first.clone()), boxed("again", first)];
    let error = Reader::from_sources(twice, None).unwrap_err();
    assert!(matches!(error, WeightsError::DuplicateTensor(_)), "{error}");
    assert!(error.to_string().contains("again"), "{error}");
}

#[test]
fn nothing_is_read_before_it_is_asked_for() {
    static READS: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());
    let all = file(&[f32s("a", &[2], &[1.0, 2.0]), f32s("b", &[1], &[3.0])]);
    let data = all.len() as u64 - 12;
    let noted = Noted {
        bytes: all,
        broken_from: data + 8,
        reads: &READS,
    };
    let noted: Box<dyn ReadAt> = Box::new(noted);
    let reader = Reader::from_sources([("held".to_owned(), noted)], None).unwrap();
    let of_data = |reads: &[(u64, usize)]| reads.iter().filter(|(at, _)| *at >= data).count();
    assert_eq!(of_data(&READS.lock().unwrap()), 0);
    assert_eq!(reader.read_f32("a").unwrap(), [1.0, 2.0]);
    assert_eq!(READS.lock().unwrap().last(), Some(&(data, 8)));
    let error = reader.read_f32("b").unwrap_err();
    assert!(matches!(error, WeightsError::Read(_)), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("held") && message.contains("taken out"),
        "{message}"
    );
}

#[test]
fn a_gguf_file_that_can_not_be_read_is_an_error() {
    static READS: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());
    let noted = Noted {
        bytes: vec![0; 64],
        broken_from: 0,
        reads: &READS,
    };
    let error = GgufFile::from_source("held.gguf", Box::new(noted)).unwrap_err();
    assert!(matches!(error, WeightsError::Read(_)), "{error}");
    let short = GgufFile::from_source("short.gguf", Box::new(b"GGU".to_vec()));
    assert!(matches!(short, Err(WeightsError::Gguf(_))));
}

/// Several threads read a file, each where it wants to, and share what is long.
#[test]
fn threads_read_one_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let count = (5 << 20) + 123;
    let all: Vec<u8> = (0..count).map(|at| ((at * 31) >> 7) as u8).collect();
    let stored = file(&[("a", Dtype::U8, vec![count], all.clone())]);
    write(folder.path(), "model.safetensors", stored);
    let reader = Reader::open(folder.path()).unwrap();
    assert!(reader.read("a").unwrap() == all);
    thread::scope(|scope| {
        for part in all.chunks(700_001).enumerate() {
            let reader = &reader;
            scope.spawn(move || {
                let (number, want) = part;
                let mut got = vec![0; want.len()];
                let at = number as u64 * 700_001;
                reader.read_part("a", at, &mut got).unwrap();
                assert!(got == want, "from {at} on");
            });
        }
    });
    assert_eq!(reader.bytes_read(), 2 * count as u64);
}

/// Values in 16 and 64 bits are filled in like those of a vector.
#[test]
fn values_are_read_to_memory() {
    let numbers = [1.5, -2.0, 0.0, 65504.0, 6e-8, -1.0 / 3.0];
    let stored = |dtype: Dtype| -> Vec<u8> {
        let bytes = |value: f64| match dtype {
            Dtype::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        numbers.repeat(100).into_iter().flat_map(bytes).collect()
    };
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        let all = file(&[("a", dtype, vec![600], stored(dtype))]);
        let reader = Reader::from_bytes("held", all).unwrap();
        let mut bytes = vec![0; 4 * 590];
        reader.read_f32_to("a", 7, &mut bytes).unwrap();
        let got = bytes.as_chunks::<4>().0.iter();
        let want = reader.read_f32_part("a", 7..597).unwrap();
        assert!(
            got.map(|four| f32::from_ne_bytes(*four)).eq(want),
            "{dtype}"
        );
        let past = reader.read_f32_to("a", 11, &mut bytes).unwrap_err();
        assert!(matches!(past, WeightsError::DataLength { .. }), "{past}");
    }
}
