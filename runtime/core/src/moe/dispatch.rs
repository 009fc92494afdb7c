//! The way from tokens to slots sorted by expert: expert dropout, the router, capacities, the sort.

use super::config::MoeConfig;
use super::factors::CapacityFactors;
use super::route::Routing;
use super::routers::{Batch, Router};
use crate::Error;
use crate::ops::{Assignment, CapacityRule, StageClock};
use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor};
use moebius_shaders::Stage;
use moebius_shaders::grouped_gemm::Variant;

/// The stage that chooses experts and assigns slots to them.
pub(super) struct RouteStage<'a> {
    pub(super) router: &'a Router,
    pub(super) factors: Option<&'a CapacityFactors>,
    pub(super) config: &'a MoeConfig,
    pub(super) variant: Option<Variant>,
    /// True for the tokens \[T\] that count; `None` for all.
    pub(super) counts: Option<Tensor<1, Bool>>,
}

/// The slots of a batch, assigned to experts.
pub(super) struct Dispatched {
    pub(super) routing: Routing,
    pub(super) assignment: Assignment,
    /// The number of dropped slots, \[1\].
    pub(super) dropped: Tensor<1, Int>,
}

impl RouteStage<'_> {
    /// Routes x \[T,H\], with T at least 1, to the experts `along` \[T,K\] if they are given, and sorts its slots by expert.
    pub(super) fn run(
        &self,
        x: &Tensor<2>,
        mask: Option<Tensor<1, Bool>>,
        along: Option<Tensor<2, Int>>,
        clock: Option<&StageClock>,
    ) -> Result<Dispatched, Error> {
        let device = x.device();
        let mask = match &along {
            Some(_) => mask,
            None => self.available(mask, &device),
        };
        let factors = self.factors_of(x);
        let routed = self.router.route(Batch {
            x: x.clone(),
            mask: mask.clone(),
            counts: self.counts.clone(),
            along,
            factors: factors.clone(),
            variant: self.variant,
        })?;
        let routing = routed.routing.with_counts(self.counts.clone());
        if let (Some(CapacityFactors::Load(scheduler)), true) = (self.factors, device.is_autodiff())
        {
            scheduler.observe(routing.load()?)?;
        }
        mark(clock, Stage::Router, &device);
        let dispatched = match routed.assignment {
            // Experts that choose tokens leave slots empty, but drop none.
            Some(assignment) => Dispatched {
                routing,
                assignment,
                dropped: Tensor::zeros([1], (&device, DType::I32)),
            },
            None => {
                let rule = CapacityRule {
                    capacity: self.config.limit(x.dims()[0]),
                    factors,
                    mask,
                };
                let (indices, weights) = (routing.indices.clone(), routing.weights.clone());
                let experts = self.config.experts;
                let assignment = Assignment::new(indices, weights, experts, rule, self.variant)?;
                Dispatched {
                    dropped: assignment.dropped(),
                    routing,
                    assignment,
                }
            }
        };
        mark(clock, Stage::Sort, &device);
        Ok(dispatched)
    }

    /// Returns the capacity factors \[E\] if they change.
    fn factors_of(&self, x: &Tensor<2>) -> Option<Tensor<1>> {
        match (self.factors, self.router) {
            (Some(factors), _) => Some(factors.of(x)),
            (None, Router::Dynamic(router)) => Some(router.capacity_factors()),
            _ => None,
        }
    }

    /// Removes the experts that this forward drops out from the mask.
    fn available(&self, mask: Option<Tensor<1, Bool>>, device: &Device) -> Option<Tensor<1, Bool>> {
        let probability = self.config.expert_dropout;
        if probability == 0.0 || !device.is_autodiff() {
            return mask;
        }
        let experts = self.config.experts;
        let options = (&device.clone().inner(), DType::F32);
        let luck = Tensor::<1>::random([experts], Distribution::Uniform(0.0, 1.0), options);
        let luck = match &mask {
            Some(mask) => luck.mask_fill(mask.clone().bool_not(), -1.0),
            None => luck,
        };
        // The experts with the largest draws stay whatever the probability; equal draws make more of them stay.
        let own = luck
            .clone()
            .unsqueeze_dim::<2>(1)
            .expand([experts, experts]);
        let others = luck.clone().unsqueeze::<2>().expand([experts, experts]);
        let luckier = others.greater(own).int().sum_dim(1).reshape([experts]);
        let must_stay = luckier.lower_elem(self.config.router.fewest_experts() as i64);
        let kept = luck.greater_equal_elem(probability).bool_or(must_stay);
        Some(match mask {
            Some(mask) => kept.bool_and(mask),
            None => kept,
        })
    }
}

/// Records the end of a stage after the device has finished it.
fn mark(clock: Option<&StageClock>, stage: Stage, device: &Device) {
    if let Some(clock) = clock {
        // The clock only needs the wait; a device error shows at the caller's next read.
        let _ = device.sync();
        clock.mark(stage);
    }
}
