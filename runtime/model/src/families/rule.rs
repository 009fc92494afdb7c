//! Rules that map tensors of a checkpoint to slots, and the tensor names that many families share.

use crate::decoder::Slot;

/// A rule: which slot, or part of a slot, the tensors of a name hold.
///
/// In the name `{l}` stands for the index of a layer and `{e}` for that of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the tensors in the checkpoint.
    pub from: &'static str,
    /// Slot that the tensors belong to.
    pub to: Slot,
    /// Rows of the slot that the tensors hold.
    pub part: Part,
    /// Order and encoding of the values in the file.
    pub form: Form,
}

/// Rows of a slot that a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All rows.
    Whole,
    /// The first half of a gated slot's rows, the gate.
    Gate,
    /// The second half of a gated slot's rows, up.
    Up,
    /// Of the rows of each head in latent attention, those that make the head's key.
    Keys,
    /// Of the rows of each head in latent attention, those that make the head's value.
    Values,
}

/// Order and encoding of a tensor's values in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The order of the slot.
    Plain,
    /// Transposed: \[.., in, out\] for a slot of \[.., out, in\].
    Transposed,
    /// The order of the slot, but with the rows of gate and up alternating.
    Pairs,
    /// Transposed, with the columns of gate and up alternating.
    TransposedPairs,
    /// The order of the slot, but in each head the two rows that rotary positions rotate together are neighbours, (2i, 2i + 1) instead of
    /// (i, i + d/2).
    Neighbours,
    /// The order of the slot, in a tensor that holds the rows of q, of k and of v one after the other.
    Fused,
    /// The order of the slot, for a vector that is stored as a matrix of one row.
    Row,
    /// The order of the slot, for a matrix of factors of channels that is stored as \[channels, 1, factors\].
    Channels,
    /// A matrix for each head, \[heads, out, in\].
    Heads,
    /// A transposed matrix for each head, \[heads, in, out\].
    TransposedHeads,
    /// MXFP4 codes of four bits \[.., in / 32, 16\] for a slot of \[.., out, in\]; the scales are in a second tensor, whose name ends in
    /// `_scales` instead of `_blocks`.
    Mxfp4,
    /// MXFP4 codes, with the rows of gate and up alternating.
    Mxfp4Pairs,
    /// The order of the slot, less 1: factors w of a norm that multiplies by 1 + w.
    LessOne,
}

impl Form {
    /// Whether the rows of gate and up alternate.
    pub fn is_paired(self) -> bool {
        matches!(self, Self::Pairs | Self::TransposedPairs | Self::Mxfp4Pairs)
    }

    /// Whether rows and columns are exchanged.
    pub fn is_transposed(self) -> bool {
        matches!(self, Self::Transposed | Self::TransposedPairs)
    }

    /// Whether values are MXFP4 codes of four bits.
    pub fn is_mxfp4(self) -> bool {
        matches!(self, Self::Mxfp4 | Self::Mxfp4Pairs)
    }
}

/// Makes a table of rules from rows `"name" => Slot;` and a prefix that all names share. After the slot may stand the part of the slot that
/// the tensor holds, or the form of the tensor in the file; the keys and values of heads have a form of their own.
macro_rules! rules {
    (@part Gate) => { $crate::families::Part::Gate };
    (@part Up) => { $crate::families::Part::Up };
    (@part Keys) => { $crate::families::Part::Keys };
    (@part Values) => { $crate::families::Part::Values };
    (@part $($form:ident)?) => { $crate::families::Part::Whole };
    (@form) => { $crate::families::Form::Plain };
    (@form Gate) => { $crate::families::Form::Plain };
    (@form Up) => { $crate::families::Form::Plain };
    (@form Keys) => { $crate::families::Form::TransposedHeads };
    (@form Values) => { $crate::families::Form::Heads };
    (@form $form:ident) => { $crate::families::Form::$form };
    ($prefix:literal: $($name:literal => $slot:ident $(, $kind:ident)?;)*) => {
        &[$($crate::families::Rule {
            from: concat!($prefix, $name),
            to: $crate::decoder::Slot::$slot,
            part: rules!(@part $($kind)?),
            form: rules!(@form $($kind)?),
        },)*]
    };
}
pub(super) use rules;

/// Tensors outside of the layers, and the norms of the layers.
pub(super) const FRAME: &[Rule] = rules! { "":
    "model.embed_tokens.weight" => Embedding;
    "model.norm.weight" => Norm;
    "lm_head.weight" => Head;
    "model.layers.{l}.input_layernorm.weight" => AttentionNorm;
    "model.layers.{l}.post_attention_layernorm.weight" => FeedForwardNorm;
};

/// Attention with separate matrices for q, k and v.
pub(super) const ATTENTION: &[Rule] = rules! { "model.layers.{l}.self_attn.":
    "q_proj.weight" => Query;
    "q_proj.bias" => QueryBias;
    "k_proj.weight" => Key;
    "k_proj.bias" => KeyBias;
    "v_proj.weight" => Value;
    "v_proj.bias" => ValueBias;
    "o_proj.weight" => Out;
    "o_proj.bias" => OutBias;
    "q_norm.weight" => QueryNorm;
    "k_norm.weight" => KeyNorm;
};

/// Attention with separate matrices for q, k and v, without the norms of q and k.
pub(super) const PROJECTIONS: &[Rule] = rules! { "model.layers.{l}.self_attn.":
    "q_proj.weight" => Query;
    "q_proj.bias" => QueryBias;
    "k_proj.weight" => Key;
    "k_proj.bias" => KeyBias;
    "v_proj.weight" => Value;
    "v_proj.bias" => ValueBias;
    "o_proj.weight" => Out;
    "o_proj.bias" => OutBias;
};

/// Latent attention, with the projections to and from the narrow vectors.
pub(super) const LATENT: &[Rule] = rules! { "model.layers.{l}.self_attn.":
    "q_proj.weight" => Query;
    "q_a_proj.weight" => QueryDown;
    "q_a_proj.bias" => QueryDownBias;
    "q_a_layernorm.weight" => QueryLatentNorm;
    "q_b_proj.weight" => QueryUp;
    "kv_a_proj_with_mqa.weight" => LatentDown;
    "kv_a_proj_with_mqa.bias" => LatentDownBias;
    "kv_a_layernorm.weight" => LatentNorm;
    "kv_b_proj.weight" => LatentUp;
    "o_proj.weight" => Out;
    "o_proj.bias" => OutBias;
};

/// A dense network.
pub(super) const DENSE: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate_proj.weight" => DenseIn, Gate;
    "up_proj.weight" => DenseIn, Up;
    "down_proj.weight" => DenseOut;
    "gate_proj.bias" => DenseInBias, Gate;
    "up_proj.bias" => DenseInBias, Up;
    "down_proj.bias" => DenseOutBias;
};

/// Experts with a tensor for each expert's matrix.
pub(super) const EXPERTS: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.weight" => Router;
    "experts.{e}.gate_proj.weight" => ExpertsIn, Gate;
    "experts.{e}.up_proj.weight" => ExpertsIn, Up;
    "experts.{e}.down_proj.weight" => ExpertsOut;
};

/// Stacked experts, as transformers 5 holds them in memory.
pub(super) const STACKED: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.weight" => Router;
    "experts.gate_up_proj" => ExpertsIn;
    "experts.down_proj" => ExpertsOut;
};

/// Stacked experts as MLX stores them, with gate and up apart.
pub(super) const SWITCHED: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.weight" => Router;
    "switch_mlp.gate_proj.weight" => ExpertsIn, Gate;
    "switch_mlp.up_proj.weight" => ExpertsIn, Up;
    "switch_mlp.down_proj.weight" => ExpertsOut;
};
