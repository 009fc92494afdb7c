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

/// Makes a table of rules of rows `"name" => Slot;`, whose names all begin with one text. Behind the slot may stand the part of it that the
/// tensor is, or the form in which it lies in the file.
macro_rules! rules {
    (@part Gate) => { $crate::families::Part::Gate };
    (@part Up) => { $crate::families::Part::Up };
    (@part $($form:ident)?) => { $crate::families::Part::Whole };
    (@form) => { $crate::families::Form::Plain };
    (@form Gate) => { $crate::families::Form::Plain };
    (@form Up) => { $crate::families::Form::Plain };
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

/// Around the layers, and the norms in them.
pub(super) const FRAME: &[Rule] = rules! { "":
    "model.embed_tokens.weight" => Embedding;
    "model.norm.weight" => Norm;
    "lm_head.weight" => Head;
    "model.layers.{l}.input_layernorm.weight" => AttentionNorm;
    "model.layers.{l}.post_attention_layernorm.weight" => FeedForwardNorm;
};

/// Attention with a matrix each for q, k and v.
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

/// Latent attention.
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

/// Experts in tensors of their own.
pub(super) const EXPERTS: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.weight" => Router;
    "experts.{e}.gate_proj.weight" => ExpertsIn, Gate;
    "experts.{e}.up_proj.weight" => ExpertsIn, Up;
    "experts.{e}.down_proj.weight" => ExpertsOut;
};

/// Experts that are stacked, as transformers 5 holds them in memory.
pub(super) const STACKED: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.weight" => Router;
    "experts.gate_up_proj" => ExpertsIn;
    "experts.down_proj" => ExpertsOut;
};
