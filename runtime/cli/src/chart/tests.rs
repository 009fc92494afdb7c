use super::*;
use crate::results::Figure;

fn stored(device: &str, tokens: Value, times: &[(&str, Part, f64)]) -> Stored {
    let workload = json!({ "name": "linear", "tokens": tokens, "n": 4096, "gated": false });
    let figures = times.iter().map(|(name, of, ms)| Figure {
        name: (*name).to_owned(),
        ms: *ms,
        quartiles: [*ms, *ms],
        of: *of,
    });
    Stored {
        path: format!("{device}.json"),
        run: RunOf {
            workload: workload.as_object().cloned().expect("an object"),
            device: device.to_owned(),
            simd: Some(moebius_host::Simd::Avx2),
            threads: 2,
            adapter: "a".to_owned(),
            version: "0".to_owned(),
        },
        figures: figures.collect(),
    }
}

#[test]
fn each_device_and_peer_is_a_line_over_tokens() {
    let of = |device: &str, tokens: u64, ms: f64| {
        let times = [
            ("FP8", Part::Whole, ms),
            ("linear: router", Part::Stage, ms),
            ("PyTorch", Part::Peer, 2.0 * ms),
        ];
        stored(device, json!(tokens), &times)
    };
    // The last result repeats a point, which then shows the median.
    let all = [
        of("cpu", 8, 2.0),
        of("cpu", 1, 1.0),
        of("flex", 1, 4.0),
        of("cpu", 1, 0.5),
    ];
    let chart = chart(&all).expect("a chart");
    assert_eq!(chart.title, "linear · n 4096");
    let lines: Vec<_> = chart.series.iter().map(|line| line.name.as_str()).collect();
    let names = [
        "FP8 · cpu, avx2",
        "FP8 · flex, avx2",
        "PyTorch · beside cpu, avx2",
        "PyTorch · beside flex, avx2",
    ];
    assert_eq!(lines, names);
    assert_eq!(chart.series[0].points, [(1.0, 2000.0), (8.0, 4000.0)]);
    assert_eq!(chart.series[3].points, [(1.0, 125.0)]);
}

#[test]
fn other_work_and_no_tokens_are_errors() {
    let one = [("FP8", Part::Whole, 1.0)];
    let first = stored("cpu", json!(1), &one);
    let mut other = stored("flex", json!(1), &one);
    other.run.workload.insert("n".to_owned(), json!(512));
    let error = chart(&[first.clone(), other])
        .expect_err("other work")
        .to_string();
    assert_eq!(error, "flex.json: expected a result of n 4096, got 512");
    for all in [
        vec![],
        vec![stored("cpu", json!(0), &one)],
        vec![stored("cpu", json!("x"), &one)],
    ] {
        assert!(matches!(chart(&all), Err(ResultError::Foreign { .. })));
    }
}
