//! The places of a decoder that weights go to, and their shapes.

use super::source::Place;
use super::spec::{AttentionSpec, ExpertsSpec, FeedForwardSpec, HeadNorm, ModelSpec, Projection};

/// A place of a decoder that holds one tensor; those of layers exist in each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// \[V, H\].
    Embedding,
    /// \[V, H\], unless it is the embedding.
    Head,
    /// \[H\], before the head.
    Norm,
    /// \[H\], before the attention.
    AttentionNorm,
    /// \[H\], before the feed-forward part.
    FeedForwardNorm,
    /// \[heads · D, H\].
    Query,
    /// \[heads · D\].
    QueryBias,
    /// \[kv_heads · D, H\].
    Key,
    /// \[kv_heads · D\].
    KeyBias,
    /// \[kv_heads · Dv, H\].
    Value,
    /// \[kv_heads · Dv\].
    ValueBias,
    /// \[H, heads · Dv\].
    Out,
    /// \[H\].
    OutBias,
    /// \[D\], or \[heads · D\] where all heads are normalised together.
    QueryNorm,
    /// \[D\], or \[kv_heads · D\].
    KeyNorm,
    /// \[heads\].
    Sinks,
    /// \[query rank, H\].
    QueryDown,
    /// \[query rank\].
    QueryDownBias,
    /// \[query rank\].
    QueryLatentNorm,
    /// \[heads · D, query rank\].
    QueryUp,
    /// \[rank + rotated, H\].
    LatentDown,
    /// \[rank + rotated\].
    LatentDownBias,
    /// \[rank\].
    LatentNorm,
    /// \[heads · (D − rotated + Dv), rank\].
    LatentUp,
    /// \[2F, H\] of a dense network: the gate's rows before those of up.
    DenseIn,
    /// \[2F\].
    DenseInBias,
    /// \[H, F\].
    DenseOut,
    /// \[H\].
    DenseOutBias,
    /// \[E, H\].
    Router,
    /// \[E\].
    RouterBias,
    /// \[E\]: for the selection alone.
    Correction,
    /// \[E, 2F, H\]: the gate's rows before those of up.
    ExpertsIn,
    /// \[E, 2F\].
    ExpertsInBias,
    /// \[E, H, F\].
    ExpertsOut,
    /// \[E, H\].
    ExpertsOutBias,
    /// \[2F, H\] of the expert for every token.
    SharedIn,
    /// \[H, F\].
    SharedOut,
    /// \[1, H\].
    SharedGate,
}

impl Slot {
    /// All of them.
    pub const ALL: [Self; 38] = [
        Self::Embedding,
        Self::Head,
        Self::Norm,
        Self::AttentionNorm,
        Self::FeedForwardNorm,
        Self::Query,
        Self::QueryBias,
        Self::Key,
        Self::KeyBias,
        Self::Value,
        Self::ValueBias,
        Self::Out,
        Self::OutBias,
        Self::QueryNorm,
        Self::KeyNorm,
        Self::Sinks,
        Self::QueryDown,
        Self::QueryDownBias,
        Self::QueryLatentNorm,
        Self::QueryUp,
        Self::LatentDown,
        Self::LatentDownBias,
        Self::LatentNorm,
        Self::LatentUp,
        Self::DenseIn,
        Self::DenseInBias,
        Self::DenseOut,
        Self::DenseOutBias,
        Self::Router,
        Self::RouterBias,
        Self::Correction,
        Self::ExpertsIn,
        Self::ExpertsInBias,
        Self::ExpertsOut,
        Self::ExpertsOutBias,
        Self::SharedIn,
        Self::SharedOut,
        Self::SharedGate,
    ];

    /// The slots outside of layers.
    pub const OUTER: [Self; 3] = [Self::Embedding, Self::Norm, Self::Head];

    /// All places of a model.
    pub fn places(spec: &ModelSpec) -> Vec<Place> {
        let of_layers = (0..spec.layers.len()).flat_map(|layer| {
            let slots = Self::ALL.into_iter().filter(|slot| slot.is_of_layer());
            slots.map(move |slot| Place { layer, slot })
        });
        let outer = Self::OUTER.map(|slot| Place { layer: 0, slot });
        let all = outer.into_iter().chain(of_layers);
        all.filter(|at| at.slot.shape(spec, at.layer).is_some())
            .collect()
    }

    /// Whether it exists in each layer.
    pub fn is_of_layer(self) -> bool {
        !Self::OUTER.contains(&self)
    }

    /// Matrices or vectors of experts that a shape of the slot stacks, rows of each, and columns; a vector has one.
    pub fn extents(self, shape: &[usize]) -> [usize; 3] {
        use Slot::{ExpertsInBias, ExpertsOutBias};
        match (self, shape) {
            (_, [stack, rows, columns]) => [*stack, *rows, *columns],
            (ExpertsInBias | ExpertsOutBias, [stack, rows]) => [*stack, *rows, 1],
            (_, [rows, columns]) => [1, *rows, *columns],
            (_, rows) => [1, rows.iter().product(), 1],
        }
    }

    /// Whether its rows are those of a gate, and then as many of what it gates.
    pub fn is_gated(self) -> bool {
        use Slot::{DenseIn, DenseInBias, ExpertsIn, ExpertsInBias, SharedIn};
        matches!(
            self,
            DenseIn | DenseInBias | ExpertsIn | ExpertsInBias | SharedIn
        )
    }

    /// Projections whose rows lie one after the other in it.
    pub(crate) fn parts(self) -> usize {
        if self.is_gated() { 2 } else { 1 }
    }

    /// Whether its values are added to something, or are logits that no input has a part in: an untrained model has 0 there.
    pub fn is_bias(self) -> bool {
        use Slot::{
            Correction, DenseInBias, DenseOutBias, ExpertsInBias, ExpertsOutBias, KeyBias,
            LatentDownBias, OutBias, QueryBias, QueryDownBias, RouterBias, Sinks, ValueBias,
        };
        matches!(
            self,
            QueryBias
                | KeyBias
                | ValueBias
                | OutBias
                | Sinks
                | QueryDownBias
                | LatentDownBias
                | DenseInBias
                | DenseOutBias
                | RouterBias
                | Correction
                | ExpertsInBias
                | ExpertsOutBias
        )
    }

    /// Its extents in the model, or in layer `layer` of it; `None` where the model has no such place.
    pub fn shape(self, spec: &ModelSpec, layer: usize) -> Option<Vec<usize>> {
        let h = spec.hidden;
        match self {
            Self::Embedding => return Some(vec![spec.vocabulary, h]),
            Self::Head => return (!spec.tied).then(|| vec![spec.vocabulary, h]),
            Self::Norm => return Some(vec![h]),
            _ => {}
        }
        let layer = spec.layers.get(layer)?;
        match self {
            Self::AttentionNorm | Self::FeedForwardNorm => Some(vec![h]),
            _ => of_attention(self, &layer.attention, h).or_else(|| match &layer.feed_forward {
                FeedForwardSpec::Dense { inter, bias } => of_dense(self, *inter, *bias, h),
                FeedForwardSpec::Experts(experts) => of_experts(self, experts, h),
            }),
        }
    }
}

/// The extents where they are there.
fn shape(present: bool, extents: &[usize]) -> Option<Vec<usize>> {
    present.then(|| extents.to_vec())
}

fn of_attention(slot: Slot, of: &AttentionSpec, h: usize) -> Option<Vec<usize>> {
    let (q, k) = (of.heads * of.head_dim, of.kv_heads * of.head_dim);
    let v = of.kv_heads * of.value_dim;
    match slot {
        Slot::Out => shape(true, &[h, of.heads * of.value_dim]),
        Slot::OutBias => shape(of.out_bias, &[h]),
        Slot::Sinks => shape(of.sinks, &[of.heads]),
        _ => match of.projection {
            Projection::Direct { bias, norm, .. } => {
                let (has_norm, d) = (norm != HeadNorm::None, of.head_dim);
                let norm_width = |all| if norm == HeadNorm::All { all } else { d };
                match slot {
                    Slot::Query => shape(true, &[q, h]),
                    Slot::Key => shape(true, &[k, h]),
                    Slot::Value => shape(true, &[v, h]),
                    Slot::QueryBias => shape(bias, &[q]),
                    Slot::KeyBias => shape(bias, &[k]),
                    Slot::ValueBias => shape(bias, &[v]),
                    Slot::QueryNorm => shape(has_norm, &[norm_width(q)]),
                    Slot::KeyNorm => shape(has_norm, &[norm_width(k)]),
                    _ => None,
                }
            }
            Projection::Latent { .. } => of_latent(slot, of, h),
        },
    }
}

fn of_latent(slot: Slot, of: &AttentionSpec, h: usize) -> Option<Vec<usize>> {
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
    let (narrow, narrow_rank) = (query_rank.is_some(), query_rank.unwrap_or(0));
    let (q, down) = (of.heads * of.head_dim, rank + rotated);
    let up = of.heads * (of.head_dim - rotated + of.value_dim);
    match slot {
        Slot::Query => shape(!narrow, &[q, h]),
        Slot::QueryDown => shape(narrow, &[narrow_rank, h]),
        Slot::QueryDownBias => shape(narrow && bias, &[narrow_rank]),
        Slot::QueryLatentNorm => shape(narrow, &[narrow_rank]),
        Slot::QueryUp => shape(narrow, &[q, narrow_rank]),
        Slot::LatentDown => shape(true, &[down, h]),
        Slot::LatentDownBias => shape(bias, &[down]),
        Slot::LatentNorm => shape(true, &[rank]),
        Slot::LatentUp => shape(true, &[up, rank]),
        _ => None,
    }
}

fn of_dense(slot: Slot, f: usize, bias: bool, h: usize) -> Option<Vec<usize>> {
    match slot {
        Slot::DenseIn => shape(true, &[2 * f, h]),
        Slot::DenseInBias => shape(bias, &[2 * f]),
        Slot::DenseOut => shape(true, &[h, f]),
        Slot::DenseOutBias => shape(bias, &[h]),
        _ => None,
    }
}

fn of_experts(slot: Slot, of: &ExpertsSpec, h: usize) -> Option<Vec<usize>> {
    let (e, f) = (of.experts, of.inter);
    let wide = of.shared.map_or(0, |shared| shared.inter);
    let shared = of.shared.is_some();
    match slot {
        Slot::Router => shape(true, &[e, h]),
        Slot::RouterBias => shape(of.router.bias, &[e]),
        Slot::Correction => shape(of.router.correction, &[e]),
        Slot::ExpertsIn => shape(true, &[e, 2 * f, h]),
        Slot::ExpertsInBias => shape(of.bias, &[e, 2 * f]),
        Slot::ExpertsOut => shape(true, &[e, h, f]),
        Slot::ExpertsOutBias => shape(of.bias, &[e, h]),
        Slot::SharedIn => shape(shared, &[2 * wide, h]),
        Slot::SharedOut => shape(shared, &[h, wide]),
        Slot::SharedGate => {
            let gated = of.shared.is_some_and(|shared| shared.sigmoid_gate);
            shape(gated, &[1, h])
        }
        _ => None,
    }
}
