//! Checks that every operation makes of its tensors.

use burn::tensor::{DType, Device, Tensor};
use moebius_ops::{Element, Fault, Mismatch};
use std::fmt::Debug;

/// Checks that two devices are the same, whether or not they record gradients.
pub(crate) fn check_device(
    what: &'static str,
    got: Device,
    expected: &Device,
) -> Result<(), Mismatch> {
    let alike = got.is_autodiff() == expected.is_autodiff() && got == *expected;
    let (expected, got) = (format_args!("{expected:?}"), format_args!("{got:?}"));
    Fault::Device.unless(alike, what, expected, got)
}

/// Checks that a shape or dtype is the expected one.
pub(crate) fn check_same<T: PartialEq + Debug>(
    what: &'static str,
    got: T,
    expected: T,
) -> Result<(), Mismatch> {
    check_equal(Fault::Shape, what, got, expected)
}

/// Checks that `got` equals `expected`, or returns a mismatch of kind `fault`.
pub(crate) fn check_equal<T: PartialEq + Debug>(
    fault: Fault,
    what: &'static str,
    got: T,
    expected: T,
) -> Result<(), Mismatch> {
    let same = got == expected;
    let (expected, got) = (format_args!("{expected:?}"), format_args!("{got:?}"));
    fault.unless(same, what, expected, got)
}

/// The kernels' name of a dtype.
pub(crate) fn element(dtype: DType) -> Result<Element, Mismatch> {
    match dtype {
        DType::F32 => Ok(Element::F32),
        DType::F16 => Ok(Element::F16),
        DType::BF16 => Ok(Element::Bf16),
        other => Err(Mismatch::new(
            "dtype",
            "f32, f16 or bf16",
            format!("{other:?}"),
        )),
    }
}

/// Moves a tensor to `device`; it records gradients as before.
pub(crate) fn moved<const D: usize>(x: Tensor<D>, device: &Device) -> Tensor<D> {
    let (from, to) = (x.device(), device.clone().inner());
    if from.clone().inner() == to {
        return x;
    }
    #[cfg(feature = "autodiff")]
    if from.is_autodiff() {
        return x.to_device(&to.autodiff());
    }
    x.to_device(&to)
}

/// Reshapes x to another shape with as many elements. Burn's `reshape` reads a 0 as "the size that x has in this dimension", so a tensor
/// without elements is made anew; no gradient is lost, because it has none.
pub(crate) fn reshaped<const D: usize, const E: usize>(
    x: Tensor<D>,
    shape: [usize; E],
) -> Tensor<E> {
    if shape.contains(&0) {
        return Tensor::empty(shape, (&x.device(), x.dtype()));
    }
    x.reshape(shape)
}

/// Returns x in another shape with as many elements, or x itself if it has this shape: Burn's `reshape` makes a new handle even then.
pub(crate) fn shaped<const D: usize, const E: usize>(x: Tensor<D>, shape: [usize; E]) -> Tensor<E> {
    if x.dims().as_slice() == shape.as_slice() {
        return Tensor::from_dispatch(x.into_dispatch());
    }
    x.reshape(shape)
}

/// Returns a matrix or a stack of matrices as a stack.
pub(crate) fn stacked<const D: usize>(x: Tensor<D>) -> Result<Tensor<3>, Mismatch> {
    let shape = match x.dims().as_slice() {
        [rows, columns] => [1, *rows, *columns],
        [matrices, rows, columns] => [*matrices, *rows, *columns],
        _ => {
            let expected = "a matrix or a stack of them";
            let got = format!("{:?}", x.dims());
            return Err(Mismatch::new("shape to quantise", expected, got));
        }
    };
    Ok(reshaped(x, shape))
}

/// Checks that a size is at least 1.
pub(crate) fn check_positive(what: &'static str, size: usize) -> Result<(), Mismatch> {
    Fault::Config.unless(size > 0, what, "at least 1", size)
}

/// Checks that a size is in 1..=`most`.
pub(crate) fn check_size(what: &'static str, size: usize, most: usize) -> Result<(), Mismatch> {
    let right = (1..=most).contains(&size);
    Fault::Config.unless(right, what, format_args!("1 to {most}"), size)
}

/// Checks that a number lies in `from..=to`, both finite.
pub(crate) fn check_within(
    what: &'static str,
    number: f64,
    from: f64,
    to: f64,
) -> Result<(), Mismatch> {
    let right = number >= from && number <= to;
    Fault::Config.unless(right, what, format_args!("{from} to {to}"), number)
}

/// Checks that a number is a probability in 0 ≤ p < 1.
pub(crate) fn check_probability(what: &'static str, number: f64) -> Result<(), Mismatch> {
    let right = (0.0..1.0).contains(&number);
    Fault::Config.unless(right, what, "0 or more, and below 1", number)
}
