//! Which tensors of a checkpoint go where, and the names that many families share.

use crate::decoder::Slot;

/// Tensors of this name are, or are a part of, what a slot holds.
///
/// In the name `{l}` stands for the number of a layer and `{e}` for that of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name.
    pub from: &'static str,
    /// The place.
    pub to: Slot,
    /// Which of a gated slot's rows.
    pub part: Part,
    /// How the values lie in the file.
    pub form: Form,
}

/// Rows of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    Whole,
    /// The first half of a gated slot's.
    Gate,
    /// The second half.
    Up,
}

/// How the values of a tensor lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in the slot.
    Plain,
    /// \[.., in, out\] for a slot of \[.., out, in\].
    Transposed,
    /// As in the slot, but the rows of gate and up take turns.
    Pairs,
    /// Both: columns that take turns.
    TransposedPairs,
    /// As in the slot, but in each head the two rows that rotary positions turn together are neighbours, (2i, 2i + 1) instead of
    /// (i, i + d/2).
    Neighbours,
    /// Codes of four bits \[.., in / 32, 16\] of a slot of \[.., out, in\], whose scales are in the tensor whose name ends in `_scales`
    /// instead of `_blocks`.
    Mxfp4,
    /// The same, and the rows of gate and up take turns.
    Mxfp4Pairs,
}

impl Form {
    /// Whether the rows of gate and up take turns.
    pub fn is_paired(self) -> bool {
        matches!(self, Self::Pairs | Self::TransposedPairs | Self::Mxfp4Pairs)
    }

    /// Whether rows and columns are exchanged.
    pub fn is_transposed(self) -> bool {
        matches!(self, Self::Transposed | Self::TransposedPairs)
    }

    /// Whether values are codes of four bits.
    pub fn is_mxfp4(self) -> bool {
        matches!(self, Self::Mxfp4 | Self::Mxfp4Pairs)
    }
}

impl Rule {
    /// All of a slot.
    pub(super) const fn whole(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Whole, Form::Plain)
    }

    /// The gate's rows.
    pub(super) const fn gate(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Gate, Form::Plain)
    }

    /// The rows of up.
    pub(super) const fn up(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Up, Form::Plain)
    }

    /// All of a slot in another form.
    pub(super) const fn formed(from: &'static str, to: Slot, form: Form) -> Self {
        Self::of(from, to, Part::Whole, form)
    }

    const fn of(from: &'static str, to: Slot, part: Part, form: Form) -> Self {
        Self {
            from,
            to,
            part,
            form,
        }
    }
}

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
