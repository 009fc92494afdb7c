//! Reductions, and operations made of them.

use super::builder::{array, joined, list};
use super::{Binary, Builder, Compare, Value};
use moebius_pjrt::{ElementType, TensorType};

/// The operation by which a reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the operation of its name")]
pub enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
}

impl Reduction {
    const fn binary(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Product => Binary::Multiply,
            Self::Max => Binary::Maximum,
            Self::Min => Binary::Minimum,
            Self::And => Binary::And,
            Self::Or => Binary::Or,
        }
    }

    /// The neutral element of the reduction.
    fn start(self, b: &Builder, element: ElementType) -> Value {
        let ty = TensorType::scalar(element);
        match self {
            Self::Sum | Self::Or => b.splat(0.0, ty),
            Self::Product => b.splat(1.0, ty),
            Self::And if element == ElementType::Pred => b.splat(1.0, ty),
            Self::And if element.is_unsigned() => b.splat_int(element.largest(), ty),
            Self::And => b.splat_int(-1, ty),
            Self::Max => b.lowest(ty),
            Self::Min => b.highest(ty),
        }
    }
}

/// The windows of a [`Builder::reduce_window`], with an entry for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of elements in a window.
    pub size: Vec<usize>,
    /// The distance from one window to the next, in elements.
    pub stride: Vec<usize>,
    /// The distance between the elements of a window.
    pub dilation: Vec<usize>,
    /// The number of neutral elements before and after.
    pub padding: Vec<(usize, usize)>,
}

impl Window {
    fn result(&self, from: &TensorType) -> TensorType {
        let extent = |d: usize| {
            let (low, high) = self.padding[d];
            let span = (self.size[d] - 1) * self.dilation[d] + 1;
            (from.shape[d] + low + high + self.stride[d]).saturating_sub(span) / self.stride[d]
        };
        from.with_shape((0..from.rank()).map(extent).collect::<Vec<_>>())
    }

    fn attributes(&self) -> String {
        let rank = self.size.len();
        let pairs = self.padding.iter();
        let padding = list(pairs.map(|(low, high)| format!("[{low}, {high}]")));
        let [size, stride, dilation] = [&self.size, &self.stride, &self.dilation].map(|n| array(n));
        let ones = array(&vec![1; rank]);
        format!(
            "base_dilations = {ones}, padding = dense<{padding}> : tensor<{rank}x2xi64>, \
             window_dilations = {dilation}, window_dimensions = {size}, window_strides = {stride}"
        )
    }
}

impl Builder {
    /// The smallest value of a type: −∞ for floats, false for booleans.
    pub fn lowest(&self, ty: TensorType) -> Value {
        match ty.element {
            element if element.is_float() => self.splat(f64::NEG_INFINITY, ty),
            element if element.is_unsigned() || element == ElementType::Pred => self.splat(0.0, ty),
            element => self.splat_int(element.smallest(), ty),
        }
    }

    /// The largest value of a type: ∞ for floats, true for booleans.
    pub fn highest(&self, ty: TensorType) -> Value {
        match ty.element {
            element if element.is_float() => self.splat(f64::INFINITY, ty),
            ElementType::Pred => self.splat(1.0, ty),
            element => self.splat_int(element.largest(), ty),
        }
    }

    /// Reduces the elements along `dims` to one, and removes these dimensions.
    pub fn reduce(&self, kind: Reduction, x: Value, dims: &[usize]) -> Value {
        if dims.is_empty() {
            return x;
        }
        let from = self.ty(x);
        let start = kind.start(self, from.element);
        let to = self.without(&from, dims);
        let (name, dims) = (kind.binary().name(), list(dims));
        let operation = format_args!(
            "stablehlo.reduce({x} init: {start}) applies {name} across dimensions = {dims}"
        );
        self.typed(operation, &[x, start], to)
    }

    /// The region that combines two scalars into one.
    pub(super) fn reducer(&self, kind: Reduction, element: ElementType) -> String {
        let scalar = TensorType::scalar(element);
        self.region(&[scalar.clone(), scalar], |b, args| {
            vec![b.binary(kind.binary(), args[0], args[1])]
        })
    }

    /// The sum along `dims`, which are removed.
    pub fn sum(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Sum, x, dims)
    }

    /// As [`Builder::reduce`], but keeps the dimensions with extent 1.
    pub fn reduce_keep(&self, kind: Reduction, x: Value, dims: &[usize]) -> Value {
        let mut shape = self.shape(x);
        dims.iter().for_each(|d| shape[*d] = 1);
        self.reshape(self.reduce(kind, x, dims), &shape)
    }

    fn without(&self, from: &TensorType, dims: &[usize]) -> TensorType {
        let kept = (0..from.rank()).filter(|d| !dims.contains(d));
        from.with_shape(kept.map(|d| from.shape[d]).collect::<Vec<_>>())
    }

    /// The largest (or smallest) element along `dim` and its index, i32: the first of equal ones, and the first NaN if
    /// there is one.
    pub fn arg_extreme(&self, max: bool, x: Value, dim: usize) -> Vec<Value> {
        let (from, index) = (self.ty(x), ElementType::S32);
        let places = self.iota(from.with_element(index), dim);
        let scalar = TensorType::scalar(from.element);
        let start = if max {
            self.lowest(scalar.clone())
        } else {
            self.highest(scalar.clone())
        };
        let zero = self.splat(0.0, TensorType::scalar(index));
        let region = self.winner(max, [scalar, TensorType::scalar(index)]);
        let operands = [x, places, start, zero];
        let names = joined(operands);
        let value = self.without(&from, &[dim]);
        let place = value.with_element(index);
        let dims = array(&[dim]);
        let operation =
            format_args!("\"stablehlo.reduce\"({names}) <{{dimensions = {dims}}}> ({region})");
        self.typed_many(operation, &operands, vec![value, place])
    }

    /// The region that selects one of two (value, index) pairs of these types.
    fn winner(&self, max: bool, pair: [TensorType; 2]) -> String {
        self.region(&[pair.clone(), pair].concat(), |b, args| {
            let takes = b.wins(max, (args[0], args[1]), (args[2], args[3]));
            vec![
                b.select(takes, args[0], args[2]),
                b.select(takes, args[1], args[3]),
            ]
        })
    }

    /// Whether the first of two (value, index) pairs is to be kept. The neutral start has index 0: it loses to any other value,
    /// and if all values are equal to it, index 0 is the right answer.
    fn wins(&self, max: bool, (x, at_x): (Value, Value), (y, at_y): (Value, Value)) -> Value {
        let direction = if max { Compare::Gt } else { Compare::Lt };
        let better = self.compare(direction, x, y);
        let nan = self.ne(x, x);
        let other_nan = self.ne(y, y);
        let tie = self.or(self.eq(x, y), self.and(nan, other_nan));
        let first = self.and(tie, self.lt(at_x, at_y));
        let only_x = self.and(nan, self.not(other_nan));
        self.or(self.or(better, first), only_x)
    }

    /// Reduces the elements of every window to one.
    pub fn reduce_window(&self, kind: Reduction, x: Value, window: &Window) -> Value {
        let from = self.ty(x);
        let start = kind.start(self, from.element);
        let region = self.reducer(kind, from.element);
        let (to, attributes) = (window.result(&from), window.attributes());
        let operation =
            format_args!("\"stablehlo.reduce_window\"({x}, {start}) <{{{attributes}}}> ({region})");
        self.typed(operation, &[x, start], to)
    }

    /// The largest element of every window of `x`, and the entry of `places` at its place: the smallest of equal
    /// elements' entries, and a NaN's if there is one. `start` are the scalars for an empty window.
    pub fn max_window(
        &self,
        (x, places): (Value, Value),
        start: (Value, Value),
        window: &Window,
    ) -> Vec<Value> {
        let region = self.winner(true, [start.0, start.1].map(|start| self.ty(start)));
        let operands = [x, places, start.0, start.1];
        let names = joined(operands);
        let results = [x, places].map(|v| window.result(&self.ty(v)));
        let attributes = window.attributes();
        let operation =
            format_args!("\"stablehlo.reduce_window\"({names}) <{{{attributes}}}> ({region})");
        self.typed_many(operation, &operands, results.to_vec())
    }

    /// Cumulative reduction: element i along `dim` is the reduction of elements 0 to i. It takes ⌈log₂ n⌉ passes over
    /// the tensor; a window for each element would take n² steps on a processor.
    pub fn cumulative(&self, kind: Reduction, x: Value, dim: usize) -> Value {
        let (extent, rank) = (self.ty(x).shape[dim], self.ty(x).rank());
        let start = kind.start(self, self.element(x));
        let (mut sum, mut step) = (x, 1);
        while step < extent {
            let mut low = vec![0; rank];
            let mut high = vec![0; rank];
            (low[dim], high[dim]) = (step as i64, -(step as i64));
            let shifted = self.pad(sum, start, &low, &high, &vec![0; rank]);
            sum = self.binary(kind.binary(), sum, shifted);
            step *= 2;
        }
        sum
    }
}
