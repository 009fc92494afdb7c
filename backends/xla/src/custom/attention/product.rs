//! Products in which a row with NaN or infinity reaches only those that see it.

use crate::stablehlo::{Builder, DotDims, Reduction, Value};
use moebius_pjrt::ElementType::{self, S32};
use moebius_pjrt::TensorType;

/// Rows that products take with weights that are 0 where a pair isn't seen.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// \[…, rows, width\].
    pub(super) x: Value,
    /// Whether 0 · x isn't 0 somewhere and matters: an i32 scalar, 1 or 0.
    wild: Option<Value>,
}

impl Rows {
    /// `hides` says whether some pair isn't seen.
    pub(super) fn new(b: &Builder, x: Value, hides: bool) -> Self {
        let wild = hides.then(|| {
            let dims: Vec<usize> = (0..b.ty(x).rank()).collect();
            let any = b.reduce(Reduction::Or, b.not(b.is_finite(x)), &dims);
            b.convert(any, S32)
        });
        Self { x, wild }
    }

    /// A part of the rows.
    pub(super) fn of(self, part: Value) -> Self {
        Self { x: part, ..self }
    }

    /// Sums of the rows by `weights` over the pairs that `seen`, appended where it is needed, says are seen. Elements that aren't
    /// finite are left out of the product and, if there are any, then added where they are seen.
    pub(super) fn product(
        self,
        b: &Builder,
        (weights, dims): (Value, &DotDims),
        seen: impl FnOnce() -> Option<Value>,
    ) -> Value {
        let element = b.element(weights);
        let x = b.convert(self.x, element);
        let Some(wild) = self.wild else {
            return b.dot(weights, x, dims, element);
        };
        let finite = b.select(b.is_finite(x), x, 0.0);
        let sum = b.dot(weights, finite, dims, element);
        // A loop of one round or none is what is left out where everything is finite. It tells anew what is seen, so that
        // nothing as large as the scores has to be kept for it.
        let results = b.counted(0, |b| {
            b.for_loop(wild, &[sum], |b, _, state| {
                let Some(seen) = seen() else {
                    return state.to_vec();
                };
                let seen = b.convert(b.reshape(seen, &b.shape(weights)), element);
                let [above, below] = [f64::INFINITY, f64::NEG_INFINITY].map(|infinity| {
                    // NaN counts as both infinities, whose sum it is.
                    let same = b.or(b.eq(x, infinity), b.ne(x, x));
                    let count = b.dot(seen, b.convert(same, element), dims, element);
                    b.select(b.gt(count, 0.0), b.splat_like(infinity, count), 0.0)
                });
                vec![b.add(state[0], b.add(above, below))]
            })
        });
        results[0]
    }
}

/// \[B · Hkv, rows of the group's heads, width\] of x \[B, Hq, rows, width\]: heads that share keys lie one below the other.
pub(super) fn by_key_head(b: &Builder, x: Value, group: usize) -> Value {
    let shape = b.shape(x);
    let heads = shape[0] * (shape[1] / group);
    b.reshape(x, &[heads, group * shape[2], shape[3]])
}

/// \[B · Hkv, rows, width\] of x \[B, Hkv, rows, width\].
pub(super) fn stacked(b: &Builder, x: Value) -> Value {
    by_key_head(b, x, 1)
}

/// Zeros of this shape.
pub(super) fn zeros(b: &Builder, shape: &[usize], element: ElementType) -> Value {
    b.splat(0.0, TensorType::new(shape, element))
}
