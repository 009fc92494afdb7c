//! Low-rank changes of weights that stay as they are, in any precision: y = x · Wᵀ + s · (x · Aᵀ) · Bᵀ (Hu et al. 2021, "LoRA").

use crate::Error;
use crate::check::{check_device, check_same, reshaped};
use crate::ops::Rows;
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::{Fault, Mismatch};

/// A low-rank change of some rows of each matrix of a [`Weight`](super::Weight): W becomes W + s · B · A there, without being written anew.
/// The factors have the dtype of the weight, or f32, in which those of a weight in 16 bits train: each product casts them to the dtype of x, and
/// their gradients back.
///
/// ```
/// # #[cfg(all(feature = "flex", feature = "autodiff"))] {
/// use burn::module::{Module, Param};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use moebius::fp8::LowRank;
/// use moebius::nn::LinearConfig;
///
/// let device = Device::flex().autodiff();
/// let mut layer = LinearConfig::new(8, 4).init(&device)?.no_grad();
/// let down = Tensor::random([1, 2, 8], Distribution::Default, &device);
/// let change = LowRank {
///     down: Param::from_tensor(down),
///     up: Param::from_tensor(Tensor::zeros([1, 4, 2], &device)),
///     first: 0,
///     scale: 2.0,
/// };
/// layer.weight = layer.weight.with_changes(vec![change])?;
/// let y = layer.forward(Tensor::<2>::ones([3, 8], &device))?;
/// let gradients = y.sum().backward();
/// let [change] = layer.weight.changes() else { unreachable!() };
/// assert!(change.up.val().grad(&gradients).is_some());
/// # }
/// # Ok::<(), moebius::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct LowRank {
    /// A \[E, r, in\], for the E matrices of a stack or for one matrix.
    pub down: Param<Tensor<3>>,
    /// B \[E, rows, r\].
    pub up: Param<Tensor<3>>,
    /// The first of the rows that change.
    #[module(skip)]
    pub first: usize,
    /// The factor s.
    #[module(skip)]
    pub scale: f64,
}

impl LowRank {
    /// The rows that change: the first, and the one after the last.
    fn rows(&self) -> [usize; 2] {
        let [_, rows, _] = self.up.lazy_shape().dims();
        [self.first, self.first + rows]
    }

    /// Bytes of both factors.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |of: &Param<Tensor<3>>| of.lazy_shape().num_elements() * of.dtype().size();
        bytes(&self.down) + bytes(&self.up)
    }

    /// Computes s · (x · Aᵀ) · Bᵀ \[R, rows\] from the rows x \[R, in\] of a product.
    fn product(&self, of: Rows<'_>, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let [down, up] = [&self.down, &self.up].map(|of| of.val().cast(x.dtype()));
        let small = of.linear(x, down, None)?;
        Ok(of.linear(small, up, None)? * self.scale)
    }

    /// Computes s · B · A \[E, rows, in\].
    fn delta(&self) -> Result<Tensor<3>, Error> {
        let (down, up) = (self.down.val(), self.up.val());
        let ([matrices, rank, columns], [_, rows, _]) = (down.dims(), up.dims());
        let matrix = |matrix: usize| {
            let up = up.clone().narrow(0, matrix, 1);
            // Products can't read a strided view.
            let down = down.clone().narrow(0, matrix, 1).swap_dims(1, 2);
            let down = reshaped(reshaped(down, [columns * rank]), [1, columns, rank]);
            let up = reshaped(reshaped(up, [rows * rank]), [rows, rank]);
            let delta = Rows::All(None).linear(up, down, None)? * self.scale;
            Ok::<_, Error>(reshaped(delta, [1, rows, columns]))
        };
        let all: Result<Vec<_>, Error> = (0..matrices).map(matrix).collect();
        Ok(Tensor::cat(all?, 0))
    }

    fn check(&self, [matrices, _, columns]: [usize; 3]) -> Result<(), Mismatch> {
        let [down, up] = [&self.down, &self.up].map(|of| of.lazy_shape().dims::<3>());
        check_same(
            "A of a low-rank change [E, r, in]",
            down,
            [matrices, down[1], columns],
        )?;
        check_same(
            "B of a low-rank change [E, rows, r]",
            up,
            [matrices, up[1], down[1]],
        )?;
        let sizes = [down[1], up[1]];
        let some = sizes.iter().all(|&size| size > 0);
        let (what, got) = ("rank and rows of a change", format_args!("{sizes:?}"));
        Mismatch::unless(some, what, "at least 1", got)
    }
}

/// Checks that changes fit matrices \[E, out, in\] of a dtype and a device, in the order of their rows, none of which two of them change.
pub(super) fn check(
    changes: &[LowRank],
    shape: [usize; 3],
    dtype: DType,
    device: &Device,
) -> Result<(), Mismatch> {
    let [_, out, _] = shape;
    let mut free = 0;
    for change in changes {
        change.check(shape)?;
        let [first, end] = change.rows();
        let right = first >= free && end <= out;
        let (what, got) = (
            "rows of a low-rank change",
            format_args!("{first} to {end}"),
        );
        let expected = format_args!("{free} to {out}, or some of them");
        Fault::Config.unless(right, what, expected, got)?;
        free = end;
        for part in [&change.down, &change.up] {
            let own = part.dtype();
            let expected = if own == DType::F32 { own } else { dtype };
            check_same("dtype of a low-rank change", own, expected)?;
            check_device("device of a low-rank change", part.device(), device)?;
        }
    }
    Ok(())
}

/// Adds the changes, if there are any, to y \[R, out\], the product of the rows x \[R, in\] with the weight as it is.
pub(crate) fn changed(
    y: Tensor<2>,
    x: &Tensor<2>,
    changes: &[LowRank],
    of: Rows<'_>,
) -> Result<Tensor<2>, Error> {
    if changes.is_empty() {
        return Ok(y);
    }
    let ([rows, out], options) = (y.dims(), (y.device(), y.dtype()));
    let zeros = |columns: usize| Tensor::<2>::zeros([rows, columns], (&options.0, options.1));
    let (mut parts, mut at) = (Vec::new(), 0);
    for change in changes {
        let [first, end] = change.rows();
        if first > at {
            parts.push(zeros(first - at));
        }
        parts.push(change.product(of, x.clone())?);
        at = end;
    }
    if at < out {
        parts.push(zeros(out - at));
    }
    // Joining one tensor would copy it.
    let change = match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 1),
    };
    Ok(y + change)
}

/// Writes the changes into matrices \[E, out, in\]; sums are in the dtype of the factors.
pub(super) fn merged(w: Tensor<3>, changes: &[LowRank]) -> Result<Tensor<3>, Error> {
    let ([_, out, _], dtype) = (w.dims(), w.dtype());
    let (mut parts, mut at) = (Vec::new(), 0);
    for change in changes {
        let [first, end] = change.rows();
        if first > at {
            parts.push(w.clone().narrow(1, at, first - at));
        }
        let delta = change.delta()?;
        let rows = w.clone().narrow(1, first, end - first);
        parts.push((rows.cast(delta.dtype()) + delta).cast(dtype));
        at = end;
    }
    if at < out {
        parts.push(w.narrow(1, at, out - at));
    }
    Ok(Tensor::cat(parts, 1))
}
