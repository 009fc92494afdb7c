//! Runs one benchmark on one device: chooses its sizes, and turns its report into rows.

use super::collect::Task;
use super::options::Benchmark;
use super::report::{Figures, Rate, Row};
use crate::attention::{self, AttentionBench};
use crate::decode::{self, DecodeBench};
use crate::grouped_gemm::{KernelTime, gradients, variants};
use crate::linear::{self, LinearBench, PathTime};
use crate::moe::backward::{self, TrainingRun};
use crate::moe::{self, MoeBench};
use crate::timing::{Speed, Spread, Timing};
use crate::{BenchError, Measurement, Progress, launches};
use clap::{Args, Command};
use moebius::moe::Keep;
use moebius_device::Device;
use moebius_shaders::grouped_gemm::Variant;

/// Verifies and measures one task, with the same functions that `moebius bench` calls; `progress` is called with each
/// step.
///
/// # Errors
/// [`BenchError`] when the device lacks what is measured, refuses or fails.
pub fn measure(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    match task.benchmark {
        Benchmark::Launches => of_launches(task, progress),
        Benchmark::GroupedGemm => of_kernels(task, progress),
        Benchmark::Moe => of_layer(task, progress),
        Benchmark::MoeBackward => of_layer_backward(task, progress),
        Benchmark::Attention => of_attention(task, false, progress),
        Benchmark::AttentionBackward => of_attention(task, true, progress),
        Benchmark::Linear => of_linear(task, progress),
        Benchmark::Decode => of_decode(task, progress),
        #[cfg(feature = "flex")]
        Benchmark::TrainingStep => of_training(task, progress),
        #[cfg(feature = "xla")]
        Benchmark::XlaCall => of_calls(task, progress),
    }
}

/// A benchmark on the device of `task`, from options in the form that `moebius bench` reads.
fn asked<B: Args>(task: &Task, options: &str) -> B {
    let line = format!("{options} --device {}", task.device);
    let command = B::augment_args(Command::new("bench").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace());
    match matches.and_then(|matches| B::from_arg_matches(&matches)) {
        Ok(bench) => bench,
        Err(error) => unreachable!("{line} is understood: {error}"),
    }
}

/// Figures from a median in milliseconds and a rate.
fn figures(median_ms: f64, spread: Option<Spread>, rate: (f64, &'static str)) -> Figures {
    let (value, unit) = rate;
    Figures {
        median_ms,
        spread,
        rate: Rate { value, unit },
    }
}

/// Figures from the time of repetitions that each do `count` units of work.
fn timed(time: Timing, (count, unit): (usize, &'static str)) -> Figures {
    let rate = (count as f64 / time.seconds, unit);
    figures(time.ms(), Some(time.spread()), rate)
}

/// Figures from a time and GFLOP/s.
fn gflops(speed: &Speed) -> Figures {
    let rate = (speed.gflops, "GFLOP/s");
    figures(speed.median_ms, Some(speed.spread), rate)
}

/// The row of one result.
fn row(sizes: String, result: Measurement) -> Row {
    let variant = result.ran.variant.unwrap_or_default();
    Row::new(sizes, variant, result.checked, gflops(&result.speed))
}

fn of_launches(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let counts: &[usize] = if task.full { &[8, 32, 64, 256] } else { &[64] };
    let report = launches::run(&task.device, counts, progress)?;
    let additions = report.additions.iter().map(|sum| {
        let variant = match sum.pace {
            None => "in a row".to_owned(),
            Some(pace) => format!("the host waits after every {pace}"),
        };
        let sizes = format!("{} additions to a number", sum.count);
        let figures = timed(sum.time, (sum.count, "additions/s"));
        Row::new(sizes, variant, sum.checked, figures)
    });
    let figures = timed(report.byte.time, (1, "bytes/s"));
    let byte = Row::new("1 byte", "the byte model", report.byte.checked, figures);
    Ok(additions.chain([byte]).collect())
}

fn of_kernels(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let device = &task.device;
    progress("kernels of single products");
    let small = [256, 4, 256, 256];
    if !task.full {
        return Ok(kernels(small, gradients(device, small)?));
    }
    // A software adapter would take minutes for gradients of the sizes of the main job.
    let (tiled, large): (&[Variant], _) = match device {
        Device::Cpu => (
            &[Variant::Cpu],
            [[8192, 8, 2048, 512], [8192, 8, 4096, 1024]],
        ),
        _ => (
            &[Variant::Unit, Variant::Gemv],
            [[1024, 4, 256, 256], [512, 8, 512, 512]],
        ),
    };
    let mut rows = Vec::new();
    for sizes in [[1024, 4, 256, 256], [512, 8, 512, 512], [16, 8, 512, 512]] {
        rows.extend(kernels(sizes, variants(device, tiled, sizes)?));
    }
    for sizes in large {
        rows.extend(kernels(sizes, gradients(device, sizes)?));
    }
    Ok(rows)
}

fn kernels(sizes: [usize; 4], times: Vec<KernelTime>) -> Vec<Row> {
    let [slots, experts, m, n] = sizes;
    let rows = times.iter().map(|time| {
        let sizes = format!("{slots} rows, {experts} experts, {n} → {m}");
        Row::new(sizes, time.what, time.checked, gflops(&time.speed))
    });
    rows.collect()
}

/// The layer to measure, and its description in the table.
fn layer(task: &Task) -> (MoeBench, String) {
    let mut bench = MoeBench::standard(512, task.device);
    if !task.full {
        (bench.hidden, bench.batch, bench.seq) = (256, 4, 64);
    }
    let sizes = format!(
        "{} tokens, {} → {}, {} experts, top-{}",
        bench.batch * bench.seq,
        bench.hidden,
        bench.inter(),
        bench.experts,
        bench.top_k,
    );
    (bench, sizes)
}

fn of_layer(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let (bench, sizes) = layer(task);
    let report = moe::run(&bench, progress)?;
    Ok(vec![row(sizes, report.forward)])
}

fn of_layer_backward(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let (bench, sizes) = layer(task);
    // The balance with less memory comes first, since what is left of a larger one would count as its memory.
    let keeps: &[Keep] = if task.full {
        &[Keep::Inputs, Keep::FirstProduct]
    } else {
        &[Keep::FirstProduct]
    };
    let report = backward::run(&bench, keeps, progress)?;
    let variant = report.ran.variant.unwrap_or_default();
    let row = |run: &TrainingRun| {
        let kept = match run.keep {
            Keep::FirstProduct => "keeps the first product",
            Keep::Inputs => "keeps the inputs",
        };
        let variant = format!("{variant}, {kept}");
        Row::new(&*sizes, variant, run.checked, gflops(&run.speed))
    };
    Ok(report.runs.iter().map(row).collect())
}

fn of_attention(task: &Task, backward: bool, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let tokens = if task.full { 2048 } else { 512 };
    let backward = if backward { "--backward" } else { "" };
    let bench: AttentionBench = asked(task, &format!("--tokens {tokens} --causal {backward}"));
    let report = attention::run(&bench, progress)?;
    let (heads, head_dim) = (bench.heads, bench.head_dim);
    let sizes = format!("{tokens} tokens, causal, {heads} heads of {head_dim}");
    Ok(vec![row(sizes, report.ours)])
}

fn of_linear(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    // With few tokens, the time goes to the weights' bytes; with many, to the arithmetic.
    let sizes: &[(usize, usize)] = if task.full {
        &[(1, 4096), (8, 4096), (512, 4096)]
    } else {
        &[(32, 1024)]
    };
    let mut rows = Vec::new();
    for (m, width) in sizes {
        let bench: LinearBench = asked(task, &format!("--m {m} --n {width} --k {width}"));
        let report = linear::run(&bench, progress)?;
        let figures = |path: &PathTime| match m {
            1..=8 => {
                let rate = (path.weights_gb_per_s, "GB/s");
                figures(path.speed.median_ms, Some(path.speed.spread), rate)
            }
            _ => gflops(&path.speed),
        };
        // A wrong result is that of its own row.
        let row = |sizes: String, variant: &str, path: &PathTime| {
            let checked = path.checked.unwrap_or(report.checked);
            Row::new(sizes, variant, checked, figures(path))
        };
        let sizes = format!("{m} tokens, {width} → {width}");
        let variant = report.ran.variant.as_deref().unwrap_or_default();
        rows.push(row(format!("{sizes}, E4M3"), variant, &report.fp8));
        // The first of the float layers is our own, dense.
        let own = report.own.iter().take(1).chain(&report.sparse24);
        for path in own.chain(&report.blocks) {
            rows.push(row(sizes.clone(), &path.name, path));
        }
    }
    Ok(rows)
}

fn of_decode(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    let tokens = if task.full { 32_768 } else { 2048 };
    let bench: DecodeBench = asked(task, &format!("--tokens {tokens}"));
    let report = decode::run(&bench, progress)?;
    let sizes = format!("{tokens} kept tokens, 32 heads of 64, 8 of keys");
    let rows = report.formats.iter().map(|row| {
        let figures = figures(row.median_ms, Some(row.spread), (row.gb_per_s, "GB/s"));
        let variant = format!("kept as {}", row.format);
        Row::new(&*sizes, variant, report.checked, figures)
    });
    Ok(rows.collect())
}

#[cfg(feature = "flex")]
fn of_training(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    use crate::training_step::{Sizes, run};
    let sizes: &[(usize, usize)] = if task.full {
        &[(1, 4), (2, 8)]
    } else {
        &[(1, 4)]
    };
    let mut rows = Vec::new();
    for (layers, batch) in sizes {
        let sizes = Sizes {
            layers: *layers,
            batch: *batch,
            ..Sizes::default()
        };
        let report = run(&task.device, &sizes, task.peer_jax, progress)?;
        let tokens = batch * sizes.seq;
        let text = format!(
            "{tokens} tokens, {layers} blocks of {}, {} weights",
            sizes.hidden, report.parameters
        );
        let (checked, rate) = (report.checked, tokens as f64 * 1e3);
        let figures = |ms: f64| figures(ms, None, (rate / ms, "tokens/s"));
        let ours = figures(report.median_ms);
        rows.push(Row::new(&*text, "Burn's modules", checked, ours));
        if let Some(peer) = report.peer {
            let peers = figures(peer.median_ms);
            rows.push(Row::new(text, peer.name, checked, peers));
        }
    }
    Ok(rows)
}

#[cfg(feature = "xla")]
fn of_calls(task: &Task, progress: Progress) -> Result<Vec<Row>, BenchError> {
    progress("calling a compiled program");
    let report = crate::xla_call::run(&task.device)?;
    let figures = timed(report.time, (1, "calls/s"));
    let sizes = "adds 1 to 4 numbers";
    let row = Row::new(sizes, "a compiled program", report.checked, figures);
    Ok(vec![row])
}
