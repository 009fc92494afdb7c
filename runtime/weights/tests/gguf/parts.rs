//! A model in several files.

use std::fs;
use std::path::Path;

use moebius_weights::gguf::GgufFile;

use crate::builder::Builder;

/// Part `number` of three, with a tensor of two F32 values: the number, and its negative.
fn part(folder: &Path, number: u32) {
    let mut built = Builder::new()
        .size("split.count", 3)
        .size("split.no", number - 1)
        .size("split.tensors.count", 3)
        .tensor(&format!("t{number}"), &[2], 0, 8);
    let values = [number as f32, -(number as f32)];
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    built.data[..8].copy_from_slice(&bytes);
    let path = folder.join(format!("m-{number:05}-of-00003.gguf"));
    fs::write(path, built.bytes()).unwrap();
}

/// Tensors of the first file, too, whose bytes end before the other files begin.
#[test]
fn tensors_of_all_three_parts_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        part(folder.path(), number);
    }
    for named in 1..=3 {
        let path = folder.path().join(format!("m-{named:05}-of-00003.gguf"));
        let file = GgufFile::open(&path).unwrap();
        for (name, value) in [("t1", 1.0_f32), ("t2", 2.0), ("t3", 3.0)] {
            assert_eq!(file.read_f32(name).unwrap(), [value, -value], "{name}");
        }
    }
}
