//! Element-wise operations: comparison, masks, creation, booleans, bits of integers.

use super::{Lowering, Result, tensor_type};
use crate::stablehlo::{Binary, Builder, Compare, Reduction, Unary, Value};
use burn_ir::{
    BaseOperationIr, BinaryOpIr, BoolOperationIr, IntOperationIr, MaskFillOpIr, MaskWhereOpIr,
    ScalarIr, ScalarOpIr, TensorIr,
};
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    /// Lowers the element-wise operations that floats, integers and booleans share.
    pub(super) fn elements(&self, op: &BaseOperationIr) -> Result<Value> {
        use BaseOperationIr as Op;
        match op {
            Op::Equal(d) => self.compare(d, Compare::Eq),
            Op::NotEqual(d) => self.compare(d, Compare::Ne),
            Op::EqualElem(d) => self.compare_scalar(d, Compare::Eq),
            Op::NotEqualElem(d) => self.compare_scalar(d, Compare::Ne),
            Op::MaskWhere(d) => self.mask_where(d),
            Op::MaskFill(d) => self.mask_fill(d),
            Op::Cast(d) => self.get(&d.input),
            // An empty tensor may hold anything; zeros make a program's results reproducible.
            Op::Empty(d) | Op::Zeros(d) => Ok(self.b.splat(0.0, tensor_type(&d.out)?)),
            Op::Ones(d) => Ok(self.b.splat(1.0, tensor_type(&d.out)?)),
            Op::All(d) => self.over(&d.input, None, Builder::all),
            Op::Any(d) => self.over(&d.input, None, Builder::any),
            Op::AllDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::all),
            Op::AnyDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::any),
            Op::Select(d) => {
                let (x, at) = (self.get(&d.tensor)?, self.get(&d.indices)?);
                Ok(self.b.take_along(x, at, d.dim))
            }
            Op::SelectAssign(d) => self.select_assign(d),
            Op::Gather(d) => self.gather(d),
            Op::Scatter(d) => self.scatter(d),
            Op::GatherNd(d) => self.gather_nd(d),
            Op::ScatterNd(d) => self.scatter_nd(d),
            layout => self.layout(layout),
        }
    }

    /// Lowers the operations that only booleans have.
    pub(super) fn boolean(&self, op: &BoolOperationIr) -> Result<Value> {
        use BoolOperationIr as Op;
        match op {
            Op::IntoFloat(d) | Op::IntoInt(d) => self.get(&d.input),
            Op::Not(d) => self.map(&d.input, |b, x| b.not(x)),
            Op::And(d) => self.binary(d, Binary::And),
            Op::Or(d) => self.binary(d, Binary::Or),
            Op::Xor(d) => self.binary(d, Binary::Xor),
        }
    }

    /// Computes f(`input`).
    pub(super) fn map(
        &self,
        input: &TensorIr,
        f: impl FnOnce(&Builder, Value) -> Value,
    ) -> Result<Value> {
        Ok(f(self.b, self.get(input)?))
    }

    /// Computes f(`lhs`, `rhs`) of two tensors, repeated to the shape of `out`.
    pub(super) fn map_two(
        &self,
        d: &BinaryOpIr,
        f: impl FnOnce(&Builder, Value, Value) -> Value,
    ) -> Result<Value> {
        let (x, y) = self.pair(&d.lhs, &d.rhs, &d.out.shape)?;
        Ok(f(self.b, x, y))
    }

    /// Computes f(`lhs`, `rhs`) of a tensor and a scalar.
    pub(super) fn map_scalar(
        &self,
        d: &ScalarOpIr,
        f: impl FnOnce(&Builder, Value, Value) -> Value,
    ) -> Result<Value> {
        self.map(&d.lhs, |b, x| f(b, x, self.scalar(d.rhs, b.ty(x))))
    }

    /// Lowers an operation on two tensors.
    pub(super) fn binary(&self, d: &BinaryOpIr, op: Binary) -> Result<Value> {
        self.map_two(d, |b, x, y| b.binary(op, x, y))
    }

    /// Lowers an operation on a tensor and a scalar.
    pub(super) fn binary_scalar(&self, d: &ScalarOpIr, op: Binary) -> Result<Value> {
        self.map_scalar(d, |b, x, y| b.binary(op, x, y))
    }

    pub(super) fn compare(&self, d: &BinaryOpIr, op: Compare) -> Result<Value> {
        self.map_two(d, |b, x, y| b.compare(op, x, y))
    }

    pub(super) fn compare_scalar(&self, d: &ScalarOpIr, op: Compare) -> Result<Value> {
        self.map_scalar(d, |b, x, y| b.compare(op, x, y))
    }

    fn mask_where(&self, d: &MaskWhereOpIr) -> Result<Value> {
        let (x, y) = self.pair(&d.tensor, &d.value, &d.out.shape)?;
        let mask = self.b.broadcast_to(self.get(&d.mask)?, &d.out.shape);
        Ok(self.b.select(mask, y, x))
    }

    fn mask_fill(&self, d: &MaskFillOpIr) -> Result<Value> {
        let x = self.b.broadcast_to(self.get(&d.tensor)?, &d.out.shape);
        let mask = self.b.broadcast_to(self.get(&d.mask)?, &d.out.shape);
        Ok(self.b.select(mask, self.scalar(d.value, self.b.ty(x)), x))
    }
}

impl Builder {
    /// Whether all elements along `dims` are other than 0.
    fn all(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::And, self.cast(x, ElementType::Pred), dims)
    }

    /// Whether any element along `dims` is other than 0.
    fn any(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Or, self.cast(x, ElementType::Pred), dims)
    }
}

impl Lowering<'_> {
    pub(super) fn int(&self, op: &IntOperationIr) -> Result<Value> {
        use IntOperationIr as Op;
        match op {
            Op::IntoFloat(d) => self.get(&d.input),
            Op::BitwiseAnd(d) => self.binary(d, Binary::And),
            Op::BitwiseOr(d) => self.binary(d, Binary::Or),
            Op::BitwiseXor(d) => self.binary(d, Binary::Xor),
            Op::BitwiseAndScalar(d) => self.binary_scalar(d, Binary::And),
            Op::BitwiseOrScalar(d) => self.binary_scalar(d, Binary::Or),
            Op::BitwiseXorScalar(d) => self.binary_scalar(d, Binary::Xor),
            Op::BitwiseNot(d) => self.unary(d, Unary::Not),
            Op::BitwiseLeftShift(d) => self.shift(d, true),
            Op::BitwiseRightShift(d) => self.shift(d, false),
            Op::BitwiseLeftShiftScalar(d) => self.shift_scalar(d, true),
            Op::BitwiseRightShiftScalar(d) => self.shift_scalar(d, false),
            Op::Matmul(d) => self.matmul(d),
        }
    }

    fn shift(&self, d: &BinaryOpIr, left: bool) -> Result<Value> {
        self.map_two(d, |b, x, by| {
            // Only the low bits of the count matter, as for Rust's wrapping shifts and for processors.
            let bits = 8 * b.element(x).bytes();
            let by = b.and(by, (bits - 1) as f64);
            b.shifted(x, by, left)
        })
    }

    fn shift_scalar(&self, d: &ScalarOpIr, left: bool) -> Result<Value> {
        let b = self.b;
        let x = self.get(&d.lhs)?;
        let ty = b.ty(x);
        let by: i64 = match d.rhs {
            ScalarIr::UInt(by) => by as i64,
            other => other.elem(),
        };
        let bits = 8 * ty.element.bytes() as i64;
        Ok(b.shifted(x, b.splat_int(i128::from(by & (bits - 1)), ty), left))
    }
}

impl Builder {
    fn shifted(&self, x: Value, by: Value, left: bool) -> Value {
        let op = if left {
            Binary::ShiftLeft
        } else if self.element(x).is_unsigned() {
            Binary::ShiftRightLogical
        } else {
            Binary::ShiftRightArithmetic
        };
        self.binary(op, x, by)
    }
}
