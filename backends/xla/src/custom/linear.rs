//! One product per expert: rows · W_eᵀ + b_e for the sorted rows of expert e; in a dense product all rows are
//! one expert's, and there are no offsets.
//!
//! Shapes: rows \[R,k\], W \[E,n,k\], b \[E,n\], offsets \[E+1\]; y \[R,n\]. Rows past the last expert's may hold
//! anything, and are 0 in results. Sums are f32; results are of the type of the rows.

use super::Lower;
use super::experts::product;
use super::grouped::{self, Pass, Segments};
use crate::ElementType;
use crate::stablehlo::{Builder, DotDims, Reduction, TensorType, Value};
use serde::{Deserialize, Serialize};

/// y = rows · W_eᵀ + b_e. Operands: rows, W, offsets unless dense, and b if there is a bias. Result: y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear {
    /// The most sorted rows R that a routing has.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Columns of the result.
    pub n: usize,
    /// Columns of the rows.
    pub k: usize,
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether one expert has all rows.
    pub dense: bool,
}

impl Linear {
    /// The shape of the offsets, where they are an operand.
    fn offsets(&self) -> Option<Vec<usize>> {
        (!self.dense).then(|| vec![self.experts + 1])
    }

    /// The rows of every expert, and the operands after the offsets, which would be at `at`.
    fn segments<'a>(
        &self,
        b: &mut Builder,
        inputs: &'a [Value],
        at: usize,
    ) -> (Segments, &'a [Value]) {
        let (offsets, rest) = match self.dense {
            true => {
                let ends = [0, self.row_bound as i64];
                (b.integers(&ends, ElementType::S32), at)
            }
            false => (inputs[at], at + 1),
        };
        (Segments::new(b, self.row_bound, offsets), &inputs[rest..])
    }
}

impl Lower for Linear {
    fn name(&self) -> &'static str {
        "grouped linear"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let mut shapes = vec![
            vec![self.row_bound, self.k],
            vec![self.experts, self.n, self.k],
        ];
        shapes.extend(self.offsets());
        if self.bias {
            shapes.push(vec![self.experts, self.n]);
        }
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let rows = inputs[0];
        let dtype = b.element(rows);
        let (segments, bias) = self.segments(b, inputs, 2);
        let stacks = [&inputs[1..2], bias].concat();
        let pass = Pass {
            stacks: &stacks,
            rows: &[TensorType::new([self.row_bound, self.n], dtype)],
            sums: &[],
        };
        segments.walk(b, &pass, |b, block, matrices| {
            let rows = block.rows(b, rows);
            let y = product(b, rows, matrices[0], matrices.get(1).copied());
            vec![b.convert(y, dtype)]
        })
    }
}

/// Gradients of a product. Operands: dy \[R,n\], rows, W, offsets unless dense. Results, if they are needed: of the
/// rows dy · W_e, of W Σ_r dy_r ⊗ rows_r, of the bias Σ_r dy_r.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearBackward {
    /// The product.
    pub linear: Linear,
    /// Whether the rows' gradient is needed.
    pub rows: bool,
    /// Whether that of the weights is.
    pub w: bool,
    /// Whether that of the bias is.
    pub dbias: bool,
}

impl Lower for LinearBackward {
    fn name(&self) -> &'static str {
        "grouped linear backward"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let p = &self.linear;
        let mut shapes = vec![
            vec![p.row_bound, p.n],
            vec![p.row_bound, p.k],
            vec![p.experts, p.n, p.k],
        ];
        shapes.extend(p.offsets());
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let p = &self.linear;
        let (dy, rows) = (inputs[0], inputs[1]);
        let dtype = b.element(rows);
        let (segments, _) = p.segments(b, inputs, 3);
        let row_types = self
            .rows
            .then(|| TensorType::new([p.row_bound, p.k], dtype));
        let sums = [(self.w, vec![p.n, p.k]), (self.dbias, vec![p.n])];
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
            if self.rows {
                let drows = grouped::product(b, dy, matrices[0], &DotDims::matmul(0));
                results.push(b.convert(drows, dtype));
            }
            if self.w {
                results.push(b.dot(dy, rows, &DotDims::batched(0, 0, 0), ElementType::F32));
            }
            if self.dbias {
                let dy = b.convert(dy, ElementType::F32);
                results.push(b.reduce(Reduction::Sum, dy, &[0]));
            }
            results
        });
        results.into_iter().map(|r| b.convert(r, dtype)).collect()
    }
}
