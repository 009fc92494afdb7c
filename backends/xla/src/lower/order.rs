//! Sorting, and the largest elements. Floats are in their total order: −NaN, −∞, …, −0, 0, …, ∞, NaN.

use super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Compare, Value};
use burn_ir::NumericOperationIr;

impl Lowering<'_> {
    pub(super) fn order(&mut self, op: &NumericOperationIr) -> Result<(), LowerError> {
        use NumericOperationIr as Op;
        match op {
            Op::Sort(d) => self.map(&d.input, &d.out, |l, x| {
                l.sorted(&[x], d.dim, d.descending)[0]
            }),
            Op::SortWithIndices(d) => {
                let x = self.get(&d.input)?;
                let [values, at] = self.sorted_with_indices(x, d.dim, d.descending);
                self.finish(&d.out, values)?;
                self.finish(&d.out_indices, at)
            }
            Op::ArgSort(d) => self.map(&d.input, &d.out, |l, x| {
                l.sorted_with_indices(x, d.dim, d.descending)[1]
            }),
            Op::TopK(d) => self.map(&d.input, &d.out, |l, x| {
                let sorted = l.sorted(&[x], d.axis, true)[0];
                l.b.slice_dim(sorted, d.axis, 0..d.out.shape[d.axis])
            }),
            Op::ArgTopK(d) => self.map(&d.input, &d.out, |l, x| {
                let [_, at] = l.sorted_with_indices(x, d.axis, true);
                l.b.slice_dim(at, d.axis, 0..d.out.shape[d.axis])
            }),
            Op::TopKWithIndices(d) => {
                let x = self.get(&d.tensor)?;
                let both = self.sorted_with_indices(x, d.dim, true);
                let [values, at] = both.map(|all| self.b.slice_dim(all, d.dim, 0..d.k));
                self.finish(&d.out, values)?;
                self.finish(&d.out_indices, at)
            }
            other => unreachable!("{other:?} is lowered in numeric.rs or reduce.rs"),
        }
    }

    /// x in order, and where each element was; equals keep their order.
    fn sorted_with_indices(&mut self, x: Value, dim: usize, descending: bool) -> [Value; 2] {
        let ty = self.b.ty(x).with_element(ElementType::S32);
        let places = self.b.iota(ty, dim);
        let sorted = self.sorted(&[x, places], dim, descending);
        [sorted[0], sorted[1]]
    }

    fn sorted(&mut self, values: &[Value], dim: usize, descending: bool) -> Vec<Value> {
        let direction = if descending { Compare::Gt } else { Compare::Lt };
        let less = |b: &mut crate::stablehlo::Builder, pair: &[Value]| {
            b.compare_total(direction, pair[0], pair[1])
        };
        self.b.sort(values, dim, less)
    }
}
