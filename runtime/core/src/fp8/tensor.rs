//! Stacks of matrices as FP8 codes and scales.

use super::scales::{Fp8Layout, Fp8Scales, check_words, least_squares};
use crate::Error;
use crate::check::{check_equal, check_same, element, stacked};
use crate::ops::quantize;
use crate::reduce::sum;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use moebius_ops::fp8::{LANES_PER_WORD, pack};
use moebius_ops::quantize::{Problem, Quantizer, ScaleRule};
use moebius_ops::scaling::{HostScales, ScaleType};
use moebius_ops::{Fault, Mismatch};

/// A stack of matrices \[M, rows, columns\] as FP8 codes, four to a word, and scales: x ≈ code · scale. It takes a quarter of the memory of
/// f32, plus the scales.
///
/// ```
/// use burn::tensor::{Distribution, FloatDType, Tensor};
/// use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Quantizer};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let weights = Tensor::<2>::random([256, 512], Distribution::Normal(0.0, 1.0), &device);
/// let blocks = Granularity::Block { rows: 128, columns: 128 };
///
/// let quantizer = Quantizer::new(Fp8Format::E4M3, blocks);
/// let packed = Fp8Tensor::quantize(weights.clone(), &quantizer)?;
/// assert_eq!(packed.bytes(), 256 * 512 + 2 * 4 * 4);
/// assert_eq!(packed.dequantize(FloatDType::F32)?.dims(), [1, 256, 512]);
/// assert!(packed.relative_error(weights)?.into_scalar::<f32>() < 0.03);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fp8Tensor {
    layout: Fp8Layout,
    words: Tensor<3, Int>,
    scales: Fp8Scales,
}

impl Fp8Tensor {
    /// Quantises a matrix x \[rows, columns\] or a stack \[M, rows, columns\] with scales from x.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another rank or a dtype other than f32, f16 and bf16,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for settings out of their range;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device lacks the dtype, or x is larger than a buffer that it
    /// binds.
    pub fn quantize<const D: usize>(x: Tensor<D>, quantizer: &Quantizer) -> Result<Self, Error> {
        let x = stacked(x)?;
        let device = x.device();
        let problem = quantizer.problem(x.dims(), element(x.dtype())?)?;
        let layout = Fp8Layout::of(x.dims(), quantizer);
        if problem.is_empty() {
            return Ok(Self::empty(layout, &device));
        }
        if quantizer.scales == ScaleRule::LeastSquares {
            let x = x.without_autodiff();
            let scales = least_squares(x.clone(), problem)?;
            let words = quantize::quantize_by(x, scales.clone().into(), problem)?;
            return Ok(Self::of(layout, words, Fp8Scales::F32(scales)));
        }
        let (words, scales) = quantize::quantize(x, problem)?;
        let scales = Fp8Scales::from_value(scales);
        Ok(Self::of(layout, words, scales))
    }

    /// Quantises with given scales, such as calibrated ones or those of the steps before.
    ///
    /// # Errors
    /// As [`Fp8Tensor::quantize`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for scales of another kind or shape than x has with
    /// this granularity, [`ErrorKind::Device`](crate::ErrorKind::Device) for scales on another device.
    pub fn quantize_by<const D: usize>(
        x: Tensor<D>,
        scales: Fp8Scales,
        quantizer: &Quantizer,
    ) -> Result<Self, Error> {
        let x = stacked(x)?;
        let problem = quantizer.problem(x.dims(), element(x.dtype())?)?;
        let layout = Fp8Layout::of(x.dims(), quantizer);
        scales.check(
            layout.scales_shape(),
            layout.scheme.granularity,
            &x.device(),
        )?;
        if problem.is_empty() {
            return Ok(Self::empty(layout, &x.device()));
        }
        let words = quantize::quantize_by(x, scales.clone().into_value(), problem)?;
        Ok(Self::of(layout, words, scales))
    }

    fn of(layout: Fp8Layout, words: Tensor<3, Int>, scales: Fp8Scales) -> Self {
        Self {
            layout,
            words,
            scales,
        }
    }

    fn empty(layout: Fp8Layout, device: &Device) -> Self {
        let words = Tensor::zeros(layout.words_shape(), (device, DType::I32));
        Self::of(layout, words, Fp8Scales::empty(&layout, device))
    }

    /// A tensor from packed words and scales that are on a device already.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when the kind, shape or dtype of words or scales differs from the layout's,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when they are on different devices,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when they exceed a buffer.
    pub fn from_parts(
        words: Tensor<3, Int>,
        scales: Fp8Scales,
        layout: Fp8Layout,
    ) -> Result<Self, Error> {
        let device = words.device();
        layout.check(&device)?;
        check_same("fp8 words", words.dims(), layout.words_shape())?;
        check_words(words.dtype())?;
        scales.check(layout.scales_shape(), layout.scheme.granularity, &device)?;
        Ok(Self::of(layout, words, scales))
    }

    /// A tensor from codes \[M, rows, columns\] and scales of a file, row by row without padding.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of codes or scales than the layout has, or scales of the wrong
    /// kind; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when they exceed a buffer.
    pub fn from_codes(
        codes: &[u8],
        scales: &HostScales,
        layout: Fp8Layout,
        device: &Device,
    ) -> Result<Self, Error> {
        layout.check(device)?;
        let [_, _, columns] = layout.shape;
        Mismatch::check("fp8 codes", layout.shape.iter().product(), codes.len())?;
        let words = packed_rows(codes, columns);
        let data = TensorData::new(words, layout.words_shape());
        let words = Tensor::from_data(data, (device, DType::I32));
        let kind = layout.scheme.granularity.scale_type();
        check_same("type of scales", scales.scale_type(), kind)?;
        let scales = match scales {
            HostScales::F32(scales) => {
                let shape = layout.scales_shape();
                Mismatch::check("scales", shape.iter().product(), scales.len())?;
                let data = TensorData::new(scales.clone(), shape);
                Fp8Scales::F32(Tensor::from_data(data, (device, DType::F32)))
            }
            HostScales::E8M0(bytes) => {
                let [rows, across] = layout.scale_bytes();
                Mismatch::check("E8M0 scales", rows * across, bytes.len())?;
                let data = TensorData::new(packed_rows(bytes, across), layout.scales_shape());
                Fp8Scales::E8M0(Tensor::from_data(data, (device, DType::I32)))
            }
        };
        Ok(Self::of(layout, words, scales))
    }

    /// Stacks the matrices of all `parts`, one after the other: a way to make a stack whose values exceed the memory of the device.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for an empty list, or when a part differs from the first one in rows, columns, format
    /// or granularity, [`ErrorKind::Device`](crate::ErrorKind::Device) when it differs in its device;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the codes or scales exceed a buffer.
    pub fn concat(parts: Vec<Self>) -> Result<Self, Error> {
        let Some(first) = parts.first() else {
            return Err(Mismatch::new("fp8 parts", "at least 1", 0).into());
        };
        let (mut layout, device) = (first.layout, first.device());
        let matrices = parts.iter().map(|part| part.layout.shape[0]);
        layout.shape[0] = matrices.fold(0, usize::saturating_add);
        for part in &parts {
            let mut alike = layout;
            alike.shape[0] = part.layout.shape[0];
            check_same("fp8 part", part.layout, alike)?;
            check_equal(
                Fault::Device,
                "device of an fp8 part",
                part.device(),
                device.clone(),
            )?;
        }
        layout.check(&device)?;
        if layout.shape.contains(&0) {
            return Ok(Self::empty(layout, &device));
        }
        let (mut words, mut floats, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            words.push(part.words);
            match part.scales {
                Fp8Scales::F32(scales) => floats.push(scales),
                Fp8Scales::E8M0(scales) => bytes.push(scales),
            }
        }
        let scales = match layout.scheme.granularity.scale_type() {
            ScaleType::F32 => Fp8Scales::F32(Tensor::cat(floats, 0)),
            ScaleType::E8M0 => Fp8Scales::E8M0(Tensor::cat(bytes, 0)),
        };
        Self::from_parts(Tensor::cat(words, 0), scales, layout)
    }

    /// Reads the codes \[M, rows, columns\] back, row by row without padding.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn to_codes(&self) -> Result<Vec<u8>, Error> {
        let words = self.words.try_to_data().map_err(Error::device)?;
        unpacked_rows(words, self.layout.shape[2])
    }

    /// [`Fp8Tensor::to_codes`] for a caller that can't block, such as a browser.
    ///
    /// # Errors
    /// As [`Fp8Tensor::to_codes`].
    pub async fn to_codes_async(&self) -> Result<Vec<u8>, Error> {
        let words = self.words.to_data_async().await.map_err(Error::device)?;
        unpacked_rows(words, self.layout.shape[2])
    }

    /// Reads the scales back, row by row without padding.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn to_scales(&self) -> Result<HostScales, Error> {
        let data = match &self.scales {
            Fp8Scales::F32(scales) => scales.try_to_data(),
            Fp8Scales::E8M0(words) => words.try_to_data(),
        };
        self.host_scales(data.map_err(Error::device)?)
    }

    /// [`Fp8Tensor::to_scales`] for a caller that can't block, such as a browser.
    ///
    /// # Errors
    /// As [`Fp8Tensor::to_scales`].
    pub async fn to_scales_async(&self) -> Result<HostScales, Error> {
        let data = match &self.scales {
            Fp8Scales::F32(scales) => scales.to_data_async().await,
            Fp8Scales::E8M0(words) => words.to_data_async().await,
        };
        self.host_scales(data.map_err(Error::device)?)
    }

    /// Unpacks the scales from the data of their tensor.
    fn host_scales(&self, data: TensorData) -> Result<HostScales, Error> {
        match &self.scales {
            Fp8Scales::F32(_) => {
                let values = data.try_into_vec_as::<f32>();
                Ok(HostScales::F32(values.map_err(Error::device)?))
            }
            Fp8Scales::E8M0(_) => {
                let [_, across] = self.layout.scale_bytes();
                Ok(HostScales::E8M0(unpacked_rows(data, across)?))
            }
        }
    }

    /// Decodes the values \[M, rows, columns\]: code · scale, rounded to `dtype`.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a dtype other than f32, f16 and bf16,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device lacks the dtype, or the values are larger than a buffer
    /// that it binds.
    pub fn dequantize(&self, dtype: FloatDType) -> Result<Tensor<3>, Error> {
        let device = self.device();
        let dtype = DType::from(dtype);
        let Fp8Layout { shape, scheme } = self.layout;
        let problem = Problem::new(shape, element(dtype)?, scheme.granularity, scheme.format)?;
        if problem.is_empty() {
            return Ok(Tensor::zeros(shape, (&device, dtype)));
        }
        let scales = self.scales.clone().into_value();
        quantize::dequantize(self.words.clone(), scales, problem)
    }

    /// Computes the relative error ‖y − x‖ / ‖x‖ \[1\] on the device, where y is the decoded tensor and x the original; 0 when both are 0,
    /// NaN when x has a value that isn't finite.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x has another shape, and as
    /// [`Fp8Tensor::dequantize`].
    pub fn relative_error<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<1>, Error> {
        let x = stacked(x)?;
        check_same("source of fp8 codes", x.dims(), self.layout.shape)?;
        if x.shape().num_elements() == 0 {
            return Ok(Tensor::zeros([1], (&x.device(), DType::F32)));
        }
        let x = x.cast(FloatDType::F32);
        // x is scaled to magnitudes near 1, whose squares neither over- nor underflow.
        let unit = quantize::amax(x.clone())?
            .clamp_min(f32::MIN_POSITIVE)
            .reshape([1, 1, 1]);
        let y = self.dequantize(FloatDType::F32)?;
        let error = sum(((y - x.clone()) / unit.clone()).square());
        let norm = sum((x / unit).square()).clamp_min(f32::MIN_POSITIVE);
        Ok((error / norm).sqrt())
    }

    /// Bytes of codes and scales.
    pub fn bytes(&self) -> usize {
        let words: usize = self.layout.words_shape().iter().product();
        let scales: usize = self.scales.dims().iter().product();
        4 * (words + scales)
    }

    /// Shape, format and granularity.
    pub fn layout(&self) -> Fp8Layout {
        self.layout
    }

    /// The packed codes \[M, rows, ⌈columns/4⌉\]: four codes to a word, lane 0 in the low byte.
    pub fn words(&self) -> &Tensor<3, Int> {
        &self.words
    }

    /// The scales.
    pub fn scales(&self) -> &Fp8Scales {
        &self.scales
    }

    /// The device of the codes.
    pub fn device(&self) -> Device {
        self.words.device()
    }
}

/// The bytes of weights that are quantised at once: a stack may be larger than a buffer that the device binds.
const AT_ONCE: usize = 64 << 20;

/// Quantises a stack, a few matrices at a time; returns it with its relative error, which is read back.
pub(super) fn quantize_stack(
    w: Tensor<3>,
    quantizer: &Quantizer,
) -> Result<(Fp8Tensor, f32), Error> {
    let [matrices, n, k] = w.dims();
    if matrices * n * k == 0 {
        return Ok((Fp8Tensor::quantize(w, quantizer)?, 0.0));
    }
    let together = (AT_ONCE / (n * k * w.dtype().size()).max(1)).clamp(1, matrices.max(1));
    let (mut parts, mut errors, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    for first in (0..matrices).step_by(together) {
        let part = w.clone().narrow(0, first, together.min(matrices - first));
        let small = Fp8Tensor::quantize(part.clone(), quantizer)?;
        let norm = sum(part.clone().cast(DType::F32).square());
        errors.push(small.relative_error(part)?.square() * norm.clone());
        norms.push(norm);
        parts.push(small);
    }
    let all = |values: Vec<Tensor<1>>| sum(Tensor::cat(values, 0));
    let error = (all(errors) / all(norms).clamp_min(f32::MIN_POSITIVE)).sqrt();
    let error = error.try_into_vec_as::<f32>().map_err(Error::device)?;
    let error = error.first().copied().unwrap_or(0.0);
    Ok((Fp8Tensor::concat(parts)?, error))
}

/// Packs rows of `width` bytes into words, each row padded to whole words.
fn packed_rows(bytes: &[u8], width: usize) -> Vec<i32> {
    if width.is_multiple_of(LANES_PER_WORD) {
        let words = bytes.as_chunks::<LANES_PER_WORD>().0.iter();
        return words.map(|lanes| i32::from_le_bytes(*lanes)).collect();
    }
    let rows = bytes.chunks(width.max(1));
    let words = rows.flat_map(|row| pack(row).into_iter().map(|word| word as i32));
    words.collect()
}

/// The first `width` bytes of every row of words \[M, rows, words\].
fn unpacked_rows(words: TensorData, width: usize) -> Result<Vec<u8>, Error> {
    let row_words = words.shape().last().copied().unwrap_or(0);
    let words = words.try_into_vec_as::<i64>().map_err(Error::device)?;
    let rows = words.chunks(row_words.max(1));
    let bytes = rows.flat_map(|row| {
        let bytes = row.iter().flat_map(|word| (*word as u32).to_le_bytes());
        bytes.take(width).collect::<Vec<u8>>()
    });
    Ok(bytes.collect())
}
