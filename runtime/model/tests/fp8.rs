//! Which weights of published models become FP8 by default.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::Path;

use burn::tensor::Device;
use moebius::fp8::Fp8Conversion;
use moebius_model::load::{LoadOptions, ModelFiles};

#[test]
fn matrices_of_all_layers_are_converted() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let device = Device::flex();
    for case in ["decoder_olmoe", "decoder_mixtral"] {
        let files = ModelFiles::open(&cases.join(case)).unwrap();
        let model = files.load(&device, LoadOptions::default(), &mut |_| ());
        let quantizer = LoadOptions::fp8().round.unwrap();
        let conversion = Fp8Conversion::new(quantizer);
        let (_, report) = conversion.convert(model.unwrap(), &device).unwrap();
        assert_eq!(report.skipped, [""; 0], "{case}");
        let layers = files.spec().layers.len();
        // Each layer has four projections and the two stacks of the experts.
        assert_eq!(report.layers.len(), 6 * layers, "{case}");
        for layer in report.layers {
            // Scales from the largest magnitude would leave an error of 2.4 % or more.
            assert!(layer.relative_error < 0.023, "{layer:?}");
        }
    }
}
