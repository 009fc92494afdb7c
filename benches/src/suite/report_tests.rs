use super::*;

fn row(variant: &str, verified: bool, error: f64) -> Row {
    let figures = Figures {
        median_ms: 0.25,
        spread: None,
        rate: Rate {
            value: 12.345,
            unit: "GFLOP/s",
        },
    };
    let checked = Checked {
        verified,
        max_rel_l2: error,
    };
    Row::new("4 tokens", variant, checked, figures)
}

fn entry(benchmark: Benchmark, outcome: Outcome) -> Entry {
    Entry {
        benchmark,
        device: Device::Flex,
        outcome,
    }
}

fn report(entries: Vec<Entry>) -> Report {
    let place = |device, adapter: Option<&str>, missing: Option<&str>| Place {
        device,
        adapter: adapter.map(str::to_owned),
        missing: missing.map(str::to_owned),
    };
    Report {
        full: false,
        places: Places {
            all: vec![
                place(Device::Cuda(None), None, Some("no driver")),
                place(Device::Flex, Some("a processor"), None),
            ],
            not_built: vec![Device::Rocm(None), Device::Cpu],
        },
        entries,
    }
}

/// A report with a right result, a wrong one beside a right one, a refusal and a failure.
fn mixed() -> Report {
    report(vec![
        entry(
            Benchmark::Moe,
            Outcome::Measured(vec![row("portable", true, 1.5e-7)]),
        ),
        entry(
            Benchmark::Decode,
            Outcome::Measured(vec![row("f32", true, 0.0), row("e4m3", false, 0.3)]),
        ),
        entry(
            Benchmark::GroupedGemm,
            Outcome::Skipped("flex has no kernels".to_owned()),
        ),
        entry(
            Benchmark::Linear,
            Outcome::Failed("the device failed".to_owned()),
        ),
    ])
}

#[test]
fn a_wrong_result_and_a_failure_are_exit_1_and_named() {
    let verdict = mixed().verdict();
    assert_eq!(verdict.code(), 1);
    let said = "decode on flex is wrong (e4m3); linear on flex failed: the device failed";
    assert_eq!(verdict, Verdict::Bad(said.to_owned()));
    for outcome in [
        Outcome::Measured(vec![row("portable", false, f64::INFINITY)]),
        Outcome::Measured(Vec::new()),
        Outcome::Failed("a panic: planted".to_owned()),
    ] {
        assert_eq!(
            report(vec![entry(Benchmark::Moe, outcome)])
                .verdict()
                .code(),
            1
        );
    }
}

#[test]
fn what_is_refused_is_no_fault_but_nothing_at_all_is_no_result() {
    let right = entry(
        Benchmark::Moe,
        Outcome::Measured(vec![row("portable", true, 1e-7)]),
    );
    let skipped = entry(Benchmark::GroupedGemm, Outcome::Skipped("why".to_owned()));
    let both = report(vec![right, skipped.clone()]);
    assert_eq!((both.verdict(), both.verdict().code()), (Verdict::Good, 0));
    for none in [Vec::new(), vec![skipped]] {
        let none = report(none);
        assert_eq!(
            (none.verdict().code(), none.verdict()),
            (2, Verdict::Nothing)
        );
        assert_eq!(none.summary()[0], "no results");
    }
}

#[test]
fn a_wrong_result_has_no_figures() {
    let table = mixed().table();
    let cells = |at: usize| table[at].0.join("|");
    assert_eq!(
        cells(0),
        "moe|flex|4 tokens|portable|to 1.5e-7|250.0 µs|12.35 GFLOP/s"
    );
    assert_eq!(
        cells(1),
        "decode|flex|4 tokens|f32|exact|250.0 µs|12.35 GFLOP/s"
    );
    assert_eq!(cells(2), "decode|flex|4 tokens|e4m3|WRONG, off by 3.0e-1||");
    let right: Vec<bool> = table.iter().map(|(_, right)| *right).collect();
    assert_eq!(right, [true, true, false]);
}

#[test]
fn the_summary_names_what_was_left_out() {
    assert_eq!(
        mixed().summary(),
        [
            "3 results, 1 wrong",
            "measured: flex (a processor)",
            "missing: cuda: no driver",
            "skipped: grouped-gemm on flex: flex has no kernels",
            "not in this build: rocm, cpu (`cargo bench --features rocm` adds one)",
        ]
    );
}

#[test]
fn the_document_has_all_of_it() {
    let value = mixed().to_json().unwrap();
    let first = json!({
        "benchmark": "moe",
        "device": "flex",
        "sizes": "4 tokens",
        "variant": "portable",
        "verified": true,
        "error": 1.5e-7,
        "median_ms": 0.25,
        "spread": null,
        "rate": { "value": 12.345, "unit": "GFLOP/s" },
    });
    assert_eq!(value["results"][0], first);
    let wrong = value["results"][2].as_object().unwrap();
    assert_eq!(wrong["verified"], json!(false));
    assert!(!wrong.contains_key("median_ms") && !wrong.contains_key("rate"));
    let skipped =
        json!({ "benchmark": "grouped-gemm", "device": "flex", "reason": "flex has no kernels" });
    assert_eq!(value["skipped"], json!([skipped]));
    let failed = json!({ "benchmark": "linear", "device": "flex", "reason": "the device failed" });
    assert_eq!(value["failed"], json!([failed]));
    let missing = json!({ "device": "cuda", "adapter": null, "missing": "no driver" });
    assert_eq!(value["devices"][0], missing);
    assert_eq!(value["not_built"], json!(["rocm", "cpu"]));
    assert_eq!(
        (&value["verified"], &value["exit"], &value["sizes"]),
        (&json!(false), &json!(1), &json!("small"))
    );
    // JSON has no form for an infinite error.
    let infinite = entry(
        Benchmark::Moe,
        Outcome::Measured(vec![row("portable", false, f64::INFINITY)]),
    );
    let value = report(vec![infinite]).to_json().unwrap();
    assert_eq!(value["results"][0]["error"], Value::Null);
}

#[test]
fn figures_have_as_many_digits_as_tell_something() {
    let times = [1234.5, 12.345, 0.001_23].map(time);
    assert_eq!(times, ["1234 ms", "12.35 ms", "1.2 µs"]);
    let rate = |value| {
        speed(&Rate {
            value,
            unit: "GB/s",
        })
    };
    assert_eq!([rate(1234.5), rate(1.234)], ["1234 GB/s", "1.23 GB/s"]);
}
