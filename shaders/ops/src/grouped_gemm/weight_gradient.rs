//! Gradient of an expert's weights: dW_e = Σ_r a\[r\] ⊗ b\[r\] over the rows r of expert e.
//!
//! For out = x · Wᵀ, the gradient of W \[E, m, n\] has a = the gradient of out (m = output columns) and b = x (n = input
//! columns). Each operand has one row per sorted row, or one per token that is found through the sort ([`Source`]), so nothing is
//! copied into expert order. [`Product::dense`](super::Problem::dense) is the gradient of one matrix from all rows, without a
//! sort.
//!
//! Shapes: a \[T,m\] or \[R,m\], b \[T,n\] or \[R,n\] of f32, f16 or bf16. dW \[E, m, n\] is always f32, because the caller adds
//! it to f32 master weights or rounds it once. Experts without rows get zeros; rows that no slot is sorted to are not read. Every
//! variant sums over the rows in order with fused multiply-adds, so variants agree to the last bit.
//!
//! FLOPs: 2·R·m·n. Bytes: at least R·(m + n) elements and 4·E·m·n bytes.

use super::Source;
use crate::error::Mismatch;

/// The gradient of one product's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The product whose weights have the gradient; its n is this m, its k this n.
    pub product: super::Problem,
    /// How the rows of a are arranged.
    pub a: Source,
    /// How the rows of b are arranged.
    pub b: Source,
}

impl Problem {
    /// The gradient of the weights of `product`, from sorted rows or, if it is dense, from all rows.
    pub fn of(product: &super::Problem) -> Self {
        Self {
            product: *product,
            a: Source::Sorted,
            b: Source::Sorted,
        }
    }

    /// The number of columns m of a and n of b.
    pub fn columns(&self) -> [usize; 2] {
        [self.product.n, self.product.k]
    }

    /// Checks the sizes of a problem whose fields were set one by one.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`super::Problem::check`].
    pub fn check(&self) -> Result<(), Mismatch> {
        self.product.reading(self.a).check()
    }

    /// The number of rows of an operand arranged as `source`.
    pub fn rows(&self, source: Source) -> usize {
        self.product.reading(source).input_rows()
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        let [m, n] = self.columns();
        2 * self.product.row_bound as u64 * m as u64 * n as u64
    }
}

/// The oracle, in f64; `order` and `offsets` are the results of the sort.
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    a: &[f64],
    b: &[f64],
) -> Vec<f64> {
    let ([m, n], top_k) = (problem.columns(), problem.product.top_k);
    let mut out = vec![0.0; problem.product.experts * m * n];
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

    /// Two tokens with two slots each: expert 1 gets slots 0 and 3, expert 0 slot 1; slot 2 has no expert.
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
