//! The names and forms of the tensors in GGUF files, by family.

use crate::families::rule::{Rule, rules};
use crate::families::{
    Family, deepseek_v2, deepseek_v3, dots1, ernie, gemma, glm4_moe, gpt_oss, hunyuan, lfm2, llama,
    llama4, minimax_m2, mistral, phi3, qwen,
};

/// Tensor of the divisors of the rotary frequencies, one for each pair (Llama 3.1).
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Tensors of LongRoPE's divisors for sequences within the original context, and for longer ones.
pub(super) const LONGROPE_FACTORS: [&str; 2] =
    ["rope_factors_short.weight", "rope_factors_long.weight"];

/// A family with the layouts of its GGUF files.
const fn of_gguf(
    family: Family,
    layouts: &'static [&'static [&'static [Rule]]],
    ignored: &'static [&'static str],
) -> Family {
    Family {
        layouts,
        ignored,
        ..family
    }
}

pub(super) static DEEPSEEK_V2: Family = of_gguf(deepseek_v2::FAMILY, OF_LATENT, &[]);
pub(super) static DEEPSEEK_V3: Family = of_gguf(deepseek_v3::FAMILY, OF_LATENT, &[]);
pub(super) static DOTS1: Family = of_gguf(dots1::FAMILY, OF_CORRECTED, &[]);
pub(super) static ERNIE: Family = of_gguf(ernie::ERNIE4_5_MOE, OF_CORRECTED, &[]);
pub(super) static GLM4_MOE: Family = of_gguf(
    glm4_moe::GLM4_MOE,
    &[&[FRAME, POST_NORM, HALVES, DENSE, STACKED, SHARED, CORRECTION]],
    &[],
);
pub(super) static GRANITE: Family =
    of_gguf(llama::GRANITE, &[&[FRAME, NORM, NEIGHBOURS, DENSE]], &[]);
pub(super) static MINIMAX_M2: Family = of_gguf(minimax_m2::FAMILY, OF_CORRECTED, &[]);
pub(super) static MINISTRAL3: Family = of_gguf(
    mistral::MINISTRAL3,
    &[&[FRAME, NORM, NEIGHBOURS, DENSE]],
    &[],
);
pub(super) static PHI3: Family = of_gguf(phi3::FAMILY, &[&[FRAME, NORM, FUSED]], &LONGROPE_FACTORS);
pub(super) static QWEN2: Family = of_gguf(qwen::QWEN2, &[&[FRAME, NORM, HALVES, DENSE]], &[]);
pub(super) static LLAMA: Family = of_gguf(
    llama::LLAMA,
    &[&[FRAME, NORM, NEIGHBOURS, DENSE]],
    &[ROPE_FACTORS],
);
pub(super) static MIXTRAL: Family = of_gguf(
    llama::MIXTRAL,
    &[&[FRAME, NORM, NEIGHBOURS, STACKED]],
    &[ROPE_FACTORS],
);
pub(super) static MIXTRAL_APART: Family = of_gguf(
    llama::MIXTRAL,
    &[&[FRAME, NORM, NEIGHBOURS, APART]],
    &[ROPE_FACTORS],
);
pub(super) static GRANITEMOE: Family = of_gguf(
    llama::GRANITEMOE,
    &[&[FRAME, NORM, NEIGHBOURS, STACKED]],
    &[],
);
pub(super) static GPT_OSS: Family =
    of_gguf(gpt_oss::FAMILY, &[&[FRAME, HALVES, STACKED, SINKS]], &[]);
pub(super) static OLMOE: Family = of_gguf(llama::OLMOE, &[&[FRAME, NORM, HALVES, STACKED]], &[]);
pub(super) static QWEN2_MOE: Family = of_gguf(
    qwen::QWEN2_MOE,
    &[&[FRAME, NORM, HALVES, STACKED, SHARED]],
    &[],
);
pub(super) static QWEN3: Family = of_gguf(qwen::QWEN3, &[&[FRAME, NORM, HALVES, DENSE]], &[]);
pub(super) static QWEN3_MOE: Family =
    of_gguf(qwen::QWEN3_MOE, &[&[FRAME, NORM, HALVES, STACKED]], &[]);
pub(super) static GEMMA3: Family =
    of_gguf(gemma::GEMMA3, &[&[FRAME, NORM, HALVES, DENSE, AFTER]], &[]);
pub(super) static HUNYUAN_DENSE: Family =
    of_gguf(hunyuan::DENSE_V1, &[&[FRAME, NORM, HALVES, DENSE]], &[]);
pub(super) static HUNYUAN_MOE: Family = of_gguf(
    hunyuan::MOE_V1,
    &[&[FRAME, NORM, HALVES, STACKED, SHARED]],
    &[],
);
pub(super) static LFM2: Family = of_gguf(lfm2::LFM2, &[&[MIXED, NORM, HALVES, DENSE]], &[]);
pub(super) static LFM2_MOE: Family = of_gguf(
    lfm2::LFM2_MOE,
    &[&[MIXED, NORM, HALVES, DENSE, STACKED, CORRECTION]],
    &[],
);
pub(super) static LLAMA4: Family = of_gguf(
    llama4::FAMILY,
    &[&[FRAME, NORM, HALVES, DENSE, STACKED, SHARED]],
    &[ROPE_FACTORS],
);

/// Families that GGUF files may hold.
#[cfg(test)]
pub(crate) const GGUF_FAMILIES: [&Family; 25] = [
    &DEEPSEEK_V2,
    &DEEPSEEK_V3,
    &DOTS1,
    &ERNIE,
    &GEMMA3,
    &GLM4_MOE,
    &GRANITE,
    &MINIMAX_M2,
    &MINISTRAL3,
    &PHI3,
    &QWEN2,
    &GPT_OSS,
    &GRANITEMOE,
    &HUNYUAN_DENSE,
    &HUNYUAN_MOE,
    &LFM2,
    &LFM2_MOE,
    &LLAMA,
    &LLAMA4,
    &MIXTRAL,
    &MIXTRAL_APART,
    &OLMOE,
    &QWEN2_MOE,
    &QWEN3,
    &QWEN3_MOE,
];

/// Separate matrices for q, k and v, and experts with a correction.
const OF_CORRECTED: &[&[&[Rule]]] = &[&[FRAME, NORM, HALVES, DENSE, STACKED, SHARED, CORRECTION]];

/// Latent attention, with the matrix of keys and values whole or in two, and experts that may have a correction.
const OF_LATENT: &[&[&[Rule]]] = &[
    &[
        FRAME, NORM, LATENT, SPLIT, DENSE, STACKED, SHARED, CORRECTION,
    ],
    &[
        FRAME, NORM, LATENT, TOGETHER, DENSE, STACKED, SHARED, CORRECTION,
    ],
];

const CORRECTION: &[Rule] = rules! { "blk.{l}.":
    "exp_probs_b.bias" => Correction;
};

/// The norm before the feed-forward part, where it has the name of a norm after the attention.
const POST_NORM: &[Rule] = rules! { "blk.{l}.":
    "post_attention_norm.weight" => FeedForwardNorm;
};

/// One matrix for q, k and v, and one for gate and up.
const FUSED: &[Rule] = rules! { "blk.{l}.":
    "attn_qkv.weight" => Query, Fused;
    "attn_qkv.weight" => Key, Fused;
    "attn_qkv.weight" => Value, Fused;
    "ffn_up.weight" => DenseIn;
    "ffn_down.weight" => DenseOut;
};

const LATENT: &[Rule] = rules! { "blk.{l}.":
    "attn_q.weight" => Query;
    "attn_q_a.weight" => QueryDown;
    "attn_q_a_norm.weight" => QueryLatentNorm;
    "attn_q_b.weight" => QueryUp;
    "attn_kv_a_mqa.weight" => LatentDown;
    "attn_kv_a_norm.weight" => LatentNorm;
};

const TOGETHER: &[Rule] = rules! { "blk.{l}.":
    "attn_kv_b.weight" => LatentUp;
};

const SPLIT: &[Rule] = rules! { "blk.{l}.":
    "attn_k_b.weight" => LatentUp, Keys;
    "attn_v_b.weight" => LatentUp, Values;
};

/// Tensors outside of the layers, and the norms of the layers.
const FRAME: &[Rule] = rules! { "":
    "token_embd.weight" => Embedding;
    "output_norm.weight" => Norm;
    "output.weight" => Head;
    "blk.{l}.attn_norm.weight" => AttentionNorm;
    "blk.{l}.attn_output.weight" => Out;
    "blk.{l}.attn_output.bias" => OutBias;
};

/// What stands in [`FRAME`] of other architectures, and convolutions. The norm before the head has the name of one after the embedding.
const MIXED: &[Rule] = rules! { "":
    "token_embd.weight" => Embedding;
    "token_embd_norm.weight" => Norm;
    "output.weight" => Head;
    "blk.{l}.attn_norm.weight" => AttentionNorm;
    "blk.{l}.attn_output.weight" => Out;
    "blk.{l}.shortconv.in_proj.weight" => ConvolutionIn;
    "blk.{l}.shortconv.in_proj.bias" => ConvolutionInBias;
    "blk.{l}.shortconv.conv.weight" => ConvolutionFactors;
    "blk.{l}.shortconv.conv.bias" => ConvolutionBias;
    "blk.{l}.shortconv.out_proj.weight" => ConvolutionOut;
    "blk.{l}.shortconv.out_proj.bias" => ConvolutionOutBias;
};

/// The norm before the feed-forward part, in all architectures but gpt-oss.
const NORM: &[Rule] = rules! { "blk.{l}.":
    "ffn_norm.weight" => FeedForwardNorm;
};

/// The norms after attention and feed-forward part, in which llama.cpp's converter has added the 1 of 1 + w.
const AFTER: &[Rule] = rules! { "blk.{l}.":
    "post_attention_norm.weight" => AttentionOutNorm;
    "post_ffw_norm.weight" => FeedForwardOutNorm;
};

/// Queries and keys whose rows are in the model's order.
const HALVES: &[Rule] = rules! { "blk.{l}.":
    "attn_q.weight" => Query;
    "attn_q.bias" => QueryBias;
    "attn_k.weight" => Key;
    "attn_k.bias" => KeyBias;
    "attn_v.weight" => Value;
    "attn_v.bias" => ValueBias;
    "attn_q_norm.weight" => QueryNorm;
    "attn_k_norm.weight" => KeyNorm;
};

/// Queries and keys of Llama: llama.cpp's converter makes rows that rotate together neighbours.
const NEIGHBOURS: &[Rule] = rules! { "blk.{l}.":
    "attn_q.weight" => Query, Neighbours;
    "attn_q.bias" => QueryBias, Neighbours;
    "attn_k.weight" => Key, Neighbours;
    "attn_k.bias" => KeyBias, Neighbours;
    "attn_v.weight" => Value;
    "attn_v.bias" => ValueBias;
};

/// A dense network.
const DENSE: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate.weight" => DenseIn, Gate;
    "ffn_up.weight" => DenseIn, Up;
    "ffn_down.weight" => DenseOut;
    "ffn_gate.bias" => DenseInBias, Gate;
    "ffn_up.bias" => DenseInBias, Up;
    "ffn_down.bias" => DenseOutBias;
};

/// Stacked experts.
const STACKED: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_inp.weight" => Router;
    "ffn_gate_exps.weight" => ExpertsIn, Gate;
    "ffn_up_exps.weight" => ExpertsIn, Up;
    "ffn_down_exps.weight" => ExpertsOut;
    "ffn_gate_inp.bias" => RouterBias;
    "ffn_gate_exps.bias" => ExpertsInBias, Gate;
    "ffn_up_exps.bias" => ExpertsInBias, Up;
    "ffn_down_exps.bias" => ExpertsOutBias;
};

/// Tensors that only gpt-oss has, or that have another name in it.
const SINKS: &[Rule] = rules! { "blk.{l}.":
    "post_attention_norm.weight" => FeedForwardNorm;
    "attn_sinks.weight" => Sinks;
};

/// Experts with a tensor for each expert's matrix, as in older files of Mixtral.
const APART: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_inp.weight" => Router;
    "ffn_gate.{e}.weight" => ExpertsIn, Gate;
    "ffn_up.{e}.weight" => ExpertsIn, Up;
    "ffn_down.{e}.weight" => ExpertsOut;
};

/// The shared expert, which every token goes to.
const SHARED: &[Rule] = rules! { "blk.{l}.":
    "ffn_gate_shexp.weight" => SharedIn, Gate;
    "ffn_up_shexp.weight" => SharedIn, Up;
    "ffn_down_shexp.weight" => SharedOut;
    "ffn_gate_inp_shexp.weight" => SharedGate;
};
