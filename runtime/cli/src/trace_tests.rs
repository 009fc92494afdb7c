use super::*;
use tracing::trace_span;
use tracing_subscriber::layer::SubscriberExt;

/// Computes a step of one operation while `trace` listens.
fn step(trace: &Trace) {
    let listening = tracing_subscriber::registry().with(vec![trace.listener()]);
    tracing::subscriber::with_default(listening, || {
        let _step = trace_span!("step", number = 7_u64).entered();
        let sizes = "x 2×3 -> y 2";
        let operation = trace_span!(
            "operation",
            name = "experts",
            %sizes,
            flops = Some(12_u64),
            launches = tracing::field::Empty,
        );
        operation.in_scope(|| ());
        operation.record("launches", 3_u64);
    });
}

#[test]
fn an_unfinished_file_lacks_its_last_bracket_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let trace = Trace::begin(&path).unwrap();
    let read = || std::fs::read_to_string(&path).unwrap();
    let events = |text: &str| serde_json::from_str::<Vec<Value>>(text).unwrap();
    assert_eq!(events(&format!("{}]", read())).len(), 1);
    step(&trace);
    let unfinished = events(&format!("{}]", read()));
    let names: Vec<&Value> = unfinished.iter().map(|event| &event["name"]).collect();
    assert_eq!(names, ["process_name", "experts", "step"]);
    let args = json!({ "sizes": "x 2×3 -> y 2", "flops": 12, "launches": 3 });
    assert_eq!(unfinished[1]["args"], args);
    assert_eq!(unfinished[1]["cat"], "operation");
    assert_eq!(unfinished[2]["args"], json!({ "number": 7 }));
    assert_eq!(unfinished[1]["tid"], unfinished[2]["tid"]);
    let rows = trace.complete().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].operation.as_str(), rows[0].calls), ("experts", 1));
    assert_eq!((rows[0].launches, rows[0].gb_per_s), (Some(3), None));
    assert_eq!(events(&read()), unfinished);
}

#[test]
fn a_file_that_can_not_be_written_stops_nothing_and_is_told_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let trace = Trace::begin(&path).unwrap();
    trace.state().file = File::open(&path).unwrap();
    step(&trace);
    step(&trace);
    assert!(trace.state().waiting.is_empty());
    let ended = trace.complete().err();
    assert!(matches!(ended, Some(CliError::WriteFile { .. })));
}
