//! `moebius doctor`.

mod check;
mod device;
mod fix;
mod house;

use std::io::{self, IsTerminal};

use moebius_device::Device;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::error::CliError;
use crate::screen::{HEADING, Outcome, Screen, Table, one_line};
use check::{Check, State};

/// Everything that was checked; the JSON object of `doctor --json`.
#[derive(Debug, Serialize)]
struct Diagnosis {
    checks: Vec<Check>,
}

/// Runs `moebius doctor`.
pub(crate) fn run(args: &DoctorArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if args.here {
        return device::here(args.device, screen);
    }
    let asked = match args.device {
        Device::Auto => Device::RUNTIMES.to_vec(),
        named => vec![named],
    };
    let bar = screen.steps("devices", asked.len());
    let mut checks = Vec::new();
    // One after the other: some runtimes take most of a card's memory.
    for device in asked {
        bar.set_message(device.to_string());
        checks.extend(device::ask(device)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let any_works = checks.iter().any(|check| check.state == State::Ok);
    checks.extend(house::checks());
    let any_failed = checks.iter().any(|check| check.state == State::Failed);
    let diagnosis = Diagnosis { checks };
    if io::stdout().is_terminal() {
        diagnosis.print_table(screen)?;
    } else {
        diagnosis.print_lines(screen)?;
    }
    screen.object(&diagnosis)?;
    Ok(Outcome::of(any_works && !any_failed))
}

impl Diagnosis {
    /// Writes a table of the checks, and below what to do.
    fn print_table(&self, screen: &mut Screen) -> Result<(), CliError> {
        let mut table = Table::new("state | check | found");
        for check in &self.checks {
            let state = check.state.name().to_owned();
            let cells = [state, check.name.clone(), check.found.clone()];
            table.row(cells, check.state.style());
        }
        table.print(screen)?;
        if self.checks.iter().any(|check| check.fix.is_some()) {
            screen.heading("What to do")?;
        }
        for Check { name, fix, .. } in &self.checks {
            if let Some(fix) = fix {
                let name = screen.paint(HEADING, name);
                screen.line(&format!("{name}: {}", one_line(fix)))?;
            }
        }
        Ok(())
    }

    /// Writes a line for each check.
    fn print_lines(&self, screen: &mut Screen) -> Result<(), CliError> {
        for check in &self.checks {
            let (state, name, found) = (check.state.name(), &check.name, one_line(&check.found));
            let fix = check.fix.as_deref().map(one_line);
            let fix = fix.map_or(String::new(), |fix| format!("; fix: {fix}"));
            screen.line(&format!("{state} {name}: {found}{fix}"))?;
        }
        Ok(())
    }
}
