//! The same bits on every device: a forward pass of products and sums in f32 in a fixed order, without contraction, with functions of our own
//! ([`moebius_ops::exact`] says how, and what is left to a device).
//!
//! A model computes this way where it is asked to (`Model::with_exact` of `moebius-model`); it takes longer, because each result is one unit's
//! work. There are no gradients, and nothing runs on XLA.
//!
//! Weights in blocks of codes ([`crate::blocks`]) are decoded to f32 on their device for each product, some rows after the other, and stay
//! blocks otherwise: a value is a product that is exact, plus a number that is added in one rounding, or a product that is rounded once, so that it has the
//! same bits everywhere.
//!
//! ```
//! use burn::tensor::{Distribution, Tensor};
//! use moebius::exact::{self, Function};
//!
//! # fn main() -> Result<(), moebius::Error> {
//! # #[cfg(feature = "flex")] {
//! let device = moebius::open(&moebius::Device::Flex)?;
//! let x = Tensor::<2>::random([3, 64], Distribution::Default, &device);
//! let w = Tensor::<2>::random([16, 64], Distribution::Default, &device);
//! let y = exact::map(Function::Sigmoid, exact::linear(x, w, None)?)?;
//! assert_eq!(y.dims(), [3, 16]);
//! # }
//! # Ok(())
//! # }
//! ```

use crate::Error;
use crate::blocks::{BlockLayout, BlockTensor, read_back, scaled};
use crate::check::check_same;
use crate::device::is_flex;
use crate::ops::exact::{check, check_order, experts};
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::Mismatch;

pub use crate::ops::exact::{Function, activation, combine, linear, map, rms_norm, rotate};

/// Values of weights in blocks that are decoded at once, or those of a row of each matrix, if they are more.
const AT_ONCE: usize = 1 << 22;

/// What a device without exact operations is told that it lacks.
const DECODING: &str = "exact weights in blocks";

/// The bytes that decoding takes for a product with `values` weights in blocks, beside the blocks: an estimate.
pub fn decoding_bytes(values: usize) -> u64 {
    /// Numbers of 32 bits for each value: a byte, a code, a level, a scale and what is added, and some of them again in another form.
    const NUMBERS: u64 = 8;
    4 * NUMBERS * values.min(AT_ONCE) as u64
}

/// Computes what [`linear`] does with the values of one matrix in blocks of codes.
///
/// # Errors
/// As [`linear`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for several matrices.
pub fn linear_in_blocks(
    x: Tensor<2>,
    w: &BlockTensor,
    bias: Option<Tensor<1>>,
) -> Result<Tensor<2>, Error> {
    Mismatch::check("matrices of a linear layer", 1, w.layout().shape[0])?;
    experts_in_blocks(x, w, bias.map(Tensor::unsqueeze), None)
}

/// Decodes rows `rows` \[T\] of the first matrix: \[T, columns\] in f32, on the device. What is below 2⁻⁵⁰ becomes +0, as in all exact
/// operations.
///
/// # Errors
/// As [`map`], and as [`BlockTensor::rows`].
pub fn rows_in_blocks(w: &BlockTensor, rows: Tensor<1, Int>) -> Result<Tensor<2>, Error> {
    let (layout, [count]) = (w.layout(), rows.dims());
    if count == 0 {
        return w.rows(rows);
    }
    w.check(&rows.device())?;
    check_order(DECODING, &rows.device())?;
    let most = (AT_ONCE / layout.shape[2]).max(1);
    let part = |first: usize| {
        let rows = rows.clone().narrow(0, first, most.min(count - first));
        decoded(w.words_of(rows)?, layout)
    };
    joined((0..count).step_by(most).map(part), 0)
}

/// Computes what [`experts`] does with the values of matrices in blocks of codes: a few rows of all matrices after the other, or of those that are
/// chosen, where there are fewer of them.
///
/// # Errors
/// As [`linear`].
pub(crate) fn experts_in_blocks(
    x: Tensor<2>,
    w: &BlockTensor,
    bias: Option<Tensor<2>>,
    chosen: Option<&Tensor<2, Int>>,
) -> Result<Tensor<2>, Error> {
    let ([tokens, columns], device, [matrices, n, k]) = (x.dims(), x.device(), w.layout().shape);
    w.check(&device)?;
    check_same("columns of x [T, k], those of W [n, k]", columns, k)?;
    check("x of an exact product", &x, &device)?;
    check_order(DECODING, &device)?;
    if let Some(bias) = &bias {
        check_same("bias [E, n]", bias.dims(), [matrices, n])?;
    }
    let slots = chosen.map_or(tokens, |chosen| chosen.shape().num_elements());
    if slots == 0 {
        return Ok(Tensor::empty([0, n], (&device, DType::F32)));
    }
    // Where slots are fewer than matrices, each slot has a matrix of its own.
    let few = chosen.filter(|_| slots < matrices).map(|chosen| {
        let own = Tensor::<1, Int>::arange(0..slots as i64, (&device, chosen.dtype()));
        let which = chosen.clone().reshape([slots]);
        (which, own.reshape(chosen.dims()))
    });
    let count = if few.is_some() { slots } else { matrices };
    let (which, own) = few.unzip();
    let chosen = own.as_ref().or(chosen);
    let most = (AT_ONCE / (count * k)).clamp(1, n);
    let words = w.words(0, matrices)?;
    let part = |first: usize| {
        let rows = most.min(n - first);
        let mut words = words.clone().narrow(1, first, rows);
        let mut bias = bias.clone().map(|bias| bias.narrow(1, first, rows));
        if let Some(which) = &which {
            words = words.select(0, which.clone());
            bias = bias.map(|bias| bias.select(0, which.clone()));
        }
        let [.., across] = words.dims();
        let values = decoded(words.reshape([count * rows, across]), w.layout())?;
        experts(x.clone(), values.reshape([count, rows, k]), bias, chosen)
    };
    joined((0..n).step_by(most).map(part), 1)
}

/// Parts, of which there is at least one, beside each other along a dimension.
fn joined(
    parts: impl Iterator<Item = Result<Tensor<2>, Error>>,
    along: usize,
) -> Result<Tensor<2>, Error> {
    let mut parts = parts.collect::<Result<Vec<_>, Error>>()?;
    // Joining one tensor would copy it.
    Ok(match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, along),
    })
}

/// The values \[T, columns\] of rows of words. On Flex they are decoded in one pass; elsewhere by operations of Burn, whose products are exact or
/// rounded once, and by the one sum of an exact operation, which no compiler contracts or reorders.
fn decoded(words: Tensor<2, Int>, layout: BlockLayout) -> Result<Tensor<2>, Error> {
    let (values, offsets) = if is_flex(&words.device()) {
        (read_back(words, layout)?, None)
    } else {
        scaled(words, layout)
    };
    combine(values, None, offsets, 1.0)
}
