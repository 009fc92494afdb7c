//! Gradient of an expert's weights: dW_e = Σ_r a\[r\] ⊗ b\[r\] over the rows r of expert e.
//!
//! For out = x · Wᵀ the gradient of W \[E, m, n\] has a = the gradient of out (m = output columns) and
//! b = x (n = input columns). Either operand has one row per sorted row, or one per token that is
//! found through the sort ([`Source`]), so nothing is copied into expert order. [`Product::dense`](super::Problem::dense) is
//! the gradient of one matrix from all rows, and nothing is sorted.
//!
//! Shapes: a \[T,m\] or \[R,m\], b \[T,n\] or \[R,n\] of f32, f16 or bf16; dW \[E, m, n\] is f32 whatever
//! they are, because it is added to f32 master weights or rounded once by the caller. Experts
//! without rows get zeros; rows no slot is sorted to are not read. Every variant sums over the rows
//! in order with fused multiply-adds, so variants agree to the last bit.
//!
//! FLOPs 2·R·m·n. Bytes at least R·(m + n) elements and 4·E·m·n bytes.

use super::Source;
use crate::element::Element;
use crate::error::ShapeError;

/// One weight gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The most sorted rows R any routing produces, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Columns of a.
    pub m: usize,
    /// Columns of b.
    pub n: usize,
    /// Type of a and b.
    pub element: Element,
    /// Which rows of a are read.
    pub a: Source,
    /// Which rows of b are read.
    pub b: Source,
    /// One expert has all rows, in their order; there is no sort.
    pub dense: bool,
}

impl Problem {
    /// The gradient of the weights of `product` from sorted rows, or from all rows of a dense one.
    pub fn of(product: &super::Problem) -> Self {
        Self {
            slots: product.slots,
            row_bound: product.row_bound,
            experts: product.experts,
            top_k: product.top_k,
            m: product.n,
            n: product.k,
            element: product.element,
            a: Source::Sorted,
            b: Source::Sorted,
            dense: product.dense,
        }
    }

    /// Checks the sizes, of a problem whose fields were set one by one.
    ///
    /// # Errors
    /// As [`super::Problem::new`], for more sorted rows than slots, and for a dense product that isn't one expert's.
    pub fn check(&self) -> Result<(), ShapeError> {
        let product = super::Problem {
            row_bound: self.row_bound,
            dense: self.dense,
            rows: self.a,
            ..super::Problem::new(self.slots, self.experts, self.top_k, self.m, self.n)?
        };
        product.check()
    }

    /// Rows of an operand.
    pub fn rows(&self, source: Source) -> usize {
        source.rows(self.slots, self.top_k, self.row_bound)
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        2 * self.row_bound as u64 * self.m as u64 * self.n as u64
    }
}

/// The oracle, in f64; `order` and `offsets` come from the sort.
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    a: &[f64],
    b: &[f64],
) -> Vec<f64> {
    let Problem { m, n, top_k, .. } = *problem;
    let mut out = vec![0.0; problem.experts * m * n];
    for (e, out) in out.chunks_mut(m * n).enumerate() {
        for row in sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize {
            let at = |source: Source| source.row(row, sorted, top_k);
            let b = &b[at(problem.b) * n..][..n];
            for (out, a) in out.chunks_mut(n).zip(&a[at(problem.a) * m..][..m]) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grouped_gemm::Problem as Product;

    /// Two tokens, two experts each; expert 1 gets slots 0 and 3, expert 0 slot 1; slot 2 has no expert.
    #[test]
    fn reference_sums_the_rows_of_an_expert() {
        let sorted = crate::permute::reference(&[1, 0, 3, 1], 3);
        let problem = Problem {
            a: Source::Tokens,
            ..Problem::of(&Product::new(4, 3, 2, 1, 2).unwrap())
        };
        let a = [2.0, 3.0];
        let b = [1.0, 10.0, 2.0, 20.0, 4.0, 40.0, f64::NAN, f64::NAN];
        let got = reference(&problem, &sorted, &a, &b);
        assert_eq!(got, [2.0, 20.0, 16.0, 160.0, 0.0, 0.0]);
    }
}
