//! Models whose weights stay in the blocks of their file compute what the decoded weights do, and take the file's bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use half::{bf16, f16};
use moebius::blocks::BlockFormat;
use moebius::fp8::Precision;
use moebius_model::decoder::{FeedForward, Model, Slot, Values};
use moebius_model::load::{InBlocks, LoadOptions, ModelFiles};
use moebius_weights::gguf::GgmlType;
use moebius_weights::{Dtype, Reader, TensorSpec, Writer};
use serde_json::{Value, json};

use crate::cases;
use crate::written::{drawn, of_kind, written};

/// Weights as the file has them.
fn as_stored() -> LoadOptions {
    LoadOptions::default().with_blocks(InBlocks::File)
}

/// Weights that are rounded to blocks.
fn rounded(format: BlockFormat) -> LoadOptions {
    LoadOptions::default().with_blocks(InBlocks::Format(format))
}

fn loaded(files: &ModelFiles, options: LoadOptions) -> Model {
    files
        .load(&Device::flex(), options, &mut |_| ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn logits(model: &Model) -> Vec<f32> {
    let tokens: Vec<i32> = (0..24).map(|at| (at * 13 + 5) % 32).collect();
    let data = TensorData::new(tokens, [2, 12]);
    let tokens = Tensor::<2, Int>::from_data(data, &Device::flex());
    let logits = model.forward(tokens).unwrap().logits;
    logits.into_data().iter().collect()
}

/// The largest difference of logits, over the largest logit.
fn difference(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let off = largest(&mut got.iter().zip(want).map(|(a, b)| (a - b).abs()));
    off / largest(&mut want.iter().map(|value| value.abs()))
}

#[test]
fn files_of_several_types_keep_their_blocks() {
    let files = ModelFiles::open(&cases("gguf/quantized.gguf")).unwrap();
    let options = as_stored();
    let blocks = loaded(&files, options);
    let decoded = loaded(&files, LoadOptions::default());
    let off = difference(&logits(&blocks), &logits(&decoded));
    assert!(off <= 1e-5, "{off}");
    // Embedding, head, the four matrices of attention (k is BF16 in the file), and the second product. The gate is Q4_K and the up
    // projection Q4_1, so both are decoded.
    let attention = 256 * 144 + 2 * 64 * 256 + 64 * 212 + 256 * 144;
    let vectors = 4 * (3 * 256 + 2 * 64);
    let all = 32 * 272 + 32 * 212 + attention + 4 * 512 * 256 + 256 * 144 + vectors;
    assert_eq!(files.weight_bytes(&Device::flex(), options), all);
    assert_eq!(blocks.vocabulary(), 32);
    let layout = blocks.embedding_blocks.as_ref().unwrap().layout();
    assert_eq!(layout.shape, [1, 32, 256]);
    // Where both are exact, each product decodes to the bits that the load decoded to.
    let exactly = |model: &Model| logits(&model.clone().with_exact().unwrap());
    assert!(exactly(&blocks) == exactly(&decoded));
    // What is read back from the device is what the file stands for.
    assert_same(&blocks, &decoded);
}

/// Compares the values of two models on their devices, bit for bit.
fn assert_same(mut one: &Model, mut other: &Model) {
    for place in Slot::places(one.spec()) {
        let [got, want] = [one.values(place), other.values(place)].map(Result::unwrap);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert!(bits(got) == bits(want), "{place:?}");
    }
}

#[test]
fn four_bit_experts_keep_their_blocks() {
    let files = ModelFiles::open(&cases("decoder_gpt_oss_mxfp4")).unwrap();
    let options = as_stored();
    let blocks = loaded(&files, options);
    let decoded = loaded(&files, LoadOptions::default());
    let off = difference(&logits(&blocks), &logits(&decoded));
    assert!(off <= 1e-5, "{off}");
    // Rows of 64 codes are two blocks of 17 bytes in 9 words, those of 32 codes one block in 5.
    let device = Device::flex();
    let [few, many] = [options, LoadOptions::default()].map(|how| files.weight_bytes(&device, how));
    let of_layer = 4 * (64 * 36 + 64 * 20);
    assert_eq!(many - few, 2 * (4 * 4 * (64 * 64 + 64 * 32) - of_layer));
    let FeedForward::Experts(layer) = &blocks.blocks[0].feed_forward else {
        panic!("a mixture");
    };
    let moebius::moe::Experts::FeedForward(experts) = &layer.experts else {
        panic!("feed-forward experts");
    };
    assert_eq!(experts.w_in.precision(), Precision::Blocks);
}

/// Values of 16 bits take two bytes on a device that computes in f32, and decode to those of the file, which GGUF has in another order.
#[test]
fn values_of_16_bits_stay_narrow() {
    for (name, format) in [
        ("gguf/llama_f16.gguf", BlockFormat::F16),
        ("decoder_llama", BlockFormat::Bf16),
        ("decoder_mistral", BlockFormat::F16),
    ] {
        let files = ModelFiles::open(&cases(name)).unwrap();
        let [blocks, decoded] = [as_stored(), LoadOptions::default()].map(|how| {
            let bytes = files.weight_bytes(&Device::flex(), how);
            (loaded(&files, how), bytes)
        });
        let layout = blocks.0.embedding_blocks.as_ref().unwrap().layout();
        assert_eq!(layout.format, format, "{name}");
        // Vectors and rotary factors stay f32.
        assert!(blocks.1 * 100 < decoded.1 * 55, "{name}: {}", blocks.1);
        assert_same(&blocks.0, &decoded.0);
        let off = difference(&logits(&blocks.0), &logits(&decoded.0));
        assert!(off <= 1e-5, "{name}: {off}");
    }
}

#[test]
fn files_without_blocks_are_refused_by_what_they_hold() {
    let files = ModelFiles::open(&cases("gguf/llama_f32.gguf")).unwrap();
    let device = Device::flex();
    let loaded = files.load(&device, as_stored(), &mut |_| ());
    let begun = files.begin(&device, as_stored()).go_on(&mut |_| ());
    for result in [loaded.map(drop), begun.map(drop)] {
        let error = result.unwrap_err().to_string();
        let (expected, got) = ("Q8_0, Q4_0", "BF16, got F32");
        assert!(error.contains(expected) && error.contains(got), "{error}");
    }
}

/// Gradients pass weights in blocks: on a device that records them a model computes the same.
#[test]
fn recording_changes_no_logits() {
    let files = ModelFiles::open(&cases("gguf/quantized.gguf")).unwrap();
    let [recorded, plain] = [Device::flex().autodiff(), Device::flex()].map(|device| {
        let model = files.load(&device, as_stored(), &mut |_| ()).unwrap();
        let tokens = TensorData::new(vec![1, 2, 3], [1, 3]);
        let tokens = Tensor::<2, Int>::from_data(tokens, &device);
        let logits = model.forward(tokens).unwrap().logits;
        logits.into_data().iter().collect::<Vec<f32>>()
    });
    assert!(difference(&recorded, &plain) < 1e-5);
}

/// The model in `folder`, rounded to blocks of a format while it is loaded, is the one of the GGUF file of that type: its weights have the same
/// bits and take as many bytes.
fn assert_rounded(folder: &Path, format: BlockFormat) {
    let file = tempfile::tempdir().unwrap();
    let file = file.path().join("m.gguf");
    let kind = GgmlType::of_blocks(format).unwrap();
    let report = written(folder, &file, of_kind(kind)).unwrap();
    let [files, stored] = [folder, &file].map(|path| ModelFiles::open(path).unwrap());
    let (options, as_stored) = (rounded(format), as_stored());
    let model = loaded(&files, options);
    let others = files.of_another_type(options);
    assert_eq!(others.is_empty(), report.other_type.is_empty(), "{format}");
    // A file without blocks can't keep them.
    let floats = model.embedding_blocks.is_none();
    let as_stored = if floats {
        LoadOptions::default()
    } else {
        as_stored
    };
    let other = loaded(&stored, as_stored);
    assert_same(&model, &other);
    let layouts = [&model, &other].map(|model| Some(model.embedding_blocks.as_ref()?.layout()));
    assert_eq!(layouts[0], layouts[1]);
    let device = Device::flex();
    let bytes = [
        files.weight_bytes(&device, options),
        stored.weight_bytes(&device, as_stored),
    ];
    assert_eq!(bytes[0], bytes[1], "{format}");
    // A GGUF file has factors of rotary positions in 32 bits.
    let off = difference(&logits(&model), &logits(&other));
    assert!(off <= 1e-6, "{format}: {off}");
}

#[test]
fn weights_rounded_on_load_are_those_of_a_written_file() {
    for family in ["llama", "qwen3_moe"] {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        drawn(family, &from);
        let all = BlockFormat::ALL.into_iter();
        for format in all.filter(|format| GgmlType::of_blocks(*format).is_some()) {
            assert_rounded(&from, format);
        }
    }
    // Codes of a file are decoded first; rows of 48 and 80 values are no whole blocks, and become F16.
    assert_rounded(&cases("decoder_gpt_oss_mxfp4"), BlockFormat::Q8_0);
    assert_rounded(&cases("decoder_gpt_oss_mxfp4"), BlockFormat::Mxfp4);
    assert_rounded(&cases("decoder_mixtral"), BlockFormat::Q4_0);
}

#[test]
fn rows_that_are_no_whole_blocks_are_told_by_their_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    drawn("llama", &from);
    let files = ModelFiles::open(&from).unwrap();
    let down = |layer: usize| format!("model.layers.{layer}.mlp.down_proj.weight");
    let others = files.of_another_type(rounded(BlockFormat::Q4K));
    assert_eq!(others, [down(0), down(1)]);
    assert!(files.of_another_type(rounded(BlockFormat::Q8_0)).is_empty());
    assert!(files.of_another_type(as_stored()).is_empty());
    let error = files.load(&Device::flex(), rounded(BlockFormat::Int4_128), &mut |_| ());
    let error = error.map(|_| ()).unwrap_err().to_string();
    let expected = "a type that values can be rounded to, got int4_128";
    assert!(error.contains(expected), "{error}");
}

/// Name, dtype, shape and bytes of a tensor.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

/// A layer [n, k] of any codes of four bits in groups of 128 columns, as `method` stores them.
fn of_integers(layer: &str, [n, k]: [usize; 2], method: &str) -> Vec<Stored> {
    let mut state = layer.bytes().fold(1_u32, |all, byte| {
        all.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let mut words = |ending: &str, shape: [usize; 2]| {
        let bytes = (0..4 * shape[0] * shape[1]).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let bytes: Vec<u8> = bytes.collect();
        (
            format!("{layer}.{ending}"),
            Dtype::I32,
            shape.to_vec(),
            bytes,
        )
    };
    let scales = |ending: &str, dtype: Dtype, shape: [usize; 2]| {
        let bytes = (0..shape[0] * shape[1]).flat_map(|at| {
            let scale = 0.004 + 0.000_37 * (at % 7) as f32;
            match dtype {
                Dtype::BF16 => bf16::from_f32(scale).to_le_bytes(),
                _ => f16::from_f32(scale).to_le_bytes(),
            }
        });
        let bytes: Vec<u8> = bytes.collect();
        (format!("{layer}.{ending}"), dtype, shape.to_vec(), bytes)
    };
    let groups = k.div_ceil(128);
    match method {
        "gptq" => {
            let group_of = (0..k).flat_map(|column| (column as u32 / 128).to_le_bytes());
            vec![
                words("qweight", [k / 8, n]),
                words("qzeros", [groups, n / 8]),
                scales("scales", Dtype::F16, [groups, n]),
                (
                    format!("{layer}.g_idx"),
                    Dtype::I32,
                    vec![k],
                    group_of.collect(),
                ),
            ]
        }
        "awq" => vec![
            words("qweight", [k, n / 8]),
            words("qzeros", [groups, n / 8]),
            scales("scales", Dtype::F16, [groups, n]),
        ],
        _ => vec![
            words("weight_packed", [n, k / 8]),
            scales("weight_scale", Dtype::BF16, [n, groups]),
        ],
    }
}

/// A layer [n, k] of codes and scales of NVFP4 with a scale of all of its own, as ModelOpt stores them or compressed-tensors does. No code is −0, which
/// blocks don't tell from 0.
fn of_fours(layer: &str, [n, k]: [usize; 2], method: &str) -> Vec<Stored> {
    let own = layer.bytes().map(u32::from).sum::<u32>();
    let code = |at: u32| match (at.wrapping_add(own).wrapping_mul(0x9E37_79B9) >> 28) as u8 {
        8 => 0,
        code => code,
    };
    let codes = (0..(n * k / 2) as u32).map(|at| code(2 * at) | code(2 * at + 1) << 4);
    let codes: Vec<u8> = codes.collect();
    let scales = (0..n * k / 16).map(|at| 0x28 + (at * 11 % 37) as u8);
    let scales: Vec<u8> = scales.collect();
    let whole = 0.002 + 0.000_1 * (own % 23) as f32;
    let (packed, of_all, whole) = match method {
        "modelopt" => ("weight", "weight_scale_2", whole),
        _ => ("weight_packed", "weight_global_scale", 1.0 / whole),
    };
    let stored = |ending: &str, dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>| {
        (format!("{layer}.{ending}"), dtype, shape, bytes)
    };
    vec![
        stored(packed, Dtype::U8, vec![n, k / 2], codes),
        stored("weight_scale", Dtype::F8_E4M3, vec![n, k / 16], scales),
        stored(of_all, Dtype::F32, vec![1], whole.to_le_bytes().to_vec()),
    ]
}

/// Writes the model in `from` to `to`, in files of 300,000 bytes, with integers or NVFP4 in place of the values of projections. Returns how many bytes less
/// than values their blocks take.
fn with_codes(from: &Path, to: &Path, method: &str) -> u64 {
    let fours = ["modelopt", "nvfp4"].contains(&method);
    let reader = Reader::open(from).unwrap();
    let (mut tensors, mut saved): (Vec<Stored>, usize) = (Vec::new(), 0);
    for (name, info) in reader.tensors() {
        let layer = name
            .strip_suffix(".weight")
            .filter(|of| of.ends_with("_proj"));
        if let (Some(layer), &[n, k]) = (layer, &info.shape[..]) {
            let of = if fours { of_fours } else { of_integers };
            tensors.extend(of(layer, [n, k], method));
            // A last group of 32 columns: blocks lie inside of groups.
            let whole = k.is_multiple_of(128);
            let format = if fours {
                BlockFormat::Nvfp4
            } else if whole {
                BlockFormat::Int4_128
            } else {
                BlockFormat::Int4_32
            };
            saved += 4 * n * (k - format.row_words(k));
        } else {
            let bytes = reader.read(name).unwrap();
            tensors.push((name.to_owned(), info.dtype, info.shape.clone(), bytes));
        }
    }
    let specs = tensors.iter().map(|(name, dtype, shape, _)| TensorSpec {
        name: name.clone(),
        dtype: *dtype,
        shape: shape.clone(),
    });
    let specs: Vec<_> = specs.collect();
    fs::create_dir(to).unwrap();
    let mut writer = Writer::folder(to, &specs, &BTreeMap::new(), Some(300_000)).unwrap();
    for (name, _, _, bytes) in &tensors {
        writer.append(name, bytes).unwrap();
    }
    writer.finish().unwrap();
    declare(from, to, method, false);
    saved as u64
}

/// Writes the configuration of the model in `from` with codes to `to`.
fn declare(from: &Path, to: &Path, method: &str, desc_act: bool) {
    let config = fs::read(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    let method = match method {
        "nvfp4" => "compressed-tensors",
        method => method,
    };
    config["quantization_config"] =
        json!({"quant_method": method, "bits": 4, "group_size": 128, "desc_act": desc_act});
    fs::write(to.join("config.json"), config.to_string()).unwrap();
}

/// Codes of four bits in several files, also of experts and of fused projections, stay what they are on the device; those whose columns GPTQ has put in
/// another order don't.
#[test]
fn codes_of_four_bits_stay_narrow() {
    for (family, method) in [
        ("llama", "gptq"),
        ("qwen3_moe", "awq"),
        ("phi3", "compressed-tensors"),
        ("qwen3_moe", "modelopt"),
        ("phi3", "nvfp4"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        drawn(family, &from);
        let saved = with_codes(&from, &to, method);
        let (files, device) = (ModelFiles::open(&to).unwrap(), Device::flex());
        let options = [as_stored(), LoadOptions::default()];
        let [few, many] = options.map(|how| files.weight_bytes(&device, how));
        assert_eq!(many - few, saved, "{method}");
        let [blocks, decoded] = options.map(|how| loaded(&files, how));
        assert_same(&blocks, &decoded);
        let off = difference(&logits(&blocks), &logits(&decoded));
        assert!(off <= 1e-5, "{method}: {off}");
        if method == "gptq" {
            declare(&from, &to, method, true);
            let files = ModelFiles::open(&to).unwrap();
            let error = files.load(&device, as_stored(), &mut |_| ());
            let error = error.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("codes that can only be decoded"), "{error}");
        }
    }
}
