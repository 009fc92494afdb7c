//! Images in other sizes. Each output element of one dimension is a weighted sum of input elements: a
//! matrix \[out, in\] whose entries are computed from their row and column.

use super::super::{Lowering, Result};
use crate::stablehlo::{Builder, DotDims, Reduction, Repeated, Unary, Value};
use burn_ir::{
    InterpolateBackwardOpIr, InterpolateModeIr, InterpolateOpIr, InterpolateOptionsIr, Unfold4dOpIr,
};
use moebius_pjrt::{ElementType, TensorType};
use std::f64::consts::PI;

/// The free constant of the cubic kernel of R. Keys, as PyTorch chooses it.
const CUBIC: f64 = -0.75;

impl Lowering<'_> {
    pub(super) fn interpolate(&self, d: &InterpolateOpIr) -> Result<Value> {
        let b = self.b;
        let mut y = self.get_wide(&d.x)?;
        for size in d.output_size {
            let from = b.ty(y).shape[2];
            y = match d.options.mode {
                InterpolateModeIr::Nearest | InterpolateModeIr::NearestExact => b.transpose(
                    b.take_along(y, b.nearest([size], from, size, &d.options), 2),
                    &[0, 1, 3, 2],
                ),
                _ => b.contract(y, b.weights(from, size, &d.options, y), 1),
            };
        }
        Ok(y)
    }

    pub(super) fn interpolate_backward(&self, d: &InterpolateBackwardOpIr) -> Result<Value> {
        let mut y = self.get_wide(&d.grad)?;
        for (dim, size) in d.output_size.into_iter().enumerate() {
            let weights = self.b.weights(d.out.shape[dim + 2], size, &d.options, y);
            y = self.b.contract(y, weights, 0);
        }
        Ok(y)
    }

    /// The windows of an image as columns: \[batch, channels · taps, windows\].
    pub(super) fn unfold_image(&self, d: &Unfold4dOpIr) -> Result<Value> {
        let x = self.get(&d.x)?;
        let o = &d.options;
        let zero = self.b.scalar(0.0, self.b.element(x));
        let pads = [0, 0, o.padding[0] as i64, o.padding[1] as i64];
        let x = self.b.pad(x, zero, &pads, &pads, &[0; 4]);
        let shape = self.b.shape(x);
        let count = |i: usize| {
            let span = o.dilation[i] * (d.kernel_size[i] - 1) + 1;
            (shape[i + 2] - span) / o.stride[i] + 1
        };
        let (rows, columns) = (count(0), count(1));
        let one = [shape[0], shape[1], 1, rows * columns];
        let mut taps = Vec::new();
        for i in 0..d.kernel_size[0] {
            for j in 0..d.kernel_size[1] {
                let start = [0, 0, i * o.dilation[0], j * o.dilation[1]];
                let limit = [
                    shape[0],
                    shape[1],
                    start[2] + (rows - 1) * o.stride[0] + 1,
                    start[3] + (columns - 1) * o.stride[1] + 1,
                ];
                let stride = [1, 1, o.stride[0], o.stride[1]];
                let tap = self.b.slice(x, &start, &limit, &stride);
                taps.push(self.b.reshape(tap, &one));
            }
        }
        Ok(self.b.concatenate(&taps, 2))
    }
}

impl Builder {
    /// Dimension 2 of x times dimension `dim` of a matrix, whose other dimension becomes the last.
    pub(super) fn contract(&self, x: Value, matrix: Value, dim: usize) -> Value {
        self.dot(x, matrix, &DotDims::batched(0, 2, dim), self.element(x))
    }

    /// Rows average elements ⌊i · in / out⌋ to ⌈(i + 1) · in / out⌉ − 1.
    pub(super) fn averages(&self, from: usize, to: usize, like: Value) -> Value {
        let ty = TensorType::new([to, from], ElementType::S64);
        let (row, column) = (self.iota(ty.clone(), 0), self.iota(ty, 1));
        let (from, to) = (from as f64, to as f64);
        let first = self.mul(row, from);
        let end = self.add(first, from + to - 1.0);
        let first = self.div(first, to);
        let end = self.div(end, to);
        let inside = self.and(self.ge(column, first), self.lt(column, end));
        let count = self.sub(end, first);
        let element = self.element(like);
        let (inside, count) = (self.cast(inside, element), self.cast(count, element));
        self.div(inside, count)
    }

    /// The input element that is nearest to each row: ⌊i · in / out⌋, or ⌊(i + ½) · in / out⌋.
    fn nearest<const R: usize>(
        &self,
        shape: [usize; R],
        from: usize,
        to: usize,
        options: &InterpolateOptionsIr,
    ) -> Value {
        let row = self.iota(TensorType::new(shape, ElementType::S64), 0);
        let (scale, offset) = match options.mode {
            InterpolateModeIr::NearestExact => (2, from),
            _ => (1, 0),
        };
        let (from, to) = ((scale * from) as f64, (scale * to) as f64);
        self.div(self.add(self.mul(row, from), offset as f64), to)
    }

    /// The weights of input elements (columns) for output elements (rows).
    fn weights(
        &self,
        from: usize,
        to: usize,
        options: &InterpolateOptionsIr,
        like: Value,
    ) -> Value {
        let element = self.element(like);
        if matches!(
            options.mode,
            InterpolateModeIr::Nearest | InterpolateModeIr::NearestExact
        ) {
            let at = self.nearest([to, from], from, to, options);
            return self.cast(self.eq(self.iota(self.ty(at), 1), at), element);
        }
        let ty = TensorType::new([to, from], element);
        let (row, column) = (self.iota(ty.clone(), 0), self.iota(ty, 1));
        let at = self.position(row, from, to, options.align_corners);
        match options.mode {
            InterpolateModeIr::Bicubic => self.cubic_weights(at, column, from),
            InterpolateModeIr::Lanczos3 => self.lanczos_weights(at, column),
            _ => {
                let at = self.clamp(0.0, at, (from - 1) as f64);
                let away = self.abs(self.sub(at, column));
                self.max(self.sub(self.splat_like(1.0, away), away), 0.0)
            }
        }
    }

    /// Where an output element lies among the input elements.
    fn position(&self, row: Value, from: usize, to: usize, align_corners: bool) -> Value {
        if align_corners {
            let ratio = (from as f64 - 1.0) / (to - 1).max(1) as f64;
            return self.mul(row, ratio);
        }
        let row = self.add(row, 0.5);
        let ratio = from as f64 / to as f64;
        self.sub(self.mul(row, ratio), 0.5)
    }

    /// Four taps around the position; those outside fall on the first or the last element.
    fn cubic_weights(&self, at: Value, column: Value, from: usize) -> Value {
        let base = self.floor(at);
        let fraction = self.sub(at, base);
        let mut sum = self.splat_like(0.0, at);
        for offset in [-1.0, 0.0, 1.0, 2.0] {
            let weight = self.cubic(self.sub(fraction, offset), offset == 0.0 || offset == 1.0);
            let place = self.clamp(0.0, self.add(base, offset), (from - 1) as f64);
            sum = self.add(sum, self.select(self.eq(column, place), weight, 0.0));
        }
        sum
    }

    /// The cubic kernel up to distance 1 (`near`), or from 1 to 2.
    fn cubic(&self, away: Value, near: bool) -> Value {
        let t = self.abs(away);
        let coefficients = if near {
            [CUBIC + 2.0, -(CUBIC + 3.0), 0.0, 1.0]
        } else {
            [CUBIC, -5.0 * CUBIC, 8.0 * CUBIC, -4.0 * CUBIC]
        };
        let mut sum = self.splat_like(coefficients[0], t);
        for coefficient in &coefficients[1..] {
            sum = self.add(self.mul(sum, t), *coefficient);
        }
        sum
    }

    /// sin(πx) / (πx) · sin(πx/3) / (πx/3) up to distance 3, divided by the sum of each row.
    fn lanczos_weights(&self, at: Value, column: Value) -> Value {
        let away = self.sub(at, column);
        let size = self.abs(away);
        let product = self.mul(self.sine_ratio(away, PI), self.sine_ratio(away, PI / 3.0));
        let weights = self.select(self.lt(size, 3.0), product, 0.0);
        let sum = self.reduce_keep(Reduction::Sum, weights, &[1]);
        self.div(weights, Repeated(sum))
    }

    /// sin(ax) / (ax), which is 1 at 0.
    fn sine_ratio(&self, x: Value, a: f64) -> Value {
        let x = self.mul(x, a);
        let ratio = self.div(self.unary(Unary::Sine, x), x);
        self.select(self.eq(x, 0.0), self.splat_like(1.0, x), ratio)
    }
}
