//! Sorting, and the largest elements. Floats are in their total order: −NaN, −∞, …, −0, 0, …, ∞, NaN.

use super::{Lowering, Result};
use crate::stablehlo::{Builder, Compare, Value};
use burn_ir::NumericOperationIr;
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    /// What floats and integers have in common.
    pub(super) fn numeric(&self, op: &NumericOperationIr) -> Result<Vec<Value>> {
        use NumericOperationIr as Op;
        Ok(match op {
            Op::SortWithIndices(d) => {
                let x = self.get(&d.input)?;
                self.b.sorted_with_indices(x, d.dim, d.descending)
            }
            Op::TopKWithIndices(d) => {
                let both = self
                    .b
                    .sorted_with_indices(self.get(&d.tensor)?, d.dim, true);
                let first = |all| self.b.slice_dim(all, d.dim, 0..d.k);
                both.into_iter().map(first).collect()
            }
            Op::MaxDimWithIndices(d) => self.b.arg_extreme(true, self.get(&d.tensor)?, d.dim),
            Op::MinDimWithIndices(d) => self.b.arg_extreme(false, self.get(&d.tensor)?, d.dim),
            other => vec![self.arithmetic(other)?],
        })
    }

    pub(super) fn order(&self, op: &NumericOperationIr) -> Result<Value> {
        use NumericOperationIr as Op;
        match op {
            Op::Sort(d) => self.map(&d.input, |b, x| b.sorted(&[x], d.dim, d.descending)[0]),
            Op::ArgSort(d) => self.map(&d.input, |b, x| {
                b.sorted_with_indices(x, d.dim, d.descending)[1]
            }),
            Op::TopK(d) => self.map(&d.input, |b, x| {
                let sorted = b.sorted(&[x], d.axis, true)[0];
                b.slice_dim(sorted, d.axis, 0..d.out.shape[d.axis])
            }),
            Op::ArgTopK(d) => self.map(&d.input, |b, x| {
                let at = b.sorted_with_indices(x, d.axis, true)[1];
                b.slice_dim(at, d.axis, 0..d.out.shape[d.axis])
            }),
            other => unreachable!("{other:?} is lowered in numeric.rs or reduce.rs"),
        }
    }
}

impl Builder {
    /// x in order, and where each element was; equals keep their order.
    fn sorted_with_indices(&self, x: Value, dim: usize, descending: bool) -> Vec<Value> {
        let ty = self.ty(x).with_element(ElementType::S32);
        self.sorted(&[x, self.iota(ty, dim)], dim, descending)
    }

    fn sorted(&self, values: &[Value], dim: usize, descending: bool) -> Vec<Value> {
        let direction = if descending { Compare::Gt } else { Compare::Lt };
        self.sort(values, dim, |b, pair| {
            b.compare_total(direction, pair[0], pair[1])
        })
    }
}
