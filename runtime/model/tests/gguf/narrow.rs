//! Models whose weights stay in the blocks of their file compute what the decoded weights do, and take the file's bytes.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::fp8::Precision;
use moebius_model::decoder::{FeedForward, Model, Slot, Values};
use moebius_model::load::{LoadOptions, ModelFiles};

use crate::cases;

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
    let options = LoadOptions::in_blocks();
    let blocks = loaded(&files, options);
    let decoded = loaded(&files, LoadOptions::default());
    let off = difference(&logits(&blocks), &logits(&decoded));
    assert!(off <= 1e-5, "{off}");
    // Embedding, head, the four matrices of attention (k is BF16 in the file), and the second product. The gate is Q4_K and the up
    // projection Q4_1, so both are decoded.
    let attention = 256 * 144 + 4 * 64 * 256 + 64 * 212 + 256 * 144;
    let vectors = 4 * (3 * 256 + 2 * 64);
    let all = 32 * 272 + 32 * 212 + attention + 4 * 512 * 256 + 256 * 144 + vectors;
    assert_eq!(files.weight_bytes(&Device::flex(), options), all);
    assert_eq!(blocks.vocabulary(), 32);
    let layout = blocks.embedding_blocks.as_ref().unwrap().layout();
    assert_eq!(layout.shape, [1, 32, 256]);
    let exact = blocks.clone().with_exact().map(|_| ()).unwrap_err();
    assert!(exact.to_string().contains("blocks of codes"), "{exact}");
    // What is read back from the device is what the file stands for.
    let [mut from, mut file] = [&blocks, &decoded];
    for place in Slot::places(files.spec()) {
        assert_eq!(from.values(place).unwrap(), file.values(place).unwrap());
    }
}

#[test]
fn four_bit_experts_keep_their_blocks() {
    let files = ModelFiles::open(&cases("decoder_gpt_oss_mxfp4")).unwrap();
    let options = LoadOptions::in_blocks();
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

#[test]
fn files_without_blocks_are_refused_by_what_they_hold() {
    for (name, types) in [
        ("gguf/llama_f32.gguf", "F32"),
        ("gguf/llama_f16.gguf", "F16"),
    ] {
        let files = ModelFiles::open(&cases(name)).unwrap();
        let loaded = files.load(&Device::flex(), LoadOptions::in_blocks(), &mut |_| ());
        let error = loaded.map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("Q8_0, Q4_0") && error.contains(types),
            "{error}"
        );
    }
    let files = ModelFiles::open(&cases("gguf/quantized.gguf")).unwrap();
    let cached = LoadOptions {
        expert_cache: Some(1 << 20),
        ..LoadOptions::in_blocks()
    };
    let error = files.load(&Device::flex(), cached, &mut |_| ());
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a cache of experts"), "{error}");
}
