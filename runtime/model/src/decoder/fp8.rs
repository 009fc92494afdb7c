//! What of a model becomes FP8.

use moebius::fp8::{Fp8Conversion, Fp8Format, Granularity, Quantizer, ScaleRule};

use super::spec::ModelSpec;

/// Inner columns of a row that share a scale.
const TOGETHER: usize = 32;

/// How [`Model`](super::Model)s are converted to FP8 by default: E4M3 with a scale for every 32 values of a row, found by least squares.
///
/// What costs little memory and much quality stays as it is: the projections to keys and values, all projections of the first layer's
/// attention, and the second matrices of the first and the last feed-forward part. Of the distance that codes put between the logits of
/// SmolLM2-135M before and after, a third comes from these.
pub fn fp8_conversion(spec: &ModelSpec) -> Fp8Conversion {
    let rows = Granularity::Block {
        rows: 1,
        columns: TOGETHER,
    };
    let quantizer = Quantizer::new(Fp8Format::E4M3, rows).with_scales(ScaleRule::LeastSquares);
    let last = spec.layers.len().saturating_sub(1);
    let mut kept = vec![
        "blocks.*.attention.projection.key".to_owned(),
        "blocks.*.attention.projection.value".to_owned(),
        "blocks.0.attention".to_owned(),
    ];
    // Layer 0 may be the last.
    let ends = [0, last];
    let ends = &ends[..if last == 0 { 1 } else { 2 }];
    kept.extend(
        ends.iter()
            .map(|layer| format!("blocks.{layer}.feed_forward.*w_out")),
    );
    kept.into_iter()
        .fold(Fp8Conversion::new(quantizer), Fp8Conversion::skip)
}
