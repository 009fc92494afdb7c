//! Rotary positions of a configuration, in both generations of keys.

use serde_json::{Map, Value};

use super::keys::Keys;
use crate::decoder::{Rope, RopeScaling, yarn_attention};

/// The object that describes rotary positions, and its name: `rope_parameters` since transformers 5, which may be one for each
/// kind of layer, and `rope_scaling` before, where θ stood outside.
fn described<'a>(keys: &Keys<'a>, kind: &str) -> Option<(String, &'a Map<String, Value>)> {
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(entries) = keys.get(name).and_then(Value::as_object) else {
            continue;
        };
        return Some(match entries.get(kind).and_then(Value::as_object) {
            Some(own) => (format!("{name}.{kind}"), own),
            None => (name.to_owned(), entries),
        });
    }
    None
}

/// Rotary positions of `width` elements, of layers of kind `kind`, with θ unless one is given.
pub(super) fn rope(keys: &mut Keys<'_>, kind: &str, width: usize, theta: f64) -> Rope {
    let theta = keys.positive_or("rope_theta", theta);
    let longest = keys.positive_or("max_position_embeddings", 1.0);
    let part = keys.positive_or("partial_rotary_factor", 1.0);
    let empty = Map::new();
    let (name, entries) = described(keys, kind).unwrap_or((String::new(), &empty));
    let mut inner = keys.within(&name, entries);
    let theta = inner.positive_or("rope_theta", theta);
    let part = inner.positive_or("partial_rotary_factor", part);
    let scaling = scaling(&mut inner, longest);
    keys.join(inner);
    let rotated = (width as f64 * part.min(1.0)) as usize;
    if !rotated.is_multiple_of(2) || rotated == 0 {
        keys.lack(
            "head_dim",
            "an even number of rotated elements of a head",
            rotated,
        );
    }
    Rope {
        theta,
        rotated,
        scaling,
        interleaved: false,
    }
}

fn scaling(keys: &mut Keys<'_>, longest: f64) -> RopeScaling {
    let kind = keys.text("rope_type").or_else(|| keys.text("type"));
    match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear {
            factor: keys.positive_or("factor", 1.0),
        },
        "llama3" => RopeScaling::Llama3 {
            factor: keys.positive_or("factor", 1.0),
            low: keys.positive_or("low_freq_factor", 1.0),
            high: keys.positive_or("high_freq_factor", 4.0),
            original: keys.positive_or("original_max_position_embeddings", longest),
        },
        "yarn" => yarn(keys, longest),
        other => {
            let expected = "`default`, `linear`, `llama3` or `yarn`";
            keys.lack("rope_type", expected, other);
            RopeScaling::None
        }
    }
}

fn yarn(keys: &mut Keys<'_>, longest: f64) -> RopeScaling {
    let original = keys.positive_or("original_max_position_embeddings", longest);
    let factor = keys.positive_or("factor", longest / original);
    let given = keys.optional_number("attention_factor");
    let over = keys.number_or("mscale", 0.0);
    let under = keys.number_or("mscale_all_dim", 0.0);
    let of_both = || yarn_attention(factor, over) / yarn_attention(factor, under);
    let attention = given.unwrap_or_else(|| {
        if over != 0.0 && under != 0.0 {
            of_both()
        } else {
            yarn_attention(factor, 1.0)
        }
    });
    RopeScaling::Yarn {
        factor,
        fast: keys.positive_or("beta_fast", 32.0),
        slow: keys.positive_or("beta_slow", 1.0),
        original,
        truncate: keys.flag_or("truncate", true),
        attention,
    }
}
