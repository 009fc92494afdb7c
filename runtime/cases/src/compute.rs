//! The parameter `compute` of operations: the dtype of their tensors.

use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::Deserialize;

use crate::error::OpError;

/// The dtype of a case's tensors: `f32`, `f16` or `bf16`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compute {
    #[default]
    F32,
    F16,
    Bf16,
}

impl Compute {
    /// Burn's name of the dtype.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// The device on which a case is computed, and the dtype of its tensors there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    device: Device,
    dtype: DType,
}

impl Place {
    /// Refuses a dtype that the device lacks.
    pub(crate) fn new(compute: Compute, device: &Device) -> Result<Self, OpError> {
        let (device, dtype) = (device.clone(), compute.dtype());
        moebius::check_dtype(dtype, &device)?;
        Ok(Self { device, dtype })
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Uploads values of a known shape, rounded to nearest even on the host.
    pub(crate) fn put<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let data = TensorData::new(values, shape).convert_dtype(self.dtype);
        Tensor::from_data(data, (&self.device, self.dtype))
    }
}
