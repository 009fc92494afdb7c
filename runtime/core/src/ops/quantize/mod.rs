//! FP8 codes and scales of a stack of matrices, and back; shapes as in
//! [`moebius_ops::quantize`]. Scales are constants to autodiff, and so are codes: what a
//! recording device gets has no derivative, but for fake quantisation, whose gradient passes
//! straight through.

#[cfg(feature = "flex")]
pub(super) mod flex;
mod kernels;

use super::DeviceValue;
use super::call::{Kernels, Request};
use crate::check::element;
use crate::{Error, device};
use burn::tensor::{Device, Int, Tensor};
use moebius_device::Capability;
use moebius_ops::quantize::{AmaxProblem, Problem};
use moebius_ops::{Element, Quantization};
use moebius_shaders::{Unsupported, quantize};

/// Words and scales of x, which has the shape and dtype of `problem` and at least one value.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device lacks the dtype or x exceeds
/// a binding.
pub(crate) fn quantize(
    x: Tensor<3>,
    problem: Problem,
) -> Result<(Tensor<3, Int>, DeviceValue), Error> {
    let call = request(Quantization::Quantize(problem), problem, &x.device())?;
    let mut results = call.reads([x]).run();
    Ok((results.words(), results.value()))
}

/// The words of x under scales that fit it.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn quantize_by(
    x: Tensor<3>,
    scales: DeviceValue,
    problem: Problem,
) -> Result<Tensor<3, Int>, Error> {
    let call = request(Quantization::QuantizeBy(problem), problem, &x.device())?;
    Ok(call.reads([x]).reads([scales]).run().words())
}

/// The values of words and scales that fit the problem.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn dequantize(
    words: Tensor<3, Int>,
    scales: DeviceValue,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let call = request(Quantization::Dequantize(problem), problem, &words.device())?;
    Ok(call.reads([words]).reads([scales]).run().floats())
}

/// x as its codes have it, under its own scales or given ones; the gradient passes.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn fake_quantize(
    x: Tensor<3>,
    scales: Option<DeviceValue>,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let call = fake_quantize_request(problem, scales.is_some(), &x.device())?;
    Ok(call.reads([x]).reads(scales).run().floats())
}

/// The call of [`fake_quantize`], under `given` scales or x's own, without its operands.
pub(super) fn fake_quantize_request(
    problem: Problem,
    given: bool,
    device: &Device,
) -> Result<Request, Error> {
    let operation = match given {
        false => Quantization::FakeQuantize(problem),
        true => Quantization::FakeQuantizeBy(problem),
    };
    request(operation, problem, device)
}

/// The largest finite magnitude \[1\] of x, which isn't empty.
///
/// # Errors
/// As [`quantize`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for anything but f32, f16 and bf16.
pub(crate) fn amax<const D: usize>(x: Tensor<D>) -> Result<Tensor<1>, Error> {
    let call = amax_request(x.shape().to_vec(), element(x.dtype())?, &x.device())?;
    Ok(call.reads([x]).run().floats())
}

/// The call of [`amax`] without its operand.
pub(super) fn amax_request(
    shape: Vec<usize>,
    element: Element,
    device: &Device,
) -> Result<Request, Error> {
    let problem = AmaxProblem::new(shape.iter().product(), element)?;
    let plan = |device: &_| kernels::amax(problem, device);
    Request::plan(Quantization::Amax { shape, element }, device, plan)
}

fn request(operation: Quantization, problem: Problem, device: &Device) -> Result<Request, Error> {
    let plan = |device: &Capability| -> Result<Kernels, Unsupported> {
        kernels::matrices(&operation, problem, device)
    };
    Request::plan(operation.clone(), device, plan)
}

/// Checks that a device can hold `matrices` matrices like that of `one`.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when it can't.
pub(crate) fn check_kept(one: &Problem, matrices: usize, device: &Device) -> Result<(), Error> {
    device::plan(device, |device| quantize::check_kept(one, matrices, device))?;
    Ok(())
}
