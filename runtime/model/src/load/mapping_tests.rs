use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::families::describe;
use crate::load::ModelFiles;

/// Names, dtypes and shapes of tensors.
type Tensors = BTreeMap<String, (&'static str, Vec<usize>)>;

/// A checkpoint of zeros with these tensors.
fn reader(tensors: &Tensors) -> Reader {
    Reader::from_bytes("test", file(tensors, &[])).unwrap()
}

/// A file of zeros with these tensors, but for single F32 values in some of them.
fn file(tensors: &Tensors, values: &[(&str, f32)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, (dtype, shape)) in tensors {
        let begin = end;
        end += size_of(dtype) * shape.iter().product::<usize>();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
        header.insert(name.clone(), entry);
    }
    let text = Value::Object(header).to_string();
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    let data = bytes.len();
    bytes.resize(data + end, 0);
    let mut at = data;
    for (name, (dtype, shape)) in tensors {
        for (_, value) in values.iter().filter(|(of, _)| of == name) {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        at += size_of(dtype) * shape.iter().product::<usize>();
    }
    bytes
}

/// Bytes of a value.
fn size_of(dtype: &str) -> usize {
    match dtype {
        "F32" => 4,
        "BF16" => 2,
        _ => 1,
    }
}

/// The model of a file of zeros with these tensors, values and a configuration.
fn opened(tensors: &Tensors, values: &[(&str, f32)], config: Value) -> Result<ModelFiles, String> {
    let bytes = file(tensors, values);
    let reader = Reader::from_sources(
        [("test".to_owned(), Box::new(bytes) as _)],
        Some(("config.json", config)),
    );
    ModelFiles::of(reader.unwrap()).map_err(|error| error.to_string())
}

fn described(family: &str) -> Described {
    describe(&config(family)).unwrap()
}

fn config(family: &str) -> Value {
    // Llama 4 has one expert for each token.
    let chosen = if family == "llama4_text" { 1 } else { 2 };
    let mut config = json!({
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 32,
        "max_position_embeddings": 64, "num_experts_per_tok": chosen, "num_local_experts": 3,
        "moe_intermediate_size": 32, "sliding_window": 8, "n_routed_experts": 4, "kv_lora_rank": 16,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "q_lora_rank": 24,
        "shared_expert_intermediate_size": 40, "n_shared_experts": 1, "first_k_dense_replace": 1,
    });
    let text = config.clone();
    config["text_config"] = text;
    config["model_type"] = json!(family);
    config
}

/// All tensors of layout number `layout` of a family.
fn complete(family: &str, layout: usize) -> Tensors {
    complete_of(described(family), layout)
}

fn complete_of(described: Described, layout: usize) -> Tensors {
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
            let pieces = plan.targets.values().flat_map(|target| &target.pieces);
            let names: BTreeSet<_> = pieces.map(|piece| &piece.name).collect();
            let scales = tensors.keys().filter(|name| name.ends_with("_scales"));
            let all = names.len() + scales.count();
            assert_eq!(all, tensors.len(), "{}", family.name);
        }
    }
}

#[test]
fn rows_of_q_k_and_v_may_be_in_one_tensor() {
    let Described { family, spec, .. } = described("phi3");
    let name = "model.layers.1.self_attn.qkv_proj.weight";
    let wanted = expand(family.layouts[0], &spec);
    let fused = wanted.iter().filter(|one| one.piece.name == name);
    let found = fused.map(|one| (one.place.slot, one.piece.skipped, one.shape.clone()));
    // Four heads of queries and two of keys and values, 16 rows each.
    let rows = [(Slot::Query, 0), (Slot::Key, 64), (Slot::Value, 96)];
    let rows = rows.map(|(slot, skipped)| (slot, skipped, vec![128, 64]));
    assert_eq!(found.collect::<Vec<_>>(), rows);
    let mut tensors = complete("phi3", 0);
    tensors.remove(name);
    let misfits = Plan::new(&reader(&tensors), described("phi3")).unwrap_err();
    assert_eq!(misfits.missing, [name]);
}

/// 512 layers of 2048 experts have 3 million matrices, if each has a tensor of its own.
#[test]
fn names_are_made_for_no_more_experts_than_files_have() {
    let mut many = config("mixtral");
    many["num_hidden_layers"] = Value::from(512);
    many["num_local_experts"] = Value::from(2048);
    let misfits = Plan::new(&reader(&Tensors::new()), describe(&many).unwrap()).unwrap_err();
    let last = "model.layers.511.mlp.experts.gate_up_proj";
    assert!(misfits.missing.iter().any(|name| name == last));
    assert!(misfits.missing.len() < 1 << 13, "{}", misfits.missing.len());
}

#[test]
fn tensors_of_other_parts_are_skipped() {
    let mut tensors = complete("mistral3", 0);
    tensors.insert("vision_tower.ln_pre.weight".to_owned(), ("F32", vec![4]));
    Plan::new(&reader(&tensors), described("mistral3")).unwrap();
    tensors.insert("audio_tower.weight".to_owned(), ("F32", vec![4]));
    let misfits = Plan::new(&reader(&tensors), described("mistral3")).unwrap_err();
    assert_eq!(misfits.unexpected, ["audio_tower.weight"]);
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

/// Programs that wrap a model put a prefix before the names of its tensors, or leave out `model.`.
#[test]
fn prefixes_of_names_do_not_matter() {
    for [inner, outer] in [
        ["", ""],
        ["model.language_model.", ""],
        ["language_model.model.", "language_model."],
        ["base_model.model.model.", "base_model.model."],
    ] {
        let named = |name: &str| match name.strip_prefix("model.") {
            Some(rest) => format!("{inner}{rest}"),
            None => format!("{outer}{name}"),
        };
        let tensors = complete("mixtral", 0).into_iter();
        let tensors = tensors.map(|(name, of)| (named(&name), of)).collect();
        opened(&tensors, &[], config("mixtral")).unwrap();
    }
}

/// Where head and embedding are one, either may be stored.
#[test]
fn a_tied_head_may_be_all_that_is_stored() {
    let mut tied = config("llama");
    tied["tie_word_embeddings"] = Value::from(true);
    let mut tensors = complete("llama", 0);
    tensors.remove("model.embed_tokens.weight");
    let files = opened(&tensors, &[], tied).unwrap();
    assert!(files.spec().tied);
    let error = opened(&tensors, &[], config("llama")).unwrap_err();
    assert!(
        error.contains("missing `model.embed_tokens.weight`"),
        "{error}"
    );
}

/// One scale alone is that of keys and values, and one that isn't positive is none, as in vLLM.
#[test]
fn scales_of_a_cache_are_found_in_all_layouts() {
    let of = |layer: usize, name: &str| format!("model.layers.{layer}.self_attn.{name}");
    for names in [
        ["k_scale", "v_scale"],
        ["k_proj.k_scale", "v_proj.v_scale"],
        ["k_proj.output_scale", "v_proj.output_scale"],
    ] {
        let [keys, values] = names.map(|name| of(0, name));
        let (both, none) = (of(1, "kv_scale"), of(1, "k_scale"));
        let mut tensors = complete("qwen3_moe", 0);
        for name in [&keys, &values, &both, &none] {
            tensors.insert(name.clone(), ("F32", vec![1]));
        }
        let given = [
            (&keys[..], 0.5),
            (&values[..], 0.25),
            (&both[..], 2.0),
            (&none[..], -1.0),
        ];
        let files = opened(&tensors, &given, config("qwen3_moe")).unwrap();
        let scales = files.spec().cache_scales.iter();
        let scales: Vec<_> = scales.map(|of| of.map(|of| (of.keys, of.values))).collect();
        assert_eq!(scales, [Some((0.5, 0.25)), Some((2.0, 2.0))], "{names:?}");
        let bad = [(&keys[..], f32::NAN)];
        let error = opened(&tensors, &bad, config("qwen3_moe")).unwrap_err();
        assert!(
            error.contains(&keys) && error.contains("got NaN"),
            "{error}"
        );
    }
    let none = opened(&complete("qwen3_moe", 0), &[], config("qwen3_moe"));
    assert!(none.unwrap().spec().cache_scales.is_empty());
}

#[test]
fn methods_that_are_not_read_are_named() {
    let quantized = |config: &mut Value, entries: Value| {
        config["quantization_config"] = entries;
        config.clone()
    };
    let mut hqq = config("llama");
    let hqq = quantized(&mut hqq, json!({"quant_method": "hqq"}));
    let mut tensors = complete("llama", 0);
    opened(&tensors, &[], hqq.clone()).unwrap();
    let query = "model.layers.0.self_attn.q_proj";
    tensors.remove(&format!("{query}.weight"));
    tensors.insert(format!("{query}.W_q"), ("U8", vec![64, 32]));
    let error = opened(&tensors, &[], hqq).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert!(
        lines[1].contains("bitsandbytes") && lines[1].contains("got `hqq`"),
        "{error}"
    );
    assert!(lines[1].contains("GGUF"), "{error}");
    // Codes that only look like those of a method that is read.
    tensors.remove(&format!("{query}.W_q"));
    tensors.insert(format!("{query}.weight"), ("I8", vec![64, 64]));
    tensors.insert(format!("{query}.weight_scale"), ("F32", vec![64, 1]));
    let mut quark = config("llama");
    let quark = quantized(&mut quark, json!({"quant_method": "quark"}));
    let error = opened(&tensors, &[], quark).unwrap_err();
    assert!(error.contains("got `quark`"), "{error}");
    opened(&tensors, &[], config("llama")).unwrap();
}

/// Plain weights that transformers would round or turn before each product.
#[test]
fn weights_that_are_rounded_when_the_model_runs_are_refused() {
    let tensors = complete("llama", 0);
    let with = |entries: Value| {
        let mut config = config("llama");
        config["quantization_config"] = entries;
        opened(&tensors, &[], config)
    };
    let turned = |place: &str| {
        let apply = json!([{"targets": ["down_proj"], "location": place}]);
        let groups = json!({"R4": {"type": "hadamard", "apply": apply}});
        json!({"quant_method": "compressed-tensors", "transform_config": {"config_groups": groups}})
    };
    let online = json!({"quant_method": "bitnet", "quantization_mode": "online"});
    for (entries, said) in [(online, "`bitnet`"), (turned("input"), "one at `input`")] {
        let error = with(entries).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    with(turned("weight_output")).unwrap();
}

#[test]
fn weights_without_a_configuration_are_no_model() {
    let weightless = Reader::from_sources([], None).unwrap();
    let error = ModelFiles::of(weightless).unwrap_err().to_string();
    assert!(error.contains("config.json"), "{error}");
}
