//! A product that trains in FP8: both operands are rounded in the forward pass, and the gradient of the result in the backward pass. Also
//! its recipe, and the histories and scales that records hold.

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

/// The most uses that wait for their backward pass; older ones are forgotten.
const MAX_USES: usize = 1024;

/// The FP8 training state of one product y = x · Wᵀ.
///
/// The forward pass computes x̂ · Ŵᵀ, both operands rounded to the recipe's forward format; gradients pass the rounding unchanged. The
/// backward pass computes dx = dŷ · Ŵ and dW = dŷᵀ · x̂, where dŷ is dy rounded to the backward format. The rounded values are multiplied
/// in f32.
#[derive(Module, Debug)]
pub struct Fp8Product {
    /// The histories and scales; `None` with current scaling, which scales every tensor by itself.
    pub state: Option<Fp8State>,
    #[module(skip)]
    recipe: Fp8Recipe,
    #[module(skip)]
    uses: Uses,
}

/// A forward pass whose gradient isn't known yet.
#[derive(Clone, Debug)]
struct Use {
    /// The amax of the inputs and of the weights, \[1\] each.
    operands: [Tensor<1>; 2],
    /// A zero \[1\] whose gradient is the amax of dy.
    slot: Tensor<1>,
}

/// The uses of a product, shared by all its copies, as its state is.
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

    /// A product with a recipe that was checked before.
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

    /// The recipe of this product.
    pub fn recipe(&self) -> Fp8Recipe {
        self.recipe
    }

    /// Checks the state, which a record may have replaced.
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

    /// Calls `product` with x and w rounded, and has the gradient of its result rounded in the backward pass.
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

    /// Returns the largest amaxes \[3\] (inputs, weights, gradients) of all uses whose gradients are in `gradients`, and forgets these
    /// uses.
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
/// A history holds one amax per step. Slot 0 is staging: it holds the amax of the step that runs, and 0 between steps. After a step
///
/// 1. amax = the largest of all slots, or slot 0's for the most recent;
/// 2. slots move down by one, slot 0 to the end; then slot 0 is set to 0 (so the oldest goes);
/// 3. scale = amax · 2^margin / MAX; it stays as it was when amax is 0 or not finite.
///
/// A step uses the scale that the steps before it gave, 1 at first. Source: Transformer Engine 2, `transformer_engine/pytorch/fp8.py` and
/// `common/recipe/delayed_scaling.cu`, whose scale is the reciprocal of ours.
///
/// Nothing is read back: an update is a few operations on the device. Clones of a layer share this
/// state, as they share all running state of Burn's modules; for a copy that trains by itself, make a
/// layer anew and load a record into it.
#[derive(Module, Debug)]
pub struct Fp8State {
    /// The amaxes \[3, history\], with slot 0 for the step that runs.
    pub history: RunningState<Tensor<2>>,
    /// The scales of the next step, \[3\].
    pub scales: RunningState<Tensor<1>>,
    /// The number of steps, \[3\], in which a value saturated: it exceeded the range of its scale by more than rounding.
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

    /// The current scale \[1\] of the inputs (`of` = 0), weights (1) or gradients (2).
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

/// Returns a state's value as f32, whatever dtype a record held it in, detached from the graph.
pub(super) fn value<const D: usize>(state: &RunningState<Tensor<D>>) -> Tensor<D> {
    state.value_sync().without_autodiff().cast(DType::F32)
}

/// The longest history that a recipe may ask for.
const MAX_HISTORY: usize = 1 << 16;

/// The largest margin in either direction: beyond it, all values of a tensor would saturate or round to 0.
const MAX_MARGIN: f64 = 32.0;

/// The recipe of FP8 training: the formats of its products, and the source of their scales.
///
/// x ≈ code · scale with scale = amax · 2^margin / MAX, one each for the inputs, the weights and the
/// gradients of every product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Recipe {
    /// The format of inputs and weights.
    pub forward: Fp8Format,
    /// The format of the gradients of outputs.
    pub backward: Fp8Format,
    /// The source of amax.
    pub scaling: Fp8Scaling,
    /// The powers of two left free above amax, because values may exceed the history of a delayed scale.
    pub margin: i32,
}

/// The source of the amax of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fp8Scaling {
    /// The tensor itself: nothing saturates, but every tensor is read twice.
    Current,
    /// The steps before, as in Transformer Engine: every tensor is read once.
    Delayed {
        /// The number of steps remembered, this one included.
        history_len: usize,
        /// How the remembered steps give one amax.
        algorithm: AmaxAlgorithm,
    },
}

/// How a history gives one amax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AmaxAlgorithm {
    /// The largest amax of the history.
    Max,
    /// The amax of the last step.
    MostRecent,
}

setters! { Fp8Recipe:
    /// Sets the scaling.
    with_scaling: scaling: Fp8Scaling,
    /// Sets the margin.
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

    /// Checks the history and the margin, which may come from a file.
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
