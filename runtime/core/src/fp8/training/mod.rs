//! Training in FP8: products of rounded values, with parameters in full precision.
//!
//! | part | what it does |
//! |---|---|
//! | [`Fp8Recipe`] | formats (E4M3 forward, E5M2 backward), delayed or current scaling, margin |
//! | [`Weight::in_fp8`](super::Weight::in_fp8) | a weight that trains in FP8; `with_fp8` of configurations makes layers of such weights |
//! | `update` | updates the scales of all weights of a module after a backward pass |
//! | [`Fp8State`] | histories of amaxes and scales, on the device and in records |
//! | [`LossScaler`] | lifts gradients, finds overflows |
//! | `GuardedAdamW` | an optimizer whose steps count only where gradients are finite |
//! | `MomentStore` | main memory or a file, where its moments are between steps |
//! | `Fp8Training` | a step of any of Burn's optimizers with all of these, in one call |
//!
//! `Fp8Training::step` calls [`LossScaler::scale`], the backward pass, [`LossScaler::unscale`], `update`, [`LossScaler::update`], and the
//! optimizer's step if the gradients are [`Finite`]. Programs that do more in between, such as clipping the norm of all gradients together,
//! call these functions themselves. None of them waits for the device.
//!
//! FP8 is emulated: operands are rounded to codes and back, and multiplied in their own dtype with f32
//! sums. A product of two codes is exact there, so this is what FP8 hardware with f32 sums gives, up to
//! the rounding of scales and sums.

mod loss_scale;
#[cfg(feature = "autodiff")]
mod moment_file;
#[cfg(feature = "autodiff")]
mod moments;
#[cfg(feature = "autodiff")]
mod optimizer;
#[cfg(feature = "autodiff")]
mod step;

pub use super::product::{AmaxAlgorithm, Fp8Product, Fp8Recipe, Fp8Scaling, Fp8State};
pub use loss_scale::{Finite, LossScale, LossScaler, LossScaling};
#[cfg(feature = "autodiff")]
pub use moment_file::MomentReads;
#[cfg(feature = "autodiff")]
pub use moments::{MomentStore, Moments};
#[cfg(feature = "autodiff")]
pub use optimizer::{GuardedAdamW, GuardedAdamWConfig, StepGuard};
#[cfg(feature = "autodiff")]
pub use step::{Fp8Training, update};

use super::weight::forms;
use burn::module::Module;

/// The products of all weights of a module that train in FP8; they share their state with the module.
pub fn products<M: Module>(module: &M) -> Vec<Fp8Product> {
    let products = forms(module).into_iter();
    products.filter_map(|form| form.product).collect()
}
