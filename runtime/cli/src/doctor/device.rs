//! Checks of devices, each runtime in a process of its own, so that a driver that crashes or hangs ends that process alone.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use moebius::discover_on;
use moebius_device::{Capability, Device, Found, OpenError, probe};

use super::check::{Check, State};
use super::fix;
use crate::bundled;
use crate::child::{self, Answer};
use crate::devices::{bytes, features, memory};
use crate::error::CliError;
use crate::process;
use crate::report::Report;
use crate::screen::{Outcome, Screen};

/// The most time for one runtime. The self-test itself is short; compilers may take long over its kernels in a new process.
const LONGEST: Duration = Duration::from_secs(120);

/// Checks a runtime's devices, or one device if its name has an index, in a child process.
///
/// # Errors
/// [`CliError::ReadFile`] when this program can't be started once more.
pub(super) fn ask(device: Device) -> Result<Vec<Check>, CliError> {
    let program = env::current_exe().map_err(CliError::read("this program's path"))?;
    let mut command = Command::new(&program);
    command.args(["doctor", "--here", "--json", "--device"]);
    command.arg(device.to_string());
    let answer = child::run(command, LONGEST).map_err(CliError::read(program.display()))?;
    Ok(read(device, &answer))
}

/// The checks that a child wrote, the last of each name. A child that failed did so in its last check if that is a failure, else beside all
/// of them.
fn read(device: Device, answer: &Answer) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    // Drivers write to standard output, too.
    let lines = answer.output.lines();
    for check in lines.filter_map(|line| serde_json::from_str::<Check>(line).ok()) {
        checks.retain(|earlier| earlier.name != check.name);
        checks.push(check);
    }
    let last = checks.pop_if(|last| answer.failure.is_some() && last.state == State::Failed);
    match (&answer.failure, last) {
        (Some(failure), Some(last)) => {
            let found = format!("{}: {failure}", last.found);
            checks.push(Check { found, ..last });
        }
        (Some(failure), None) => {
            let found = format!("the process that asked its driver ended: {failure}");
            checks.push(failed(device, found));
        }
        (None, _) => {}
    }
    checks
}

/// Checks a runtime's devices, or one device if its name has an index, in this process, and writes each check as JSON on a line.
pub(super) fn here(device: Device, screen: &mut Screen) -> Result<Outcome, CliError> {
    let found = match device.index() {
        Some(_) => vec![Found {
            device,
            status: probe(&device),
        }],
        None => discover_on(&device),
    };
    for Found { device, status } in found {
        let check = match status {
            Err(error) => refused(device, &error),
            Ok(capability) => {
                // This stands if the driver ends the process; the result takes its place.
                let begun = "the self-test ended its process";
                screen.object(&failed(device, begun.to_owned()))?;
                tested(device, &capability)
            }
        };
        screen.object(&check)?;
    }
    Ok(Outcome::Good)
}

/// The check of a device that can't be used.
fn refused(device: Device, error: &OpenError) -> Check {
    let state = match error {
        OpenError::NotBuilt { .. }
        | OpenError::NoDriver { .. }
        | OpenError::NoSuchDevice { .. } => State::Missing,
        OpenError::Unfit { .. } => State::Warning,
        _ => State::Failed,
    };
    Check::new(device, state, error.to_string()).with_fix(fix::of(device, error))
}

/// The check of a device that is installed and doesn't work.
fn failed(device: Device, found: String) -> Check {
    Check::new(device, State::Failed, found).with_fix(fix::repair(device))
}

/// Opens a device and runs the self-test on it.
fn tested(device: Device, capability: &Capability) -> Check {
    let begun = Instant::now();
    let result = self_test(device);
    let seconds = begun.elapsed().as_secs_f64();
    // Results after a lost launch come from memory that was never written.
    let lost = process::lost().map(|text| CliError::Launch(text).to_string());
    let described = described(capability);
    match lost.map_or(result, Err) {
        Ok(()) => {
            let found = format!("{described}; self-test passed in {seconds:.1} s");
            Check::new(device, State::Ok, found)
        }
        Err(reason) => failed(device, format!("{described}; self-test: {reason}")),
    }
}

/// Runs the cases of the self-test. The error says why the device can't be opened, or which case doesn't pass.
fn self_test(device: Device) -> Result<(), String> {
    let opened = moebius::open(&device).map_err(|error| error.to_string())?;
    let cases = bundled::self_test();
    let report = Report::run((device, &opened), cases, &ProgressBar::hidden());
    report.first_problem().map_or(Ok(()), Err)
}

/// A device's name, driver, memory, and the limits that decide what fits.
fn described(capability: &Capability) -> String {
    let mut parts = vec![capability.name.clone()];
    parts.extend(capability.driver.clone());
    parts.extend(capability.memory.map(|_| memory(capability)));
    let limits = capability.limits;
    if limits.max_binding_bytes < u64::MAX {
        let most = bytes(limits.max_binding_bytes);
        parts.push(format!("buffers up to {most}"));
    }
    if limits.max_shared_memory > 0 {
        let most = bytes(limits.max_shared_memory as u64);
        parts.push(format!("{most} of workgroup memory"));
    }
    parts.push(features(capability));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(checks: &[Check], failure: Option<&str>) -> Answer {
        let lines = checks
            .iter()
            .map(|check| serde_json::to_string(check).unwrap());
        let lines: Vec<_> = [String::from("a driver's noise")]
            .into_iter()
            .chain(lines)
            .collect();
        Answer {
            output: lines.join("\n"),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn a_check_takes_the_place_of_what_stands_for_a_crash() {
        let device = Device::Wgpu(Some(1));
        let begun = failed(device, "it ended".to_owned());
        let good = Check::new(device, State::Ok, "it works");
        let first = Check::new(Device::Wgpu(Some(0)), State::Ok, "it works");
        let all = [first.clone(), begun.clone(), good.clone()];
        assert_eq!(
            read(device, &answer(&all, None)),
            [first.clone(), good.clone()]
        );
        let crashed = read(device, &answer(&all[..2], Some("signal: 11")));
        assert_eq!(crashed[0], first);
        assert_eq!(crashed[1].found, "it ended: signal: 11");
        assert_eq!(
            (&crashed[1].name, &crashed[1].fix),
            (&begun.name, &begun.fix)
        );
        let late = read(
            Device::Wgpu(None),
            &answer(std::slice::from_ref(&first), Some("signal: 6")),
        );
        assert_eq!((late.len(), &late[0]), (2, &first));
        assert_eq!(
            (late[1].name.as_str(), late[1].state),
            ("wgpu", State::Failed)
        );
        let silent = read(device, &answer(&[], Some("signal: 11")));
        assert_eq!((silent.len(), silent[0].state), (1, State::Failed));
    }
}
