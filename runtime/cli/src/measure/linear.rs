//! `bench linear`.

use anstyle::Style;
use moebius::fp8::{Activations, Fp8Format, Granularity};
use moebius_benches::linear::{self, BytesOf, LinearBench, LinearReport, PathTime};
use serde_json::Value;

use super::{dtype, dtype_name, outcome_of, without_unverified};
use crate::args::{BenchActivations, BenchFormat, BenchGranularity, BenchLinearArgs, BenchPeer};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::{BAD, HEADING, Outcome, Screen};
use crate::table::Table;

/// Verifies and measures; `progress` is told what is being done.
pub(crate) fn measure(
    args: &BenchLinearArgs,
    progress: &mut dyn FnMut(&str),
) -> Result<LinearReport, CliError> {
    Ok(linear::run(&bench(args), progress)?)
}

fn bench(args: &BenchLinearArgs) -> LinearBench {
    LinearBench {
        m: args.m,
        n: args.n,
        k: args.k,
        format: match args.format {
            BenchFormat::E4m3 => Fp8Format::E4M3,
            BenchFormat::E5m2 => Fp8Format::E5M2,
        },
        granularity: match args.granularity {
            BenchGranularity::Tensor => Granularity::Tensor,
            BenchGranularity::Row => Granularity::Row,
            BenchGranularity::Block128 => Granularity::Block {
                rows: 128,
                columns: 128,
            },
            BenchGranularity::Mx => Granularity::Mx,
        },
        dtype: dtype(args.dtype),
        activations: match args.activations {
            BenchActivations::Float => Activations::Float,
            BenchActivations::DynamicRow => Activations::Dynamic(Granularity::Row),
        },
        device: args.device,
        peer_torch: args.peer == Some(BenchPeer::Torch),
    }
}

/// A result that did not verify is negative.
pub(crate) fn outcome(report: &LinearReport) -> Outcome {
    outcome_of(report.verified)
}

/// The report as JSON; where the result did not verify, everything measured is `null`.
pub(crate) fn figures(report: &LinearReport) -> Result<Value, CliError> {
    const ALWAYS: [&str; 4] = ["device", "variant", "verified", "max_rel_l2"];
    Ok(without_unverified(serde_json::to_value(report)?, &ALWAYS))
}

/// Writes the figures; none where the result did not verify.
pub(crate) fn print(
    args: &BenchLinearArgs,
    report: &LinearReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let title = format!("{} · {} ({})", subject(args), report.device, report.variant);
    screen.line(&format!("\n{}", screen.paint(HEADING, &title)))?;
    if !report.verified {
        let verdict = screen.paint(BAD, "does not verify");
        return screen.line(&format!(
            "  {verdict}: relative L2 {:.2e}; no figures",
            report.max_rel_l2
        ));
    }
    times(report, screen)?;
    if let Some(ratio) = report.ratio_to_best_own {
        screen.line(&format!(
            "  FP8 runs at {ratio:.2} × the speed of the best float layer of this device"
        ))?;
    }
    screen.line(&format!(
        "  verified to {:.1e} · decoded weights differ from those quantised by {:.2e}",
        report.max_rel_l2, report.weights_rel_l2
    ))?;
    memory(report, screen)
}

fn subject(args: &BenchLinearArgs) -> String {
    let format = match args.format {
        BenchFormat::E4m3 => "e4m3",
        BenchFormat::E5m2 => "e5m2",
    };
    let scales = match args.granularity {
        BenchGranularity::Tensor => "one scale",
        BenchGranularity::Row => "scales per row",
        BenchGranularity::Block128 => "scales per 128 × 128",
        BenchGranularity::Mx => "MX scales",
    };
    let activations = match args.activations {
        BenchActivations::Float => dtype_name(args.dtype).to_owned(),
        BenchActivations::DynamicRow => format!("{} rounded to e4m3", dtype_name(args.dtype)),
    };
    format!(
        "Linear {} → {} · {} tokens · weights {format}, {scales} · activations {activations}",
        args.k, args.n, args.m
    )
}

fn times(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    let headings = ["layer", "time", "GFLOP/s", "weights", "speed of FP8"];
    let mut table = Table::new(&headings).right(&[1, 2, 3, 4]);
    table.row(row(&report.fp8, String::new()), Style::new());
    for path in report.own.iter().chain(&report.peer) {
        let ratio = format!("{:.2} ×", path.ratio);
        table.row(row(path, ratio), Style::new());
    }
    table.print(screen)
}

fn row(path: &PathTime, ratio: String) -> [String; 5] {
    [
        path.name.clone(),
        format!("{:.3} ms", path.median_ms),
        format!("{:.1}", path.gflops),
        format!("{:.2} GB/s", path.weights_gb_per_s),
        ratio,
    ]
}

fn memory(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    let layer = &report.layer_bytes;
    let of = match layer.of {
        BytesOf::Allocator => "measured by the device's allocator",
        BytesOf::Tensors => "sizes of the tensors",
    };
    screen.line(&format!(
        "  layer {}, in f32 {}: {:.3} × ({of})",
        bytes(layer.fp8),
        bytes(layer.f32),
        layer.ratio,
    ))?;
    screen.line(&format!(
        "  at least {} to read and {:.1} MFLOP to compute",
        bytes(report.floor_bytes),
        report.flops as f64 / 1e6,
    ))
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
