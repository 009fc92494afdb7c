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
//! | `volume.rs` | how many bytes that sends, and how many of them are padding |
//! | `training.rs` | a training step of either |

mod expert;
mod layer;
mod passes;
mod training;
mod volume;
mod whole;

pub use expert::Divided;
pub use layer::{Layer, LayerError};
pub use training::{Training, Update};
pub use volume::Volume;
pub use whole::Whole;
