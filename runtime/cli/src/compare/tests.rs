use super::*;
use serde_json::{Map, json};

fn figure(name: &str, of: Part, [q1, ms, q3]: [f64; 3]) -> Figure {
    Figure {
        name: name.to_owned(),
        ms,
        quartiles: [q1, q3],
        of,
    }
}

fn run() -> RunOf {
    let workload = json!({ "name": "linear", "tokens": 1 });
    RunOf {
        workload: workload.as_object().cloned().unwrap_or_else(Map::new),
        device: "flex".to_owned(),
        simd: None,
        threads: 2,
        adapter: "a".to_owned(),
        version: "0".to_owned(),
    }
}

fn baseline(figures: Vec<Figure>) -> Baseline {
    Baseline(Stored {
        path: "b.json".to_owned(),
        run: run(),
        figures,
    })
}

fn verdict(before: [f64; 3], now: [f64; 3]) -> Verdict {
    let [before, now] = [before, now].map(|of| figure("x", Part::Whole, of));
    Row::of(&before, &now).verdict
}

#[test]
fn only_what_differs_by_more_than_the_noise_has_a_verdict() {
    // Times with little noise, far apart.
    assert_eq!(verdict([9.9, 10.0, 10.1], [4.9, 5.0, 5.1]), Verdict::Faster);
    assert_eq!(verdict([4.9, 5.0, 5.1], [9.9, 10.0, 10.1]), Verdict::Slower);
    // Times as far apart, but noisy.
    assert_eq!(verdict([4.0, 5.0, 8.0], [8.0, 10.0, 14.0]), Verdict::Same);
    // Times with little noise, 1 % apart.
    assert_eq!(
        verdict([10.0, 10.0, 10.0], [10.1, 10.1, 10.1]),
        Verdict::Same
    );
    assert_eq!(
        verdict([10.0, 10.0, 10.0], [10.3, 10.3, 10.3]),
        Verdict::Slower
    );
}

#[test]
fn a_slower_stage_or_peer_does_not_count() {
    let times = |ms| [ms, ms, ms];
    let all = |whole: f64, rest: f64| {
        vec![
            figure("linear", Part::Whole, times(whole)),
            figure("linear: sort", Part::Stage, times(rest)),
            figure("linear: PyTorch", Part::Peer, times(rest)),
        ]
    };
    let comparison = baseline(all(1.0, 1.0)).compare(&all(0.5, 2.0));
    assert_eq!(
        (comparison.slower, comparison.outcome()),
        (0, Outcome::Good)
    );
    let verdicts: Vec<_> = comparison.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Faster, Verdict::Slower, Verdict::Slower]
    );
    assert_eq!(comparison.rows[0].ratio, 2.0);
    let comparison = baseline(all(1.0, 1.0)).compare(&all(2.0, 1.0));
    assert_eq!(
        (comparison.slower, comparison.outcome()),
        (1, Outcome::Negative)
    );
}

#[test]
fn what_one_of_them_lacks_is_named() {
    let one = |name| figure(name, Part::Whole, [1.0; 3]);
    let comparison = baseline(vec![one("a"), one("b")]).compare(&[one("b"), one("c")]);
    assert_eq!(comparison.not_in_both, ["a", "c"]);
    assert_eq!(comparison.rows.len(), 1);
}

#[test]
fn a_baseline_of_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.json");
    let result = |device: &str, tokens: usize| {
        let mut run = run();
        device.clone_into(&mut run.device);
        run.workload.insert("tokens".to_owned(), json!(tokens));
        let spread = json!({ "runs": 5, "q1_ms": 1.0, "q3_ms": 1.0 });
        json!({ "run": run, "median_ms": 1.0, "spread": spread }).to_string()
    };
    let read = |lines: &[String]| {
        std::fs::write(&path, lines.join("\n")).expect("written");
        let read = Baseline::read(&path, &run());
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    let said = |what: &str| {
        let file = path.display();
        Err(format!("{file}: expected a result of {what}"))
    };
    assert_eq!(read(&[result("cpu", 1)]), said("device flex, got cpu"));
    assert_eq!(read(&[result("flex", 8)]), said("tokens 1, got 8"));
    // The fitting result is found among several.
    assert_eq!(read(&[result("flex", 8), result("flex", 1)]), Ok(()));
}
