//! Sorting, and the largest elements. Floats are in their total order: −NaN, −∞, …, −0, 0, …, ∞, NaN.

use super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Compare, Value};
use burn_ir::NumericOperationIr;

impl Lowering<'_> {
    pub(super) fn order(&mut self, op: &NumericOperationIr) -> Result<(), LowerError> {
        use NumericOperationIr as Op;
        match op {
            Op::Sort(d) => {
                let x = self.get(&d.input)?;
                let sorted = self.sorted(&[x], d.dim, d.descending);
                self.finish(&d.out, sorted[0])
            }
            Op::SortWithIndices(d) => {
                let x = self.get(&d.input)?;
                let (values, at) = self.sorted_with_indices(x, d.dim, d.descending);
                self.finish(&d.out, values)?;
                self.finish(&d.out_indices, at)
            }
            Op::ArgSort(d) => {
                let x = self.get(&d.input)?;
                let (_, at) = self.sorted_with_indices(x, d.dim, d.descending);
                self.finish(&d.out, at)
            }
            Op::TopK(d) => {
                let x = self.get(&d.input)?;
                let sorted = self.sorted(&[x], d.axis, true);
                let first = self.b.slice_dim(sorted[0], d.axis, 0..d.out.shape[d.axis]);
                self.finish(&d.out, first)
            }
            Op::ArgTopK(d) => {
                let x = self.get(&d.input)?;
                let (_, at) = self.sorted_with_indices(x, d.axis, true);
                let first = self.b.slice_dim(at, d.axis, 0..d.out.shape[d.axis]);
                self.finish(&d.out, first)
            }
            Op::TopKWithIndices(d) => {
                let x = self.get(&d.tensor)?;
                let (values, at) = self.sorted_with_indices(x, d.dim, true);
                let values = self.b.slice_dim(values, d.dim, 0..d.k);
                let at = self.b.slice_dim(at, d.dim, 0..d.k);
                self.finish(&d.out, values)?;
                self.finish(&d.out_indices, at)
            }
            other => unreachable!("{other:?} is lowered in numeric.rs or reduce.rs"),
        }
    }

    /// x in order, and where each element was; equals keep their order.
    fn sorted_with_indices(&mut self, x: Value, dim: usize, descending: bool) -> (Value, Value) {
        let ty = self.b.ty(x).with_element(ElementType::S32);
        let places = self.b.iota(ty, dim);
        let sorted = self.sorted(&[x, places], dim, descending);
        (sorted[0], sorted[1])
    }

    fn sorted(&mut self, values: &[Value], dim: usize, descending: bool) -> Vec<Value> {
        let direction = if descending { Compare::Gt } else { Compare::Lt };
        let less = |b: &mut crate::stablehlo::Builder, pair: &[Value]| {
            b.compare_total(direction, pair[0], pair[1])
        };
        self.b.sort(values, dim, less)
    }
}
