use super::*;
use moebius_benches::linear::LayerBytes;
use moebius_benches::timing::Timing;
use moebius_benches::{Ceilings, Checked, Ran};
use serde_json::{Value, json};

#[test]
fn a_result_that_does_not_verify_has_no_figures() {
    let path = PathTime {
        name: "FP8".to_owned(),
        checked: Some(Checked {
            verified: true,
            max_rel_l2: 0.25,
        }),
        speed: Timing::of(&mut [1.0]).speed(1),
        copies: 1,
        floor: None,
        weights_gb_per_s: 1.0,
        ratio: 1.0,
    };
    let wrong = Checked {
        verified: false,
        max_rel_l2: 0.5,
    };
    let mut report = LinearReport {
        ran: Ran {
            device: "cpu".to_owned(),
            adapter: "a".to_owned(),
            variant: Some("cpu".to_owned()),
            simd: None,
        },
        checked: wrong,
        left_out: Vec::new(),
        weights_rel_l2: 0.02,
        first_ms: 1.0,
        ceilings: Ceilings {
            peak_gflops: 1.0,
            peak_of: "multiply-adds".to_owned(),
            memory: None,
        },
        fp8: path.clone(),
        own: vec![path.clone()],
        sparse24: Some(PathTime {
            checked: Some(wrong),
            ..path
        }),
        blocks: Vec::new(),
        ratio_to_best_own: Some(1.0),
        peer: None,
        layer_bytes: LayerBytes {
            fp8: 1,
            f32: 4,
            ratio: 0.25,
            of: BytesOf::Allocator,
        },
        floor_bytes: 1,
        flops: 1,
    };
    assert!(!report.verified());
    let figures = |report: &LinearReport| report.figures().expect("a report has a JSON form");
    let value = figures(&report);
    assert_eq!(value["max_rel_l2"], 0.5);
    for figure in [
        "fp8",
        "own",
        "sparse24",
        "ratio_to_best_own",
        "layer_bytes",
        "first_ms",
    ] {
        assert_eq!(value[figure], Value::Null, "{figure}");
    }
    report.checked.verified = true;
    assert!(report.verified());
    let value = figures(&report);
    assert_eq!(value["layer_bytes"]["of"], json!("allocator"));
    // Each way has its own error.
    assert_eq!(value["fp8"]["max_rel_l2"], 0.25);
    assert_eq!(value["own"][0]["verified"], true);
    assert_eq!(value["sparse24"]["verified"], false);
}
