//! Configurations from any source describe a model or are refused, and never with a panic that leaves the library.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod any_bytes;

use std::fs;
use std::path::{Path, PathBuf};

use any_bytes::any_bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// The configurations of the models in `tests/cases`, which has one of each family at least.
fn configurations() -> Vec<Value> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let folders = fs::read_dir(cases).unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join("config.json"));
    let mut files: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
    files.sort();
    let read =
        |file: &PathBuf| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    files.iter().map(read).collect()
}

/// Puts a value in the place that `steps` into objects and lists lead to.
fn put(config: &mut Value, steps: &[Index], value: &Value) {
    let mut at = config;
    for step in steps {
        let entries = at.as_object().map_or(0, |entries| entries.len());
        let length = entries.max(at.as_array().map_or(0, Vec::len));
        if length == 0 {
            break;
        }
        let place = step.index(length);
        at = match at {
            Value::Object(entries) => entries.values_mut().nth(place).unwrap(),
            Value::Array(items) => &mut items[place],
            _ => unreachable!("only these have a length"),
        };
    }
    *at = value.clone();
}

#[test]
fn arbitrary_values_are_a_model_or_refused() {
    let configurations = configurations();
    assert!(configurations.len() > 20, "{}", configurations.len());
    let rope = json!({"rope_type": "longrope", "rope_theta": 0.0, "short_factor": [1.0], "long_factor": [0.5]});
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(3),
        json!(-1),
        json!(1 << 24),
        json!(u64::MAX),
        json!(0.5),
        json!(1e300),
        json!(""),
        json!("yarn"),
        json!("full_attention"),
        json!([]),
        json!([1, 0]),
        json!({}),
        rope,
    ];
    proptest!(|(
        file in any::<Index>(),
        changes in prop::collection::vec((prop::collection::vec(any::<Index>(), 1..4), any::<Index>()), 1..5),
    )| {
        let mut config = file.get(&configurations).clone();
        for (steps, value) in changes {
            put(&mut config, &steps, value.get(&values));
        }
        any_bytes(config.to_string().as_bytes());
    });
}

#[test]
fn arbitrary_bytes_are_refused() {
    proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..200))| {
        any_bytes(&bytes);
    });
}
