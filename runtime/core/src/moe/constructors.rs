//! The five layers: one struct, five ways to configure it.

use super::config::MoeConfig;
use super::factors::FactorsConfig;
use super::routers::{RouterConfig, SwitchConfig};
use moebius_ops::permute::Capacity;

/// Capacity of the five layers: 1.25 times the even load, at least 4 slots.
const CAPACITY: Capacity = Capacity {
    factor: 1.25,
    min: 4,
};

impl MoeConfig {
    /// Top-2, capacity factor 1.25 (at least 4 slots), expert dropout 0.1.
    pub fn standard(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::new(hidden, inter, experts)
            .with_capacity(Some(CAPACITY))
            .with_expert_dropout(0.1)
    }

    /// [`MoeConfig::standard`] with K = ⌊E · sparsity⌋ experts per token, at least 1 and at most
    /// 2. For another upper bound see [`MoeConfig::with_sparsity`].
    pub fn sparse(hidden: usize, inter: usize, experts: usize, sparsity: f64) -> Self {
        Self::standard(hidden, inter, experts).with_sparsity(sparsity)
    }

    /// A copy with K = clamp(⌊E · sparsity⌋, 1, K): a share of the experts is active.
    pub fn with_sparsity(self, sparsity: f64) -> Self {
        let active = (self.experts as f64 * sparsity) as usize;
        let most = self.top_k().max(1);
        self.with_top_k(active.clamp(1, most))
    }

    /// [`MoeConfig::standard`] with the switch router, one expert per token, and capacity factor
    /// 1.0 (Fedus et al. 2022).
    pub fn switch(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter, experts)
            .with_router(RouterConfig::Switch(SwitchConfig::default()))
            .with_capacity(Some(Capacity {
                factor: 1.0,
                ..CAPACITY
            }))
    }

    /// [`MoeConfig::standard`] with top-2 experts of width ⌊`inter` / 2⌋: a token's two experts
    /// cost as much as one dense network of width `inter` (Du et al. 2022). See
    /// [`GlamConfig`](super::GlamConfig) for the alternation with dense blocks.
    pub fn glam(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter / 2, experts).with_top_k(2)
    }

    /// [`MoeConfig::standard`] with a capacity factor that starts at 1.25 and follows the variance of
    /// the input (rate 0.01, 0.5 to 2.0).
    pub fn adaptive(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter, experts).with_factors(Some(FactorsConfig::variance()))
    }
}
