//! Constants, iota, and operations that move or repeat elements.

use super::builder::{joined, list};
use super::{Builder, Value};
use moebius_pjrt::{ElementType, TensorType};

impl Builder {
    /// A tensor of type `ty` with `value` everywhere, rounded to the element type; booleans are true if it isn't 0.
    pub fn splat(&self, value: f64, ty: TensorType) -> Value {
        let literal = literal(value, ty.element);
        self.of_type(format_args!("stablehlo.constant dense<{literal}>"), ty)
    }

    /// A tensor of type `ty` with an integer everywhere; unlike [`Builder::splat`], exact for 64 bits.
    pub fn splat_int(&self, value: i128, ty: TensorType) -> Value {
        if ty.element.is_float() || ty.element == ElementType::Pred {
            return self.splat(value as f64, ty);
        }
        self.of_type(format_args!("stablehlo.constant dense<{value}>"), ty)
    }

    /// A scalar.
    pub fn scalar(&self, value: f64, element: ElementType) -> Value {
        self.splat(value, TensorType::scalar(element))
    }

    /// A tensor of the type of `value` with `number` everywhere.
    pub fn splat_like(&self, number: f64, value: Value) -> Value {
        self.splat(number, self.ty(value))
    }

    /// A vector of integers.
    pub fn integers(&self, values: &[i64], element: ElementType) -> Value {
        let ty = TensorType::new([values.len()], element);
        let text = match values {
            [] => String::new(),
            _ => list(values),
        };
        self.of_type(format_args!("stablehlo.constant dense<{text}>"), ty)
    }

    /// A tensor that counts 0, 1, 2, … along dimension `dim`.
    pub fn iota(&self, ty: TensorType, dim: usize) -> Value {
        self.of_type(format_args!("stablehlo.iota dim = {dim}"), ty)
    }
}

/// `value` as MLIR reads it for `element`. Floats that decimal text can't express are written as bits.
fn literal(value: f64, element: ElementType) -> String {
    match element {
        ElementType::Pred => (value != 0.0).to_string(),
        element if !element.is_float() => format!("{}", value as i128),
        _ if value.is_finite() => decimal(value),
        ElementType::F64 => format!("0x{:016X}", value.to_bits()),
        ElementType::F32 => format!("0x{:08X}", (value as f32).to_bits()),
        ElementType::F16 => format!("0x{:04X}", half::f16::from_f64(value).to_bits()),
        ElementType::BF16 => format!("0x{:04X}", half::bf16::from_f64(value).to_bits()),
        // E4M3 has no infinity: write NaN with the sign, as an overflow without saturation gives.
        ElementType::F8E4M3FN if value.is_sign_negative() => "0xFF".to_owned(),
        ElementType::F8E4M3FN => "0x7F".to_owned(),
        _ if value.is_nan() => "0x7E".to_owned(),
        _ if value < 0.0 => "0xFC".to_owned(),
        _ => "0x7C".to_owned(),
    }
}

/// The shortest decimal that reads back as `value`, with the point that MLIR requires.
fn decimal(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

impl Builder {
    /// The elements of `x`, in row-major order, in another shape.
    pub fn reshape(&self, x: Value, shape: &[usize]) -> Value {
        let from = self.ty(x);
        if from.shape == shape {
            return x;
        }
        let to = from.with_shape(shape);
        self.typed(format_args!("stablehlo.reshape {x}"), &[x], to)
    }

    /// Permutes dimensions: dimension i of the result is dimension `permutation[i]` of `x`.
    pub fn transpose(&self, x: Value, permutation: &[usize]) -> Value {
        let from = self.ty(x);
        if permutation.iter().copied().eq(0..from.rank()) {
            return x;
        }
        let extents = permutation.iter().map(|d| from.shape[*d]);
        let to = from.with_shape(extents.collect::<Vec<_>>());
        let dims = list(permutation);
        self.typed(
            format_args!("stablehlo.transpose {x}, dims = {dims}"),
            &[x],
            to,
        )
    }

    /// `x` behind an optimisation barrier: the compiler moves no operation across.
    pub fn barrier(&self, x: Value) -> Value {
        self.alike(format_args!("stablehlo.optimization_barrier {x}"), x)
    }

    /// x with two dimensions exchanged.
    pub fn swap_dims(&self, x: Value, one: usize, other: usize) -> Value {
        let mut permutation: Vec<usize> = (0..self.ty(x).rank()).collect();
        permutation.swap(one, other);
        self.transpose(x, &permutation)
    }

    /// `x` repeated to `shape`; dimension i of `x` becomes dimension `dims[i]` of the result.
    pub fn broadcast(&self, x: Value, shape: &[usize], dims: &[usize]) -> Value {
        let from = self.ty(x);
        let to = from.with_shape(shape);
        if from == to && dims.iter().copied().eq(0..shape.len()) {
            return x;
        }
        let dims = list(dims);
        let operation = format_args!("stablehlo.broadcast_in_dim {x}, dims = {dims}");
        self.typed(operation, &[x], to)
    }

    /// `x` repeated to `shape` as in NumPy: dimensions are aligned at the last, and those of extent 1 repeat.
    pub fn broadcast_to(&self, x: Value, shape: &[usize]) -> Value {
        let first = shape.len() - self.ty(x).rank();
        let dims: Vec<usize> = (first..shape.len()).collect();
        self.broadcast(x, shape, &dims)
    }

    /// `x` with a new dimension of extent `repeat` at `dim`, along which it repeats.
    pub fn repeat_at(&self, x: Value, dim: usize, repeat: usize) -> Value {
        let mut shape = self.shape(x);
        shape.insert(dim, repeat);
        let dims: Vec<usize> = (0..shape.len()).filter(|d| *d != dim).collect();
        self.broadcast(x, &shape, &dims)
    }

    /// Every `stride`-th of the elements `start..limit` of each dimension.
    pub fn slice(&self, x: Value, start: &[usize], limit: &[usize], stride: &[usize]) -> Value {
        let from = self.ty(x);
        let extents = (0..from.rank()).map(|d| (limit[d] - start[d]).div_ceil(stride[d]));
        let to = from.with_shape(extents.collect::<Vec<_>>());
        if to == from {
            return x;
        }
        let ranges = (0..from.rank()).map(|d| match stride[d] {
            1 => format!("{}:{}", start[d], limit[d]),
            stride => format!("{}:{}:{stride}", start[d], limit[d]),
        });
        let ranges = list(ranges);
        self.typed(format_args!("stablehlo.slice {x} {ranges}"), &[x], to)
    }

    /// Elements `range` of dimension `dim`, and all elements of the others.
    pub fn slice_dim(&self, x: Value, dim: usize, range: std::ops::Range<usize>) -> Value {
        let mut start = vec![0; self.ty(x).rank()];
        let mut limit = self.shape(x);
        let stride = vec![1; start.len()];
        (start[dim], limit[dim]) = (range.start, range.end);
        self.slice(x, &start, &limit, &stride)
    }

    /// A slice of extents `sizes` that begins at `starts`, which are scalars; it is moved inside if it would end
    /// outside.
    pub fn dynamic_slice(&self, x: Value, starts: &[Value], sizes: &[usize]) -> Value {
        let to = self.ty(x).with_shape(sizes);
        let operands = [&[x], starts].concat();
        let (names, sizes) = (joined(&operands), list(sizes));
        let operation = format_args!("stablehlo.dynamic_slice {names}, sizes = {sizes}");
        self.typed(operation, &operands, to)
    }

    /// `x` with `update` written at `starts`, which are scalars.
    pub fn dynamic_update_slice(&self, x: Value, update: Value, starts: &[Value]) -> Value {
        let to = self.ty(x);
        let operands = [&[x, update], starts].concat();
        let names = joined(&operands);
        let operation = format_args!("stablehlo.dynamic_update_slice {names}");
        self.typed(operation, &operands, to)
    }

    /// The values joined along `dim`.
    pub fn concatenate(&self, values: &[Value], dim: usize) -> Value {
        if let [one] = values {
            return *one;
        }
        let mut shape = self.shape(values[0]);
        shape[dim] = values.iter().map(|v| self.ty(*v).shape[dim]).sum();
        let to = self.ty(values[0]).with_shape(shape);
        let names = joined(values);
        let operation = format_args!("stablehlo.concatenate {names}, dim = {dim}");
        self.typed(operation, values, to)
    }

    /// `x` with `low` and `high` elements of `value`, a scalar, before and after each dimension, and `interior`
    /// elements between its elements. Negative numbers remove elements.
    pub fn pad(
        &self,
        x: Value,
        value: Value,
        low: &[i64],
        high: &[i64],
        interior: &[usize],
    ) -> Value {
        let from = self.ty(x);
        let extent = |d: usize| {
            let inner = from.shape[d] + from.shape[d].saturating_sub(1) * interior[d];
            (inner as i64 + low[d] + high[d]) as usize
        };
        let to = from.with_shape((0..from.rank()).map(extent).collect::<Vec<_>>());
        let (low, high, interior) = (list(low), list(high), list(interior));
        let operation = format_args!(
            "stablehlo.pad {x}, {value}, low = {low}, high = {high}, interior = {interior}"
        );
        self.typed(operation, &[x, value], to)
    }

    /// x with the order along `dims` reversed.
    pub fn reverse(&self, x: Value, dims: &[usize]) -> Value {
        let dims = list(dims);
        self.alike(format_args!("stablehlo.reverse {x}, dims = {dims}"), x)
    }

    /// Random bits from a counter-based generator, with the new state first. `state` is ui64\[2\].
    pub fn random_bits(&self, state: Value, ty: TensorType) -> (Value, Value) {
        let of = self.ty(state);
        let operation = format_args!("stablehlo.rng_bit_generator {state}, algorithm = THREE_FRY");
        let results = self.typed_many(operation, &[state], vec![of, ty]);
        (results[0], results[1])
    }
}
