//! The decoder in plain Rust and f64: whole sequences, one layer after the other, as a [`ModelSpec`] describes it. Shares no code with what
//! runs on devices.

mod arithmetic;
mod feed_forward;
mod mixing;
pub(super) mod routing;

use moebius::moe::{ExpertKind, MoeConfig};
use moebius_weights::Unfit;

use super::{Computation, Computed, Part};
use crate::decoder::{FeedForwardSpec, LayerSpec, Mixer, ModelSpec, Place, Slot, Values};
use crate::error::Error;
use arithmetic::{bounded, linear, rms_norm};

/// The weights of a layer, or of what is outside of the layers.
struct Source<'a> {
    values: &'a mut dyn Values,
    spec: &'a ModelSpec,
    layer: usize,
}

impl Source<'_> {
    fn get(&mut self, slot: Slot) -> Result<Vec<f32>, Error> {
        let layer = self.layer;
        self.values.values(Place { layer, slot })
    }

    /// The values of a slot, if the model has it.
    fn get_if(&mut self, slot: Slot) -> Result<Option<Vec<f32>>, Error> {
        let there = slot.shape(self.spec, self.layer).is_some();
        there.then(|| self.get(slot)).transpose()
    }

    /// x \[T, H\] after the norm of a slot, if the model has it.
    fn normed(&mut self, slot: Slot, x: &[f64]) -> Result<Vec<f64>, Error> {
        let gamma = self.get_if(slot)?;
        let normed =
            |gamma: Vec<f32>| rms_norm(x, Some(&gamma), self.spec.hidden, self.spec.epsilon);
        Ok(gamma.map_or_else(|| x.to_vec(), normed))
    }
}

impl Computation {
    /// Computes the parts of a decoder for the tokens `ids` in f64, from weights in f32. Takes time and memory that grow with the model: all
    /// values of one layer are in memory at once.
    ///
    /// # Errors
    /// [`Error::Config`] for no tokens, for tokens that aren't in the vocabulary or are more than there are learned positions, and for what has
    /// no reference: products that train in FP8, routers other than top-k and sigmoid-bias, experts that aren't gated feed-forward networks, and
    /// experts with a capacity. The errors of `values`.
    pub fn reference(
        spec: &ModelSpec,
        values: &mut dyn Values,
        ids: &[u32],
    ) -> Result<Self, Error> {
        Error::check(!ids.is_empty(), "tokens", "at least one", ids.len())?;
        spec.check_tokens(ids)?;
        for (number, layer) in spec.layers.iter().enumerate() {
            if let Some(unfit) = without_reference(layer, number) {
                return Err(Error::Config(unfit));
            }
        }
        let mut from = Source {
            values,
            spec,
            layer: 0,
        };
        let mut parts = Vec::new();
        let mut x = embedded(ids, &mut from)?;
        parts.push(Computed::plain(None, Part::Embedding, x.clone()));
        for (number, layer) in spec.layers.iter().enumerate() {
            from.layer = number;
            x = passed(layer, x, &mut from, &mut parts)?;
        }
        from.layer = 0;
        let logits = head(&x, &mut from)?;
        parts.push(Computed::plain(None, Part::Head, logits));
        Ok(Self {
            tokens: ids.len(),
            parts,
        })
    }
}

/// Embeddings x \[T, H\] of the tokens, with their learned positions.
fn embedded(ids: &[u32], from: &mut Source<'_>) -> Result<Vec<f64>, Error> {
    let (h, scale) = (from.spec.hidden, from.spec.embedding_scale);
    let embedding = from.get(Slot::Embedding)?;
    let rows = ids
        .iter()
        .flat_map(|id| &embedding[*id as usize * h..][..h]);
    let mut x: Vec<f64> = rows.map(|x| f64::from(*x) * scale).collect();
    if let Some(learned) = from.get_if(Slot::Positions)? {
        let most = learned.len() / h;
        let expected = format!("at most {most}");
        Error::check(ids.len() <= most, "sequence", expected, ids.len())?;
        let pairs = x.iter_mut().zip(&learned);
        pairs.for_each(|(x, learned)| *x += f64::from(*learned));
    }
    Ok(x)
}

/// x \[T, H\] after a layer, whose parts are added to `parts`.
fn passed(
    layer: &LayerSpec,
    x: Vec<f64>,
    from: &mut Source<'_>,
    parts: &mut Vec<Computed>,
) -> Result<Vec<f64>, Error> {
    let number = Some(from.layer);
    let before = from.normed(Slot::AttentionNorm, &x)?;
    let seen = match &layer.mixer {
        Mixer::Attention(spec) => mixing::attention(spec, &before, from)?,
        Mixer::Convolution(spec) => mixing::convolution(spec, &before, from)?,
    };
    let seen = from.normed(Slot::AttentionOutNorm, &seen)?;
    let x = added(x, &seen, layer.residual);
    parts.push(Computed::plain(number, Part::mixer(layer), x.clone()));
    let before = from.normed(Slot::FeedForwardNorm, &x)?;
    let y = match &layer.feed_forward {
        FeedForwardSpec::Dense(config) => feed_forward::dense(config, &before, from)?,
        FeedForwardSpec::Experts(config) => {
            let rule = routing::rule(config);
            let rule = rule.unwrap_or_else(|| unreachable!("other routers were refused"));
            let (values, choices) = feed_forward::router(&rule, &before, from)?;
            let y = feed_forward::experts(config, &choices, &before, from)?;
            parts.push(Computed {
                layer: number,
                part: Part::Router,
                values,
                choices,
            });
            y
        }
    };
    let y = from.normed(Slot::FeedForwardOutNorm, &y)?;
    let x = added(x, &y, layer.residual);
    let part = Part::feed_forward(layer);
    parts.push(Computed::plain(number, part, x.clone()));
    Ok(x)
}

/// x + r · y.
fn added(mut x: Vec<f64>, y: &[f64], r: f64) -> Vec<f64> {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += r * y);
    x
}

/// Logits \[T, V\] of the next tokens.
fn head(x: &[f64], from: &mut Source<'_>) -> Result<Vec<f64>, Error> {
    let spec = from.spec;
    let x = from.normed(Slot::Norm, x)?;
    let slot = if spec.tied {
        Slot::Embedding
    } else {
        Slot::Head
    };
    let mut logits = linear(&x, &from.get(slot)?, None, spec.hidden);
    for logit in &mut logits {
        *logit = bounded(*logit * spec.logits_scale, spec.logits_softcap);
    }
    Ok(logits)
}

/// The first thing of a layer that has no reference.
fn without_reference(layer: &LayerSpec, number: usize) -> Option<Unfit> {
    let (mixer_fp8, heads) = match &layer.mixer {
        Mixer::Attention(spec) => (spec.fp8, [spec.heads, spec.kv_heads]),
        Mixer::Convolution(spec) => (spec.fp8, [1, 1]),
    };
    let config = layer.feed_forward.config();
    let mixes = matches!(layer.feed_forward, FeedForwardSpec::Experts(_));
    let MoeConfig {
        kind,
        gated,
        capacity,
        factors,
        fp8,
        router,
        ..
    } = config;
    let shared = heads[1] > 0 && heads[0].is_multiple_of(heads[1]);
    let rules = [
        (
            mixer_fp8.is_none() && fp8.is_none(),
            "precision",
            "floating point, or codes",
            "training in FP8".to_owned(),
        ),
        (
            shared,
            "key heads",
            "a divisor of the query heads",
            format!("{heads:?}"),
        ),
        (
            *gated,
            "networks",
            "gated",
            "networks without gates".to_owned(),
        ),
        (
            *kind == ExpertKind::FeedForward,
            "experts",
            "feed-forward",
            format!("{kind:?}"),
        ),
        (
            !mixes || routing::rule(config).is_some(),
            "router",
            "top-k or sigmoid-bias",
            router.name().to_owned(),
        ),
        (
            !mixes || (capacity.is_none() && factors.is_none()),
            "capacity",
            "none",
            format!("{capacity:?}, {factors:?}"),
        ),
    ];
    let (_, what, expected, got) = rules.into_iter().find(|(fits, ..)| !fits)?;
    let what = format!("{what} of layer {number} in the reference");
    Some(Unfit::new(what, expected, got))
}
