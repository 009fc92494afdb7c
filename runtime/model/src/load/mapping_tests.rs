use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::families::describe;
use crate::load::ModelFiles;

/// A checkpoint of zeros with tensors of these names, dtypes and shapes.
fn reader(tensors: &BTreeMap<String, (&'static str, Vec<usize>)>) -> Reader {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, (dtype, shape)) in tensors {
        let size = match *dtype {
            "F32" => 4,
            "BF16" => 2,
            _ => 1,
        };
        let begin = end;
        end += size * shape.iter().product::<usize>();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
        header.insert(name.clone(), entry);
    }
    let text = Value::Object(header).to_string();
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len() + end, 0);
    Reader::from_bytes("test", bytes).unwrap()
}

fn described(family: &str) -> Described {
    // Llama 4 has one expert for each token.
    let chosen = if family == "llama4_text" { 1 } else { 2 };
    describe(&json!({
        "model_type": family, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 32,
        "max_position_embeddings": 64, "num_experts_per_tok": chosen, "num_local_experts": 3,
        "moe_intermediate_size": 32, "sliding_window": 8, "n_routed_experts": 4, "kv_lora_rank": 16,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "q_lora_rank": 24,
        "shared_expert_intermediate_size": 40, "n_shared_experts": 1, "first_k_dense_replace": 1,
    }))
    .unwrap()
}

/// All tensors of layout number `layout` of a family.
fn complete(family: &str, layout: usize) -> BTreeMap<String, (&'static str, Vec<usize>)> {
    complete_of(described(family), layout)
}

fn complete_of(
    described: Described,
    layout: usize,
) -> BTreeMap<String, (&'static str, Vec<usize>)> {
    let Described { family, spec, .. } = described;
    let mut tensors = BTreeMap::new();
    for wanted in expand(family.layouts[layout], &spec) {
        let dtype = if wanted.scales.is_some() { "U8" } else { "F32" };
        tensors.insert(wanted.piece.name, (dtype, wanted.shape));
        if let Some((name, shape)) = wanted.scales {
            tensors.insert(name, ("U8", shape));
        }
    }
    tensors
}

#[test]
fn every_layout_of_every_family_is_a_bijection() {
    let of_gguf = crate::families::GGUF_FAMILIES;
    for family in crate::families::FAMILIES.iter().chain(of_gguf) {
        for layout in 0..family.layouts.len() {
            let described = || Described {
                family,
                ..described(family.name)
            };
            let tensors = complete_of(described(), layout);
            let plan = Plan::new(&reader(&tensors), described());
            let plan = plan.unwrap_or_else(|error| panic!("{} {layout}: {error}", family.name));
            let targets = plan.targets.values();
            let pieces: usize = targets.map(|target| target.pieces.len()).sum();
            let scales = tensors.keys().filter(|name| name.ends_with("_scales"));
            assert_eq!(pieces + scales.count(), tensors.len(), "{}", family.name);
        }
    }
}

#[test]
fn one_error_lists_everything() {
    let mut tensors = complete("mixtral", 0);
    let [gate, gates] =
        ["gate", "gates"].map(|name| format!("model.layers.1.block_sparse_moe.{name}.weight"));
    let moved = tensors.remove(&gate).unwrap();
    let query = "model.layers.0.self_attn.q_proj.weight".to_owned();
    tensors.insert(gates.clone(), moved);
    tensors.insert("model.norm.weight".to_owned(), ("F32", vec![63]));
    tensors.insert(query, ("I8", vec![64, 64]));
    tensors.remove("lm_head.weight");
    let misfits = Plan::new(&reader(&tensors), described("mixtral")).unwrap_err();
    assert_eq!(misfits.missing, ["lm_head.weight", &gate]);
    assert_eq!(misfits.unexpected, [&gates[..]]);
    assert_eq!(misfits.misshapen[0].what, "`model.norm.weight`");
    assert_eq!(misfits.faults.len(), 1);
    let text = misfits.to_string();
    let expected = format!("missing `{gate}`, nearest `{gates}`");
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains("q_proj"), "{text}");
}

#[test]
fn what_nothing_is_computed_from_may_be_there() {
    let mut tensors = complete("deepseek_v3", 0);
    let frequencies = |layer: char| format!("model.layers.{layer}.self_attn.rotary_emb.inv_freq");
    for name in ["model.layers.2.eh_proj.weight", &frequencies('1')] {
        tensors.insert(name.to_owned(), ("F32", vec![4]));
    }
    Plan::new(&reader(&tensors), described("deepseek_v3")).unwrap();
    tensors.insert(frequencies('x'), ("F32", vec![4]));
    let misfits = Plan::new(&reader(&tensors), described("deepseek_v3")).unwrap_err();
    assert_eq!(misfits.unexpected.len(), 1);
}

/// Checkpoints of models for images and text name the text model's tensors in one of two ways, and hold others, too.
#[test]
fn a_text_model_may_lie_beside_a_vision_model() {
    for nesting in [Nesting::Outer, Nesting::Inner] {
        let alone = complete("gemma3_text", 0).into_iter();
        let mut tensors: BTreeMap<_, _> = alone
            .map(|(name, stored)| (nesting.name(&name), stored))
            .collect();
        tensors.insert("vision_tower.layers.0.weight".to_owned(), ("F32", vec![2]));
        Plan::new(&reader(&tensors), described("gemma3_text")).unwrap();
        tensors.insert("audio_tower.weight".to_owned(), ("F32", vec![2]));
        let misfits = Plan::new(&reader(&tensors), described("gemma3_text")).unwrap_err();
        assert_eq!(misfits.unexpected, ["audio_tower.weight"]);
        assert!(misfits.missing.is_empty(), "{misfits}");
    }
    for name in ["model.layers.0.mlp.up_proj.weight", "lm_head.weight"] {
        for nesting in [Nesting::Alone, Nesting::Outer, Nesting::Inner] {
            assert_eq!(nesting.own(&nesting.name(name)), name);
        }
    }
}

#[test]
fn a_head_that_is_the_embedding_may_be_stored() {
    let mut described = described("llama");
    described.spec.tied = true;
    let tensors = complete("llama", 0);
    assert!(tensors.contains_key("lm_head.weight"));
    Plan::new(&reader(&tensors), described).unwrap();
}

/// The values of a stored head decide whether it is tied to the embedding, not the configuration.
#[test]
fn a_stored_head_counts_where_it_differs() {
    let family = described("llama").family;
    let same = reader(&complete("llama", 0));
    assert!(!has_own_head(Checkpoint::Safetensors(&same), family).unwrap());
    let mut tensors = complete("llama", 0);
    tensors.insert("lm_head.weight".to_owned(), ("BF16", vec![32, 64]));
    let other = reader(&tensors);
    assert!(has_own_head(Checkpoint::Safetensors(&other), family).unwrap());
    tensors.remove("lm_head.weight");
    let none = reader(&tensors);
    assert!(!has_own_head(Checkpoint::Safetensors(&none), family).unwrap());
}

/// Scales of a cache, cached angles and tensors without effect don't keep a model from being loaded.
#[test]
fn leftovers_of_any_family_are_skipped() {
    let mut tensors = complete("qwen3_moe", 0);
    for (name, shape) in [
        ("model.layers.0.self_attn.rotary_emb.inv_freq", vec![8]),
        ("model.layers.1.self_attn.k_proj.output_scale", vec![1]),
        ("model.layers.1.self_attn.v_scale", vec![1]),
        ("model.layers.0.empty", vec![0, 48]),
    ] {
        tensors.insert(name.to_owned(), ("F32", shape));
    }
    Plan::new(&reader(&tensors), described("qwen3_moe")).unwrap();
}

#[test]
fn codes_take_their_scales_along() {
    let mut tensors = complete("deepseek_v3", 0);
    let name = "model.layers.1.mlp.experts.2.up_proj.weight";
    tensors.insert(name.to_owned(), ("F8_E4M3", vec![32, 64]));
    let misfits = Plan::new(&reader(&tensors), described("deepseek_v3")).unwrap_err();
    assert!(misfits.to_string().contains("scale"), "{misfits}");
    tensors.insert(format!("{name}_scale_inv"), ("F32", vec![1, 1]));
    Plan::new(&reader(&tensors), described("deepseek_v3")).unwrap();
}

#[test]
fn weights_without_a_configuration_are_no_model() {
    let weightless = Reader::from_sources([], None).unwrap();
    let error = ModelFiles::of(weightless).unwrap_err().to_string();
    assert!(error.contains("config.json"), "{error}");
}
