//! Operations whose results have the same bits on every device: what a decoder's forward pass computes, from multiplications and additions
//! of f32 in a fixed order, and integer steps.
//!
//! IEEE 754 leaves one f32 for a product or a sum of two, and devices agree on it. They don't agree on the rest, which these operations
//! avoid:
//!
//! | devices differ in | so that |
//! |---|---|
//! | whether a product and a sum are rounded once or twice | each product and each sum is rounded, and a kernel passes its bits through an integer operation that no compiler can undo |
//! | the order of a sum | a sum begins with +0 and goes on in ascending order |
//! | subnormal numbers, which some turn into 0 | numbers below 2⁻⁵⁰ in magnitude count as +0 ([`SMALLEST`]) |
//! | exponentials, logarithms, roots and quotients | [`Function`]s are polynomials and steps of Newton's method ([`series`]) |
//!
//! All products of two numbers that count are at least 2⁻¹⁰⁰, and multiples of 2⁻¹²³; so are their sums, and none is subnormal. What an
//! operation reads and what it writes is cut at 2⁻⁵⁰. Nothing is said of numbers that aren't finite, nor of those that overflow. WGSL and
//! SPIR-V would let a device round up or down instead of to the nearest number; the tests hold that no device at hand does.
//!
//! - map: y = f(x), for a [`Function`];
//! - product: y\[r\] = x\[r / share\] · W_eᵀ + b_e, e = indices\[r\], or 0 without indices; 0 where e is no expert;
//! - activation: act(gate) · up, or act(x), as [`crate::grouped_gemm`] has them;
//! - norm: x / √(mean(x²) + ε) · γ;
//! - route: the choice of experts of [`crate::routing`], without mask and groups;
//! - combine: y_t = base_t + scale · Σ_k w_tk · rows\[t, k\]; without weights they are 1, and without a base it is 0;
//! - rotate: pairs (l, r) of a head become (l · cos − r · sin, r · cos + l · sin), interleaved pairs in separate halves;
//! - attention: [`crate::kv_cache`]'s over a cache in f32, under `Causal`, `Window` and `Softcap`, with sinks or without.
//!
//! All tensors are f32, indices u32.

pub mod series;

use crate::attention::{Rule, few_elements};
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use crate::grouped_gemm::{Activation, erfc};
use crate::kv_cache::{Attend, CacheFormat};
use serde::{Deserialize, Serialize};

/// The bits of 2⁻⁵⁰: smaller magnitudes count as +0.
pub const SMALLEST: u32 = (127 - 50) << 23;

named! {
    /// A function of one number, with its largest error in units of the last place of the result.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Function {
        /// eˣ, with 1 unit; x up to 88, and 0 below −80.
        Exp = "exp",
        /// ln x of positive numbers, with 1 unit.
        Ln = "ln",
        /// 1 / x for magnitudes from 2⁻⁵⁰ to 2⁵⁰, with 2 units.
        Reciprocal = "reciprocal",
        /// 1 / √x from 2⁻⁵⁰ to 2⁵⁰, with 2 units.
        ReciprocalRoot = "reciprocal_root",
        /// 1 / (1 + e⁻ˣ), with 3 units.
        Sigmoid = "sigmoid",
        /// tanh x, with 3 units.
        Tanh = "tanh",
        /// erf x, with 3 units.
        Erf = "erf",
    }
}

impl Function {
    /// The function in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Exp => x.exp(),
            Self::Ln => x.ln(),
            Self::Reciprocal => x.recip(),
            Self::ReciprocalRoot => x.sqrt().recip(),
            Self::Sigmoid => (1.0 + (-x).exp()).recip(),
            Self::Tanh => x.tanh(),
            Self::Erf => 1.0 - erfc(x),
        }
    }
}

/// Products of rows with the matrices of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// Rows R of y.
    pub rows: usize,
    /// The number of neighbouring rows of y that share a row of x, such as a token's slots.
    pub share: usize,
    /// Matrices E.
    pub experts: usize,
    /// Columns n of y.
    pub n: usize,
    /// Columns k of x.
    pub k: usize,
    /// Whether each row has an expert of its own; otherwise all rows have matrix 0.
    pub chosen: bool,
    /// Whether the matrices have biases.
    pub bias: bool,
}

impl Product {
    /// The product x \[`rows`, `k`\] · W \[`n`, `k`\]ᵀ without a bias.
    pub fn dense(rows: usize, n: usize, k: usize) -> Self {
        Self {
            rows,
            share: 1,
            experts: 1,
            n,
            k,
            chosen: false,
            bias: false,
        }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, the rows of y aren't a multiple of `share`, or a tensor has 2³¹ elements or more.
    pub fn check(&self) -> Result<(), Mismatch> {
        Mismatch::positive(&[
            ("rows of y that share one of x", self.share),
            ("experts", self.experts),
            ("columns", self.n),
            ("inner columns", self.k),
        ])?;
        let expected = format_args!("a multiple of {}", self.share);
        let whole = self.rows.is_multiple_of(self.share);
        Mismatch::unless(whole, "rows of y", expected, self.rows)?;
        few_elements("x", &[self.rows, self.k])?;
        few_elements("y", &[self.rows, self.n])?;
        few_elements("W", &[self.experts, self.n, self.k])
    }

    /// Floating-point operations if each row has an expert.
    pub fn flops(&self) -> u64 {
        2 * (self.rows * self.n) as u64 * self.k as u64
    }

    /// y in f64; `indices` and `bias` are empty where there are none.
    pub fn reference(&self, x: &[f64], w: &[f64], indices: &[u32], bias: &[f64]) -> Vec<f64> {
        let value = |row: usize, column: usize| {
            let expert = indices.get(row).map_or(0, |expert| *expert as usize);
            if expert >= self.experts {
                return 0.0;
            }
            let at = expert * self.n + column;
            let x = &x[row / self.share * self.k..][..self.k];
            let products = x.iter().zip(&w[at * self.k..]).map(|(x, w)| x * w);
            products.sum::<f64>() + bias.get(at).unwrap_or(&0.0)
        };
        let places = (0..self.rows * self.n).map(|at| value(at / self.n, at % self.n));
        places.collect()
    }
}

/// The activation of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activate {
    /// Rows R.
    pub rows: usize,
    /// Columns F of y.
    pub inter: usize,
    /// Whether a row of x has F columns of a gate before F columns of what the gate multiplies.
    pub gated: bool,
    /// The function.
    pub activation: Activation,
}

impl Activate {
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Mismatch::positive(&[("columns", self.inter)])?;
        few_elements("x", &[self.rows, self.columns()])
    }

    /// Columns of x.
    pub fn columns(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    /// y in f64.
    pub fn reference(&self, x: &[f64]) -> Vec<f64> {
        let (inter, of) = (self.inter, self.activation);
        let rows = x.chunks_exact(self.columns().max(1));
        rows.flat_map(|row| {
            let (gates, ups) = row.split_at(inter);
            let up = |at: usize| ups.get(at).map_or(1.0, |up| of.reference_gated(*up));
            let values = gates.iter().enumerate();
            values
                .map(|(at, gate)| of.reference(*gate) * up(at))
                .collect::<Vec<_>>()
        })
        .collect()
    }
}

/// The root-mean-square norm of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Norm {
    /// Rows R.
    pub rows: usize,
    /// Columns n, at most 2²⁰.
    pub width: usize,
    /// The constant ε.
    pub epsilon: f32,
}

impl Norm {
    /// The share of a square in the mean.
    pub fn share(&self) -> f32 {
        (1.0 / self.width.max(1) as f64) as f32
    }

    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let right = (1..=1 << 20).contains(&self.width);
        Mismatch::unless(right, "columns of a norm", "1 to 2^20", self.width)?;
        let right = self.epsilon.is_finite() && self.epsilon >= 0.0;
        Fault::Config.unless(right, "epsilon of a norm", "at least 0", self.epsilon)?;
        few_elements("x", &[self.rows, self.width])
    }

    /// y in f64.
    pub fn reference(&self, x: &[f64], gamma: &[f64]) -> Vec<f64> {
        let rows = x.chunks_exact(self.width);
        rows.flat_map(|row| {
            let squares: f64 = row.iter().map(|x| x * x).sum();
            let root = (squares / self.width as f64 + f64::from(self.epsilon)).sqrt();
            let values = row.iter().zip(gamma);
            values
                .map(|(x, gamma)| x / root * gamma)
                .collect::<Vec<_>>()
        })
        .collect()
    }
}

/// Weighted sums of each token's rows, in slot order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Combine {
    /// Tokens T.
    pub tokens: usize,
    /// Rows K of a token.
    pub top_k: usize,
    /// Columns n.
    pub width: usize,
    /// Whether the rows have weights.
    pub weighted: bool,
    /// Whether the sum is added to another tensor.
    pub based: bool,
    /// The factor of the sum.
    pub scale: f32,
}

impl Combine {
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Mismatch::positive(&[("rows of a token", self.top_k), ("columns", self.width)])?;
        let finite = self.scale.is_finite();
        Fault::Config.unless(finite, "factor of a sum", "a finite number", self.scale)?;
        few_elements("rows", &[self.tokens, self.top_k, self.width])
    }

    /// y in f64; `weights` and `base` are empty where there are none.
    pub fn reference(&self, rows: &[f64], weights: &[f64], base: &[f64]) -> Vec<f64> {
        let value = |at: usize| {
            let (token, column) = (at / self.width, at % self.width);
            let slots = token * self.top_k..(token + 1) * self.top_k;
            let sum: f64 = slots
                .map(|slot| {
                    let row = rows[slot * self.width + column];
                    weights.get(slot).map_or(row, |weight| weight * row)
                })
                .sum();
            base.get(at).unwrap_or(&0.0) + f64::from(self.scale) * sum
        };
        (0..self.tokens * self.width).map(value).collect()
    }
}

/// The rotation of pairs of elements of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// Sequences B.
    pub batch: usize,
    /// Tokens Q of a sequence.
    pub tokens: usize,
    /// Heads H.
    pub heads: usize,
    /// Elements D of a head.
    pub width: usize,
    /// Pairs of a head.
    pub half: usize,
    /// The index of the first rotated element.
    pub at: usize,
    /// Whether the elements of a pair are neighbours; otherwise element i is paired with element i + half.
    pub interleaved: bool,
    /// Whether all sequences have the same angles.
    pub shared: bool,
}

impl Rotate {
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Mismatch::positive(&[("heads", self.heads), ("elements of a head", self.width)])?;
        let (end, most) = (
            self.at.saturating_add(self.half.saturating_mul(2)),
            self.width,
        );
        let expected = format_args!("at most {most}");
        Mismatch::unless(end <= most, "end of what is turned", expected, end)?;
        few_elements("x", &[self.batch, self.tokens, self.heads, self.width])
    }

    /// The number of sequences with angles of their own.
    pub fn tables(&self) -> usize {
        if self.shared { 1 } else { self.batch }
    }

    /// The pair (l, r) of elements of x that element `d` of a head is made of, and whether it is the second of the turned pair; `None` for an
    /// element that stays.
    pub fn pair(&self, d: usize) -> Option<([usize; 2], bool)> {
        let (at, half) = (self.at, self.half);
        let rotated = d.checked_sub(at).filter(|d| *d < 2 * half)?;
        let (pair, second) = (rotated % half, rotated >= half);
        let of = if self.interleaved {
            [at + 2 * pair, at + 2 * pair + 1]
        } else {
            [at + pair, at + pair + half]
        };
        Some((of, second))
    }

    /// The index of the angle of element `d` of row (token and head) `row`.
    pub fn angle(&self, row: usize, d: usize) -> usize {
        let token = row / self.heads % (self.tables() * self.tokens).max(1);
        token * self.half + (d - self.at) % self.half
    }

    /// y in f64.
    pub fn reference(&self, x: &[f64], [cos, sin]: [&[f64]; 2]) -> Vec<f64> {
        let value = |at: usize| {
            let (row, d) = (at / self.width, at % self.width);
            let x = &x[row * self.width..][..self.width];
            let Some(([left, right], second)) = self.pair(d) else {
                return x[d];
            };
            let angle = self.angle(row, d);
            let (cos, sin) = (cos[angle], sin[angle]);
            if second {
                x[right] * cos + x[left] * sin
            } else {
                x[left] * cos - x[right] * sin
            }
        };
        let rows = self.batch * self.tokens * self.heads;
        (0..rows * self.width).map(value).collect()
    }
}

/// What an attention of this family is: a bound of its scores, and the number of last keys that a query sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The bound c of scores s, which become c · tanh(s / c).
    pub softcap: Option<f32>,
    /// The number of last keys, the query's own included; `u32::MAX` for all.
    pub window: u32,
}

impl Seen {
    /// What `attend` is.
    ///
    /// # Errors
    /// [`Mismatch`] for another type than f32, another cache than one in f32, and other rules than `Causal`, `Window` and `Softcap`, one of the
    /// first two among them.
    pub fn of(attend: &Attend) -> Result<Self, Mismatch> {
        let p = attend.attention();
        let (element, format) = (p.element(), attend.layout().format());
        let expected = "f32 over a cache in f32";
        let right = element == Element::F32 && format == CacheFormat::F32;
        let got = format_args!("{element} over {format}");
        Fault::Unsupported.unless(right, "exact attention", expected, got)?;
        let mut seen = Self {
            softcap: None,
            window: u32::MAX,
        };
        let mut ordered = false;
        for rule in p.rules().iter() {
            match rule {
                Rule::Causal => ordered = true,
                Rule::Window(window) => (ordered, seen.window) = (true, window),
                Rule::Softcap(cap) => seen.softcap = Some(cap),
                other => {
                    let (what, expected) =
                        ("rule of an exact attention", "causal, window or softcap");
                    return Err(Fault::Unsupported.error(what, expected, other.name()));
                }
            }
        }
        let expected = "causal or window among them";
        Fault::Unsupported.unless(ordered, "rules of an exact attention", expected, "none")?;
        Ok(seen)
    }

    /// The bound c of scores, and 1 / c rounded once: devices divide each in their own way, so none does.
    pub fn cap(&self) -> Option<[f32; 2]> {
        let cap = self.softcap?;
        Some([cap, (1.0 / f64::from(cap)) as f32])
    }
}

#[cfg(test)]
mod tests;
