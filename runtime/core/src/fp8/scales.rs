//! The layout and scales of FP8 tensors, least-squares scales, and [`fake_quantize`].

use crate::Error;
use crate::check::{check_equal, check_same, element, reshaped, stacked};
use crate::ops::{DeviceValue, quantize};
use crate::reduce::sum_dim;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use moebius_ops::fp8::LANES_PER_WORD;
use moebius_ops::grouped_gemm::fp8::PANEL;
use moebius_ops::quantize::{Problem, Quantizer, ScaleRule, least_squares_factors};
use moebius_ops::scaling::{Fp8Scheme, Granularity, ScaleType};
use moebius_ops::{Element, Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// The shape of a stack of matrices, and the scheme in which it is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Layout {
    /// The number of matrices, rows and columns: \[M, rows, columns\].
    pub shape: [usize; 3],
    /// The format of the codes and the granularity of the scales; scale blocks end at the edges of their matrix.
    pub scheme: Fp8Scheme,
}

impl Fp8Layout {
    /// Shape of the packed codes: \[M, rows, ⌈columns/4⌉\].
    pub fn words_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        [matrices, rows, columns.div_ceil(LANES_PER_WORD)]
    }

    /// Shape of the scales: \[M, down, across\] f32s, or words of four E8M0 bytes.
    pub fn scales_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        let [down, across] = self.scheme.granularity.scale_shape(rows, columns);
        [matrices, down, across]
    }

    /// Bytes of a [`Weight`](super::Weight) of this layout, whose matrices are `parts` projections each: codes with the padding that products
    /// read, of rows to 64 in each projection and of columns to 4, and scales. They are counted in 64 bits, because a layout whose memory is looked
    /// for may have more than an address has; what is more than that is [`u64::MAX`].
    pub fn weight_bytes(&self, parts: usize) -> u64 {
        let [matrices, rows, columns] = self.shape;
        let panels = (rows / parts.max(1)).div_ceil(PANEL);
        let words = [
            matrices,
            parts,
            panels,
            PANEL,
            columns.div_ceil(LANES_PER_WORD),
        ];
        let count = |extents: &[usize]| {
            let extents = extents.iter().map(|extent| *extent as u64);
            extents.fold(1, u64::saturating_mul)
        };
        let words = count(&words).saturating_add(count(&self.scales_shape()));
        words.saturating_mul(4)
    }

    /// The rows of E8M0 bytes, and the bytes in each row.
    pub(super) fn scale_bytes(&self) -> [usize; 2] {
        let [matrices, rows, columns] = self.shape;
        let [down, across] = self.scheme.granularity.blocks(rows, columns);
        [matrices * down, across]
    }

    /// The layout of a tensor of this shape that `quantizer` rounds.
    pub(super) fn of(shape: [usize; 3], quantizer: &Quantizer) -> Self {
        Self {
            shape,
            scheme: Fp8Scheme {
                format: quantizer.format,
                granularity: quantizer.granularity,
            },
        }
    }

    /// Checks that a tensor of this layout fits `device`; decoding all of it at once may need more.
    pub(super) fn check(&self, device: &Device) -> Result<(), Error> {
        // A stack may have more values than an index can count; a single matrix may not.
        let [matrices, rows, columns] = self.shape;
        let one = [matrices.min(1), rows, columns];
        let Fp8Scheme {
            format,
            granularity,
        } = self.scheme;
        let one = Problem::new(one, Element::F32, granularity, format)?;
        quantize::check_kept(&one, matrices, device)
    }
}

/// The scales of an FP8 tensor on a device.
#[derive(Clone, Debug)]
pub enum Fp8Scales {
    /// f32 scales \[M, down, across\].
    F32(Tensor<3>),
    /// \[M, rows, ⌈across/4⌉\] words of four E8M0 bytes, lane 0 in the low byte, rows padded with
    /// zero bytes.
    E8M0(Tensor<3, Int>),
}

pub(super) fn check_words(dtype: DType) -> Result<(), Mismatch> {
    let (what, got) = ("dtype of fp8 words", format_args!("{dtype:?}"));
    let right = matches!(dtype, DType::I32 | DType::U32);
    Mismatch::unless(right, what, "i32 or u32", got)
}

impl Fp8Scales {
    /// The shape of the tensor of scales.
    pub fn dims(&self) -> [usize; 3] {
        match self {
            Self::F32(scales) => scales.dims(),
            Self::E8M0(words) => words.dims(),
        }
    }

    /// The device of the scales.
    pub fn device(&self) -> Device {
        match self {
            Self::F32(scales) => scales.device(),
            Self::E8M0(words) => words.device(),
        }
    }

    pub(crate) fn check(
        &self,
        shape: [usize; 3],
        granularity: Granularity,
        device: &Device,
    ) -> Result<(), Error> {
        let kind = match self {
            Self::F32(_) => ScaleType::F32,
            Self::E8M0(_) => ScaleType::E8M0,
        };
        check_same("type of scales", kind, granularity.scale_type())?;
        match self {
            Self::E8M0(words) => {
                check_same("words of scales", words.dims(), shape)?;
                check_words(words.dtype())?;
            }
            Self::F32(scales) => {
                check_same("scales", scales.dims(), shape)?;
                check_same("dtype of scales", scales.dtype(), DType::F32)?;
            }
        }
        // A device that records gradients computes on the same buffers.
        let (own, given) = (self.device().inner(), device.clone().inner());
        Ok(check_equal(Fault::Device, "device of scales", own, given)?)
    }

    /// Returns the scales as an operand of an operation.
    pub(crate) fn into_value(self) -> DeviceValue {
        match self {
            Self::F32(scales) => scales.into(),
            Self::E8M0(words) => words.into(),
        }
    }

    pub(super) fn from_value(scales: DeviceValue) -> Self {
        match scales {
            DeviceValue::Float(_) => Self::F32(scales.floats()),
            DeviceValue::Word(_) => Self::E8M0(scales.words()),
        }
    }

    pub(super) fn empty(layout: &Fp8Layout, device: &Device) -> Self {
        let shape = layout.scales_shape();
        match layout.scheme.granularity.scale_type() {
            ScaleType::F32 => Self::F32(Tensor::ones(shape, (device, DType::F32))),
            ScaleType::E8M0 => Self::E8M0(Tensor::zeros(shape, (device, DType::I32))),
        }
    }
}

/// Returns the f32 scales \[M, down, across\] of x \[M, rows, columns\] with the least squared error: for each block the s · 2^(i/16) with
/// the least Σ (code · scale − x)², where s is the scale from the block's largest magnitude. A block with a value that isn't finite keeps
/// s.
pub(super) fn least_squares(x: Tensor<3>, problem: Problem) -> Result<Tensor<3>, Error> {
    let (words, first) = quantize::quantize(x.clone(), problem)?;
    let largest: Tensor<3> = first.floats();
    let values = x.clone().cast(FloatDType::F32);
    let mut least = squares(words, largest.clone(), values.clone(), &problem)?;
    let mut scales = largest.clone();
    for factor in least_squares_factors().into_iter().skip(1) {
        let tried = (largest.clone() * factor).clamp_max(f32::MAX);
        let words = quantize::quantize_by(x.clone(), tried.clone().into(), problem)?;
        let error = squares(words, tried.clone(), values.clone(), &problem)?;
        // This is false where either is NaN.
        let better = error.clone().lower(least.clone());
        scales = scales.mask_where(better.clone(), tried);
        least = least.mask_where(better, error);
    }
    Ok(scales)
}

/// Computes Σ (code · scale − x)² of each block, \[M, down, across\].
fn squares(
    words: Tensor<3, Int>,
    scales: Tensor<3>,
    x: Tensor<3>,
    problem: &Problem,
) -> Result<Tensor<3>, Error> {
    let shape = problem.shape();
    let [down, across] = problem.blocks();
    let [high, wide] = problem.block();
    let decoded = Problem::new(shape, Element::F32, problem.granularity(), problem.format())?;
    let apart = quantize::dequantize(words, scales.into(), decoded)? - x;
    let apart = padded(apart, 1, down * high);
    let apart = padded(apart, 2, across * wide).square();
    let blocks: Tensor<5> = apart.reshape([shape[0], down, high, across, wide]);
    let sums = sum_dim(sum_dim(blocks, 4), 2);
    Ok(sums.reshape([shape[0], down, across]))
}

/// Appends zeros to x along `axis`, up to `size`, so that the last blocks are whole.
fn padded(x: Tensor<3>, axis: usize, size: usize) -> Tensor<3> {
    let mut shape = x.dims();
    let missing = size - shape[axis];
    if missing == 0 {
        return x;
    }
    shape[axis] = missing;
    let zeros = Tensor::zeros(shape, (&x.device(), x.dtype()));
    Tensor::cat(vec![x, zeros], axis)
}

/// Rounds x to FP8 and back: decode(encode(x / scale)) · scale in x's shape and dtype, with scales from x, or with `scales` if there are
/// any.
///
/// On a device that records gradients, the gradient passes straight through.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x is neither a matrix nor a stack, isn't f32, f16 or bf16, or doesn't fit the scales;
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device lacks the dtype, or x is larger than a buffer that it binds.
pub fn fake_quantize<const D: usize>(
    x: Tensor<D>,
    quantizer: &Quantizer,
    scales: Option<&Fp8Scales>,
) -> Result<Tensor<D>, Error> {
    let shape = x.dims();
    let x = stacked(x)?;
    let problem = quantizer.problem(x.dims(), element(x.dtype())?)?;
    if let Some(scales) = scales {
        let shape = problem.scales_shape();
        scales.check(shape, quantizer.granularity, &x.device())?;
    }
    if problem.is_empty() {
        return Ok(reshaped(x, shape));
    }
    let scales = match scales {
        // Scales get no gradient: it passes straight through to x.
        None if quantizer.scales == ScaleRule::LeastSquares => Some(DeviceValue::from(
            least_squares(x.clone().without_autodiff(), problem)?,
        )),
        scales => scales.cloned().map(Fp8Scales::into_value),
    };
    Ok(quantize::fake_quantize(x, scales, problem)?.reshape(shape))
}
