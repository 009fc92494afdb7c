//! Files that are consistent but make no model: one error says everything that is wrong.

use moebius_model::Error;
use moebius_model::load::ModelFiles;
use moebius_weights::gguf::GgufFile;
use proptest::prelude::*;

use crate::any_bytes::any_bytes;
use crate::builder::{Builder, F32, FLAG, LIST, U32, list};

/// The metadata of a dense Llama with one layer, and no tensors.
fn metadata() -> Builder {
    let (name, epsilon) = ("llama.attention.layer_norm_rms_epsilon", 1e-5_f32);
    Builder::new()
        .text("general.architecture", "llama")
        .size("llama.context_length", 64)
        .size("llama.embedding_length", 32)
        .size("llama.block_count", 1)
        .size("llama.feed_forward_length", 64)
        .size("llama.attention.head_count", 2)
        .value(name, F32, &epsilon.to_le_bytes())
}

/// Adds all tensors except those that `without` names.
fn tensors(mut file: Builder, without: &[&str]) -> Builder {
    for name in [
        "output_norm.weight",
        "blk.0.attn_norm.weight",
        "blk.0.ffn_norm.weight",
    ] {
        if !without.contains(&name) {
            file = file.tensor(name, &[32], 0, 128);
        }
    }
    let matrices = [
        ("token_embd", [32, 8]),
        ("blk.0.attn_q", [32, 32]),
        ("blk.0.attn_k", [32, 32]),
        ("blk.0.attn_v", [32, 32]),
        ("blk.0.attn_output", [32, 32]),
        ("blk.0.ffn_gate", [32, 64]),
        ("blk.0.ffn_up", [32, 64]),
        ("blk.0.ffn_down", [64, 32]),
    ];
    for (name, shape) in matrices {
        if !without.contains(&name) {
            let blocks = (shape[0] * shape[1] / 32) as usize;
            file = file.tensor(&format!("{name}.weight"), &shape, 8, blocks * 34);
        }
    }
    file
}

fn open(file: Builder) -> Result<ModelFiles, Error> {
    ModelFiles::of_gguf(GgufFile::from_bytes("test", file.bytes()).unwrap())
}

/// Makes tests from rows `file => part, part…;`: each file is refused by one error that contains all parts.
macro_rules! refused {
    ($($file:expr => $($part:expr),+;)+) => {
        $(refused($file, &[$($part),+]);)+
    };
}

fn refused(file: Builder, parts: &[&str]) {
    let error = open(file).unwrap_err();
    assert!(matches!(error, Error::Misfits(_)), "{error:?}");
    let error = error.to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} isn't in: {error}");
    }
}

#[test]
fn the_sample_is_a_model() {
    let files = open(tensors(metadata(), &[])).unwrap();
    assert_eq!(files.family(), "llama");
    assert!(files.spec().tied);
    assert_eq!(files.spec().epsilon, 1e-5);
}

#[test]
fn one_error_lists_everything() {
    let without = [
        "blk.0.attn_q",
        "blk.0.attn_v",
        "blk.0.ffn_up",
        "output_norm.weight",
    ];
    let file = tensors(metadata(), &without)
        .size("llama.unheard_of", 7)
        .tensor("blk.0.attn_q.weight", &[32, 33], 8, 33 * 34)
        .tensor("blk.0.attn_w.weight", &[32, 32], 8, 32 * 34)
        .tensor("blk.0.ffn_up.weight", &[32, 64], 24, 64 * 32)
        .tensor("rope_freqs.weight", &[7], 0, 28);
    refused(
        file,
        &[
            "`llama.unheard_of`: expected no key that this version doesn't know, got 7",
            "`rope_freqs.weight`: expected 8 values that can be read, got 7 values of F32",
            "`blk.0.ffn_up.weight`: expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, TQ1_0, TQ2_0, IQ4_NL, IQ4_XS or MXFP4, which llama-quantize writes, got I8",
            "missing `blk.0.attn_v.weight`, nearest `blk.0.attn_w.weight`",
            "unexpected `blk.0.attn_w.weight`, nearest `blk.0.attn_v.weight`",
            "missing `output_norm.weight`",
            "`blk.0.attn_q.weight`: expected [32, 32], got [33, 32]",
        ],
    );
}

#[test]
fn what_the_metadata_lacks_has_its_own_name() {
    let of = |architecture| Builder::new().text("general.architecture", architecture);
    refused! {
        tensors(of("llama").size("llama.block_count", 1), &[]) =>
            "`llama.embedding_length`: expected a whole number, got none",
            "`llama.attention.head_count`",
            "`llama.attention.layer_norm_rms_epsilon`",
            "`llama.context_length`",
            "`llama.feed_forward_length`";
        Builder::new() => "`general.architecture`: expected one of llama, deepseek2, dots1, ernie4_5-moe, glm4moe, gpt-oss, granite, granitemoe, minimax-m2, mistral3, olmoe, phi3, qwen2, qwen2moe, qwen3, qwen3moe, gemma3, hunyuan-dense, hunyuan-moe, lfm2, lfm2moe, llama4, got none";
        of("mamba") => "got `mamba`";
        of("qwen3").size("qwen3.expert_count", 4) => "`qwen3.expert_count`: expected none, got 4";
        of("olmoe").size("olmoe.block_count", 1) => "`olmoe.expert_count`: expected at least 1, got none";
        of("deepseek2").size("llama.block_count", 1) =>
            "`general.architecture`: expected one of llama, deepseek2", "qwen3moe", "such as `deepseek2.block_count`, got `deepseek2`";
        metadata().value("split.count", 2, &[3, 0]) => "`split.count`: expected a model in one file, got 3";
    }
}

#[test]
fn layers_are_alike() {
    let kv = |counts: [u8; 2]| {
        let counts = [counts[0], 0, 0, 0, counts[1], 0, 0, 0];
        let list = list(U32, 2, &counts);
        tensors(metadata(), &[]).value("llama.attention.head_count_kv", LIST, &list)
    };
    assert!(open(kv([2, 2])).is_ok());
    let said = "`llama.attention.head_count_kv`: expected a number that is the same for all layers";
    refused(kv([2, 1]), &[said]);
}

#[test]
fn what_changes_the_positions_is_done_or_refused() {
    let file = || tensors(metadata(), &[]);
    let window = |keys| file().size("llama.attention.sliding_window", keys);
    refused! {
        file().size("llama.rope.dimension_count", 8) =>
            "`llama.rope.dimension_count`: expected 16, all of a head, got 8";
        file().text("llama.rope.scaling.type", "longrope") =>
            "`llama.rope.scaling.type`: expected `none`, `linear` or `yarn`, got `longrope`";
        window(16) => "`llama.attention.sliding_window`: expected no window, got 16";
    }
    assert!(open(window(64)).is_ok());
    let factors = |factor: f32| {
        let mut file = file().tensor("rope_freqs.weight", &[8], 0, 32);
        let at = file.data.len() - 32;
        for bytes in file.data[at..].as_chunks_mut::<4>().0 {
            *bytes = factor.to_le_bytes();
        }
        file
    };
    let frequencies = |file: Builder| {
        let files = open(file).unwrap();
        let rope = files.spec().layers[0].attention().unwrap().rope.clone();
        rope.unwrap().frequencies()
    };
    let plain = frequencies(factors(1.0)).into_iter();
    let quarter: Vec<f32> = plain.map(|w| w / 4.0).collect();
    assert_eq!(frequencies(factors(4.0)), quarter);
    let two = 2_f32.to_le_bytes();
    let yarn = factors(4.0).text("llama.rope.scaling.type", "yarn");
    refused! {
        factors(0.0) => "`rope_freqs.weight`: expected positive numbers, got 0";
        yarn.value("llama.rope.scaling.factor", F32, &two) => "expected no other scaling of rotary positions";
    }
}

#[test]
fn values_of_other_types_are_refused() {
    let file = || tensors(metadata(), &[]);
    let (base, width) = ("llama.rope.freq_base", "llama.rope.dimension_count");
    refused! {
        file().text(base, "many") => base, "got `many`";
        file().text(width, "many") => width, "got `many`";
        file().size("llama.rope.scaling.type", 2) => "`llama.rope.scaling.type`";
        file().value(base, F32, &f32::NAN.to_le_bytes()) => "`llama.rope.freq_base`", "got NaN";
        file().value(base, FLAG, &[1]) => "`llama.rope.freq_base`", "got `true`";
    }
}

#[test]
fn experts_are_few_enough_to_be_listed() {
    let of = |experts| {
        let file = metadata().size("llama.expert_count", experts);
        tensors(file.size("llama.expert_used_count", 2), &[])
    };
    refused! {
        of(u32::MAX) => "`llama.expert_count`: expected a whole number up to 2^24";
        of(1 << 20) => "missing `blk.0.ffn_gate_exps.weight`, nearest `blk.0.ffn_gate.weight`";
        of(1 << 20).tensor("blk.0.ffn_gate.0.weight", &[32, 64], 0, 8192) =>
            "`llama.expert_count`: expected no more in all layers than the 12 tensors of the file, got 1048576";
    }
}

#[test]
fn every_byte_before_the_data_may_be_another() {
    let file = tensors(metadata(), &[]);
    let whole = file.bytes();
    for at in 0..whole.len() - file.data.len() {
        for other in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = other;
            any_bytes(&bytes);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_changes_are_a_model_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = tensors(metadata(), &[]).bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        any_bytes(&bytes);
    }
}
