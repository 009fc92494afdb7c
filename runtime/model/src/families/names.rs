//! Names that many families share.

use super::rule::Rule;
use crate::decoder::Slot;

/// Around the layers, and the norms in them.
pub(super) const FRAME: &[Rule] = &[
    Rule::whole("model.embed_tokens.weight", Slot::Embedding),
    Rule::whole("model.norm.weight", Slot::Norm),
    Rule::whole("lm_head.weight", Slot::Head),
    Rule::whole(
        "model.layers.{l}.input_layernorm.weight",
        Slot::AttentionNorm,
    ),
    Rule::whole(
        "model.layers.{l}.post_attention_layernorm.weight",
        Slot::FeedForwardNorm,
    ),
];

/// Attention with a matrix each for q, k and v.
pub(super) const ATTENTION: &[Rule] = &[
    Rule::whole("model.layers.{l}.self_attn.q_proj.weight", Slot::Query),
    Rule::whole("model.layers.{l}.self_attn.q_proj.bias", Slot::QueryBias),
    Rule::whole("model.layers.{l}.self_attn.k_proj.weight", Slot::Key),
    Rule::whole("model.layers.{l}.self_attn.k_proj.bias", Slot::KeyBias),
    Rule::whole("model.layers.{l}.self_attn.v_proj.weight", Slot::Value),
    Rule::whole("model.layers.{l}.self_attn.v_proj.bias", Slot::ValueBias),
    Rule::whole("model.layers.{l}.self_attn.o_proj.weight", Slot::Out),
    Rule::whole("model.layers.{l}.self_attn.o_proj.bias", Slot::OutBias),
    Rule::whole("model.layers.{l}.self_attn.q_norm.weight", Slot::QueryNorm),
    Rule::whole("model.layers.{l}.self_attn.k_norm.weight", Slot::KeyNorm),
];

/// Latent attention.
pub(super) const LATENT: &[Rule] = &[
    Rule::whole("model.layers.{l}.self_attn.q_proj.weight", Slot::Query),
    Rule::whole(
        "model.layers.{l}.self_attn.q_a_proj.weight",
        Slot::QueryDown,
    ),
    Rule::whole(
        "model.layers.{l}.self_attn.q_a_proj.bias",
        Slot::QueryDownBias,
    ),
    Rule::whole(
        "model.layers.{l}.self_attn.q_a_layernorm.weight",
        Slot::QueryLatentNorm,
    ),
    Rule::whole("model.layers.{l}.self_attn.q_b_proj.weight", Slot::QueryUp),
    Rule::whole(
        "model.layers.{l}.self_attn.kv_a_proj_with_mqa.weight",
        Slot::LatentDown,
    ),
    Rule::whole(
        "model.layers.{l}.self_attn.kv_a_proj_with_mqa.bias",
        Slot::LatentDownBias,
    ),
    Rule::whole(
        "model.layers.{l}.self_attn.kv_a_layernorm.weight",
        Slot::LatentNorm,
    ),
    Rule::whole(
        "model.layers.{l}.self_attn.kv_b_proj.weight",
        Slot::LatentUp,
    ),
    Rule::whole("model.layers.{l}.self_attn.o_proj.weight", Slot::Out),
    Rule::whole("model.layers.{l}.self_attn.o_proj.bias", Slot::OutBias),
];

/// A dense network.
pub(super) const DENSE: &[Rule] = &[
    Rule::gate("model.layers.{l}.mlp.gate_proj.weight", Slot::DenseIn),
    Rule::up("model.layers.{l}.mlp.up_proj.weight", Slot::DenseIn),
    Rule::whole("model.layers.{l}.mlp.down_proj.weight", Slot::DenseOut),
    Rule::gate("model.layers.{l}.mlp.gate_proj.bias", Slot::DenseInBias),
    Rule::up("model.layers.{l}.mlp.up_proj.bias", Slot::DenseInBias),
    Rule::whole("model.layers.{l}.mlp.down_proj.bias", Slot::DenseOutBias),
];

/// Experts in tensors of their own.
pub(super) const EXPERTS: &[Rule] = &[
    Rule::whole("model.layers.{l}.mlp.gate.weight", Slot::Router),
    Rule::gate(
        "model.layers.{l}.mlp.experts.{e}.gate_proj.weight",
        Slot::ExpertsIn,
    ),
    Rule::up(
        "model.layers.{l}.mlp.experts.{e}.up_proj.weight",
        Slot::ExpertsIn,
    ),
    Rule::whole(
        "model.layers.{l}.mlp.experts.{e}.down_proj.weight",
        Slot::ExpertsOut,
    ),
];

/// Experts that are stacked, as transformers 5 holds them in memory.
pub(super) const STACKED: &[Rule] = &[
    Rule::whole("model.layers.{l}.mlp.gate.weight", Slot::Router),
    Rule::whole("model.layers.{l}.mlp.experts.gate_up_proj", Slot::ExpertsIn),
    Rule::whole("model.layers.{l}.mlp.experts.down_proj", Slot::ExpertsOut),
];

/// Tensors of older checkpoints that hold what follows from the configuration.
pub(super) const INVERSE_FREQUENCIES: &str = "model.layers.{l}.self_attn.rotary_emb.inv_freq";
