//! Reductions and what is made of them.

use super::builder::{array, joined, list};
use super::{Binary, Builder, Compare, Value};
use moebius_pjrt::{ElementType, TensorType};

/// What a reduction does with two elements.
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

    /// The neutral element.
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

/// Windows of a [`Builder::reduce_window`], an entry for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Elements of a window.
    pub size: Vec<usize>,
    /// Elements from a window to the next.
    pub stride: Vec<usize>,
    /// Elements from one that a window takes to the next.
    pub dilation: Vec<usize>,
    /// Neutral elements before and after.
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
    /// The smallest value of a type: −∞ of floats, false of booleans.
    pub fn lowest(&self, ty: TensorType) -> Value {
        match ty.element {
            element if element.is_float() => self.splat(f64::NEG_INFINITY, ty),
            element if element.is_unsigned() || element == ElementType::Pred => self.splat(0.0, ty),
            element => self.splat_int(element.smallest(), ty),
        }
    }

    /// The largest value of a type: ∞ of floats, true of booleans.
    pub fn highest(&self, ty: TensorType) -> Value {
        match ty.element {
            element if element.is_float() => self.splat(f64::INFINITY, ty),
            ElementType::Pred => self.splat(1.0, ty),
            element => self.splat_int(element.largest(), ty),
        }
    }

    /// The elements along `dims` as one; these dimensions are gone.
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

    /// The region that makes one scalar of two.
    pub(super) fn reducer(&self, kind: Reduction, element: ElementType) -> String {
        let scalar = TensorType::scalar(element);
        self.region(&[scalar.clone(), scalar], |b, args| {
            vec![b.binary(kind.binary(), args[0], args[1])]
        })
    }

    /// The sum along `dims`; these dimensions are gone.
    pub fn sum(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Sum, x, dims)
    }

    /// As [`Builder::reduce`], with the dimensions kept at extent 1.
    pub fn reduce_keep(&self, kind: Reduction, x: Value, dims: &[usize]) -> Value {
        let mut shape = self.shape(x);
        dims.iter().for_each(|d| shape[*d] = 1);
        self.reshape(self.reduce(kind, x, dims), &shape)
    }

    fn without(&self, from: &TensorType, dims: &[usize]) -> TensorType {
        let kept = (0..from.rank()).filter(|d| !dims.contains(d));
        from.with_shape(kept.map(|d| from.shape[d]).collect::<Vec<_>>())
    }

    /// The largest (or smallest) element along `dim` and its index, i32: the first of equals, and
    /// the first NaN if there is one.
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

    /// The region that keeps one of two (value, index) pairs of these types.
    fn winner(&self, max: bool, pair: [TensorType; 2]) -> String {
        self.region(&[pair.clone(), pair].concat(), |b, args| {
            let takes = b.wins(max, (args[0], args[1]), (args[2], args[3]));
            vec![
                b.select(takes, args[0], args[2]),
                b.select(takes, args[1], args[3]),
            ]
        })
    }

    /// Whether the first of two (value, index) pairs is the one to keep. The neutral start has index
    /// 0 and loses to whatever isn't equal, or is index 0 itself.
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

    /// The elements of every window as one.
    pub fn reduce_window(&self, kind: Reduction, x: Value, window: &Window) -> Value {
        let from = self.ty(x);
        let start = kind.start(self, from.element);
        let region = self.reducer(kind, from.element);
        let (to, attributes) = (window.result(&from), window.attributes());
        let operation =
            format_args!("\"stablehlo.reduce_window\"({x}, {start}) <{{{attributes}}}> ({region})");
        self.typed(operation, &[x, start], to)
    }

    /// The largest element of every window of x and what is at its place in `places`: of equals the
    /// smallest, and of a NaN if there is one. `start` are the scalars that an empty window gives.
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

    /// Element i along `dim` is the reduction of elements 0 to i, in ⌈log₂ n⌉ passes over the tensor:
    /// a window per element would take n² steps on a processor.
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
