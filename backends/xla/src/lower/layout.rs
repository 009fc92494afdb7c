//! Shapes, slices and copies.

use super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{TensorType, Value};
use burn_backend::Slice;
use burn_ir::{
    BaseOperationIr, CatOpIr, RepeatDimOpIr, ScalarIr, SliceAssignOpIr, SliceOpIr, UnfoldOpIr,
};

/// Where a slice of one dimension lies: elements `start`, `start` + `step`, …, `count` of them, in
/// descending order if `reversed`.
struct Range {
    start: usize,
    step: usize,
    count: usize,
    reversed: bool,
}

impl Range {
    /// Burn's slice of a dimension: the range is the same for negative steps, which begin at its end.
    fn new(slice: Slice, extent: usize) -> Self {
        let inside = |at: isize| {
            let at = if at < 0 { at + extent as isize } else { at };
            at.clamp(0, extent as isize) as usize
        };
        let (start, end) = (inside(slice.start), slice.end.map_or(extent, inside));
        let step = slice.step.unsigned_abs().max(1);
        let count = end.saturating_sub(start).div_ceil(step);
        let reversed = slice.step < 0;
        let start = match reversed && count > 0 {
            true => end - 1 - (count - 1) * step,
            false => start,
        };
        Self {
            start,
            step,
            count,
            reversed,
        }
    }

    /// One after the last element.
    fn limit(&self) -> usize {
        match self.count {
            0 => self.start,
            count => self.start + (count - 1) * self.step + 1,
        }
    }
}

fn ranges(slices: &[Slice], shape: &[usize]) -> Vec<Range> {
    let all = Slice::new(0, None, 1);
    let slice = |d: usize| slices.get(d).copied().unwrap_or(all);
    let ranges = shape
        .iter()
        .enumerate()
        .map(|(d, n)| Range::new(slice(d), *n));
    ranges.collect()
}

impl Lowering<'_> {
    pub(super) fn layout(&mut self, op: &BaseOperationIr) -> Result<(), LowerError> {
        use BaseOperationIr as Op;
        match op {
            // `finish` gives the shape.
            Op::Reshape(d) => self.convert(&d.input, &d.out),
            Op::SwapDims(d) => self.map(&d.input, &d.out, |l, x| {
                let mut permutation: Vec<usize> = (0..l.b.ty(x).rank()).collect();
                permutation.swap(d.dim1, d.dim2);
                l.b.transpose(x, &permutation)
            }),
            Op::Permute(d) => self.map(&d.input, &d.out, |l, x| l.b.transpose(x, &d.axes)),
            Op::Flip(d) => self.map(&d.input, &d.out, |l, x| l.b.reverse(x, &d.axes)),
            Op::Expand(d) => self.map(&d.input, &d.out, |l, x| l.b.broadcast_to(x, &d.out.shape)),
            Op::Unfold(d) => self.unfold(d),
            Op::Slice(d) => self.slice(d),
            Op::SliceAssign(d) => self.slice_assign(d),
            Op::RepeatDim(d) => self.repeat_dim(d),
            Op::Cat(d) => self.cat(d),
            other => unreachable!("{other:?} is lowered in elements.rs"),
        }
    }

    fn repeat_dim(&mut self, d: &RepeatDimOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        // [a, n, b] → [a, times, n, b]
        let y = self.b.repeat_at(x, d.dim, d.times);
        self.finish(&d.out, y)
    }

    fn cat(&mut self, d: &CatOpIr) -> Result<(), LowerError> {
        let values = d.tensors.iter().map(|tensor| self.get(tensor));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let some = |value: &Value| self.b.ty(*value).shape[d.dim] > 0;
        let values: Vec<Value> = values.into_iter().filter(some).collect();
        let y = self.b.concatenate(&values, d.dim);
        self.finish(&d.out, y)
    }

    fn slice(&mut self, d: &SliceOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        let ranges = ranges(&d.ranges, &self.b.shape(x));
        let start: Vec<usize> = ranges.iter().map(|r| r.start).collect();
        let limit: Vec<usize> = ranges.iter().map(Range::limit).collect();
        let step: Vec<usize> = ranges.iter().map(|r| r.step).collect();
        let y = self.b.slice(x, &start, &limit, &step);
        let y = self.reverse(y, &ranges);
        self.finish(&d.out, y)
    }

    fn reverse(&mut self, x: Value, ranges: &[Range]) -> Value {
        let reversed = (0..ranges.len()).filter(|d| ranges[*d].reversed);
        match reversed.collect::<Vec<_>>() {
            dims if dims.is_empty() => x,
            dims => self.b.reverse(x, &dims),
        }
    }

    fn slice_assign(&mut self, d: &SliceAssignOpIr) -> Result<(), LowerError> {
        let (x, value) = (self.get(&d.tensor)?, self.get(&d.value)?);
        let ranges = ranges(&d.ranges, &self.b.shape(x));
        let counts: Vec<usize> = ranges.iter().map(|r| r.count).collect();
        if counts.contains(&0) {
            return self.finish(&d.out, x);
        }
        let value = self.cast(value, self.b.element(x));
        let value = self.b.broadcast_to(value, &counts);
        let value = self.reverse(value, &ranges);
        let y = match ranges.iter().all(|r| r.step == 1 || r.count == 1) {
            true => self.write_block(x, value, &ranges),
            false => self.write_spread(x, value, &ranges),
        };
        self.finish(&d.out, y)
    }

    fn write_block(&mut self, x: Value, value: Value, ranges: &[Range]) -> Value {
        let scalar = TensorType::scalar(ElementType::S32);
        let starts = ranges
            .iter()
            .map(|r| self.b.splat_int(r.start as i128, scalar.clone()));
        let starts: Vec<Value> = starts.collect();
        self.b.dynamic_update_slice(x, value, &starts)
    }

    /// Steps are zeros between the elements, in the values and in a mask of where they are.
    fn write_spread(&mut self, x: Value, value: Value, ranges: &[Range]) -> Value {
        let shape = self.b.shape(x);
        let low: Vec<i64> = ranges.iter().map(|r| r.start as i64).collect();
        let high = (0..shape.len()).map(|d| (shape[d] - ranges[d].limit()) as i64);
        let high: Vec<i64> = high.collect();
        let interior: Vec<usize> = ranges.iter().map(|r| r.step - 1).collect();
        let zero = self.b.scalar(0.0, self.b.element(x));
        let spread = self.b.pad(value, zero, &low, &high, &interior);
        let ty = self.b.ty(value).with_element(ElementType::Pred);
        let there = self.b.splat(1.0, ty);
        let no = self.b.scalar(0.0, ElementType::Pred);
        let mask = self.b.pad(there, no, &low, &high, &interior);
        self.b.select(mask, spread, x)
    }

    /// Windows of `size` along a dimension, which become the last dimension.
    fn unfold(&mut self, d: &UnfoldOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.input)?;
        let count = d.out.shape[d.dim];
        let at = self.windows(count, d.step, d.size);
        let y = self.take_along(x, at, d.dim);
        let mut shape = self.b.shape(x);
        let rank = shape.len();
        shape.splice(d.dim..=d.dim, [count, d.size]);
        let y = self.b.reshape(y, &shape);
        let mut permutation: Vec<usize> = (0..=rank).filter(|i| *i != d.dim + 1).collect();
        permutation.push(d.dim + 1);
        let y = self.b.transpose(y, &permutation);
        self.finish(&d.out, y)
    }

    /// Places i · `step` + j for i < `count`, j < `size`: \[`count` · `size`\].
    fn windows(&mut self, count: usize, step: usize, size: usize) -> Value {
        let ty = TensorType::new([count, size], ElementType::S32);
        let (i, j) = (self.b.iota(ty.clone(), 0), self.b.iota(ty.clone(), 1));
        let step = self.scalar(ScalarIr::UInt(step as u64), ty);
        let i = self.b.mul(i, step);
        let at = self.b.add(i, j);
        self.b.reshape(at, &[count * size])
    }
}
