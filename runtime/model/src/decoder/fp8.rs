//! What of a model becomes FP8.

use moebius::fp8::{Fp8Conversion, Fp8Format, Granularity, Quantizer, ScaleRule};

/// Inner columns of a row that share a scale.
const TOGETHER: usize = 32;

/// How [`Model`](super::Model)s are converted to FP8 by default: E4M3 with a scale for every 32 values of a row, found by least squares.
///
/// The scales are an eighth of the codes' bytes. With SmolLM2-135M they take the distance between the logits before and after to a third
/// of what blocks of 128 × 128 leave.
pub fn fp8_conversion() -> Fp8Conversion {
    let rows = Granularity::Block {
        rows: 1,
        columns: TOGETHER,
    };
    Fp8Conversion::new(Quantizer::new(Fp8Format::E4M3, rows).with_scales(ScaleRule::LeastSquares))
}
