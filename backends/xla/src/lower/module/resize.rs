//! Resizing of images, and sampling at given places. Along each dimension, an element of a resized image is a weighted
//! sum of input elements; the weights are a matrix \[out, in\], computed from row and column.

use super::super::{LowerError, Lowering, Result};
use crate::stablehlo::{Builder, DotDims, Gather, Reduction, Repeated, Unary, Value};
use burn_ir::{
    GridSample2dOpIr, GridSampleOptionsIr, GridSamplePaddingModeIr, InterpolateBackwardOpIr,
    InterpolateModeIr, InterpolateOpIr, InterpolateOptionsIr, Unfold4dOpIr,
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
    /// The product of `x` and a matrix, over dimension 2 of `x` and dimension `dim` of the matrix; the matrix's other
    /// dimension becomes the last.
    pub(super) fn contract(&self, x: Value, matrix: Value, dim: usize) -> Value {
        self.dot(x, matrix, &DotDims::batched(0, 2, dim), self.element(x))
    }

    /// The matrix \[`to`, `from`\] of an adaptive average: row i averages elements ⌊i · in / out⌋ to ⌈(i + 1) · in /
    /// out⌉ − 1.
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

    /// The index of the input element nearest to each output element i: ⌊i · in / out⌋, or ⌊(i + ½) · in / out⌋ if
    /// exact.
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

    /// The matrix of the weights of input elements (columns) for output elements (rows).
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

    /// The position of each output element among the input elements.
    fn position(&self, row: Value, from: usize, to: usize, align_corners: bool) -> Value {
        if align_corners {
            let ratio = (from as f64 - 1.0) / (to - 1).max(1) as f64;
            return self.mul(row, ratio);
        }
        let row = self.add(row, 0.5);
        let ratio = from as f64 / to as f64;
        self.sub(self.mul(row, ratio), 0.5)
    }

    /// The weights of cubic interpolation: four taps around the position; taps outside fall on the first or last
    /// element.
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

    /// The cubic kernel at distances up to 1 (`near`), or from 1 to 2.
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

    /// The weights of Lanczos interpolation: sin(πx) / (πx) · sin(πx/3) / (πx/3) up to distance 3, divided by the sum
    /// of each row.
    fn lanczos_weights(&self, at: Value, column: Value) -> Value {
        let away = self.sub(at, column);
        let size = self.abs(away);
        let product = self.mul(self.sine_ratio(away, PI), self.sine_ratio(away, PI / 3.0));
        let weights = self.select(self.lt(size, 3.0), product, 0.0);
        let sum = self.reduce_keep(Reduction::Sum, weights, &[1]);
        self.div(weights, Repeated(sum))
    }

    /// sin(ax) / (ax); 1 at x = 0.
    fn sine_ratio(&self, x: Value, a: f64) -> Value {
        let x = self.mul(x, a);
        let ratio = self.div(self.unary(Unary::Sine, x), x);
        self.select(self.eq(x, 0.0), self.splat_like(1.0, x), ratio)
    }
}

impl Lowering<'_> {
    /// Samples an image \[n, c, h, w\] at a grid \[n, rows, columns, 2\] of (x, y) between −1 and 1.
    pub(in super::super) fn grid_sample(&self, d: &GridSample2dOpIr) -> Result<Value> {
        let (image, grid) = (self.get_wide(&d.tensor)?, self.get_wide(&d.grid)?);
        let grid = self.b.cast(grid, self.b.element(image));
        let shape = self.b.shape(image);
        let x = self.b.coordinate(grid, 0, shape[3], &d.options);
        let y = self.b.coordinate(grid, 1, shape[2], &d.options);
        Ok(match d.options.mode {
            InterpolateModeIr::Nearest => {
                let x = self.b.unary(Unary::RoundNearestEven, x);
                self.b
                    .sample_at(image, (x, self.b.unary(Unary::RoundNearestEven, y)))
            }
            InterpolateModeIr::Bilinear => self.b.bilinear(image, x, y),
            ref other => {
                return Err(LowerError::Unsupported(format!(
                    "Float::GridSample2d with mode {other:?}"
                )));
            }
        })
    }
}

impl Builder {
    /// Coordinate `part` of the grid, converted to elements, \[n, rows, columns\].
    fn coordinate(
        &self,
        grid: Value,
        part: usize,
        extent: usize,
        options: &GridSampleOptionsIr,
    ) -> Value {
        let at = self.slice_dim(grid, 3, part..part + 1);
        let at = self.add(self.reshape(at, &self.shape(at)[..3]), 1.0);
        let last = (extent - 1) as f64;
        let at = if options.align_corners {
            self.mul(at, last / 2.0)
        } else {
            let half = extent as f64 / 2.0;
            self.sub(self.mul(at, half), 0.5)
        };
        match options.padding_mode {
            GridSamplePaddingModeIr::Zeros => at,
            GridSamplePaddingModeIr::Border => {
                let finite = self.is_finite(at);
                let middle = self.splat_like(last / 2.0, at);
                self.select(finite, self.clamp(0.0, at, last), middle)
            }
            GridSamplePaddingModeIr::Reflection => {
                let (low, high) = if options.align_corners {
                    (0.0, last)
                } else {
                    (-0.5, last + 0.5)
                };
                self.clamp(0.0, self.reflected(at, low, high), last)
            }
        }
    }

    /// `x` mirrored at `low` and `high` until it lies between them.
    fn reflected(&self, x: Value, low: f64, high: f64) -> Value {
        let span = high - low;
        if span <= 0.0 {
            return self.splat_like(low, x);
        }
        let x = self.abs(self.sub(x, low));
        let x = self.sub(x, self.mul(self.floor(self.div(x, 2.0 * span)), 2.0 * span));
        let x = self.abs(self.sub(x, span));
        self.sub(self.splat_like(high, x), x)
    }

    fn bilinear(&self, image: Value, x: Value, y: Value) -> Value {
        let (left, top) = (self.floor(x), self.floor(y));
        let right = self.add(left, 1.0);
        let bottom = self.add(top, 1.0);
        let (to_right, to_bottom) = (self.sub(x, left), self.sub(y, top));
        let one = self.splat_like(1.0, x);
        let (to_left, to_top) = (self.sub(one, to_right), self.sub(one, to_bottom));
        let corners = [
            (left, top, to_left, to_top),
            (left, bottom, to_left, to_bottom),
            (right, top, to_right, to_top),
            (right, bottom, to_right, to_bottom),
        ];
        let parts = corners.map(|(x, y, weight_x, weight_y)| {
            let value = self.sample_at(image, (x, y));
            let weight = self.mul(weight_x, weight_y);
            let weight = self.broadcast(weight, &self.shape(value), &[0, 2, 3]);
            self.mul(value, weight)
        });
        self.add(self.add(parts[0], parts[1]), self.add(parts[2], parts[3]))
    }

    /// The elements at integer places \[n, rows, columns\], zeros outside of the image: \[n, c, rows, columns\].
    fn sample_at(&self, image: Value, (x, y): (Value, Value)) -> Value {
        let shape = self.shape(image);
        let (in_x, in_y) = (self.inside(x, shape[3]), self.inside(y, shape[2]));
        let inside = self.and(in_x, in_y);
        let [x, y] = [x, y].map(|at| self.index_vectors(self.cast(at, ElementType::S32)));
        let at = self.concatenate(&[y, x], 3);
        let g = Gather {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![2, 3],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![2, 3],
            index_vector_dim: 3,
            slice_sizes: vec![1, shape[1], 1, 1],
        };
        let values = self.gather(image, at, &g);
        let inside = self.broadcast(inside, &self.shape(values), &[0, 2, 3]);
        self.select(inside, values, 0.0)
    }

    fn inside(&self, x: Value, extent: usize) -> Value {
        self.and(self.ge(x, 0.0), self.lt(x, extent as f64))
    }
}
