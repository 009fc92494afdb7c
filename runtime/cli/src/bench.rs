//! `moebius bench`.

use crate::args::BenchArgs;
use crate::error::CliError;
use crate::screen::{Outcome, Screen};

/// Runs `moebius bench`.
#[cfg(not(feature = "bench"))]
pub(crate) fn run(_args: &BenchArgs, _screen: &mut Screen) -> Result<Outcome, CliError> {
    Err(CliError::NotBuiltIn { feature: "bench" })
}

/// Runs `moebius bench`.
#[cfg(feature = "bench")]
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    use crate::args::{BenchCommand, BenchMoeArgs};
    use crate::{devices, measure, progress::Progress};

    let BenchCommand::Moe(args) = &args.what;
    let args = &BenchMoeArgs {
        device: devices::resolve(args.device)?,
        ..args.clone()
    };
    let progress = Progress::spinner(screen);
    let report = measure::moe(args, &mut |stage| progress.say(stage));
    progress.clear();
    let report = report?;
    measure::print(args, &report, screen)?;
    screen.object(&measure::figures(&report)?)?;
    Ok(measure::outcome(&report))
}
