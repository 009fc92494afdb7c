//! The benchmarks: asked for, and shown. Here: `bench moe`.

pub(crate) mod backward;
pub(crate) mod fine;
pub(crate) mod linear;

use anstyle::Style;
use burn::tensor::DType;
use moebius_benches::Peer;
use moebius_benches::moe::{self, MoeBench, MoeReport};
use serde_json::Value;

use crate::args::{BenchDtype, BenchMoeArgs, BenchPeer};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::{BAD, HEADING, Outcome, Screen};
use crate::table::Table;

/// Verifies and measures; `progress` is told what is being done.
pub(crate) fn moe(
    args: &BenchMoeArgs,
    progress: &mut dyn FnMut(&str),
) -> Result<MoeReport, CliError> {
    Ok(moe::run(&bench(args)?, progress)?)
}

/// What the command line asks to measure.
fn bench(args: &BenchMoeArgs) -> Result<MoeBench, CliError> {
    if args.top_k > args.experts {
        let message = format!(
            "--top-k: expected at most {} (--experts), got {}",
            args.experts, args.top_k
        );
        return Err(CliError::Usage {
            message,
            hint: None,
        });
    }
    Ok(MoeBench {
        hidden: args.hidden,
        inter: inter(args)?,
        experts: args.experts,
        top_k: args.top_k,
        batch: args.batch,
        seq: args.seq,
        dtype: dtype(args.dtype),
        gated: args.gated,
        device: args.device,
        peer_torch: args.peer == Some(BenchPeer::Torch),
    })
}

/// A result that did not verify is negative.
fn outcome_of(verified: bool) -> Outcome {
    if verified {
        Outcome::Good
    } else {
        Outcome::Negative
    }
}

/// A result that did not verify is negative.
pub(crate) fn outcome(report: &MoeReport) -> Outcome {
    outcome_of(report.verified)
}

/// The report as JSON; where the result did not verify, everything measured is `null`.
pub(crate) fn figures(report: &MoeReport) -> Result<Value, CliError> {
    const ALWAYS: [&str; 4] = ["device", "variant", "verified", "max_rel_l2"];
    Ok(without_unverified(serde_json::to_value(report)?, &ALWAYS))
}

/// `report` with `null` for all but `always` where its `verified` is false.
fn without_unverified(mut report: Value, always: &[&str]) -> Value {
    if let Value::Object(entries) = &mut report
        && entries.get("verified") == Some(&Value::Bool(false))
    {
        for (key, entry) in entries.iter_mut() {
            if !always.contains(&key.as_str()) {
                *entry = Value::Null;
            }
        }
    }
    report
}

/// Writes the figures; none where the result did not verify.
pub(crate) fn print(
    args: &BenchMoeArgs,
    report: &MoeReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    print_short(args, report, screen)?;
    if !report.verified {
        return Ok(());
    }
    screen.line(&format!(
        "  {}{} needed at least{}",
        report.device_bytes.map_or(String::new(), |held| format!(
            "{} on the device, ",
            bytes(held)
        )),
        bytes(report.floor_bytes),
        match report.launches {
            0 => String::new(),
            launches => format!(" · {launches} launches"),
        },
    ))?;
    stages(report, screen)?;
    report.peer.as_ref().map_or(Ok(()), |p| peer(p, screen))
}

/// Writes what was measured, and how fast it is or that it is wrong.
pub(crate) fn print_short(
    args: &BenchMoeArgs,
    report: &MoeReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let title = format!(
        "MoE {} → {} · {} experts, top-{} · {} · {} ({})",
        args.hidden,
        inter(args)?,
        args.experts,
        args.top_k,
        batch(args),
        report.device,
        report.variant,
    );
    screen.line(&format!("\n{}", screen.paint(HEADING, &title)))?;
    if !report.verified {
        let verdict = screen.paint(BAD, "does not verify");
        return screen.line(&format!(
            "  {verdict}: relative L2 {:.2e}; no figures",
            report.max_rel_l2
        ));
    }
    screen.line(&format!(
        "  {:.2} ms · {:.0} tokens/s · {:.1} GFLOP/s, {:.0} % of the {:.1} measured here · verified to {:.1e}",
        report.median_ms,
        report.tokens_per_s,
        report.gflops,
        100.0 * report.peak_share,
        report.peak_gflops,
        report.max_rel_l2,
    ))
}

/// The batch in a title.
fn batch(args: &BenchMoeArgs) -> String {
    let gated = if args.gated { ", gated" } else { "" };
    let dtype = dtype_name(args.dtype);
    format!("{} × {} tokens · {dtype}{gated}", args.batch, args.seq)
}

fn stages(report: &MoeReport, screen: &mut Screen) -> Result<(), CliError> {
    let mut table = Table::new(&["stage", "ms", "share", ""]).right(&[1, 2]);
    for stage in &report.stages {
        // One block for each 4 %.
        let blocks = (stage.share * 25.0).round().clamp(0.0, 25.0) as usize;
        let cells = [
            stage.name.clone(),
            format!("{:.3}", stage.median_ms),
            format!("{:.1} %", 100.0 * stage.share),
            "█".repeat(blocks),
        ];
        table.row(cells, Style::new());
    }
    table.print(screen)
}

fn peer(peer: &Peer, screen: &mut Screen) -> Result<(), CliError> {
    screen.line(&format!(
        "  {}: {:.2} ms, {:.1} GFLOP/s; ours runs at {:.2} × its speed",
        peer.name, peer.median_ms, peer.gflops, peer.ratio,
    ))
}

fn inter(args: &BenchMoeArgs) -> Result<usize, CliError> {
    args.inter
        .or_else(|| args.hidden.checked_mul(4))
        .ok_or_else(|| CliError::Usage {
            message: format!("--hidden: {} is too large", args.hidden),
            hint: None,
        })
}

fn dtype(dtype: BenchDtype) -> DType {
    match dtype {
        BenchDtype::F32 => DType::F32,
        BenchDtype::F16 => DType::F16,
        BenchDtype::Bf16 => DType::BF16,
    }
}

fn dtype_name(dtype: BenchDtype) -> &'static str {
    match dtype {
        BenchDtype::F32 => "f32",
        BenchDtype::F16 => "f16",
        BenchDtype::Bf16 => "bf16",
    }
}
