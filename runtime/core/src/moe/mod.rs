//! Mixture of experts: routing, experts, and the layer that joins them.

mod assignment;
mod config;
mod layer;
mod route;

pub use config::{MoeConfig, MoeWeights};
pub use layer::{MoeLayer, MoeOutput};
pub use moebius_shaders::grouped_gemm::{Activation, Choice, Variant};
pub use moebius_shaders::moe::Stage;
pub use moebius_shaders::permute::Capacity;
pub use moebius_shaders::routing::Score;
pub use route::{RouteConfig, Routing, route};
