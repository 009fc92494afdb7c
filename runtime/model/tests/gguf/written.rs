//! GGUF files that are written compute what the folders that they are made of do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius_model::decoder::Drawn;
use moebius_model::families::describe;
use moebius_model::load::{LoadOptions, ModelFiles, Progress};
use moebius_model::{Beside, Error, GgufOptions, GgufReport, GgufTypes, save, save_gguf};
use moebius_weights::gguf::{
    ENCODED, GgmlType, GgufFile, GgufSpec, GgufValue, GgufWriter, Vocabulary,
};
use moebius_weights::{Dtype, Reader, TensorSpec, Writer};
use serde_json::{Value, json};

use crate::cases;

/// Models whose files can be written.
const WRITTEN: [&str; 24] = [
    "deepseek_v2",
    "deepseek_v2_lite",
    "deepseek_v3_fp8",
    "dots1",
    "ernie4_5_moe",
    "gemma3",
    "glm4_moe",
    "gpt_oss",
    "gpt_oss_mxfp4",
    "granite",
    "granitemoe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "lfm2",
    "lfm2_moe",
    "llama",
    "minimax_m2",
    "ministral3",
    "mistral3",
    "mixtral",
    "olmoe",
    "qwen2",
    "qwen2_moe",
    "qwen3_moe",
];

fn of_f32() -> GgufOptions<'static> {
    of_kind(GgmlType::F32)
}

pub(crate) fn of_kind(kind: GgmlType) -> GgufOptions<'static> {
    GgufOptions {
        types: GgufTypes::of(kind).unwrap(),
        vocabulary: None,
        chat_template: None,
    }
}

fn logits(path: &Path) -> Vec<f32> {
    let device = Device::flex();
    let files = ModelFiles::open(path).unwrap();
    // Values that are written are those that codes stand for.
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    let model = files.load(&device, options, &mut |_| ());
    let tokens: Vec<i32> = (0..24).map(|at| (at * 13 + 5) % 97).collect();
    let data = TensorData::new(tokens, [1, 24]);
    let tokens = Tensor::<2, Int>::from_data(data, &device);
    let logits = model.unwrap().forward(tokens).unwrap().logits;
    logits.into_data().iter().collect()
}

/// The relative difference ‖a − b‖ / ‖b‖.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pairs = a.iter().zip(b);
    let off = squares(&mut pairs.map(|(&a, &b)| f64::from(a) - f64::from(b)));
    (off / squares(&mut b.iter().map(|&b| f64::from(b)))).sqrt()
}

pub(crate) fn written(
    from: &Path,
    to: &Path,
    options: GgufOptions<'_>,
) -> Result<GgufReport, Error> {
    save_gguf(&ModelFiles::open(from)?, options, to, &mut |_| ())
}

#[test]
fn files_compute_what_their_folders_do() {
    let folder = tempfile::tempdir().unwrap();
    for name in WRITTEN {
        let (from, to) = (
            cases(&format!("decoder_{name}")),
            folder.path().join(format!("{name}.gguf")),
        );
        let report =
            written(&from, &to, of_f32()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            report.other_type.is_empty() && report.note.is_none(),
            "{name}"
        );
        assert!(
            report.tensors.iter().all(|of| of.relative_rms == 0.0),
            "{name}"
        );
        // GGUF has frequencies and factors in 32 bits.
        let off = difference(&logits(&to), &logits(&from));
        assert!(off <= 1e-6, "{name}: {off}");
    }
}

/// Every folder is either written, or refused with the name of its family, and then nothing is left.
#[test]
fn families_that_cannot_be_written_are_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("m.gguf");
    for entry in fs::read_dir(cases("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_prefix("decoder_").filter(|_| path.is_dir()) else {
            continue;
        };
        if WRITTEN.contains(&name) {
            continue;
        }
        let files = ModelFiles::open(&path).unwrap();
        let error = written(&path, &to, of_f32()).unwrap_err();
        let typed = matches!(error, Error::Config(_));
        let text = error.to_string();
        assert!(
            typed && text.contains(&format!("`{}`", files.family())),
            "{name}: {text}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
}

/// A model with a head of its own, from a configuration without windows.
#[test]
fn models_without_windows_are_written_where_those_with_windows_are_not() {
    let folder = tempfile::tempdir().unwrap();
    for (family, key) in [
        ("mistral", "sliding_window"),
        ("qwen3", "use_sliding_window"),
    ] {
        let case = cases(&format!("decoder_{family}"));
        let from = folder.path().join(family);
        fs::create_dir(&from).unwrap();
        fs::copy(
            case.join("model.safetensors"),
            from.join("model.safetensors"),
        )
        .unwrap();
        let mut config: Value =
            serde_json::from_slice(&fs::read(case.join("config.json")).unwrap()).unwrap();
        config[key] = if family == "mistral" {
            Value::Null
        } else {
            json!(false)
        };
        config.as_object_mut().unwrap().remove("layer_types");
        fs::write(from.join("config.json"), config.to_string()).unwrap();
        let to = folder.path().join(format!("{family}.gguf"));
        written(&from, &to, of_f32()).unwrap();
        assert!(difference(&logits(&to), &logits(&from)) <= 1e-6, "{family}");
    }
}

/// A configuration with rows of 256 and 288 values, the latter of which are no whole blocks of K types, and a drawn model of it.
pub(crate) fn drawn(family: &str, to: &Path) {
    let config = json!({
        "model_type": family, "vocab_size": 99, "hidden_size": 256, "intermediate_size": 288,
        "moe_intermediate_size": 288, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0,
        "num_local_experts": 3, "num_experts": 3, "num_experts_per_tok": 2, "norm_topk_prob": true,
        "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
    });
    let spec = describe(&config).unwrap().spec;
    save(&mut Drawn::new(&spec, 7), &config, Beside::default(), to).unwrap();
}

/// The values that a type has for those of matrices.
fn rounded(values: &[f32], row: usize, kind: GgmlType) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gguf");
    let spec = GgufSpec {
        name: "t".to_owned(),
        kind: kind.fitting(row),
        shape: vec![values.len() / row, row],
    };
    let mut writer = GgufWriter::begin(&path, &[], &[spec]).unwrap();
    writer.append("t", values).unwrap();
    writer.finish().unwrap();
    GgufFile::open(&path).unwrap().read_f32("t").unwrap()
}

/// Copies the checkpoint in `from` to `to` with the values of matrices that the type has for them; vectors and routers stay.
fn round_folder(from: &Path, to: &Path, kind: GgmlType) {
    let reader = Reader::open(from).unwrap();
    let specs = reader.tensors().map(|(name, info)| TensorSpec {
        name: name.to_owned(),
        dtype: Dtype::F32,
        shape: info.shape.clone(),
    });
    let specs: Vec<_> = specs.collect();
    fs::create_dir(to).unwrap();
    let mut writer = Writer::folder(to, &specs, &BTreeMap::new(), None).unwrap();
    for TensorSpec { name, shape, .. } in &specs {
        let values = reader.read_f32(name).unwrap();
        let routes = name.ends_with("mlp.gate.weight") || name.ends_with("moe.gate.weight");
        let values = match shape[..] {
            [_, row] if !routes => rounded(&values, row, kind),
            _ => values,
        };
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        writer.append(name, &bytes).unwrap();
    }
    writer.finish().unwrap();
    fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
}

/// A file of each type computes what its decoded values do, of a dense model whose queries are permuted and of a mixture.
#[test]
fn types_compute_what_their_values_do() {
    for family in ["llama", "qwen3_moe"] {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        drawn(family, &from);
        let exact = logits(&from);
        for &kind in ENCODED {
            let file = folder.path().join(format!("{kind}.gguf"));
            let report = written(&from, &file, of_kind(kind)).unwrap();
            let decoded = folder.path().join(kind.name());
            round_folder(&from, &decoded, kind);
            let (got, expected) = (logits(&file), logits(&decoded));
            assert_eq!(difference(&got, &expected), 0.0, "{family} {kind}");
            let off = difference(&got, &exact);
            assert!(
                (off > 0.0) == (kind != GgmlType::F32) && off < 0.3,
                "{kind}: {off}"
            );
            types(&report, kind);
        }
    }
}

/// Checks the types of a file of `kind`: those of rows of 288 values are others in K types, and are told.
fn types(report: &GgufReport, kind: GgmlType) {
    for of in &report.tensors {
        let vector = of.spec.shape.len() == 1 || of.spec.name.contains("ffn_gate_inp");
        let row = of.spec.shape.last().copied().unwrap();
        let expected = if vector {
            GgmlType::F32
        } else {
            kind.fitting(row)
        };
        assert_eq!(of.spec.kind, expected, "{}", of.spec.name);
        let told = report.other_type.contains(&of.spec.name);
        assert_eq!(
            told,
            !vector && kind.fitting(row) != kind,
            "{}",
            of.spec.name
        );
    }
    let other = report.other_type.len();
    let grouped = [GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K].contains(&kind);
    // The second matrices of two layers' networks.
    assert_eq!(other, if grouped { 2 } else { 0 }, "{kind}");
}

/// A mix has the types that its rule gives each matrix, where rows are whole blocks of them.
#[test]
fn mixes_have_types_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("m.gguf"));
    drawn("llama", &from);
    let options = GgufOptions {
        types: GgufTypes::named("Q4_K_M").unwrap(),
        ..of_f32()
    };
    written(&from, &to, options).unwrap();
    let file = GgufFile::open(&to).unwrap();
    let kind = |name: &str| file.get(name).unwrap().kind;
    // Of two layers the second is one of the last eighth. Rows of 288 values aren't whole blocks of Q6_K.
    for (name, expected) in [
        ("output.weight", GgmlType::Q6_K),
        ("token_embd.weight", GgmlType::Q4_K),
        ("blk.0.attn_v.weight", GgmlType::Q4_K),
        ("blk.1.attn_v.weight", GgmlType::Q6_K),
        ("blk.0.ffn_down.weight", GgmlType::Q5_0),
        ("blk.1.ffn_down.weight", GgmlType::Q8_0),
        ("blk.1.attn_q.weight", GgmlType::Q4_K),
    ] {
        assert_eq!(kind(name), expected, "{name}");
    }
    assert_eq!(
        file.value("general.file_type"),
        Some(&GgufValue::Unsigned(15))
    );
    let off = difference(&logits(&to), &logits(&from));
    assert!(off > 0.0 && off < 0.5, "{off}");
}

/// The vocabulary, the template and the numbers that llama.cpp looks for are in the file, as its types of numbers.
#[test]
fn a_file_says_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("m.gguf");
    let tokens: Vec<String> = (0..99).map(|at| format!("t{at}")).collect();
    let vocabulary = Vocabulary {
        model: "gpt2".to_owned(),
        pre: "gpt-2".to_owned(),
        types: vec![1; 99],
        tokens,
        bos: Some(3),
        eos: vec![4],
        add_space: true,
        ..Vocabulary::default()
    };
    let options = GgufOptions {
        types: GgufTypes::of(GgmlType::Q8_0).unwrap(),
        vocabulary: Some(&vocabulary),
        chat_template: Some("{{ messages }}"),
    };
    let report = written(&cases("decoder_qwen2"), &to, options).unwrap();
    assert_eq!(report.architecture, "qwen2");
    let file = GgufFile::open(&to).unwrap();
    assert_eq!(file.vocabulary().unwrap(), Some(vocabulary));
    assert_eq!(file.chat_template(), Some("{{ messages }}"));
    let text = |text: &str| Some(GgufValue::Text(text.to_owned()));
    for (key, value) in [
        ("general.architecture", text("qwen2")),
        ("general.file_type", Some(GgufValue::Unsigned(7))),
        ("general.quantization_version", Some(GgufValue::Unsigned(2))),
        ("qwen2.block_count", Some(GgufValue::Unsigned(2))),
        (
            "qwen2.attention.head_count_kv",
            Some(GgufValue::Unsigned(2)),
        ),
        ("qwen2.rope.freq_base", Some(GgufValue::Single(10_000.0))),
    ] {
        assert_eq!(file.value(key).cloned(), value, "{key}");
    }
    // The head is the embedding, so that the file has none.
    assert!(file.get("token_embd.weight").is_some() && file.get("output.weight").is_none());
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("m.gguf");
    let refused = |from: &Path, options| written(from, &to, options).unwrap_err().to_string();
    let few = Vocabulary::default();
    let options = GgufOptions {
        vocabulary: Some(&few),
        ..of_f32()
    };
    let llama = cases("decoder_llama");
    let text = refused(&llama, options);
    assert!(
        text.contains("tokens of the vocabulary: expected 99, got 0"),
        "{text}"
    );
    let text = refused(&cases("gguf/llama_f32.gguf"), of_f32());
    assert!(
        text.contains("expected a folder with config.json"),
        "{text}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&to, "mine").unwrap();
    let text = refused(&llama, of_f32());
    assert!(text.contains("expected the name of a new file"), "{text}");
    assert_eq!(fs::read(&to).unwrap(), b"mine");
}

/// A value that isn't a number is told with the tensor's name, and the file doesn't appear.
#[test]
fn values_that_are_no_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    drawn("llama", &from);
    let file = from.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    let to = folder.path().join("m.gguf");
    let text = written(&from, &to, of_kind(GgmlType::Q4_K))
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("tensor `") && text.ends_with("got NaN"),
        "{text}"
    );
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|of| of.unwrap().file_name())
        .collect();
    assert_eq!(left, ["from"]);
}

#[test]
fn progress_is_told_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let files = ModelFiles::open(&cases("decoder_mixtral")).unwrap();
    let (mut last, mut all) = (0, 0);
    let mut progress = |progress: Progress<'_>| {
        assert!(progress.read >= last && progress.read <= progress.bytes);
        (last, all) = (progress.read, progress.bytes);
    };
    save_gguf(
        &files,
        of_f32(),
        &folder.path().join("m.gguf"),
        &mut progress,
    )
    .unwrap();
    assert_eq!(last, all);
}
