//! The programs in `examples/` as modules of the command.
#![allow(dead_code, reason = "`main` of each is for `cargo run --example`")]

#[path = "../../examples/amd.rs"]
pub(super) mod amd;
#[path = "../../examples/attention_rules.rs"]
pub(super) mod attention_rules;
#[path = "../../examples/checkpoint.rs"]
pub(super) mod checkpoint;
#[path = "../../examples/custom_kernel.rs"]
pub(super) mod custom_kernel;
#[path = "../../examples/every_device.rs"]
pub(super) mod every_device;
#[path = "../../examples/expert_balance.rs"]
pub(super) mod expert_balance;
#[path = "../../examples/expert_cache.rs"]
pub(super) mod expert_cache;
#[path = "../../examples/fp8_linear.rs"]
pub(super) mod fp8_linear;
#[path = "../../examples/generation.rs"]
pub(super) mod generation;
#[path = "../../examples/moe_layer.rs"]
pub(super) mod moe_layer;
#[path = "../../examples/nvidia.rs"]
pub(super) mod nvidia;
#[path = "../../examples/optimize.rs"]
pub(super) mod optimize;
#[path = "../../examples/pipeline.rs"]
pub(super) mod pipeline;
#[path = "../../examples/serving.rs"]
pub(super) mod serving;
#[path = "../../examples/tpu.rs"]
pub(super) mod tpu;
#[path = "../../examples/training.rs"]
pub(super) mod training;
