//! `moebius emit`: a kernel's source for a target, without a device.

use crate::args::EmitArgs;
use crate::emit_kernel::{self, Source};
use crate::error::CliError;
use crate::screen::{Outcome, Screen};
use crate::table::Table;
use serde_json::json;
use std::fs;
use std::path::Path;

/// Runs `moebius emit`.
pub(crate) fn run(args: &EmitArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // clap asks for all three unless `--list` is given.
    let (Some(kernel), Some(target), Some(out)) = (&args.kernel, &args.target, &args.out) else {
        return list(screen);
    };
    write(kernel, target, out, screen)
}

fn list(screen: &mut Screen) -> Result<Outcome, CliError> {
    let (kernels, targets) = (emit_kernel::kernels(), emit_kernel::targets());
    let mut table = Table::new(&["kernel"]);
    for kernel in &kernels {
        table.row([kernel.clone()], anstyle::Style::new());
    }
    table.print(screen)?;
    screen.line(&format!("\ntargets: {}", targets.join(", ")))?;
    screen.object(&json!({ "kernels": kernels, "targets": targets }))?;
    Ok(Outcome::Good)
}

fn write(kernel: &str, target: &str, out: &Path, screen: &mut Screen) -> Result<Outcome, CliError> {
    let Source { bytes, extension } = emit_kernel::emit(kernel, target)?;
    // Several targets share an ending (two GPUs, one object format); most are their own.
    let path = if extension == target {
        out.join(format!("{kernel}.{extension}"))
    } else {
        out.join(format!("{kernel}.{target}.{extension}"))
    };
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| CliError::WriteFile { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    fs::write(&path, &bytes).map_err(failed(&path))?;
    let shown = path.display().to_string();
    screen.line(&format!("{shown}  {} bytes", bytes.len()))?;
    screen.object(
        &json!({ "kernel": kernel, "target": target, "file": shown, "bytes": bytes.len() }),
    )?;
    Ok(Outcome::Good)
}
