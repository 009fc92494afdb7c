//! One product that trains in FP8: its two operands rounded forward, the gradient of its result rounded backward; how it rounds, and the
//! histories and scales that records hold.

use crate::Error;
use crate::check::{check_size, check_within};
use crate::ops::fp8_training;
use burn::module::{Module, RunningState};
#[cfg(feature = "autodiff")]
use burn::tensor::Gradients;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::{Fault, Mismatch};
use serde::{Deserialize, Serialize};
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

/// The histories and scales of a product's inputs, weights and gradients, in this order.
///
/// A history holds an amax a step. Slot 0 is staging: it holds the amax of the step that runs, and 0
/// between steps. After a step
///
/// 1. amax = the largest of all slots, or slot 0's for the most recent;
/// 2. slots move down by one, slot 0 to the end; then slot 0 is set to 0 (so the oldest goes);
/// 3. scale = amax · 2^margin / MAX; it stays as it was when amax is 0 or not finite.
///
/// A step's own scale is that of the steps before it, 1 at first. Source: Transformer Engine 2,
/// `transformer_engine/pytorch/fp8.py` and `common/recipe/delayed_scaling.cu`, whose scale is the
/// reciprocal of ours.
///
/// Nothing is read back: an update is a few operations on the device. Clones of a layer share this
/// state, as they share all running state of Burn's modules; for a copy that trains by itself, make a
/// layer anew and load a record into it.
#[derive(Module, Debug)]
pub struct Fp8State {
    /// \[3, history\]: amaxes, slot 0 for the step that runs.
    pub history: RunningState<Tensor<2>>,
    /// \[3\]: the scales of the next step.
    pub scales: RunningState<Tensor<1>>,
    /// \[3\]: steps in which a value was beyond the range of its scale by more than rounding takes.
    pub saturated: RunningState<Tensor<1>>,
}

impl Fp8State {
    pub(crate) fn new(history_len: usize, device: &Device) -> Self {
        let options = || (device, DType::F32);
        Self {
            history: RunningState::new(Tensor::zeros([3, history_len], options())),
            scales: RunningState::new(Tensor::ones([3], options())),
            saturated: RunningState::new(Tensor::zeros([3], options())),
        }
    }

    /// \[1\]: the scale of the inputs (0), weights (1) or gradients (2) now.
    pub(crate) fn scale(&self, of: usize) -> Tensor<1> {
        value(&self.scales).narrow(0, of, 1)
    }

    pub(crate) fn check(&self, history_len: usize) -> Result<(), Mismatch> {
        let (history, scales) = (self.history.value_sync(), self.scales.value_sync());
        let counts = self.saturated.value_sync();
        let right =
            history.dims() == [3, history_len] && [scales.dims(), counts.dims()] == [[3]; 2];
        let got = format_args!("{:?} and {:?}", history.dims(), scales.dims());
        let expected = format_args!("[3, {history_len}] and [3]");
        Mismatch::unless(right, "fp8 histories and scales", expected, got)
    }
}

/// The value in f32, whatever a record held it in, without a graph.
pub(super) fn value<const D: usize>(state: &RunningState<Tensor<D>>) -> Tensor<D> {
    state.value_sync().without_autodiff().cast(DType::F32)
}

/// The longest history that is kept.
const MAX_HISTORY: usize = 1 << 16;

/// The largest margin, either way: beyond it nothing of a tensor is left.
const MAX_MARGIN: f64 = 32.0;

/// Which formats a training multiplies in, and where their scales come from.
///
/// x ≈ code · scale with scale = amax · 2^margin / MAX, one each for the inputs, the weights and the
/// gradients of every product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Recipe {
    /// Of inputs and weights.
    pub forward: Fp8Format,
    /// Of gradients of outputs.
    pub backward: Fp8Format,
    /// Where amax comes from.
    pub scaling: Fp8Scaling,
    /// Powers of two left free above amax; a delayed scale may meet larger values than its history.
    pub margin: i32,
}

/// Where the amax of a scale comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fp8Scaling {
    /// The tensor itself: nothing saturates, and every tensor is read twice.
    Current,
    /// The steps before, as in Transformer Engine: a tensor is read once.
    Delayed {
        /// Steps that are remembered, this one included.
        history_len: usize,
        /// What of them counts.
        algorithm: AmaxAlgorithm,
    },
}

/// Which amax of a history counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AmaxAlgorithm {
    /// The largest.
    Max,
    /// The last step's.
    MostRecent,
}

setters! { Fp8Recipe:
    /// A copy with other scaling.
    with_scaling: scaling: Fp8Scaling,
    /// A copy with another margin.
    with_margin: margin: i32,
}

impl Fp8Recipe {
    /// E4M3 forward, E5M2 backward, scales from the largest amax of 1024 steps, no margin.
    pub fn delayed() -> Self {
        Self {
            forward: Fp8Format::E4M3,
            backward: Fp8Format::E5M2,
            scaling: Fp8Scaling::Delayed {
                history_len: 1024,
                algorithm: AmaxAlgorithm::Max,
            },
            margin: 0,
        }
    }

    /// E4M3 forward, E5M2 backward, scales from each tensor itself, no margin.
    pub fn current() -> Self {
        Self {
            scaling: Fp8Scaling::Current,
            ..Self::delayed()
        }
    }

    /// Checks what can be wrong with a recipe from elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a history outside 1..=65536 or a margin
    /// outside −32..=32.
    pub fn validate(&self) -> Result<(), Error> {
        Ok(self.check()?)
    }

    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        if let Fp8Scaling::Delayed { history_len, .. } = self.scaling {
            check_size("amax history", history_len, MAX_HISTORY)?;
        }
        let margin = f64::from(self.margin);
        check_within("fp8 margin", margin, -MAX_MARGIN, MAX_MARGIN)
    }
}

impl Default for Fp8Recipe {
    fn default() -> Self {
        Self::delayed()
    }
}

#[cfg(test)]
#[path = "product_tests.rs"]
mod tests;
