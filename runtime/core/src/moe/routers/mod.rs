//! Routers: what makes tokens choose experts.
//!
//! | router | how | source |
//! |---|---|---|
//! | [`TopKRouter`] | the K largest of x · Wgᵀ | Shazeer et al. 2017 |
//! | [`SwitchRouter`] | the largest, weighted by its raw probability | Fedus et al. 2022 |
//! | [`HashRouter`] | an integer hash of position or content | Roller et al. 2021 |
//! | [`LearnedRouter`] | top-k of a small MLP | |
//! | [`DynamicRouter`] | top-k that evens out usage where tokens ask for capacity | |
//! | [`SigmoidBiasRouter`] | sigmoid scores, a bias balances the selection | DeepSeek-V3, 2024 |
//! | [`ExpertChoiceRouter`] | experts choose their best tokens | Zhou et al. 2022 |
//!
//! Every router computes logits in f32 whatever the dtype of x (rows inside an MLP have that of x),
//! never chooses a masked expert, and gives ties to the lowest expert. Randomness (dropout, noise)
//! and running state apply in training, that is on a device that records gradients.

mod config;
mod dynamic;
mod expert_choice;
mod hash;
mod learned;
mod sigmoid_bias;
mod switch;
mod top_k;

pub use config::{
    DynamicConfig, ExpertChoiceConfig, HashConfig, HashKey, LearnedConfig, RouterConfig,
    SigmoidBiasConfig, SwitchConfig, TopKConfig,
};
pub use dynamic::DynamicRouter;
pub use expert_choice::ExpertChoiceRouter;
pub use hash::HashRouter;
pub use learned::LearnedRouter;
pub use sigmoid_bias::SigmoidBiasRouter;
pub use switch::SwitchRouter;
pub use top_k::TopKRouter;

use super::check::Like;
use super::route::{Routing, check_mask, choose, router_logits};
use super::running::{check_state, constant};
use crate::Error;
use crate::check::{cast_all, cast_param, check_same};
use crate::initial::uniform;
use crate::ops::Assignment;
use crate::state::{set, value};
use burn::module::{Module, Param, RunningState};
use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::grouped_gemm::Variant;

/// A router of a layer; made by [`RouterConfig::init`].
#[derive(Module, Debug)]
pub enum Router {
    /// The K largest logits.
    TopK(TopKRouter),
    /// The largest logit.
    Switch(SwitchRouter),
    /// By hash.
    Hash(HashRouter),
    /// By an MLP.
    Learned(LearnedRouter),
    /// By logits and usage.
    Dynamic(DynamicRouter),
    /// By sigmoid scores and a balancing bias.
    SigmoidBias(SigmoidBiasRouter),
    /// Experts choose tokens.
    ExpertChoice(ExpertChoiceRouter),
}

/// The sizes of a router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) hidden: usize,
    pub(super) experts: usize,
}

/// What a router chooses from.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// \[T,H\], T at least 1.
    pub(super) x: Tensor<2>,
    pub(super) mask: Option<Tensor<1, Bool>>,
    /// \[E\]: capacity factors, for the router that decides capacities itself.
    pub(super) factors: Option<Tensor<1>>,
    /// How the experts' products run, which decides the tiles of a sort.
    pub(super) variant: Option<Variant>,
}

impl Batch {
    fn training(&self) -> bool {
        self.x.device().is_autodiff()
    }
}

/// What a router chose.
pub(super) struct Routed {
    pub(super) routing: Routing,
    /// The sort of the slots, where the choice needed it.
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

/// What every router does.
trait Routes: Module {
    /// The choice; sizes, dtypes and devices are checked.
    fn route(&self, batch: Batch) -> Result<Routed, Error>;

    /// Checks what it has beside a matrix behind the logits.
    fn check(&self, _like: &Like) -> Result<(), Mismatch> {
        Ok(())
    }

    /// In another dtype; a router with running state leaves that as it is.
    fn cast(self, dtype: DType) -> Self {
        cast_all(self, dtype)
    }
}

/// The same expression for whichever router it is, as it comes or in the variant of its kind of another type.
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
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the
    /// router's weights have, or a mask of another length, [`ErrorKind::Device`](crate::ErrorKind::Device) for another device,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
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
            factors: None,
            variant: None,
        };
        Ok(self.route(batch)?.routing)
    }

    /// The configuration it was made from.
    pub fn config(&self) -> RouterConfig {
        each!(self, router => router.config, in RouterConfig)
    }

    /// The matrix Wg \[E,H\] behind the logits; `None` for a hash and for the MLP of a learned
    /// router.
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

    /// [`Router::matrix`] where that is all it learns.
    pub(super) fn only_matrix(&self) -> Option<Tensor<2>> {
        match self {
            Self::Dynamic(_) => None,
            Self::TopK(router) if router.bias.is_some() => None,
            _ => self.matrix(),
        }
    }

    /// A copy with another Wg, where that is all it learns.
    pub(super) fn with_matrix(mut self, matrix: Tensor<2>) -> Result<Self, Mismatch> {
        let name = self.config().name();
        // Its value isn't asked for: that would draw what is replaced here.
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

    /// The choice of no tokens.
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

    fn sizes(&self) -> Sizes {
        each!(self, router => router.sizes)
    }

    /// [`Router::forward`] of a checked batch.
    pub(super) fn route(&self, batch: Batch) -> Result<Routed, Error> {
        each!(self, router => router.route(batch))
    }

    pub(super) fn check(&self, like: &Like, sizes: Sizes) -> Result<(), Mismatch> {
        check_same("sizes of the router", self.sizes(), sizes)?;
        if let Some(weight) = self.weight() {
            like.check(
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

/// Wg \[E,H\].
fn matrix(sizes: Sizes, device: &Device) -> Param<Tensor<2>> {
    uniform([sizes.experts, sizes.hidden], sizes.hidden, device)
}
