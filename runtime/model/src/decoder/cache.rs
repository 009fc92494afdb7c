//! The keys and values of all layers, from step to step.

use burn::tensor::{Device, Tensor};
use moebius::attention::{Attend, CacheFormat, KvCache, Pages, Span, Step};

use super::spec::{AttentionSpec, ModelSpec};
use crate::error::Error;

/// What a head in a cache is a multiple of.
const LANES: usize = 8;

/// The keys and values of every layer of a model, for some sequences that share pages.
#[derive(Clone, Debug)]
pub struct Cache {
    pages: Pages,
    layers: Vec<KvCache>,
    device: Device,
}

/// The cache of one layer in one step.
pub(super) struct LayerCache<'a> {
    pub(super) cache: &'a mut KvCache,
    pub(super) step: &'a Step,
}

/// A width as caches keep it: zeros behind an element change no product.
fn padded(width: usize) -> usize {
    width.next_multiple_of(LANES)
}

impl Cache {
    /// An empty one for `pages`, which says how many sequences there are, and how long they get.
    ///
    /// # Errors
    /// [`Error::Moebius`] as [`KvCache::new`].
    pub fn new(
        spec: &ModelSpec,
        pages: Pages,
        format: CacheFormat,
        device: &Device,
    ) -> Result<Self, Error> {
        let of = |attention: &AttentionSpec| {
            let dims = [attention.head_dim, attention.value_dim].map(padded);
            KvCache::new(&pages, attention.kv_heads, dims, format, device)
        };
        let layers = spec.layers.iter().map(|layer| of(&layer.attention));
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
            device: device.clone(),
            pages,
        })
    }

    /// Which pages hold what: to forget a sequence, or to cut it.
    pub fn pages(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// Tokens of each sequence.
    pub fn lengths(&self) -> &[usize] {
        self.pages.lengths()
    }

    /// Bytes of all layers.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(KvCache::bytes).sum()
    }

    pub(super) fn sequences(&self) -> usize {
        self.pages.lengths().len()
    }

    /// New tokens in pages that are kept elsewhere.
    pub(super) fn step_of(&self, sequences: &[Span<'_>]) -> Result<Step, Error> {
        Ok(self.pages.step_of(sequences, &self.device)?)
    }

    /// Room for so many new tokens of each sequence.
    pub(super) fn extend(&mut self, tokens: &[usize]) -> Result<Step, Error> {
        Ok(self.pages.extend(tokens, &self.device)?)
    }

    pub(super) fn layer<'a>(&'a mut self, layer: usize, step: &'a Step) -> LayerCache<'a> {
        let cache = &mut self.layers[layer];
        LayerCache { cache, step }
    }
}

impl LayerCache<'_> {
    /// o \[B, heads, S, Dv\] of queries over all tokens so far, after the new ones are kept.
    pub(super) fn attend(
        &mut self,
        [q, k, v]: [Tensor<4>; 3],
        attend: &Attend,
    ) -> Result<Tensor<4>, Error> {
        let [b, heads, s, width] = v.dims();
        let [_, queries, ..] = q.dims();
        debug_assert!(queries.is_multiple_of(heads));
        let [q, k, v] = [q, k, v].map(wide);
        self.cache.append(k, v, self.step)?;
        let found = self.cache.attend(q, self.step, attend)?.o;
        Ok(if padded(width) == width {
            found
        } else {
            found.slice([0..b, 0..queries, 0..s, 0..width])
        })
    }
}

/// Heads as wide as caches keep them.
fn wide(heads: Tensor<4>) -> Tensor<4> {
    let [b, n, s, width] = heads.dims();
    let missing = padded(width) - width;
    if missing == 0 {
        return heads;
    }
    let zeros = Tensor::zeros([b, n, s, missing], (&heads.device(), heads.dtype()));
    Tensor::cat(vec![heads, zeros], 3)
}
