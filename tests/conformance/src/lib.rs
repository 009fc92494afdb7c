//! Conformance: every case on every device, named `grouped_gemm::tile_edges[wgpu]`.
//!
//! A case is an ordinary function of a [`Target`](moebius_tests::target::Target). It returns whether the device could run it,
//! or nothing where no device may refuse it; `expect.rs` lists the allowed refusals. A device fails if it refuses a case that
//! it must run, and also if it runs a case that is listed as unsupported.
//!
//! Each list of cases below is a program of its own in `programs/`. The linker leaves out what a program can't reach, so a
//! program changes only with the kernels and layers that its cases use, and `scripts/test` need not run it again otherwise.
//! Models are not among what this library uses: a program also gets the instances of generic functions that a library below it
//! has made, and would change with each of them. So the cases that read files are in `programs/files.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod activation_dropout;
mod attention;
mod block_gemm;
mod block_linear;
mod casts;
mod exact;
mod expect;
mod expert_activation;
mod experts;
mod fp8_conversion;
mod fp8_experts;
mod fp8_gemm;
mod fp8_instructions;
mod fp8_linear;
mod fp8_mma;
mod fp8_models;
mod fp8_tensor;
mod fp8_training;
mod gradients;
mod grouped_gemm;
mod harness;
mod hash_routing;
mod kv_cache;
mod layers;
mod loss_scaling;
mod losses;
mod model_scale;
mod moe_layer;
mod moe_training;
mod nn;
mod operation;
mod permute;
mod quantize;
mod replay;
mod router_backward;
mod routers;
mod routing;
mod rows;
mod segment_attention;
mod sparse24_gemm;
mod sparse24_linear;
mod switching;
mod tensors;
mod topk;
mod weight_gradient;

pub use harness::{Case, Outcome, run};
pub use tensors::case_folder;

use burn::tensor::DType;
use harness::cases;
use moebius_ops::Element;
// Families that share a file.
use casts as fp8;
use hash_routing as expert_load;
use permute as capacity;

/// Cases of FP8 codes and the rounding to them.
pub const QUANTIZE: &[Case] = cases! {
    casts: f16, bf16;
    fp8: encode_edges, encode_every_half, decode_every_code, lengths;
    quantize: sizes, modes, large, extreme_blocks, every_f16_value, every_bf16_value, largest_magnitude,
        repeats_bit_for_bit, overwrites_its_outputs, f16 = halves(Element::F16),
        bf16 = halves(Element::Bf16);
};

/// Cases of choosing experts for tokens.
pub const ROUTING: &[Case] = cases! {
    routing: softmax, sigmoid, raw_scores, ties_go_to_the_lowest_index, hostile_logits, mask,
        mask_leaves_too_few, sizes, router_logits = check_logits(DType::F32),
        f16 = check_logits(DType::F16), bf16 = check_logits(DType::BF16);
    topk: sizes, mask, bias, groups, in_parts, of_thousands, scale, ties, all_masked, nan, independent_of_the_batch;
    router_backward: sizes = check(Element::F32), one_of_both, logits_independent_of_the_batch,
        f16 = check(Element::F16), bf16 = check(Element::Bf16);
    hash_routing: positions, mask, content, f16 = contents(Element::F16), bf16 = contents(Element::Bf16);
    expert_load: block_edges, groups, one_expert_gets_all;
};

/// Cases of moving token rows to their experts and back.
pub const PERMUTE: &[Case] = cases! {
    permute: block_edges, one_expert_gets_all, slots_without_expert, tiles_cover_every_row,
        row_bound, keys_beyond_the_experts;
    capacity: by_weight, of_each_expert, ties_go_to_the_earlier_slot, keeps_nan, shared_under_a_mask,
        own_factors;
    rows: sizes, many_slots, uneven_experts, row_bound, positions_past_the_rows, repeats_bit_for_bit,
        f16 = halves(Element::F16), bf16 = halves(Element::Bf16);
};

/// Cases of the experts' matrix products, their gradients, and the operations on their rows.
pub const GROUPED_GEMM: &[Case] = cases! {
    grouped_gemm: tile_edges, gated, activations, bias, sorted_rows, row_bound, in_out_weights,
        uneven_experts, variants_agree_bit_for_bit, weights_in_slabs, webgpu_default_limits,
        f16 = halves(Element::F16), bf16 = halves(Element::Bf16), matrices_f16 = matrices(Element::F16),
        matrices_bf16 = matrices(Element::Bf16), pipelines_f16 = pipelines(Element::F16),
        pipelines_bf16 = pipelines(Element::Bf16);
    sparse24_gemm: sizes, f16 = halves(Element::F16), bf16 = halves(Element::Bf16),
        matrices_f16 = matrices(Element::F16), matrices_bf16 = matrices(Element::Bf16),
        pipelines_f16 = pipelines(Element::F16), pipelines_bf16 = pipelines(Element::Bf16);
    block_gemm: formats, experts, rows, in_out, of_another_program, f16 = halves(Element::F16), bf16 = halves(Element::Bf16),
        matrices_f16 = matrices(Element::F16), matrices_bf16 = matrices(Element::Bf16),
        pipelines_f16 = pipelines(Element::F16), pipelines_bf16 = pipelines(Element::Bf16);
    weight_gradient: tile_edges, dense = dense_of(Element::F32), row_blocks, uneven_experts, gather,
        variants_agree_bit_for_bit, gradients_in_slabs, webgpu_default_limits, bias_sorted, bias_weighted,
        bias_uneven_experts, f16 = halves(Element::F16), bf16 = halves(Element::Bf16),
        matrices_f16 = matrices(Element::F16), matrices_bf16 = matrices(Element::Bf16),
        pipelines_f16 = pipelines(Element::F16), pipelines_bf16 = pipelines(Element::Bf16);
    expert_activation: sizes, activations, far_out, uneven_experts, dense, many_rows, output_bias,
        empty_batch, f16 = of_element(Element::F16), bf16 = of_element(Element::Bf16);
};

/// Cases of matrix products with FP8 weights.
pub const FP8_GEMM: &[Case] = cases! {
    fp8_gemm: scales, rows, experts, in_out, every_code, e8m0_scales, f16 = halves(Element::F16),
        bf16 = halves(Element::Bf16), matrices_f16 = matrices(Element::F16), matrices_bf16 = matrices(Element::Bf16),
        pipelines_f16 = pipelines(Element::F16), pipelines_bf16 = pipelines(Element::Bf16);
    fp8_conversion: every_value, every_code, quantize, products;
    fp8_mma: values, experts, small_integers_are_exact, every_code;
};

/// Cases of attention within the rows of each expert.
pub const SEGMENT_ATTENTION: &[Case] = cases! {
    segment_attention: head_sizes, sequences, uneven_experts, row_bound, large_scores, segments_are_apart,
        empty_batch, f16, bf16;
};

/// Cases of attention over a sequence.
pub const ATTENTION: &[Case] = cases! {
    attention: rules, as_emitted, orders, shared_tables, heads, head_sizes, lengths, empty, cross_lengths, long,
        positions, few_queries, long_loops, sinks, through_lse, large_scores, unseen_values, seen_values, wide_windows,
        independent_of_the_batch, repeats_bit_for_bit, parts, tiles, tiles_f16 = half_tiles(Element::F16),
        tiles_bf16 = half_tiles(Element::Bf16), visits, views, f16 = halves(Element::F16),
        bf16 = halves(Element::Bf16), dropout, dropout_f16, masks, dropout_repeats, own_rule,
        own_rule_agrees, weights, weights_f16, matrices_f16 = matrices(Element::F16), matrices_bf16 = matrices(Element::Bf16);
};

/// Cases of attention over a key-value cache.
pub const KV_CACHE: &[Case] = cases! {
    kv_cache: formats, rules, heads, long, empty, f16, bf16, steps_are_the_whole, paged_is_contiguous,
        independent_of_the_batch, appends_in_place, clones_are_apart, stale_values;
};

/// Cases of operations with the same bits on every device.
pub const EXACT: &[Case] = cases! {
    exact: functions, small_numbers, products, activations, rows, choices, attention;
};

/// Cases of Burn's own modules on our kernels, and of linear layers with half of their weights.
pub const NN: &[Case] = cases! {
    nn: linear, many_rows, long_axes, attention, empty, f16 = halves(Element::F16), bf16 = halves(Element::Bf16);
    block_linear: values, rows, experts, gradients, refusals, f16 = half(Element::F16), bf16 = half(Element::Bf16);
    sparse24_linear: values, sparsified, gradients, masks_and_refusals, f16 = half(Element::F16), bf16 = half(Element::Bf16);
};

/// Cases of mixture-of-experts layers, their routers and their losses.
pub const MOE: &[Case] = cases! {
    moe_layer: relu, gated_silu, gelu_with_bias, capacity, ranks_and_empty_batch, f16 = half(DType::F16),
        bf16 = half(DType::BF16), repeats_bit_for_bit, independent_of_the_batch, device_memory,
        warm_forward_allocates_nothing, launches_are_fixed, training_launches_are_fixed, dense_networks,
        refuses_wrong_input;
    moe_training: relu, gated_silu, biases, capacity, keeping_less_changes_no_bit, repeats_bit_for_bit,
        frozen_experts, f16 = half(DType::F16), bf16 = half(DType::BF16),
        matrices_f16 = matrices(DType::F16), matrices_bf16 = matrices(DType::BF16),
        pipelines_f16 = pipelines(DType::F16), pipelines_bf16 = pipelines(DType::BF16);
    model_scale: few_tokens_f16, many_tokens_f16;
    routers: switch_keeps_the_raw_probability, noise_and_dropout_only_in_training, hash_is_the_reference,
        learned_is_an_mlp, dynamic_follows_its_formula, dynamic_capacities_reach_dispatch,
        sigmoid_bias_selects_but_does_not_weigh, sigmoid_bias_evens_out_the_load,
        expert_choice_takes_the_best, expert_choice_layer, masks_in_every_router, independent_of_the_batch,
        state_is_in_records, refuses_wrong_input;
    replay: gives_the_recorded_bits, takes_any_experts, has_gradients, in_host_memory, refuses_wrong_experts;
    experts: gelu_tails, convolutional_is_a_convolution, attention_is_self_attention,
        parameter_efficient_adds_to_the_frozen_network, parameter_efficient_trains_less,
        sequences_are_apart, every_kind_in_every_layer, f16 = half(Element::F16), bf16 = half(Element::Bf16),
        refuses_wrong_input;
    gradients: top_k, switch, hash, learned, dynamic, sigmoid_bias, expert_choice, feed_forward,
        convolutional, attention, parameter_efficient, shared_expert, as_pytorch;
    layers: standard, sparse, switch, glam, adaptive, scheduler, one_source_of_factors, shared_expert,
        expert_dropout, a_mask_shares_the_capacity, options_have_effects, keep_changes_no_bit,
        keeping_less_is_less, learns, cast_keeps_training, weights_of_other_layers, refuses_wrong_parts,
        configurations_are_data;
    activation_dropout: rate_and_scale, gradients_follow_the_forward, dense_blocks_and_records;
    losses: uniform, collapse, as_pytorch, groups_and_masks, many_tokens, gradients_balance, weighted_sum,
        nothing_available, statistics;
    switching: same_bits_as_in_memory, fp8_same_bits_as_in_memory, fp8_refuses_wrong_input,
        cold_experts_go_and_come_back, experts_of_a_source, masks_and_empty_batches,
        f16 = half(DType::F16), bf16 = half(DType::BF16), device_memory, refuses_wrong_input;
};

/// Cases of FP8 tensors and layers.
pub const FP8_LAYERS: &[Case] = cases! {
    fp8_tensor: every_code, every_e8m0_scale, empty, round_trip, gradients, refuses_wrong_input,
        refuses_wrong_parts, least_squares, concatenates, keeps_more_than_it_decodes;
    fp8_training: current_scaling, delayed_scaling, gradients_pass_where_values_saturate,
        several_uses_in_a_step, overflows_reach_loss_scaling, records_continue_bit_for_bit,
        ranks_inference_and_empty_batches, from_and_into_linear, bf16, refuses_wrong_input;
    loss_scaling: halves_and_doubles, grows_once_an_interval, fixed_and_off, refuses_wrong_numbers;
    fp8_experts: values_and_gradients, rows_without_expert_do_not_count, learns_as_without_fp8,
        records_continue_bit_for_bit, refuses_wrong_input;
    fp8_linear: values, ranks, independent_of_the_batch, rounded_activations, static_activations,
        delayed_activations, f16 = half(Element::F16), bf16 = half(Element::Bf16), records, gradients, refuses_wrong_input, checkpoints;
    fp8_instructions: linear_layers, experts, refusals;
    fp8_models: experts, gradients, experts_independent_of_the_batch, experts_with_rounded_activations, conversion,
        engine, copies_calibrate_apart, skips_and_refusals, shared_expert_by_matrices_f16, device_memory;
};
