//! Routers, which choose the experts of tokens.
//!
//! | router | choice | source |
//! |---|---|---|
//! | [`TopKRouter`] | the K largest of x · Wgᵀ | Shazeer et al. 2017 |
//! | [`SwitchRouter`] | the largest of x · Wgᵀ, weighted by its probability without renormalisation | Fedus et al. 2022 |
//! | [`HashRouter`] | an integer hash of position or content | Roller et al. 2021 |
//! | [`LearnedRouter`] | top-k of a small MLP | |
//! | [`DynamicRouter`] | top-k that balances usage where tokens ask for capacity | |
//! | [`SigmoidBiasRouter`] | sigmoid or softmax scores, a bias balances the selection | DeepSeek-V3, 2024 |
//! | [`ExpertChoiceRouter`] | experts choose their best tokens | Zhou et al. 2022 |
//!
//! Every router computes logits in f32 whatever the dtype of x (rows inside an MLP have that of x),
//! never chooses a masked expert, and gives ties to the lowest expert. The matrix of the logits has the
//! dtype of x, or f32. Randomness (dropout, noise) and running state apply in training, that is on a
//! device that records gradients.

mod balanced;
mod config;

pub use balanced::{DynamicRouter, ExpertChoiceRouter, SigmoidBiasRouter};
pub use config::{
    DynamicConfig, ExpertChoiceConfig, HashConfig, HashKey, LearnedConfig, RouterConfig,
    SigmoidBiasConfig, SwitchConfig, TopKConfig,
};

use super::check::Like;
use super::chosen::ChosenExperts;
use super::route::{Routing, check_mask, choose};
use crate::check::{check_same, element};
use crate::ops::routing::router_logits;
use crate::ops::{self, Assignment};
use crate::parameters::{cast_all, uniform};
use crate::{Error, nn};
use burn::module::{Module, Param};
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor};
use moebius_ops::{Fault, Mismatch, routing};
use moebius_shaders::grouped_gemm::Variant;

/// A router of a layer; made by [`RouterConfig::init`].
#[derive(Module, Debug)]
pub enum Router {
    /// The K largest logits.
    TopK(TopKRouter),
    /// The expert of the largest logit.
    Switch(SwitchRouter),
    /// K experts by a hash of the token.
    Hash(HashRouter),
    /// The K largest logits of an MLP.
    Learned(LearnedRouter),
    /// The K largest logits, corrected by usage and by the token's demand for capacity.
    Dynamic(DynamicRouter),
    /// The K largest scores, sigmoids unless configured otherwise, plus a balancing bias.
    SigmoidBias(SigmoidBiasRouter),
    /// Experts that choose tokens.
    ExpertChoice(ExpertChoiceRouter),
}

/// The sizes of a router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) hidden: usize,
    pub(super) experts: usize,
}

/// The input of a router.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The tokens x \[T,H\], with T at least 1.
    pub(super) x: Tensor<2>,
    pub(super) mask: Option<Tensor<1, Bool>>,
    /// True for the tokens \[T\] that running state follows; `None` for all.
    pub(super) counts: Option<Tensor<1, Bool>>,
    /// The experts \[T,K\] that replace the choice of a router for which [`Router::check_chosen`] has passed them.
    pub(super) along: Option<Tensor<2, Int>>,
    /// The capacity factors \[E\], for a router that decides capacities itself.
    pub(super) factors: Option<Tensor<1>>,
    /// The kernel variant of the experts' products, which decides the tiles of a sort.
    pub(super) variant: Option<Variant>,
}

impl Batch {
    fn training(&self) -> bool {
        self.x.device().is_autodiff()
    }
}

/// The choice of a router.
pub(super) struct Routed {
    pub(super) routing: Routing,
    /// The sort of the slots, if the choice needed one.
    pub(super) assignment: Option<Assignment>,
}

impl From<Routing> for Routed {
    fn from(routing: Routing) -> Self {
        Self {
            routing,
            assignment: None,
        }
    }
}

/// The functions that every kind of router has.
trait Routes: Module {
    /// Chooses experts; sizes, dtypes and devices are checked by the caller.
    fn route(&self, batch: Batch) -> Result<Routed, Error>;

    /// Checks what a router has in addition to the matrix of its logits.
    fn check(&self, _like: &Like) -> Result<(), Mismatch> {
        Ok(())
    }

    /// Casts the weights to another dtype; a router with running state leaves that state as it is.
    fn cast(self, dtype: DType) -> Self {
        cast_all(self, dtype)
    }
}

/// Evaluates an expression for any kind of router: on the router itself, or rewrapped in the variant of its kind in another enum.
macro_rules! each {
    ($router:expr, $inner:ident => $do:expr $(, in $of:ident)?) => {
        match $router {
            Router::TopK($inner) => each!(@ TopK, $do $(, $of)?),
            Router::Switch($inner) => each!(@ Switch, $do $(, $of)?),
            Router::Hash($inner) => each!(@ Hash, $do $(, $of)?),
            Router::Learned($inner) => each!(@ Learned, $do $(, $of)?),
            Router::Dynamic($inner) => each!(@ Dynamic, $do $(, $of)?),
            Router::SigmoidBias($inner) => each!(@ SigmoidBias, $do $(, $of)?),
            Router::ExpertChoice($inner) => each!(@ ExpertChoice, $do $(, $of)?),
        }
    };
    (@ $kind:ident, $do:expr) => { $do };
    (@ $kind:ident, $do:expr, $of:ident) => { $of::$kind($do) };
}

impl Router {
    /// Chooses experts for x \[T,H\]; `expert_mask` \[E\] is true for the available ones.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the router's weights have, or a mask of another
    /// length, [`ErrorKind::Device`](crate::ErrorKind::Device) for another device,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run the router.
    pub fn forward(
        &self,
        x: Tensor<2>,
        expert_mask: Option<Tensor<1, Bool>>,
    ) -> Result<Routing, Error> {
        let sizes = self.sizes();
        Mismatch::check("last dimension of x", sizes.hidden, x.dims()[1])?;
        self.check(&Like::of(&x)?, sizes)?;
        check_mask(expert_mask.as_ref(), sizes.experts, &x.device())?;
        if x.dims()[0] == 0 {
            return Ok(self.empty(&x.device()));
        }
        let batch = Batch {
            x,
            mask: expert_mask,
            counts: None,
            along: None,
            factors: None,
            variant: None,
        };
        Ok(self.route(batch)?.routing)
    }

    /// The configuration of this router.
    pub fn config(&self) -> RouterConfig {
        each!(self, router => router.config, in RouterConfig)
    }

    /// The matrix Wg \[E,H\] of the logits; `None` for a hash router and for the MLP of a learned router.
    pub fn matrix(&self) -> Option<Tensor<2>> {
        self.weight().map(Param::val)
    }

    fn weight(&self) -> Option<&Param<Tensor<2>>> {
        match self {
            Self::TopK(router) => Some(&router.weight),
            Self::Switch(router) => Some(&router.weight),
            Self::Dynamic(router) => Some(&router.weight),
            Self::SigmoidBias(router) => Some(&router.weight),
            Self::ExpertChoice(router) => Some(&router.weight),
            Self::Hash(_) | Self::Learned(_) => None,
        }
    }

    /// The matrix of [`Router::matrix`] if the router learns nothing else.
    pub(super) fn only_matrix(&self) -> Option<Tensor<2>> {
        match self {
            Self::Dynamic(_) => None,
            Self::TopK(router) if router.bias.is_some() => None,
            _ => self.matrix(),
        }
    }

    /// A copy with another Wg, if the router learns nothing else.
    pub(super) fn with_matrix(mut self, matrix: Tensor<2>) -> Result<Self, Mismatch> {
        let name = self.config().name();
        // The old value isn't read, because that would draw the values of a lazy parameter.
        let weight = match &mut self {
            Self::TopK(router) if router.bias.is_none() => &mut router.weight,
            Self::Switch(router) => &mut router.weight,
            Self::SigmoidBias(router) => &mut router.weight,
            Self::ExpertChoice(router) => &mut router.weight,
            Self::TopK(_) | Self::Hash(_) | Self::Learned(_) | Self::Dynamic(_) => {
                let expected = "one that learns a single matrix";
                return Err(Fault::Unsupported.error("router", expected, name));
            }
        };
        *weight = Param::from_tensor(matrix);
        Ok(self)
    }

    /// The routing of a batch without tokens.
    pub(super) fn empty(&self, device: &Device) -> Routing {
        let experts = self.sizes().experts;
        let routing = Routing::empty(experts, self.config().choices(experts), device);
        match self {
            Self::Hash(_) => Routing {
                logsumexp: None,
                ..routing
            },
            _ => routing,
        }
    }

    /// Checks that `chosen` can replace the router's own choice for `tokens` tokens.
    pub(super) fn check_chosen(
        &self,
        chosen: &ChosenExperts,
        tokens: usize,
    ) -> Result<(), Mismatch> {
        let (config, experts) = (self.config(), self.sizes().experts);
        let scored = !matches!(self, Self::Hash(_) | Self::ExpertChoice(_));
        let (what, expected) = ("router of chosen experts", "one of a token's scores");
        Fault::Unsupported.unless(scored, what, expected, config.name())?;
        let got = [chosen.tokens(), chosen.top_k(), chosen.experts()];
        let expected = [tokens, config.choices(experts), experts];
        check_same("chosen experts: T, K and E", got, expected)
    }

    fn sizes(&self) -> Sizes {
        each!(self, router => router.sizes)
    }

    /// Does what [`Router::forward`] does for a checked batch.
    pub(super) fn route(&self, batch: Batch) -> Result<Routed, Error> {
        each!(self, router => router.route(batch))
    }

    pub(super) fn check(&self, like: &Like, sizes: Sizes) -> Result<(), Mismatch> {
        check_same("sizes of the router", self.sizes(), sizes)?;
        if let Some(weight) = self.weight() {
            like.for_logits(weight).check(
                "router weights [E,H]",
                weight,
                [sizes.experts, sizes.hidden],
            )?;
        }
        each!(self, router => router.check(like))
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        each!(self, router => router.cast(dtype), in Router)
    }
}

/// Creates a parameter Wg \[E,H\].
fn matrix(sizes: Sizes, device: &Device) -> Param<Tensor<2>> {
    uniform([sizes.experts, sizes.hidden], sizes.hidden, device)
}

/// A router that chooses the K largest of logits = x · Wgᵀ (+ b), in the order of [`TopKConfig::route`].
///
/// In training, elements of x are dropped with probability `dropout`, and the logits get normal noise of standard deviation `noise_std`.
#[derive(Module, Debug)]
pub struct TopKRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// The bias b \[E\] of the logits.
    pub bias: Option<Param<Tensor<1>>>,
    dropout: Dropout,
    #[module(skip)]
    config: TopKConfig,
    #[module(skip)]
    sizes: Sizes,
}

impl TopKRouter {
    fn new(config: TopKConfig, sizes: Sizes, device: &Device) -> Self {
        let bias = || uniform([sizes.experts], sizes.hidden, device);
        Self {
            weight: matrix(sizes, device),
            bias: config.bias.then(bias),
            dropout: DropoutConfig::new(config.dropout).init(),
            config,
            sizes,
        }
    }
}

impl Routes for TopKRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let training = batch.training();
        let x = self.dropout.forward(batch.x);
        let mut logits = router_logits(x, self.weight.val())?;
        if let Some(bias) = &self.bias {
            logits = logits + bias.val().cast(DType::F32).unsqueeze();
        }
        if training && self.config.noise_std > 0.0 {
            let normal = Distribution::Normal(0.0, self.config.noise_std);
            logits = logits.clone() + logits.random_like(normal);
        }
        Ok(choose(logits, batch.mask, None, batch.along, &self.config.route)?.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let (like, experts) = (like.for_logits(&self.weight), [self.sizes.experts]);
        like.check_optional("router bias [E]", &self.bias, self.config.bias, experts)
    }
}

/// A router that chooses the expert of the largest logit, weighted by its softmax probability, which is never renormalised: the router
/// would get no gradient otherwise.
///
/// In training, logits are multiplied by a number uniform in 1 ± `jitter`.
#[derive(Module, Debug)]
pub struct SwitchRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    config: SwitchConfig,
    #[module(skip)]
    sizes: Sizes,
}

impl SwitchRouter {
    fn new(config: SwitchConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            config,
            sizes,
        }
    }
}

impl Routes for SwitchRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (training, jitter) = (batch.training(), self.config.jitter);
        let mut logits = router_logits(batch.x, self.weight.val())?;
        if training && jitter > 0.0 {
            let uniform = Distribution::Uniform(1.0 - jitter, 1.0 + jitter);
            logits = logits.clone() * logits.random_like(uniform);
        }
        let route = RouterConfig::Switch(self.config).route();
        Ok(choose(logits, batch.mask, None, batch.along, &route)?.into())
    }
}

/// A router that chooses K distinct available experts by an integer hash of a token's position or values, each with weight 1/K.
///
/// There are no logits: they are 0, without log-sum-exp and z-loss; the probabilities are the weights.
#[derive(Module, Debug)]
pub struct HashRouter {
    #[module(skip)]
    config: HashConfig,
    #[module(skip)]
    sizes: Sizes,
}

impl HashRouter {
    fn new(config: HashConfig, sizes: Sizes) -> Self {
        Self { config, sizes }
    }
}

impl Routes for HashRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (tokens, experts) = (batch.x.dims()[0], self.sizes.experts);
        let device = batch.x.device();
        let (indices, weights) = hash_route(batch.x.detach(), batch.mask, experts, &self.config)?;
        // One more column takes the slots without an expert, whose weight is 0.
        let columns = Tensor::zeros([tokens, experts + 1], (&device, DType::F32));
        let probs = columns.scatter(
            1,
            indices.clone(),
            weights.clone(),
            burn::tensor::IndexingUpdateOp::Add,
        );
        Ok(Routing {
            indices,
            weights,
            probs: probs.narrow(1, 0, experts),
            logits: Tensor::zeros([tokens, experts], (&device, DType::F32)),
            logsumexp: None,
            counts: batch.counts,
        }
        .into())
    }
}

/// Chooses the experts of every token of x \[T,H\] by hash, out of `experts`; returns indices and weights \[T,K\]. The caller has checked
/// the mask.
fn hash_route(
    x: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    experts: usize,
    config: &HashConfig,
) -> Result<(Tensor<2, Int>, Tensor<2>), Error> {
    let [tokens, hidden] = x.dims();
    let routing = routing::Problem::new(tokens, experts, config.top_k)?;
    let key = match config.key {
        HashKey::Position { sequence } => routing::HashKey::Position { sequence },
        HashKey::Content => routing::HashKey::Content {
            hidden,
            element: element(x.dtype())?,
        },
    };
    ops::routing::hash(x, mask, routing, (key, config.seed))
}

/// A linear layer x · Wᵀ + b, computed like an expert's product: a row doesn't depend on other rows.
#[derive(Module, Debug)]
pub struct RouterLinear {
    /// The weight W, \[out, in\].
    pub weight: Param<Tensor<2>>,
    /// The bias b, \[out\].
    pub bias: Param<Tensor<1>>,
}

impl RouterLinear {
    fn new([columns, width]: [usize; 2], device: &Device) -> Self {
        Self {
            weight: uniform([columns, width], width, device),
            bias: uniform([columns], width, device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        nn::linear(x, self.weight.val(), Some(self.bias.val()))
    }

    fn check(&self, like: &Like, shape: [usize; 2]) -> Result<(), Mismatch> {
        like.check("weight of a router layer [out, in]", &self.weight, shape)?;
        like.check("bias of a router layer [out]", &self.bias, [shape[0]])
    }
}

/// A router that chooses the top k of logits = MLP(x): ReLU layers of width R, and a last product without bias.
#[derive(Module, Debug)]
pub struct LearnedRouter {
    /// The ReLU layers: H → R, then R → R.
    pub layers: Vec<RouterLinear>,
    /// The weight of the last product, \[E,R\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    config: LearnedConfig,
    #[module(skip)]
    sizes: Sizes,
}

impl LearnedRouter {
    fn new(config: LearnedConfig, sizes: Sizes, device: &Device) -> Self {
        let layer = |at| RouterLinear::new(shape(&config, sizes, at), device);
        Self {
            layers: (0..config.layers).map(layer).collect(),
            weight: uniform([sizes.experts, config.width], config.width, device),
            config,
            sizes,
        }
    }
}

/// The shape \[out, in\] of layer `at`.
fn shape(config: &LearnedConfig, sizes: Sizes, at: usize) -> [usize; 2] {
    let width = if at == 0 { sizes.hidden } else { config.width };
    [config.width, width]
}

impl Routes for LearnedRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let mut x = batch.x;
        for layer in &self.layers {
            x = relu(layer.forward(x)?);
        }
        let logits = router_logits(x, self.weight.val())?;
        Ok(choose(logits, batch.mask, None, batch.along, &self.config.route)?.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let (config, sizes) = (&self.config, self.sizes);
        Mismatch::check("router layers", config.layers, self.layers.len())?;
        for (at, layer) in self.layers.iter().enumerate() {
            layer.check(like, shape(config, sizes, at))?;
        }
        let last = [sizes.experts, config.width];
        like.for_logits(&self.weight)
            .check("last weight of the router [E,R]", &self.weight, last)
    }
}
