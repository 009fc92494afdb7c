use super::*;
use crate::Checked;
use crate::suite::places::Place;
use crate::suite::report::{Figures, Rate, Verdict};

const BENCHMARKS: [Benchmark; 3] = [Benchmark::Moe, Benchmark::Attention, Benchmark::Linear];

fn places() -> Places {
    let place = |device, missing: Option<&str>| Place {
        device,
        adapter: None,
        missing: missing.map(str::to_owned),
    };
    Places {
        all: vec![
            place(Device::Cuda(None), Some("no driver")),
            place(Device::Wgpu(Some(0)), None),
            place(Device::Flex, None),
        ],
        not_built: Vec::new(),
    }
}

fn row(verified: bool) -> Row {
    let figures = Figures {
        median_ms: 1.0,
        spread: None,
        rate: Rate {
            value: 1.0,
            unit: "tokens/s",
        },
    };
    let checked = Checked {
        verified,
        max_rel_l2: 0.5,
    };
    Row::new("4 tokens", "planted", checked, figures)
}

/// Runs `BENCHMARKS`; `planted` gives each task's result.
fn run(
    planted: impl Fn(&Task) -> Result<Vec<Row>, BenchError>,
) -> (Report, Vec<(usize, usize, Device)>, Vec<String>) {
    let (mut begun, mut done) = (Vec::new(), Vec::new());
    let mut measure = |task: &Task, progress: Progress<'_>| {
        progress(&format!("planting {}", task.benchmark));
        planted(task)
    };
    let mut watch = |event: Event<'_>| match event {
        Event::Begins { number, of, task } => begun.push((number, of, task.device)),
        Event::Doing(text) => done.push(text.to_owned()),
    };
    let how = How::default();
    let report = collect(places(), &BENCHMARKS, how, &mut measure, &mut watch);
    (report, begun, done)
}

#[test]
fn every_benchmark_runs_on_every_device_that_is_there() {
    let (report, begun, done) = run(|_| Ok(vec![row(true)]));
    let (wgpu, flex) = (Device::Wgpu(Some(0)), Device::Flex);
    assert_eq!(begun[..3], [(1, 6, wgpu), (2, 6, flex), (3, 6, wgpu)]);
    assert_eq!((begun.len(), done.len()), (6, 6));
    assert_eq!(done[5], "planting linear");
    assert_eq!(report.verdict(), Verdict::Good);
    assert_eq!(report.rows().count(), 6);
    let missing = "missing: cuda: no driver".to_owned();
    assert!(report.summary().contains(&missing));
}

#[test]
fn after_a_wrong_result_the_others_run_and_the_end_is_exit_1() {
    let planted = |task: &Task| {
        let wrong = (task.benchmark, task.device) == (Benchmark::Moe, Device::Wgpu(Some(0)));
        Ok(vec![row(!wrong)])
    };
    let (report, begun, _) = run(planted);
    assert_eq!(begun.len(), 6);
    let said = "moe on wgpu:0 is wrong (planted)".to_owned();
    assert_eq!(report.verdict(), Verdict::Bad(said));
    assert_eq!(report.verdict().code(), 1);
}

#[test]
fn after_an_error_and_a_panic_the_others_run() {
    let planted = |task: &Task| match (task.benchmark, task.device) {
        (Benchmark::Moe, Device::Flex) => Err(BenchError::Device("planted".to_owned())),
        (Benchmark::Attention, Device::Flex) => panic!("planted, too"),
        _ => Ok(vec![row(true)]),
    };
    let (report, begun, _) = run(planted);
    assert_eq!((begun.len(), report.rows().count()), (6, 4));
    let said = "moe on flex failed: the device failed: planted; attention on flex failed: a panic: planted, too";
    assert_eq!(report.verdict(), Verdict::Bad(said.to_owned()));
}

#[test]
fn what_a_device_cannot_do_is_skipped() {
    let lacks = |task: &Task| match task.device {
        Device::Flex => Err(BenchError::Lacks {
            device: task.device,
            what: "kernels",
        }),
        _ => Ok(vec![row(true)]),
    };
    let (report, ..) = run(lacks);
    assert_eq!(report.verdict(), Verdict::Good);
    let skipped = |entry: &&Entry| matches!(entry.outcome, Outcome::Skipped(_));
    assert_eq!(report.entries.iter().filter(skipped).count(), 3);
    let open = moebius_device::OpenError::NoSuchDevice {
        device: Device::Flex,
        available: Vec::new(),
    };
    let refused = BenchError::Refused(open.into());
    assert!(matches!(outcome(Ok(Err(refused))), Outcome::Skipped(_)));
    let shape = moebius_ops::Mismatch::new("tokens", "at least 1", 0);
    let wrong = BenchError::Refused(shape.into());
    assert!(matches!(outcome(Ok(Err(wrong))), Outcome::Failed(_)));
}
