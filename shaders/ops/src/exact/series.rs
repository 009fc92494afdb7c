//! The constants of the functions: coefficients of polynomials, the highest power first, and the first guesses of Newton's method. Kernels
//! and processors read the same.
//!
//! Sources: Moshier's Cephes (`expf`, `logf`, `tanhf`, `erff`); erfc by Press et al., "Numerical Recipes", 6.2.

/// A polynomial.
#[derive(Clone, Copy, Debug)]
pub struct Series(pub &'static [f32]);

/// log₂ e.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// The first nine bits of ln 2: their product with an exponent is exact.
pub const LN_2_HIGH: f32 = 0.693_359_4;

/// ln 2 − [`LN_2_HIGH`].
pub const LN_2_LOW: f32 = -2.121_944_4e-4;

/// (eʳ − 1 − r) / r² for |r| ≤ ln 2 / 2.
pub const EXP: Series = Series(&[
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    0.166_666_66,
    0.5,
]);

/// (ln(1 + t) − t + t² / 2) / t³ for √½ ≤ 1 + t < √2.
pub const LN: Series = Series(&[
    7.037_683_6e-2,
    -0.115_146_1,
    0.116_769_984,
    -0.124_201_41,
    0.142_493_23,
    -0.166_680_57,
    0.200_007_14,
    -0.249_999_94,
    0.333_333_3,
]);

/// The bits of √½, where the range of [`LN`] begins.
pub const ROOT_OF_HALF: u32 = 0x3F35_04F3;

/// (tanh x / x − 1) / x² of x² for |x| < 0.625.
pub const TANH: Series = Series(&[
    -5.704_988_7e-3,
    2.063_908_8e-2,
    -5.373_971_5e-2,
    0.133_314_42,
    -0.333_332_8,
]);

/// erf x / x of x² for |x| < 1.
pub const ERF: Series = Series(&[
    7.853_861_5e-5,
    -8.010_193_7e-4,
    5.188_327_7e-3,
    -2.685_381_5e-2,
    0.112_835_854,
    -0.376_126_26,
    std::f32::consts::FRAC_2_SQRT_PI,
]);

/// P of erfc z = t · exp(P(t) − z²), t = 2 / (2 + z), for z ≥ 0.
pub const ERFC: Series = Series(&[
    0.170_872_77,
    -0.822_152_23,
    1.488_515_9,
    -1.135_204,
    0.278_868_07,
    -0.186_288_06,
    0.096_784_18,
    0.374_091_96,
    1.000_023_7,
    -1.265_512_2,
]);

/// The bits of a number minus those of x > 0 are those of 1 / x, within an eighth.
pub const RECIPROCAL: u32 = 0x7EF3_11C7;

/// The bits of a number minus half of those of x > 0 are those of 1 / √x, within a thirtieth.
pub const RECIPROCAL_ROOT: u32 = 0x5F37_5A86;
