//! What is attached to the parameter of a [`Weight`](super::Weight).

use super::super::low_rank::LowRank;
use super::super::matrices::Codes;
use super::super::product::Fp8Product;
use crate::blocks::BlockTensor;
use crate::sparse::Sparse24Tensor;
use burn::module::{Module, Param, Reparameterization, Reparameterizer};
use burn::tensor::{Device, Tensor};

/// The FP8 state, or what is stored in place of the values, that is attached to the parameter of a weight.
#[derive(Module, Debug)]
pub(in crate::fp8) struct Form {
    pub(in crate::fp8) product: Option<Fp8Product>,
    pub(in crate::fp8) codes: Option<Codes>,
    pub(in crate::fp8) sparse: Option<Sparse24Tensor>,
    pub(in crate::fp8) blocks: Option<BlockTensor>,
    /// Low-rank changes of a weight that doesn't train in FP8, in the order of their rows.
    pub(super) changes: Vec<LowRank>,
    /// The number of projections whose rows lie one after the other, such as a gate and an up projection.
    #[module(skip)]
    pub(super) parts: usize,
}

impl Form {
    pub(super) fn float(parts: usize) -> Self {
        Self {
            product: None,
            codes: None,
            sparse: None,
            blocks: None,
            changes: Vec::new(),
            parts,
        }
    }

    /// Whether nothing needs to be attached for products, but for the number of projections.
    pub(super) fn is_plain(&self) -> bool {
        self.product.is_none() && self.stored_on().is_none() && self.changes.is_empty()
    }

    /// The device of what is stored in place of the parameter's values; `None` if it has them.
    pub(super) fn stored_on(&self) -> Option<Device> {
        let codes = self.codes.as_ref().map(|codes| codes.matrices.device());
        let stored = codes.or_else(|| self.sparse.as_ref().map(Sparse24Tensor::device));
        stored.or_else(|| self.blocks.as_ref().map(BlockTensor::device))
    }

    /// The matrices, and the rows and columns of each, of what is stored in place of the parameter's values; `None` if it has them.
    pub(super) fn stored_shape(&self) -> Option<[usize; 3]> {
        match (&self.codes, &self.blocks, &self.sparse) {
            (Some(codes), ..) => Some(codes.matrices.layout().shape),
            (None, Some(blocks), _) => Some(blocks.layout().shape),
            (None, None, sparse) => {
                let [rows, columns] = sparse.as_ref()?.dims();
                Some([1, rows, columns])
            }
        }
    }
}

impl Reparameterization for Form {
    const NAME: &'static str = "fp8";

    // Products read the form themselves, so the parameter's value stays as it is.
    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        base
    }
}

/// A walk that attaches a form to the first parameter that it meets.
pub(super) struct Attach(pub(super) Option<Form>);

impl Reparameterizer for Attach {
    type Reparam = Form;

    fn reparameterize<const D: usize>(
        &mut self,
        _: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<Form>) {
        (param, self.0.take())
    }
}
