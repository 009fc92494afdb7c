//! A layer whose experts don't all fit on the device: they are kept on the host, in its memory or in files, and those that a batch needs
//! are moved to a fixed number of places on the device.
//!
//! A forward routes the batch, reads which experts were chosen (the one wait for the device), replaces the least recently used experts, and
//! computes. A batch that needs more experts than there are places is computed in waves. The output of every slot is kept separately until
//! all waves are done, and only then summed in slot order, so that y has the same bits as from [`MoeLayer`] with the same
//! weights, however many places there are; on XLA, which chooses by the whole program where it rounds, y agrees to 1e-5. This takes the
//! memory of 3 · S · H elements in addition to the places.
//!
//! Experts in files are read by an [`ExpertSource`] when a batch needs them, each time that they get a place. It hears which ones are about to
//! be read, so that the system can fetch several at once, and by [`SwitchedExperts::expect`] which ones a later batch is likely to need.
//!
//! Experts in FP8 stay codes and scales, and experts in blocks stay blocks, on the host and on the device, and an expert takes their bytes alone.
//! In f32 y has the bits of the resident layer; in f16 and bf16 each slot's output is rounded before the sum, not only the sum.

mod cache;
mod residents;
mod source;
mod weights;

pub use cache::{CacheStatistics, ExpertCache};
pub use source::ExpertSource;
pub use weights::{HostBlocks, HostCodes, HostWeight};

use super::check::Like;
use super::chosen::ChosenExperts;
use super::config::MoeConfig;
use super::dispatch::RouteStage;
use super::experts::feed_forward::{FeedForwardExperts, SharedExpert};
use super::experts::{ExpertKind, Experts};
use super::factors::CapacityFactors;
use super::layer::{MoeLayer, MoeOutput, check_around};
use super::losses::LoadStatistics;
use super::route::check_mask;
use super::routers::Router;
use crate::Error;
use crate::check::{check_same, shaped};
use crate::ops::{self, Assignment, CapacityRule, Run, routing};
use burn::module::Param;
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::grouped_gemm::Variant;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;
use weights::{CodedProducts, part};

/// A mixture-of-experts layer for inference with experts that are moved to the device when a token
/// needs them; see the [module](self).
#[derive(Debug)]
pub struct SwitchedExperts {
    layer: HostLayer,
    cache: ExpertCache,
    variant: Option<Variant>,
}

impl SwitchedExperts {
    /// A copy whose experts run with this kernel variant; see [`MoeLayer::with_variant`](super::MoeLayer::with_variant).
    pub fn with_variant(mut self, variant: Option<Variant>) -> Self {
        self.variant = variant;
        self
    }

    /// The configuration of the layer.
    pub fn config(&self) -> &MoeConfig {
        &self.layer.config
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.layer.router
    }

    /// The capacity factors, if they change; when serving, pass the load to their scheduler here.
    pub fn factors(&self) -> Option<&CapacityFactors> {
        self.layer.factors.as_ref()
    }

    /// The experts on the device, and statistics of their moves.
    pub fn cache(&self) -> &ExpertCache {
        &self.cache
    }

    /// Does what [`MoeLayer::forward`](super::MoeLayer::forward) does for x \[.., H\], but waits for the device once, to read which experts
    /// were chosen.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`](super::MoeLayer::forward), and
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn forward<const D: usize>(&mut self, x: Tensor<D>) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, None, None)
    }

    /// Does what [`SwitchedExperts::forward`] does with only the experts for which `expert_mask` \[E\] is true.
    ///
    /// # Errors
    /// As [`SwitchedExperts::forward`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a
    /// mask of another length, [`ErrorKind::Device`](crate::ErrorKind::Device) for one on another device.
    pub fn forward_masked<const D: usize>(
        &mut self,
        x: Tensor<D>,
        expert_mask: Tensor<1, Bool>,
    ) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, Some(expert_mask), None)
    }

    /// Does what [`MoeLayer::forward_along`](super::MoeLayer::forward_along) does.
    ///
    /// # Errors
    /// As [`SwitchedExperts::forward`] and [`MoeLayer::forward_along`](super::MoeLayer::forward_along).
    pub fn forward_along<const D: usize>(
        &mut self,
        x: Tensor<D>,
        chosen: &ChosenExperts,
    ) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, None, Some(chosen))
    }

    /// Does what [`SwitchedExperts::forward`] does, or [`SwitchedExperts::forward_along`] if experts are `chosen`, and calls `then` as soon as
    /// no expert of this layer is to be read any more: what it asks the files for comes while this layer computes.
    ///
    /// # Errors
    /// As [`SwitchedExperts::forward_along`], and those of `then`.
    pub fn forward_then<const D: usize>(
        &mut self,
        x: Tensor<D>,
        chosen: Option<&ChosenExperts>,
        then: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<MoeOutput<D>, Error> {
        self.run(x, (None, chosen), then)
    }

    /// Whether experts are read by an [`ExpertSource`] when tokens need them.
    pub fn is_in_files(&self) -> bool {
        self.cache.source().is_some()
    }

    /// Tells the source of experts in files which of those that x \[T,H\] would be routed to are not on the device, those of most tokens first
    /// and at most `most` of them; waits for the device once. x need not be what a forward gets later: what is wrongly expected costs the
    /// files' time and changes no result. Nothing is computed for experts in host memory.
    ///
    /// # Errors
    /// As [`Router::forward`], and [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn expect(&self, x: Tensor<2>, most: usize) -> Result<(), Error> {
        let Some(source) = self.cache.source() else {
            return Ok(());
        };
        let load = self.layer.router.forward(x, None)?.load()?;
        let counts = LoadStatistics::read(load)?.counts;
        let residents = &self.cache.residents;
        let mut likely: Vec<usize> = (0..counts.len())
            .filter(|&expert| counts[expert] > 0 && residents.place_of(expert).is_none())
            .collect();
        likely.sort_by_key(|&expert| Reverse(counts[expert]));
        likely.truncate(most);
        source.expect(&likely);
        Ok(())
    }

    fn forward_where<const D: usize>(
        &mut self,
        x: Tensor<D>,
        mask: Option<Tensor<1, Bool>>,
        chosen: Option<&ChosenExperts>,
    ) -> Result<MoeOutput<D>, Error> {
        self.run(x, (mask, chosen), &mut || Ok(()))
    }

    fn run<const D: usize>(
        &mut self,
        x: Tensor<D>,
        (mask, chosen): (Option<Tensor<1, Bool>>, Option<&ChosenExperts>),
        then: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<MoeOutput<D>, Error> {
        let (shape, hidden) = (x.dims(), self.layer.config.hidden);
        let like = self.cache.like();
        like.check_input(&x, hidden)?;
        let device = like.device;
        check_mask(mask.as_ref(), self.layer.config.experts, &device)?;
        let tokens = shape.iter().product::<usize>() / hidden;
        let router = &self.layer.router;
        chosen.map_or(Ok(()), |chosen| router.check_chosen(chosen, tokens))?;
        if tokens == 0 {
            return Ok(MoeOutput {
                y: x,
                routing: self.layer.router.empty(&device),
                dropped_slots: Tensor::zeros([1], &device),
            });
        }
        let x = shaped(x, [tokens, hidden]);
        let stage = RouteStage {
            router: &self.layer.router,
            factors: self.layer.factors.as_ref(),
            config: &self.layer.config,
            variant: self.variant,
            counts: None,
        };
        let along = chosen.map(|chosen| chosen.on(&device));
        let dispatched = stage.run(&x, mask, along, None)?;
        let routing = dispatched.routing;
        // Slots that the capacity dropped need no expert: they are set to E.
        let experts = self.layer.config.experts as i64;
        let nowhere = dispatched.assignment.positions().lower_elem(0);
        let chosen = routing.indices.clone().mask_fill(nowhere.clone(), experts);
        let slots = self.slot_outputs(&x, chosen, then)?;
        let weights = routing.weights.clone().mask_fill(nowhere, 0.0);
        let y = combined(slots, weights, self.variant)?;
        let shared = self.layer.shared.as_ref().map(|shared| (shared, x));
        let y = SharedExpert::beside(shared, y, &self.layer.config, self.variant)?;
        Ok(MoeOutput {
            y: shaped(y, shape),
            routing,
            dropped_slots: dispatched.dropped,
        })
    }

    /// Computes the outputs \[S,H\] of all slots of `chosen` \[T,K\]; 0 for slots without an expert. Calls `then` once all experts have been
    /// moved to the device.
    fn slot_outputs(
        &mut self,
        x: &Tensor<2>,
        chosen: Tensor<2, Int>,
        then: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Tensor<2>, Error> {
        let MoeConfig {
            hidden, experts, ..
        } = self.layer.config;
        let [tokens, top_k] = chosen.dims();
        let count = tokens * top_k;
        let load = routing::load(chosen.clone(), experts, 1)?;
        let load = LoadStatistics::read(load.reshape([experts]))?;
        let used = load.counts.iter().enumerate();
        let used: Vec<usize> = used.filter(|(_, n)| **n > 0).map(|(e, _)| e).collect();
        // Every slot counts as a token of its own, so that its output stays separate.
        let rows = x.clone().unsqueeze_dim::<3>(1);
        let rows = rows
            .expand([tokens, top_k, hidden])
            .reshape([count, hidden]);
        let chosen = chosen.reshape([count]);
        let mut sum: Option<Tensor<2>> = None;
        let waves = self.cache.residents.waves(&used);
        let last = waves.len().saturating_sub(1);
        for (number, wave) in waves.into_iter().enumerate() {
            self.cache.bring(&wave, &self.layer.experts)?;
            if number == last {
                then()?;
            }
            let places = self.cache.places_of(&wave, experts);
            let places = Tensor::<1, Int>::from_data(TensorData::from(&places[..]), &x.device());
            let places = places.select(0, chosen.clone()).reshape([count, 1]);
            let out = self.wave(rows.clone(), places)?;
            // A slot is in one wave only, and adding 0 doesn't change its output.
            sum = Some(match sum {
                Some(sum) => sum + out,
                None => out,
            });
        }
        Ok(sum.unwrap_or_else(|| rows.zeros_like()))
    }

    /// Computes the outputs of the slots whose expert has a place; 0 for the others.
    fn wave(&self, rows: Tensor<2>, places: Tensor<2, Int>) -> Result<Tensor<2>, Error> {
        let options = (&rows.device(), DType::F32);
        let ones = Tensor::<2>::ones(places.dims(), options);
        let rule = CapacityRule::default();
        let (count, experts) = (self.cache.places(), self.cache.experts()?);
        let routing = moebius_ops::routing::Problem::new(places.dims()[0], count, 1)?;
        let problem = self.layer.config.fused(routing, rows.dtype())?;
        let variant = self.variant.or(experts.needed());
        let variant = ops::experts::variant(variant, &problem, &rows.device())?;
        let assignment = Assignment::new(places, ones.clone(), count, rule, variant)?;
        let config = &self.layer.config;
        experts.forward(&assignment, [rows, ones], config, Run::default())
    }
}

/// Computes the weighted sums \[T,H\] of the slots \[S,H\] of every token, as the layer does.
fn combined(
    slots: Tensor<2>,
    weights: Tensor<2>,
    variant: Option<Variant>,
) -> Result<Tensor<2>, Error> {
    // All slots go to expert 0, so that sorted slots keep their order. The number of experts is K only because a token can't choose more
    // experts than there are.
    let [tokens, top_k] = weights.dims();
    let first = Tensor::<2, Int>::zeros([tokens, top_k], &slots.device());
    let rule = CapacityRule::default();
    let assignment = Assignment::new(first, weights.clone(), top_k, rule, variant)?;
    assignment.combine(slots, Some(weights))
}

/// The weights of one feed-forward expert.
#[derive(Clone, Debug, PartialEq)]
pub struct HostExpert {
    /// The first weight, \[F,H\], or \[2F,H\] if gated: gate rows, then up rows.
    pub w_in: HostWeight,
    /// The first bias, \[F\] or \[2F\].
    pub b_in: Option<TensorData>,
    /// The second weight, \[H,F\].
    pub w_out: HostWeight,
    /// The second bias, \[H\].
    pub b_out: Option<TensorData>,
}

impl HostExpert {
    /// Bytes of weights and biases.
    pub fn bytes(&self) -> u64 {
        let biases = [&self.b_in, &self.b_out].into_iter().flatten();
        let biases: u64 = biases.map(|bias| bias.bytes().len() as u64).sum();
        self.w_in.bytes() + self.w_out.bytes() + biases
    }
}

/// A layer with its experts in host memory or in files; everything else stays on its device.
#[derive(Clone, Debug)]
pub struct HostLayer {
    /// The configuration of the layer.
    pub config: MoeConfig,
    /// The router, which chooses the experts of each token.
    pub router: Router,
    /// The expert that every token goes through.
    pub shared: Option<SharedExpert>,
    /// The capacity factors, if they change.
    pub factors: Option<CapacityFactors>,
    /// The E experts; none where a source reads them.
    pub experts: Vec<HostExpert>,
    /// Where experts are read from that aren't in host memory.
    source: Option<Arc<dyn ExpertSource>>,
    /// How products use the FP8 codes of the two weights; without meaning for other weights.
    products: Option<[CodedProducts; 2]>,
}

impl HostLayer {
    /// Reads a layer's experts; waits for the device, and frees the experts there if this was the last copy of the layer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward, that train in FP8, of which only one
    /// weight is FP8 codes, or whose activations are measured while they run,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(layer: MoeLayer) -> Result<Self, Error> {
        layer.check()?;
        let config = *layer.config();
        let Experts::FeedForward(stack) = layer.experts else {
            return Err(not_feed_forward(&config).into());
        };
        let products = products(&stack, &config)?;
        let FeedForwardExperts { w_in, w_out, .. } = &stack;
        let biases = [&stack.b_in, &stack.b_out];
        let [b_in, b_out] = biases.map(|bias| bias.as_ref().map(Param::val));
        let one = |e: usize| -> Result<HostExpert, Error> {
            Ok(HostExpert {
                w_in: HostWeight::read(w_in, e)?,
                b_in: b_in.as_ref().map(|b| part(b, e)).transpose()?,
                w_out: HostWeight::read(w_out, e)?,
                b_out: b_out.as_ref().map(|b| part(b, e)).transpose()?,
            })
        };
        let experts: Result<Vec<_>, Error> = (0..config.experts).map(one).collect();
        Ok(Self {
            config,
            router: layer.router,
            shared: layer.shared,
            factors: layer.factors,
            experts: experts?,
            source: None,
            products,
        })
    }

    /// A layer whose experts `source` reads when tokens need them. Of `layer` everything but its experts is taken; they may be lazy parameters
    /// that were never drawn. Activations before FP8 codes aren't rounded.
    pub fn in_files(layer: MoeLayer, source: Arc<dyn ExpertSource>, device: &Device) -> Self {
        Self {
            config: *layer.config(),
            router: layer.router,
            shared: layer.shared,
            factors: layer.factors,
            experts: Vec::new(),
            source: Some(source),
            products: Some([(); 2].map(|()| CodedProducts::plain(device))),
        }
    }

    /// An expert like all others: the first one, or one of zeros where a source reads them.
    fn one(&self) -> Result<Cow<'_, HostExpert>, Error> {
        match (&self.source, self.experts.first()) {
            (Some(source), _) => Ok(Cow::Owned(source.blank()?)),
            (None, Some(first)) => Ok(Cow::Borrowed(first)),
            (None, None) => Err(Mismatch::new("host experts", "at least 1", 0).into()),
        }
    }

    /// Puts the layer on `device`, with the router, the shared expert, and at most `budget_bytes` of experts: ⌊budget / bytes of an expert⌋
    /// − 1 places (one expert's memory is for the expert being moved), at most E. The router and a shared expert don't count.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of other shapes or dtypes
    /// than the configuration's, [`ErrorKind::Device`](crate::ErrorKind::Device) for several devices or one that records gradients,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a budget of less than two experts: one in place and one on its way, and
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for places in blocks that exceed a buffer of the device.
    pub fn switched(self, budget_bytes: u64, device: &Device) -> Result<SwitchedExperts, Error> {
        let expected = "one that doesn't record gradients";
        let got = format_args!("{device:?}");
        let what = "device of switched experts";
        Fault::Device.unless(!device.is_autodiff(), what, expected, got)?;
        let one = self.one()?;
        let like = Like::new(self.check(&one)?, device.clone())?;
        let (shared, factors) = (self.shared.as_ref(), self.factors.as_ref());
        check_around((&self.router, shared, factors), &self.config, &like)?;
        let cache = ExpertCache::new(&self, &one, like, budget_bytes)?;
        drop(one);
        Ok(SwitchedExperts {
            layer: self,
            cache,
            variant: None,
        })
    }

    /// Checks that all experts are like `first`, and that this one fits the configuration; returns the dtype that they share. Those of a source
    /// are checked when they are read.
    fn check(&self, first: &HostExpert) -> Result<DType, Mismatch> {
        let config = &self.config;
        if config.kind != ExpertKind::FeedForward || config.fp8.is_some() {
            return Err(not_feed_forward(config));
        }
        let what = "weights of switched experts";
        let (expected, got) = ("on the experts' output", "on their input");
        Fault::Unsupported.unless(!config.weighted_input, what, expected, got)?;
        let experts = match &self.source {
            Some(_) => std::slice::from_ref(first),
            None => &self.experts[..],
        };
        if self.source.is_none() {
            Mismatch::check("host experts", config.experts, experts.len())?;
        }
        let (h, f, columns) = (config.hidden, config.inter, config.columns_in());
        let own = [&first.w_in, &first.w_out].map(|weight| weight.kind().dtype());
        let dtype = match (own, &self.products) {
            ([Some(dtype), Some(other)], _) => {
                check_same("dtype of host experts", other, dtype)?;
                dtype
            }
            ([None, None], Some([products, _])) => products.dtype,
            _ => return Err(not_feed_forward(config)),
        };
        for expert in experts {
            for (what, weight, like, shape) in [
                ("w_in [F or 2F, H]", &expert.w_in, &first.w_in, [columns, h]),
                ("w_out [H,F]", &expert.w_out, &first.w_out, [h, f]),
            ] {
                check_same(what, weight.shape(), shape.to_vec())?;
                check_same(what, weight.kind(), like.kind())?;
            }
            for (what, bias, shape) in
                [("b_in", &expert.b_in, columns), ("b_out", &expert.b_out, h)]
            {
                check_same(what, bias.is_some(), config.bias)?;
                if let Some(bias) = bias {
                    check_same(what, bias.shape().to_vec(), vec![shape])?;
                    check_same(what, bias.dtype(), dtype)?;
                }
            }
        }
        Ok(dtype)
    }
}

/// How products use the FP8 codes of both weights of experts; `None` for weights in floating point and in blocks.
fn products(
    stack: &FeedForwardExperts,
    config: &MoeConfig,
) -> Result<Option<[CodedProducts; 2]>, Mismatch> {
    let of = [&stack.w_in, &stack.w_out].map(CodedProducts::of);
    match of {
        [Ok(None), Ok(None)] if stack.has_values_or_blocks() => Ok(None),
        [Ok(Some(w_in)), Ok(Some(w_out))] => Ok(Some([w_in, w_out])),
        [Err(error), _] | [_, Err(error)] => Err(error),
        _ => Err(not_feed_forward(config)),
    }
}

fn not_feed_forward(config: &MoeConfig) -> Mismatch {
    let got = match config.fp8 {
        Some(_) => format!("{:?} in FP8", config.kind),
        None => format!("{:?}", config.kind),
    };
    Fault::Unsupported.error("switched experts", "feed-forward", got)
}
