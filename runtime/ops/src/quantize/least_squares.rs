//! Scales by the error that they leave: which are tried.

/// Scales that are tried.
pub const LEAST_SQUARES_TRIED: usize = 16;

/// What the scale of the largest magnitude is multiplied by for the scales that are tried, itself the first: 2^(i/16). A whole octave more is
/// the same codes with another exponent, but for those that lose bits at the end of their range; smaller scales saturate, which never paid
/// for 32 values or more of SmolLM2's weights.
pub fn least_squares_factors() -> [f32; LEAST_SQUARES_TRIED] {
    std::array::from_fn(|i| (i as f64 / LEAST_SQUARES_TRIED as f64).exp2() as f32)
}
