use moebius_ops::matches_pattern;

use super::{DEFAULT_SKIPS, is_matrix};

#[test]
fn published_names_are_told_apart() {
    let skipped = |name: &str| DEFAULT_SKIPS.iter().any(|p| matches_pattern(p, name));
    for name in [
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.kv_a_proj_with_mqa.weight",
        "model.layers.3.mlp.experts.17.gate_proj.weight",
        "model.layers.3.mlp.shared_experts.down_proj.weight",
        "model.layers.3.block_sparse_moe.experts.0.w1.weight",
        "model.layers.0.mlp.gate_up_proj.weight",
        "weight",
    ] {
        assert!(is_matrix(name, &[4, 4]) && !skipped(name), "{name}");
    }
    for name in [
        "model.layers.0.mlp.experts.gate_up_proj",
        "model.layers.0.block_sparse_moe.input_linear.weight",
    ] {
        assert!(is_matrix(name, &[2, 4, 4]) && !skipped(name), "{name}");
    }
    for name in [
        "model.embed_tokens.weight",
        "transformer.wte.weight",
        "lm_head.weight",
        "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.router.weight",
        "model.layers.3.mlp.gate.wg.weight",
        "model.layers.3.feed_forward.router.weight",
        "model.layers.3.mlp.shared_expert_gate.weight",
        "model.layers.3.block_sparse_moe.router.layer.weight",
        "model.layers.0.self_attn.q_norm.weight",
        "transformer.h.0.ln_1.weight",
    ] {
        assert!(skipped(name), "{name}");
    }
    assert!(!is_matrix(
        "model.layers.0.mlp.experts.gate_up_proj_bias",
        &[2, 4]
    ));
    assert!(!is_matrix(
        "model.layers.0.mlp.experts.w1.weight_scale_inv",
        &[2, 4, 4]
    ));
    assert!(!is_matrix("conv1.weight", &[2, 4, 4]));
    assert!(!is_matrix("model.norm.weight", &[4]));
    assert!(!is_matrix("model.layers.0.self_attn.sinks", &[4, 4]));
}
