//! Elements in their places: comparison, masks, creation, booleans.

use super::{LowerError, Lowering, tensor_type};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, Reduction, Unary, Value};
use burn_ir::{
    BaseOperationIr, BinaryOpIr, BoolOperationIr, CreationOpIr, MaskFillOpIr, MaskWhereOpIr,
    ScalarOpIr, TensorIr,
};

impl Lowering<'_> {
    /// What is the same for floats, integers and booleans.
    pub(super) fn elements(&mut self, op: &BaseOperationIr) -> Result<(), LowerError> {
        use BaseOperationIr as Op;
        match op {
            Op::Equal(d) => self.compare(d, Compare::Eq),
            Op::NotEqual(d) => self.compare(d, Compare::Ne),
            Op::EqualElem(d) => self.compare_scalar(d, Compare::Eq),
            Op::NotEqualElem(d) => self.compare_scalar(d, Compare::Ne),
            Op::MaskWhere(d) => self.mask_where(d),
            Op::MaskFill(d) => self.mask_fill(d),
            Op::Cast(d) => self.convert(&d.input, &d.out),
            // What is in an empty tensor isn't said: zeros, so that a program's results are always the same.
            Op::Empty(d) | Op::Zeros(d) => self.creation(d, 0.0),
            Op::Ones(d) => self.creation(d, 1.0),
            Op::All(d) => self.logical(&d.input, &d.out, None, Reduction::And),
            Op::Any(d) => self.logical(&d.input, &d.out, None, Reduction::Or),
            Op::AllDim(d) => self.logical(&d.input, &d.out, Some(d.axis), Reduction::And),
            Op::AnyDim(d) => self.logical(&d.input, &d.out, Some(d.axis), Reduction::Or),
            Op::Select(d) => self.select_indices(d),
            Op::SelectAssign(d) => self.select_assign(d),
            Op::Gather(d) => self.gather(d),
            Op::Scatter(d) => self.scatter(d),
            Op::GatherNd(d) => self.gather_nd(d),
            Op::ScatterNd(d) => self.scatter_nd(d),
            layout => self.layout(layout),
        }
    }

    /// What only booleans have.
    pub(super) fn boolean(&mut self, op: &BoolOperationIr) -> Result<(), LowerError> {
        use BoolOperationIr as Op;
        match op {
            Op::IntoFloat(d) | Op::IntoInt(d) => self.convert(&d.input, &d.out),
            Op::Not(d) => self.map(&d.input, &d.out, |l, x| l.b.unary(Unary::Not, x)),
            Op::And(d) => self.binary(d, Binary::And),
            Op::Or(d) => self.binary(d, Binary::Or),
            Op::Xor(d) => self.binary(d, Binary::Xor),
        }
    }

    /// `out` = f(`input`)
    pub(super) fn map(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        f: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let y = f(self, x);
        self.finish(out, y)
    }

    /// The elements as the output's type.
    pub(super) fn convert(&mut self, input: &TensorIr, out: &TensorIr) -> Result<(), LowerError> {
        self.map(input, out, |_, x| x)
    }

    /// `out` = f(`lhs`, `rhs`), of tensors repeated to its shape.
    pub(super) fn map_two(
        &mut self,
        d: &BinaryOpIr,
        f: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Result<(), LowerError> {
        let (x, y) = self.pair(&d.lhs, &d.rhs, &d.out.shape)?;
        let z = f(self, x, y);
        self.finish(&d.out, z)
    }

    /// `out` = f(`lhs`, `rhs`), of a tensor and a number.
    pub(super) fn map_scalar(
        &mut self,
        d: &ScalarOpIr,
        f: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Result<(), LowerError> {
        self.map(&d.lhs, &d.out, |l, x| {
            let y = l.scalar(d.rhs, l.b.ty(x).clone());
            f(l, x, y)
        })
    }

    /// An operation on two tensors.
    pub(super) fn binary(&mut self, d: &BinaryOpIr, op: Binary) -> Result<(), LowerError> {
        self.map_two(d, |l, x, y| l.b.binary(op, x, y))
    }

    /// An operation on a tensor and a number.
    pub(super) fn binary_scalar(&mut self, d: &ScalarOpIr, op: Binary) -> Result<(), LowerError> {
        self.map_scalar(d, |l, x, y| l.b.binary(op, x, y))
    }

    pub(super) fn compare(&mut self, d: &BinaryOpIr, op: Compare) -> Result<(), LowerError> {
        self.map_two(d, |l, x, y| l.b.compare(op, x, y))
    }

    pub(super) fn compare_scalar(&mut self, d: &ScalarOpIr, op: Compare) -> Result<(), LowerError> {
        self.map_scalar(d, |l, x, y| l.b.compare(op, x, y))
    }

    fn mask_where(&mut self, d: &MaskWhereOpIr) -> Result<(), LowerError> {
        let (x, y) = self.pair(&d.tensor, &d.value, &d.out.shape)?;
        let mask = self.get(&d.mask)?;
        let mask = self.b.broadcast_to(mask, &d.out.shape);
        let z = self.b.select(mask, y, x);
        self.finish(&d.out, z)
    }

    fn mask_fill(&mut self, d: &MaskFillOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        let x = self.b.broadcast_to(x, &d.out.shape);
        let mask = self.get(&d.mask)?;
        let mask = self.b.broadcast_to(mask, &d.out.shape);
        let ty = self.b.ty(x).clone();
        let y = self.scalar(d.value, ty);
        let z = self.b.select(mask, y, x);
        self.finish(&d.out, z)
    }

    fn creation(&mut self, d: &CreationOpIr, number: f64) -> Result<(), LowerError> {
        let value = self.b.splat(number, tensor_type(&d.out)?);
        self.finish(&d.out, value)
    }

    /// Whether all elements, or any of them, aren't 0; of the whole tensor or along one dimension.
    fn logical(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axis: Option<usize>,
        kind: Reduction,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let x = self.cast(x, ElementType::Pred);
        let dims = axis.map_or_else(|| (0..self.b.ty(x).rank()).collect(), |axis| vec![axis]);
        let y = self.b.reduce(kind, x, &dims);
        self.finish(out, y)
    }
}
