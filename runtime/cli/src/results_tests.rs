use super::*;
use serde_json::json;

fn spread(low: f64, high: f64) -> Value {
    json!({ "runs": 9, "q1_ms": low, "q3_ms": high })
}

fn result() -> Value {
    json!({
        "device": "flex", "median_ms": 4.0, "spread": spread(3.0, 5.0), "first_ms": 9.0,
        "stages": [{ "name": "router", "median_ms": 1.0, "spread": spread(1.0, 1.0) }],
        "runs": [{ "keep": "first_product", "median_ms": 7.0, "spread": spread(6.0, 8.0),
                   "forward_ms": 2.0, "forward_spread": spread(2.0, 3.0) }],
        "peer": { "name": "PyTorch", "median_ms": 5.0, "spread": spread(5.0, 5.0) },
        "run": {
            "workload": { "name": "moe", "tokens": 8, "hidden": 32 }, "device": "flex",
            "simd": "avx2", "threads": 2, "adapter": "a", "version": "0.1.0",
        },
    })
}

fn stored(value: &Value) -> Result<Stored, ResultError> {
    Stored::of("b.json".to_owned(), value)
}

#[test]
fn each_median_with_a_spread_is_a_figure() {
    let stored = stored(&result()).expect("a result");
    let figures = stored.figures.iter().map(|f| (f.name.as_str(), f.ms, f.of));
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(
        figures,
        [
            ("first product", 7.0, Part::Whole),
            ("first product forward", 2.0, Part::Whole),
            ("moe", 4.0, Part::Whole),
            ("moe: PyTorch", 5.0, Part::Peer),
            ("moe: router", 1.0, Part::Stage),
        ]
    );
}

#[test]
fn the_first_difference_of_two_runs_is_named() {
    let run = stored(&result()).expect("a result").run;
    assert_eq!(run.difference(&run, &[]), None);
    assert_eq!(run.other_place(&run), None);
    let mut other = run.clone();
    other.workload.insert("tokens".to_owned(), json!(9));
    let tokens = Some(["tokens", "8", "9"].map(str::to_owned));
    assert_eq!(run.difference(&other, &[]), tokens);
    assert_eq!(run.difference(&other, &["tokens"]), None);
    other.workload.insert("gated".to_owned(), json!(true));
    let gated = Some(["gated", "none", "true"].map(str::to_owned));
    assert_eq!(run.difference(&other, &["tokens"]), gated);
    other.simd = Some(Simd::Avx512);
    let set = Some(["instruction set", "avx2", "avx512"].map(str::to_owned));
    assert_eq!(run.other_place(&other), set);
}

#[test]
fn other_json_is_refused_with_what_it_is() {
    for (value, said) in [
        (json!([1]), "got JSON that is no object"),
        (json!({ "name": "x" }), "got an object without `run`"),
        (json!({ "error": "x" }), "got an error of it"),
        (json!({ "run": { "device": "cpu" } }), "got another `run`: "),
    ] {
        let error = stored(&value).expect_err("not a result").to_string();
        assert!(error.contains(said), "{value}: {error}");
    }
    let mut unverified = result();
    for key in ["median_ms", "spread", "runs"] {
        unverified[key] = Value::Null;
    }
    let error = stored(&unverified);
    assert!(matches!(error, Err(ResultError::Unverified { .. })));
}

#[test]
fn a_file_may_hold_several_and_a_truncated_one_says_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.json");
    let line = result().to_string();
    let read = |text: &str| {
        std::fs::write(&path, text).expect("written");
        Stored::read(&path)
    };
    assert_eq!(
        read(&format!("{line}\n{line}\n")).map(|all| all.len()).ok(),
        Some(2)
    );
    for text in ["", &line[..line.len() / 2], "# machine"] {
        let error = read(text);
        assert!(
            matches!(error, Err(ResultError::NotJson { .. })),
            "{text}: {error:?}"
        );
    }
    let missing = Stored::read(&folder.path().join("none"));
    assert!(matches!(missing, Err(ResultError::Read { .. })));
}
