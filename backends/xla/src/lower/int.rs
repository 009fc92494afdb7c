//! Bits of integers.

use super::{LowerError, Lowering};
use crate::stablehlo::{Binary, TensorType, Unary, Value};
use burn_ir::{BinaryOpIr, IntOperationIr, ScalarIr, ScalarOpIr};

impl Lowering<'_> {
    pub(super) fn int(&mut self, op: &IntOperationIr) -> Result<(), LowerError> {
        use IntOperationIr as Op;
        match op {
            Op::IntoFloat(d) => self.convert(&d.input, &d.out),
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

    fn shift(&mut self, d: &BinaryOpIr, left: bool) -> Result<(), LowerError> {
        self.map_two(d, |l, x, by| {
            // As Rust's wrapping shifts, and as processors do it: only the low bits of the count matter.
            let bits = 8 * l.b.element(x).bytes();
            let by = l.b.binary_scalar(Binary::And, by, (bits - 1) as f64);
            l.shifted(x, by, left)
        })
    }

    fn shift_scalar(&mut self, d: &ScalarOpIr, left: bool) -> Result<(), LowerError> {
        let x = self.get(&d.lhs)?;
        let ty: TensorType = self.b.ty(x).clone();
        let by: i64 = match d.rhs {
            ScalarIr::UInt(by) => by as i64,
            other => other.elem(),
        };
        let bits = 8 * ty.element.bytes() as i64;
        let by = self.b.splat_int(i128::from(by & (bits - 1)), ty);
        let y = self.shifted(x, by, left);
        self.finish(&d.out, y)
    }

    fn shifted(&mut self, x: Value, by: Value, left: bool) -> Value {
        let op = match left {
            true => Binary::ShiftLeft,
            false if self.b.element(x).is_unsigned() => Binary::ShiftRightLogical,
            false => Binary::ShiftRightArithmetic,
        };
        self.b.binary(op, x, by)
    }
}
