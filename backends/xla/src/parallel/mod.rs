//! A mixture-of-experts layer, and attention within a sequence, over several devices, with XLA's own collectives.
//!
//! A batch of T tokens, or a sequence, is cut into P consecutive parts, one for each device. P replicas run one program
//! and exchange data in its collectives.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer: router, experts, combination, their gradients, and programs of its passes |
//! | `whole.rs` | every expert on every device: gradients are summed over the devices |
//! | `expert.rs` | every device has E/P neighbouring experts: rows go to their experts and come back |
//! | `ring.rs` | attention: every device has a chunk of the sequence, whose keys and values go round |
//! | `group.rs` | the devices: programs compiled for them, their arguments and results |

mod expert;
mod group;
mod layer;
mod ring;
mod whole;

pub use expert::Divided;
pub use group::{Group, join};
pub use layer::Layer;
pub use ring::Ring;
pub use whole::Whole;
