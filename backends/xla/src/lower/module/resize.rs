//! Images in other sizes. Each output element of one dimension is a weighted sum of input elements: a
//! matrix \[out, in\] whose entries are computed from their row and column.

use super::super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, DotDims, Reduction, TensorType, Unary, Value};
use burn_ir::{
    InterpolateBackwardOpIr, InterpolateModeIr, InterpolateOpIr, InterpolateOptionsIr, Unfold4dOpIr,
};
use std::f64::consts::PI;

/// The free constant of the cubic kernel of R. Keys, as PyTorch chooses it.
const CUBIC: f64 = -0.75;

impl Lowering<'_> {
    /// Dimension 2 of x times dimension `dim` of a matrix, whose other dimension becomes the last.
    pub(super) fn contract(&mut self, x: Value, matrix: Value, dim: usize) -> Value {
        let dims = DotDims {
            lhs_contract: vec![2],
            rhs_contract: vec![dim],
            ..DotDims::default()
        };
        self.b.dot(x, matrix, &dims, self.b.element(x))
    }

    /// Rows average elements ⌊i · in / out⌋ to ⌈(i + 1) · in / out⌉ − 1.
    pub(super) fn averages(&mut self, from: usize, to: usize, like: Value) -> Value {
        let ty = TensorType::new([to, from], ElementType::S64);
        let (row, column) = (self.b.iota(ty.clone(), 0), self.b.iota(ty, 1));
        let (from, to) = (from as f64, to as f64);
        let first = self.b.binary_scalar(Binary::Multiply, row, from);
        let end = self.b.binary_scalar(Binary::Add, first, from + to - 1.0);
        let first = self.b.binary_scalar(Binary::Divide, first, to);
        let end = self.b.binary_scalar(Binary::Divide, end, to);
        let after = self.b.compare(Compare::Ge, column, first);
        let before = self.b.compare(Compare::Lt, column, end);
        let inside = self.b.and(after, before);
        let count = self.b.sub(end, first);
        let element = self.b.element(like);
        let (inside, count) = (self.cast(inside, element), self.cast(count, element));
        self.b.div(inside, count)
    }

    pub(super) fn interpolate(&mut self, d: &InterpolateOpIr) -> Result<(), LowerError> {
        let mut y = self.get_wide(&d.x)?;
        for size in d.output_size {
            let from = self.b.ty(y).shape[2];
            y = match d.options.mode {
                InterpolateModeIr::Nearest | InterpolateModeIr::NearestExact => {
                    let at = self.nearest([size], from, size, &d.options);
                    let y = self.take_along(y, at, 2);
                    self.b.transpose(y, &[0, 1, 3, 2])
                }
                _ => {
                    let weights = self.weights(from, size, &d.options, y);
                    self.contract(y, weights, 1)
                }
            };
        }
        self.finish(&d.out, y)
    }

    pub(super) fn interpolate_backward(
        &mut self,
        d: &InterpolateBackwardOpIr,
    ) -> Result<(), LowerError> {
        let mut y = self.get_wide(&d.grad)?;
        for (dim, size) in d.output_size.into_iter().enumerate() {
            let weights = self.weights(d.out.shape[dim + 2], size, &d.options, y);
            y = self.contract(y, weights, 0);
        }
        self.finish(&d.out, y)
    }

    /// The input element that is nearest to each row: ⌊i · in / out⌋, or ⌊(i + ½) · in / out⌋.
    fn nearest<const R: usize>(
        &mut self,
        shape: [usize; R],
        from: usize,
        to: usize,
        options: &InterpolateOptionsIr,
    ) -> Value {
        let row = self.b.iota(TensorType::new(shape, ElementType::S64), 0);
        let (scale, offset) = match options.mode {
            InterpolateModeIr::NearestExact => (2, from),
            _ => (1, 0),
        };
        let (from, to) = ((scale * from) as f64, (scale * to) as f64);
        let row = self.b.binary_scalar(Binary::Multiply, row, from);
        let row = self.b.binary_scalar(Binary::Add, row, offset as f64);
        self.b.binary_scalar(Binary::Divide, row, to)
    }

    /// The weights of input elements (columns) for output elements (rows).
    fn weights(
        &mut self,
        from: usize,
        to: usize,
        options: &InterpolateOptionsIr,
        like: Value,
    ) -> Value {
        let element = self.b.element(like);
        if matches!(
            options.mode,
            InterpolateModeIr::Nearest | InterpolateModeIr::NearestExact
        ) {
            let at = self.nearest([to, from], from, to, options);
            let column = self.b.iota(self.b.ty(at).clone(), 1);
            let hit = self.b.compare(Compare::Eq, column, at);
            return self.cast(hit, element);
        }
        let ty = TensorType::new([to, from], element);
        let (row, column) = (self.b.iota(ty.clone(), 0), self.b.iota(ty, 1));
        let at = self.position(row, from, to, options.align_corners);
        match options.mode {
            InterpolateModeIr::Bicubic => self.cubic_weights(at, column, from),
            InterpolateModeIr::Lanczos3 => self.lanczos_weights(at, column),
            _ => {
                let at = self.b.clamp(0.0, at, (from - 1) as f64);
                let away = self.b.sub(at, column);
                let away = self.b.unary(Unary::Abs, away);
                let one = self.b.splat_like(1.0, away);
                let weight = self.b.sub(one, away);
                self.b.binary_scalar(Binary::Maximum, weight, 0.0)
            }
        }
    }

    /// Where an output element lies among the input elements.
    fn position(&mut self, row: Value, from: usize, to: usize, align_corners: bool) -> Value {
        if align_corners {
            let ratio = (from as f64 - 1.0) / (to - 1).max(1) as f64;
            return self.b.binary_scalar(Binary::Multiply, row, ratio);
        }
        let row = self.b.binary_scalar(Binary::Add, row, 0.5);
        let ratio = from as f64 / to as f64;
        let row = self.b.binary_scalar(Binary::Multiply, row, ratio);
        self.b.binary_scalar(Binary::Subtract, row, 0.5)
    }

    /// Four taps around the position; those outside fall on the first or the last element.
    fn cubic_weights(&mut self, at: Value, column: Value, from: usize) -> Value {
        let base = self.b.unary(Unary::Floor, at);
        let fraction = self.b.sub(at, base);
        let mut sum = self.b.splat_like(0.0, at);
        for offset in [-1.0, 0.0, 1.0, 2.0] {
            let away = self.b.binary_scalar(Binary::Subtract, fraction, offset);
            let weight = self.cubic(away, offset == 0.0 || offset == 1.0);
            let place = self.b.binary_scalar(Binary::Add, base, offset);
            let place = self.b.clamp(0.0, place, (from - 1) as f64);
            let hit = self.b.compare(Compare::Eq, column, place);
            let weight = self.b.select_or_zero(hit, weight);
            sum = self.b.add(sum, weight);
        }
        sum
    }

    /// The cubic kernel up to distance 1 (`near`), or from 1 to 2.
    fn cubic(&mut self, away: Value, near: bool) -> Value {
        let t = self.b.unary(Unary::Abs, away);
        let coefficients = match near {
            true => [CUBIC + 2.0, -(CUBIC + 3.0), 0.0, 1.0],
            false => [CUBIC, -5.0 * CUBIC, 8.0 * CUBIC, -4.0 * CUBIC],
        };
        let mut sum = self.b.splat_like(coefficients[0], t);
        for coefficient in &coefficients[1..] {
            let product = self.b.mul(sum, t);
            sum = self.b.binary_scalar(Binary::Add, product, *coefficient);
        }
        sum
    }

    /// sin(πx) / (πx) · sin(πx/3) / (πx/3) up to distance 3, divided by the sum of each row.
    fn lanczos_weights(&mut self, at: Value, column: Value) -> Value {
        let away = self.b.sub(at, column);
        let size = self.b.unary(Unary::Abs, away);
        let wide = self.sine_ratio(away, PI);
        let narrow = self.sine_ratio(away, PI / 3.0);
        let product = self.b.mul(wide, narrow);
        let inside = self.b.compare_scalar(Compare::Lt, size, 3.0);
        let weights = self.b.select_or_zero(inside, product);
        let sum = self.b.reduce_keep(Reduction::Sum, weights, &[1]);
        self.b.binary_broadcast(Binary::Divide, weights, sum)
    }

    /// sin(ax) / (ax), which is 1 at 0.
    fn sine_ratio(&mut self, x: Value, a: f64) -> Value {
        let x = self.b.binary_scalar(Binary::Multiply, x, a);
        let sine = self.b.unary(Unary::Sine, x);
        let ratio = self.b.div(sine, x);
        let zero = self.b.compare_scalar(Compare::Eq, x, 0.0);
        let one = self.b.splat_like(1.0, x);
        self.b.select(zero, one, ratio)
    }

    /// The windows of an image as columns: \[batch, channels · taps, windows\].
    pub(super) fn unfold_image(&mut self, d: &Unfold4dOpIr) -> Result<(), LowerError> {
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
        let y = self.b.concatenate(&taps, 2);
        self.finish(&d.out, y)
    }
}
