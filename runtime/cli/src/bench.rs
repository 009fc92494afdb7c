//! `moebius bench`.

use crate::args::{BenchArgs, BenchCommand, BenchMoeArgs};
use crate::error::CliError;
use crate::progress::Progress;
use crate::screen::{Outcome, Screen};
use crate::{devices, measure};

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
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
