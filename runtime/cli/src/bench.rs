//! `moebius bench`.

use crate::args::{BenchArgs, BenchCommand, BenchLinearArgs, BenchMoeArgs};
use crate::error::CliError;
use crate::measure;
use crate::measure::{backward, fine, linear};
use crate::progress::Progress;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        BenchCommand::Moe(args) => moe(args, screen),
        BenchCommand::Linear(args) => linear(args, screen),
    }
}

fn linear(args: &BenchLinearArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let args = &BenchLinearArgs {
        device: resolve(args.device, screen)?,
        ..args.clone()
    };
    let report = watched(screen, |say| linear::measure(args, say))?;
    linear::print(args, &report, screen)?;
    screen.object(&linear::figures(&report)?)?;
    Ok(linear::outcome(&report))
}

fn moe(args: &BenchMoeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let args = &BenchMoeArgs {
        device: resolve(args.device, screen)?,
        ..args.clone()
    };
    if args.compare_fine {
        let report = watched(screen, |say| fine::measure(args, say))?;
        fine::print(args, &report, screen)?;
        screen.object(&fine::figures(&report)?)?;
        Ok(fine::outcome(&report))
    } else if args.backward {
        let report = watched(screen, |say| backward::measure(args, say))?;
        backward::print(args, &report, screen)?;
        screen.object(&backward::figures(&report)?)?;
        Ok(backward::outcome(&report))
    } else {
        let report = watched(screen, |say| measure::moe(args, say))?;
        measure::print(args, &report, screen)?;
        screen.object(&measure::figures(&report)?)?;
        Ok(measure::outcome(&report))
    }
}

/// Shows what `measure` says it is doing while it runs.
fn watched<T>(
    screen: &Screen,
    measure: impl FnOnce(&mut dyn FnMut(&str)) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let progress = Progress::spinner(screen);
    let result = measure(&mut |stage| progress.say(stage));
    progress.clear();
    result
}
