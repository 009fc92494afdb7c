//! The operations a case file can ask for: checked on the host, computed on the device.

mod balance_losses;
mod fp8_cast;
mod fp8_linear;
mod fp8_quantize;
mod inputs;
mod layer;
mod moe_layer;
mod moe_layer_backward;
mod route;

#[cfg(test)]
mod tests;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::case_file::{CaseError, CaseFile, quoted};

/// What an operation computed, back on the host.
#[derive(Clone, Debug)]
pub(crate) struct Produced {
    /// Output name, without `out.`.
    pub(crate) name: &'static str,
    /// Extents.
    pub(crate) shape: Vec<usize>,
    /// Elements, row-major.
    pub(crate) values: Values,
}

/// Elements of an output.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Real numbers.
    Float(Vec<f32>),
    /// Whole numbers.
    Int(Vec<i64>),
}

impl Produced {
    fn float(name: &'static str, shape: &[usize], values: Vec<f32>) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            values: Values::Float(values),
        }
    }

    fn int(name: &'static str, shape: &[usize], values: Vec<i64>) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            values: Values::Int(values),
        }
    }
}

/// Why an operation could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpError {
    /// The file asks for something else than this version computes.
    #[error("op {op} is not supported by this version")]
    Unsupported {
        /// The operation, or the variant of one, quoted.
        op: String,
    },
    /// The file itself is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// An input the operation needs.
    #[error("input {name} is missing")]
    MissingInput {
        /// Input name.
        name: &'static str,
    },
    /// An input the operation does not read.
    #[error("input {name} is not read by op {op}")]
    UnexpectedInput {
        /// Input name, quoted.
        name: String,
        /// The operation, quoted.
        op: String,
    },
    /// Extents that do not fit together.
    #[error("input {name}: expected shape {expected}, got {got:?}")]
    Shape {
        /// Input name.
        name: &'static str,
        /// Extents with the symbols they stand for.
        expected: String,
        /// Extents in the file.
        got: Vec<usize>,
    },
    /// `top_k` outside 1 to the number of experts.
    #[error("parameter top_k: expected 1 to {experts}, got {got}")]
    TopK {
        /// Number of experts.
        experts: usize,
        /// `top_k` in the file.
        got: usize,
    },
    /// A parameter that needs another one.
    #[error("parameter {name} has no effect without {needs}")]
    Dangling {
        /// The parameter.
        name: &'static str,
        /// The one it needs.
        needs: &'static str,
    },
    /// A backward pass that does not reach an input.
    #[error("the backward pass leaves no {name}")]
    NoGradient {
        /// Output name.
        name: &'static str,
    },
    /// The library refused or failed.
    #[error(transparent)]
    Device(#[from] moebius::Error),
    /// The result could not be read back.
    #[error("cannot read {name} back from the device: {reason}")]
    ReadBack {
        /// Output name.
        name: &'static str,
        /// What the device says.
        reason: String,
    },
}

/// Runs the case's operation on `device`.
///
/// # Errors
/// Anything wrong with parameters, inputs or shapes, before the first launch; then the device's errors.
pub(crate) fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    match case.op() {
        "balance_losses" => balance_losses::run(case, device),
        "fp8_cast" => fp8_cast::run(case, device),
        "fp8_linear" => fp8_linear::run(case, device),
        "fp8_quantize" => fp8_quantize::run(case, device),
        "moe_layer" => moe_layer::run(case, device),
        "moe_layer_backward" => moe_layer_backward::run(case, device),
        "route" => route::run(case, device),
        other => Err(OpError::Unsupported { op: quoted(other) }),
    }
}

/// Puts values of a known shape on the device.
fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Puts a mask on the device.
fn upload_bool(values: Vec<bool>, device: &Device) -> Tensor<1, Bool> {
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

/// Reads a float output.
fn download<const D: usize>(name: &'static str, tensor: Tensor<D>) -> Result<Produced, OpError> {
    let shape = tensor.dims();
    let values = tensor
        .try_into_vec_as::<f32>()
        .map_err(|e| OpError::ReadBack {
            name,
            reason: e.to_string(),
        })?;
    Ok(Produced::float(name, &shape, values))
}

/// Reads an integer tensor of whatever width the device keeps.
fn download_ints<const D: usize>(
    name: &'static str,
    tensor: Tensor<D, Int>,
) -> Result<Vec<i64>, OpError> {
    tensor
        .try_into_vec_as::<i64>()
        .map_err(|e| OpError::ReadBack {
            name,
            reason: e.to_string(),
        })
}
