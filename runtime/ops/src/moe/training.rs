//! What a forward keeps for its backward pass.

use serde::{Deserialize, Serialize};

/// What a forward keeps for its backward pass, beside its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first product before its activation: F or 2F elements a slot.
    #[default]
    FirstProduct,
    /// Nothing: the first product is computed again.
    Inputs,
}
