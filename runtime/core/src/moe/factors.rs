//! Capacity factors that change while a layer trains and that dispatch obeys.

use super::routers::RouterConfig;
use super::running::{Follow, check_state, constant, follow, relative_load};
use crate::Error;
use crate::check::{check_positive, check_within};
use crate::parameters::value;
use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// The quantity that the capacity factors of a layer follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FactorsConfig {
    /// One factor for all experts, which follows the variance of the input.
    Variance {
        /// The rate and bounds of the factor.
        follow: Follow,
    },
    /// A factor per expert, which follows the expert's load.
    Load {
        /// The rate and bounds of the factors.
        follow: Follow,
        /// The capacity relative to the load: a factor moves towards headroom × relative load.
        headroom: f64,
    },
}

impl FactorsConfig {
    /// A factor that follows the variance of the input at rate 0.01, within 0.5 and 2.0.
    pub fn variance() -> Self {
        Self::Variance {
            follow: Follow::new(0.01, 0.5, 2.0),
        }
    }

    /// Factors that follow the load with headroom 1.25 at rate 0.1, within 0.25 and 4.0.
    pub fn load() -> Self {
        Self::Load {
            follow: Follow::new(0.1, 0.25, 4.0),
            headroom: 1.25,
        }
    }

    /// The rate and bounds of the factors.
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

    /// Creates the factors of a layer, which start with `first` if it is given.
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

    /// Returns the factors \[E\] for the batch x \[T,H\]; in training, a variance factor observes x first.
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

/// One capacity factor that follows the variance of all values of x. It starts with the factor of the layer's capacity, or with 1.
#[derive(Module, Debug)]
pub struct VarianceFactors {
    /// The factor, \[1\].
    pub factor: RunningState<Tensor<1>>,
    #[module(skip)]
    follow: Follow,
    #[module(skip)]
    experts: usize,
}

impl VarianceFactors {
    /// The factor, repeated for every expert: \[E\].
    pub fn factors(&self) -> Tensor<1> {
        value(&self.factor).expand([self.experts])
    }

    /// Moves the factor towards the variance of x.
    pub fn observe(&self, x: Tensor<2>) {
        let x = x.detach().cast(DType::F32);
        let count = x.dims().iter().product::<usize>();
        let (variance, _) = x.reshape([count]).var_mean_bias(0);
        follow(&self.factor, variance, &self.follow);
    }
}

/// Capacity factors that follow each expert's load up and down: a factor moves towards headroom × the expert's load relative to an even
/// one. Factors start with the factor of the layer's capacity, or with headroom.
///
/// A layer made with [`FactorsConfig::Load`] owns a scheduler, which observes the load of every training forward, and always dispatches by
/// its factors. When serving, call [`ExpertScheduler::observe`] to keep it up to date.
#[derive(Module, Debug)]
pub struct ExpertScheduler {
    /// The factors, \[E\].
    pub factors: RunningState<Tensor<1>>,
    #[module(skip)]
    follow: Follow,
    #[module(skip)]
    headroom: f64,
    #[module(skip)]
    experts: usize,
}

impl ExpertScheduler {
    /// A scheduler of `experts` experts, whose factors all start with `headroom`.
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

    /// The current factors, \[E\].
    pub fn factors(&self) -> Tensor<1> {
        value(&self.factors)
    }

    /// Moves the factors towards a load \[E\], as [`Routing::load`](super::Routing::load) measures it: the slots that chose each expert,
    /// including those beyond its capacity.
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
