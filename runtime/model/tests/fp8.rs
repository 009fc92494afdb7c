//! What of published models becomes FP8 by default.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::Path;

use burn::tensor::Device;
use moebius_model::decoder::fp8_conversion;
use moebius_model::load::{LoadOptions, ModelFiles};

/// Paths that became FP8 and those that were kept, of a case's model.
fn converted(case: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let device = Device::flex();
    let files = ModelFiles::open(&cases.join(case)).unwrap();
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    let conversion = fp8_conversion(files.spec());
    let (_, report) = conversion.convert(model.unwrap(), &device).unwrap();
    let layers = report.layers.into_iter().map(|layer| {
        assert!(layer.relative_error < 0.03, "{layer:?}");
        layer.path
    });
    (layers.collect(), report.skipped, report.unused_patterns)
}

#[test]
fn all_but_the_sensitive_matrices_are_converted() {
    for case in ["decoder_olmoe", "decoder_mixtral"] {
        let (codes, kept, unused) = converted(case);
        assert_eq!(unused, [""; 0], "{case}");
        let attention = |layer: usize, part: &str| format!("blocks.{layer}.attention.{part}");
        let feed_forward = |layer: usize, part: &str| format!("blocks.{layer}.feed_forward.{part}");
        let mut want = Vec::new();
        for layer in 0..3 {
            if layer > 0 {
                want.extend(["projection.query", "out"].map(|part| attention(layer, part)));
            }
            want.push(feed_forward(layer, "experts.w_in"));
            if layer == 1 {
                want.push(feed_forward(layer, "experts.w_out"));
            }
        }
        assert_eq!(codes, want, "{case}");
        assert!(kept.contains(&"blocks.0.attention".to_owned()), "{kept:?}");
        let key = attention(1, "projection.key");
        assert!(kept.contains(&key), "{kept:?}");
    }
}

#[test]
fn narrow_vectors_are_converted() {
    // Its keys and values come through narrow vectors, which have no matrices of those names.
    let (codes, _, unused) = converted("decoder_deepseek_v3");
    assert!(
        codes.contains(&"blocks.1.attention.projection.up".to_owned()),
        "{codes:?}"
    );
    assert_eq!(unused.len(), 2, "{unused:?}");
}
