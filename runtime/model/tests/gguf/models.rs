//! GGUF files that the Python package `gguf` wrote (`tests/cases/gguf/make_gguf.py`) give the logits of the same models in safetensors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use half::f16;
use moebius_model::load::{LoadOptions, ModelFiles, Progress};
use moebius_weights::{Dtype, Reader, TensorSpec, Writer};

use crate::cases;

/// Names of models, and whether their matrices are stored in 16 bits.
const MODELS: [(&str, bool); 24] = [
    ("deepseek_v2_f32", false),
    ("deepseek_v2_lite_f32", false),
    ("dots1_f16", true),
    ("ernie4_5_moe_f32", false),
    ("gemma3_f32", false),
    ("glm4_moe_f16", true),
    ("gpt_oss_f16", true),
    ("granite_f32", false),
    ("granitemoe_f32", false),
    ("hunyuan_v1_dense_f32", false),
    ("hunyuan_v1_moe_f32", false),
    ("lfm2_f32", false),
    ("lfm2_moe_f32", false),
    ("llama4_f32", false),
    ("llama_f32", false),
    ("llama_f16", true),
    ("minimax_m2_f16", true),
    ("ministral3_f32", false),
    ("mixtral_f32", false),
    ("olmoe_f16", true),
    ("phi3_f32", false),
    ("qwen2_f16", true),
    ("qwen2_moe_f16", true),
    ("qwen3_moe_f16", true),
];

fn integers(reader: &Reader, name: &str) -> Vec<i32> {
    let bytes = reader.read(name).unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|&word| i32::from_le_bytes(word)).collect()
}

fn logits(files: &ModelFiles, tokens: &[i32]) -> Vec<f32> {
    let device = Device::flex();
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    let data = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    let tokens = Tensor::<2, Int>::from_data(data, &device);
    let logits = model.unwrap().forward(tokens).unwrap().logits;
    logits.into_data().iter().collect()
}

/// The relative difference ‖a − b‖ / ‖b‖.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let differences = a.iter().zip(b).map(|(a, b)| f64::from(a - b));
    let all = square(&mut b.iter().map(|&b| f64::from(b)));
    (square(&mut differences.into_iter()) / all).sqrt()
}

/// Copies the checkpoint in `from` to `to` with matrices rounded to 16 bits; vectors and routers stay f32.
fn halved(from: &Path, to: &Path) {
    let reader = Reader::open(from).unwrap();
    let specs = reader.tensors().map(|(name, info)| {
        let routers = ["mlp.gate.weight", "moe.gate.weight", "mlp.router.weight"];
        let router = routers.iter().any(|ending| name.ends_with(ending));
        TensorSpec {
            name: name.to_owned(),
            dtype: if info.shape.len() == 1 || router {
                Dtype::F32
            } else {
                Dtype::F16
            },
            shape: info.shape.clone(),
        }
    });
    let specs: Vec<_> = specs.collect();
    let mut writer = Writer::folder(to, &specs, &BTreeMap::new(), None).unwrap();
    for TensorSpec { name, dtype, .. } in &specs {
        let values = reader.read_f32(name).unwrap().into_iter();
        let bytes: Vec<u8> = match dtype {
            Dtype::F16 => values
                .flat_map(|v| f16::from_f32(v).to_le_bytes())
                .collect(),
            _ => values.flat_map(f32::to_le_bytes).collect(),
        };
        writer.append(name, &bytes).unwrap();
    }
    writer.finish().unwrap();
    fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
}

#[test]
fn models_compute_what_their_safetensors_do() {
    for (name, half) in MODELS {
        let folder = cases(&format!("decoder_{}", &name[..name.len() - 4]));
        let case = Reader::open(&folder.join("logits.case.safetensors")).unwrap();
        let tokens = integers(&case, "in.tokens");
        let rounded = tempfile::tempdir().unwrap();
        let other = if half {
            halved(&folder, rounded.path());
            ModelFiles::open(rounded.path()).unwrap()
        } else {
            ModelFiles::open(&folder).unwrap()
        };
        let file = cases("gguf").join(format!("{name}.gguf"));
        let files = ModelFiles::open(&file).unwrap();
        assert_eq!(files.family(), other.family());
        assert!(files.gguf().is_some() && files.reader().is_none());
        let difference = difference(&logits(&files, &tokens), &logits(&other, &tokens));
        // GGUF rounds the frequencies of Llama and Hunyuan and the factors of others once more, to 32 bits.
        let factors = [
            "deepseek_v2",
            "granite",
            "hunyuan",
            "llama",
            "ministral3",
            "phi3",
        ];
        let rounded = factors.iter().any(|family| name.starts_with(family));
        let most = if rounded { 1e-6 } else { 0.0 };
        assert!(difference <= most, "{name}: {difference}");
    }
}

#[test]
fn quantized_weights_stand_for_what_another_program_decodes() {
    let case = Reader::open(&cases("gguf/logits.safetensors")).unwrap();
    let files = ModelFiles::open(&cases("gguf/quantized.gguf")).unwrap();
    let kinds: std::collections::BTreeSet<_> = files
        .gguf()
        .unwrap()
        .tensors()
        .map(|(_, info)| info.kind.name())
        .collect();
    let all = ["BF16", "F32", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q8_0"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    let got = logits(&files, &integers(&case, "tokens"));
    let difference = difference(&got, &case.read_f32("logits").unwrap());
    assert!(difference <= 1e-5, "{difference}");
}

#[test]
fn a_loading_reads_each_tensor_once() {
    let device = Device::flex();
    let files = ModelFiles::open(&cases("gguf/mixtral_f32.gguf")).unwrap();
    let before = files.gguf().unwrap().bytes_read();
    let (mut last, mut bytes) = (0, 0);
    let mut progress = |progress: Progress<'_>| {
        assert!(progress.read > last && !progress.tensor.is_empty());
        (last, bytes) = (progress.read, progress.bytes);
    };
    let options = LoadOptions {
        dtype: DType::F32,
        ..LoadOptions::default()
    };
    files.load(&device, options, &mut progress).unwrap();
    assert_eq!(last, bytes);
    assert_eq!(files.gguf().unwrap().bytes_read() - before, bytes);
}
