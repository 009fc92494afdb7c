//! One product per expert and its gradients: [`moebius_ops::grouped_gemm`]. Rows past the last expert's may hold anything,
//! and are 0 in results.

use super::experts::product;
use super::grouped::{self, Pass, Segments};
use crate::ElementType;
use crate::stablehlo::{Builder, DotDims, Reduction, TensorType, Value};
use moebius_ops::grouped_gemm::Problem;

/// The rows of every expert, and the operands after the offsets, which would be at `at`.
fn segments<'a>(
    b: &mut Builder,
    p: &Problem,
    inputs: &'a [Value],
    at: usize,
) -> (Segments, &'a [Value]) {
    let (offsets, rest) = match p.dense {
        true => {
            let ends = [0, p.row_bound as i64];
            (b.integers(&ends, ElementType::S32), at)
        }
        false => (inputs[at], at + 1),
    };
    (Segments::new(b, p.row_bound, offsets), &inputs[rest..])
}

/// y of rows, W, offsets unless the product is dense, and b if there is a bias.
pub(super) fn forward(b: &mut Builder, p: &Problem, inputs: &[Value]) -> Vec<Value> {
    let rows = inputs[0];
    let dtype = b.element(rows);
    let (segments, bias) = segments(b, p, inputs, 2);
    let stacks = [&inputs[1..2], bias].concat();
    let pass = Pass {
        stacks: &stacks,
        rows: &[TensorType::new([p.row_bound, p.n], dtype)],
        sums: &[],
    };
    segments.walk(b, &pass, |b, block, matrices| {
        let rows = block.rows(b, rows);
        let y = product(b, rows, matrices[0], matrices.get(1).copied());
        vec![b.convert(y, dtype)]
    })
}

/// Those of the gradients of the rows, W and the bias that are needed, of dy, rows, W and offsets unless dense.
pub(super) fn backward(
    b: &mut Builder,
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
    let sums: Vec<_> = sums
        .map(|(_, s)| TensorType::new(s, ElementType::F32))
        .collect();
    let pass = Pass {
        stacks: &inputs[2..3],
        rows: row_types.as_slice(),
        sums: &sums,
    };
    let results = segments.walk(b, &pass, |b, block, matrices| {
        let (dy, rows) = (block.rows(b, dy), block.rows(b, rows));
        let (dy, rows) = (block.masked(b, dy), block.masked(b, rows));
        let mut results = Vec::new();
        if of_rows {
            let drows = grouped::product(b, dy, matrices[0], &DotDims::matmul(0));
            results.push(b.convert(drows, dtype));
        }
        if of_w {
            results.push(b.dot(dy, rows, &DotDims::batched(0, 0, 0), ElementType::F32));
        }
        if of_bias {
            let dy = b.convert(dy, ElementType::F32);
            results.push(b.reduce(Reduction::Sum, dy, &[0]));
        }
        results
    });
    results.into_iter().map(|r| b.convert(r, dtype)).collect()
}
