//! The mixture-of-experts layer as a Burn module.

use super::check::Like;
use super::chosen::ChosenExperts;
use super::config::{ExpertKind, MoeConfig};
use super::dispatch::{Dispatched, RouteStage};
use super::experts::feed_forward::SharedExpert;
use super::experts::{Experts, FeedForwardExperts, Slots};
use super::factors::CapacityFactors;
use super::losses::Losses;
use super::route::{Routing, check_mask};
use super::routers::{Router, Sizes};
use super::running::constant;
use crate::Error;
use crate::check::{check_equal, shaped};
use crate::fp8::Weight;
use crate::ops::routing::router_logits;
use crate::ops::{self, Run, StageClock};
use burn::module::{Module, Param};
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::{Stage, experts};
use std::time::{Duration, Instant};

/// A mixture-of-experts layer, in which every token goes through its `top_k` experts: y_t = Σ_k w_tk · expert(x_t).
///
/// Weights are stacked by expert in the plain \[E, out, in\] layout, so records and checkpoints
/// hold ordinary tensors. Weights, x and y have one dtype (f32, f16 or bf16 where the device
/// stores it); routing and sums are f32. A forward trains on a device that records gradients.
#[derive(Module, Debug)]
pub struct MoeLayer {
    /// The router, which chooses the experts of each token.
    pub router: Router,
    /// The experts.
    pub experts: Experts,
    /// The expert that every token goes through.
    pub shared: Option<SharedExpert>,
    /// The capacity factors, if they change.
    pub factors: Option<CapacityFactors>,
    #[module(skip)]
    config: MoeConfig,
    #[module(skip)]
    variant: Option<Variant>,
}

/// The weights of a layer with feed-forward experts, stacked by expert.
#[derive(Clone, Debug)]
pub struct MoeWeights {
    /// The router's weight, \[E,H\].
    pub router: Tensor<2>,
    /// The first weight of the experts, \[E,F,H\], or \[E,2F,H\] if gated: the gate's rows before the up projection's.
    pub w_in: Tensor<3>,
    /// The first bias, \[E,F\] or \[E,2F\].
    pub b_in: Option<Tensor<2>>,
    /// The second weight, \[E,H,F\].
    pub w_out: Tensor<3>,
    /// The second bias, \[E,H\].
    pub b_out: Option<Tensor<2>>,
}

/// The result of a forward; all tensors stay on the device.
#[derive(Clone, Debug)]
pub struct MoeOutput<const D: usize> {
    /// The output, in the shape of x.
    pub y: Tensor<D>,
    /// The experts that were chosen for every token.
    pub routing: Routing,
    /// The number of slots \[1\] that reached no expert because it was full or none was available; 0 where experts choose tokens.
    pub dropped_slots: Tensor<1, Int>,
}

impl<const D: usize> MoeOutput<D> {
    /// The balance losses of the batch as one group.
    ///
    /// # Errors
    /// As [`Routing::losses`].
    pub fn losses(&self) -> Result<Losses, Error> {
        self.routing.losses(1)
    }
}

impl MoeConfig {
    /// Creates a layer with weights and biases uniform in ±1/√fan_in, like PyTorch's `Linear`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a size of 0, a `top_k` outside 1..=experts, a capacity factor that isn't finite
    /// and positive, another value out of its range, or an option without effect.
    pub fn init(&self, device: &Device) -> Result<MoeLayer, Error> {
        self.check()?;
        let dispatcher = self.dispatcher(device)?;
        let experts = Experts::new(self, device)?;
        let shared = SharedExpert::new(self, device);
        Ok(MoeLayer::new(*self, dispatcher, experts, shared))
    }

    /// Creates a layer with the given weights; a shared expert is initialised as by [`MoeConfig::init`].
    ///
    /// # Errors
    /// As [`MoeConfig::init`]; [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of other shapes than the configuration's or of
    /// several dtypes and for biases that are missing or unexpected, [`ErrorKind::Device`](crate::ErrorKind::Device) for weights on several
    /// devices, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a router that learns more than one matrix, or experts that
    /// aren't feed-forward: set the fields of [`MoeLayer`] for these.
    pub fn with_weights(&self, weights: MoeWeights) -> Result<MoeLayer, Error> {
        self.check()?;
        let right = self.kind == ExpertKind::FeedForward;
        let got = format_args!("{:?}", self.kind);
        Fault::Unsupported.unless(right, "experts with weights", "feed-forward", got)?;
        let (device, dtype) = (weights.router.device(), weights.router.dtype());
        let (router, factors) = self.dispatcher(&device)?;
        let experts = FeedForwardExperts {
            w_in: Weight::from(Param::from_tensor(weights.w_in)).with_parts(self.parts()),
            b_in: weights.b_in.map(Param::from_tensor),
            w_out: Param::from_tensor(weights.w_out).into(),
            b_out: weights.b_out.map(Param::from_tensor),
        };
        let experts = Experts::feed_forward(experts, self)?;
        let router = router.with_matrix(weights.router)?;
        let shared = SharedExpert::new(self, &device).map(|shared| shared.cast(dtype));
        let layer = MoeLayer::new(*self, (router, factors), experts, shared);
        layer.check()?;
        Ok(layer)
    }

    /// Creates the router, and the changing capacity factors of the layer.
    fn dispatcher(&self, device: &Device) -> Result<(Router, Option<CapacityFactors>), Error> {
        let mut router = self.router.init(self.hidden, self.experts, device)?;
        let first = self.capacity.map(|capacity| capacity.factor);
        if let (Router::Dynamic(router), Some(first)) = (&mut router, first) {
            router.factors = constant(first, self.experts, device);
        }
        let factors = self.factors;
        let factors = factors.map(|factors| factors.init(first, self.experts, device));
        Ok((router, factors))
    }
}

impl MoeLayer {
    pub(super) fn new(
        config: MoeConfig,
        (router, factors): (Router, Option<CapacityFactors>),
        experts: Experts,
        shared: Option<SharedExpert>,
    ) -> Self {
        Self {
            router,
            experts,
            shared,
            factors,
            config,
            variant: None,
        }
    }

    /// The configuration of the layer.
    pub fn config(&self) -> &MoeConfig {
        &self.config
    }

    /// A copy whose experts run with this kernel variant, proven or not, on devices with kernels; `None` lets the plan choose among the
    /// proven variants.
    pub fn with_variant(mut self, variant: Option<Variant>) -> Self {
        self.variant = variant;
        self
    }

    /// A copy with weights in another dtype; running state stays f32.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a dtype other than f32, f16 and bf16.
    pub fn cast(self, dtype: DType) -> Result<Self, Error> {
        crate::check::element(dtype)?;
        Ok(Self {
            router: self.router.cast(dtype),
            experts: self.experts.cast(dtype),
            shared: self.shared.map(|shared| shared.cast(dtype)),
            ..self
        })
    }

    /// The current weights; `None` unless the router learns exactly one matrix, and the experts are feed-forward in floating point.
    pub fn weights(&self) -> Option<MoeWeights> {
        let Experts::FeedForward(experts) = &self.experts else {
            return None;
        };
        Some(MoeWeights {
            router: self.router.only_matrix()?,
            w_in: experts.w_in.float().ok()?,
            b_in: experts.b_in.as_ref().map(Param::val),
            w_out: experts.w_out.float().ok()?,
            b_out: experts.b_out.as_ref().map(Param::val),
        })
    }

    /// Whether the forward of the chosen experts is one fused operation.
    pub(super) fn is_fused(&self) -> bool {
        matches!(&self.experts, Experts::FeedForward(experts) if experts.is_float())
    }

    /// Plans how the chosen experts of `tokens` tokens of `dtype` run on `device`; `None` on `flex`.
    ///
    /// # Errors
    /// As [`MoeLayer::problem`], and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
    /// when the device can't run them.
    pub fn plan(
        &self,
        tokens: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<experts::Plan>, Error> {
        let problem = self.problem(tokens, dtype)?;
        ops::experts::plan(problem, self.variant, device)
    }

    /// Describes the computation of the chosen feed-forward experts for `tokens` tokens of `dtype`: sizes, FLOPs, and the bytes that they
    /// must hold. A shared expert isn't counted.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a dtype other than f32, f16 and bf16, or more tokens than 31 bits count,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward in floating point.
    pub fn problem(
        &self,
        tokens: usize,
        dtype: DType,
    ) -> Result<moebius_ops::experts::Problem, Error> {
        let (expected, got) = ("feed-forward ones in floating point", self.experts.name());
        Fault::Unsupported.unless(self.is_fused(), "experts of a problem", expected, got)?;
        Ok(self.config.problem(tokens, dtype)?)
    }

    /// Computes the router logits x · Wgᵀ \[T,E\] in f32 from x \[T,H\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a router without such a matrix, or when the device can't run the
    /// product.
    pub fn router_logits(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        self.check_input(&x)?;
        let name = self.router.config().name();
        let matrix = self.router.matrix();
        let matrix =
            matrix.ok_or_else(|| Fault::Unsupported.error("router", "one with a matrix", name))?;
        router_logits(x, matrix)
    }

    /// Sends every token of x \[.., L, H\] through its experts, in a fixed number of launches, none of which waits for the device.
    ///
    /// Convolutional and attention experts work along sequences of L tokens; an x of two dimensions is a single sequence.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run the layer.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, None, None)
    }

    /// Does what [`MoeLayer::forward`] does with only the experts for which `expert_mask` \[E\] is true; they share the capacity of all
    /// experts.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a mask of
    /// another length, [`ErrorKind::Device`](crate::ErrorKind::Device) for one on another device.
    pub fn forward_masked<const D: usize>(
        &self,
        x: Tensor<D>,
        expert_mask: Tensor<1, Bool>,
    ) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, Some(expert_mask), None)
    }

    /// Does what [`MoeLayer::forward`] does with the experts `chosen` in place of the router's choice. Logits, scores and weights are computed
    /// anew, with gradients (rollout routing replay, Ma et al. 2025): with the experts of an earlier forward, weights and x of that forward
    /// give its bits. Expert dropout drops none of them.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of tokens, choices or experts,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a router that doesn't choose by a token's scores.
    pub fn forward_along<const D: usize>(
        &self,
        x: Tensor<D>,
        chosen: &ChosenExperts,
    ) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, None, Some(chosen))
    }

    /// Does what [`MoeLayer::forward`] does where only the tokens \[T\] count for which `counts` is true: routers and capacity factors follow
    /// their load, and loads and losses of the routing are theirs. The others, such as those that fill a sequence up, go through experts, too.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of tokens,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) for `counts` on another device.
    pub fn forward_counting<const D: usize>(
        &self,
        x: Tensor<D>,
        counts: Tensor<1, Bool>,
    ) -> Result<MoeOutput<D>, Error> {
        self.check_input(&x)?;
        let tokens = x.shape().num_elements() / self.config.hidden;
        let what = "tokens that count or don't [T]";
        Mismatch::check(what, tokens, counts.dims()[0])?;
        let (own, given) = (counts.device().inner(), x.device().inner());
        check_equal(Fault::Device, what, own, given)?;
        let given = Given {
            counts: Some(counts),
            ..Given::default()
        };
        self.forward_given(x, given)
    }

    pub(super) fn forward_where<const D: usize>(
        &self,
        x: Tensor<D>,
        mask: Option<Tensor<1, Bool>>,
        chosen: Option<&ChosenExperts>,
    ) -> Result<MoeOutput<D>, Error> {
        let given = Given {
            mask,
            chosen,
            ..Given::default()
        };
        self.forward_given(x, given)
    }

    fn forward_given<const D: usize>(
        &self,
        x: Tensor<D>,
        given: Given<'_>,
    ) -> Result<MoeOutput<D>, Error> {
        self.check_input(&x)?;
        let Given { mask, chosen, .. } = &given;
        check_mask(mask.as_ref(), self.config.experts, &x.device())?;
        let (shape, hidden) = (x.dims(), self.config.hidden);
        let tokens = shape.iter().product::<usize>() / hidden;
        chosen.map_or(Ok(()), |chosen| self.router.check_chosen(chosen, tokens))?;
        if tokens == 0 {
            return self.empty_output(&x);
        }
        let sequence = if D > 1 { shape[D - 2] } else { 1 };
        let x = shaped(x, [tokens, hidden]);
        let out = self.forward_tokens(x, sequence, given, None)?;
        Ok(MoeOutput {
            y: shaped(out.y, shape),
            routing: out.routing,
            dropped_slots: out.dropped_slots,
        })
    }

    /// Runs [`MoeLayer::forward`] on x \[T,H\], waits for the device after every stage, and returns the time of each stage; only
    /// feed-forward experts have several stages.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`].
    pub fn profile(&self, x: Tensor<2>) -> Result<Vec<(Stage, Duration)>, Error> {
        self.check_input(&x)?;
        let tokens = x.dims()[0];
        if tokens == 0 {
            return Ok(Vec::new());
        }
        let clock = StageClock::default();
        let device = x.device();
        // Earlier work must not count as the router's; an error shows at the caller's next read.
        let _ = device.sync();
        let mut last = Instant::now();
        self.forward_tokens(x, tokens, Given::default(), Some(clock.clone()))?;
        // Under Burn's fusion nothing has run yet.
        let _ = device.sync();
        let mut times = Vec::new();
        for (stage, end) in clock.marks() {
            times.push((stage, end - last));
            last = end;
        }
        Ok(times)
    }

    fn forward_tokens(
        &self,
        x: Tensor<2>,
        sequence: usize,
        given: Given<'_>,
        clock: Option<StageClock>,
    ) -> Result<MoeOutput<2>, Error> {
        let config = &self.config;
        let along = given.chosen.map(|chosen| chosen.on(&x.device()));
        let stage = RouteStage {
            router: &self.router,
            factors: self.factors.as_ref(),
            config,
            variant: match &self.experts {
                Experts::FeedForward(experts) => experts.variant(self.variant, &x, config)?,
                _ => self.variant,
            },
            counts: given.counts,
        };
        let Dispatched {
            routing,
            assignment,
            dropped,
        } = stage.run(&x, given.mask, along, clock.as_ref())?;
        let shared = self.shared.as_ref().map(|shared| (shared, x.clone()));
        let (dtype, weights) = (x.dtype(), routing.weights.clone());
        // The only slot of a token has the token's row, so the weight can go to either side of the expert.
        let (rows, weights) = if config.weighted_input {
            (x * weights.clone().cast(dtype), weights.ones_like())
        } else {
            (x, weights)
        };
        let slots = Slots {
            x: rows,
            weights,
            sequence,
        };
        let y = match &self.experts {
            Experts::FeedForward(experts) => {
                let keep = config.keep;
                let (slots, run) = ([slots.x, slots.weights], Run { keep, clock });
                experts.forward(&assignment, slots, config, run)?
            }
            Experts::Convolutional(experts) => experts.forward(&assignment, slots, config)?,
            Experts::Attention(experts) => experts.forward(&assignment, slots, config)?,
            Experts::ParameterEfficient(experts) => experts.forward(&assignment, slots, config)?,
        };
        Ok(MoeOutput {
            y: SharedExpert::beside(shared, y, config, self.variant)?,
            dropped_slots: dropped,
            routing,
        })
    }

    /// The output for no tokens; Burn can't reshape an empty tensor to another rank.
    fn empty_output<const D: usize>(&self, x: &Tensor<D>) -> Result<MoeOutput<D>, Error> {
        let (device, dtype) = (x.device(), x.dtype());
        if self.is_fused() {
            ops::experts::plan(self.problem(0, dtype)?, self.variant, &device)?;
        }
        Ok(MoeOutput {
            y: Tensor::empty(x.dims(), (&device, dtype)),
            routing: self.router.empty(&device),
            dropped_slots: Tensor::zeros([1], (&device, DType::I32)),
        })
    }

    /// Checks x against the layer, and the layer's weights, which records and optimizers may have replaced, against its configuration.
    pub(super) fn check_input<const D: usize>(&self, x: &Tensor<D>) -> Result<(), Error> {
        Ok(self.check()?.check_input(x, self.config.hidden)?)
    }

    /// Checks the weights; returns the dtype and device that they share.
    pub(super) fn check(&self) -> Result<Like, Mismatch> {
        let like = self.experts.like()?;
        self.experts.check(&like, &self.config)?;
        let (shared, factors) = (self.shared.as_ref(), self.factors.as_ref());
        check_around((&self.router, shared, factors), &self.config, &like)?;
        Ok(like)
    }
}

/// Checks the parts of a layer other than its chosen experts: the router, and the shared expert and capacity factors, which must be present
/// exactly when `config` asks for them.
pub(super) fn check_around(
    (router, shared, factors): (&Router, Option<&SharedExpert>, Option<&CapacityFactors>),
    config: &MoeConfig,
    like: &Like,
) -> Result<(), Mismatch> {
    check_equal(Fault::Config, "router", router.config(), config.router)?;
    let (what, wanted) = ("capacity factors present", config.factors.is_some());
    check_equal(Fault::Config, what, factors.is_some(), wanted)?;
    factors.map_or(Ok(()), |factors| {
        factors.check(config.experts, &like.device)
    })?;
    let sizes = Sizes {
        hidden: config.hidden,
        experts: config.experts,
    };
    router.check(like, sizes)?;
    match (shared, &config.shared) {
        (Some(shared), Some(shape)) => shared.check(like, shape, config),
        _ => Ok(()),
    }
}

/// What a forward is given beside its tokens.
#[derive(Default)]
struct Given<'a> {
    /// True for the experts \[E\] that are available.
    mask: Option<Tensor<1, Bool>>,
    /// The experts that replace the router's choice.
    chosen: Option<&'a ChosenExperts>,
    /// True for the tokens \[T\] that count in what routers and losses follow.
    counts: Option<Tensor<1, Bool>>,
}
