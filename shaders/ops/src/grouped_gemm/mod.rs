//! Grouped GEMM: every expert multiplies the rows routed to it by its own matrix.
//!
//! out\[r\] = act(x\[r\] · W_eᵀ + b_e) for the rows r of expert e; gated: act(x · Gᵀ + g) · (x · Uᵀ + u)
//! with both products in one pass over x. Rows are found through a sort of the slots
//! ([`crate::permute`]), so nothing need be copied into expert order: row r reads token row
//! `order[r] / K` ([`Source::Tokens`]) or sorted row r ([`Source::Sorted`]).
//!
//! Shapes: W \[E, n or 2n (gate rows, then up rows), k\], or \[E, k, n\] for x · W_e, the backward of
//! a product ([`WeightLayout`]); b \[E, n or 2n\]; x \[T,k\] or \[R,k\], out \[R,n\],
//! where R ≤ S is the most sorted rows any routing produces. f32, f16 or bf16 with f32
//! sums. Rows no slot is sorted to are left as they are.
//! [`Problem::dense`] is the ordinary product: one matrix for all rows, and nothing is sorted.
//! Weights may be FP8 codes, decoded while they are loaded ([`fp8`]); the result is, to the last
//! bit, that of the decoded weights in f32.
//!
//! FLOPs 2·R·n·k, twice that gated. Bytes at least (R·k + E·n·k + R·n) elements.
//!
//! The gradients of W and b are sums over the rows of an expert: [`weight_gradient`],
//! [`bias_gradient`].

pub mod bias_gradient;
pub mod fp8;
pub mod weight_gradient;

use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::permute::{Sorted, check_row_bound};
use crate::scaling::Fp8Scheme;
use serde::{Deserialize, Serialize};

/// Which rows of a buffer belong to the slots of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// One row per token: slot s reads row s / K.
    Tokens,
    /// One row per sorted row.
    Sorted,
}

impl Source {
    /// The buffer's row that sorted row `row` reads.
    pub(crate) fn row(self, row: usize, sorted: &Sorted, top_k: usize) -> usize {
        match self {
            Self::Tokens => sorted.order[row] as usize / top_k,
            Self::Sorted => row,
        }
    }
}

/// How the weights of an expert lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WeightLayout {
    /// \[n or 2n, k\]: out = x · Wᵀ.
    #[default]
    OutIn,
    /// \[k, n\]: out = x · W, as in the gradient of x. Not gated.
    InOut,
}

/// One grouped GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The most sorted rows R any routing produces, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Output columns.
    pub n: usize,
    /// Input columns.
    pub k: usize,
    /// Type of x, W, b and out.
    pub element: Element,
    /// Which rows of x are read.
    pub rows: Source,
    /// How W lies in memory.
    pub layout: WeightLayout,
    /// Two products, multiplied after the activation of the first.
    pub gated: bool,
    /// Applied before the store.
    pub activation: Option<Activation>,
    /// Whether there is a bias.
    pub bias: bool,
    /// One expert has all rows, in their order; there is no sort.
    pub dense: bool,
    /// The weights are FP8 codes; those of [`WeightLayout::OutIn`].
    pub fp8: Option<Fp8Scheme>,
}

impl Problem {
    /// x \[`m`, `k`\] · W \[`n`, `k`\]ᵀ.
    ///
    /// # Errors
    /// [`Mismatch`] when n or k is 0 or an index would not fit 31 bits.
    pub fn dense(m: usize, n: usize, k: usize) -> Result<Self, Mismatch> {
        Ok(Self {
            rows: Source::Sorted,
            dense: true,
            ..Self::new(m, 1, 1, n, k)?
        })
    }

    /// A plain product of `slots` = T·`top_k` rows: \[.., `k`\] · \[`n`, `k`\]ᵀ per expert.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        n: usize,
        k: usize,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[
            ("experts", experts),
            ("top_k", top_k),
            ("columns", n),
            ("inner columns", k),
        ])?;
        Mismatch::of_tokens(slots, top_k)?;
        let matrices = [&[slots, n][..], &[slots, k], &[experts, n, 2], &[n, k, 2]];
        let right = matrices.into_iter().all(fits);
        let expected = "matrices of at most 2^31 - 1 elements";
        let got = format_args!("{slots} slots, {experts} experts, {n} x {k}");
        Mismatch::unless(right, "grouped gemm", expected, got)?;
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            top_k,
            n,
            k,
            element: Element::F32,
            rows: Source::Tokens,
            layout: WeightLayout::OutIn,
            gated: false,
            activation: None,
            bias: false,
            dense: false,
            fp8: None,
        })
    }

    /// Checks the sizes, of a problem whose fields were set one by one.
    ///
    /// # Errors
    /// As [`Problem::new`], and for rows that aren't the slots', a dense product that isn't one expert's, and scale blocks
    /// that words straddle.
    pub fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.slots, self.experts, self.top_k, self.n, self.k)?;
        check_row_bound(self.row_bound, self.slots)?;
        if self.dense {
            Mismatch::check("experts of a dense product", 1, self.experts)?;
            Mismatch::check("rows of a dense product", self.slots, self.input_rows())?;
        }
        self.fp8.map_or(Ok(()), |weights| weights.check(self.k))
    }

    /// Weight matrices per expert: 2 when gated.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// Elements of one expert's weights as they are bound, and the bytes of each.
    pub fn expert_elements(&self) -> (usize, usize) {
        match self.fp8 {
            Some(_) => (fp8::expert_words(self), 4),
            None => (self.n * self.parts() * self.k, self.element.bytes()),
        }
    }

    /// Bytes of one expert's weights, without their scales.
    pub fn expert_bytes(&self) -> usize {
        let (elements, bytes) = self.expert_elements();
        elements * bytes
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        2 * self.row_bound as u64 * (self.n * self.parts()) as u64 * self.k as u64
    }

    /// Rows of x.
    pub fn input_rows(&self) -> usize {
        match self.rows {
            Source::Tokens => self.slots / self.top_k,
            Source::Sorted => self.row_bound,
        }
    }

    /// The same of other rows.
    fn reading(self, rows: Source) -> Self {
        Self { rows, ..self }
    }
}

/// The oracle: f64 throughout, rows that no slot is sorted to are 0.
///
/// `order` and `offsets` come from the sort.
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    x: &[f64],
    weights: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f64> {
    let Problem { n, k, .. } = *problem;
    let columns = n * problem.parts();
    let mut out = vec![0.0; problem.row_bound * n];
    for e in 0..problem.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        for sorted_row in rows {
            let from = problem.rows.row(sorted_row, sorted, problem.top_k);
            let weight = |column: usize, kk: usize| match problem.layout {
                WeightLayout::OutIn => weights[(e * columns + column) * k + kk],
                WeightLayout::InOut => weights[(e * k + kk) * columns + column],
            };
            let dot = |column: usize| -> f64 {
                let x = x[from * k..][..k].iter().enumerate();
                let products = x.map(|(kk, x)| x * f64::from(weight(column, kk)));
                products.sum::<f64>() + bias.map_or(0.0, |b| f64::from(b[e * columns + column]))
            };
            let act = |value: f64| problem.activation.map_or(value, |a| a.reference(value));
            for column in 0..n {
                let value = act(dot(column));
                let gated = |up| problem.activation.map_or(up, |a| a.reference_gated(up));
                let up = if problem.gated {
                    gated(dot(n + column))
                } else {
                    1.0
                };
                out[sorted_row * n + column] = value * up;
            }
        }
    }
    out
}

named! {
    /// The non-linearity between the two products of an expert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Activation {
        /// max(x, 0); NaN stays NaN.
        Relu = "relu",
        /// x · Φ(x) = x/2 · (1 + erf(x/√2)), the exact form.
        Gelu = "gelu",
        /// x / (1 + exp(−x)).
        Silu = "silu",
        /// x · tanh(ln(1 + exp(x))).
        Mish = "mish",
        /// m · σ(1.702 · m) with m = min(x, 7); a gate of it multiplies clamp(up, −7, 7) + 1 in place of up (gpt-oss, 2025).
        Clamped = "clamped",
    }
}

/// How steep [`Activation::Clamped`]'s σ is.
pub const CLAMPED_SLOPE: f32 = 1.702;

/// Where [`Activation::Clamped`] cuts.
pub const CLAMPED_LIMIT: f32 = 7.0;

impl Activation {
    /// The oracle, in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * x.exp().ln_1p().tanh(),
            Self::Clamped => {
                let m = x.min(f64::from(CLAMPED_LIMIT));
                // `min` of a NaN is the other number.
                let m = if x.is_nan() { x } else { m };
                m / (1.0 + (-f64::from(CLAMPED_SLOPE) * m).exp())
            }
        }
    }

    /// What a gate of it multiplies, in f64: up, but for [`Activation::Clamped`].
    pub fn reference_gated(self, up: f64) -> f64 {
        let limit = f64::from(CLAMPED_LIMIT);
        match self {
            Self::Clamped => up.clamp(-limit, limit) + 1.0,
            _ => up,
        }
    }

    /// The derivative of [`Self::reference_gated`], in f64; 0 where it is cut.
    pub fn reference_gated_gradient(self, up: f64) -> f64 {
        match self {
            Self::Clamped if up.abs() > f64::from(CLAMPED_LIMIT) => 0.0,
            _ => 1.0,
        }
    }

    /// The oracle of the derivative, in f64; 0 where relu has none.
    pub fn reference_gradient(self, x: f64) -> f64 {
        let logistic = 1.0 / (1.0 + (-x).exp());
        match self {
            Self::Relu if x <= 0.0 => 0.0,
            Self::Relu => 1.0,
            Self::Gelu => {
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)) + x * density
            }
            Self::Silu => logistic + x * logistic * (1.0 - logistic),
            Self::Mish => {
                let tanh = x.exp().ln_1p().tanh();
                tanh + x * logistic * (1.0 - tanh * tanh)
            }
            Self::Clamped if x > f64::from(CLAMPED_LIMIT) => 0.0,
            Self::Clamped => {
                let slope = f64::from(CLAMPED_SLOPE);
                let logistic = 1.0 / (1.0 + (-slope * x).exp());
                logistic + slope * x * logistic * (1.0 - logistic)
            }
        }
    }
}

/// erf by its Maclaurin series below 3 and its continued fraction above; error below 1e-15.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..100 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let tail = (1..=60).rev().fold(z, |f, n| z + f64::from(n) / 2.0 / f);
        1.0 - (-z * z).exp() / (tail * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

#[cfg(test)]
mod activation_tests;
