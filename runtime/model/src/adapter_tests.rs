use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Adapter, AdapterConfig, AdapterFiles, CONFIG, Factors, WEIGHTS};
use crate::error::Error;

/// An adapter of two modules, of ranks 2 and 1.
fn adapter() -> Adapter {
    let factors = |rank: usize, [outputs, inputs]: [usize; 2]| Factors {
        rank,
        down: (0..rank * inputs).map(|at| at as f32 - 2.0).collect(),
        up: (0..outputs * rank).map(|at| 0.5 * at as f32).collect(),
    };
    let modules = [
        ("model.layers.0.self_attn.q_proj", factors(2, [3, 4])),
        ("model.layers.0.mlp.experts.1.up_proj", factors(2, [5, 4])),
    ];
    Adapter {
        config: AdapterConfig {
            rank: 2,
            targets: ["q_proj", "up_proj"].map(str::to_owned).into(),
            ..AdapterConfig::default()
        },
        modules: modules.map(|(name, of)| (name.to_owned(), of)).into(),
    }
}

/// The message of the error of an adapter whose configuration has the field `name` with this value.
fn refused(name: &str, value: Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("adapter");
    adapter().write(None, &target).unwrap();
    let path = target.join(CONFIG);
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config[name] = value;
    fs::write(&path, config.to_string()).unwrap();
    let error = Adapter::read(&target).unwrap_err();
    assert!(matches!(error, Error::Misfits(_)), "{error}");
    error.to_string()
}

#[test]
fn an_adapter_comes_back_and_has_the_names_of_peft() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("adapter");
    let written = adapter().write(Some("SmolLM2"), &target).unwrap();
    assert_eq!(Adapter::read(&written).unwrap(), adapter());
    let config: Value = serde_json::from_slice(&fs::read(target.join(CONFIG)).unwrap()).unwrap();
    assert_eq!(config["base_model_name_or_path"], "SmolLM2");
    assert_eq!(config["target_modules"], json!(["q_proj", "up_proj"]));
    let reader = moebius_weights::Reader::open(&target.join(WEIGHTS)).unwrap();
    let shapes: BTreeMap<&str, &[usize]> = reader
        .tensors()
        .map(|(name, info)| (name, &info.shape[..]))
        .collect();
    let layer = "base_model.model.model.layers.0";
    let names = [
        ("mlp.experts.1.up_proj.lora_A", [2, 4]),
        ("mlp.experts.1.up_proj.lora_B", [5, 2]),
        ("self_attn.q_proj.lora_A", [2, 4]),
        ("self_attn.q_proj.lora_B", [3, 2]),
    ];
    let names = names.map(|(name, shape)| (format!("{layer}.{name}.weight"), shape));
    let want: BTreeMap<&str, &[usize]> = names
        .iter()
        .map(|(name, shape)| (name.as_str(), &shape[..]))
        .collect();
    assert_eq!(shapes, want);
}

#[test]
fn an_adapter_comes_back_from_the_bytes_of_its_files() {
    let files = adapter().to_files(Some("SmolLM2")).unwrap();
    let read = |files| Adapter::of_files(files, Path::new("adapter"));
    assert_eq!(read(files.clone()).unwrap(), adapter());
    let weights = files.weights[..files.weights.len() - 1].to_vec();
    let cut = AdapterFiles {
        weights,
        ..files.clone()
    };
    let message = read(cut).unwrap_err().to_string();
    assert!(message.contains(AdapterFiles::WEIGHTS), "{message}");
    let config = b"{".to_vec();
    let message = read(AdapterFiles { config, ..files })
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("adapter: ") && message.contains(AdapterFiles::CONFIG),
        "{message}"
    );
}

#[test]
fn what_is_more_than_two_factors_is_refused_by_the_name_of_its_field() {
    for (name, value) in [
        ("use_dora", json!(true)),
        ("use_bdlora", json!({ "nblocks": 1 })),
        ("alora_invocation_tokens", json!([3, 4])),
        ("modules_to_save", json!(["lm_head"])),
        ("bias", json!("lora_only")),
        ("lora_bias", json!(true)),
        ("fan_in_fan_out", json!(true)),
        ("alpha_pattern", json!({ "q_proj": 4 })),
        ("layer_replication", json!([[0, 2]])),
        ("target_parameters", json!(["mlp.experts.gate_up_proj"])),
        ("trainable_token_indices", json!([1])),
        ("init_lora_weights", json!("pissa")),
        ("peft_type", json!("IA3")),
        ("r", json!(0)),
        ("lora_alpha", json!("x")),
    ] {
        let message = refused(name, value);
        assert!(message.contains(&format!("{name}: expected ")), "{message}");
    }
    let message = refused("r", json!(3));
    assert!(
        message.contains("expected rank 3, got A [2, 4] and B [5, 2]"),
        "{message}"
    );
}

#[test]
fn settings_without_effect_on_the_factors_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("adapter");
    adapter().write(None, &target).unwrap();
    let path = target.join(CONFIG);
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (name, value) in [
        ("r", json!(7)),
        ("rank_pattern", json!({ "q_proj": 2, "up_proj": 2 })),
        ("use_rslora", json!(true)),
        ("lora_dropout", json!(0.1)),
        ("target_modules", json!("all-linear")),
        ("init_lora_weights", json!("gaussian")),
        ("loftq_config", json!({})),
    ] {
        config[name] = value;
    }
    fs::write(&path, config.to_string()).unwrap();
    let read = Adapter::read(&target).unwrap();
    assert_eq!(read.modules, adapter().modules);
    assert_eq!(read.config.targets, ["all-linear"]);
    assert!((read.config.scale(4) - 4.0).abs() < 1e-12, "8 / √4");
    assert!(
        (AdapterConfig::default().scale(4) - 2.0).abs() < 1e-12,
        "8 / 4"
    );
}

#[test]
fn rows_of_a_change_are_those_of_the_product() {
    let factors = Factors {
        rank: 2,
        down: vec![1.0, 2.0, 3.0, 10.0, 20.0, 30.0],
        up: vec![1.0, 0.0, 0.0, 1.0, 2.0, -1.0, 0.5, 0.5],
    };
    assert_eq!(factors.shape(), [4, 3]);
    assert_eq!(factors.rows(0, 1, 1.0), [1.0, 2.0, 3.0]);
    let last = [-16.0, -32.0, -48.0, 11.0, 22.0, 33.0];
    assert_eq!(factors.rows(2, 2, 2.0), last);
}

#[test]
fn targets_name_modules_by_their_last_parts() {
    let config = |targets: &[&str]| AdapterConfig {
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        ..AdapterConfig::default()
    };
    let name = "model.layers.3.mlp.experts.11.up_proj";
    let cases: [(&[&str], Option<&str>); 6] = [
        (&["up_proj"], Some("up_proj")),
        (
            &["q_proj", "experts.11.up_proj"],
            Some("experts.11.up_proj"),
        ),
        (&["all-linear"], Some("all-linear")),
        (&[name], Some(name)),
        (&["p_proj", "experts.1.up_proj", "q_proj"], None),
        (&[], None),
    ];
    for (targets, taken) in cases {
        assert_eq!(config(targets).target_of(name), taken, "{targets:?}");
    }
}
