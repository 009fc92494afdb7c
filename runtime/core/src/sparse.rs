//! Structured sparsity of weights: 2:4, which is also called semi-structured. Of each four neighbouring weights of an output, two are kept.
//!
//! A [`Sparse24Tensor`] holds those two and their places, 53.1 % of the bytes of the dense weights in f32 and 56.3 % in 16 bits, and no
//! other copy. Products put the weights together while they load them, so their results are those of the dense weights with 0 in place of
//! what was dropped. [`Linear::sparsify`](crate::nn::Linear::sparsify) drops weights by magnitude, and [`Sparse24Tensor::pack`] those that
//! another method has chosen.

use crate::Error;
use crate::check::{check_device, check_same, element};
use crate::ops::{Rows, grouped_gemm};
use crate::reduce::by_parts;
use burn::module::{Module, Param, ParamId};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use moebius_ops::Mismatch;
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::grouped_gemm::sparse24::{self, Packed};

/// A matrix W \[rows, columns\] of which two of each four neighbouring values of a row are kept, and the others are 0: f32, f16 or bf16.
///
/// The kept values are \[rows, columns/2\], in the order of their columns. Their places are words \[rows, ⌈columns/32⌉\] with four bits for
/// each group of four columns, the first group in the lowest bits: the place of the first kept value in two bits, and that of the second in
/// the next two. Only x and a bias have gradients in products with them.
///
/// ```
/// use burn::tensor::Tensor;
/// use moebius::sparse::Sparse24Tensor;
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let w = Tensor::<2>::from_floats([[1.0, -3.0, 2.0, 0.5]], &device).repeat_dim(1, 8);
///
/// let sparse = Sparse24Tensor::from_dense(w)?;
/// assert_eq!(sparse.bytes(), 16 * 4 + 4);
/// let dense = sparse.to_dense()?.narrow(1, 0, 4);
/// let kept = Tensor::<2>::from_floats([[0.0, -3.0, 2.0, 0.0]], &device);
/// assert_eq!(dense.into_data(), kept.into_data());
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Sparse24Tensor {
    /// The kept values \[rows, columns/2\].
    kept: Param<Tensor<2>>,
    /// The words of their places \[rows, ⌈columns/32⌉\].
    places: Param<Tensor<2, Int>>,
}

impl Sparse24Tensor {
    /// Keeps the two values of largest magnitude of each group of W \[rows, columns\]; of equal ones, those that come first. W is read back,
    /// and stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the number of columns isn't a multiple of 4, for NaN, and for a dtype other than
    /// f32, f16 and bf16; [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn from_dense(w: Tensor<2>) -> Result<Self, Error> {
        sparse24::check(w.dims()[1])?;
        let values = read(&w)?;
        let mask = sparse24::largest(&values)?;
        Self::packed(&w, &values, &mask)
    }

    /// Keeps the values of W \[rows, columns\] where `mask`, of the same shape, is true. W and the mask are read back.
    ///
    /// # Errors
    /// As [`Sparse24Tensor::from_dense`] except for NaN, and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a mask of another shape, or
    /// one that doesn't keep exactly two values of each group.
    pub fn pack(w: Tensor<2>, mask: Tensor<2, Bool>) -> Result<Self, Error> {
        sparse24::check(w.dims()[1])?;
        check_same("mask of W", mask.dims(), w.dims())?;
        let mask = mask.int().try_into_vec_as::<i64>().map_err(Error::device)?;
        let mask: Vec<bool> = mask.into_iter().map(|kept| kept != 0).collect();
        Self::packed(&w, &read(&w)?, &mask)
    }

    /// The marked ones of `values`, which are those of `w`, on its device and in its dtype.
    fn packed(w: &Tensor<2>, values: &[f32], mask: &[bool]) -> Result<Self, Error> {
        let ([rows, columns], device, dtype) = (w.dims(), w.device(), w.dtype());
        element(dtype)?;
        let Packed { kept, places } = sparse24::pack(values, mask, columns)?;
        let kept = TensorData::new(kept, [rows, columns / 2]);
        let kept = Tensor::<2>::from_data(kept, (&device, DType::F32)).cast(dtype);
        let places: Vec<i32> = places.into_iter().map(|word| word as i32).collect();
        let places = TensorData::new(places, [rows, sparse24::place_words(columns)]);
        let places = Tensor::from_data(places, (&device, DType::I32));
        Ok(Self {
            kept: Param::from_tensor(kept).set_require_grad(false),
            places: Param::initialized(ParamId::new(), places),
        })
    }

    /// The dense values \[rows, columns\], with 0 in place of what was dropped, in the dtype of those that are kept. These are read back.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when a record has put tensors of other shapes here,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
    pub fn to_dense(&self) -> Result<Tensor<2>, Error> {
        let (kept, device) = (self.kept.val(), self.device());
        self.check(&device)?;
        let places = self.places.val().try_into_vec_as::<i64>();
        let places = places.map_err(Error::device)?.into_iter();
        let places: Vec<u32> = places.map(|word| word as u32).collect();
        let [rows, columns] = self.dims();
        let dense = sparse24::decoded(&read(&kept)?, &places, columns);
        let dense = TensorData::new(dense, [rows, columns]);
        Ok(Tensor::<2>::from_data(dense, (&device, DType::F32)).cast(kept.dtype()))
    }

    /// The kept values \[rows, columns/2\].
    pub fn kept(&self) -> Tensor<2> {
        self.kept.val()
    }

    /// The words of the places of kept values, \[rows, ⌈columns/32⌉\].
    pub fn places(&self) -> Tensor<2, Int> {
        self.places.val()
    }

    /// The shape \[rows, columns\] of the dense values.
    pub fn dims(&self) -> [usize; 2] {
        let [rows, half] = self.kept.dims();
        [rows, 2 * half]
    }

    /// The dtype of the values.
    pub fn dtype(&self) -> DType {
        self.kept.dtype()
    }

    /// The device of the values.
    pub fn device(&self) -> Device {
        self.kept.device()
    }

    /// Bytes of values and places.
    pub fn bytes(&self) -> usize {
        let [kept, places] = [self.kept.dims(), self.places.dims()].map(|[m, n]| m * n);
        kept * self.dtype().size() + places * 4
    }

    /// A copy in another dtype.
    pub(crate) fn cast(self, dtype: DType) -> Self {
        let kept = self.kept.map(|kept| kept.cast(dtype).detach());
        Self {
            kept: kept.set_require_grad(false),
            ..self
        }
    }

    /// Checks the tensors, which a record may have replaced, and that they are on `device`.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let ([rows, columns], places) = (self.dims(), &self.places);
        sparse24::check(columns)?;
        let expected = [rows, sparse24::place_words(columns)];
        check_same("places of 2:4 weights", places.dims(), expected)?;
        let (dtype, right) = (
            places.dtype(),
            matches!(places.dtype(), DType::I32 | DType::U32),
        );
        let what = "dtype of the places of 2:4 weights";
        Mismatch::unless(right, what, "i32 or u32", format_args!("{dtype:?}"))?;
        check_device("device of 2:4 weights", self.device(), device)?;
        // Words have no gradients, so they don't say whether their device records any.
        let (own, given) = (places.device().inner(), device.clone().inner());
        Ok(check_device(
            "device of the places of 2:4 weights",
            own,
            &given,
        )?)
    }

    /// Computes x · Wᵀ + b \[T, rows\] from x \[T, columns\] and b \[rows\], all checked by the caller.
    pub(crate) fn linear(&self, x: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
        let [n, k] = self.dims();
        by_parts(x, bias, |x, bias| {
            let problem = Problem {
                element: element(x.dtype())?,
                ..Problem::dense(x.dims()[0], n, k)?
            };
            let w = (self.kept().unsqueeze(), Some(self.places().unsqueeze()));
            let bias = bias.map(Tensor::unsqueeze);
            grouped_gemm::run(x, w, bias, Rows::All(None), problem)
        })
    }
}

/// Reads the values of a tensor back, which f32 holds exactly.
fn read(values: &Tensor<2>) -> Result<Vec<f32>, Error> {
    values
        .clone()
        .try_into_vec_as::<f32>()
        .map_err(Error::device)
}
