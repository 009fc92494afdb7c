//! Products per expert, and dense products computed the same way: [`moebius_ops::grouped_gemm`]. Rows past the last
//! expert's may hold anything in operands, and are 0 in results.
//!
//! With FP8 weights sums are f32. With x in f32, a weight is code · scale rounded to f32, decoded before the product or
//! in its inner loop, as XLA chooses. With x in 16 bits and one scale for each row or matrix, the codes themselves are
//! multiplied in the type of x, which represents all of them, and the sum is scaled: a TPU's matrix unit does this in
//! one pass instead of six. Either way the result equals that of the decoded weights except for the order of the sum,
//! 10⁻⁶ of the largest result in f32. XLA chooses that order by the shapes: in a dense product, a row's last bits
//! depend on the number of rows and on the row's place among them, but not on the values of the others; experts' rows
//! are multiplied in blocks of one shape.
//!
//! 2:4 weights are put together and blocks of codes decoded before the product, or in its inner loop, as XLA chooses.

pub(super) mod activation;
mod blocks;
pub(super) mod segments;

use super::quantize::{decode, element as code_element, given};
use super::values::words;
use crate::stablehlo::{Along, Builder, DotDims, Value};
use activation::{gated, value};
use moebius_ops::blocks::BlockFormat;
use moebius_ops::fp8::LANES_PER_WORD;
use moebius_ops::grouped_gemm::fp8::{PANEL, matrix};
use moebius_ops::grouped_gemm::sparse24::{GROUP, GROUPS_PER_WORD};
use moebius_ops::grouped_gemm::{Problem, Source, Stored};
use moebius_ops::scaling::Granularity;
use moebius_ops::{GroupedGemm, quantize};
use moebius_pjrt::ElementType::{self, F32, S32, U32};
use moebius_pjrt::TensorType;
use segments::{Segments, affine, product};

pub(super) fn lower(b: &Builder, operation: &GroupedGemm, inputs: &[Value]) -> Vec<Value> {
    match operation {
        GroupedGemm::Linear(problem) => linear(b, problem, inputs),
        GroupedGemm::LinearBackward {
            problem,
            rows,
            w,
            bias,
        } => linear_backward(b, problem, [*rows, *w, *bias], inputs),
        GroupedGemm::CodedLinear(problem) => vec![coded(b, problem, inputs)],
        GroupedGemm::CodedLinearBackward { problem, x, bias } => {
            coded_backward(b, problem, [*x, *bias], inputs)
        }
        GroupedGemm::Fp8Codes(_) => unreachable!("refused before it is lowered"),
    }
}

/// The segments of the experts' rows, and the operands after the offsets. The offsets are operand `at`, unless the
/// product is dense.
fn rows_and_rest<'a>(
    b: &'a Builder,
    p: &Problem,
    inputs: &'a [Value],
    at: usize,
) -> (Segments<'a>, &'a [Value]) {
    let (offsets, rest) = if p.dense {
        (b.integers(&[0, p.row_bound as i64], S32), at)
    } else {
        (inputs[at], at + 1)
    };
    (Segments::new(b, p.row_bound, offsets), &inputs[rest..])
}

/// The operands with all values of W, which is operand `at` and, if it is 2:4, is followed by the places of what is
/// kept.
fn with_values(b: &Builder, p: &Problem, inputs: &[Value], at: usize) -> Vec<Value> {
    let mut inputs = inputs.to_vec();
    if p.stored == Stored::Sparse24 {
        let places = inputs.remove(at + 1);
        inputs[at] = complete(b, inputs[at], places);
    }
    inputs
}

/// The values \[E, n, k\] of 2:4 weights from those that are kept, \[E, n, k/2\], and the words of their places,
/// \[E, n, ⌈k/32⌉\].
fn complete(b: &Builder, kept: Value, places: Value) -> Value {
    let [experts, n, half] = b.shape(kept)[..] else {
        unreachable!("weights are stacks of matrices")
    };
    let (groups, of_word) = (half / 2, b.shape(places)[2]);
    let bits = b.repeat_at(words(b, places), 3, GROUPS_PER_WORD);
    let shifts = b.iota(TensorType::new(b.shape(bits), U32), 3);
    let bits = b.shift_right(bits, b.mul(shifts, GROUP as f64));
    let bits = b.reshape(bits, &[experts, n, of_word * GROUPS_PER_WORD]);
    let bits = b.repeat_at(b.slice_dim(bits, 2, 0..groups), 3, GROUP);
    let dense = b.shape(bits);
    let own = b.iota(TensorType::new(dense.clone(), U32), 3);
    let first = b.eq(b.and(bits, 3.0), own);
    let second = b.eq(b.and(b.shift_right(bits, 2.0), 3.0), own);
    let pairs = b.reshape(kept, &[experts, n, groups, 2]);
    let of_pair = |at: usize| b.broadcast_to(b.slice_dim(pairs, 3, at..at + 1), &dense);
    let values = b.select(second, of_pair(1), 0.0);
    b.reshape(b.select(first, of_pair(0), values), &[experts, n, 2 * half])
}

/// Appends y = rows · Wᵀ + b. The operands are rows, W, places if it is 2:4, offsets unless the product is dense, and b
/// if there is a bias.
fn linear(b: &Builder, p: &Problem, inputs: &[Value]) -> Vec<Value> {
    let inputs = &with_values(b, p, inputs, 1);
    let rows = inputs[0];
    let dtype = b.element(rows);
    let (segments, bias) = rows_and_rest(b, p, inputs, 2);
    let stacks = [&inputs[1..2], bias].concat();
    let row_type = TensorType::new([p.row_bound, p.n], dtype);
    segments.walk(&stacks, &[row_type], &[], |block, matrices| {
        let y = affine(b, block.rows(rows), matrices[0], matrices.get(1).copied());
        vec![b.convert(y, dtype)]
    })
}

/// Appends those gradients of the rows, W and the bias that are needed. The operands are dy, rows, W, places if it is
/// 2:4, and offsets unless the product is dense.
fn linear_backward(
    b: &Builder,
    p: &Problem,
    [of_rows, of_w, of_bias]: [bool; 3],
    inputs: &[Value],
) -> Vec<Value> {
    let inputs = &with_values(b, p, inputs, 2);
    let (dy, rows) = (inputs[0], inputs[1]);
    let dtype = b.element(rows);
    let (segments, _) = rows_and_rest(b, p, inputs, 3);
    let row_types = of_rows.then(|| TensorType::new([p.row_bound, p.k], dtype));
    let sums = [(of_w, vec![p.n, p.k]), (of_bias, vec![p.n])];
    let sums = sums.into_iter().filter(|(needed, _)| *needed);
    let sums: Vec<_> = sums.map(|(_, s)| TensorType::new(s, F32)).collect();
    let (stacks, row_types) = (&inputs[2..3], row_types.as_slice());
    let results = segments.walk(stacks, row_types, &sums, |block, matrices| {
        let (dy, rows) = (block.rows(dy), block.rows(rows));
        let (dy, rows) = (block.masked(dy), block.masked(rows));
        let mut results = Vec::new();
        if of_rows {
            let drows = product(b, dy, matrices[0], &DotDims::matmul(0));
            results.push(b.convert(drows, dtype));
        }
        if of_w {
            results.push(b.dot(dy, rows, &DotDims::batched(0, 0, 0), F32));
        }
        if of_bias {
            results.push(b.sum(b.convert(dy, F32), &[0]));
        }
        results
    });
    results.into_iter().map(|r| b.convert(r, dtype)).collect()
}

/// A product with weights that are codes.
struct Coded<'a> {
    product: &'a Problem,
    form: Form,
}

/// The codes of one expert.
enum Form {
    /// FP8 codes and their scales.
    Fp8(quantize::Problem),
    /// Blocks of codes.
    Blocks(BlockFormat),
}

impl<'a> Coded<'a> {
    /// A checked product with weights that are codes.
    fn of(product: &'a Problem) -> Self {
        let form = match product.stored {
            Stored::Blocks(format) => Form::Blocks(format),
            _ => Form::Fp8(
                matrix(product).unwrap_or_else(|error| unreachable!("a checked product: {error}")),
            ),
        };
        Self { product, form }
    }

    /// The number of output columns, of gate and up together.
    fn columns(&self) -> usize {
        self.product.n * self.product.parts()
    }

    /// The shape of the words: \[E, P·⌈n/64⌉, ⌈k/4⌉, 64\].
    fn panels(&self) -> [usize; 4] {
        let p = self.product;
        let panels = p.parts() * p.n.div_ceil(PANEL);
        [p.experts, panels, p.k.div_ceil(LANES_PER_WORD), PANEL]
    }

    /// The number of stacks that the weights are: codes, and the scales of FP8 codes.
    fn stacks_of_codes(&self) -> usize {
        match self.form {
            Form::Fp8(_) => 2,
            Form::Blocks(_) => 1,
        }
    }

    /// The stacks of the weights among operands that begin with rows, and the operands after them.
    fn stacks<'i>(&self, b: &Builder, inputs: &'i [Value]) -> (Vec<Value>, &'i [Value]) {
        let (stacks, rest) = inputs[1..].split_at(self.stacks_of_codes());
        let mut stacks = stacks.to_vec();
        if let Form::Fp8(_) = self.form {
            stacks[0] = b.reshape(stacks[0], &self.panels());
        }
        (stacks, rest)
    }
}

/// Appends y. The operands are x, words, scales of FP8 codes, order and offsets unless the product is dense, and b if
/// there is a bias. Rows past the last expert's are 0.
fn coded(b: &Builder, product: &Problem, inputs: &[Value]) -> Value {
    let p = &Coded::of(product);
    let (x, element) = (inputs[0], b.element(inputs[0]));
    let (mut stacks, inputs) = p.stacks(b, inputs);
    if product.dense {
        stacks.extend(inputs);
        let only = |stack| b.reshape(stack, &b.shape(stack)[1..]);
        let matrices = stacks.into_iter().map(only).collect();
        return multiply(b, p, x, &prepared(b, p, element, matrices));
    }
    stacks.extend(&inputs[2..]);
    let segments = Segments::new(b, product.row_bound, inputs[1]);
    let slots = words(b, b.slice_dim(inputs[0], 0, 0..product.row_bound));
    let tokens = b.div(slots, product.top_k as f64);
    let row_types = [TensorType::new([product.row_bound, product.n], element)];
    let prepare = |matrices| prepared(b, p, element, matrices);
    let results = segments.walk_prepared(&stacks, (&row_types, &[]), prepare, |block, weights| {
        let x = match product.rows {
            Source::Tokens => b.take(x, block.rows(tokens)),
            Source::Sorted => block.rows(x),
        };
        vec![multiply(b, p, x, weights)]
    });
    results[0]
}

/// Appends those gradients of x and the bias that are needed. The operands are dy, words, scales of FP8 codes, and order
/// and offsets unless the product is dense. Weights are decoded in f32, an expert at a time.
fn coded_backward(
    b: &Builder,
    product: &Problem,
    [of_x, of_bias]: [bool; 2],
    inputs: &[Value],
) -> Vec<Value> {
    let p = &Coded::of(product);
    let (dy, dtype) = (inputs[0], b.element(inputs[0]));
    let (mut stacks, sort) = p.stacks(b, inputs);
    if !of_x {
        stacks.clear();
    }
    // The offsets follow the order.
    let (segments, _) = rows_and_rest(b, product, sort, usize::from(!product.dense));
    let row_types = of_x.then(|| TensorType::new([product.row_bound, product.k], dtype));
    let sums = of_bias.then(|| TensorType::new([product.n], F32));
    let types = (row_types.as_slice(), sums.as_slice());
    let prepare = |matrices: Vec<Value>| {
        let weights = of_x.then(|| weights(b, p, &matrices));
        weights.into_iter().collect()
    };
    let results = segments.walk_prepared(&stacks, types, prepare, |block, weights| {
        let dy = block.masked(block.rows(dy));
        let mut results = Vec::new();
        for w in weights {
            let dx = segments::product(b, b.convert(dy, F32), *w, &DotDims::matmul(0));
            results.push(b.convert(dx, dtype));
        }
        if of_bias {
            results.push(b.sum(b.convert(dy, F32), &[0]));
        }
        results
    });
    results.into_iter().map(|r| b.convert(r, dtype)).collect()
}

/// The codes \[P·n, k\] in one expert's panels.
fn codes(b: &Builder, p: &Coded, matrix: &quantize::Problem, panels: Value) -> Value {
    let [_, count, inner, _] = p.panels();
    let codes = b.bitcast(words(b, panels), code_element(matrix.format()));
    let codes = b.transpose(codes, &[0, 2, 1, 3]);
    let rows = count / p.product.parts() * PANEL;
    let codes = b.reshape(codes, &[p.product.parts(), rows, inner * LANES_PER_WORD]);
    let codes = b.slice_dim(b.slice_dim(codes, 1, 0..p.product.n), 2, 0..p.product.k);
    b.reshape(codes, &[p.columns(), p.product.k])
}

/// Whether the sums are scaled, rather than the weights.
fn scales_sums(p: &Coded, element: ElementType) -> bool {
    let Form::Fp8(matrix) = &p.form else {
        return false;
    };
    let whole_rows = matches!(matrix.granularity(), Granularity::Tensor | Granularity::Row);
    whole_rows && element.bytes() == 2
}

/// What a product with rows of type `element` needs of an expert: weights \[P·n, k\], f32 factors of the sums \[P·n\],
/// and the bias if there is one.
fn prepared(b: &Builder, p: &Coded, element: ElementType, matrices: Vec<Value>) -> Vec<Value> {
    let columns = p.columns();
    let bias = &matrices[p.stacks_of_codes()..];
    let (weights, factors) = match (&p.form, matrices.as_slice()) {
        (Form::Fp8(matrix), [panels, scales, ..]) if scales_sums(p, element) => {
            let codes = codes(b, p, matrix, *panels);
            let scales = b.convert(*scales, F32);
            let factors = b.broadcast_to(b.reshape(scales, &[b.ty(scales).elements()]), &[columns]);
            (b.convert(codes, element), factors)
        }
        (_, matrices) => {
            let weights = weights(b, p, matrices);
            (weights, b.splat(1.0, TensorType::new([columns], F32)))
        }
    };
    [&[weights, factors], bias].concat()
}

/// The weights \[P·n, k\] of one expert in f32, from its codes and scales, the first of these matrices.
fn weights(b: &Builder, p: &Coded, matrices: &[Value]) -> Value {
    let (columns, k) = (p.columns(), p.product.k);
    match (&p.form, matrices) {
        (Form::Blocks(format), [packed, ..]) => blocks::decode(b, *packed, *format, k),
        (Form::Fp8(matrix), [panels, scales, ..]) => {
            let codes = codes(b, p, matrix, *panels);
            let shape = [&[1], b.shape(*scales).as_slice()].concat();
            let scales = given(b, matrix, b.reshape(*scales, &shape));
            let codes = b.reshape(codes, &[1, columns, k]);
            b.reshape(decode(b, matrix, codes, scales), &[columns, k])
        }
        _ => unreachable!("the operands are counted"),
    }
}

/// The product of x and prepared weights, with bias and activation: \[rows, n\].
fn multiply(b: &Builder, p: &Coded, x: Value, weights: &[Value]) -> Value {
    let element = b.element(x);
    let [weights, factors, bias @ ..] = weights else {
        unreachable!("weights are prepared")
    };
    let x = b.convert(x, b.element(*weights));
    let mut y = product(b, x, *weights, &DotDims::matmul_transposed(0));
    if scales_sums(p, element) {
        y = b.mul(y, Along(*factors, [1]));
    }
    for bias in bias {
        y = b.add(y, Along(b.convert(*bias, F32), [1]));
    }
    let (n, act) = (p.product.n, p.product.activation);
    let act = |x| act.map_or(x, |act| value(b, act, x));
    let y = if p.product.gated {
        let up = b.slice_dim(y, 1, n..2 * n);
        let up = p.product.activation.map_or(up, |act| gated(b, act, up));
        b.mul(act(b.slice_dim(y, 1, 0..n)), up)
    } else {
        act(y)
    };
    b.convert(y, element)
}
