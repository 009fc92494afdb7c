//! The kernels of each family of [`moebius_ops`]. There is no list of all families, because a program would then link the kernels
//! of each.

use super::{Buffers, Family, Kernels, Tiles};
use crate::Lookup;
use crate::fp8::{self, Conversion};
use crate::grouped_gemm::{Choice, Variant, gradient};
use crate::permute::{TILE_WORDS, combine, dispatch, plan_rows, sorting, weights_gradient};
use crate::prelude::*;
use crate::{attention, experts, fp8_mma, grouped_gemm, kv_cache, quantize, routing};
use cubecl::prelude::*;
use moebius_ops::attention::HostRule;
use moebius_ops::grouped_gemm::Problem as Product;
use moebius_ops::quantize::AmaxProblem;
use moebius_ops::{
    Attention, AttentionPass, Experts, GroupedGemm, KvCache, Permute, Quantize, Routing,
};
use std::sync::Arc;

impl Family for Quantize {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Encode { problem, overflow } => {
                let (plan, overflow) = (fp8::plan(*problem, device)?, *overflow);
                Kernels::new(plan, move |client, plan, b| {
                    fp8::launch_encode(client, plan, overflow, b.get("x"), b.get("codes"));
                })
            }
            Self::Decode(problem) => {
                Kernels::new(fp8::plan(*problem, device)?, |client, plan, b| {
                    fp8::launch_decode(client, plan, b.get("codes"), b.get("y"));
                })
            }
            Self::Quantize(p) => Kernels::of(quantize::plan(*p, device)?, quantize::launch),
            Self::QuantizeBy(p) => Kernels::of(quantize::plan(*p, device)?, quantize::launch_by),
            Self::Dequantize(p) => {
                Kernels::of(quantize::plan(*p, device)?, quantize::launch_dequantize)
            }
            Self::FakeQuantize(p) | Self::FakeQuantizeBy(p) => {
                Kernels::new(quantize::plan(*p, device)?, launch_fake)
            }
            Self::Amax { shape, element } => {
                let problem = AmaxProblem::new(shape.iter().product(), *element)?;
                Kernels::new(quantize::plan_amax(problem, device)?, |client, plan, b| {
                    quantize::launch_amax(client, plan, b.get("x"), b.get("amax"));
                })
            }
        })
    }
}

/// Enqueues the encoding and the decoding of the codes. A fused kernel would save only the words, 2 of 10 bytes per f32, and read
/// x just as often.
fn launch_fake(client: &Client, plan: &quantize::Plan, b: Buffers<'_>) {
    let given = b.find("scales");
    let launch = match given {
        Some(_) => quantize::launch_by,
        None => quantize::launch,
    };
    let coded = quantize::Buffers {
        values: b.get("x"),
        words: empty_words(client, plan.problem.words()),
        scales: given.unwrap_or_else(|| empty_words(client, plan.problem.scales())),
    };
    launch(client, plan, coded.clone());
    let values = b.get("y");
    quantize::launch_dequantize(client, plan, quantize::Buffers { values, ..coded });
}

impl Family for Routing {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match *self {
            Self::Logits {
                problem,
                hidden,
                element,
                backward: false,
            } => {
                let plan = routing::plan_logits(problem, hidden, element, device)?;
                Kernels::new(plan, |client, plan, b| {
                    routing::launch_logits(client, plan, b.get("x"), b.get("Wg"), b.get("logits"));
                })
            }
            Self::Logits {
                problem,
                hidden,
                element,
                ..
            } => {
                let plan = routing::plan_logits_backward(problem, hidden, element, device)?;
                Kernels::of(plan, routing::launch_logits_backward)
            }
            Self::Route { problem, .. } => {
                Kernels::of(routing::plan(problem, device)?, routing::launch)
            }
            Self::RouteBackward { problem, of, .. } => {
                let plan = routing::plan_topk_backward(problem, of, device)?;
                Kernels::of(plan, routing::launch_topk_backward)
            }
            Self::Hash {
                problem,
                seed,
                mask,
                ..
            } => {
                let plan = routing::plan_hash(problem, mask, device)?;
                Kernels::new(plan, move |client, plan, b| {
                    routing::launch_hash(client, plan, seed, b.fill());
                })
            }
            Self::Load(problem) => {
                Kernels::new(routing::plan_load(problem, device)?, |client, plan, b| {
                    routing::launch_load(client, plan, b.get("indices"), b.get("counts"));
                })
            }
        })
    }
}

impl Family for Permute {
    /// Rows per tile of a sort, which must match the tiles of products over the sorted rows; `None` means one row.
    type How = Option<usize>;

    fn kernels(
        &self,
        tile_rows: &Option<usize>,
        device: &Capability,
    ) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Sort { problem, .. } => {
                let plan = sorting::plan(*problem, tile_rows.unwrap_or(1), device)?;
                let words = TILE_WORDS * plan.max_tiles();
                Kernels::of(plan, sorting::launch).with_tiles(words)
            }
            Self::Gather(problem) => Kernels::of(plan_rows(*problem, device)?, dispatch::launch),
            Self::Combine { problem, .. } => {
                Kernels::of(plan_rows(*problem, device)?, combine::launch)
            }
            Self::CombineBackward(problem) => {
                Kernels::new(plan_rows(*problem, device)?, |client, plan, b| {
                    dispatch::launch(client, plan, b.fill());
                    weights_gradient::launch(client, plan, b.fill());
                })
            }
        })
    }
}

/// The caller's choices for a product.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProductHow {
    /// The variant, which determines the tiles of the sort of its rows; `None` leaves it to the plan.
    pub variant: Option<Variant>,
    /// The decoding of FP8 weights.
    pub conversion: Conversion,
}

impl Family for GroupedGemm {
    type How = ProductHow;

    fn kernels(&self, how: &ProductHow, device: &Capability) -> Result<Kernels, PlanError> {
        let variant = |p: &Product| how.variant.unwrap_or_else(|| Variant::best(p, device));
        Ok(match self {
            Self::Linear(p) => {
                let plan = grouped_gemm::plan(*p, device, Choice::of(variant(p)))?;
                let tiles = tiles(p, plan.tile_rows());
                Kernels::of(plan, grouped_gemm::launch).walking(tiles)
            }
            Self::LinearBackward { problem: p, .. }
            | Self::CodedLinearBackward { problem: p, .. } => {
                let plan = gradient::plan(*p, variant(p), device)?;
                Kernels::of(plan, gradient::launch).walking(tiles(p, variant(p).tile_rows()))
            }
            Self::CodedLinear(p) => {
                let choice = Choice {
                    variant: how.variant,
                    allow_unproven: false,
                };
                let plan = grouped_gemm::plan(*p, device, choice)?.by(how.conversion, device)?;
                let tiles = tiles(p, plan.tile_rows());
                Kernels::of(plan, grouped_gemm::launch).walking(tiles)
            }
            // Describing a product of codes counts as naming its unproven instructions.
            Self::Fp8Codes(p) => Kernels::of(fp8_mma::plan(*p, device, true)?, fp8_mma::launch)
                .walking(tiles(&p.product, fp8_mma::TILE_ROWS)),
        })
    }
}

/// The list of tiles, of `rows` rows each, that a product of sorted rows walks; `None` for a dense product.
fn tiles(problem: &Product, rows: usize) -> Option<Tiles> {
    let most = grouped_gemm::max_tiles(problem, rows);
    (!problem.dense).then_some(Tiles { rows, most })
}

impl Family for Experts {
    /// The variant of both products, which determines the tiles of the sort; `None` leaves it to the plan.
    type How = Option<Variant>;

    fn kernels(
        &self,
        variant: &Option<Variant>,
        device: &Capability,
    ) -> Result<Kernels, PlanError> {
        let (Self::Forward { problem, .. } | Self::Backward { problem, .. }) = *self;
        let up = problem.up()?;
        let variant = variant.unwrap_or_else(|| Variant::best(&up, device));
        let forward = || experts::plan(problem, device, Choice::of(variant));
        let backward = || experts::plan_training(problem, variant, device);
        let tiles = tiles(&problem.down()?, variant.tile_rows());
        let kernels = match self {
            Self::Forward { keep: false, .. } => {
                Kernels::staged(forward()?, |client, plan, b, done| {
                    experts::launch(client, plan, b.fill(), done);
                })
            }
            Self::Forward { .. } => {
                let plans = (forward()?, backward()?);
                Kernels::staged(plans, |client, (plan, training), b, done| {
                    let pre = b.get("pre");
                    experts::training::launch_keeping(client, plan, training, b.fill(), pre, done);
                })
            }
            Self::Backward { .. } => Kernels::new(backward()?, |client, plan, b| {
                experts::training::launch_backward(client, plan, b.fill(), b.find("pre"), b.fill());
            }),
        };
        Ok(kernels.walking(tiles))
    }
}

/// The operands that the forward of an attention reads by strides: heads are usually a view of one projection's rows.
const STRIDED: &[&str] = &["q", "k", "v"];

impl Family for Attention {
    /// A user-defined rule, applied after those of the problem.
    type How = Option<Arc<dyn AnyRule>>;

    fn kernels(&self, rule: &Self::How, device: &Capability) -> Result<Kernels, PlanError> {
        let forward = self.pass == AttentionPass::Forward;
        let plan = attention::plan_pass(self, rule.is_some(), device)?;
        let kernels = match rule {
            Some(rule) => rule.clone().kernels(plan, forward),
            None if forward => Kernels::of(plan, attention::launch),
            None => Kernels::of(plan, attention::launch_backward),
        };
        Ok(if forward {
            kernels.reading_views(STRIDED)
        } else {
            kernels
        })
    }
}

/// A user-defined score rule of any type.
pub trait AnyRule: HostRule {
    /// The kernels of a plan with this rule: of the forward pass, or of the gradients.
    fn kernels(self: Arc<Self>, plan: attention::Plan, forward: bool) -> Kernels;
}

impl<R: attention::LaunchRule> AnyRule for R {
    fn kernels(self: Arc<Self>, plan: attention::Plan, forward: bool) -> Kernels {
        if forward {
            Kernels::new(plan, move |client, plan, b| {
                attention::launch_ruled(client, plan, b.fill(), &*self);
            })
        } else {
            Kernels::new(plan, move |client, plan, b| {
                attention::launch_backward_ruled(client, plan, b.fill(), &*self);
            })
        }
    }
}

impl Family for KvCache {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Append(append) => Kernels::of(
                kv_cache::plan_append(*append, device)?,
                kv_cache::launch_append,
            ),
            Self::Attend(attend) => Kernels::of(kv_cache::plan(*attend, device)?, kv_cache::launch),
        })
    }
}
