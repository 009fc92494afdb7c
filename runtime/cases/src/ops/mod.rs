//! The operations a case file can ask for: checked on the host, computed on the device.

mod attention;
// Its loader would be sent to every page, where no case has a folder.
#[cfg(not(target_family = "wasm"))]
mod decoder;
mod fp8;
mod moe_layer;
mod route;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;

use burn::tensor::{Device, Element, Gradients, Int, Tensor, TensorData};

use crate::case_file::{CaseFile, TensorView, quoted};
use crate::error::OpError;

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

/// The inputs of a case that have not been read yet.
pub(crate) struct Inputs<'a> {
    op: &'a str,
    left: BTreeMap<&'a str, TensorView<'a>>,
}

/// One input with the name the operation knows it by.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    name: &'static str,
    pub(crate) view: TensorView<'a>,
}

impl<'a> Inputs<'a> {
    /// All inputs of `case`.
    pub(crate) fn new(case: &'a CaseFile) -> Self {
        Self {
            op: case.op(),
            left: case.inputs(),
        }
    }

    /// Takes an input that must be there.
    pub(crate) fn required(&mut self, name: &'static str) -> Result<Input<'a>, OpError> {
        let missing = || OpError::Misfit(format!("input {name} is missing"));
        self.optional(name).ok_or_else(missing)
    }

    /// Takes an input that may be there.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Input<'a>> {
        Some(Input {
            name,
            view: self.left.remove(name)?,
        })
    }

    /// Refuses inputs that the operation didn't take.
    pub(crate) fn finish(self) -> Result<(), OpError> {
        match self.left.into_keys().next() {
            Some(name) => {
                let (name, op) = (quoted(name), quoted(self.op));
                let message = format!("input {name} is not read by op {op}");
                Err(OpError::Misfit(message))
            }
            None => Ok(()),
        }
    }
}

impl Input<'_> {
    /// The extents, where the rank is `D`; `symbols` such as `[T,H]` go into the error.
    pub(crate) fn dims<const D: usize>(&self, symbols: &str) -> Result<[usize; D], OpError> {
        self.view
            .shape
            .try_into()
            .map_err(|_| self.shape_error(symbols.to_owned()))
    }

    /// Refuses any other extents than `expected`.
    pub(crate) fn expect(&self, symbols: &str, expected: &[usize]) -> Result<(), OpError> {
        if self.view.shape == expected {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} = {expected:?}")))
    }

    /// Refuses extents of zero from position `from` on: a layer without experts or width is no layer.
    pub(crate) fn expect_positive(&self, symbols: &str, from: usize) -> Result<(), OpError> {
        if self.view.shape.iter().skip(from).all(|&d| d > 0) {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} without a zero extent")))
    }

    /// The elements in f32 on a device, with the extents of a rank that was checked.
    pub(crate) fn on<const D: usize>(&self, device: &Device) -> Result<Tensor<D>, OpError> {
        let data = TensorData::new(self.view.to_f32()?, self.view.shape.to_vec());
        Ok(Tensor::from_data(data, device))
    }

    fn shape_error(&self, expected: String) -> OpError {
        let (name, got) = (self.name, self.view.shape);
        let message = format!("input {name}: expected shape {expected}, got {got:?}");
        OpError::Misfit(message)
    }
}
