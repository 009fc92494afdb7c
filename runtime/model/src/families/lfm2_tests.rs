use serde_json::json;

use super::tests::{spec, unsupported};

#[test]
fn layers_of_lfm2_have_attention_or_a_convolution() {
    let attends = |family, other| -> Vec<bool> {
        let layers = spec(family, other).layers.into_iter();
        layers.map(|layer| layer.attention().is_some()).collect()
    };
    let kinds = json!({"layer_types": ["conv", "full_attention"]});
    for family in ["lfm2", "lfm2_moe"] {
        assert_eq!(attends(family, kinds.clone()), [false, true]);
        assert_eq!(
            attends(family, json!({"full_attn_idxs": [0]})),
            [true, false]
        );
        assert_eq!(attends(family, json!({})), [true, true]);
    }
    let wrong = unsupported(
        "lfm2",
        json!({"layer_types": ["conv", "sliding_attention"]}),
    );
    assert!(wrong.contains("`full_attention` or `conv`"), "{wrong}");
    let wrong = unsupported("lfm2", json!({"conv_L_cache": 1}));
    assert!(wrong.contains("expected 2 to 64 tokens"), "{wrong}");
    let wrong = unsupported("lfm2", json!({"block_ffn_dim_multiplier": 1e300}));
    assert!(wrong.contains("adjusted width of 1 to 16777216"), "{wrong}");
    let width = |other| spec("lfm2", other).layers[0].feed_forward.width();
    assert_eq!(width(json!({})), Some(256));
    assert_eq!(width(json!({"block_multiple_of": 16})), Some(64));
    assert_eq!(width(json!({"block_ff_dim": 600})), Some(512));
    assert_eq!(width(json!({"block_auto_adjust_ff_dim": false})), Some(80));
    let first = spec("lfm2_moe", json!({"num_dense_layers": 1}));
    let dense = first.layers.iter().map(|layer| layer.feed_forward.width());
    assert_eq!(dense.collect::<Vec<_>>(), [Some(80), None]);
}
