//! Grouped GEMM: every expert multiplies the rows routed to it by its own matrix.
//!
//! out\[r\] = act(x\[r\] · W_eᵀ + b_e) for the rows r of expert e; gated: act(x · Gᵀ + g) · (x · Uᵀ + u) with both products in
//! one pass over x. Rows are found through a sort of the slots ([`crate::permute`]), so they needn't be copied into expert order:
//! row r reads token row `order[r] / K` ([`Source::Tokens`]) or sorted row r ([`Source::Sorted`]).
//!
//! Shapes: W \[E, n or 2n (gate rows, then up rows), k\], or \[E, k, n\] for x · W_e, the backward of a product
//! ([`WeightLayout`]); b \[E, n or 2n\]; x \[T,k\] or \[R,k\], out \[R,n\], where R ≤ S is the largest number of sorted rows of
//! any routing. Elements are f32, f16 or bf16; sums are f32. Rows that no slot is sorted to are left unchanged.
//! [`Problem::dense`] is the ordinary product: one matrix for all rows, without a sort. Weights may be [`Stored`] as FP8 codes ([`fp8`]),
//! in blocks of codes ([`crate::blocks`]) or without half of them ([`sparse24`]), decoded while they are loaded; the result equals, to the
//! last bit, the product of the decoded weights, in f32 if they are codes.
//!
//! FLOPs: 2·R·n·k, twice that gated. Bytes: at least (R·k + E·n·k + R·n) elements.
//!
//! [`weight_gradient`] and [`bias_gradient`] compute the gradients of W and b, which are sums over the rows of an expert.

pub mod bias_gradient;
pub mod fp8;
pub mod sparse24;
pub mod weight_gradient;

use crate::blocks::BlockFormat;
use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::permute::{Sorted, check_row_bound};
use crate::scaling::Fp8Scheme;
use serde::{Deserialize, Serialize};

/// How the rows of x are arranged in their buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// One row per token: slot s reads row s / K.
    Tokens,
    /// One row per sorted row: sorted row r reads row r.
    Sorted,
}

impl Source {
    /// The row of the buffer that sorted row `row` reads.
    pub(crate) fn row(self, row: usize, sorted: &Sorted, top_k: usize) -> usize {
        match self {
            Self::Tokens => sorted.order[row] as usize / top_k,
            Self::Sorted => row,
        }
    }
}

/// How an expert's weights lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WeightLayout {
    /// W \[n or 2n, k\]: out = x · Wᵀ.
    #[default]
    OutIn,
    /// W \[k, n\]: out = x · W, as in the gradient of x. Can't be gated.
    InOut,
}

/// What is stored of the weights; a product decodes them while it loads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stored {
    /// Their values.
    #[default]
    Values,
    /// FP8 codes and scales of the rows that lie in memory: those of \[n or 2n, k\], or of \[k, n\].
    Fp8(Fp8Scheme),
    /// Two of each four neighbouring values of a row, and their places.
    Sparse24,
    /// The words of blocks of codes ([`crate::blocks`]), a row of an expert's W that lies in memory after the other.
    Blocks(BlockFormat),
}

impl Stored {
    /// The FP8 scheme of weights that are codes.
    pub const fn fp8(self) -> Option<Fp8Scheme> {
        match self {
            Self::Fp8(scheme) => Some(scheme),
            Self::Values | Self::Sparse24 | Self::Blocks(_) => None,
        }
    }

    /// The format of weights in blocks.
    pub const fn blocks(self) -> Option<BlockFormat> {
        match self {
            Self::Blocks(format) => Some(format),
            Self::Values | Self::Fp8(_) | Self::Sparse24 => None,
        }
    }
}

/// One grouped GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The largest number R of sorted rows of any routing, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Output columns n.
    pub n: usize,
    /// Inner columns k.
    pub k: usize,
    /// Type of x, W, b and out.
    pub element: Element,
    /// How the rows of x are arranged.
    pub rows: Source,
    /// How W lies in memory.
    pub layout: WeightLayout,
    /// Whether there are two products, gate and up, that are multiplied after the gate's activation.
    pub gated: bool,
    /// The activation applied before the store, if any.
    pub activation: Option<Activation>,
    /// Whether there is a bias b.
    pub bias: bool,
    /// Whether one expert has all rows in order, without a sort.
    pub dense: bool,
    /// What is stored of W.
    pub stored: Stored,
    /// Whether the rows of blocks are interleaved ([`interleaved`](mod@crate::blocks::interleaved)), which only processors read.
    #[serde(default)]
    pub interleaved: bool,
}

impl Problem {
    /// The dense product x \[`m`, `k`\] · W \[`n`, `k`\]ᵀ.
    ///
    /// # Errors
    /// [`Mismatch`] when `n` or `k` is 0 or an index would not fit 31 bits.
    pub fn dense(m: usize, n: usize, k: usize) -> Result<Self, Mismatch> {
        Ok(Self {
            rows: Source::Sorted,
            dense: true,
            ..Self::new(m, 1, 1, n, k)?
        })
    }

    /// A plain grouped product of `slots` = T·`top_k` rows: \[.., `k`\] · \[`n`, `k`\]ᵀ per expert.
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
            stored: Stored::Values,
            interleaved: false,
        })
    }

    /// Checks the sizes of a problem whose fields were set one by one.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Problem::new`], when `row_bound` doesn't fit the slots, when a dense product has
    /// several experts or other rows than slots, when a block of scales ends inside a word, when a row of W ends inside a group of four or a
    /// block of codes, and for interleaved rows of anything but blocks.
    pub fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.slots, self.experts, self.top_k, self.n, self.k)?;
        check_row_bound(self.row_bound, self.slots)?;
        if self.dense {
            Mismatch::check("experts of a dense product", 1, self.experts)?;
            Mismatch::check("rows of a dense product", self.slots, self.input_rows())?;
        }
        let right = !self.interleaved || self.stored.blocks().is_some();
        let got = format_args!("{:?}", self.stored);
        Mismatch::unless(right, "interleaved weights", "blocks of codes", got)?;
        match self.stored {
            Stored::Values => Ok(()),
            Stored::Fp8(scheme) => scheme.check(self.weight_rows()[1]),
            Stored::Sparse24 => sparse24::check(self.weight_rows()[1]),
            Stored::Blocks(format) => format.check(self.weight_rows()[1]),
        }
    }

    /// The number of weight matrices per expert: 2 when gated, else 1.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// The number of rows of an expert's W as it lies in memory, and the number of weights in each.
    pub fn weight_rows(&self) -> [usize; 2] {
        let columns = self.n * self.parts();
        match self.layout {
            WeightLayout::OutIn => [columns, self.k],
            WeightLayout::InOut => [self.k, columns],
        }
    }

    /// The number of elements of one expert's weights as a kernel binds them, and the bytes of each element; without scales and places.
    pub fn expert_elements(&self) -> (usize, usize) {
        let [rows, columns] = self.weight_rows();
        match self.stored {
            Stored::Values => (rows * columns, self.element.bytes()),
            Stored::Fp8(_) => (fp8::expert_words(self), 4),
            Stored::Sparse24 => (rows * columns / 2, self.element.bytes()),
            Stored::Blocks(format) => (rows * format.row_words(columns), 4),
        }
    }

    /// The bytes of one expert's weights, without scales and places.
    pub fn expert_bytes(&self) -> usize {
        let (elements, bytes) = self.expert_elements();
        elements * bytes
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        2 * self.row_bound as u64 * (self.n * self.parts()) as u64 * self.k as u64
    }

    /// The number of rows of x.
    pub fn input_rows(&self) -> usize {
        match self.rows {
            Source::Tokens => self.slots / self.top_k,
            Source::Sorted => self.row_bound,
        }
    }

    /// Whether nothing but x · W_eᵀ + b_e is computed, over sorted rows.
    pub fn is_plain(&self) -> bool {
        let alone = !self.gated && self.activation.is_none();
        alone && self.layout == WeightLayout::OutIn && self.rows == Source::Sorted
    }

    /// The product dy · W_e for the gradient of the rows of a plain product, which reads the same W.
    #[must_use]
    pub fn turned(self) -> Self {
        Self {
            n: self.k,
            k: self.n,
            rows: Source::Sorted,
            layout: WeightLayout::InOut,
            bias: false,
            ..self
        }
    }

    /// The same product over rows arranged as `rows`.
    fn reading(self, rows: Source) -> Self {
        Self { rows, ..self }
    }
}

/// The oracle, in f64; rows that no slot is sorted to are 0.
///
/// `order` and `offsets` are the results of the sort.
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
        /// x · Φ(x) = x/2 · erfc(−x/√2), the exact form, which keeps its digits where Φ is near 0.
        Gelu = "gelu",
        /// x / (1 + exp(−x)).
        Silu = "silu",
        /// x · tanh(ln(1 + exp(x))).
        Mish = "mish",
        /// m · σ(1.702 · m) with m = min(x, 7); used as a gate, it multiplies clamp(up, −7, 7) + 1 instead of up (gpt-oss, 2025).
        Clamped = "clamped",
        /// x · σ(2u) with u = √(2/π) · (x + 0.044715 · x³), which is x/2 · (1 + tanh(u)): gelu's older form (Gemma, 2024).
        #[serde(rename = "gelu_tanh")]
        GeluTanh = "gelu_tanh",
    }
}

/// The factor 1.702 inside [`Activation::Clamped`]'s σ.
pub const CLAMPED_SLOPE: f32 = 1.702;

/// The factor 2 · √(2/π) of the polynomial inside [`Activation::GeluTanh`]'s σ.
pub const TANH_SLOPE: f64 = 1.595_769_121_605_731;

/// The share of x³ in the polynomial inside [`Activation::GeluTanh`]'s σ.
pub const TANH_CUBE: f64 = 0.044_715;

/// The magnitude of x from which on [`Activation::GeluTanh`] is 0 or x in any precision; its slope is computed of no larger one.
pub const TANH_LIMIT: f64 = 64.0;

/// The bound 7 of [`Activation::Clamped`].
pub const CLAMPED_LIMIT: f32 = 7.0;

impl Activation {
    /// The oracle of the activation, in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Gelu => 0.5 * x * erfc(-x / std::f64::consts::SQRT_2),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * x.exp().ln_1p().tanh(),
            Self::Clamped => {
                let m = x.min(f64::from(CLAMPED_LIMIT));
                // `f64::min` of a NaN and a number is the number.
                let m = if x.is_nan() { x } else { m };
                m / (1.0 + (-f64::from(CLAMPED_SLOPE) * m).exp())
            }
            Self::GeluTanh => {
                let u = TANH_SLOPE * (x + TANH_CUBE * x.powi(3));
                x / (1.0 + (-u).exp())
            }
        }
    }

    /// The factor that a gate multiplies, in f64: up, except for [`Activation::Clamped`].
    pub fn reference_gated(self, up: f64) -> f64 {
        let limit = f64::from(CLAMPED_LIMIT);
        match self {
            Self::Clamped => up.clamp(-limit, limit) + 1.0,
            _ => up,
        }
    }

    /// The derivative of [`Self::reference_gated`], in f64; 0 where up is clamped.
    pub fn reference_gated_gradient(self, up: f64) -> f64 {
        match self {
            Self::Clamped if up.abs() > f64::from(CLAMPED_LIMIT) => 0.0,
            _ => 1.0,
        }
    }

    /// The oracle of the activation's derivative, in f64; 0 where relu has none.
    pub fn reference_gradient(self, x: f64) -> f64 {
        let logistic = 1.0 / (1.0 + (-x).exp());
        match self {
            Self::Relu if x <= 0.0 => 0.0,
            Self::Relu => 1.0,
            Self::Gelu => {
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                0.5 * erfc(-x / std::f64::consts::SQRT_2) + x * density
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
            Self::GeluTanh => {
                let x = x.clamp(-TANH_LIMIT, TANH_LIMIT);
                let u = TANH_SLOPE * (x + TANH_CUBE * x.powi(3));
                let rise = TANH_SLOPE * (1.0 + 3.0 * TANH_CUBE * x * x);
                let logistic = 1.0 / (1.0 + (-u).exp());
                logistic + x * logistic * (1.0 - logistic) * rise
            }
        }
    }
}

/// erfc by the Maclaurin series of erf below 3 and the continued fraction of erfc above; the relative error is below 1e-10 everywhere.
pub(crate) fn erfc(x: f64) -> f64 {
    let z = x.abs();
    let tail = if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..100 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..=60).rev().fold(z, |f, n| z + f64::from(n) / 2.0 / f);
        (-z * z).exp() / (fraction * std::f64::consts::PI.sqrt())
    };
    if x < 0.0 { 2.0 - tail } else { tail }
}

#[cfg(test)]
mod activation_tests;
