//! Parts that the configurations of most families share. Keys of rotary positions are read in the forms of transformers 4 and 5.

use moebius::moe::{Activation, MoeConfig, RouteConfig, RouterConfig};
use serde_json::{Map, Value};

use super::keys::Keys;
use crate::decoder::{
    AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer, ModelSpec, Norms, Projection, Rope,
    RopeScaling, yarn_attention,
};

/// Largest number of layers: every tensor of a layer gets a name before a file is looked at.
pub(super) const MAX_LAYERS: usize = 512;
/// Largest number of experts of a layer.
const MAX_EXPERTS: usize = 2048;

/// Type of a layer whose queries see all keys.
pub(super) const FULL: &str = "full_attention";
/// Type of a layer whose queries see a window of keys.
pub(super) const SLIDING: &str = "sliding_attention";

/// Reads the number of layers.
pub(super) fn layers(keys: &mut Keys<'_>) -> usize {
    let layers = keys.size(&["num_hidden_layers"]);
    if layers > MAX_LAYERS {
        keys.lack("num_hidden_layers", "at most 512", layers);
    }
    layers.min(MAX_LAYERS)
}

/// Reads the number of experts, under the first of the names that is there.
fn expert_count(keys: &mut Keys<'_>, names: &[&str]) -> usize {
    let experts = keys.size(names);
    bounded_experts(keys, names[0], experts)
}

/// This number of experts, given by the key `name`, or the largest that a layer may have.
pub(super) fn bounded_experts(keys: &mut Keys<'_>, name: &str, experts: usize) -> usize {
    if experts > MAX_EXPERTS {
        keys.lack(name, "at most 2048", experts);
    }
    experts.min(MAX_EXPERTS)
}

/// A model of these layers, with a factor of 1 on embeddings and logits.
pub(super) fn model(keys: &mut Keys<'_>, layers: Vec<LayerSpec>) -> ModelSpec {
    ModelSpec {
        vocabulary: keys.size(&["vocab_size"]),
        hidden: keys.size(&["hidden_size"]),
        positions: keys.size(&["max_position_embeddings"]),
        learned_positions: false,
        epsilon: keys.positive_or("rms_norm_eps", 1e-6),
        embedding_scale: 1.0,
        logits_scale: 1.0,
        logits_softcap: None,
        tied: keys.flag_or("tie_word_embeddings", false),
        layers,
        cache_scales: Vec::new(),
    }
}

/// Attention with separate matrices for q, k and v, biases where `attention_bias` says so, and no window.
pub(super) fn attention(keys: &mut Keys<'_>, theta: f64) -> AttentionSpec {
    let hidden = keys.size(&["hidden_size"]);
    let heads = keys.size(&["num_attention_heads"]);
    let kv_heads = keys.size_or("num_key_value_heads", heads);
    let head_dim = keys.optional_size("head_dim");
    if head_dim.is_none() && !hidden.is_multiple_of(heads) {
        keys.lack("num_attention_heads", "a divisor of hidden_size", heads);
    }
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let expected = "a divisor of num_attention_heads";
        keys.lack("num_key_value_heads", expected, kv_heads);
    }
    let head_dim = head_dim.unwrap_or(hidden / heads).max(1);
    let bias = keys.flag_or("attention_bias", false);
    AttentionSpec {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        scale: (head_dim as f64).powf(-0.5),
        projection: Projection::Direct {
            bias,
            norm: HeadNorm::None,
            clip: None,
        },
        out_bias: bias,
        rope: Some(rope(keys, FULL, head_dim, theta)),
        window: None,
        chunk: None,
        softcap: None,
        temperature: None,
        sinks: false,
        fp8: None,
    }
}

/// The given attention without norms of q and k, and with biases of q, k, v and the output, or none.
pub(super) fn biased(attention: AttentionSpec, bias: bool) -> AttentionSpec {
    AttentionSpec {
        projection: Projection::Direct {
            bias,
            norm: HeadNorm::None,
            clip: None,
        },
        out_bias: bias,
        ..attention
    }
}

/// The given attention with norms of q and k.
pub(super) fn normed(attention: AttentionSpec, norm: HeadNorm) -> AttentionSpec {
    let projection = match attention.projection {
        Projection::Direct { bias, clip, .. } => Projection::Direct { bias, norm, clip },
        latent @ Projection::Latent { .. } => latent,
    };
    AttentionSpec {
        projection,
        ..attention
    }
}

/// The window of all layers alike: `None` where its width is missing, null or 0.
pub(super) fn window(keys: &mut Keys<'_>) -> Option<usize> {
    keys.optional_size("sliding_window")
        .filter(|&window| window > 0)
}

/// The window of every layer: `width` keys unless the configuration gives another width, in the layers that `layer_types` names, or
/// `default` by index where that key is missing. A width that is null is refused if any layer has a window.
pub(super) fn windows(
    keys: &mut Keys<'_>,
    layers: usize,
    width: usize,
    default: impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    let null = keys.is_null("sliding_window");
    let window = (!null).then(|| keys.size_or("sliding_window", width));
    let kinds = keys.texts("layer_types", layers);
    let mut windows = Vec::with_capacity(layers);
    for layer in 0..layers {
        let sliding = match kinds.as_ref().map(|kinds| kinds[layer]) {
            None => default(layer),
            Some(FULL) => false,
            Some(SLIDING) => true,
            Some(other) => {
                let expected = format!("`{FULL}` or `{SLIDING}`");
                keys.lack("layer_types", &expected, other);
                false
            }
        };
        if sliding && window.is_none_or(|window| window == 0) {
            let got = window.map_or("none".to_owned(), |window| window.to_string());
            keys.lack("sliding_window", "at least 1 key", got);
        }
        windows.push(window.filter(|&window| sliding && window > 0));
    }
    windows
}

/// Routing by the largest few of the softmax of all logits, divided by their sum if `renormalize`.
pub(super) fn softmax(keys: &mut Keys<'_>, renormalize: bool) -> RouteConfig {
    RouteConfig {
        top_k: keys.size(&["num_experts_per_tok"]),
        renormalize,
        ..RouteConfig::default()
    }
}

/// Routing by the softmax of the largest few logits alone.
pub(super) fn softmax_of_chosen(keys: &mut Keys<'_>) -> RouteConfig {
    RouteConfig {
        softmax_after_topk: true,
        ..softmax(keys, true)
    }
}

/// Experts with SwiGLU, without biases and without a shared expert; `counts` are the keys of their number, `inter` is the key of their
/// width.
pub(super) fn experts(
    keys: &mut Keys<'_>,
    counts: &[&str],
    inter: &str,
    router: impl Into<RouterConfig>,
) -> MoeConfig {
    let experts = expert_count(keys, counts);
    swiglu(keys, inter, experts).with_router(router)
}

/// Networks with SwiGLU and without biases; `inter` is the key of their width.
pub(super) fn swiglu(keys: &mut Keys<'_>, inter: &str, experts: usize) -> MoeConfig {
    let inter = keys.size(&[inter]);
    MoeConfig::new(keys.size(&["hidden_size"]), inter, experts)
        .with_activation(Activation::Silu)
        .with_gated(true)
}

/// Whether each layer has experts, by `mlp_only_layers` and `decoder_sparse_step`.
pub(super) fn sparse(keys: &mut Keys<'_>, layers: usize) -> Vec<bool> {
    let dense = keys.sizes("mlp_only_layers");
    let step = keys.size_or("decoder_sparse_step", 1).max(1);
    let is_sparse = |layer: usize| !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
    (0..layers).map(is_sparse).collect()
}

/// A layer with a factor of 1 on its attention and feed-forward part.
pub(super) fn layer(attention: AttentionSpec, feed_forward: FeedForwardSpec) -> LayerSpec {
    LayerSpec {
        mixer: Mixer::Attention(attention),
        feed_forward,
        residual: 1.0,
        norms: Norms::Before,
    }
}

/// A [`layer`] whose queries see a window of keys, or all keys for `None`.
pub(super) fn windowed(
    attention: &AttentionSpec,
    window: Option<usize>,
    feed_forward: &FeedForwardSpec,
) -> LayerSpec {
    let mut attention = attention.clone();
    attention.window = window;
    layer(attention, feed_forward.clone())
}

/// A dense network of the width `intermediate_size`.
pub(super) fn dense(keys: &mut Keys<'_>, bias: bool) -> FeedForwardSpec {
    keys.only("hidden_act", "silu");
    FeedForwardSpec::Dense(swiglu(keys, "intermediate_size", 1).with_bias(bias))
}

/// Rotary positions of `width` elements in layers with a window, in families whose layers are of two kinds: those that
/// `rope_parameters.sliding_attention` describes, or else plain ones with the θ `theta`.
pub(super) fn local_rope(keys: &mut Keys<'_>, width: usize, theta: f64) -> Rope {
    check_kinds(keys);
    let all = keys.get("rope_parameters");
    let own = all.and_then(|all| all.get(SLIDING)?.as_object());
    let empty = Map::new();
    let name = format!("rope_parameters.{SLIDING}");
    placed(keys, &name, own.unwrap_or(&empty), width, theta)
}

/// Refuses rotary keys that don't say which kind of layers they are for: an object that names no kind, and `rope_scaling` beside one that
/// does.
fn check_kinds(keys: &mut Keys<'_>) {
    let all = keys.get("rope_parameters").and_then(Value::as_object);
    let Some(all) = all.filter(|all| !all.is_empty()) else {
        return;
    };
    if !all.contains_key(FULL) && !all.contains_key(SLIDING) {
        let expected = format!("an object with `{FULL}` and `{SLIDING}`");
        keys.lack("rope_parameters", &expected, Value::from(all.clone()));
    }
    if let Some(("rope_scaling", second)) = keys.rotation() {
        let expected = "none beside rope_parameters";
        keys.lack("rope_scaling", expected, Value::from(second.clone()));
    }
}

/// A bound of scores or logits; `None` for none.
pub(super) fn softcap(keys: &mut Keys<'_>, name: &str) -> Option<f64> {
    keys.get(name)?;
    Some(keys.positive_or(name, 1.0))
}

/// The object that describes rotary positions in layers of type `kind`, and its path: `rope_parameters` may hold an object for each type.
fn described<'a>(keys: &Keys<'a>, kind: &str) -> Option<(String, &'a Map<String, Value>)> {
    let (name, entries) = keys.rotation()?;
    Some(match entries.get(kind).and_then(Value::as_object) {
        Some(own) => (format!("{name}.{kind}"), own),
        None => (name.to_owned(), entries),
    })
}

/// Rotary positions of `width` elements in layers of type `kind`; `theta` is the default of θ.
pub(super) fn rope(keys: &mut Keys<'_>, kind: &str, width: usize, theta: f64) -> Rope {
    for name in ["rope_parameters", "rope_scaling"] {
        keys.only_object(name);
    }
    let theta = keys.positive_or("rope_theta", theta);
    let empty = Map::new();
    let (name, entries) = described(keys, kind).unwrap_or((String::new(), &empty));
    placed(keys, &name, entries, width, theta)
}

/// Rotary positions of `width` elements that the object `entries` at the path `name` describes; `theta` is the default of θ.
fn placed(
    keys: &mut Keys<'_>,
    name: &str,
    entries: &Map<String, Value>,
    width: usize,
    theta: f64,
) -> Rope {
    let context = Context {
        longest: keys.positive_or("max_position_embeddings", 1.0),
        original: keys.optional_number("original_max_position_embeddings"),
    };
    let part = keys.positive_or("partial_rotary_factor", 1.0);
    let mut inner = keys.within(name, entries);
    let theta = inner.positive_or("rope_theta", theta);
    let part = inner.positive_or("partial_rotary_factor", part);
    let rotated = (width as f64 * part.min(1.0)) as usize;
    let scaling = scaling(&mut inner, context, rotated / 2);
    keys.join(inner);
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

/// Lengths that a configuration gives outside of the object that describes rotary positions.
#[derive(Clone, Copy)]
struct Context {
    /// Longest sequence of the model, in tokens.
    longest: f64,
    /// Tokens of the context before it was stretched; a value here takes precedence over the one in the object.
    original: Option<f64>,
}

impl Context {
    fn original(self, keys: &mut Keys<'_>) -> f64 {
        let inner = keys.positive_or("original_max_position_embeddings", self.longest);
        self.original.unwrap_or(inner)
    }
}

fn scaling(keys: &mut Keys<'_>, context: Context, pairs: usize) -> RopeScaling {
    let kind = keys.text("rope_type").or_else(|| keys.text("type"));
    match kind.unwrap_or("default") {
        // These stretch nothing within the longest sequence of the model, and it takes no longer ones.
        "default" | "dynamic" => RopeScaling::None,
        "linear" => RopeScaling::Linear {
            factor: keys.positive("factor"),
        },
        "llama3" => RopeScaling::Llama3 {
            factor: keys.positive("factor"),
            low: keys.positive("low_freq_factor"),
            high: keys.positive("high_freq_factor"),
            original: context.original(keys),
        },
        "yarn" => yarn(keys, context),
        // The first configurations called it otherwise.
        "longrope" | "su" => longrope(keys, context, pairs),
        other => {
            let expected = "`default`, `dynamic`, `linear`, `llama3`, `longrope` or `yarn`";
            keys.lack("rope_type", expected, other);
            RopeScaling::None
        }
    }
}

fn yarn(keys: &mut Keys<'_>, context: Context) -> RopeScaling {
    let original = context.original(keys);
    // A factor that is null follows from the lengths, one that is left out is a mistake.
    let factor = if keys.is_null("factor") {
        context.longest / original
    } else {
        keys.positive("factor")
    };
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

/// Divisors of `pairs` pairs for short and for long sequences. The factor on cosine and sine follows from how far the context is stretched.
fn longrope(keys: &mut Keys<'_>, context: Context, pairs: usize) -> RopeScaling {
    let original = context.original(keys);
    let factor = keys.positive_or("factor", context.longest / original);
    let given = keys.optional_number("attention_factor");
    let stretched = || (1.0 + factor.ln() / original.ln()).sqrt();
    let attention = given.unwrap_or_else(|| if factor > 1.0 { stretched() } else { 1.0 });
    if !attention.is_finite() {
        let expected = "more than 1 token";
        keys.lack("original_max_position_embeddings", expected, original);
    }
    RopeScaling::LongRope {
        short: keys.positive_numbers("short_factor", pairs),
        long: keys.positive_numbers("long_factor", pairs),
        original,
        attention,
    }
}
