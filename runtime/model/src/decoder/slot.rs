//! The slots of a decoder that weights go to, and their shapes, in one table. A place is a slot of a certain layer.

use moebius::moe::{MoeConfig, RouterConfig, SharedExpertConfig};
use moebius_weights::Unfit;

use super::spec::{
    AttentionSpec, ConvolutionSpec, FeedForwardSpec, HeadNorm, LayerSpec, ModelSpec, Projection,
};
use crate::error::Error;

/// Role of a slot's values in a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Factors of a norm.
    Norm,
    /// Values that are added to something, or logits that don't depend on the input.
    Bias,
    /// A matrix whose product is added to the layer's input.
    Out,
    /// Any other matrix, or an embedding.
    Weight,
}

/// Makes the slots from rows `Slot: Kind gated, shape;`. `gated` marks slots in which the rows of a gate stand before as many rows that it
/// gates, and `shape` is a function of [`Sizes`].
macro_rules! slots {
    ($($(#[$doc:meta])* $slot:ident: $kind:ident $($gated:ident)?, $shape:expr;)*) => {
        /// A slot of a decoder, which holds one tensor; the slots of layers exist in each layer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Slot {
            $($(#[$doc])* $slot,)*
        }

        impl Slot {
            /// All slots.
            pub const ALL: &[Self] = &[$(Self::$slot,)*];

            pub(super) fn kind(self) -> Kind {
                match self {
                    $(Self::$slot => Kind::$kind,)*
                }
            }

            /// Whether the first half of the rows is a gate, and the second half what it gates.
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
    /// Token embedding \[V, H\].
    Embedding: Weight, |of| Some(vec![of.model.vocabulary, of.h]);
    /// Head \[V, H\], unless it shares the embedding.
    Head: Weight, |of| there(!of.model.tied, &[of.model.vocabulary, of.h]);
    /// Factors of the norm before the head \[H\].
    Norm: Norm, |of| Some(vec![of.h]);
    /// Factors of the norm before the attention \[H\].
    AttentionNorm: Norm, |of| there(of.layer?.norms.are_before(), &[of.h]);
    /// Factors of the norm before the feed-forward part \[H\].
    FeedForwardNorm: Norm, |of| there(of.layer?.norms.are_before(), &[of.h]);
    /// Query projection \[heads · D, H\].
    Query: Weight, |of| match of.latent() {
        Some(latent) => there(latent.query_rank.is_none(), &[latent.q, of.h]),
        None => Some(vec![of.direct()?.q, of.h]),
    };
    /// Bias of the query projection \[heads · D\].
    QueryBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.q]);
    /// Key projection \[kv_heads · D, H\].
    Key: Weight, |of| Some(vec![of.direct()?.k, of.h]);
    /// Bias of the key projection \[kv_heads · D\].
    KeyBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.k]);
    /// Value projection \[kv_heads · Dv, H\].
    Value: Weight, |of| Some(vec![of.direct()?.v, of.h]);
    /// Bias of the value projection \[kv_heads · Dv\].
    ValueBias: Bias, |of| there(of.direct()?.bias, &[of.direct()?.v]);
    /// Output projection of attention \[H, heads · Dv\].
    Out: Out, |of| Some(vec![of.h, of.attention()?.heads * of.attention()?.value_dim]);
    /// Bias of the output projection of attention \[H\].
    OutBias: Bias, |of| there(of.attention()?.out_bias, &[of.h]);
    /// Factors of the query norm \[D\], or \[heads · D\] where all heads are normalised together.
    QueryNorm: Norm, |of| Some(vec![of.direct()?.norms?[0]]);
    /// Factors of the key norm \[D\], or \[kv_heads · D\] where all heads are normalised together.
    KeyNorm: Norm, |of| Some(vec![of.direct()?.norms?[1]]);
    /// Sink logits of the heads \[heads\].
    Sinks: Bias, |of| there(of.attention()?.sinks, &[of.attention()?.heads]);
    /// Latent attention: x → the queries' narrow vector \[query rank, H\].
    QueryDown: Weight, |of| Some(vec![of.latent()?.query_rank?, of.h]);
    /// Bias of `QueryDown` \[query rank\].
    QueryDownBias: Bias, |of| there(of.latent()?.bias, &[of.latent()?.query_rank?]);
    /// Factors of the norm of the queries' narrow vector \[query rank\].
    QueryLatentNorm: Norm, |of| Some(vec![of.latent()?.query_rank?]);
    /// Latent attention: the queries' narrow vector → q \[heads · D, query rank\].
    QueryUp: Weight, |of| Some(vec![of.latent()?.q, of.latent()?.query_rank?]);
    /// Latent attention: x → the narrow vector of keys and values and the rotated elements of the keys \[rank + rotated, H\].
    LatentDown: Weight, |of| Some(vec![of.latent()?.down, of.h]);
    /// Bias of `LatentDown` \[rank + rotated\].
    LatentDownBias: Bias, |of| there(of.latent()?.bias, &[of.latent()?.down]);
    /// Factors of the norm of the narrow vector of keys and values \[rank\].
    LatentNorm: Norm, |of| Some(vec![of.latent()?.rank]);
    /// Latent attention: the narrow vector → keys and values \[heads · (D − rotated + Dv), rank\].
    LatentUp: Weight, |of| Some(vec![of.latent()?.up, of.latent()?.rank]);
    /// First matrix of a dense network \[2F, H\]: the gate's rows before those of up.
    DenseIn: Weight gated, |of| Some(vec![2 * of.dense()?.inter, of.h]);
    /// Bias of the first matrix of a dense network \[2F\].
    DenseInBias: Bias gated, |of| there(of.dense()?.bias, &[2 * of.dense()?.inter]);
    /// Second matrix of a dense network \[H, F\].
    DenseOut: Out, |of| Some(vec![of.h, of.dense()?.inter]);
    /// Bias of the second matrix of a dense network \[H\].
    DenseOutBias: Bias, |of| there(of.dense()?.bias, &[of.h]);
    /// Router matrix \[E, H\].
    Router: Weight, |of| Some(vec![of.experts()?.experts, of.h]);
    /// Bias of the router's logits \[E\].
    RouterBias: Bias, |of| match of.experts()?.router {
        RouterConfig::TopK(router) => there(router.bias, &[of.experts()?.experts]),
        _ => None,
    };
    /// Correction of the router's scores \[E\], which affects only the selection of experts.
    Correction: Bias, |of| match of.experts()?.router {
        RouterConfig::SigmoidBias(_) => Some(vec![of.experts()?.experts]),
        _ => None,
    };
    /// First matrices of the experts \[E, 2F, H\]: the gate's rows before those of up.
    ExpertsIn: Weight gated, |of| {
        Some(vec![of.experts()?.experts, 2 * of.experts()?.inter, of.h])
    };
    /// Biases of the experts' first matrices \[E, 2F\].
    ExpertsInBias: Bias gated, |of| {
        there(of.experts()?.bias, &[of.experts()?.experts, 2 * of.experts()?.inter])
    };
    /// Second matrices of the experts \[E, H, F\].
    ExpertsOut: Out, |of| Some(vec![of.experts()?.experts, of.h, of.experts()?.inter]);
    /// Biases of the experts' second matrices \[E, H\].
    ExpertsOutBias: Bias, |of| there(of.experts()?.bias, &[of.experts()?.experts, of.h]);
    /// First matrix of the shared expert, which every token goes to \[2F, H\].
    SharedIn: Weight gated, |of| Some(vec![2 * of.shared()?.inter, of.h]);
    /// Second matrix of the shared expert \[H, F\].
    SharedOut: Out, |of| Some(vec![of.h, of.shared()?.inter]);
    /// Gate of the shared expert \[1, H\].
    SharedGate: Weight, |of| there(of.shared()?.sigmoid_gate, &[1, of.h]);
    /// Learned positions \[positions, H\], added to the embedding.
    Positions: Weight, |of| there(of.model.learned_positions, &[of.model.positions, of.h]);
    /// Factors of the norm after the attention \[H\].
    AttentionOutNorm: Norm, |of| there(of.layer?.norms.are_after(), &[of.h]);
    /// Factors of the norm after the feed-forward part \[H\].
    FeedForwardOutNorm: Norm, |of| there(of.layer?.norms.are_after(), &[of.h]);
    /// Projection of a convolution, x → b, c and v \[3H, H\].
    ConvolutionIn: Weight, |of| of.convolution().map(|_| vec![3 * of.h, of.h]);
    /// Biases of b, c and v \[3H\].
    ConvolutionInBias: Bias, |of| there(of.convolution()?.bias, &[3 * of.h]);
    /// Factors of a convolution on the last L values of each channel, the newest last \[H, L\].
    ConvolutionFactors: Weight, |of| Some(vec![of.h, of.convolution()?.taps]);
    /// Biases of a convolution's sums \[H\].
    ConvolutionBias: Bias, |of| there(of.convolution()?.bias, &[of.h]);
    /// Output projection of a convolution \[H, H\].
    ConvolutionOut: Out, |of| of.convolution().map(|_| vec![of.h, of.h]);
    /// Bias of the output projection of a convolution \[H\].
    ConvolutionOutBias: Bias, |of| there(of.convolution()?.bias, &[of.h]);
}

impl Slot {
    /// The slots outside of the layers.
    pub const OUTER: [Self; 4] = [Self::Embedding, Self::Norm, Self::Head, Self::Positions];

    /// Whether the slot exists in each layer.
    pub fn is_of_layer(self) -> bool {
        !Self::OUTER.contains(&self)
    }

    /// Whether the slot is of a layer's feed-forward part or of its norms, which the backward pass of a layer goes through first.
    pub(crate) fn is_of_network(self) -> bool {
        let slots = [
            Self::FeedForwardNorm,
            Self::DenseIn,
            Self::DenseInBias,
            Self::DenseOut,
            Self::DenseOutBias,
            Self::Router,
            Self::RouterBias,
            Self::Correction,
            Self::SharedIn,
            Self::SharedOut,
            Self::SharedGate,
            Self::FeedForwardOutNorm,
        ];
        slots.contains(&self) || self.is_of_experts()
    }

    /// Whether the slot holds something of each expert of a mixture.
    pub(crate) fn is_of_experts(self) -> bool {
        let slots = [
            Self::ExpertsIn,
            Self::ExpertsInBias,
            Self::ExpertsOut,
            Self::ExpertsOutBias,
        ];
        slots.contains(&self)
    }

    /// Number of matrices (or of experts' vectors) stacked in a shape of this slot, and the rows and columns of each; a vector has one
    /// column.
    pub fn extents(self, shape: &[usize]) -> [usize; 3] {
        match shape {
            [stack, rows, columns] => [*stack, *rows, *columns],
            [stack, rows] if self.is_bias() => [*stack, *rows, 1],
            [rows, columns] => [1, *rows, *columns],
            rows => [1, rows.iter().product(), 1],
        }
    }

    /// Number of projections whose rows lie one after the other in the slot.
    pub(crate) fn parts(self) -> usize {
        if self.is_gated() { 2 } else { 1 }
    }

    /// Whether the slot's matrices may be in any precision, FP8 codes included: those of [`Weights::weight`](super::Weights::weight) and
    /// [`Weights::stack`](super::Weights::stack).
    pub(crate) fn takes_codes(self) -> bool {
        let matrix = matches!(self.kind(), Kind::Weight | Kind::Out) && self.is_of_layer();
        let never = [Self::Router, Self::SharedGate, Self::ConvolutionFactors];
        matrix && !never.contains(&self)
    }

    /// Whether the slot's matrices may be in blocks of codes, in a file and on a device: those that [take codes](Self::takes_codes), the
    /// embedding and the head.
    pub(crate) fn takes_blocks(self) -> bool {
        self.takes_codes() || matches!(self, Self::Embedding | Self::Head)
    }

    /// Whether the slot's values are those of a product, or of a table: they are in 16 bits below an adapter in bf16, while others stay f32.
    pub(crate) fn is_of_product(self) -> bool {
        let alone = [
            Self::Sinks,
            Self::RouterBias,
            Self::Correction,
            Self::ConvolutionBias,
        ];
        self.takes_blocks() || self.is_bias() && !alone.contains(&self)
    }

    /// Whether the values are added to something, or are logits that don't depend on the input; an untrained model has 0 there.
    pub fn is_bias(self) -> bool {
        self.kind() == Kind::Bias
    }

    /// The slot's shape in the model, or in layer `layer` of it; `None` where the model doesn't have the slot.
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

/// The shape `extents`, if `present`.
fn there(present: bool, extents: &[usize]) -> Option<Vec<usize>> {
    present.then(|| extents.to_vec())
}

/// Sizes that the shapes depend on; `None` for what a layer doesn't have.
struct Sizes<'a> {
    model: &'a ModelSpec,
    layer: Option<&'a LayerSpec>,
    /// Width of a token's hidden vector.
    h: usize,
}

/// Sizes of attention with separate projections: rows of q, k and v.
struct Direct {
    q: usize,
    k: usize,
    v: usize,
    bias: bool,
    /// Number of factors of the norms of q and k.
    norms: Option<[usize; 2]>,
}

/// Sizes of latent attention.
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
        self.layer?.attention()
    }

    fn convolution(&self) -> Option<&'a ConvolutionSpec> {
        self.layer?.convolution()
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
                HeadNorm::None | HeadNorm::Unit => None,
                HeadNorm::Head | HeadNorm::Turned => Some([of.head_dim; 2]),
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

/// A place of a model: a slot, and its layer where the slot is one of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index of the layer; 0 for slots outside of the layers.
    pub layer: usize,
    /// Slot of the layer or the model.
    pub slot: Slot,
}

impl Place {
    /// The shape of the place in the model; empty where the model doesn't have the place.
    pub fn shape(self, spec: &ModelSpec) -> Vec<usize> {
        self.slot.shape(spec, self.layer).unwrap_or_default()
    }

    /// The error of a model that doesn't have the place.
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
    /// Number of parameters: the elements of all weights.
    pub fn parameters(&self) -> f64 {
        self.count(|_| 1.0)
    }

    /// Number of parameters that one token is multiplied with: of experts, only those that the token goes to; of the embedding, none unless
    /// the head shares it; of learned positions, none.
    pub fn active_parameters(&self) -> f64 {
        self.count(|Place { layer, slot }| match slot {
            Slot::Embedding if !self.tied => 0.0,
            Slot::Positions => 0.0,
            Slot::ExpertsIn | Slot::ExpertsOut => self.layers[layer].share_of_experts(),
            _ => 1.0,
        })
    }

    /// The sum over all places of their elements times a share. Computed as floats, because sizes from a file may overflow any integer.
    fn count(&self, share: impl Fn(Place) -> f64) -> f64 {
        let of = |place: Place| {
            let shape = place.shape(self);
            let numbers: f64 = shape.iter().map(|&extent| extent as f64).product();
            numbers * share(place)
        };
        Slot::places(self).into_iter().map(of).sum()
    }
}
