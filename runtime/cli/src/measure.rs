//! The mixture-of-experts benchmark: asked for, and shown.

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
    let bench = MoeBench {
        hidden: args.hidden,
        inter: inter(args)?,
        experts: args.experts,
        top_k: args.top_k,
        batch: args.batch,
        seq: args.seq,
        dtype: match args.dtype {
            BenchDtype::F32 => DType::F32,
            BenchDtype::F16 => DType::F16,
            BenchDtype::Bf16 => DType::BF16,
        },
        gated: args.gated,
        device: args.device,
        peer_torch: args.peer == Some(BenchPeer::Torch),
    };
    Ok(moe::run(&bench, progress)?)
}

/// A result that did not verify is negative.
pub(crate) fn outcome(report: &MoeReport) -> Outcome {
    if report.verified {
        Outcome::Good
    } else {
        Outcome::Negative
    }
}

/// The report as JSON; where the result did not verify, everything measured is `null`.
pub(crate) fn figures(report: &MoeReport) -> Result<Value, CliError> {
    const ALWAYS: [&str; 4] = ["device", "variant", "verified", "max_rel_l2"];
    let mut value = serde_json::to_value(report)?;
    if let (false, Value::Object(entries)) = (report.verified, &mut value) {
        for (key, entry) in entries.iter_mut() {
            if !ALWAYS.contains(&key.as_str()) {
                *entry = Value::Null;
            }
        }
    }
    Ok(value)
}

/// Writes the figures; none where the result did not verify.
pub(crate) fn print(
    args: &BenchMoeArgs,
    report: &MoeReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let title = format!(
        "MoE {} → {} · {} experts, top-{} · {} × {} tokens · {}{} · {} ({})",
        args.hidden,
        inter(args)?,
        args.experts,
        args.top_k,
        args.batch,
        args.seq,
        dtype_name(args.dtype),
        if args.gated { ", gated" } else { "" },
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
    ))?;
    screen.line(&format!(
        "  {} on the device, {} needed at least · {} launches",
        bytes(report.device_bytes),
        bytes(report.floor_bytes),
        report.launches,
    ))?;
    stages(report, screen)?;
    report.peer.as_ref().map_or(Ok(()), |p| peer(p, screen))
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

fn dtype_name(dtype: BenchDtype) -> &'static str {
    match dtype {
        BenchDtype::F32 => "f32",
        BenchDtype::F16 => "f16",
        BenchDtype::Bf16 => "bf16",
    }
}
