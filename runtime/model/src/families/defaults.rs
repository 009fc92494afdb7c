//! The defaults of transformers for keys that a configuration leaves out, family by family: many published configurations leave some out,
//! and the families differ. `tests/cases/make_defaults.py` writes the table.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let table = serde_json::from_str(include_str!("defaults.json"));
    table.unwrap_or_else(|error| unreachable!("the table is JSON: {error}"))
});

/// Names of the key for the number of experts; a configuration has one of them.
const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts"];

/// The configuration of a family, completed with the defaults of the keys that it leaves out. A key that is null isn't left
/// out, but for `rope_parameters`.
pub(super) fn completed(family: &str, stated: &Map<String, Value>) -> Map<String, Value> {
    let mut all = stated.clone();
    let counted = EXPERTS.iter().any(|name| stated.contains_key(*name));
    let defaults = DEFAULTS.get(family).and_then(Value::as_object);
    // The older key for rotary positions takes the place of the newer one. Where neither describes any, the class does.
    let older = stated.get("rope_scaling").and_then(Value::as_object);
    let turned = older.is_some_and(|entries| !entries.is_empty());
    if all.get("rope_parameters").is_some_and(Value::is_null) {
        all.remove("rope_parameters");
    }
    for (key, value) in defaults.into_iter().flatten() {
        let known =
            (counted && EXPERTS.contains(&key.as_str())) || (turned && key == "rope_parameters");
        if !known {
            all.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    all
}
