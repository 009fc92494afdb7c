//! Experts choose their tokens: perfectly balanced, and nothing is dropped because it is late.

use super::{
    Assignment, Batch, Device, Error, ExpertChoiceConfig, Int, Module, Param, Routed, RouterConfig,
    Routes, Routing, Sizes, Tensor, choose, matrix, router_logits,
};
use crate::ops::CapacityRule;

/// Every expert takes its C = min(T, ⌈T · factor / E⌉) most probable tokens; a token may get any
/// number of experts, also none.
///
/// A token has E slots: slot e holds expert e where e took it and E where not, and the probability
/// as weight. What an expert takes depends on the whole batch, so this router suits neither
/// decoding token by token nor causal training.
#[derive(Module, Debug)]
pub struct ExpertChoiceRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    pub(super) config: ExpertChoiceConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl ExpertChoiceRouter {
    pub(super) fn new(config: ExpertChoiceConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            config,
            sizes,
        }
    }

    /// All (token, expert) pairs as slots, of which each expert keeps its C heaviest; changing factors
    /// multiply the configured one.
    fn rule(&self, tokens: usize, batch: &Batch) -> CapacityRule {
        let experts = self.sizes.experts;
        // A factor is relative to S / E = T slots, and here to T / E tokens.
        let share = self.config.factor / experts as f64;
        let factors = batch.factors.clone().map(|factors| factors * share);
        let changing = factors.is_some();
        CapacityRule {
            capacity: Some(self.config.capacity(tokens, experts, changing)),
            factors,
            mask: batch.mask.clone(),
        }
    }
}

impl Routes for ExpertChoiceRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (tokens, experts) = (batch.x.dims()[0], self.sizes.experts);
        let device = batch.x.device();
        let logits = router_logits(batch.x.clone(), self.weight.val())?;
        let softmax = RouterConfig::ExpertChoice(self.config).route();
        let scored = choose(logits, batch.mask.clone(), None, &softmax)?;
        let column = Tensor::<1, Int>::arange(0..experts as i64, &device);
        let column = column.unsqueeze::<2>().expand([tokens, experts]);
        let assignment = Assignment::new(
            column.clone(),
            scored.probs.clone(),
            experts,
            self.rule(tokens, &batch),
            batch.variant,
        )?;
        let left = assignment.positions().lower_elem(0);
        let routing = Routing {
            indices: column.mask_fill(left.clone(), experts as i64),
            weights: scored.probs.clone().mask_fill(left, 0.0),
            ..scored
        };
        Ok(Routed {
            routing,
            assignment: Some(assignment),
        })
    }
}
