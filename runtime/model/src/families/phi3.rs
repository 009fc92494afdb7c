//! Phi-3 and Phi-4 (Microsoft, 2024 and 2025).

use super::Family;
use super::keys::Keys;
use super::mistral::mistral;
use super::rule::{FRAME, Rule, rules};
use crate::decoder::ModelSpec;

pub(super) const FAMILY: Family = Family::new("phi3", read, &[&[FRAME, FUSED]]);

/// One matrix for q, k and v, and one for gate and up.
const FUSED: &[Rule] = rules! { "model.layers.{l}.":
    "self_attn.qkv_proj.weight" => Query, Fused;
    "self_attn.qkv_proj.weight" => Key, Fused;
    "self_attn.qkv_proj.weight" => Value, Fused;
    "self_attn.o_proj.weight" => Out;
    "mlp.gate_up_proj.weight" => DenseIn;
    "mlp.down_proj.weight" => DenseOut;
};

/// Refuses YaRN: configurations of Phi-3 that say so mean LongRoPE, by another formula for the factor on cosine and sine.
fn check_rope(keys: &mut Keys<'_>) {
    let Some((name, rope)) = keys.rotation() else {
        return;
    };
    let kinds = ["rope_type", "type"].iter();
    let mut kinds = kinds.filter_map(|kind| rope.get(*kind)?.as_str());
    if kinds.any(|kind| kind == "yarn") {
        let expected = "`default` or `longrope` in this family";
        keys.lack(&format!("{name}.rope_type"), expected, "yarn");
    }
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    check_rope(keys);
    mistral(keys)
}
