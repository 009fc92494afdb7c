//! What tensors are called in GGUF files: alike in all architectures.

use super::super::rule::{Form, Rule};
use crate::decoder::Slot;

/// Around the layers, and the norms in them.
pub(super) const FRAME: &[Rule] = &[
    Rule::whole("token_embd.weight", Slot::Embedding),
    Rule::whole("output_norm.weight", Slot::Norm),
    Rule::whole("output.weight", Slot::Head),
    Rule::whole("blk.{l}.attn_norm.weight", Slot::AttentionNorm),
    Rule::whole("blk.{l}.ffn_norm.weight", Slot::FeedForwardNorm),
    Rule::whole("blk.{l}.attn_v.weight", Slot::Value),
    Rule::whole("blk.{l}.attn_v.bias", Slot::ValueBias),
    Rule::whole("blk.{l}.attn_output.weight", Slot::Out),
    Rule::whole("blk.{l}.attn_output.bias", Slot::OutBias),
];

/// Queries and keys whose rows are as in the model.
pub(super) const HALVES: &[Rule] = &[
    Rule::whole("blk.{l}.attn_q.weight", Slot::Query),
    Rule::whole("blk.{l}.attn_q.bias", Slot::QueryBias),
    Rule::whole("blk.{l}.attn_k.weight", Slot::Key),
    Rule::whole("blk.{l}.attn_k.bias", Slot::KeyBias),
    Rule::whole("blk.{l}.attn_q_norm.weight", Slot::QueryNorm),
    Rule::whole("blk.{l}.attn_k_norm.weight", Slot::KeyNorm),
];

/// Queries and keys of Llama: llama.cpp's converter puts rows that turn together side by side.
pub(super) const NEIGHBOURS: &[Rule] = &[
    Rule::formed("blk.{l}.attn_q.weight", Slot::Query, Form::Neighbours),
    Rule::formed("blk.{l}.attn_q.bias", Slot::QueryBias, Form::Neighbours),
    Rule::formed("blk.{l}.attn_k.weight", Slot::Key, Form::Neighbours),
    Rule::formed("blk.{l}.attn_k.bias", Slot::KeyBias, Form::Neighbours),
];

/// A dense network.
pub(super) const DENSE: &[Rule] = &[
    Rule::gate("blk.{l}.ffn_gate.weight", Slot::DenseIn),
    Rule::up("blk.{l}.ffn_up.weight", Slot::DenseIn),
    Rule::whole("blk.{l}.ffn_down.weight", Slot::DenseOut),
    Rule::gate("blk.{l}.ffn_gate.bias", Slot::DenseInBias),
    Rule::up("blk.{l}.ffn_up.bias", Slot::DenseInBias),
    Rule::whole("blk.{l}.ffn_down.bias", Slot::DenseOutBias),
];

/// Experts, stacked.
pub(super) const STACKED: &[Rule] = &[
    Rule::whole("blk.{l}.ffn_gate_inp.weight", Slot::Router),
    Rule::gate("blk.{l}.ffn_gate_exps.weight", Slot::ExpertsIn),
    Rule::up("blk.{l}.ffn_up_exps.weight", Slot::ExpertsIn),
    Rule::whole("blk.{l}.ffn_down_exps.weight", Slot::ExpertsOut),
];

/// Experts in tensors of their own, as in files of Mixtral from before they were stacked.
pub(super) const APART: &[Rule] = &[
    Rule::whole("blk.{l}.ffn_gate_inp.weight", Slot::Router),
    Rule::gate("blk.{l}.ffn_gate.{e}.weight", Slot::ExpertsIn),
    Rule::up("blk.{l}.ffn_up.{e}.weight", Slot::ExpertsIn),
    Rule::whole("blk.{l}.ffn_down.{e}.weight", Slot::ExpertsOut),
];

/// The expert for every token.
pub(super) const SHARED: &[Rule] = &[
    Rule::gate("blk.{l}.ffn_gate_shexp.weight", Slot::SharedIn),
    Rule::up("blk.{l}.ffn_up_shexp.weight", Slot::SharedIn),
    Rule::whole("blk.{l}.ffn_down_shexp.weight", Slot::SharedOut),
    Rule::whole("blk.{l}.ffn_gate_inp_shexp.weight", Slot::SharedGate),
];
