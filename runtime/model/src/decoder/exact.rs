//! Forward passes with the same bits on every device, by the operations of [`moebius::exact`]. What a layer does is in `attention.rs` and
//! `block.rs`; here are the same steps in other operations, over a cache in any case.

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Tensor};
use moebius::blocks::BlockTensor;
use moebius::exact::{self, Function};
use moebius::fp8::{Precision, Weight};
use moebius::moe::Routing;
use moebius::nn::Linear;
use moebius_weights::Unfit;

use super::Model;
use super::attention::{Attention, Direct, Projections};
use super::block::{Block, FeedForward, LayerGiven};
use super::cache::{AttentionCache, LayerCache};
use super::rope::{Angles, Places};
use super::spec::{AttentionSpec, HeadNorm, Projection};
use crate::error::Error;

impl Model {
    /// This model, whose forward passes and steps have the same bits on every device: on Flex, CubeCL's processors, and GPUs. A whole sequence
    /// is computed as a step over an empty cache in f32, so that both have the same bits, too. It takes longer, and there are no gradients.
    /// Weights in blocks of codes stay such; each product decodes its own to f32 first, a part after the other.
    ///
    /// Cosines and sines of rotary positions are the system's of this machine, in f64 and rounded to f32.
    ///
    /// # Errors
    /// [`Error::Config`] for weights that are neither f32 nor blocks of codes for an x in f32, experts in host memory, latent attention,
    /// convolutions and temperatures of queries, and [`Error::Moebius`] for what
    /// [`MoeLayer::check_exact`](moebius::moe::MoeLayer::check_exact) refuses; the error names the first. Passes refuse devices that record
    /// gradients, XLA, and caches in another format. Builds for the browser refuse every model, because a page would load what it never uses.
    pub fn with_exact(self) -> Result<Self, Error> {
        let what = "an exact model";
        Error::check(
            !cfg!(target_family = "wasm"),
            what,
            "a build for the system",
            "one for the browser",
        )?;
        let embedding = self.embedding_blocks.as_ref().map(BlockTensor::dtype);
        check_dtype(
            "embedding",
            embedding.unwrap_or_else(|| self.embedding.val().dtype()),
        )?;
        let head = self.head.as_ref().map(|head| head.val().dtype());
        let head = head.or(self.head_blocks.as_ref().map(BlockTensor::dtype));
        head.map_or(Ok(()), |dtype| check_dtype("head", dtype))?;
        for (number, block) in self.blocks.iter().enumerate() {
            block.check_exact(number)?;
        }
        Ok(Self {
            exact: true,
            ..self
        })
    }

    /// Whether passes have the same bits on every device ([`Model::with_exact`]).
    pub fn is_exact(&self) -> bool {
        // What only exact models run isn't compiled for the browser.
        cfg!(not(target_family = "wasm")) && self.exact
    }

    /// Embeddings x \[B · S, H\] of the tokens' rows of the embedding, with learned positions.
    pub(super) fn placed_exactly(
        &self,
        rows: Tensor<2>,
        places: &Places,
    ) -> Result<Tensor<2>, Error> {
        let x = scaled(rows, self.spec.embedding_scale)?;
        let Some(learned) = self.learned(places)? else {
            return Ok(x);
        };
        let ([rows, width], length) = (x.dims(), places.tokens);
        let learned = learned.expand([rows / length, length, width]);
        let learned = learned.reshape([rows, width]);
        Ok(exact::combine(x, None, Some(learned), 1.0)?)
    }

    /// Logits \[T, V\] of x \[T, H\] after the last layer.
    pub(super) fn logits_exactly(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let logits = self.of_vocabulary_exactly(exact::rms_norm(&self.norm, x)?)?;
        let logits = scaled(logits, self.spec.logits_scale)?;
        let Some(cap) = self.spec.logits_softcap else {
            return Ok(logits);
        };
        let bent = exact::map(Function::Tanh, scaled(logits, 1.0 / cap)?)?;
        scaled(bent, cap)
    }
}

/// x times a factor.
fn scaled(x: Tensor<2>, factor: f64) -> Result<Tensor<2>, Error> {
    if factor == 1.0 {
        return Ok(x);
    }
    Ok(exact::combine(x, None, None, factor as f32)?)
}

fn refused(what: String, expected: &str, got: &str) -> Error {
    Error::Config(Unfit::new(what, expected, got))
}

fn check_dtype(what: &'static str, dtype: DType) -> Result<(), Error> {
    let got = format!("{dtype:?}");
    let right = dtype == DType::F32;
    Error::check(right, what, "f32 for an exact model", got)
}

impl Block {
    /// Checks that the layer, of this number, has a forward with the same bits on every device.
    fn check_exact(&self, number: usize) -> Result<(), Error> {
        let Some(attention) = &self.attention else {
            let what = format!("layer {number} of an exact model");
            return Err(refused(what, "attention", "a convolution"));
        };
        attention.check_exact(number)?;
        match &self.feed_forward {
            FeedForward::Dense(block) => Ok(block.check_exact()?),
            FeedForward::Experts(layer) => Ok(layer.check_exact()?),
            FeedForward::Switched(_) => {
                let what = format!("experts of layer {number} of an exact model");
                Err(refused(what, "on their device", "in host memory"))
            }
        }
    }

    /// Does what [`Block::forward`] does with the same bits on every device.
    pub(super) fn forward_exactly(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
        given: LayerGiven<'_>,
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        let LayerGiven {
            cache,
            along,
            states,
            ..
        } = given;
        let own = along.is_none();
        Error::check(own, "routes of an exact model", "its own", "given ones")?;
        let (Some(attention), Some(LayerCache::Attention(cache))) = (&self.attention, cache) else {
            unreachable!("whole sequences get a cache, and convolutions were refused");
        };
        let added = |x: Tensor<2>, y: Tensor<2>| {
            let sum = exact::combine(y, None, Some(x), self.residual as f32)?;
            Ok::<_, Error>(sum)
        };
        let mixer = |before| attention.forward_exactly(before, places, angles, cache);
        let network = |before, _: &Tensor<2>| match &self.feed_forward {
            FeedForward::Dense(block) => Ok::<_, Error>((block.forward_exactly(before)?, None)),
            FeedForward::Experts(layer) => {
                let out = layer.forward_exactly(before)?;
                Ok((out.y, Some(out.routing)))
            }
            FeedForward::Switched(_) => unreachable!("experts in host memory were refused"),
        };
        self.computed(x, states, (normed::<2>, added), (mixer, network))
    }
}

/// x \[.., width\] after the norm, if there is one.
fn normed<const D: usize>(norm: Option<&RmsNorm>, x: Tensor<D>) -> Result<Tensor<D>, Error> {
    Ok(match norm {
        Some(norm) => exact::rms_norm(norm, x)?,
        None => x,
    })
}

fn linear(layer: &Linear, x: Tensor<2>) -> Result<Tensor<2>, Error> {
    let bias = layer.bias.as_ref().map(Param::val);
    Ok(match layer.weight.blocks() {
        Some(blocks) => exact::linear_in_blocks(x, blocks, bias)?,
        None => exact::linear(x, layer.weight.values()?, bias)?,
    })
}

impl Attention {
    fn check_exact(&self, number: usize) -> Result<(), Error> {
        let what = |part: &str| format!("{part} of layer {number} of an exact model");
        let Projections::Direct(direct) = &self.projection else {
            return Err(refused(what("attention"), "separate projections", "latent"));
        };
        if self.spec.temperature.is_some() {
            let (expected, got) = ("no factor of positions", "a temperature");
            return Err(refused(what("queries"), expected, got));
        }
        let layers = [&direct.query, &direct.key, &direct.value, &self.out];
        let right = |weight: &Weight<2>| {
            let right = match weight.precision() {
                Precision::Float => true,
                Precision::Blocks => weight.changes().is_empty(),
                _ => false,
            };
            right && weight.dtype() == DType::F32
        };
        if !layers.iter().all(|layer| right(&layer.weight)) {
            let (expected, got) = ("f32 or blocks of codes", "another precision");
            return Err(refused(what("projections"), expected, got));
        }
        Ok(())
    }

    fn forward_exactly(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
        mut cache: AttentionCache<'_>,
    ) -> Result<Tensor<2>, Error> {
        let (spec, sequences) = (&self.spec, [places.first.len(), places.tokens]);
        let Projections::Direct(direct) = &self.projection else {
            unreachable!("latent attention was refused");
        };
        let [q, k, v] = direct.forward_exactly(x, sequences, spec, angles)?;
        let unit = self.unit_norm(&q);
        let [q, k] = [normed(unit.as_ref(), q)?, normed(unit.as_ref(), k)?];
        let heads = [q, k, v].map(|heads| heads.swap_dims(1, 2));
        let found = cache.attend_exactly(heads, &self.attend(1.0))?;
        let rows = sequences[0] * sequences[1];
        let width = spec.heads * spec.value_dim;
        let joined = found.swap_dims(1, 2).reshape([rows, width]);
        linear(&self.out, joined)
    }
}

impl Direct {
    /// Queries, keys and values \[B, S, heads, D or Dv\] of x \[B · S, H\].
    fn forward_exactly(
        &self,
        x: Tensor<2>,
        [b, s]: [usize; 2],
        spec: &AttentionSpec,
        angles: &Angles,
    ) -> Result<[Tensor<4>; 3], Error> {
        let Projection::Direct { norm, clip, .. } = spec.projection else {
            unreachable!("the layer was made of the description");
        };
        let at = |own: HeadNorm, over: &Option<RmsNorm>| {
            let there = over.as_ref().filter(|_| norm == own);
            there.cloned()
        };
        let project = |layer: &Linear, over: &Option<RmsNorm>, heads, width| {
            let rows = normed(at(HeadNorm::All, over).as_ref(), linear(layer, x.clone())?)?;
            let rows = match clip {
                Some(clip) => rows.clamp(-clip, clip),
                None => rows,
            };
            let heads: Tensor<4> = rows.reshape([b, s, heads, width]);
            normed(at(HeadNorm::Head, over).as_ref(), heads)
        };
        let turn = |heads: Tensor<4>, over: &Option<RmsNorm>| {
            let turned = angles.turn_exactly(heads, spec.rope.as_ref())?;
            normed(at(HeadNorm::Turned, over).as_ref(), turned)
        };
        let (q_norm, k_norm) = (&self.query_norm, &self.key_norm);
        let q = project(&self.query, q_norm, spec.heads, spec.head_dim)?;
        let k = project(&self.key, k_norm, spec.kv_heads, spec.head_dim)?;
        let v = project(&self.value, &None, spec.kv_heads, spec.value_dim)?;
        Ok([turn(q, q_norm)?, turn(k, k_norm)?, v])
    }
}
