//! Images sampled at given places.

use super::super::{LowerError, Lowering, Result};
use crate::stablehlo::{Builder, Gather, Unary, Value};
use burn_ir::{GridSample2dOpIr, GridSampleOptionsIr, GridSamplePaddingModeIr, InterpolateModeIr};
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    /// \[n, c, h, w\] at a grid \[n, rows, columns, 2\] of (x, y) between −1 and 1.
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
    /// Coordinate `part` of the grid in elements: \[n, rows, columns\].
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

    /// x mirrored at `low` and `high` until it lies between them.
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

    /// Elements at whole places \[n, rows, columns\], zeros outside: \[n, c, rows, columns\].
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
