//! Peak memory of a conversion, as the system counts it, in a process of its own.
#![cfg(target_os = "linux")] // where the peak can be read and reset
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_weights::{ConvertOptions, Quantize, Reader, convert, host_quantizer};
use serde_json::{Map, Value, json};

/// Rows and columns of a matrix.
const MATRIX: [usize; 2] = [512, 512];

/// Writes a checkpoint in f32, one row at a time: `matrices` projections, and a stack of as many experts.
fn checkpoint(path: &Path, matrices: usize, [rows, columns]: [usize; 2]) {
    let bytes = rows * columns * 4;
    let mut header = Map::new();
    let mut entry = |name: String, shape: Value, from: usize, to: usize| {
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, to] });
        header.insert(name, entry);
    };
    for i in 0..matrices {
        let name = format!("model.layers.{i}.self_attn.q_proj.weight");
        entry(name, json!([rows, columns]), i * bytes, (i + 1) * bytes);
    }
    let experts = json!([matrices, rows, columns]);
    let name = "model.layers.0.mlp.experts.gate_up_proj".to_owned();
    entry(name, experts, matrices * bytes, 2 * matrices * bytes);
    let header = Value::Object(header).to_string();
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    for row in 0..2 * matrices * rows {
        let values = (0..columns).map(|column| ((row * columns + column) as f32 * 0.37).sin());
        let row: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        file.write_all(&row).unwrap();
    }
}

/// The value in bytes of the line `field` of the process's status.
fn status(field: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.unwrap().trim().split(' ').next().unwrap();
    kib.parse::<usize>().unwrap() << 10
}

const SCHEME: Fp8Scheme = Fp8Scheme {
    format: Fp8Format::E4M3,
    granularity: Granularity::Row,
};

/// Runs a conversion, and returns how far the process's memory rose above its earlier level.
fn rise(source: &Path, target: &Path, quantize: &mut Quantize<'_>) -> usize {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let source = Reader::open(source).unwrap();
    let options = ConvertOptions::new(SCHEME);
    let report = convert(&source, target, &options, quantize, &mut |_, _, _| ()).unwrap();
    assert!(report.layers.len() > 1);
    status("VmHWM:").saturating_sub(before)
}

#[test]
fn a_checkpoint_takes_one_matrix_and_its_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    checkpoint(&path("small.safetensors"), 2, [32, 64]);
    checkpoint(&path("large.safetensors"), 12, MATRIX);
    let matrix = MATRIX[0] * MATRIX[1] * 4;
    // A matrix in f32, its codes, and the chunk of bytes that values are read from; the rest is for the allocator.
    let most = matrix + matrix / 4 + (2 << 20) + (1 << 20);
    let mut host = host_quantizer(SCHEME);
    // The first pass brings code and buffers into memory.
    let (small, large) = (path("small.safetensors"), path("large.safetensors"));
    rise(&small, &path("warm.safetensors"), &mut host);
    let rose = rise(&large, &path("out.safetensors"), &mut host);
    println!("{} KiB more, a matrix has {}", rose >> 10, matrix >> 10);
    assert!(rose <= most, "at most {most} bytes more, got {rose}");

    // A quantiser that keeps all its inputs must exceed the limit.
    let mut kept = Vec::new();
    let mut keeps = |values: &[f32], rows: usize, columns: usize| {
        kept.push(values.to_vec());
        host(values, rows, columns)
    };
    let rose = rise(&large, &path("kept.safetensors"), &mut keeps);
    assert!(rose > most, "{rose} bytes more, and everything was kept");
}
