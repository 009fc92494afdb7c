//! The kernels of [`moebius_ops::GroupedGemm`].

use super::{Choice, gradient, launch, plan};
use crate::fp8_mma;
use crate::operation::{Family, How, Kernels};
use crate::prelude::*;
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::Problem;

impl Family for GroupedGemm {
    fn kernels(&self, how: &How, device: &Capability) -> Result<Kernels, PlanError> {
        let variant = |p: &Problem| how.variant(p.row_bound, p.experts, device);
        Ok(match self {
            Self::Linear(p) => Kernels::of(plan(*p, device, Choice::of(variant(p)))?, launch),
            Self::LinearBackward { problem: p, .. } => {
                Kernels::of(gradient::plan(*p, variant(p), device)?, gradient::launch)
            }
            Self::Fp8Linear(p) => {
                let choice = Choice {
                    variant: how.variant,
                    allow_unproven: false,
                };
                Kernels::of(
                    plan(*p, device, choice)?.by(how.conversion, device)?,
                    launch,
                )
            }
            // Who describes a product of codes asks for its instructions by name.
            Self::Fp8Codes(p) => Kernels::of(fp8_mma::plan(*p, device, true)?, fp8_mma::launch),
        })
    }
}
