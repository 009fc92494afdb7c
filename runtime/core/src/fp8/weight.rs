//! [`Weight`]: one weight of a product, in any precision.

mod form;
mod walk;

use super::activations::{ActivationScaling, Activations};
use super::low_rank::{self, LowRank};
use super::matrices::{Codes, Fp8Matrices, Instructions};
use super::product::{Fp8Product, Fp8Recipe};
use super::tensor::{Fp8Tensor, quantize_stack};
use crate::Error;
use crate::blocks::BlockTensor;
use crate::check::{reshaped, stacked};
use crate::parameters::{cast_all, cast_param, zeros};
use crate::sparse::Sparse24Tensor;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use moebius_ops::quantize::Quantizer;
use moebius_ops::scaling::Granularity;
use moebius_ops::{Fault, Mismatch};

use form::Attach;
pub(super) use form::Form;
pub(super) use walk::ATTACHED;

/// How a weight keeps its values. All but [`Precision::Fp8Training`] take [low-rank changes](LowRank), which train while the weight stays as it
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A parameter in floating point.
    Float,
    /// A parameter in floating point whose products round it to FP8; see [`training`](super::training).
    Fp8Training,
    /// FP8 codes and scales without another copy of the values, for inference and for gradients to pass through.
    Fp8,
    /// Two of each four neighbouring values of an output and their places ([`crate::sparse`]), which don't train.
    Sparse24,
    /// Blocks of codes with scales ([`crate::blocks`]), for inference and for gradients to pass through.
    Blocks,
}

/// The weights of a product in any [`Precision`]: the matrix \[out, in\] of a linear layer, or the stack
/// \[E, out, in\] of a layer's experts.
///
/// A weight is one parameter of Burn. What FP8 needs besides the values is attached to the parameter, as Burn attaches adapters, under the
/// name `fp8`: devices, optimizers and records see both, and a walk over a module ([`Fp8Conversion`](super::Fp8Conversion),
/// [`training::update`](super::training::update)) finds every weight in any container. What is kept of 2:4 weights, and blocks of codes,
/// are attached in the same way. In a weight of FP8 codes, of 2:4 or of blocks, the parameter itself is a single 0 that nothing reads.
///
/// Codes and blocks are made on a device that records no gradients. [`Module::train`] puts them on the one that does: there, they don't train,
/// but x has a gradient.
///
/// ```
/// use burn::module::Param;
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::{Fp8Format, Granularity, Precision, Quantizer, Weight};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let values = Tensor::<2>::random([256, 512], Distribution::Default, &device);
/// let weight = Weight::from(Param::from_tensor(values));
///
/// let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
/// let (codes, relative_error) = weight.quantize(&quantizer)?;
/// assert_eq!(codes.precision(), Precision::Fp8);
/// assert_eq!(codes.bytes(), 256 * 512 + 4 * 256);
/// assert!(relative_error < 0.04);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Weight<const D: usize>(Param<Tensor<D>>);

/// A weight as an operand of a product, to whose result [low-rank changes](Weight::changes) are added.
pub(crate) enum Operand<'a, const D: usize> {
    Float(Tensor<D>),
    Training(&'a Fp8Product, Tensor<D>),
    Codes(&'a Codes),
    Sparse24(&'a Sparse24Tensor),
    Blocks(&'a BlockTensor),
}

impl<const D: usize> From<Param<Tensor<D>>> for Weight<D> {
    fn from(values: Param<Tensor<D>>) -> Self {
        Self::of_parts(values, 1)
    }
}

impl<const D: usize> Weight<D> {
    fn of(param: Param<Tensor<D>>, form: Form) -> Self {
        let id = param.id;
        // Burn never replaces an attachment, so a parameter that has one is replaced by a parameter without.
        let attached = form_of(&param).is_some();
        let mut param = match (attached, form.stored_on()) {
            (false, _) => param,
            (true, None) => param.map(|values| values),
            (true, Some(device)) => placeholder(&device),
        };
        param.id = id;
        Self(param.apply_reparameterization(Attach(Some(form))))
    }

    /// A weight of codes and scales: one matrix if D is 2, a stack if D is 3; the rows of a matrix are those of `parts` projections.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a stack where a matrix is expected, and as
    /// [`Fp8Matrices::new`].
    pub fn from_fp8(codes: Fp8Tensor, parts: usize) -> Result<Self, Error> {
        check_stack::<D>(codes.layout().shape[0])?;
        let matrices = Fp8Matrices::new(codes, parts)?;
        let device = matrices.device();
        let codes = Codes {
            activations: ActivationScaling::new(Activations::Float, &device),
            instructions: Instructions::None,
            matrices,
            dtype: DType::F32,
        };
        Ok(Self::of_codes(codes))
    }

    /// A weight of 2:4 values; only a matrix \[out, in\] can be one.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) where a stack is expected.
    pub fn from_sparse24(weights: Sparse24Tensor) -> Result<Self, Error> {
        Mismatch::check("dimensions of a weight of 2:4 values", 2, D)?;
        let device = weights.device();
        let form = Form {
            sparse: Some(weights),
            ..Form::float(1)
        };
        Ok(Self::of(placeholder(&device), form))
    }

    /// A weight in blocks of codes: one matrix if D is 2, a stack if D is 3.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a stack where a matrix is expected.
    pub fn from_blocks(weights: BlockTensor) -> Result<Self, Error> {
        check_stack::<D>(weights.layout().shape[0])?;
        let device = weights.device();
        let form = Form {
            blocks: Some(weights),
            ..Form::float(1)
        };
        Ok(Self::of(placeholder(&device), form))
    }

    /// A weight of these codes, which are as many matrices as it has.
    pub(crate) fn of_codes(codes: Codes) -> Self {
        let (device, parts) = (codes.matrices.device(), codes.matrices.parts());
        let form = Form {
            codes: Some(codes),
            ..Form::float(parts)
        };
        Self::of(placeholder(&device), form)
    }

    /// A weight whose matrices are `parts` projections each; a lazy parameter's values are drawn at their first use.
    pub(crate) fn of_parts(values: Param<Tensor<D>>, parts: usize) -> Self {
        Self::of(values, Form::float(parts))
    }

    /// A copy whose matrices are `parts` projections each, with their rows one after the other: 2 for a gate and an up projection. Codes
    /// are laid out by this number, so set it before a weight is quantised; a weight of codes, of 2:4 or of blocks is returned unchanged.
    #[must_use]
    pub fn with_parts(self, parts: usize) -> Self {
        if parts == self.parts() {
            return self;
        }
        let form = Form {
            product: self.product().cloned(),
            changes: self.changes().to_vec(),
            ..Form::float(parts)
        };
        match self.stored_on() {
            Some(_) => self,
            None => Self::of(self.0, form),
        }
    }

    /// A copy that trains in FP8.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for FP8 codes, 2:4 and blocks, which don't train, and the errors of [`Fp8Recipe::validate`].
    pub fn in_fp8(self, recipe: Fp8Recipe) -> Result<Self, Error> {
        let product = Fp8Product::init(recipe, &self.0.lazy_device())?;
        self.with_product(product)
    }

    /// A copy that trains in FP8 with the histories and scales of `product`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for FP8 codes, 2:4 and blocks, which don't train.
    pub fn with_product(self, product: Fp8Product) -> Result<Self, Error> {
        self.check_float()?;
        let form = Form {
            product: Some(product),
            ..Form::float(self.parts())
        };
        Ok(Self::of(self.0, form))
    }

    /// A copy with these low-rank changes in place of any others, in the order of their rows. A weight in floating point trains on unless it is
    /// frozen ([`Module::no_grad`]).
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for a weight that trains in FP8 and for codes before which activations are rounded,
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another shape or dtype, [`ErrorKind::Device`](crate::ErrorKind::Device) for another
    /// device, and [`ErrorKind::Config`](crate::ErrorKind::Config) for rows that the weight doesn't have or that two changes share.
    pub fn with_changes(self, changes: Vec<LowRank>) -> Result<Self, Error> {
        let what = "weight with low-rank changes";
        let rounded = self.product().is_some() || self.activations().is_some_and(rounds);
        let expected = "one that is multiplied by what isn't rounded";
        let got = format_args!("{:?}", self.precision());
        Fault::State.unless(!rounded, what, expected, got)?;
        let shape = match self.dims().as_slice() {
            [rows, columns] => [1, *rows, *columns],
            [matrices, rows, columns] => [*matrices, *rows, *columns],
            other => return Err(Mismatch::new(what, "2 or 3 dimensions", other.len()).into()),
        };
        low_rank::check(&changes, shape, self.dtype(), &self.device())?;
        let form = Form {
            changes,
            ..self.form()
        };
        Ok(Self::of(self.0, form))
    }

    /// The low-rank changes of the weight, if it has any.
    pub fn changes(&self) -> &[LowRank] {
        match form_of(&self.0) {
            Some(form) => &form.changes,
            None => &[],
        }
    }

    /// Rounds the values to codes, detached from the graph; returns the coded weight, and its relative error ‖decoded − before‖ / ‖before‖,
    /// which is read back. This weight stays as it is.
    ///
    /// # Errors
    /// As [`Fp8Tensor::quantize`] and [`Weight::from_fp8`].
    pub fn quantize(&self, quantizer: &Quantizer) -> Result<(Self, f32), Error> {
        let values = self.values()?.without_autodiff();
        let dtype = values.dtype();
        let (codes, error) = quantize_stack(stacked(values)?, quantizer)?;
        Ok((Self::from_fp8(codes, self.parts())?.cast(dtype), error))
    }

    /// A copy of a weight of codes, with activations rounded as `activations` says.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for a weight without codes and one with low-rank changes,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a stack and dynamic scales that several rows share, because rows past the last
    /// expert's are undefined.
    pub fn with_activations(self, activations: ActivationScaling) -> Result<Self, Error> {
        check_activations::<D>(activations.source())?;
        if rounds(&activations) {
            self.check_unchanged()?;
        }
        self.with_codes("weight with rounded activations", |codes| Codes {
            activations,
            ..codes
        })
    }

    /// A copy of a weight of codes, with products that use the given FP8 instructions of the device.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) for a weight without codes.
    pub fn with_unproven_instructions(self, instructions: Instructions) -> Result<Self, Error> {
        self.with_codes("weight with FP8 instructions", |codes| Codes {
            instructions,
            ..codes
        })
    }

    /// A copy with changed codes; an error about a weight without codes calls it `what`.
    fn with_codes(
        self,
        what: &'static str,
        change: impl FnOnce(Codes) -> Codes,
    ) -> Result<Self, Error> {
        let Some(codes) = self.codes_of() else {
            return Err(Fault::State
                .error(what, "FP8 codes", "floating point")
                .into());
        };
        let form = Form {
            codes: Some(change(codes.clone())),
            ..self.form()
        };
        Ok(Self::of(self.0, form))
    }

    /// A copy in another dtype; for codes, this is the dtype of the product's inputs and outputs.
    #[must_use]
    pub(crate) fn cast(self, dtype: DType) -> Self {
        let Some(form) = form_of(&self.0).cloned() else {
            return Self(cast_param(self.0, dtype));
        };
        let param = match form.stored_on() {
            Some(_) => self.0,
            None => cast_param(self.0, dtype),
        };
        let form = Form {
            codes: form.codes.map(|codes| Codes { dtype, ..codes }),
            sparse: form.sparse.map(|weights| weights.cast(dtype)),
            blocks: form.blocks.map(|weights| weights.with_dtype(dtype)),
            changes: cast_all(form.changes, dtype),
            ..form
        };
        Self::of(param, form)
    }

    /// The identifier of the parameter in optimizers and records.
    pub fn id(&self) -> ParamId {
        self.0.id
    }

    /// The precision of the values.
    pub fn precision(&self) -> Precision {
        match self.operand() {
            Operand::Float(_) => Precision::Float,
            Operand::Training(..) => Precision::Fp8Training,
            Operand::Codes(_) => Precision::Fp8,
            Operand::Sparse24(_) => Precision::Sparse24,
            Operand::Blocks(_) => Precision::Blocks,
        }
    }

    /// The FP8 training state of the weight's product; `None` for a weight that doesn't train in FP8.
    pub fn product(&self) -> Option<&Fp8Product> {
        form_of(&self.0)?.product.as_ref()
    }

    /// The codes and scales; `None` for a weight without them.
    pub fn codes(&self) -> Option<&Fp8Matrices> {
        Some(&self.codes_of()?.matrices)
    }

    /// The kept values and their places; `None` for a weight that isn't 2:4.
    pub fn sparse24(&self) -> Option<&Sparse24Tensor> {
        form_of(&self.0)?.sparse.as_ref()
    }

    /// The blocks of codes; `None` for a weight without them.
    pub fn blocks(&self) -> Option<&BlockTensor> {
        form_of(&self.0)?.blocks.as_ref()
    }

    /// The device of what is stored in place of the parameter's values; `None` if it has them.
    fn stored_on(&self) -> Option<Device> {
        form_of(&self.0)?.stored_on()
    }

    /// The FP8 instructions of the device that products with these codes use; `None` for a weight without codes.
    pub fn instructions(&self) -> Option<Instructions> {
        Some(self.codes_of()?.instructions)
    }

    /// How activations are rounded before products with codes; `None` for a weight without codes.
    pub fn activations(&self) -> Option<&ActivationScaling> {
        Some(&self.codes_of()?.activations)
    }

    /// The values, with low-rank changes written into them: those of the parameter, the decoded codes, or those of 2:4 or blocks, which are read
    /// back.
    ///
    /// # Errors
    /// The errors of [`Fp8Matrices::to_tensor`], [`Fp8Tensor::dequantize`], [`Sparse24Tensor::to_dense`] and [`BlockTensor::to_dense`], and of a
    /// device that can't multiply the factors of a change.
    pub fn values(&self) -> Result<Tensor<D>, Error> {
        let (values, shape) = (self.unchanged()?, self.dims());
        match self.changes() {
            [] => Ok(values),
            changes => {
                let merged = low_rank::merged(stacked(values)?, changes)?;
                Ok(reshaped(merged, shape))
            }
        }
    }

    /// The values without low-rank changes.
    fn unchanged(&self) -> Result<Tensor<D>, Error> {
        if let Some(weights) = self.sparse24() {
            return Ok(reshaped(weights.to_dense()?, self.dims()));
        }
        if let Some(weights) = self.blocks() {
            return Ok(reshaped(weights.to_dense()?, self.dims()).cast(weights.dtype()));
        }
        let Some(codes) = self.codes_of() else {
            return Ok(self.0.val());
        };
        let values = codes.matrices.to_tensor()?.dequantize(FloatDType::F32)?;
        Ok(reshaped(values, self.dims()).cast(codes.dtype))
    }

    /// Returns the values of the parameter.
    ///
    /// # Errors
    /// [`Mismatch`] for codes, 2:4, blocks and low-rank changes.
    pub(crate) fn float(&self) -> Result<Tensor<D>, Mismatch> {
        self.check_float()?;
        Ok(self.0.val())
    }

    /// The parameter.
    ///
    /// # Errors
    /// [`Mismatch`] for codes, 2:4, blocks and low-rank changes.
    pub(crate) fn into_float(self) -> Result<Param<Tensor<D>>, Mismatch> {
        self.check_float()?;
        Ok(self.0.materialize())
    }

    fn check_float(&self) -> Result<(), Mismatch> {
        let got = match (self.sparse24(), self.blocks()) {
            (Some(_), _) => "2:4",
            (None, Some(_)) => "blocks of codes",
            (None, None) => "FP8 codes",
        };
        let float = self.stored_on().is_none();
        Fault::State.unless(float, "weight", "floating point", got)?;
        self.check_unchanged()
    }

    /// Refuses low-rank changes.
    pub(crate) fn check_unchanged(&self) -> Result<(), Mismatch> {
        let (right, expected) = (self.changes().is_empty(), "one without changes");
        Fault::State.unless(right, "weight", expected, "low-rank changes")
    }

    pub(crate) fn operand(&self) -> Operand<'_, D> {
        match form_of(&self.0) {
            Some(Form {
                codes: Some(codes), ..
            }) => Operand::Codes(codes),
            Some(Form {
                sparse: Some(weights),
                ..
            }) => Operand::Sparse24(weights),
            Some(Form {
                blocks: Some(weights),
                ..
            }) => Operand::Blocks(weights),
            Some(Form {
                product: Some(product),
                ..
            }) => Operand::Training(product, self.0.val()),
            _ => Operand::Float(self.0.val()),
        }
    }

    /// A copy of what is attached to the parameter.
    fn form(&self) -> Form {
        form_of(&self.0).map_or_else(|| Form::float(1), Form::clone)
    }

    /// The codes with what products do with them; `None` for a weight without codes.
    pub(crate) fn codes_of(&self) -> Option<&Codes> {
        form_of(&self.0)?.codes.as_ref()
    }

    /// The number of projections in a matrix.
    pub(crate) fn parts(&self) -> usize {
        form_of(&self.0).map_or(1, |form| form.parts)
    }

    /// The shape of the values.
    pub fn dims(&self) -> [usize; D] {
        match form_of(&self.0).and_then(Form::stored_shape) {
            // A stack of one matrix drops its first dimension.
            Some(shape) => std::array::from_fn(|at| shape[3 - D + at]),
            // `dims()` isn't called here, because it draws the values of a lazy parameter.
            None => self.0.lazy_shape().dims(),
        }
    }

    /// The dtype of the values; for codes, the dtype of the product's inputs and outputs.
    pub fn dtype(&self) -> DType {
        let stored = self.codes_of().map(|codes| codes.dtype);
        let stored = stored.or_else(|| self.sparse24().map(Sparse24Tensor::dtype));
        let stored = stored.or_else(|| self.blocks().map(BlockTensor::dtype));
        stored.unwrap_or_else(|| self.0.dtype())
    }

    /// The device of the weight.
    pub fn device(&self) -> Device {
        self.stored_on().unwrap_or_else(|| self.0.device())
    }

    /// Bytes of values and of the factors of low-rank changes, of codes and scales, of kept values and places, or of blocks.
    pub fn bytes(&self) -> usize {
        let values = || self.0.lazy_shape().num_elements() * self.0.dtype().size();
        let stored = self.codes().map(Fp8Matrices::bytes);
        let stored = stored.or_else(|| self.sparse24().map(Sparse24Tensor::bytes));
        let stored = stored.or_else(|| self.blocks().map(BlockTensor::bytes));
        let changes = self.changes().iter().map(LowRank::bytes);
        stored.unwrap_or_else(values) + changes.sum::<usize>()
    }

    /// Returns the weight whose parameter a walk has met; returns any other parameter as the error.
    pub(super) fn met(param: Param<Tensor<D>>) -> Result<Self, Param<Tensor<D>>> {
        match form_of(&param) {
            Some(_) => Ok(Self(param)),
            None => Err(param),
        }
    }

    /// Returns the parameter for a walk to continue with.
    pub(super) fn into_param(self) -> Param<Tensor<D>> {
        self.0
    }
}

/// Checks that a weight with D dimensions can have `stack` matrices.
fn check_stack<const D: usize>(stack: usize) -> Result<(), Mismatch> {
    match D {
        2 => Mismatch::check("matrices of a weight [out, in]", 1, stack),
        3 => Ok(()),
        _ => Err(Mismatch::new("dimensions of a weight", "2 or 3", D)),
    }
}

/// The parameter of a weight of codes, of 2:4 or of blocks; it takes no memory until something reads it.
fn placeholder<const D: usize>(device: &Device) -> Param<Tensor<D>> {
    zeros([1; D], device).set_require_grad(false)
}

fn form_of<const D: usize>(param: &Param<Tensor<D>>) -> Option<&Form> {
    param.reparameterization()
}

/// The forms of all weights of a module.
pub(super) fn forms<M: Module>(module: &M) -> Vec<Form> {
    struct Forms(Vec<Form>);
    impl ModuleVisitor for Forms {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(form_of(param).cloned());
        }
    }
    let mut forms = Forms(Vec::new());
    module.visit(&mut forms);
    forms.0
}

/// Whether a scaling rounds activations.
fn rounds(activations: &ActivationScaling) -> bool {
    activations.source() != Activations::Float
}

/// Refuses activations that a weight with D dimensions doesn't support.
pub(super) fn check_activations<const D: usize>(source: Activations) -> Result<(), Error> {
    source.validate()?;
    let several = matches!(
        source,
        Activations::Dynamic(Granularity::Tensor | Granularity::Block { rows: 2.., .. })
    );
    let expected = "scales of one row, or one for all batches";
    let (right, got) = (D != 3 || !several, format_args!("{source:?}"));
    let what = "activations of experts";
    Ok(Fault::Config.unless(right, what, expected, got)?)
}
