//! The operations a case file can ask for: checked on the host, computed on the device.

mod attention;
// Its loader would be sent to every page, where no case has a folder.
#[cfg(not(target_family = "wasm"))]
mod decoder;
mod fp8;
mod inputs;
mod moe_layer;
mod route;

#[cfg(test)]
mod tests;

use std::fmt::Display;

use burn::tensor::{Device, Element, Gradients, Int, Tensor, TensorData};
use moebius::ErrorKind;

use crate::case_file::{CaseError, CaseFile, quoted};

/// What an operation computed, back on the host.
#[derive(Clone, Debug)]
pub struct Produced {
    /// Output name, without `out.`.
    pub name: &'static str,
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements, row-major.
    pub values: Values,
}

/// Elements of an output.
#[derive(Clone, Debug)]
pub enum Values {
    /// Real numbers.
    Float(Vec<f32>),
    /// Whole numbers.
    Int(Vec<i64>),
}

impl Produced {
    fn new(name: &'static str, shape: &[usize], values: Values) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            values,
        }
    }
}

/// Why an operation could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The file asks for something else than this version computes.
    #[error("op {0} is not supported by this version")]
    Unsupported(String),
    /// The file itself is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Inputs and parameters that are missing, that nothing reads, or that do not fit together.
    #[error("{0}")]
    Misfit(String),
    /// A backward pass that does not reach an input.
    #[error("the backward pass leaves no {0}")]
    NoGradient(&'static str),
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

impl OpError {
    /// Whether the file is at fault, rather than the device or the library on it.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Unsupported(_) | Self::Case(_) | Self::Misfit(_) => true,
            // The library checks what only it knows: margins, groups, capacities.
            Self::Device(error) => matches!(error.kind(), ErrorKind::Shape | ErrorKind::Config),
            Self::NoGradient { .. } | Self::ReadBack { .. } => false,
        }
    }
}

/// Runs the case's operation on `device` and reads back all that it computes.
///
/// # Errors
/// Anything wrong with parameters, inputs or shapes, before the first launch; then the device's errors.
pub async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    match case.op() {
        "attention" => attention::forward(case, device).await,
        "attention_backward" => attention::backward(case, device).await,
        "balance_losses" => route::balance(case, device).await,
        #[cfg(not(target_family = "wasm"))]
        "decoder_logits" => decoder::logits(case, device).await,
        "fp8_cast" => fp8::cast(case, device).await,
        "fp8_linear" => fp8::linear(case, device).await,
        "fp8_quantize" => fp8::quantize(case, device).await,
        "moe_layer" => moe_layer::forward(case, device).await,
        "moe_layer_backward" => moe_layer::backward(case, device).await,
        "route" => route::run(case, device).await,
        other => Err(OpError::Unsupported(quoted(other))),
    }
}

/// Puts values of a known shape on the device.
fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The gradient of a leaf. A sum over nothing leaves no tape, and every gradient is 0.
fn gradient<const D: usize>(
    tape: Option<&Gradients>,
    name: &'static str,
    leaf: &Tensor<D>,
) -> Result<Tensor<D>, OpError> {
    match tape {
        None => Ok(Tensor::zeros(leaf.dims(), &leaf.device().inner())),
        Some(gradients) => leaf.grad(gradients).ok_or(OpError::NoGradient(name)),
    }
}

/// Reads a float output.
async fn download<const D: usize>(
    name: &'static str,
    tensor: Tensor<D>,
) -> Result<Produced, OpError> {
    let shape = tensor.dims();
    let values = elements(name, tensor.into_data_async().await)?;
    Ok(Produced::new(name, &shape, Values::Float(values)))
}

/// Reads an output of whole numbers.
async fn download_counts<const D: usize>(
    name: &'static str,
    tensor: Tensor<D, Int>,
) -> Result<Produced, OpError> {
    let shape = tensor.dims();
    let values = download_ints(name, tensor).await?;
    Ok(Produced::new(name, &shape, Values::Int(values)))
}

/// Reads an integer tensor of whatever width the device keeps.
async fn download_ints<const D: usize>(
    name: &'static str,
    tensor: Tensor<D, Int>,
) -> Result<Vec<i64>, OpError> {
    elements(name, tensor.into_data_async().await)
}

/// The elements of what was read, converted.
fn elements<E: Element>(
    name: &'static str,
    read: Result<TensorData, impl Display>,
) -> Result<Vec<E>, OpError> {
    let failed = |reason: String| OpError::ReadBack { name, reason };
    let data = read.map_err(|e| failed(e.to_string()))?;
    data.try_into_vec_as().map_err(|e| failed(e.to_string()))
}
