//! `moebius emit`: writes a kernel's source for a target, without a device.

use crate::args::EmitArgs;
use crate::error::CliError;
use crate::screen::{Outcome, Screen, Table};
use moebius_shaders::emit::{self, Artifact, KernelEntry, Target};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Runs `moebius emit`.
pub(crate) fn run(args: &EmitArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // clap requires all three options unless `--list` is given.
    match (&args.kernel, &args.target, &args.out) {
        (Some(kernel), Some(target), Some(out)) => write(kernel, target, out, screen)?,
        _ => list(screen)?,
    }
    Ok(Outcome::Good)
}

fn kernels() -> Vec<String> {
    let kernels = moebius_shaders::kernels().into_iter();
    kernels.map(|kernel| kernel.name.to_string()).collect()
}

fn list(screen: &mut Screen) -> Result<(), CliError> {
    let (kernels, targets) = (kernels(), Target::ALL.map(Target::name));
    let mut table = Table::new("kernel");
    for kernel in &kernels {
        table.row([kernel.clone()], anstyle::Style::new());
    }
    table.print(screen)?;
    screen.line(&format!("\ntargets: {}", targets.join(", ")))?;
    let entries = moebius_shaders::kernels();
    let entries: Vec<Value> = entries.iter().map(described).collect();
    screen.object(&json!({ "kernels": kernels, "targets": targets, "entries": entries }))
}

/// What the list tells of a kernel: its `name`, `family` and `variant`, its `element` (`null` for kernels of words and f32 only), the
/// oldest CUDA architecture that has its instructions, `sm`, and whether plans choose it by themselves, `proven`.
fn described(entry: &KernelEntry) -> Value {
    json!({
        "name": entry.name,
        "family": entry.family,
        "variant": entry.variant,
        "element": entry.element.map(|element| element.to_string()),
        "sm": entry.sm,
        "proven": entry.proven,
    })
}

fn write(kernel: &str, target: &str, out: &Path, screen: &mut Screen) -> Result<(), CliError> {
    let Artifact {
        bytes, extension, ..
    } = compiled(kernel, target)?;
    // Several targets share an extension (two GPUs with one object format); for most, the extension is the target's
    // name.
    let path = if extension == target {
        out.join(format!("{kernel}.{extension}"))
    } else {
        out.join(format!("{kernel}.{target}.{extension}"))
    };
    fs::create_dir_all(out).map_err(CliError::write(out.display()))?;
    fs::write(&path, &bytes).map_err(CliError::write(path.display()))?;
    let shown = path.display().to_string();
    screen.line(&format!("{shown}  {} bytes", bytes.len()))?;
    screen
        .object(&json!({ "kernel": kernel, "target": target, "file": shown, "bytes": bytes.len() }))
}

fn compiled(kernel: &str, target: &str) -> Result<Artifact, CliError> {
    let parsed = target.parse::<Target>();
    let parsed = parsed.map_err(|_| unknown("target", target, &Target::ALL.map(Target::name)))?;
    let entries = moebius_shaders::kernels();
    let entry = entries.iter().find(|entry| entry.name == kernel);
    let entry = entry.ok_or_else(|| unknown("kernel", kernel, &kernels()))?;
    emit::emit(entry, parsed).map_err(|e| CliError::Emit(format!("{kernel} for {target}: {e}")))
}

fn unknown(what: &str, got: &str, known: &[impl AsRef<str>]) -> CliError {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let hint = format!("known: {}", known.join(", "));
    CliError::usage(format!("unknown {what} `{got}`"), Some(&hint))
}
