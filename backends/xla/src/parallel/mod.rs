//! A mixture-of-experts layer over several devices, with XLA's own collectives.
//!
//! A batch of T tokens is cut into P parts of T/P neighbours, one for each device. The program is one, run
//! by P replicas that meet in its collectives.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer: router, experts, combination, and their gradients |
//! | `passes.rs` | programs of its passes, wherever the experts are |
//! | `whole.rs` | every expert on every device: gradients are summed over the devices |
//! | `expert.rs` | every device has E/P neighbouring experts: rows go to their experts and come back |
//! | `group.rs` | the devices: programs compiled for them, their arguments and results |

mod expert;
mod group;
mod layer;
mod passes;
mod whole;

pub use expert::Divided;
pub use group::{Group, join};
pub use layer::Layer;
pub use whole::Whole;
