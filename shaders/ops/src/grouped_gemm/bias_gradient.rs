//! Gradient of an expert's bias: db_e = Σ_r w_r · rows\[r\] over the rows r of expert e.
//!
//! Rows are sorted, or one per token and found through the sort ([`Source`]); w_r is the router weight of the slot of row r, or 1
//! without weights. Shapes: rows \[R,n\] or \[T,n\] of f32, f16 or bf16; weights f32 \[S\]; db \[E,n\] f32, zeros for an expert
//! without rows. Sums run over the rows in order, in f32. [`Problem::dense`](super::Problem::dense) sums all rows without a sort.
//! FLOPs: R·n, twice that with weights. Bytes: R·n elements.

use super::Source;
use crate::error::Mismatch;

/// The gradient of one product's bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The product whose n columns have the bias; a dense product reads all rows in order, without weights.
    pub product: super::Problem,
    /// Which rows are read.
    pub rows: Source,
    /// Whether each row is multiplied by the weight of its slot.
    pub weighted: bool,
}

impl Problem {
    /// The gradient of the bias of `product`, from sorted rows or, if it is dense, from all rows.
    pub fn of(product: &super::Problem) -> Self {
        Self {
            product: *product,
            rows: Source::Sorted,
            weighted: false,
        }
    }

    /// Checks the sizes of a problem whose fields were set one by one.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`super::Problem::check`].
    pub fn check(&self) -> Result<(), Mismatch> {
        self.product.reading(self.rows).check()
    }

    /// The number of rows of the operand.
    pub fn input_rows(&self) -> usize {
        self.product.reading(self.rows).input_rows()
    }
}

/// The oracle, in f64; `order` and `offsets` are the results of the sort, `weights` the router weights of the slots.
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    rows: &[f64],
    weights: Option<&[f32]>,
) -> Vec<f64> {
    let super::Problem {
        n, experts, top_k, ..
    } = problem.product;
    let mut out = vec![0.0; experts * n];
    for (e, out) in out.chunks_mut(n).enumerate() {
        for row in sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize {
            let from = problem.rows.row(row, sorted, top_k);
            let slot = || sorted.order[row] as usize;
            let weight = weights.map_or(1.0, |weights| f64::from(weights[slot()]));
            let values = &rows[from * n..][..n];
            out.iter_mut()
                .zip(values)
                .for_each(|(out, value)| *out += weight * value);
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
        let tokens = Problem {
            rows: Source::Tokens,
            ..Problem::of(&Product::new(4, 3, 2, 2, 1).unwrap())
        };
        let rows = [1.0, 10.0, 2.0, 20.0, 4.0, 40.0];
        let weights = [0.5, 3.0, f32::NAN, 0.25];
        let got = reference(&tokens, &sorted, &rows[..4], Some(&weights));
        assert_eq!(got, [3.0, 30.0, 1.0, 10.0, 0.0, 0.0]);
        let plain = Problem::of(&Product::new(4, 3, 2, 2, 1).unwrap());
        let got = reference(&plain, &sorted, &rows, None);
        assert_eq!(got, [1.0, 10.0, 6.0, 60.0, 0.0, 0.0]);
    }
}
