//! Attention of one layer.

use burn::module::{Module, Param};
use burn::nn::RmsNorm;
use burn::tensor::{DType, Int, Tensor, TensorData};
use moebius::attention::Attend;
use moebius::nn::{self, Linear};

use super::cache::AttentionCache;
use super::rope::{Angles, Places};
use super::slot::Slot;
use super::spec::{AttentionSpec, HeadNorm, Projection};
use super::weights::{Held, Of, decoded, of_norm, row, row_if};
use crate::error::Error;

/// Causal attention, as described by an [`AttentionSpec`].
#[derive(Module, Debug)]
pub struct Attention {
    /// Projections of a token to queries, keys and values.
    pub projection: Projections,
    /// Output projection: the heads' outputs, side by side → y.
    pub out: Linear,
    /// Sink logit of each head \[heads\]; `None` without sinks.
    pub sinks: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub(super) spec: AttentionSpec,
    /// Constant ε of the model's norms.
    #[module(skip)]
    epsilon: f64,
}

/// Projections of a token to queries, keys and values.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a layer has one, and Burn's modules can't be boxed"
)]
pub enum Projections {
    /// Separate matrices for queries, keys and values.
    Direct(Direct),
    /// Multi-head latent attention: projections through narrow vectors.
    Latent(Latent),
}

/// Separate projections for queries, keys and values.
#[derive(Module, Debug)]
pub struct Direct {
    /// Query projection x → q, all heads.
    pub query: Linear,
    /// Key projection x → k, all heads.
    pub key: Linear,
    /// Value projection x → v, all heads.
    pub value: Linear,
    /// Norm of q, over each head by itself or over all heads; `None` for a norm without factors, too.
    pub query_norm: Option<RmsNorm>,
    /// Norm of k, like that of q.
    pub key_norm: Option<RmsNorm>,
}

/// Latent projections: queries, keys and values through narrow vectors.
#[derive(Module, Debug)]
pub struct Latent {
    /// Projection x → the narrow vector of the queries; `None` where queries come from x directly.
    pub query_down: Option<Linear>,
    /// Norm of the narrow vector of the queries.
    pub query_norm: Option<RmsNorm>,
    /// Query projection: the queries' narrow vector, or x, → q.
    pub query: Linear,
    /// Projection x → the narrow vector of keys and values, followed by the rotated elements that all key heads share.
    pub down: Linear,
    /// Norm of the narrow vector of keys and values.
    pub norm: RmsNorm,
    /// Projection of the narrow vector → for every head, the elements of a key that aren't rotated, and a value.
    pub up: Linear,
}

/// Queries, keys and values: \[B, S, heads, D\], \[B, S, kv_heads, D\] and \[B, S, kv_heads, Dv\] where a projection returns them.
type Heads = [Tensor<4>; 3];

impl Attention {
    pub(super) fn load(
        spec: &AttentionSpec,
        epsilon: f64,
        from: &mut Of<'_>,
    ) -> Result<Self, Error> {
        let projection = match spec.projection {
            Projection::Direct { .. } => Projections::Direct(Direct {
                query: from.biased(Slot::Query, Slot::QueryBias)?,
                key: from.biased(Slot::Key, Slot::KeyBias)?,
                value: from.biased(Slot::Value, Slot::ValueBias)?,
                query_norm: from.norm_if(Slot::QueryNorm, epsilon)?,
                key_norm: from.norm_if(Slot::KeyNorm, epsilon)?,
            }),
            Projection::Latent { epsilon, .. } => Projections::Latent(Latent::load(epsilon, from)?),
        };
        Ok(Self {
            projection,
            out: from.biased(Slot::Out, Slot::OutBias)?,
            sinks: from.vector_if(Slot::Sinks)?,
            spec: spec.clone(),
            epsilon,
        })
    }

    /// Computes y \[B · S, H\] from x \[B · S, H\]; with a cache, attention also covers the earlier tokens in it.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
        cache: Option<AttentionCache<'_>>,
    ) -> Result<Tensor<2>, Error> {
        let spec = &self.spec;
        let heads = self.heads(x, places, angles)?;
        let found = match cache {
            // No sequence of the cache is longer than a chunk.
            Some(mut cache) => {
                let keys = cache.scales.map_or(1.0, |scales| scales.keys);
                cache.attend(heads, &self.attend(keys))?
            }
            None => match &places.packed {
                // No document is longer than a chunk.
                Some(packed) => {
                    let numbers = packed.numbers.clone();
                    let attend = self.attend(1.0).documents(numbers.clone(), numbers);
                    in_chunks(heads, None, &attend)?
                }
                None => in_chunks(heads, spec.chunk, &self.attend(1.0))?,
            },
        };
        let rows = places.first.len() * places.tokens;
        let width = spec.heads * spec.value_dim;
        // The heads of sequences of one token lie side by side already.
        let found = match places.tokens {
            1 => found,
            _ => found.swap_dims(1, 2),
        };
        Ok(self.out.forward(found.reshape([rows, width]))?)
    }

    /// Computes the attention weights \[B, heads, S, S\] of whole sequences from x \[B · S, H\].
    pub(super) fn weights(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
    ) -> Result<Tensor<4>, Error> {
        let (b, s) = (places.first.len(), places.tokens);
        let [q, k, _] = self.heads(x, places, angles)?;
        let attend = match self.spec.chunk.filter(|&chunk| chunk < s) {
            Some(chunk) => {
                let chunks: Vec<i32> = (0..b * s).map(|at| (at % s / chunk) as i32).collect();
                let chunks = TensorData::new(chunks, [b, s]);
                let chunks = Tensor::<2, Int>::from_data(chunks, (&q.device(), DType::I32));
                self.attend(1.0).documents(chunks.clone(), chunks)
            }
            None => self.attend(1.0),
        };
        Ok(attend.weights(q, k)?)
    }

    /// Queries \[B, heads, S, D\], keys \[B, kv_heads, S, D\] and values \[B, kv_heads, S, Dv\] of x \[B · S, H\].
    fn heads(&self, x: Tensor<2>, places: &Places, angles: &Angles) -> Result<Heads, Error> {
        let spec = &self.spec;
        let sequences = [places.first.len(), places.tokens];
        let [q, k, v] = match &self.projection {
            // Where nothing depends on positions, the heads of one token are made in the order that they are returned in.
            Projections::Direct(direct)
                if places.tokens == 1 && spec.rope.is_none() && spec.temperature.is_none() =>
            {
                let shape = |heads, width| [places.first.len(), heads, 1, width];
                let [q, k, v] = direct.forward(x, shape, spec, angles)?;
                let [q, k] = self.unit([q, k]);
                return Ok([q, k, v]);
            }
            Projections::Direct(direct) => {
                let shape = |heads, width| [sequences[0], sequences[1], heads, width];
                direct.forward(x, shape, spec, angles)?
            }
            Projections::Latent(latent) => latent.forward(x, sequences, spec, angles)?,
        };
        let [q, k] = self.unit([q, k]);
        let q = match &spec.temperature {
            Some(temperature) => temperature.applied(q, places),
            None => q,
        };
        Ok([q, k, v].map(|heads| heads.swap_dims(1, 2)))
    }

    /// Values that the attention holds in a slot.
    pub(super) fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::Out => decoded(&self.out.weight),
            Slot::OutBias => row_if(&self.out.bias),
            Slot::Sinks => row_if(&self.sinks),
            _ => match &self.projection {
                Projections::Direct(direct) => direct.held(slot),
                Projections::Latent(latent) => latent.held(slot),
            },
        }
    }

    /// Queries and keys \[B, S, heads, D\] after their norm without factors, if they have such a norm.
    fn unit(&self, heads: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        match self.unit_norm(&heads[0]) {
            Some(norm) => heads.map(|heads| nn::rms_norm(&norm, heads)),
            None => heads,
        }
    }

    /// The norm without factors of queries and keys like `heads`, if they have such a norm. It is computed in f32, as transformers does.
    pub(super) fn unit_norm(&self, heads: &Tensor<4>) -> Option<RmsNorm> {
        let Projection::Direct {
            norm: HeadNorm::Unit,
            ..
        } = self.spec.projection
        else {
            return None;
        };
        let options = (&heads.device(), DType::F32);
        let gamma = Tensor::ones([self.spec.head_dim], options);
        Some(RmsNorm {
            gamma: Param::from_tensor(gamma),
            epsilon: self.epsilon,
        })
    }

    /// Which keys a query sees, and how scores of keys that were divided by `keys` become attention weights; all keys before a query are of
    /// its chunk.
    pub(super) fn attend(&self, keys: f32) -> Attend {
        let attend = match self.spec.window {
            Some(keys) => Attend::new().window(keys),
            None => Attend::new().causal(),
        };
        let attend = attend.scale((self.spec.scale * f64::from(keys)) as f32);
        let attend = match self.spec.softcap {
            Some(cap) => attend.softcap(cap as f32),
            None => attend,
        };
        match &self.sinks {
            Some(sinks) => attend.sinks(sinks.val()),
            None => attend,
        }
    }
}

/// Computes o \[B, heads, S, Dv\] of the heads of whole sequences, q \[B, heads, S, D\] and k and v alike, each chunk of `chunk` tokens by
/// itself.
fn in_chunks(
    heads: [Tensor<4>; 3],
    chunk: Option<usize>,
    attend: &Attend,
) -> Result<Tensor<4>, Error> {
    let [_, _, tokens, _] = heads[0].dims();
    let Some(chunk) = chunk.filter(|&chunk| chunk < tokens) else {
        let [q, k, v] = heads;
        return Ok(attend.forward(q, k, v)?.o);
    };
    let mut found = Vec::new();
    for from in (0..tokens).step_by(chunk) {
        let length = chunk.min(tokens - from);
        let [q, k, v] = heads.clone().map(|heads| heads.narrow(2, from, length));
        found.push(attend.forward(q, k, v)?.o);
    }
    Ok(Tensor::cat(found, 2))
}

impl Direct {
    fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::Query => decoded(&self.query.weight),
            Slot::QueryBias => row_if(&self.query.bias),
            Slot::Key => decoded(&self.key.weight),
            Slot::KeyBias => row_if(&self.key.bias),
            Slot::Value => decoded(&self.value.weight),
            Slot::ValueBias => row_if(&self.value.bias),
            Slot::QueryNorm => of_norm(self.query_norm.as_ref()),
            Slot::KeyNorm => of_norm(self.key_norm.as_ref()),
            _ => Ok(None),
        }
    }

    /// Queries, keys and values in the `shape` of so many heads of one width.
    fn forward(
        &self,
        x: Tensor<2>,
        shape: impl Fn(usize, usize) -> [usize; 4] + Sync,
        spec: &AttentionSpec,
        angles: &Angles,
    ) -> Result<Heads, Error> {
        let Projection::Direct { norm, clip, .. } = spec.projection else {
            unreachable!("the layer was made of the description");
        };
        let project = |linear: &Linear, normed: Option<&RmsNorm>, heads, width| {
            let mut rows = linear.forward(x.clone())?;
            if let (Some(over), HeadNorm::All) = (normed, norm) {
                rows = nn::rms_norm(over, rows);
            }
            if let Some(clip) = clip {
                rows = rows.clamp(-clip, clip);
            }
            let heads = rows.reshape(shape(heads, width));
            Ok::<_, Error>(match (normed, norm) {
                (Some(over), HeadNorm::Head) => nn::rms_norm(over, heads),
                _ => heads,
            })
        };
        let (d, kv_heads) = (spec.head_dim, spec.kv_heads);
        let turn = |x, normed: Option<&RmsNorm>| {
            let turned = angles.turn(x, spec.rope.as_ref(), 0);
            match (normed, norm) {
                (Some(over), HeadNorm::Turned) => nn::rms_norm(over, turned),
                _ => turned,
            }
        };
        let made = |linear, normed: &Option<RmsNorm>, heads| {
            let normed = normed.as_ref();
            Ok::<_, Error>(turn(project(linear, normed, heads, d)?, normed))
        };
        let device = x.device();
        let query = || made(&self.query, &self.query_norm, spec.heads);
        let key = || made(&self.key, &self.key_norm, kv_heads);
        let value = || project(&self.value, None, kv_heads, spec.value_dim);
        let (q, (k, v)) = moebius::join(&device, query, || moebius::join(&device, key, value));
        Ok([q?, k?, v?])
    }
}

impl Latent {
    fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::QueryDown => self.down_of_queries(|down| decoded(&down.weight)),
            Slot::QueryDownBias => self.down_of_queries(|down| row_if(&down.bias)),
            Slot::QueryLatentNorm => of_norm(self.query_norm.as_ref()),
            Slot::Query if self.query_down.is_none() => decoded(&self.query.weight),
            Slot::QueryUp if self.query_down.is_some() => decoded(&self.query.weight),
            Slot::LatentDown => decoded(&self.down.weight),
            Slot::LatentDownBias => row_if(&self.down.bias),
            Slot::LatentNorm => row(&self.norm.gamma),
            Slot::LatentUp => decoded(&self.up.weight),
            _ => Ok(None),
        }
    }

    fn down_of_queries(&self, held: impl FnOnce(&Linear) -> Held) -> Held {
        self.query_down.as_ref().map_or(Ok(None), held)
    }

    fn load(epsilon: f64, from: &mut Of<'_>) -> Result<Self, Error> {
        Ok(Self {
            query_down: from.biased_if(Slot::QueryDown, Slot::QueryDownBias)?,
            query_norm: from.norm_if(Slot::QueryLatentNorm, epsilon)?,
            query: match from.linear_if(Slot::QueryUp)? {
                Some(query) => query,
                None => from.linear(Slot::Query)?,
            },
            down: from.biased(Slot::LatentDown, Slot::LatentDownBias)?,
            norm: from.norm(Slot::LatentNorm, epsilon)?,
            up: from.linear(Slot::LatentUp)?,
        })
    }

    fn forward(
        &self,
        x: Tensor<2>,
        [b, s]: [usize; 2],
        spec: &AttentionSpec,
        angles: &Angles,
    ) -> Result<Heads, Error> {
        let Projection::Latent { rank, rotated, .. } = spec.projection else {
            unreachable!("the layer was made of the description");
        };
        let (heads, still) = (spec.heads, spec.head_dim - rotated);
        let turn = |x, at| angles.turn(x, spec.rope.as_ref(), at);
        let narrow = match (&self.query_down, &self.query_norm) {
            (Some(down), Some(norm)) => nn::rms_norm(norm, down.forward(x.clone())?),
            _ => x.clone(),
        };
        let q = self.query.forward(narrow)?;
        let q = turn(q.reshape([b, s, heads, spec.head_dim]), still);
        let down = self.down.forward(x)?;
        let turned = down.clone().narrow(1, rank, rotated);
        let turned = turn(turned.reshape([b, s, 1, rotated]), 0);
        // Products can't read a strided view, and the norm makes a tensor of its own.
        let narrow = nn::rms_norm(&self.norm, down.narrow(1, 0, rank));
        let up = self.up.forward(narrow)?;
        let up = up.reshape([b, s, heads, still + spec.value_dim]);
        let v = up.clone().narrow(3, still, spec.value_dim);
        let turned = turned.expand([b, s, heads, rotated]);
        let k = Tensor::cat(vec![up.narrow(3, 0, still), turned], 3);
        Ok([q, k, v])
    }
}
