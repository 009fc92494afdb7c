//! Element types a kernel reads and writes.

use serde::{Deserialize, Serialize};

named! {
    /// Element type of activations and weights; kernels sum in f32 for every type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Element {
        /// IEEE binary32.
        F32 = "f32",
        /// IEEE binary16.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
    }
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}
