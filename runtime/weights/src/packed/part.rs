//! The parts of a weight that lies in several tensors.

use std::collections::BTreeMap;
use std::ops::Range;

use safetensors::Dtype;

use crate::error::WeightsError;
use crate::source::TensorInfo;

/// A tensor that is a part of a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
}

impl Part {
    /// The extents of a matrix; `None` for another rank.
    pub(super) fn matrix(&self) -> Option<[usize; 2]> {
        self.info.shape[..].try_into().ok()
    }

    /// Whether the part has this dtype and shape.
    pub(super) fn is(&self, dtype: Dtype, shape: &[usize]) -> bool {
        self.info.dtype == dtype && self.info.shape == shape
    }

    /// Whether the part is one F32 value.
    pub(super) fn is_number(&self) -> bool {
        self.info.dtype == Dtype::F32 && self.info.shape.iter().all(|&extent| extent == 1)
    }

    /// Dtype and shape, for an error.
    pub(super) fn shown(&self) -> String {
        format!("{} of shape {:?}", self.info.dtype, self.info.shape)
    }
}

/// The tensors of one layer, by what their names have after the layer's.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) all: &'a BTreeMap<String, TensorInfo>,
    /// Name of the layer.
    pub(super) layer: &'a str,
}

impl Parts<'_> {
    /// The tensor `LAYER.ending`.
    pub(super) fn get(&self, ending: &str) -> Option<Part> {
        let name = format!("{}.{ending}", self.layer);
        let info = self.all.get(&name)?.clone();
        Some(Part { name, info })
    }
}

/// A source of the contents of parts.
pub(crate) trait ReadParts {
    /// Reads some bytes of a part, which has as many.
    fn some(&self, part: &Part, bytes: Range<u64>) -> Result<Vec<u8>, WeightsError>;

    /// Reads the bytes of a part.
    fn bytes(&self, part: &Part) -> Result<Vec<u8>, WeightsError> {
        self.some(part, 0..part.info.bytes())
    }

    /// Reads the values of a part in floating point.
    fn floats(&self, part: &Part) -> Result<Vec<f32>, WeightsError>;

    /// The error that a part isn't what it should be.
    fn unfit(&self, part: &Part, expected: &str, got: &str) -> WeightsError;
}
