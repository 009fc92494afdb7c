//! Files that PyTorch and the `safetensors` package wrote (`tests/cases/make_weights.py`).

use std::path::{Path, PathBuf};

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::Granularity;
use moebius_weights::{Reader, Unscaled};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases/weights")
        .join(name)
}

/// Compares every FP8 weight with its expected values, bit by bit: both sides multiply once in f32.
fn compare(checkpoint: &str, expected: &str, count: usize) -> Reader {
    let reader = Reader::open(&case(checkpoint)).unwrap();
    let expected = Reader::open(&case(expected)).unwrap();
    let layouts = reader.fp8_layouts(Unscaled::Refuse).unwrap();
    assert_eq!((layouts.len(), expected.tensors().count()), (count, count));
    for layout in layouts {
        let values = reader.fp8_weight(&layout).unwrap().dequantize().unwrap();
        let want = expected.read_f32(&layout.name).unwrap();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let same = bits(&values) == bits(&want);
        assert!(same, "{} {}", layout.name, layout.scheme);
    }
    reader
}

#[test]
fn deepseek_blocks_in_two_files() {
    let reader = compare("blocks", "expected_blocks.safetensors", 3);
    let block = Granularity::of_blocks(16, 16);
    for layout in reader.fp8_layouts(Unscaled::Refuse).unwrap() {
        assert_eq!(layout.scheme.granularity, block, "{}", layout.name);
    }
    assert_eq!(reader.read_f32("model.norm.weight").unwrap(), [1.0; 40]);
    assert_eq!(reader.metadata().get("format"), Some(&"pt"));
    // The index file opens the same checkpoint.
    let index = Reader::open(&case("blocks/model.safetensors.index.json")).unwrap();
    assert_eq!(index.names_in_order(), reader.names_in_order());
}

#[test]
fn every_other_scheme_in_one_file() {
    let reader = compare("schemes.safetensors", "expected_schemes.safetensors", 13);
    let scheme = |name: &str| {
        let layout = reader.fp8_layout(name, Unscaled::Refuse).unwrap();
        (layout.scheme.format, layout.scheme.granularity)
    };
    let (e4m3, e5m2) = (Fp8Format::E4M3, Fp8Format::E5M2);
    let block = Granularity::of_blocks;
    for (name, format, granularity) in [
        ("row_column_e4m3.weight", e4m3, Granularity::Row),
        ("row_flat_e5m2.weight", e5m2, Granularity::Row),
        ("tensor_scalar_e5m2.weight", e5m2, Granularity::Tensor),
        ("inferred.weight", e4m3, block(128, 128)),
        ("mx_bytes.weight", e4m3, Granularity::Mx),
        ("mx_typed.weight", e4m3, Granularity::Mx),
        ("mlp.experts.gate_up_proj", e4m3, block(4, 16)),
        ("mlp.experts.down_proj", e5m2, Granularity::Tensor),
    ] {
        assert_eq!(scheme(name), (format, granularity), "{name}");
    }
    let layout = reader
        .fp8_layout("tensor_scalar_e4m3.weight", Unscaled::Refuse)
        .unwrap();
    assert_eq!(reader.fp8_weight(&layout).unwrap().input_scale, Some(0.125));
}
