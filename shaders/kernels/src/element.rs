//! Element types on devices.

use crate::error::Unsupported;
use cubecl::ir::{ElemType, FloatKind};
use moebius_device::Capability;
use moebius_ops::Element;

/// The CubeCL type of an element type, and its support by devices.
pub trait DeviceElement {
    /// The CubeCL type.
    fn elem_type(self) -> ElemType;

    /// Checks that `device` can store the type.
    ///
    /// # Errors
    /// [`Unsupported`] for f16 or bf16 on a device without that type.
    fn supported(self, kernel: &'static str, device: &Capability) -> Result<(), Unsupported>;
}

impl DeviceElement for Element {
    fn elem_type(self) -> ElemType {
        ElemType::Float(match self {
            Self::F32 => FloatKind::F32,
            Self::F16 => FloatKind::F16,
            Self::Bf16 => FloatKind::BF16,
        })
    }

    fn supported(self, kernel: &'static str, device: &Capability) -> Result<(), Unsupported> {
        let has = match self {
            Self::F32 => true,
            Self::F16 => device.f16,
            Self::Bf16 => device.bf16,
        };
        let needs = format_args!("{self} storage buffers");
        let have = format_args!("{} without them", device.name);
        Unsupported::unless(has, kernel, needs, have)
    }
}
