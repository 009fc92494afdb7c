//! The slots of a decoder that weights go to, and their shapes: one table. A place is a slot in its layer.

use moebius::moe::{MoeConfig, RouterConfig, SharedExpertConfig};
use moebius_weights::Unfit;

use super::spec::{AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, ModelSpec, Projection};
use crate::error::Error;

/// What the values of a slot are to a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Factors of a norm.
    Norm,
    /// Added to something, or logits that no input has a part in.
    Bias,
    /// Of a product whose result is added to the layer's input.
    Out,
    /// Of any other product, or an embedding.
    Weight,
}

/// Makes slots of rows `Slot: Kind gated, shape;`: `gated` where rows of a gate stand before as many of what it gates, and the shape as a
/// function of [`Sizes`].
macro_rules! slots {
    ($($(#[$doc:meta])* $slot:ident: $kind:ident $($gated:ident)?, $shape:expr;)*) => {
        /// A place of a decoder that holds one tensor; those of layers exist in each layer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Slot {
            $($(#[$doc])* $slot,)*
        }

        impl Slot {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$slot,)*];

            pub(super) fn kind(self) -> Kind {
                match self {
                    $(Self::$slot => Kind::$kind,)*
                }
            }

            /// Whether its rows are those of a gate, and then as many of what it gates.
            pub fn is_gated(self) -> bool {
                match self {
                    $(Self::$slot => slots!(@ $($gated)?),)*
                }
            }

            fn of_sizes(self, sizes: &Sizes<'_>) -> Option<Vec<usize>> {
                match self {
                    $(Self::$slot => applied($shape, sizes),)*
                }
            }
        }
    };
    (@ gated) => { true };
    (@) => { false };
}

slots! {
    /// \[V, H\].
    Embedding: Weight, |of| Some(vec![of.model.vocabulary, of.h]);
    /// \[V, H\], unless it is the embedding.
    Head: Weight, |of| there(!of.model.tied, &[of.model.vocabulary, of.h]);
    /// \[H\], before the head.
    Norm: Norm, |of| Some(vec![of.h]);
    /// \[H\], before the attention.
    AttentionNorm: Norm, |of| there(of.layer.is_some(), &[of.h]);
    /// \[H\], before the feed-forward part.
    FeedForwardNorm: Norm, |of| there(of.layer.is_some(), &[of.h]);
    /// \[heads · D, H\].
    Query: Weight, |of| match of.latent() {
        Some(latent) => there(latent.query_rank.is_none(), &[latent.q, of.h]),
        None => Some(vec![of.direct()?.q, of.h]),
    };
    /// \[heads · D\].
    QueryBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.q]);
    /// \[kv_heads · D, H\].
    Key: Weight, |of| Some(vec![of.direct()?.k, of.h]);
    /// \[kv_heads · D\].
    KeyBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.k]);
    /// \[kv_heads · Dv, H\].
    Value: Weight, |of| Some(vec![of.direct()?.v, of.h]);
    /// \[kv_heads · Dv\].
    ValueBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.v]);
    /// \[H, heads · Dv\].
    Out: Out, |of| Some(vec![of.h, of.attention()?.heads * of.attention()?.value_dim]);
    /// \[H\].
    OutBias: Bias, |of| there(of.attention()?.out_bias, &[of.h]);
    /// \[D\], or \[heads · D\] where all heads are normalised together.
    QueryNorm: Norm, |of| Some(vec![of.direct()?.norms?[0]]);
    /// \[D\], or \[kv_heads · D\].
    KeyNorm: Norm, |of| Some(vec![of.direct()?.norms?[1]]);
    /// \[heads\].
    Sinks: Bias, |of| there(of.attention()?.sinks, &[of.attention()?.heads]);
    /// \[query rank, H\].
    QueryDown: Weight, |of| Some(vec![of.latent()?.query_rank?, of.h]);
    /// \[query rank\].
    QueryDownBias: Bias, |of| there(of.latent()?.bias, &[of.latent()?.query_rank?]);
    /// \[query rank\].
    QueryLatentNorm: Norm, |of| Some(vec![of.latent()?.query_rank?]);
    /// \[heads · D, query rank\].
    QueryUp: Weight, |of| Some(vec![of.latent()?.q, of.latent()?.query_rank?]);
    /// \[rank + rotated, H\].
    LatentDown: Weight, |of| Some(vec![of.latent()?.down, of.h]);
    /// \[rank + rotated\].
    LatentDownBias: Bias, |of| there(of.latent()?.bias, &[of.latent()?.down]);
    /// \[rank\].
    LatentNorm: Norm, |of| Some(vec![of.latent()?.rank]);
    /// \[heads · (D − rotated + Dv), rank\].
    LatentUp: Weight, |of| Some(vec![of.latent()?.up, of.latent()?.rank]);
    /// \[2F, H\] of a dense network: the gate's rows before those of up.
    DenseIn: Weight gated, |of| Some(vec![2 * of.dense()?.inter, of.h]);
    /// \[2F\].
    DenseInBias: Bias gated, |of| there(of.dense()?.bias, &[2 * of.dense()?.inter]);
    /// \[H, F\].
    DenseOut: Out, |of| Some(vec![of.h, of.dense()?.inter]);
    /// \[H\].
    DenseOutBias: Bias, |of| there(of.dense()?.bias, &[of.h]);
    /// \[E, H\].
    Router: Weight, |of| Some(vec![of.experts()?.experts, of.h]);
    /// \[E\].
    RouterBias: Bias, |of| match of.experts()?.router {
        RouterConfig::TopK(router) => there(router.bias, &[of.experts()?.experts]),
        _ => None,
    };
    /// \[E\]: for the selection alone.
    Correction: Bias, |of| match of.experts()?.router {
        RouterConfig::SigmoidBias(_) => Some(vec![of.experts()?.experts]),
        _ => None,
    };
    /// \[E, 2F, H\]: the gate's rows before those of up.
    ExpertsIn: Weight gated, |of| {
        Some(vec![of.experts()?.experts, 2 * of.experts()?.inter, of.h])
    };
    /// \[E, 2F\].
    ExpertsInBias: Bias gated, |of| {
        there(of.experts()?.bias, &[of.experts()?.experts, 2 * of.experts()?.inter])
    };
    /// \[E, H, F\].
    ExpertsOut: Out, |of| Some(vec![of.experts()?.experts, of.h, of.experts()?.inter]);
    /// \[E, H\].
    ExpertsOutBias: Bias, |of| there(of.experts()?.bias, &[of.experts()?.experts, of.h]);
    /// \[2F, H\] of the expert for every token.
    SharedIn: Weight gated, |of| Some(vec![2 * of.shared()?.inter, of.h]);
    /// \[H, F\].
    SharedOut: Out, |of| Some(vec![of.h, of.shared()?.inter]);
    /// \[1, H\].
    SharedGate: Weight, |of| there(of.shared()?.sigmoid_gate, &[1, of.h]);
    /// \[positions, H\], added to the embedding.
    Positions: Weight, |of| there(of.model.learned_positions, &[of.model.positions, of.h]);
}

impl Slot {
    /// The slots outside of layers.
    pub const OUTER: [Self; 4] = [Self::Embedding, Self::Norm, Self::Head, Self::Positions];

    /// Whether it exists in each layer.
    pub fn is_of_layer(self) -> bool {
        !Self::OUTER.contains(&self)
    }

    /// Matrices or vectors of experts that a shape of the slot stacks, rows of each, and columns; a vector has one.
    pub fn extents(self, shape: &[usize]) -> [usize; 3] {
        match shape {
            [stack, rows, columns] => [*stack, *rows, *columns],
            [stack, rows] if self.is_bias() => [*stack, *rows, 1],
            [rows, columns] => [1, *rows, *columns],
            rows => [1, rows.iter().product(), 1],
        }
    }

    /// Projections whose rows lie one after the other in it.
    pub(crate) fn parts(self) -> usize {
        if self.is_gated() { 2 } else { 1 }
    }

    /// Whether its values are added to something, or are logits that no input has a part in: an untrained model has 0 there.
    pub fn is_bias(self) -> bool {
        self.kind() == Kind::Bias
    }

    /// Its extents in the model, or in layer `layer` of it; `None` where the model has no such place.
    pub fn shape(self, model: &ModelSpec, layer: usize) -> Option<Vec<usize>> {
        self.of_sizes(&Sizes {
            model,
            layer: model.layers.get(layer),
            h: model.hidden,
        })
    }
}

fn applied(
    shape: impl FnOnce(&Sizes<'_>) -> Option<Vec<usize>>,
    sizes: &Sizes<'_>,
) -> Option<Vec<usize>> {
    shape(sizes)
}

/// The extents where they are there.
fn there(present: bool, extents: &[usize]) -> Option<Vec<usize>> {
    present.then(|| extents.to_vec())
}

/// What shapes depend on. What a layer doesn't have is `None`.
struct Sizes<'a> {
    model: &'a ModelSpec,
    layer: Option<&'a LayerSpec>,
    /// Width of a token.
    h: usize,
}

/// Of attention with a matrix each.
struct Direct {
    q: usize,
    k: usize,
    v: usize,
    bias: bool,
    /// Factors of the norms of q and k.
    norms: Option<[usize; 2]>,
}

/// Of attention through narrow vectors.
struct Latent {
    q: usize,
    query_rank: Option<usize>,
    rank: usize,
    down: usize,
    up: usize,
    bias: bool,
}

impl<'a> Sizes<'a> {
    fn attention(&self) -> Option<&'a AttentionSpec> {
        self.layer.map(|layer| &layer.attention)
    }

    fn direct(&self) -> Option<Direct> {
        let of = self.attention()?;
        let Projection::Direct { bias, norm, .. } = of.projection else {
            return None;
        };
        let (q, k) = (of.heads * of.head_dim, of.kv_heads * of.head_dim);
        Some(Direct {
            q,
            k,
            v: of.kv_heads * of.value_dim,
            bias,
            norms: match norm {
                HeadNorm::None => None,
                HeadNorm::Head => Some([of.head_dim; 2]),
                HeadNorm::All => Some([q, k]),
            },
        })
    }

    fn latent(&self) -> Option<Latent> {
        let of = self.attention()?;
        let Projection::Latent {
            query_rank,
            rank,
            rotated,
            bias,
            ..
        } = of.projection
        else {
            return None;
        };
        Some(Latent {
            q: of.heads * of.head_dim,
            query_rank,
            rank,
            down: rank + rotated,
            up: of.heads * (of.head_dim - rotated + of.value_dim),
            bias,
        })
    }

    fn dense(&self) -> Option<&'a MoeConfig> {
        match &self.layer?.feed_forward {
            FeedForwardSpec::Dense(network) => Some(network),
            FeedForwardSpec::Experts(_) => None,
        }
    }

    fn experts(&self) -> Option<&'a MoeConfig> {
        match &self.layer?.feed_forward {
            FeedForwardSpec::Dense(_) => None,
            FeedForwardSpec::Experts(experts) => Some(experts),
        }
    }

    fn shared(&self) -> Option<SharedExpertConfig> {
        self.experts()?.shared
    }
}

/// A slot of a model: of a layer, where the slot is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The layer's number; 0 for slots outside of layers.
    pub layer: usize,
    /// The slot.
    pub slot: Slot,
}

impl Place {
    /// Its extents in the model; none of a place that the model doesn't have.
    pub fn shape(self, spec: &ModelSpec) -> Vec<usize> {
        self.slot.shape(spec, self.layer).unwrap_or_default()
    }

    /// That the model doesn't have it.
    pub(crate) fn absent(self) -> Error {
        Error::Config(Unfit::new(
            "a place",
            "one of the model",
            format!("{self:?}"),
        ))
    }
}

impl Slot {
    /// All places of a model.
    pub fn places(spec: &ModelSpec) -> Vec<Place> {
        let of_layers = (0..spec.layers.len()).flat_map(|layer| {
            let slots = Self::ALL.iter().copied().filter(|slot| slot.is_of_layer());
            slots.map(move |slot| Place { layer, slot })
        });
        let outer = Self::OUTER.map(|slot| Place { layer: 0, slot });
        let all = outer.into_iter().chain(of_layers);
        all.filter(|at| at.slot.shape(spec, at.layer).is_some())
            .collect()
    }
}

impl ModelSpec {
    /// Numbers of all weights.
    pub fn parameters(&self) -> f64 {
        self.count(|_| 1.0)
    }

    /// Numbers of the weights that one token is multiplied with: of experts, those that it goes to; of the embedding, none unless it is the
    /// head, too; of learned positions, none.
    pub fn active_parameters(&self) -> f64 {
        self.count(|Place { layer, slot }| match slot {
            Slot::Embedding if !self.tied => 0.0,
            Slot::Positions => 0.0,
            Slot::ExpertsIn | Slot::ExpertsOut => self.layers[layer].share_of_experts(),
            _ => 1.0,
        })
    }

    /// The sum over all places of their numbers times a share. As a float, because sizes from a file may exceed any whole number.
    fn count(&self, share: impl Fn(Place) -> f64) -> f64 {
        let of = |place: Place| {
            let shape = place.shape(self);
            let numbers: f64 = shape.iter().map(|&extent| extent as f64).product();
            numbers * share(place)
        };
        Slot::places(self).into_iter().map(of).sum()
    }
}
