//! The products of all weights of a module, and what a backward pass measured in them.

#[cfg(feature = "autodiff")]
use super::delayed::step;
#[cfg(feature = "autodiff")]
use super::loss_scale::Finite;
use crate::fp8::product::Fp8Product;
#[cfg(feature = "autodiff")]
use crate::fp8::state::Fp8State;
use crate::fp8::weight::forms;
use burn::module::Module;
#[cfg(feature = "autodiff")]
use burn::tensor::{Gradients, Tensor};

/// The products of all weights of a module that train in FP8; they share their state with the module.
pub fn products<M: Module>(module: &M) -> Vec<Fp8Product> {
    let products = forms(module).into_iter();
    products.filter_map(|form| form.product).collect()
}

/// After a backward pass: moves the amaxes of all uses of a module's weights whose gradients are here
/// into their histories, so that the next forward has new scales. `finite` is what loss scaling found,
/// and a step that it skips changes nothing.
///
/// Nothing is read back, and all products take about as many launches as one. Without effect on
/// weights that don't train in FP8, or whose every tensor is scaled by itself.
#[cfg(feature = "autodiff")]
pub fn update<M: Module>(module: &M, gradients: &Gradients, finite: Option<&Finite>) {
    let products = products(module);
    let mut rest: Vec<(&Fp8Product, &Fp8State, Tensor<1>)> = Vec::new();
    for product in &products {
        if let (Some(state), Some(amaxes)) = (&product.state, product.measured(gradients)) {
            rest.push((product, state, amaxes));
        }
    }
    while let Some((first, _, amaxes)) = rest.first() {
        let (recipe, device) = (first.recipe(), amaxes.device());
        let alike = |(product, _, amaxes): &(&Fp8Product, &Fp8State, Tensor<1>)| {
            product.recipe() == recipe && amaxes.device() == device
        };
        let (same, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(alike);
        let same = same.into_iter().map(|(_, state, amaxes)| (state, amaxes));
        step(&same.collect::<Vec<_>>(), &recipe, finite);
        rest = others;
    }
}
