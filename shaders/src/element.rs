//! Element types a kernel reads and writes.

use crate::error::Unsupported;
use cubecl::ir::{ElemType, FloatKind};
use moebius_device::Capability;
use serde::Serialize;

/// Element type of activations and weights; sums are f32 whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl Element {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The CubeCL type.
    pub fn elem_type(self) -> ElemType {
        ElemType::Float(match self {
            Self::F32 => FloatKind::F32,
            Self::F16 => FloatKind::F16,
            Self::Bf16 => FloatKind::BF16,
        })
    }

    /// Whether `device` stores this type.
    ///
    /// # Errors
    /// [`Unsupported`] for f16 or bf16 on a device without it.
    pub fn supported(self, kernel: &'static str, device: &Capability) -> Result<(), Unsupported> {
        let has = match self {
            Self::F32 => true,
            Self::F16 => device.f16,
            Self::Bf16 => device.bf16,
        };
        if has {
            return Ok(());
        }
        Err(Unsupported::new(
            kernel,
            format!("{self:?} storage buffers").to_lowercase(),
            format!("{} without them", device.name),
        ))
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}
