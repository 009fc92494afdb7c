//! Keys and values of one layer.

use super::pages::{Pages, Step};
use super::{Attend, Attended, CacheFormat};
use crate::check::{check_device, check_equal, check_same, element};
use crate::{Error, ops};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::Fault;
use moebius_ops::attention::Sizes;
use moebius_ops::kv_cache::{Append, Attend as CachedAttention, Layout};

/// The keys and values of one layer in pages: appended in place, and read by an attention where they lie.
///
/// It is for inference: what comes out has no gradient. Values are kept as f32, f16, bf16, or in FP8 with a scale for each token and head
/// that is a power of two (infinities become the largest finite value there), whatever the device computes in.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::{Attend, CacheFormat, KvCache, Pages};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let random = |heads, tokens| {
///     Tensor::<4>::random([2, heads, tokens, 64], Distribution::Default, &device)
/// };
/// // Two sequences share 100 pages of 16 tokens; either has at most 512 tokens.
/// let mut pages = Pages::paged(2, 100, 512)?;
/// let mut cache = KvCache::new(&pages, 2, [64, 64], CacheFormat::E4m3, &device)?;
/// let attend = Attend::new().causal();
/// // A prompt of 30 tokens and one of 7, and then a token of either.
/// for tokens in [[30, 7], [1, 1]] {
///     let step = pages.extend(&tokens, &device)?;
///     let t = step.tokens();
///     cache.append(random(2, t), random(2, t), &step)?;
///     let out = cache.attend(random(8, t), &step, &attend)?;
///     assert_eq!(out.o.dims(), [2, 8, t, 64]);
/// }
/// assert_eq!(pages.lengths(), [31, 8]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Absent only while tokens are appended.
    pool: Option<Tensor<2, Int>>,
    layout: Layout,
    /// Pages of a sequence at most.
    most: usize,
    device: Device,
}

impl KvCache {
    /// An empty cache of keys of `kv_heads` heads of D elements and values of Dv (multiples of 8, at most 256) on `device`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for other sizes, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a pool of 2³¹ words and more.
    pub fn new(
        pages: &Pages,
        kv_heads: usize,
        dims: [usize; 2],
        format: CacheFormat,
        device: &Device,
    ) -> Result<Self, Error> {
        let layout = Layout::new([pages.pages(), pages.page()], kv_heads, dims, format)?;
        let shape = [layout.pages(), layout.page_words()];
        Ok(Self {
            pool: Some(Tensor::zeros(shape, (device, DType::I32))),
            layout,
            most: pages.most(),
            device: device.clone(),
        })
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// Appends the keys \[B, Hkv, T, D\] and values \[B, Hkv, T, Dv\] of the new tokens of `step`, in place unless a clone of the cache
    /// shares its memory: then that is copied first.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes or dtypes, or a step of other pages, [`ErrorKind::Device`](crate::ErrorKind::Device) for other devices,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device that can't compute it; the cache is as it was.
    pub fn append(&mut self, k: Tensor<4>, v: Tensor<4>, step: &Step) -> Result<(), Error> {
        let l = self.layout;
        let batch = self.check(step, &k)?;
        let shape = |dim| [batch, l.kv_heads(), step.tokens, dim];
        check_same("k [B, Hkv, T, D]", k.dims(), shape(l.head_dim()))?;
        check_same("v [B, Hkv, T, Dv]", v.dims(), shape(l.value_dim()))?;
        check_same("dtype of v", v.dtype(), k.dtype())?;
        check_device("device of v", v.device(), &k.device())?;
        let problem = Append {
            layout: l,
            batch,
            tokens: step.tokens,
            table: self.most,
            element: element(k.dtype())?,
        };
        problem.check()?;
        if batch * step.tokens == 0 {
            return Ok(());
        }
        let places = [step.table.clone(), step.spans.clone()];
        ops::kv_cache::append([k, v], &mut self.pool, places, problem)
    }

    /// o \[B, Hq, Sq, Dv\] and its log-sum-exp of the queries \[B, Hq, Sq, D\] of the new tokens of `step`, over all tokens of their
    /// sequences: query i of a sequence is at the position of its new token i. Queries past the new tokens of a shorter sequence have
    /// o = 0 and lse = `f32::MIN`.
    ///
    /// # Errors
    /// As [`KvCache::append`], and for a dropout, a position, a rule of the program's own, and rules that have a table of pairs (documents,
    /// blocks, masks, biases) or count keys from the first query.
    pub fn attend(&self, q: Tensor<4>, step: &Step, attend: &Attend) -> Result<Attended, Error> {
        let l = self.layout;
        let batch = self.check(step, &q)?;
        let [_, heads, _, _] = q.dims();
        let expected = [batch, heads, step.tokens, l.head_dim()];
        check_same("q [B, Hq, T, D]", q.dims(), expected)?;
        let sizes = Sizes {
            batch,
            heads,
            kv_heads: l.kv_heads(),
            queries: step.tokens,
            keys: self.most * l.page(),
            head_dim: l.head_dim(),
            value_dim: l.value_dim(),
        };
        Fault::Unsupported.unless(!attend.has_rule(), "own rule over a cache", "none", "one")?;
        let (problem, tables) = attend.problem(&sizes, &q)?;
        let problem = CachedAttention::new(problem, l, self.most)?;
        let rows = [batch, heads, step.tokens];
        if rows.contains(&0) {
            let o = [batch, heads, step.tokens, l.value_dim()];
            return Ok(Attended {
                o: Tensor::zeros(o, (&self.device, q.dtype())),
                lse: Tensor::zeros(rows, (&self.device, DType::F32)),
            });
        }
        let pool = self.pool.clone();
        let pool = pool.unwrap_or_else(|| unreachable!("an append puts the pool back"));
        let places = [step.table.clone(), step.spans.clone()];
        let (o, lse) = ops::kv_cache::attend(q, pool, places, tables, problem)?;
        Ok(Attended { o, lse })
    }

    /// The sequences of a step, which must be of this cache's pages and device.
    fn check(&self, step: &Step, rows: &Tensor<4>) -> Result<usize, Error> {
        let own = [self.layout.pages(), self.layout.page()];
        check_same("pages of the step, and tokens of a page", step.pool, own)?;
        let [batch, most] = step.table.dims();
        check_same("pages of a sequence in the step", most, self.most)?;
        let devices = [
            ("device of the step", step.table.device()),
            ("device of new tokens", rows.device()),
        ];
        for (what, device) in devices {
            check_equal(
                Fault::Device,
                what,
                device.inner(),
                self.device.clone().inner(),
            )?;
        }
        Ok(batch)
    }
}
