//! Bits of integers.

use super::{Lowering, Result};
use crate::stablehlo::{Binary, Builder, Unary, Value};
use burn_ir::{BinaryOpIr, IntOperationIr, ScalarIr, ScalarOpIr};

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
            // As Rust's wrapping shifts, and as processors do it: only the low bits of the count matter.
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
