//! Mixture of experts: routers, experts, and the layer that combines them.

mod blocks;
mod check;
mod chosen;
mod config;
mod dispatch;
mod exact;
pub mod experts;
mod factors;
mod layer;
mod losses;
mod route;
pub mod routers;
mod running;
pub mod switching;

pub use blocks::{BlockOutput, DenseBlock, FeedForwardBlock, GlamConfig};
pub use chosen::ChosenExperts;
pub use config::{Adapted, ExpertKind, MoeConfig, SharedExpertConfig};
pub use experts::Experts;
pub use experts::feed_forward::SharedExpert;
pub use factors::{CapacityFactors, ExpertScheduler, FactorsConfig, VarianceFactors};
pub use layer::{MoeLayer, MoeOutput, MoeWeights};
pub use losses::{LoadBalance, LoadStatistics, LossWeights, Losses};
pub use moebius_ops::experts::Keep;
pub use moebius_ops::grouped_gemm::Activation;
pub use moebius_ops::permute::Capacity;
pub use moebius_ops::routing::{Groups, Score};
pub use moebius_shaders::Stage;
pub use moebius_shaders::grouped_gemm::Variant;
pub use route::{RouteConfig, Routing, route};
pub use routers::{
    DynamicConfig, ExpertChoiceConfig, HashConfig, HashKey, LearnedConfig, Router, RouterConfig,
    SigmoidBiasConfig, SwitchConfig, TopKConfig,
};
pub use running::Follow;
