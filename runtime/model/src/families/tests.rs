use moebius::moe::{RouterConfig, Score};
use serde_json::{Value, json};

use super::*;
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, Norms, Projection, RopeScaling};

/// A small configuration of a family, with the values `other` in some of its keys.
pub(super) fn config(family: &str, other: Value) -> Value {
    let mut config = json!({
        "model_type": family, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 199, "hidden_act": "silu",
        "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "num_experts_per_tok": 2,
        "num_local_experts": 4, "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56,
        "n_routed_experts": 8, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
        "v_head_dim": 16,
    });
    if family == "llama4_text" {
        config["num_experts_per_tok"] = json!(1);
    }
    let mut text = config.clone();
    text["model_type"] = json!("mistral");
    config["text_config"] = text;
    for (key, value) in other.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

pub(super) fn spec(family: &str, other: Value) -> ModelSpec {
    let Described {
        spec, unsupported, ..
    } = describe(&config(family, other)).unwrap();
    assert!(unsupported.is_empty(), "{unsupported:?}");
    spec
}

pub(super) fn unsupported(family: &str, other: Value) -> String {
    let described = describe(&config(family, other)).unwrap();
    let lines = described.unsupported.iter().map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

/// Attention of a model's first layer.
fn attention(spec: &ModelSpec) -> AttentionSpec {
    spec.layers[0].attention().unwrap().clone()
}

#[test]
fn every_family_reads_the_least_configuration() {
    for family in FAMILIES {
        let spec = spec(family.name, json!({}));
        assert_eq!((spec.layers.len(), spec.hidden), (2, 48), "{}", family.name);
    }
}

#[test]
fn both_generations_of_rotary_keys_say_the_same() {
    let four = json!({"rope_theta": 5e5, "rope_scaling": {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}});
    let five = json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 64}});
    let (four, five) = (spec("llama", four), spec("llama", five));
    assert_eq!(four, five);
    let rope = attention(&four).rope.clone().unwrap();
    assert_eq!((rope.theta, rope.rotated), (5e5, 12));
    let RopeScaling::Yarn {
        factor,
        fast,
        truncate,
        ..
    } = rope.scaling
    else {
        panic!("YaRN");
    };
    assert_eq!((factor, fast, truncate), (4.0, 32.0, true));
}

/// The original context's length may stand outside of the rotary object, as in Phi's configurations, and takes precedence there.
#[test]
fn the_original_context_may_be_told_outside() {
    let yarn = json!({"original_max_position_embeddings": 32,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}});
    let rope = attention(&spec("llama", yarn)).rope.clone().unwrap();
    assert!(matches!(
        rope.scaling,
        RopeScaling::Yarn { original: 32.0, .. }
    ));
    let dynamic = json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}});
    assert_eq!(spec("llama", dynamic), spec("llama", json!({})));
}

/// Families differ in the defaults of keys that are left out; a null key isn't left out.
#[test]
fn keys_that_are_left_out_are_those_of_transformers() {
    let without = |family: &str, names: &[&str]| {
        let mut config = config(family, json!({}));
        for name in names {
            config.as_object_mut().unwrap().remove(*name);
        }
        describe(&config).unwrap()
    };
    let epsilon = |family| without(family, &["rms_norm_eps"]).spec.epsilon;
    assert_eq!(
        [epsilon("llama"), epsilon("mixtral"), epsilon("gpt_oss")],
        [1e-6, 1e-5, 1e-5]
    );
    let deepseek = without("deepseek_v3", &[]).spec;
    let first = &attention(&deepseek);
    assert!(matches!(
        first.projection,
        Projection::Latent {
            query_rank: Some(1536),
            ..
        }
    ));
    let experts = spec("deepseek_v3", json!({"first_k_dense_replace": 0}));
    let FeedForwardSpec::Experts(experts) = &experts.layers[0].feed_forward else {
        panic!("a layer of experts");
    };
    assert_eq!(experts.shared.as_ref().map(|shared| shared.inter), Some(40));
    let heads = without("qwen3_moe", &["num_key_value_heads"]).spec;
    assert_eq!(attention(&heads).kv_heads, 4);
    let null = spec("qwen3_moe", json!({"num_key_value_heads": null}));
    assert_eq!(attention(&null).kv_heads, 4);
    assert_eq!(without("qwen3", &["hidden_size"]).spec.hidden, 4096);
}

#[test]
fn rotary_keys_may_be_those_of_a_kind_of_layers() {
    let nested = json!({"rope_parameters": {"full_attention": {"rope_theta": 7.0, "rope_type": "linear", "factor": 2}}});
    let rope = attention(&spec("qwen3", nested)).rope.clone();
    let rope = rope.unwrap();
    assert_eq!(rope.theta, 7.0);
    assert_eq!(rope.scaling, RopeScaling::Linear { factor: 2.0 });
}

#[test]
fn heads_are_as_wide_as_said_or_share_the_width() {
    let null = spec("mixtral", json!({"head_dim": null}));
    assert_eq!(attention(&null).head_dim, 12);
    let said = spec("mixtral", json!({"head_dim": 16}));
    assert_eq!(attention(&said).head_dim, 16);
    assert_eq!(attention(&said).scale, 0.25);
}

#[test]
fn the_number_of_experts_has_two_names() {
    for name in ["num_experts", "num_local_experts"] {
        let mut config = config("qwen3_moe", json!({"num_local_experts": null}));
        config[name] = json!(6);
        let spec = describe(&config).unwrap().spec;
        let FeedForwardSpec::Experts(experts) = &spec.layers[0].feed_forward else {
            panic!("a layer of experts");
        };
        assert_eq!(experts.experts, 6, "{name}");
    }
}

#[test]
fn layers_are_dense_where_the_configuration_says_so() {
    let dense = |spec: &ModelSpec| -> Vec<bool> {
        let of = |layer: &crate::decoder::LayerSpec| {
            matches!(layer.feed_forward, FeedForwardSpec::Dense(_))
        };
        spec.layers.iter().map(of).collect()
    };
    let listed = spec("qwen3_moe", json!({"mlp_only_layers": [1]}));
    assert_eq!(dense(&listed), [false, true]);
    let stepped = spec("qwen2_moe", json!({"decoder_sparse_step": 2}));
    assert_eq!(dense(&stepped), [true, false]);
    let first = spec("deepseek_v3", json!({"first_k_dense_replace": 1}));
    assert_eq!(dense(&first), [true, false]);
}

#[test]
fn windows_are_those_of_the_kinds_of_layers() {
    let kinds =
        json!({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8});
    let unused = json!({"sliding_window": 8, "use_sliding_window": false});
    let last = json!({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1});
    let dots = json!({"sliding_window": 8, "max_window_layers": 1});
    let null = json!({"sliding_window": null, "max_window_layers": 1});
    let endless =
        json!({"sliding_window": null, "use_sliding_window": true, "max_window_layers": 0});
    let named = json!({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8, "use_sliding_window": false});
    for (family, other, windows) in [
        ("gpt_oss", kinds, [None, Some(8)]),
        ("gpt_oss", json!({"sliding_window": 8}), [Some(8), None]),
        ("qwen3_moe", unused, [None, None]),
        ("mixtral", json!({"sliding_window": 4}), [Some(4), Some(4)]),
        ("mistral", json!({"sliding_window": 4}), [Some(4), Some(4)]),
        ("phi3", json!({"sliding_window": 4}), [Some(4), Some(4)]),
        ("phi3", json!({}), [None, None]),
        ("qwen2", last, [None, Some(8)]),
        ("dots1", dots, [None, Some(8)]),
        ("dots1", null, [None, None]),
        ("qwen2", endless, [None, None]),
        ("smollm3", named, [Some(8), None]),
    ] {
        let layers = spec(family, other).layers;
        let got: Vec<_> = layers
            .iter()
            .map(|layer| layer.attention().unwrap().window)
            .collect();
        assert_eq!(got, windows, "{family}");
    }
    for family in ["gemma2", "gpt_oss"] {
        let text = unsupported(family, json!({"sliding_window": null}));
        assert!(text.starts_with("sliding_window"), "{family}: {text}");
    }
}

/// Values by transformers 5.24, whose DeepSeek-V2 has no key for the order of rotated pairs.
#[test]
fn a_flag_that_is_null_is_false() {
    for (family, flag, interleaved) in [
        ("deepseek_v2", json!(false), true),
        ("deepseek_v3", json!(false), false),
        ("deepseek_v3", json!(null), false),
    ] {
        let spec = spec(family, json!({"rope_interleave": flag}));
        let rope = attention(&spec).rope.clone();
        let got = rope.map(|rope| rope.interleaved);
        assert_eq!(got, Some(interleaved), "{family} {flag}");
    }
}

#[test]
fn a_stretched_latent_attention_scales_its_scores() {
    let yarn = json!({"q_lora_rank": null, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}});
    let attention = attention(&spec("deepseek_v3", yarn));
    let m = 0.1 * 40.0_f64.ln() + 1.0;
    assert!((attention.scale - m * m / 24.0_f64.sqrt()).abs() < 1e-12);
    let rope = attention.rope.unwrap();
    // Both mscale factors are equal, so cosine and sine have a factor of 1.
    let got = (rope.attention_factor(), rope.interleaved, rope.rotated);
    assert_eq!(got, (1.0, true, 8));
    let Projection::Latent {
        query_rank, rank, ..
    } = attention.projection
    else {
        panic!("latent attention");
    };
    assert_eq!((query_rank, rank), (None, 16));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let wrong = json!({"vocab_size": "many", "num_attention_heads": 0, "rms_norm_eps": -1.0,
        "tie_word_embeddings": 1, "hidden_act": "gelu"});
    let faults = describe(&config("olmoe", wrong)).unwrap_err();
    let text: Vec<_> = faults.iter().map(ToString::to_string).collect();
    for key in [
        "vocab_size",
        "num_attention_heads",
        "rms_norm_eps",
        "tie_word_embeddings",
        "hidden_act",
    ] {
        let named = text.iter().filter(|line| line.starts_with(key));
        assert_eq!(named.count(), 1, "{key}: {text:#?}");
    }
}

#[test]
fn what_the_decoder_lacks_is_told_by_name() {
    let other = json!({"rope_scaling": {"rope_type": "ntk"}});
    let softmax = json!({"scoring_func": "softmax"});
    let three = json!({"num_key_value_heads": 3});
    for (family, other, key) in [
        ("llama", json!({"hidden_act": "gelu"}), "hidden_act"),
        ("llama", other, "rope_scaling.rope_type"),
        ("gpt_oss", json!({"swiglu_limit": 5.0}), "swiglu_limit"),
        ("deepseek_v3", softmax, "scoring_func"),
        ("llama", three, "num_key_value_heads"),
    ] {
        let text = unsupported(family, other);
        assert!(text.contains(key), "{text}");
    }
}

#[test]
fn everything_that_phi_says_about_its_positions_counts() {
    // Heads of 12 elements, of which half are rotated: 3 pairs.
    let long = json!({"partial_rotary_factor": 0.5, "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [1.0, 4.0, 8.0]}});
    let rope = attention(&spec("phi3", long)).rope.clone().unwrap();
    assert_eq!(rope.rotated, 6);
    // The context is stretched from 64 to 256 tokens.
    let attention = (1.0 + 4.0_f64.ln() / 64.0_f64.ln()).sqrt();
    let RopeScaling::LongRope {
        original,
        attention: got,
        ..
    } = rope.scaling
    else {
        panic!("LongRoPE");
    };
    assert_eq!((original, got), (64.0, attention));
    let few = json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0, 0.0]}});
    let faults = describe(&config("phi3", few)).unwrap_err();
    let text: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let text = text.join("\n");
    for key in [
        "short_factor: expected a list of 6 positive numbers",
        "long_factor",
    ] {
        assert!(text.contains(key), "{text}");
    }
    let yarn = json!({"rope_scaling": {"type": "yarn", "factor": 2.0}});
    assert!(unsupported("phi3", yarn).contains("rope_scaling.rope_type"));
}

#[test]
fn partial_rotation_has_the_default_of_the_family() {
    let rotated = |family, other| {
        attention(&spec(family, other))
            .rope
            .clone()
            .unwrap()
            .rotated
    };
    let half = json!({"head_dim": 16});
    assert_eq!(rotated("glm4_moe", half.clone()), 8);
    assert_eq!(rotated("minimax_m2", half), 16);
    let said = json!({"head_dim": 16, "rotary_dim": 4});
    assert_eq!(rotated("minimax_m2", said), 4);
    let both =
        json!({"head_dim": 16, "rotary_dim": 4, "rope_parameters": {"partial_rotary_factor": 0.5}});
    assert_eq!(rotated("minimax_m2", both), 8);
    let odd = unsupported("minimax_m2", json!({"head_dim": 16, "rotary_dim": 5}));
    assert!(odd.contains("rotary_dim"), "{odd}");
}

#[test]
fn routers_are_those_of_their_families() {
    let router = |family, other| {
        let spec = spec(family, other);
        let FeedForwardSpec::Experts(experts) = &spec.layers[1].feed_forward else {
            panic!("a layer of experts");
        };
        let shared = experts.shared.map(|shared| shared.inter);
        match experts.router {
            RouterConfig::TopK(router) => (false, router.route, shared),
            RouterConfig::SigmoidBias(router) => (true, router.route, shared),
            _ => panic!("a router of a decoder"),
        }
    };
    let grouped = json!({"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "norm_topk_prob": true,
        "n_shared_experts": 3});
    let (biased, route, shared) = router("deepseek_v2", grouped);
    let groups = route
        .groups
        .map(|groups| (groups.count, groups.chosen, groups.best));
    assert_eq!(
        (biased, route.renormalize, groups),
        (false, false, Some((4, 2, 1)))
    );
    assert_eq!((route.score, shared), (Score::Softmax, Some(120)));
    let (biased, route, shared) = router("ernie4_5_moe", json!({}));
    assert_eq!(
        (biased, route.score, route.renormalize),
        (true, Score::Softmax, true)
    );
    assert_eq!((route.top_k, shared), (2, Some(80)));
    let null = json!({"norm_topk_prob": null, "first_k_dense_replace": 0});
    assert!(!router("deepseek_v3", null).1.renormalize);
    for family in ["glm4_moe", "dots1", "minimax_m2"] {
        let (biased, route, _) = router(family, json!({"n_group": 2, "topk_group": 1}));
        assert!(biased && route.score == Score::Sigmoid, "{family}");
        let best = route.groups.map(|groups| groups.best);
        assert_eq!(best, (family != "minimax_m2").then_some(2), "{family}");
    }
}

#[test]
fn layers_of_smollm3_may_lack_positions() {
    let of = |other| -> Vec<_> {
        let layers = spec("smollm3", other).layers.into_iter();
        let of = |layer: LayerSpec| {
            let attention = layer.attention().unwrap();
            (attention.rope.is_some(), attention.window)
        };
        layers.map(of).collect()
    };
    assert_eq!(of(json!({})), [(true, None), (true, None)]);
    assert_eq!(
        of(json!({"no_rope_layer_interval": 2})),
        [(true, None), (false, None)]
    );
    let listed = json!({"no_rope_layers": [0, 1], "use_sliding_window": true, "sliding_window": 5});
    assert_eq!(of(listed), [(false, Some(5)), (true, None)]);
    let short = unsupported("smollm3", json!({"no_rope_layers": [1]}));
    assert!(short.contains("no_rope_layers"), "{short}");
}

#[test]
fn queries_of_ministral_grow_with_their_positions() {
    let rope = json!({"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 16});
    let temperature = attention(&spec("ministral3", json!({"rope_parameters": rope})))
        .temperature
        .unwrap();
    assert_eq!(
        [0, 15].map(|position| temperature.factor(position)),
        [1.0, 1.0]
    );
    // Position 31 is in the second 16 tokens, and 48 in the fourth.
    for (position, periods) in [(31, 2.0_f64), (48, 4.0)] {
        let want = (1.0 + 0.1 * periods.ln()) as f32;
        assert!((temperature.factor(position) - want).abs() < 1e-6);
    }
    // The default of the class stretches 16384 tokens by 16.
    let attention = attention(&spec("ministral3", json!({})));
    assert_eq!(
        attention.temperature.map(|temperature| temperature.span),
        Some(16_384.0)
    );
    assert!(matches!(
        attention.rope.unwrap().scaling,
        RopeScaling::Yarn { factor: 16.0, .. }
    ));
}

#[test]
fn a_text_model_stands_in_a_configuration_of_its_own() {
    let (outer, inner) = (spec("mistral3", json!({})), spec("mistral", json!({})));
    assert!(outer.tied && !inner.tied);
    assert_eq!(outer.layers, inner.layers);
}

/// transformers 5 writes the default of the text model's class beside the word of the whole, which decides in all but Llama 4.
#[test]
fn the_whole_decides_whether_its_head_is_tied() {
    for (holder, outer, inner, tied) in [
        ("mistral3", json!(true), json!(false), true),
        ("mistral3", json!(null), json!(false), true),
        ("mistral3", json!(false), json!(true), false),
        ("gemma3", json!(null), json!(false), true),
        ("gemma3", json!(false), json!(true), false),
        ("llama4", json!(true), json!(false), false),
        ("llama4", json!(null), json!(true), true),
    ] {
        let mut whole = config(holder, json!({"tie_word_embeddings": outer}));
        let text = &mut whole["text_config"];
        text["tie_word_embeddings"] = inner;
        text.as_object_mut().unwrap().remove("model_type");
        text["num_experts_per_tok"] = json!(1);
        let got = describe(&whole).unwrap().spec.tied;
        assert_eq!(got, tied, "{holder}: {}", whole["tie_word_embeddings"]);
    }
}

#[test]
fn more_than_any_model_has_is_not_made_names_of() {
    let many = json!({"num_hidden_layers": 1 << 20, "num_local_experts": 1 << 20});
    let text = unsupported("mixtral", many);
    let both = text.contains("at most 512") && text.contains("at most 2048");
    assert!(both, "{text}");
}

/// Local layers have their own θ and no stretched context, in the keys of either generation of transformers.
#[test]
fn layers_with_a_window_turn_by_a_theta_of_their_own() {
    let four = json!({"num_hidden_layers": 6, "rope_theta": 1e6, "rope_local_base_freq": 5e3, "sliding_window": 8,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}});
    let five = json!({"num_hidden_layers": 6, "sliding_window": 8, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}});
    let [four, five] = [four, five].map(|config| spec("gemma3_text", config));
    assert_eq!(four, five);
    let spec = four;
    let ropes = spec.layers.iter().map(|layer| {
        let attention = layer.attention().unwrap();
        let rope = attention.rope.clone().unwrap();
        (attention.window, rope.theta, rope.scaling)
    });
    let ropes: Vec<_> = ropes.collect();
    let local = (Some(8), 5e3, RopeScaling::None);
    let global = (None, 1e6, RopeScaling::Linear { factor: 8.0 });
    assert_eq!(ropes[..5], [(); 5].map(|()| local.clone()));
    assert_eq!(ropes[5], global);
    assert_eq!(spec.embedding_scale, 48.0_f64.sqrt());
    assert_eq!(attention(&spec).scale, 1.0 / 16.0);
    assert!(spec.tied && spec.layers.iter().all(|layer| layer.norms == Norms::Both));
}

#[test]
fn bounds_of_scores_are_those_that_transformers_applies() {
    let both = json!({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0});
    for (family, of_scores) in [("gemma2", Some(50.0)), ("gemma3_text", None)] {
        let spec = spec(family, both.clone());
        assert_eq!(spec.logits_softcap, Some(30.0), "{family}");
        assert_eq!(attention(&spec).softcap, of_scores, "{family}");
    }
    let null = json!({"attn_logit_softcapping": null, "final_logit_softcapping": null});
    let spec = spec("gemma2", null);
    assert_eq!(spec.logits_softcap, None);
    assert_eq!(attention(&spec).softcap, None);
}

#[test]
fn a_layer_of_llama_4_has_a_chunk_or_a_temperature() {
    let config = json!({"num_hidden_layers": 4, "attention_chunk_size": 32, "interleave_moe_layer_step": 2,
        "attn_temperature_tuning": 4, "no_rope_layers": []});
    let spec = spec("llama4_text", config);
    for (at, layer) in spec.layers.iter().enumerate() {
        let (attention, last) = (layer.attention().unwrap(), at == 3);
        let chunk = (!last).then_some(32);
        assert_eq!(attention.chunk, chunk, "{at}");
        assert_eq!(attention.temperature.is_some(), last, "{at}");
        let turned = attention.rope.as_ref().map(|rope| rope.interleaved);
        assert_eq!(turned, (!last).then_some(true), "{at}");
        let norm = if last { HeadNorm::None } else { HeadNorm::Unit };
        let Projection::Direct { norm: got, .. } = attention.projection else {
            panic!("separate projections");
        };
        assert_eq!(got, norm, "{at}");
        let experts = match &layer.feed_forward {
            FeedForwardSpec::Experts(experts) => experts.weighted_input && experts.inter == 80,
            FeedForwardSpec::Dense(_) => false,
        };
        assert_eq!(experts, at % 2 == 1, "{at}");
        let width = layer.feed_forward.width();
        assert_eq!(width, (at % 2 == 0).then_some(16_384), "{at}");
    }
    let two = json!({"num_experts_per_tok": 2});
    assert!(unsupported("llama4_text", two).contains("num_experts_per_tok"));
}

/// As in transformers, all layers see all keys where neither a chunk nor the kinds of layers are stated.
#[test]
fn llama_4_without_a_chunk_sees_all_keys() {
    let endless = json!({"attention_chunk_size": null});
    let spec = spec("llama4_text", endless);
    assert!(
        spec.layers
            .iter()
            .all(|layer| layer.attention().unwrap().chunk.is_none())
    );
    let chunked = json!({"attention_chunk_size": null, "layer_types": ["chunked_attention", "full_attention"]});
    assert!(unsupported("llama4_text", chunked).contains("attention_chunk_size"));
}

#[test]
fn dynamic_scaling_with_an_alpha_is_a_larger_theta() {
    let scaled = json!({"head_dim": 16, "num_local_experts": null, "num_experts": [4, 4], "moe_topk": [2, 2],
        "rope_theta": 1e4, "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0}});
    let spec = spec("hunyuan_v1_moe", scaled);
    let theta = attention(&spec).rope.clone().unwrap().theta;
    assert!((theta / (1e4 * 50.0_f64.powf(16.0 / 14.0)) - 1.0).abs() < 1e-12);
    let FeedForwardSpec::Experts(experts) = &spec.layers[1].feed_forward else {
        panic!("a layer of experts");
    };
    assert_eq!(
        (experts.experts, experts.top_k(), experts.inter),
        (4, 2, 80)
    );
    let mixed = json!({"num_local_experts": null, "num_experts": [4, 8], "moe_topk": 2});
    assert!(unsupported("hunyuan_v1_moe", mixed).contains("num_experts"));
}

#[test]
fn a_text_model_is_that_of_a_model_for_images_and_text() {
    for (holder, family) in [("gemma3", "gemma3_text"), ("llama4", "llama4_text")] {
        let mut text = config(family, json!({"model_type": null}));
        text.as_object_mut().unwrap().remove("model_type");
        let whole = json!({"model_type": holder, "text_config": text, "vision_config": {}, "tie_word_embeddings": true});
        let described = describe(&whole).unwrap();
        assert_eq!(described.family.name, family);
        let tied = json!({"tie_word_embeddings": true});
        assert_eq!(described.spec, spec(family, tied));
        let faults = describe(&json!({"model_type": holder, "text_config": 1})).unwrap_err();
        assert!(faults[0].to_string().contains("text_config"), "{faults:?}");
    }
}

#[test]
fn a_family_with_a_missing_part_is_refused_by_its_name() {
    for (family, part) in [
        ("phimoe", "sparse-mixer routing"),
        ("qwen3_next", "gated-delta layers"),
    ] {
        let fault = describe(&config(family, json!({}))).unwrap_err()[0].to_string();
        let told = [family, part, "gemma3_text", "llama4"];
        assert!(told.iter().all(|what| fault.contains(what)), "{fault}");
    }
}

#[test]
fn an_unknown_model_is_told_which_are_known() {
    for config in [json!({"model_type": "bert"}), json!({})] {
        let faults = describe(&config).unwrap_err();
        assert!(faults[0].to_string().contains("qwen3_moe"), "{faults:?}");
    }
    assert!(describe(&json!([])).is_err());
}
