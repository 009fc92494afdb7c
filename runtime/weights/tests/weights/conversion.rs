//! Conversions of checkpoints to FP8: nothing else changes, and nothing is lost.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use moebius_ops::fp8::Fp8Format;
use moebius_ops::quantize::quantize_host;
use moebius_ops::scaling::{Fp8Scheme, Granularity, HostScales};
use moebius_weights::{
    Action, ConvertOptions, ConvertReport, Dtype, Reader, Unscaled, WeightsError, convert,
    host_quantizer,
};
use serde_json::{Value, json};

use crate::files::{Tensor, bytes, f32s, file, names, noise, write};

const E4M3: Fp8Format = Fp8Format::E4M3;
pub(crate) const BLOCK: Granularity = Granularity::Block {
    rows: 16,
    columns: 16,
};

pub(crate) fn scheme(granularity: Granularity) -> Fp8Scheme {
    Fp8Scheme {
        format: E4M3,
        granularity,
    }
}

/// Runs a conversion on the host, without reports of progress.
pub(crate) fn run(
    source: &Path,
    target: &Path,
    options: &ConvertOptions,
) -> Result<ConvertReport, WeightsError> {
    let source = Reader::open(source)?;
    let mut quantize = host_quantizer(options.scheme);
    convert(&source, target, options, &mut quantize, &mut |_, _, _| ())
}

fn bf16(name: &'static str, shape: &[usize], seed: u32) -> Tensor {
    let values = noise(shape.iter().product(), seed);
    // The upper half of an f32 is a bf16.
    let bytes = values
        .iter()
        .flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes())
        .collect();
    (name, Dtype::BF16, shape.to_vec(), bytes)
}

pub(crate) const Q: &str = "model.layers.0.self_attn.q_proj.weight";
pub(crate) const UP: &str = "model.layers.0.mlp.experts.gate_up_proj";

/// The tensors of a small model: a projection, stacked experts, and tensors that aren't converted.
pub(crate) fn model() -> Vec<Tensor> {
    vec![
        bf16("model.embed_tokens.weight", &[20, 24], 1),
        f32s(Q, &[33, 24], &noise(33 * 24, 2)),
        f32s("model.layers.0.self_attn.q_proj.bias", &[33], &noise(33, 3)),
        bf16(UP, &[3, 24, 40], 4),
        bf16("model.layers.0.mlp.experts.gate_up_proj_bias", &[3, 40], 5),
        bf16("model.layers.0.mlp.gate.weight", &[3, 24], 6),
        bf16("model.norm.weight", &[24], 7),
        bytes("model.mask", Dtype::BOOL, &[5], 1),
        bf16("lm_head.weight", &[20, 24], 8),
    ]
}

pub(crate) fn folder_of(tensors: &[Tensor]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (first, second) = tensors.split_at(tensors.len() / 2);
    write(path, "model-1.safetensors", file(first));
    write(path, "model-2.safetensors", file(second));
    let mut map = serde_json::Map::new();
    for (number, part) in [(1, first), (2, second)] {
        let name = format!("model-{number}.safetensors");
        map.extend(part.iter().map(|t| (t.0.to_owned(), json!(name))));
    }
    let index = json!({ "weight_map": Value::Object(map) });
    write(path, "model.safetensors.index.json", index.to_string());
    let config = r#"{"hidden_size": 24, "quantization_config": null}"#;
    write(path, "config.json", config);
    write(path, "tokenizer.json", "{}");
    write(path, "hf_quant_config.json", "{}");
    write(path, "pytorch_model.bin", "old");
    folder
}

#[test]
fn matrices_become_fp8_and_the_rest_stays() {
    let source = folder_of(&model());
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("new/fp8");
    let report = run(source.path(), &target, &ConvertOptions::new(scheme(BLOCK))).unwrap();
    let layers = report.layers.iter();
    let layers: Vec<_> = layers
        .map(|l| (&l.name[..], l.action, &l.from[..]))
        .collect();
    let action = Action::Quantized;
    assert_eq!(layers, [(Q, action, "F32"), (UP, action, "BF16")]);
    assert_eq!(report.layers[0].bytes_before, 33 * 24 * 4);
    assert_eq!(report.layers[0].bytes_after, 33 * 24 + 3 * 2 * 4);
    for layer in &report.layers {
        assert!(layer.relative_rms > 0.005 && layer.relative_rms < 0.04 && layer.max_abs > 0.0);
    }
    let files = report.files.iter();
    let sizes = files.map(|file| fs::metadata(file).unwrap().len());
    assert_eq!(report.bytes_after, sizes.sum::<u64>());
    assert!(report.bytes_after < report.bytes_before);
    assert_eq!(report.copied_files, ["config.json", "tokenizer.json"]);
    let left_out = ["hf_quant_config.json", "pytorch_model.bin"];
    assert_eq!(report.left_out, left_out);
    let written = ["config.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(names(&target), written);
    assert_eq!(names(target.parent().unwrap()), ["fp8"]);
}

#[test]
fn codes_scales_and_all_the_rest_are_in_the_target() {
    let source = folder_of(&model());
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("fp8");
    let report = run(source.path(), &target, &ConvertOptions::new(scheme(BLOCK))).unwrap();
    let [old, new] = [source.path(), target.as_path()].map(|path| Reader::open(path).unwrap());
    assert_eq!(report.copied_tensors, 7);
    for (name, _, _, bytes) in model().iter().filter(|(name, ..)| ![Q, UP].contains(name)) {
        assert_eq!(new.get(name).unwrap().dtype, old.get(name).unwrap().dtype);
        assert_eq!(&new.read(name).unwrap(), bytes, "{name}");
    }
    assert_eq!(new.tensors().count(), model().len() + 2);
    let layout = new.fp8_layout(UP, Unscaled::Refuse).unwrap();
    let scale = "model.layers.0.mlp.experts.gate_up_proj_scale_inv";
    assert_eq!(layout.scheme, scheme(BLOCK));
    assert_eq!(layout.scale.as_deref(), Some(scale));
    let weight = new.fp8_weight(&layout).unwrap();
    let values = old.read_f32(UP).unwrap();
    for expert in 0..3 {
        let want = quantize_host(&values[expert * 960..][..960], 24, 40, scheme(BLOCK)).unwrap();
        assert_eq!(weight.codes[expert * 960..][..960], want.codes);
        let scales = weight.scales.to_f32()[expert * 6..][..6].to_vec();
        assert_eq!(HostScales::F32(scales), want.scales);
    }
    let config = new.config().unwrap();
    assert_eq!(config["hidden_size"], 24);
    let quantization = &config["quantization_config"];
    assert_eq!(quantization["weight_block_size"], json!([16, 16]));
    let ignored = ["model.embed_tokens", "model.layers.0.mlp.gate", "lm_head"];
    assert_eq!(quantization["modules_to_not_convert"], json!(ignored));
}

#[test]
fn every_granularity_is_found_again() {
    let source = folder_of(&model());
    let odd = Granularity::Block {
        rows: 7,
        columns: 11,
    };
    let [tensor, row, mx] = [Granularity::Tensor, Granularity::Row, Granularity::Mx];
    for granularity in [tensor, row, mx, BLOCK, odd] {
        for format in [E4M3, Fp8Format::E5M2] {
            let scheme = Fp8Scheme {
                format,
                granularity,
            };
            let out = tempfile::tempdir().unwrap();
            // A single file has no configuration that could declare the block size.
            for name in ["folder", "one.safetensors"] {
                let target = out.path().join(name);
                run(source.path(), &target, &ConvertOptions::new(scheme)).unwrap();
                let reader = Reader::open(&target).unwrap();
                let layouts = reader.fp8_layouts(Unscaled::Refuse).unwrap();
                let schemes: Vec<_> = layouts.iter().map(|layout| layout.scheme).collect();
                assert_eq!(schemes, [scheme; 2], "{}", target.display());
            }
        }
    }
}

#[test]
fn nothing_is_read_ahead_and_one_matrix_is_held() {
    let source = folder_of(&model());
    let out = tempfile::tempdir().unwrap();
    let reader = Reader::open(source.path()).unwrap();
    let order: Vec<&str> = reader.names_in_order();
    let size = |name: &str| reader.get(name).unwrap().bytes();
    let sizes = |names: &[String]| names.iter().map(|name| size(name)).sum::<u64>();
    let options = ConvertOptions::new(scheme(Granularity::Row));
    // Names of the steps begun, and names and sizes of the matrices passed to the quantiser.
    let begun: RefCell<Vec<String>> = RefCell::default();
    let handed: RefCell<Vec<(String, usize)>> = RefCell::default();
    let mut host = host_quantizer(options.scheme);
    let mut quantize = |values: &[f32], rows: usize, columns: usize| {
        let name = begun.borrow().last().cloned().unwrap();
        let before = sizes(&begun.borrow()) - size(&name);
        let earlier = handed.borrow().iter().filter(|(n, _)| *n == name).count() as u64 + 1;
        let info = reader.get(&name).unwrap();
        let expert = (values.len() * info.dtype.bitsize() / 8) as u64;
        // So far, all earlier tensors have been read, and this tensor's experts up to the present one.
        assert_eq!(reader.bytes_read(), before + earlier * expert, "{name}");
        handed.borrow_mut().push((name, values.len()));
        host(values, rows, columns)
    };
    let mut progress = |name: &str, number: usize, of: usize| {
        assert_eq!((number, of), (begun.borrow().len(), order.len()));
        let before = sizes(&begun.borrow());
        assert_eq!(reader.bytes_read(), before, "read before its turn: {name}");
        begun.borrow_mut().push(name.to_owned());
    };
    let target = out.path().join("x");
    convert(&reader, &target, &options, &mut quantize, &mut progress).unwrap();
    assert_eq!(*begun.borrow(), order);
    assert_eq!(reader.bytes_read(), sizes(&begun.borrow()));
    let expected = [(Q, 33 * 24), (UP, 960), (UP, 960), (UP, 960)];
    let expected = expected.map(|(name, len)| (name.to_owned(), len));
    assert_eq!(*handed.borrow(), expected);
}

/// A calibrated FP8 weight with scales of rows, and a weight that isn't FP8.
fn mixed() -> Vec<Tensor> {
    let quantized = quantize_host(&noise(20 * 24, 3), 20, 24, scheme(Granularity::Row)).unwrap();
    let scales = quantized.scales.to_bytes();
    vec![
        ("w.weight", Dtype::F8_E4M3, vec![20, 24], quantized.codes),
        ("w.weight_scale", Dtype::F32, vec![20], scales),
        f32s("w.input_scale", &[], &[0.5]),
        bytes("rope", Dtype::F8_E5M2, &[6], 0x3C),
        ("f64.weight", Dtype::F64, vec![2, 1], vec![7; 16]),
    ]
}

#[test]
fn fp8_of_the_same_kind_is_carried_over() {
    let source = folder_of(&mixed());
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("x");
    let options = ConvertOptions::new(scheme(Granularity::Row));
    let report = run(source.path(), &target, &options).unwrap();
    let layer = &report.layers[0];
    let got = (layer.action, layer.relative_rms, &layer.from[..]);
    assert_eq!(got, (Action::Carried, 0.0, "e4m3 row"));
    assert_eq!((layer.bytes_before, layer.bytes_after), (20 * 28, 20 * 28));
    let new = Reader::open(&target).unwrap();
    for (name, _, _, bytes) in mixed() {
        assert_eq!(new.read(name).unwrap(), bytes, "{name}");
    }
    // Scales are written in the shape that other loaders read.
    assert_eq!(new.get("w.weight_scale").unwrap().shape, [20, 1]);
    let inputs = &new.config().unwrap()["quantization_config"]["config_groups"]["group_0"]["input_activations"];
    assert_eq!(inputs["dynamic"], false);
}

#[test]
fn fp8_of_another_kind_is_quantised_again() {
    let source = folder_of(&mixed());
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("x");
    let options = ConvertOptions::new(Fp8Scheme {
        format: Fp8Format::E5M2,
        granularity: BLOCK,
    });
    let report = run(source.path(), &target, &options).unwrap();
    let layer = &report.layers[0];
    assert_eq!(layer.action, Action::Requantized);
    let rms = layer.relative_rms;
    assert!(rms > 0.01 && rms < 0.07, "{rms}");
    let [old, new] = [source.path(), target.as_path()].map(|path| Reader::open(path).unwrap());
    let values = |reader: &Reader| {
        let layout = reader.fp8_layout("w.weight", Unscaled::Refuse).unwrap();
        reader.fp8_weight(&layout).unwrap().dequantize().unwrap()
    };
    let want = quantize_host(&values(&old), 20, 24, options.scheme).unwrap();
    assert_eq!(new.read("w.weight").unwrap(), want.codes);
    let old_scales = new.get("w.weight_scale");
    assert!(old_scales.is_none(), "the old scales are gone");
    assert_eq!(new.read_f32("w.input_scale").unwrap(), [0.5]);
    let squares = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let pairs = values(&old).into_iter().zip(values(&new));
    let difference: Vec<f32> = pairs.map(|(a, b)| a - b).collect();
    let relative = (squares(&difference) / squares(&values(&old))).sqrt();
    assert!((relative - layer.relative_rms).abs() < 1e-6, "{relative}");
    let largest = difference.iter().fold(0.0, |m: f32, d| m.max(d.abs()));
    assert_eq!(largest, layer.max_abs);
}

#[test]
fn patterns_keep_weights_as_they_are() {
    let source = folder_of(&model());
    let out = tempfile::tempdir().unwrap();
    let mut options = ConvertOptions::new(scheme(BLOCK));
    options.skip.push("*.q_proj.*".to_owned());
    let report = run(source.path(), &out.path().join("x"), &options).unwrap();
    assert_eq!(report.layers.len(), 1);
    options.skip.clear();
    let report = run(source.path(), &out.path().join("y"), &options).unwrap();
    assert_eq!(report.layers.len(), 5, "{:?}", report.layers);

    let source = folder_of(&mixed());
    options.skip.push("w.*".to_owned());
    let error = run(source.path(), &out.path().join("z"), &options).unwrap_err();
    assert!(matches!(error, WeightsError::SkippedFp8 { .. }), "{error}");
    assert!(error.to_string().contains("it is e4m3 row"), "{error}");
    options.scheme = scheme(Granularity::Row);
    run(source.path(), &out.path().join("z"), &options).unwrap();
}

#[test]
fn values_that_are_no_numbers_are_counted() {
    let mut values = noise(32 * 32, 1);
    values[7] = f32::NAN;
    values[900] = f32::INFINITY;
    let source = folder_of(&[
        f32s("w.weight", &[32, 32], &values),
        f32s("e.weight", &[0, 4], &[]),
    ]);
    let out = tempfile::tempdir().unwrap();
    for granularity in [BLOCK, Granularity::Tensor] {
        let folder = format!("{granularity:?}").len().to_string();
        let target = out.path().join(folder);
        let options = ConvertOptions::new(scheme(granularity));
        let report = run(source.path(), &target, &options).unwrap();
        let layers = &report.layers;
        let by_name = |name| layers.iter().find(|layer| layer.name == name).unwrap();
        let (layer, empty) = (by_name("w.weight"), by_name("e.weight"));
        assert_eq!((layer.non_finite, empty.non_finite), (2, 0));
        assert!(layer.relative_rms < 0.04 && empty.relative_rms == 0.0);
        let reader = Reader::open(&target).unwrap();
        assert_eq!(reader.read("w.weight").unwrap()[7] & 0x7F, 0x7F);
        assert_eq!(reader.fp8_layouts(Unscaled::Refuse).unwrap().len(), 2);
    }
}

#[test]
fn a_checkpoint_of_another_program_is_converted() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/weights/blocks");
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("x");
    let mut options = ConvertOptions::new(scheme(BLOCK));
    options.shard_bytes = Some(2000);
    let report = run(&source, &target, &options).unwrap();
    let mut layers = report.layers.iter();
    assert!(layers.all(|layer| layer.action == Action::Carried));
    let files = &report.files;
    assert_eq!(files.len(), 4, "three files and an index: {files:?}");
    let [old, new] = [&source, &target].map(|path| Reader::open(path).unwrap());
    for layout in old.fp8_layouts(Unscaled::Refuse).unwrap() {
        let carried = new.fp8_layout(&layout.name, Unscaled::Refuse).unwrap();
        let values =
            |reader: &Reader, layout| reader.fp8_weight(layout).unwrap().dequantize().unwrap();
        let (before, after) = (values(&old, &layout), values(&new, &carried));
        assert_eq!(before, after, "{}", layout.name);
    }
}
