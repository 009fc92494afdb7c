//! One product that trains in FP8: its two operands rounded forward, the gradient of its result
//! rounded backward.

use super::recipe::{Fp8Recipe, Fp8Scaling};
use super::state::Fp8State;
use crate::Error;
use crate::ops::fp8_training;
use burn::module::Module;
#[cfg(feature = "autodiff")]
use burn::tensor::Gradients;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::{Fault, Mismatch};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Uses whose backward pass may still come; older ones are forgotten.
const MAX_USES: usize = 1024;

/// What one product y = x · Wᵀ remembers to train in FP8.
///
/// Forward x̂ · Ŵᵀ of both operands rounded to the recipe's forward format; gradients pass the
/// rounding unchanged. Backward dx = dŷ · Ŵ and dW = dŷᵀ · x̂, where dŷ is dy rounded to the
/// backward format. Everything is computed in f32 from the rounded values.
#[derive(Module, Debug)]
pub struct Fp8Product {
    /// Histories and scales; `None` where every tensor is scaled by itself.
    pub state: Option<Fp8State>,
    #[module(skip)]
    recipe: Fp8Recipe,
    #[module(skip)]
    uses: Uses,
}

/// A forward whose gradient isn't known yet.
#[derive(Clone, Debug)]
struct Use {
    /// \[1\] each: amax of the inputs and of the weights.
    operands: [Tensor<1>; 2],
    /// \[1\]: its gradient is the amax of dy.
    slot: Tensor<1>,
}

/// Shared by all copies of a product, as the state is.
#[derive(Clone, Debug, Default)]
struct Uses(Arc<Mutex<VecDeque<Use>>>);

impl Uses {
    fn push(&self, new: Use) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() == MAX_USES {
            uses.pop_front();
        }
        uses.push_back(new);
    }
}

impl Fp8Product {
    /// A product that wasn't used yet.
    ///
    /// # Errors
    /// As [`Fp8Recipe::validate`].
    pub fn init(recipe: Fp8Recipe, device: &Device) -> Result<Self, Error> {
        recipe.validate()?;
        Ok(Self::new(recipe, device))
    }

    /// The same for a recipe that was checked.
    pub(crate) fn new(recipe: Fp8Recipe, device: &Device) -> Self {
        let state = match recipe.scaling {
            Fp8Scaling::Current => None,
            Fp8Scaling::Delayed { history_len, .. } => Some(Fp8State::new(history_len, device)),
        };
        Self {
            state,
            recipe,
            uses: Uses::default(),
        }
    }

    /// Its recipe.
    pub fn recipe(&self) -> Fp8Recipe {
        self.recipe
    }

    /// Checks the state, which records replace.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        match (&self.state, self.recipe.scaling) {
            (None, Fp8Scaling::Current) => Ok(()),
            (Some(state), Fp8Scaling::Delayed { history_len, .. }) => state.check(history_len),
            (state, scaling) => {
                let got = if state.is_some() { "one" } else { "none" };
                let expected = format!("that of {scaling:?} scaling");
                Err(Fault::State.error("fp8 state", expected, got))
            }
        }
    }

    /// `product` of the rounded x and w, with its gradient to be rounded.
    pub(crate) fn apply<const X: usize, const W: usize, const Y: usize>(
        &self,
        x: Tensor<X>,
        w: Tensor<W>,
        product: impl FnOnce(Tensor<X>, Tensor<W>) -> Result<Tensor<Y>, Error>,
    ) -> Result<Tensor<Y>, Error> {
        let how = (self.recipe.forward, self.recipe.margin);
        let (x, x_amax) = fp8_training::round_values(x, self.scale(0), how)?;
        let (w, w_amax) = fp8_training::round_values(w, self.scale(1), how)?;
        let y = product(x, w)?;
        if !y.is_autodiff() {
            return Ok(y);
        }
        let mut slot = Tensor::zeros([1], (&y.device(), DType::F32));
        if let (Some(x), Some(w)) = (x_amax, w_amax) {
            slot = slot.require_grad();
            self.uses.push(Use {
                operands: [x, w],
                slot: slot.clone(),
            });
        }
        let how = (self.recipe.backward, self.recipe.margin);
        fp8_training::round_gradient(y, slot, self.scale(2), how)
    }

    fn scale(&self, of: usize) -> Option<Tensor<1>> {
        self.state.as_ref().map(|state| state.scale(of))
    }

    /// \[3\]: the largest amaxes of the uses whose gradients are here.
    #[cfg(feature = "autodiff")]
    pub(super) fn measured(&self, gradients: &Gradients) -> Option<Tensor<1>> {
        let mut found: Option<Tensor<1>> = None;
        let mut uses = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|used| {
            let Some(dy) = used.slot.grad(gradients) else {
                return true;
            };
            let [x, w] = used.operands.clone();
            let amaxes = Tensor::cat(vec![x, w, dy], 0);
            found = Some(match found.take() {
                Some(found) => found.max_pair(amaxes),
                None => amaxes,
            });
            false
        });
        found
    }
}
