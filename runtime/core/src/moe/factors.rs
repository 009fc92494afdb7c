//! Capacity factors that change while a layer trains; dispatch obeys them.

use super::routers::RouterConfig;
use super::running::{Follow, check_state, constant, follow, relative_load};
use crate::Error;
use crate::check::{check_positive, check_within};
use crate::parameters::value;
use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// What a layer's capacity factors follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FactorsConfig {
    /// One factor follows the variance of the input.
    Variance {
        /// How.
        follow: Follow,
    },
    /// Each expert's factor follows its load.
    Load {
        /// How.
        follow: Follow,
        /// Capacity above the load: the target is headroom × relative load.
        headroom: f64,
    },
}

impl FactorsConfig {
    /// The variance of the input, rate 0.01, 0.5 to 2.0.
    pub fn variance() -> Self {
        Self::Variance {
            follow: Follow::new(0.01, 0.5, 2.0),
        }
    }

    /// The load with a quarter more, rate 0.1, 0.25 to 4.0.
    pub fn load() -> Self {
        Self::Load {
            follow: Follow::new(0.1, 0.25, 4.0),
            headroom: 1.25,
        }
    }

    /// How they follow it.
    pub(super) fn follow(&self) -> &Follow {
        match self {
            Self::Variance { follow } | Self::Load { follow, .. } => follow,
        }
    }

    pub(super) fn check(&self, router: &RouterConfig) -> Result<(), Mismatch> {
        let taken = match (self, router) {
            (_, RouterConfig::Dynamic(_)) => Some("none, because a dynamic router brings its own"),
            (Self::Load { .. }, RouterConfig::ExpertChoice(_)) => {
                Some("none by load, because experts that choose have no other")
            }
            _ => None,
        };
        if let Some(expected) = taken {
            return Err(Fault::Config.error("capacity factors", expected, format!("{self:?}")));
        }
        match self {
            Self::Variance { follow } => follow.check(),
            Self::Load { follow, headroom } => {
                check_within("headroom", *headroom, f64::MIN_POSITIVE, f64::MAX)?;
                follow.check()
            }
        }
    }

    /// Starting with `first` where it is given.
    pub(super) fn init(
        &self,
        first: Option<f64>,
        experts: usize,
        device: &Device,
    ) -> CapacityFactors {
        match *self {
            Self::Variance { follow } => CapacityFactors::Variance(VarianceFactors {
                factor: constant(first.unwrap_or(1.0), 1, device),
                follow,
                experts,
            }),
            Self::Load { follow, headroom } => {
                let mut scheduler = ExpertScheduler::checked(experts, follow, headroom, device);
                if let Some(first) = first {
                    scheduler.factors = constant(first, experts, device);
                }
                CapacityFactors::Load(scheduler)
            }
        }
    }
}

/// The capacity factors of a layer.
#[derive(Module, Debug)]
pub enum CapacityFactors {
    /// One factor follows the variance of the input.
    Variance(VarianceFactors),
    /// Each expert's factor follows its load.
    Load(ExpertScheduler),
}

impl CapacityFactors {
    /// Checks the state against a layer of `experts` experts on `device`.
    pub(super) fn check(&self, experts: usize, device: &Device) -> Result<(), Mismatch> {
        match self {
            Self::Variance(factors) => {
                Mismatch::check("experts of the factors", experts, factors.experts)?;
                check_state("capacity factor [1]", &factors.factor, 1, device)
            }
            Self::Load(scheduler) => {
                check_state("capacity factors [E]", &scheduler.factors, experts, device)
            }
        }
    }

    /// \[E\]: the factors of this batch x \[T,H\]; in training the variance counts first.
    pub(super) fn of(&self, x: &Tensor<2>) -> Tensor<1> {
        match self {
            Self::Variance(factors) => {
                if x.device().is_autodiff() {
                    factors.observe(x.clone());
                }
                factors.factors()
            }
            Self::Load(scheduler) => scheduler.factors(),
        }
    }
}

/// One capacity factor that follows the variance of all values of x; at first that of the layer's
/// capacity, 1 without one.
#[derive(Module, Debug)]
pub struct VarianceFactors {
    /// \[1\].
    pub factor: RunningState<Tensor<1>>,
    #[module(skip)]
    follow: Follow,
    #[module(skip)]
    experts: usize,
}

impl VarianceFactors {
    /// \[E\]: the factor, for every expert.
    pub fn factors(&self) -> Tensor<1> {
        value(&self.factor).expand([self.experts])
    }

    /// Follows the variance of x.
    pub fn observe(&self, x: Tensor<2>) {
        let x = x.detach().cast(DType::F32);
        let count = x.dims().iter().product::<usize>();
        let (variance, _) = x.reshape([count]).var_mean_bias(0);
        follow(&self.factor, variance, &self.follow);
    }
}

/// Capacity factors that follow each expert's load up and down: a factor moves towards
/// headroom × the load relative to an even one; at first headroom, in a layer with a capacity that
/// capacity's factor.
///
/// A layer made with [`FactorsConfig::Load`] owns one, lets it observe the load of every training
/// forward, and dispatches by it always. When serving, [`ExpertScheduler::observe`] keeps it up to
/// date.
#[derive(Module, Debug)]
pub struct ExpertScheduler {
    /// \[E\].
    pub factors: RunningState<Tensor<1>>,
    #[module(skip)]
    follow: Follow,
    #[module(skip)]
    headroom: f64,
    #[module(skip)]
    experts: usize,
}

impl ExpertScheduler {
    /// Of `experts` experts, all with factor `headroom`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for numbers out of their range.
    pub fn new(
        experts: usize,
        follow: Follow,
        headroom: f64,
        device: &Device,
    ) -> Result<Self, Error> {
        check_positive("experts", experts)?;
        FactorsConfig::Load { follow, headroom }.check(&RouterConfig::default())?;
        Ok(Self::checked(experts, follow, headroom, device))
    }

    fn checked(experts: usize, follow: Follow, headroom: f64, device: &Device) -> Self {
        let first = headroom.clamp(follow.min, follow.max);
        Self {
            factors: constant(first, experts, device),
            follow,
            headroom,
            experts,
        }
    }

    /// \[E\]: the factors now.
    pub fn factors(&self) -> Tensor<1> {
        value(&self.factors)
    }

    /// Follows a load \[E\], as [`Routing::load`](super::Routing::load) measures it: what experts
    /// were asked for, also beyond their capacity.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a load of another length.
    pub fn observe(&self, load: Tensor<1, Int>) -> Result<(), Error> {
        Mismatch::check("load", self.experts, load.dims()[0])?;
        let target = relative_load(load) * self.headroom;
        follow(&self.factors, target, &self.follow);
        Ok(())
    }
}
