//! Conformance: every case on every device, named `grouped_gemm::tile_edges[wgpu]`.
//!
//! A case is an ordinary function of a [`Target`] that returns whether the device could run it;
//! `expect.rs` says which may not. A device that must run a case and can't fails, and so does one
//! that is listed as unsupported and can. Every kernel that a case launches is named, and where a record is kept
//! ([`moebius_tests::record`]) it says what each case launched.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod activation_dropout;
mod attention;
mod capacity;
mod cases;
mod casts;
mod expect;
mod expert_activation;
mod expert_load;
mod experts;
mod fp8;
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
mod hash_routing;
mod kv_cache;
mod layers;
mod loss_scaling;
mod losses;
mod model_scale;
mod moe_layer;
mod moe_training;
mod neighbours;
mod nn;
mod permute;
mod quantize;
mod router_backward;
mod routers;
mod routing;
mod rows;
mod segment_attention;
mod switching;
mod topk;
mod weight_gradient;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use moebius_device::Runtime;
use moebius_shaders::emit::{KernelEntry, Target::Wgsl};
use moebius_tests::record::{self, End, Launch, Line};
use moebius_tests::target::Target;

/// What became of a case that didn't fail.
#[must_use]
pub(crate) enum Outcome {
    /// It ran and its checks held.
    Ran,
    /// The device refused it with this error.
    Unsupported(String),
}

impl Outcome {
    /// The first refusal of several runs, or that all of them ran.
    fn of(runs: impl IntoIterator<Item = Outcome>) -> Outcome {
        let mut runs = runs.into_iter();
        runs.find(|run| matches!(run, Outcome::Unsupported(_)))
            .unwrap_or(Outcome::Ran)
    }
}

type Case = fn(&Target) -> Outcome;

/// Collects the named cases of every module.
macro_rules! cases {
    ($($module:ident: $($case:ident),+;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($case)), $module::$case as Case)),+),+]
    };
}

const CASES: &[(&str, Case)] = cases! {
    casts: f16, bf16;
    fp8: encode_edges, encode_every_half, decode_every_code, lengths;
    routing: softmax, sigmoid, raw_scores, ties_go_to_the_lowest_index, hostile_logits, mask,
        mask_leaves_too_few, sizes, router_logits, f16, bf16;
    topk: sizes, mask, bias, groups, scale, ties, all_masked, nan, independent_of_the_batch;
    router_backward: sizes, one_of_both, logits_independent_of_the_batch, f16, bf16;
    hash_routing: positions, mask, content, f16, bf16;
    expert_load: block_edges, groups, one_expert_gets_all;
    permute: block_edges, one_expert_gets_all, slots_without_expert, tiles_cover_every_row,
        row_bound, keys_beyond_the_experts;
    capacity: by_weight, of_each_expert, ties_go_to_the_earlier_slot, keeps_nan, shared_under_a_mask,
        own_factors;
    rows: sizes, many_slots, uneven_experts, row_bound, positions_past_the_rows, repeats_bit_for_bit,
        f16, bf16;
    neighbours: sizes, empty_experts, row_bound, f16, bf16;
    grouped_gemm: tile_edges, gated, activations, bias, sorted_rows, row_bound,
        in_out_weights, uneven_experts, variants_agree_bit_for_bit, weights_in_slabs,
        webgpu_default_limits, f16, bf16, matrices_f16, matrices_bf16;
    fp8_gemm: scales, rows, experts, every_code, e8m0_scales, f16, bf16, matrices_f16, matrices_bf16;
    fp8_conversion: every_value, every_code, quantize, products;
    fp8_mma: values, experts, small_integers_are_exact, every_code;
    weight_gradient: tile_edges, dense, row_blocks, uneven_experts, gather, variants_agree_bit_for_bit,
        gradients_in_slabs, webgpu_default_limits, bias_sorted, bias_weighted, bias_uneven_experts,
        f16, bf16, matrices_f16, matrices_bf16;
    expert_activation: sizes, activations, far_out, uneven_experts, many_rows, output_bias, empty_batch, f16, bf16;
    segment_attention: head_sizes, sequences, uneven_experts, row_bound, large_scores,
        segments_are_apart, empty_batch, f16, bf16;
    attention: rules, as_emitted, orders, shared_tables, heads, head_sizes, lengths, cross_lengths, long, positions, few_queries, sinks, through_lse,
        large_scores, unseen_values, seen_values, wide_windows, independent_of_the_batch, repeats_bit_for_bit,
        parts, tiles, tiles_f16, tiles_bf16, visits, views, f16, bf16, dropout, dropout_f16, masks, dropout_repeats, own_rule, own_rule_agrees,
        matrices_f16, matrices_bf16;
    kv_cache: formats, rules, heads, long, f16, bf16, steps_are_the_whole, paged_is_contiguous,
        independent_of_the_batch, appends_in_place, clones_are_apart, stale_values;
    moe_layer: relu, gated_silu, gelu_with_bias, capacity, ranks_and_empty_batch, f16, bf16,
        repeats_bit_for_bit, independent_of_the_batch, device_memory, warm_forward_allocates_nothing,
        launches_are_fixed, training_launches_are_fixed, refuses_wrong_input;
    moe_training: relu, gated_silu, biases, capacity, keeping_less_changes_no_bit, repeats_bit_for_bit,
        frozen_experts, f16, bf16, matrices_f16, matrices_bf16;
    model_scale: few_tokens_f16, many_tokens_f16;
    routers: switch_keeps_the_raw_probability, noise_and_dropout_only_in_training,
        hash_is_the_reference, learned_is_an_mlp, dynamic_follows_its_formula,
        dynamic_capacities_reach_dispatch, sigmoid_bias_selects_but_does_not_weigh,
        sigmoid_bias_evens_out_the_load, expert_choice_takes_the_best, expert_choice_layer,
        masks_in_every_router, independent_of_the_batch, state_is_in_records, refuses_wrong_input;
    experts: convolutional_is_a_convolution, attention_is_self_attention,
        parameter_efficient_adds_to_the_frozen_network, parameter_efficient_trains_less,
        sequences_are_apart, every_kind_in_every_layer, f16, bf16, refuses_wrong_input;
    nn: linear, attention, f16, bf16;
    gradients: top_k, switch, hash, learned, dynamic, sigmoid_bias, expert_choice, feed_forward,
        convolutional, attention, parameter_efficient, shared_expert, as_pytorch;
    layers: standard, sparse, switch, glam, adaptive, scheduler, one_source_of_factors, shared_expert,
        expert_dropout, a_mask_shares_the_capacity, options_have_effects, keep_changes_no_bit,
        keeping_less_is_less, learns, cast_keeps_training,
        weights_of_other_layers, refuses_wrong_parts, configurations_are_data;
    activation_dropout: rate_and_scale, gradients_follow_the_forward, dense_blocks_and_records;
    losses: uniform, collapse, as_pytorch, groups_and_masks, gradients_balance, weighted_sum,
        nothing_available, statistics;
    switching: same_bits_as_in_memory, cold_experts_go_and_come_back, masks_and_empty_batches, f16,
        bf16, device_memory, refuses_wrong_input;
    quantize: sizes, modes, large, extreme_blocks, every_f16_value, every_bf16_value,
        largest_magnitude, repeats_bit_for_bit, overwrites_its_outputs, f16, bf16;
    fp8_tensor: every_code, every_e8m0_scale, empty, round_trip, gradients, refuses_wrong_input,
        refuses_wrong_parts, least_squares, concatenates, keeps_more_than_it_decodes;
    fp8_training: current_scaling, delayed_scaling, gradients_pass_where_values_saturate,
        several_uses_in_a_step, overflows_reach_loss_scaling, records_continue_bit_for_bit,
        ranks_inference_and_empty_batches, from_and_into_linear, bf16, refuses_wrong_input;
    loss_scaling: halves_and_doubles, grows_once_an_interval, fixed_and_off, refuses_wrong_numbers;
    fp8_experts: values_and_gradients, rows_without_expert_do_not_count, learns_as_without_fp8,
        records_continue_bit_for_bit, refuses_wrong_input;
    fp8_linear: values, ranks, independent_of_the_batch, rounded_activations, static_activations,
        delayed_activations, f16, bf16, records, refuses_wrong_input, checkpoints;
    fp8_instructions: linear_layers, experts, refusals;
    fp8_models: experts, experts_independent_of_the_batch, experts_with_rounded_activations,
        conversion, engine, copies_calibrate_apart, skips_and_refusals, device_memory;
};

/// The device that refuses for all.
const REFUSES: &str = "cpu";

/// The cases that launch kernels without comparing what they write with a reference.
fn compares_nothing(name: &str) -> bool {
    let (_, case) = name.split_once("::").unwrap_or_default();
    let without = [
        "device_memory",
        "appends_in_place",
        "warm_forward_allocates_nothing",
        "launches_are_fixed",
        "training_launches_are_fixed",
        "skips_and_refusals",
    ];
    case.starts_with("refuses_") || without.contains(&case)
}

fn judge(name: &str, case: Case, target: &Target) -> Result<End, Failed> {
    let refusal = expect::unsupported(name, target);
    let end = match (case(target), refusal) {
        (Outcome::Ran, None) => End::Ran,
        (Outcome::Unsupported(error), Some(_)) => End::Refused(error),
        (Outcome::Ran, Some(reason)) => {
            let advice = "but it runs: update expect.rs";
            return Err(format!("listed as unsupported ({reason}), {advice}").into());
        }
        (Outcome::Unsupported(error), None) => {
            return Err(format!("must run here: {error}").into());
        }
    };
    match record::launched()
        .iter()
        .find_map(|launch| misnamed(launch, target))
    {
        Some(problem) => Err(problem.into()),
        None => Ok(end),
    }
}

/// Whether this run wants a case on a device: those of all families (on XLA, of all but one), or of those that
/// `MOEBIUS_TEST_FAMILIES` lists, or cases that it lists by name; what is refused before there is a launch is refused alike everywhere.
fn wanted(name: &str, target: &Target) -> bool {
    if name.contains("::refuses_") && target.name != REFUSES {
        return false;
    }
    let family = name.split("::").next();
    let Ok(families) = std::env::var("MOEBIUS_TEST_FAMILIES") else {
        // XLA compiles a program for each problem. Of these families `xla_fp8_ops` and `xla_attention` compare as many through
        // the same lowering; what is left of attention's shows that calls, gradients and halves get there.
        let through_the_seam = [
            "heads",
            "through_lse",
            "f16",
            "parts",
            "positions",
            "masks",
            "dropout_repeats",
            "own_rule",
        ];
        let case = name.split("::").nth(1).unwrap_or_default();
        let compared_elsewhere = match family {
            Some("quantize") => true,
            Some("attention") => !through_the_seam.contains(&case),
            _ => false,
        };
        return !(target.name.starts_with("xla") && compared_elsewhere);
    };
    let asked = |one: &str| Some(one) == family || one == name;
    families.split(',').any(asked)
}

/// What is wrong with the name of a launch of ours: there is none, or on WebGPU it is that of an emitted kernel of another
/// Rust type.
fn misnamed(launch: &Launch, target: &Target) -> Option<String> {
    static TYPES: LazyLock<BTreeMap<String, &str>> = LazyLock::new(|| {
        let of = |entry: KernelEntry| Some((entry.name.clone(), entry.type_name(Wgsl)?));
        moebius_shaders::kernels()
            .into_iter()
            .filter_map(of)
            .collect()
    });
    let Some(name) = &launch.name else {
        let problem = || format!("{} is launched without a name", launch.kernel);
        return launch.ours().then(problem);
    };
    let emitted = TYPES
        .get(name)
        .filter(|_| target.capability().runtime == Runtime::Wgpu)?;
    (*emitted != launch.kernel)
        .then(|| format!("{name} is {emitted}, and {} is launched", launch.kernel))
}

/// Runs a case and leaves its line in the record, if one is kept.
fn run(name: &str, case: Case, target: &Target) -> Result<(), Failed> {
    record::forget();
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| judge(name, case, target)));
    if let Some(folder) = record::folder() {
        let capability = target.capability();
        let launched = record::launched();
        let compared = !compares_nothing(name);
        let names = launched.iter().filter_map(|launch| launch.name.clone());
        let names: BTreeSet<String> = names.filter(|_| compared).collect();
        let line = Line {
            case: name.to_owned(),
            device: target.name.to_owned(),
            adapter: format!("{} [{}]", capability.name, capability.kind),
            end: match &result {
                Ok(Ok(end)) => end.clone(),
                _ => End::Failed,
            },
            seconds: started.elapsed().as_secs_f64(),
            launches: launched.len(),
            kernels: names.into_iter().collect(),
        };
        record::append(&folder, &line);
    }
    result
        .unwrap_or_else(|panic| resume_unwind(panic))
        .map(drop)
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Devices are shared; one case at a time keeps memory figures and panics apart.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    record::listen();
    let mut trials = Vec::new();
    for target in Target::all() {
        for (name, case) in CASES.iter().filter(|(name, _)| wanted(name, target)) {
            let label = format!("{name}[{}]", target.name);
            trials.push(Trial::test(label, move || run(name, *case, target)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A driver that still works while the process ends may crash it (SwiftShader).
    for target in Target::all() {
        if let Err(error) = target.sync() {
            eprintln!("{} doesn't come to an end: {error}", target.name);
        }
    }
    conclusion.exit();
}
