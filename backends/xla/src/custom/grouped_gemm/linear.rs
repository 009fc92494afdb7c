//! One product per expert and its gradients: [`moebius_ops::grouped_gemm`]. Rows past the last expert's may hold anything,
//! and are 0 in results.

use super::product::{affine, product};
use super::segments::Segments;
use crate::stablehlo::{Builder, DotDims, Value};
use moebius_ops::grouped_gemm::Problem;
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

/// The rows of every expert, and the operands after the offsets, which would be at `at`.
fn segments<'a>(
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

/// y of rows, W, offsets unless the product is dense, and b if there is a bias.
pub(super) fn forward(b: &Builder, p: &Problem, inputs: &[Value]) -> Vec<Value> {
    let rows = inputs[0];
    let dtype = b.element(rows);
    let (segments, bias) = segments(b, p, inputs, 2);
    let stacks = [&inputs[1..2], bias].concat();
    let row_type = TensorType::new([p.row_bound, p.n], dtype);
    segments.walk(&stacks, &[row_type], &[], |block, matrices| {
        let y = affine(b, block.rows(rows), matrices[0], matrices.get(1).copied());
        vec![b.convert(y, dtype)]
    })
}

/// Those of the gradients of the rows, W and the bias that are needed, of dy, rows, W and offsets unless dense.
pub(super) fn backward(
    b: &Builder,
    p: &Problem,
    [of_rows, of_w, of_bias]: [bool; 3],
    inputs: &[Value],
) -> Vec<Value> {
    let (dy, rows) = (inputs[0], inputs[1]);
    let dtype = b.element(rows);
    let (segments, _) = segments(b, p, inputs, 3);
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
