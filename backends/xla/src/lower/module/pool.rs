//! Pooling. The windows, and how far they reach beyond the input, follow from the extents of the result.

use super::super::{Lowering, Result};
use crate::stablehlo::{Builder, Reduction, Repeated, Scatter, Value, Window};
use burn_ir::{ModuleOperationIr, TensorIr};
use moebius_pjrt::ElementType::S32;
use moebius_pjrt::TensorType;

/// The windows of a pool, with an entry for each spatial dimension.
struct Pool<'a> {
    size: &'a [usize],
    stride: &'a [usize],
    padding: &'a [usize],
    dilation: &'a [usize],
}

impl Pool<'_> {
    /// How many elements the windows reach past the end of `extent` elements with padding before them; negative if the last
    /// elements are in no window.
    fn beyond(&self, d: usize, extent: usize, count: usize) -> i64 {
        let span = (self.size[d] - 1) * self.dilation[d] + 1;
        ((count - 1) * self.stride[d] + span) as i64 - (extent + self.padding[d]) as i64
    }

    /// The windows over all dimensions of a padded \[batch, channels, …\].
    fn window(&self) -> Window {
        let all = |numbers: &[usize]| [&[1, 1], numbers].concat();
        Window {
            size: all(self.size),
            stride: all(self.stride),
            dilation: all(self.dilation),
            padding: vec![(0, 0); 2 + self.size.len()],
        }
    }
}

/// Builds a [`Pool`] from a description of one or two dimensions.
macro_rules! pool {
    ($d:ident, one, $dilation:expr) => {
        pool!($d, [$d.kernel_size], [$d.stride], [$d.padding], [$dilation])
    };
    ($d:ident, two, $dilation:expr) => {
        pool!($d, $d.kernel_size, $d.stride, $d.padding, $dilation)
    };
    ($d:ident, $size:expr, $stride:expr, $padding:expr, $dilation:expr) => {
        &Pool {
            size: &$size,
            stride: &$stride,
            padding: &$padding,
            dilation: &$dilation,
        }
    };
}

impl Lowering<'_> {
    pub(in super::super) fn module(&self, op: &ModuleOperationIr) -> Result<Vec<Value>> {
        use ModuleOperationIr as Op;
        match op {
            Op::MaxPool1dWithIndices(d) => {
                self.max_with_indices(&d.x, &d.out, pool!(d, one, d.dilation))
            }
            Op::MaxPool2dWithIndices(d) => {
                self.max_with_indices(&d.x, &d.out, pool!(d, two, d.dilation))
            }
            other => Ok(vec![self.layer(other)?]),
        }
    }

    pub(super) fn pools(&self, op: &ModuleOperationIr) -> Result<Value> {
        use ModuleOperationIr as Op;
        match op {
            Op::AvgPool1d(d) => self.avg(&d.x, &d.out, pool!(d, one, 1), d.count_include_pad),
            Op::AvgPool2d(d) => self.avg(&d.x, &d.out, pool!(d, two, [1, 1]), d.count_include_pad),
            Op::AvgPool1dBackward(d) => {
                self.avg_backward(&d.grad, &d.out, pool!(d, one, 1), d.count_include_pad)
            }
            Op::AvgPool2dBackward(d) => {
                self.avg_backward(&d.grad, &d.out, pool!(d, two, [1, 1]), d.count_include_pad)
            }
            Op::MaxPool1d(d) => self.max(&d.x, &d.out, pool!(d, one, d.dilation)),
            Op::MaxPool2d(d) => self.max(&d.x, &d.out, pool!(d, two, d.dilation)),
            Op::MaxPool1dWithIndicesBackward(d) => self.max_backward(&d.grad, &d.indices, &d.out),
            Op::MaxPool2dWithIndicesBackward(d) => self.max_backward(&d.grad, &d.indices, &d.out),
            Op::AdaptiveAvgPool1d(d) => self.adaptive(&d.x, &d.out),
            Op::AdaptiveAvgPool2d(d) => self.adaptive(&d.x, &d.out),
            Op::AdaptiveAvgPool3d(d) => self.adaptive(&d.x, &d.out),
            Op::AdaptiveAvgPool1dBackward(d) => self.adaptive_backward(&d.grad, &d.out),
            Op::AdaptiveAvgPool2dBackward(d) => self.adaptive_backward(&d.grad, &d.out),
            Op::AdaptiveAvgPool3dBackward(d) => self.adaptive_backward(&d.grad, &d.out),
            other => unreachable!("{other:?} is lowered in another file"),
        }
    }

    fn avg(
        &self,
        x: &TensorIr,
        out: &TensorIr,
        pool: &Pool<'_>,
        include_padding: bool,
    ) -> Result<Value> {
        let b = self.b;
        let x = self.get_wide(x)?;
        let padded = b.reached(x, b.scalar(0.0, b.element(x)), pool, &out.shape);
        let sums = b.reduce_window(Reduction::Sum, padded, &pool.window());
        let counts = b.counts(x, &b.shape(x)[2..], pool, &out.shape, include_padding);
        Ok(b.div(sums, Repeated(counts)))
    }

    /// The gradient of an average pool: each window's gradient, divided by its count, is added to all elements of the
    /// window.
    fn avg_backward(
        &self,
        grad: &TensorIr,
        out: &TensorIr,
        pool: &Pool<'_>,
        include_padding: bool,
    ) -> Result<Value> {
        let b = self.b;
        let grad = self.get_wide(grad)?;
        let shape = b.shape(grad);
        let counts = b.counts(grad, &out.shape[2..], pool, &shape, include_padding);
        let grad = b.div(grad, Repeated(counts));
        let zero = b.scalar(0.0, b.element(grad));
        let (mut low, mut high, mut interior) = (vec![0; 2], vec![0; 2], vec![0; 2]);
        for d in 0..pool.size.len() {
            let before = pool.size[d] as i64 - 1 - pool.padding[d] as i64;
            let spread = (shape[d + 2] - 1) * pool.stride[d] + 1;
            low.push(before);
            high.push((out.shape[d + 2] + pool.size[d] - 1) as i64 - before - spread as i64);
            interior.push(pool.stride[d] - 1);
        }
        let spread = b.pad(grad, zero, &low, &high, &interior);
        let mut window = pool.window();
        window.stride.fill(1);
        Ok(b.reduce_window(Reduction::Sum, spread, &window))
    }

    fn max(&self, x: &TensorIr, out: &TensorIr, pool: &Pool<'_>) -> Result<Value> {
        let x = self.get(x)?;
        let lowest = self.b.scalar(f64::NEG_INFINITY, self.b.element(x));
        let x = self.b.reached(x, lowest, pool, &out.shape);
        Ok(self.b.reduce_window(Reduction::Max, x, &pool.window()))
    }

    /// The maximum of each window and its index, which counts the elements of a channel in row-major order.
    fn max_with_indices(
        &self,
        x: &TensorIr,
        out: &TensorIr,
        pool: &Pool<'_>,
    ) -> Result<Vec<Value>> {
        let x = self.get(x)?;
        let shape = self.b.shape(x);
        let count: usize = shape[2..].iter().product();
        let flat = [&shape[..2], &[count]].concat();
        let ty = self.b.ty(x).with_shape(flat).with_element(S32);
        let places = self.b.reshape(self.b.iota(ty, 2), &shape);
        let lowest = self.b.scalar(f64::NEG_INFINITY, self.b.element(x));
        // The index of padding comes after all others, so that a window of −∞ alone still finds an element.
        let nowhere = self.b.scalar(f64::from(i32::MAX), S32);
        let x = self.b.reached(x, lowest, pool, &out.shape);
        let places = self.b.reached(places, nowhere, pool, &out.shape);
        let starts = (lowest, nowhere);
        Ok(self.b.max_window((x, places), starts, &pool.window()))
    }

    /// Adds each gradient to the element that was the largest of its window.
    fn max_backward(&self, grad: &TensorIr, indices: &TensorIr, out: &TensorIr) -> Result<Value> {
        let (grad, at) = (self.get_wide(grad)?, self.get(indices)?);
        let shape = self.b.shape(grad);
        let count: usize = shape[2..].iter().product();
        let grad = self.b.reshape(grad, &[shape[0], shape[1], count]);
        let at = self.b.reshape(at, &[shape[0], shape[1], count, 1]);
        let extent: usize = out.shape[2..].iter().product();
        let ty = self.b.ty(grad).with_shape([shape[0], shape[1], extent]);
        let zeros = self.b.splat(0.0, ty);
        let s = Scatter {
            inserted_window_dims: vec![2],
            input_batching_dims: vec![0, 1],
            scatter_indices_batching_dims: vec![0, 1],
            scatter_dims_to_operand_dims: vec![2],
            index_vector_dim: 3,
            ..Scatter::default()
        };
        Ok(self.b.scatter((zeros, at, grad), &s, Some(Reduction::Sum)))
    }

    fn adaptive(&self, x: &TensorIr, out: &TensorIr) -> Result<Value> {
        let b = self.b;
        let mut y = self.get_wide(x)?;
        for d in 2..out.shape.len() {
            // `contract` moves its dimension to the end, so that the next one is always dimension 2.
            y = b.contract(y, b.averages(b.ty(y).shape[2], out.shape[d], y), 1);
        }
        Ok(y)
    }

    fn adaptive_backward(&self, grad: &TensorIr, out: &TensorIr) -> Result<Value> {
        let b = self.b;
        let mut y = self.get_wide(grad)?;
        for d in 2..out.shape.len() {
            y = b.contract(y, b.averages(out.shape[d], b.ty(y).shape[2], y), 0);
        }
        Ok(y)
    }
}

impl Builder {
    /// `x` padded with `value` as far as the windows of a result with extents `out` reach.
    fn reached(&self, x: Value, value: Value, pool: &Pool<'_>, out: &[usize]) -> Value {
        let shape = self.shape(x);
        let (mut low, mut high) = (vec![0; 2], vec![0; 2]);
        for d in 0..pool.size.len() {
            low.push(pool.padding[d] as i64);
            high.push(pool.beyond(d, shape[d + 2], out[d + 2]));
        }
        self.pad(x, value, &low, &high, &vec![0; shape.len()])
    }

    /// The number of elements that each window counts, \[1, 1, …\].
    fn counts(
        &self,
        like: Value,
        extents: &[usize],
        pool: &Pool<'_>,
        out: &[usize],
        padding: bool,
    ) -> Value {
        let element = self.element(like);
        let zero = self.scalar(0.0, element);
        let mut shape = [&[1, 1], extents].concat();
        let mut ones = Pool { ..*pool };
        let none = vec![0; extents.len()];
        if padding {
            for d in 0..extents.len() {
                shape[d + 2] += 2 * pool.padding[d];
            }
            ones.padding = &none;
        }
        let counted = self.splat(1.0, TensorType::new(shape, element));
        let counted = self.reached(counted, zero, &ones, out);
        let counts = self.reduce_window(Reduction::Sum, counted, &pool.window());
        self.max(counts, 1.0)
    }
}
