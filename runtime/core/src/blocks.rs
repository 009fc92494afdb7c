//! Weights in blocks of codes with scales, as GGUF files have them (what ggml calls quantized types), or with the codes, scales and zeros of
//! GPTQ and AWQ, or the codes and scales of NVFP4; and numbers of 16 bits.
//!
//! A [`BlockTensor`] holds these bytes, and no other copy. Products decode the blocks while they load them, in f32, so that their
//! results are those of the decoded weights. A layer is made of it by [`Weight::from_blocks`](crate::fp8::Weight::from_blocks); it doesn't
//! train, but gradients pass through it.

mod decoded;
pub(crate) mod interleaved;

use crate::Error;
use crate::check::{check_device, check_same, element};
use crate::ops::{Rows, grouped_gemm};
use crate::reduce::by_parts;
use burn::module::{Module, Param, ParamId};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::blocks::Layout;
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::{Fault, Mismatch};

pub(crate) use decoded::scaled;
pub use moebius_ops::blocks::BlockFormat;

/// Shape and format of a [`BlockTensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Matrices, and rows and columns of each.
    pub shape: [usize; 3],
    /// The format of the blocks, of which rows have a whole number.
    pub format: BlockFormat,
}

impl BlockLayout {
    /// The shape \[matrices, rows, words of a row\] of the words that a device has: each row is padded to whole words.
    pub fn words_shape(self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        [matrices, rows, self.format.row_words(columns)]
    }

    /// Bytes of the words; `None` for more than a machine counts.
    fn padded_bytes(self) -> Option<usize> {
        let [matrices, rows, columns] = self.shape;
        let Layout { values, bytes, .. } = self.format.layout();
        let row = (columns / values).checked_mul(bytes)?;
        let row = row.checked_next_multiple_of(4).filter(|row| *row > 0)?;
        let row = row.checked_add(4 * self.format.head())?;
        row.checked_mul(rows)?.checked_mul(matrices)
    }

    /// Bytes of the words, of a shape that has some.
    ///
    /// # Errors
    /// [`Mismatch`] for rows that aren't whole blocks, and sizes of 0 or with more bytes than a machine counts.
    fn checked(self) -> Result<usize, Mismatch> {
        let [matrices, rows, columns] = self.shape;
        self.format.check(columns)?;
        let padded = self.padded_bytes().filter(|bytes| *bytes > 0);
        padded.ok_or_else(|| {
            let expected = "sizes of at least 1 with bytes that can be counted";
            let got = format_args!("{matrices} x {rows} x {columns}");
            Mismatch::new("shape of weights in blocks", expected, got)
        })
    }

    /// Checks that rows are whole blocks, and that a buffer of the device may have as many bytes as the words take.
    ///
    /// # Errors
    /// As [`BlockTensor::from_bytes`], but for those of its bytes.
    pub(crate) fn check(self, device: &Device) -> Result<(), Error> {
        grouped_gemm::check_kept("weights in blocks", self.checked()?, device)
    }

    /// Checks words that are to be the blocks.
    ///
    /// # Errors
    /// [`Mismatch`] for a shape that no blocks have, and words of another shape or type.
    pub(crate) fn check_words(self, words: &TensorData) -> Result<(), Mismatch> {
        self.checked()?;
        let expected = self.words_shape();
        let (shape, dtype) = (words.shape().as_slice(), words.dtype());
        let right = shape == &expected[..] && dtype == DType::I32;
        let expected = format_args!("{expected:?} of I32");
        Mismatch::unless(
            right,
            "words of blocks",
            expected,
            format_args!("{shape:?} of {dtype:?}"),
        )
    }

    /// The words of the blocks in `bytes`, as [`BlockTensor::from_bytes`] takes them.
    ///
    /// # Errors
    /// [`Mismatch`] for a shape that no blocks have, and another number of bytes.
    pub(crate) fn words(self, bytes: &[u8]) -> Result<TensorData, Mismatch> {
        self.checked()?;
        let [matrices, rows, columns] = self.shape;
        let expected = matrices * rows * self.format.row_bytes(columns);
        Mismatch::check("bytes of blocks", expected, bytes.len())?;
        let words = self.format.to_words(bytes, columns)?.into_iter();
        let words: Vec<i32> = words.map(u32::cast_signed).collect();
        Ok(TensorData::new(words, self.words_shape()))
    }
}

/// A stack of matrices \[M, rows, columns\] in blocks of codes; a matrix is a stack of one.
///
/// ```
/// use burn::tensor::Tensor;
/// use moebius::blocks::{BlockFormat, BlockLayout, BlockTensor};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// // A row of two blocks of Q8_0: a scale of 0.5 in F16, and 32 codes of 3.
/// let block = [&[0x00, 0x38][..], &[3; 32][..]].concat();
/// let layout = BlockLayout { shape: [1, 1, 64], format: BlockFormat::Q8_0 };
///
/// let weights = BlockTensor::from_bytes(&block.repeat(2), layout, &device)?;
/// assert_eq!(weights.bytes(), 68);
/// let expected = Tensor::<3>::full([1, 1, 64], 1.5, &device);
/// assert_eq!(weights.to_dense()?.into_data(), expected.into_data());
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct BlockTensor {
    /// The words \[M, rows, words of a row\].
    words: Param<Tensor<3, Int>>,
    /// A marker whose length encodes the format, so that a record of another format isn't loaded here.
    format: Param<Tensor<1, Int>>,
    #[module(skip)]
    layout: BlockLayout,
    /// The dtype of inputs and outputs of products.
    #[module(skip)]
    dtype: DType,
    /// Whether the rows are interleaved, because they have been loaded for a processor.
    #[module(skip)]
    interleaved: bool,
}

/// The length of the marker of a format in a record, whose rows are interleaved or not.
fn marker(format: BlockFormat, interleaved: bool) -> usize {
    // What interleaved rows add is another number whenever their order has changed, so that no record of another order is loaded.
    const ORDER: usize = 1025;
    1 + 2 * format as usize + ORDER * usize::from(interleaved)
}

impl BlockTensor {
    /// The matrices whose blocks are `bytes`, a row after the other without padding, as a file has them.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for rows that aren't whole blocks, a size of 0, and another number of bytes than the layout
    /// has; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when they exceed a buffer of the device.
    pub fn from_bytes(bytes: &[u8], layout: BlockLayout, device: &Device) -> Result<Self, Error> {
        layout.check(device)?;
        Self::from_words(layout.words(bytes)?, layout, device)
    }

    /// The matrices with these words \[M, rows, words of a row\] in I32 ([`BlockLayout::words_shape`]): the bytes of each row and zeros behind them, four
    /// bytes in a word, the first in its lowest bits.
    ///
    /// # Errors
    /// As [`BlockTensor::from_bytes`], with words of another shape or type in place of another number of bytes.
    pub fn from_words(
        words: TensorData,
        layout: BlockLayout,
        device: &Device,
    ) -> Result<Self, Error> {
        Self::checked(words, layout, device, |words| {
            interleaved::stored(words, layout.format, device)
        })
    }

    /// The matrices with these words of rows that are [interleaved](moebius_ops::blocks::interleaved), as Flex multiplies them.
    ///
    /// # Errors
    /// As [`BlockTensor::from_words`], and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on other devices.
    pub fn from_interleaved(
        words: TensorData,
        layout: BlockLayout,
        device: &Device,
    ) -> Result<Self, Error> {
        let (what, got) = ("device for interleaved weights", "another device");
        Fault::Unsupported.unless(interleaved::are_on(device), what, "flex", got)?;
        Self::checked(words, layout, device, |words| words)
    }

    /// The matrices with the words that `stored` makes of those with the layout's shape.
    fn checked(
        words: TensorData,
        layout: BlockLayout,
        device: &Device,
        stored: impl FnOnce(TensorData) -> TensorData,
    ) -> Result<Self, Error> {
        layout.check(device)?;
        layout.check_words(&words)?;
        let words = Tensor::from_data(stored(words), (device, DType::I32));
        Ok(Self::of_words(words, layout, DType::F32))
    }

    /// The matrices with these words as they lie in the memory of their device ([`interleaved::stored`]), for inputs and outputs of `dtype`.
    pub(crate) fn of_words(words: Tensor<3, Int>, layout: BlockLayout, dtype: DType) -> Self {
        let device = words.device();
        let interleaved = interleaved::are_on(&device);
        let format = Tensor::zeros([marker(layout.format, interleaved)], (&device, DType::I32));
        Self {
            words: Param::initialized(ParamId::new(), words),
            format: Param::initialized(ParamId::new(), format),
            layout,
            dtype,
            interleaved,
        }
    }

    /// The words \[count, rows, words of a row\] of matrices from `first` on. Interleaved ones are put in rows on the host.
    pub(crate) fn words(&self, first: usize, count: usize) -> Result<Tensor<3, Int>, Error> {
        let words = self.words.val().narrow(0, first, count);
        if !self.is_interleaved() {
            return Ok(words);
        }
        let device = words.device();
        let words = words.try_into_data().map_err(Error::device)?;
        Ok(Tensor::from_data(
            interleaved::to_rows(words, self.layout.format),
            (&device, DType::I32),
        ))
    }

    /// Whether the rows are interleaved; without Flex, a program leaves out what would move them.
    fn is_interleaved(&self) -> bool {
        cfg!(feature = "flex") && self.interleaved
    }

    /// Shape and format.
    pub fn layout(&self) -> BlockLayout {
        self.layout
    }

    /// Bytes of the words.
    pub fn bytes(&self) -> usize {
        4 * self.layout.words_shape().iter().product::<usize>()
    }

    /// The device of the words.
    pub fn device(&self) -> Device {
        self.words.device()
    }

    /// The dtype of inputs and outputs of products.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// A copy for inputs and outputs of another dtype, f32, f16 or bf16; the blocks are the same.
    #[must_use]
    pub fn with_dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// Decodes the values \[M, rows, columns\] in f32. The words are read back.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when a record has put words of another shape here,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn to_dense(&self) -> Result<Tensor<3>, Error> {
        self.check(&self.device())?;
        let values = read_back(self.words(0, self.layout.shape[0])?, self.layout)?;
        Ok(values.reshape(self.layout.shape))
    }

    /// Decodes rows `rows` \[T\] of the first matrix: \[T, columns\] in f32, on the device.
    ///
    /// # Errors
    /// As [`BlockTensor::to_dense`].
    pub fn rows(&self, rows: Tensor<1, Int>) -> Result<Tensor<2>, Error> {
        if rows.dims() == [0] {
            let device = rows.device();
            self.check(&device)?;
            let none = [0, self.layout.shape[2]];
            return Ok(Tensor::empty(none, (&device, DType::F32)));
        }
        Ok(match scaled(self.words_of(rows)?, self.layout) {
            (products, Some(offsets)) => products + offsets,
            (products, None) => products,
        })
    }

    /// The words \[T, words of a row\] of rows `rows` \[T\] of the first matrix; T is at least 1.
    ///
    /// # Errors
    /// As [`BlockTensor::rows`].
    pub(crate) fn words_of(&self, rows: Tensor<1, Int>) -> Result<Tensor<2, Int>, Error> {
        self.check(&rows.device())?;
        let [_, count, across] = self.layout.words_shape();
        let words = self.words.val().narrow(0, 0, 1).reshape([count, across]);
        Ok(if self.is_interleaved() {
            interleaved::rows_of(&words, self.layout.format, rows)?
        } else {
            words.select(0, rows)
        })
    }

    /// Checks the words, which a record may have replaced, and that they are on `device`.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        // Handles of tensors take longer than what they are asked for.
        let words = &self.words;
        check_same("words of blocks", words.dims(), self.layout.words_shape())?;
        let dtype = words.dtype();
        let right = matches!(dtype, DType::I32 | DType::U32);
        let got = format_args!("{dtype:?}");
        Mismatch::unless(right, "dtype of words of blocks", "i32 or u32", got)?;
        let marked = self.format.dims()[0];
        Mismatch::check(
            "marker of the format of blocks",
            marker(self.layout.format, self.interleaved),
            marked,
        )?;
        Ok(check_device(
            "device of weights in blocks",
            words.device(),
            device,
        )?)
    }

    /// Computes y \[T, rows\] from x \[T, columns\] and a bias \[rows\], all checked by the caller.
    pub(crate) fn linear(&self, x: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
        let [_, n, k] = self.layout.shape;
        by_parts(x, bias, |x, bias| {
            let problem = Problem::dense(x.dims()[0], n, k)?;
            let bias = bias.map(Tensor::unsqueeze);
            self.product(x, bias, problem, Rows::All(None))
        })
    }

    /// Computes `problem` from the rows `of` x \[T or R, k\], these weights and a bias \[E, n\], in the dtype of x.
    pub(crate) fn product(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<2>>,
        problem: Problem,
        of: Rows<'_>,
    ) -> Result<Tensor<2>, Error> {
        let problem = Problem {
            bias: bias.is_some(),
            stored: Stored::Blocks(self.layout.format),
            interleaved: self.interleaved,
            element: element(x.dtype())?,
            ..problem
        };
        grouped_gemm::block_linear(x, self.words.val().into(), bias, of, problem)
    }
}

/// x · Wᵀ \[T, rows\] of x \[T, columns\] and one matrix in blocks, as [`crate::nn::linear`] computes it of values.
///
/// # Errors
/// As [`crate::nn::linear`], and for several matrices.
pub fn linear(x: Tensor<2>, w: &BlockTensor) -> Result<Tensor<2>, Error> {
    let [matrices, n, k] = w.layout.shape;
    Mismatch::check("matrices of a linear layer", 1, matrices)?;
    check_same("columns of x [T,k], those of W [n,k]", x.dims()[1], k)?;
    w.check(&x.device())?;
    if x.dims()[0] == 0 {
        return Ok(Tensor::empty([0, n], (&x.device(), x.dtype())));
    }
    w.linear(x, None)
}

/// Reads words back and decodes all rows of them on the host: \[rows, columns\].
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
pub(crate) fn read_back<const D: usize>(
    words: Tensor<D, Int>,
    layout: BlockLayout,
) -> Result<Tensor<2>, Error> {
    let (device, columns) = (words.device(), layout.shape[2]);
    let words = words.try_into_vec_as::<i64>().map_err(Error::device)?;
    let words: Vec<u32> = words.into_iter().map(|word| word as u32).collect();
    let values = layout.format.decoded(&words, columns);
    let shape = [values.len() / columns, columns];
    let values = TensorData::new(values, shape);
    Ok(Tensor::from_data(values, (&device, DType::F32)))
}
