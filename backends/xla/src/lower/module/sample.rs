//! Images sampled at given places.

use super::super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, Gather, Unary, Value};
use burn_ir::{GridSample2dOpIr, GridSampleOptionsIr, GridSamplePaddingModeIr, InterpolateModeIr};

impl Lowering<'_> {
    /// \[n, c, h, w\] at a grid \[n, rows, columns, 2\] of (x, y) between −1 and 1.
    pub(in super::super) fn grid_sample(&mut self, d: &GridSample2dOpIr) -> Result<(), LowerError> {
        let (image, grid) = (self.get_wide(&d.tensor)?, self.get_wide(&d.grid)?);
        let grid = self.cast(grid, self.b.element(image));
        let shape = self.b.shape(image);
        let x = self.coordinate(grid, 0, shape[3], &d.options);
        let y = self.coordinate(grid, 1, shape[2], &d.options);
        let sampled = match d.options.mode {
            InterpolateModeIr::Nearest => {
                let x = self.b.unary(Unary::RoundNearestEven, x);
                let y = self.b.unary(Unary::RoundNearestEven, y);
                self.sample_at(image, (x, y))
            }
            InterpolateModeIr::Bilinear => self.bilinear(image, x, y),
            ref other => {
                return Err(LowerError::Unsupported {
                    operation: format!("Float::GridSample2d with mode {other:?}"),
                });
            }
        };
        self.finish(&d.out, sampled)
    }

    /// Coordinate `part` of the grid in elements: \[n, rows, columns\].
    fn coordinate(
        &mut self,
        grid: Value,
        part: usize,
        extent: usize,
        options: &GridSampleOptionsIr,
    ) -> Value {
        let at = self.b.slice_dim(grid, 3, part..part + 1);
        let shape = self.b.shape(at);
        let at = self.b.reshape(at, &shape[..3]);
        let at = self.b.binary_scalar(Binary::Add, at, 1.0);
        let last = (extent - 1) as f64;
        let at = match options.align_corners {
            true => self.b.binary_scalar(Binary::Multiply, at, last / 2.0),
            false => {
                let half = extent as f64 / 2.0;
                let at = self.b.binary_scalar(Binary::Multiply, at, half);
                self.b.binary_scalar(Binary::Subtract, at, 0.5)
            }
        };
        match options.padding_mode {
            GridSamplePaddingModeIr::Zeros => at,
            GridSamplePaddingModeIr::Border => {
                let finite = self.b.is_finite(at);
                let middle = self.b.splat_like(last / 2.0, at);
                let inside = self.b.clamp(0.0, at, last);
                self.b.select(finite, inside, middle)
            }
            GridSamplePaddingModeIr::Reflection => {
                let (low, high) = match options.align_corners {
                    true => (0.0, last),
                    false => (-0.5, last + 0.5),
                };
                let at = self.reflected(at, low, high);
                self.b.clamp(0.0, at, last)
            }
        }
    }

    /// x mirrored at `low` and `high` until it lies between them.
    fn reflected(&mut self, x: Value, low: f64, high: f64) -> Value {
        let span = high - low;
        if span <= 0.0 {
            return self.b.splat_like(low, x);
        }
        let x = self.b.binary_scalar(Binary::Subtract, x, low);
        let x = self.b.unary(Unary::Abs, x);
        let periods = self.b.binary_scalar(Binary::Divide, x, 2.0 * span);
        let periods = self.b.unary(Unary::Floor, periods);
        let whole = self.b.binary_scalar(Binary::Multiply, periods, 2.0 * span);
        let x = self.b.sub(x, whole);
        let x = self.b.binary_scalar(Binary::Subtract, x, span);
        let x = self.b.unary(Unary::Abs, x);
        let top = self.b.splat_like(high, x);
        self.b.sub(top, x)
    }

    fn bilinear(&mut self, image: Value, x: Value, y: Value) -> Value {
        let (left, top) = (self.b.unary(Unary::Floor, x), self.b.unary(Unary::Floor, y));
        let right = self.b.binary_scalar(Binary::Add, left, 1.0);
        let bottom = self.b.binary_scalar(Binary::Add, top, 1.0);
        let (to_right, to_bottom) = (self.b.sub(x, left), self.b.sub(y, top));
        let one = self.b.splat_like(1.0, x);
        let (to_left, to_top) = (self.b.sub(one, to_right), self.b.sub(one, to_bottom));
        let corners = [
            (left, top, to_left, to_top),
            (left, bottom, to_left, to_bottom),
            (right, top, to_right, to_top),
            (right, bottom, to_right, to_bottom),
        ];
        let parts = corners.map(|(x, y, weight_x, weight_y)| {
            let value = self.sample_at(image, (x, y));
            let weight = self.b.mul(weight_x, weight_y);
            let weight = self.b.broadcast(weight, &self.b.shape(value), &[0, 2, 3]);
            self.b.mul(value, weight)
        });
        let left = self.b.add(parts[0], parts[1]);
        let right = self.b.add(parts[2], parts[3]);
        self.b.add(left, right)
    }

    /// Elements at whole places \[n, rows, columns\], zeros outside: \[n, c, rows, columns\].
    fn sample_at(&mut self, image: Value, (x, y): (Value, Value)) -> Value {
        let shape = self.b.shape(image);
        let (in_x, in_y) = (self.inside(x, shape[3]), self.inside(y, shape[2]));
        let inside = self.b.and(in_x, in_y);
        let [x, y] = [x, y].map(|at| {
            let at = self.cast(at, ElementType::S32);
            self.index_vectors(at)
        });
        let at = self.b.concatenate(&[y, x], 3);
        let g = Gather {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![2, 3],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![2, 3],
            index_vector_dim: 3,
            slice_sizes: vec![1, shape[1], 1, 1],
        };
        let values = self.b.gather(image, at, &g);
        let inside = self.b.broadcast(inside, &self.b.shape(values), &[0, 2, 3]);
        self.b.select_or_zero(inside, values)
    }

    fn inside(&mut self, x: Value, extent: usize) -> Value {
        let after = self.b.compare_scalar(Compare::Ge, x, 0.0);
        let before = self.b.compare_scalar(Compare::Lt, x, extent as f64);
        self.b.and(after, before)
    }
}
