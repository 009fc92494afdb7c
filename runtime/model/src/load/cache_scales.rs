//! The scales that a checkpoint brings for a cache in FP8.

use moebius_weights::{Reader, Unfit, quoted};

use crate::decoder::{AttentionSpec, CacheScales, ModelSpec, Projection};
use crate::error::Error;

/// Names of the scales of keys, of values and of both in a layer's attention, in the layouts of llm-compressor, ModelOpt and AutoFP8, and of
/// older programs.
const KEYS: [&str; 3] = ["k_scale", "k_proj.k_scale", "k_proj.output_scale"];
const VALUES: [&str; 3] = ["v_scale", "v_proj.v_scale", "v_proj.output_scale"];
const BOTH: [&str; 1] = ["kv_scale"];

/// Names of scales of queries, which no cache keeps.
const QUERIES: [&str; 2] = ["q_scale", "q_proj.output_scale"];

/// Whether a tensor of this name is a scale of a layer's attention, read or not.
pub(super) fn is_scale(name: &str) -> bool {
    let within = name.strip_prefix("model.layers.");
    let within = within.and_then(|rest| rest.split_once(".self_attn."));
    within.is_some_and(|(layer, name)| {
        let named = [&KEYS[..], &VALUES, &BOTH, &QUERIES]
            .concat()
            .contains(&name);
        named && layer.parse::<usize>().is_ok()
    })
}

/// Reads the scales of all layers; empty where no layer has any, and scales that aren't numbers are added to `faults`.
///
/// As in vLLM, a scale that isn't positive is none, and one for keys or values alone is that of both. Scales of single heads are left out, and
/// so are those of latent attention, whose vectors this cache doesn't hold.
pub(super) fn cache_scales(
    reader: &Reader,
    spec: &ModelSpec,
    faults: &mut Vec<Unfit>,
) -> Result<Vec<Option<CacheScales>>, Error> {
    let mut all = Vec::with_capacity(spec.layers.len());
    for (number, layer) in spec.layers.iter().enumerate() {
        let direct = |of: &AttentionSpec| matches!(of.projection, Projection::Direct { .. });
        if !layer.attention().is_some_and(direct) {
            all.push(None);
            continue;
        }
        let mut one = |names: &[&str]| first(reader, number, names, faults);
        let (keys, values, both) = (one(&KEYS)?, one(&VALUES)?, one(&BOTH)?);
        let largest = [keys, values, both].into_iter().flatten();
        let largest = largest.reduce(f32::max);
        all.push(largest.map(|largest| CacheScales {
            keys: keys.filter(|_| values.is_some()).unwrap_or(largest),
            values: values.filter(|_| keys.is_some()).unwrap_or(largest),
        }));
    }
    if all.iter().all(Option::is_none) {
        all.clear();
    }
    Ok(all)
}

/// The positive number in the first of a layer's tensors of these names that holds one value.
fn first(
    reader: &Reader,
    layer: usize,
    names: &[&str],
    faults: &mut Vec<Unfit>,
) -> Result<Option<f32>, Error> {
    for name in names {
        let name = format!("model.layers.{layer}.self_attn.{name}");
        let one = reader
            .get(&name)
            .is_some_and(|info| info.shape.iter().all(|&extent| extent == 1));
        if !one {
            continue;
        }
        let value = reader.read_f32(&name)?.first().copied();
        let value = value.unwrap_or_default();
        if !value.is_finite() {
            faults.push(Unfit::new(
                quoted(&name),
                "a scale of a cache in FP8",
                value,
            ));
        } else if value > 0.0 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}
