//! The operations of case files: arguments are checked on the host, results are computed on the device.

mod attention;
// Excluded on the web: every page would load the model loader, although no case has a folder there.
#[cfg(not(target_family = "wasm"))]
mod decoder;
mod fp8;
mod fp8_training;
mod kv_cache;
mod moe_layer;
mod route;

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod fp8_training_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;

use burn::tensor::{Device, Element, Gradients, Int, Tensor, TensorData};

use crate::case_file::{CaseFile, TensorView, quoted};
use crate::compute::Place;
use crate::error::OpError;

/// An output of an operation, read back to the host.
#[derive(Clone, Debug)]
pub struct Produced {
    /// Name of the output, without the prefix `out.`.
    pub name: &'static str,
    /// Shape of the output.
    pub shape: Vec<usize>,
    /// Elements of the output, row-major.
    pub values: Values,
}

/// Elements of an output.
#[derive(Clone, Debug)]
pub enum Values {
    /// Real numbers.
    Float(Vec<f32>),
    /// Integers.
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

/// Runs the case's operation on `device` and reads back all outputs.
///
/// # Errors
/// [`OpError`] for wrong parameters, inputs or shapes, before anything runs on the device, and for errors of the device.
pub async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    match case.op() {
        "attention" => attention::forward(case, device).await,
        "attention_backward" => attention::backward(case, device).await,
        "balance_losses" => route::balance(case, device).await,
        "balance_losses_backward" => route::balance_backward(case, device).await,
        #[cfg(not(target_family = "wasm"))]
        "decoder_logits" => decoder::logits(case, device).await,
        "fp8_cast" => fp8::cast(case, device).await,
        "fp8_linear" => fp8::linear(case, device).await,
        "fp8_quantize" => fp8::quantize(case, device).await,
        "fp8_training_linear" => fp8_training::linear(case, device).await,
        "kv_cache" => kv_cache::steps(case, device).await,
        "moe_layer" => moe_layer::forward(case, device).await,
        "moe_layer_backward" => moe_layer::backward(case, device).await,
        "route" => route::run(case, device).await,
        "route_backward" => route::backward(case, device).await,
        other => Err(OpError::Unsupported(quoted(other))),
    }
}

/// Uploads values of a known shape to the device.
fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The gradient of a leaf. The sum over an empty tensor records no graph, and its gradients are 0.
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

/// Reads back a float output.
async fn download<const D: usize>(
    name: &'static str,
    tensor: Tensor<D>,
) -> Result<Produced, OpError> {
    let shape = tensor.dims();
    let values = elements(name, tensor.into_data_async().await)?;
    Ok(Produced::new(name, &shape, Values::Float(values)))
}

/// Reads back the log-sum-exp of an attention, with −∞ in place of the library's smallest f32 where a query sees no key.
async fn download_log_sums(name: &'static str, tensor: Tensor<3>) -> Result<Produced, OpError> {
    let mut sums = download(name, tensor).await?;
    if let Values::Float(values) = &mut sums.values {
        for value in values.iter_mut().filter(|value| **value == f32::MIN) {
            *value = f32::NEG_INFINITY;
        }
    }
    Ok(sums)
}

/// Reads back an integer output.
async fn download_counts<const D: usize>(
    name: &'static str,
    tensor: Tensor<D, Int>,
) -> Result<Produced, OpError> {
    let shape = tensor.dims();
    let values = download_ints(name, tensor).await?;
    Ok(Produced::new(name, &shape, Values::Int(values)))
}

/// Reads back an integer tensor, of any integer type that the device uses.
async fn download_ints<const D: usize>(
    name: &'static str,
    tensor: Tensor<D, Int>,
) -> Result<Vec<i64>, OpError> {
    elements(name, tensor.into_data_async().await)
}

/// The elements of a tensor that was read back, converted.
fn elements<E: Element>(
    name: &'static str,
    read: Result<TensorData, impl Display>,
) -> Result<Vec<E>, OpError> {
    let failed = |reason: String| OpError::ReadBack { name, reason };
    let data = read.map_err(|e| failed(e.to_string()))?;
    data.try_into_vec_as().map_err(|e| failed(e.to_string()))
}

/// The inputs of a case that haven't been taken yet.
pub(crate) struct Inputs<'a> {
    op: &'a str,
    left: BTreeMap<&'a str, TensorView<'a>>,
}

/// An input, with its name in the operation.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    name: &'static str,
    pub(crate) view: TensorView<'a>,
}

impl<'a> Inputs<'a> {
    /// The inputs of `case`, none taken yet.
    pub(crate) fn new(case: &'a CaseFile) -> Self {
        Self {
            op: case.op(),
            left: case.inputs(),
        }
    }

    /// Takes a required input.
    pub(crate) fn required(&mut self, name: &'static str) -> Result<Input<'a>, OpError> {
        let missing = || OpError::Misfit(format!("input {name} is missing"));
        self.optional(name).ok_or_else(missing)
    }

    /// Takes an optional input.
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
    /// The shape of an input, which must have rank `D`; errors describe the shape by `symbols` such as `[T,H]`.
    pub(crate) fn dims<const D: usize>(&self, symbols: &str) -> Result<[usize; D], OpError> {
        self.view
            .shape
            .try_into()
            .map_err(|_| self.shape_error(symbols.to_owned()))
    }

    /// Refuses any other shape than `expected`.
    pub(crate) fn expect(&self, symbols: &str, expected: &[usize]) -> Result<(), OpError> {
        if self.view.shape == expected {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} = {expected:?}")))
    }

    /// Refuses extents of 0 from dimension `from` on: a layer needs experts and a width.
    pub(crate) fn expect_positive(&self, symbols: &str, from: usize) -> Result<(), OpError> {
        if self.view.shape.iter().skip(from).all(|&d| d > 0) {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} without a zero extent")))
    }

    /// Uploads the elements in f32 as a tensor of rank `D`, which must have been checked.
    pub(crate) fn on<const D: usize>(&self, device: &Device) -> Result<Tensor<D>, OpError> {
        let data = TensorData::new(self.view.to_f32()?, self.view.shape.to_vec());
        Ok(Tensor::from_data(data, device))
    }

    /// Uploads the elements in the dtype of `place` as a tensor of rank `D`; errors describe the shape by `symbols`.
    pub(crate) fn at<const D: usize>(
        &self,
        symbols: &str,
        place: &Place,
    ) -> Result<Tensor<D>, OpError> {
        Ok(place.put(self.view.to_f32()?, self.dims(symbols)?))
    }

    fn shape_error(&self, expected: String) -> OpError {
        let (name, got) = (self.name, self.view.shape);
        let message = format!("input {name}: expected shape {expected}, got {got:?}");
        OpError::Misfit(message)
    }
}
