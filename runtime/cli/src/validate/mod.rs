//! `moebius validate`: certificates that devices give the same answer, and the first part of a model that differs.

mod compare;
mod model;
mod pages;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anstyle::Style;
use burn::tensor::Device as BurnDevice;
use moebius::discover;
use moebius_device::{Device, probe};
use moebius_model::computation::Limits;

use crate::args::{AnswerArgs, Devices, ValidateArgs, ValidateCommand, ValidateMergeArgs};
use crate::bundled;
use crate::certificate::{Certificate, Found, Machine, Subject, Tested, Verdict};
use crate::devices::system;
use crate::error::CliError;
use crate::report::Report;
use crate::resolve::resolve;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};
use model::Work;

/// Runs `moebius validate`.
pub(crate) fn run(args: &ValidateArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        Some(ValidateCommand::Merge(merge)) => merged(merge, screen),
        Some(ValidateCommand::Compare(compare)) => compare::run(compare, screen),
        None => {
            let certificate = if args.of.model.is_some() || args.of.bundled {
                of_model(&args.of, screen)?
            } else {
                of_cases(&args.of, screen)?
            };
            finish(&certificate, args.out.as_deref(), screen)
        }
    }
}

/// Certifies the devices by the bundled cases.
fn of_cases(args: &AnswerArgs, screen: &Screen) -> Result<Certificate, CliError> {
    if args.tokens.is_some() {
        let message = "--tokens without a model has no effect";
        let hint = "--model names a model, --bundled takes the one inside this program";
        return Err(CliError::usage(message, Some(hint)));
    }
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in moebius_case_files::FILES {
        hasher.update(name.as_bytes()).update(bytes);
    }
    let hash = hasher.finalize().to_hex().to_string();
    let mut check = |name: Device, device: &BurnDevice| -> Result<Checked, CliError> {
        let cases = bundled::cases_on(device);
        let bar = screen.steps("cases", cases.len());
        let begun = Instant::now();
        let report = Report::run((name, device), cases.into_iter(), &bar);
        let found = Found::Cases {
            passed: report.passed,
            failed: report.failed,
            errors: report.errors,
            problem: report.first_problem(),
        };
        Ok((found, begun.elapsed().as_secs_f64(), None))
    };
    let devices = named(&args.devices, screen)?.into_iter();
    let devices = devices.map(|device| tested(device, &mut check)).collect();
    let subject = Subject::Cases { hash };
    Ok(Certificate::new(subject, Limits::default(), devices))
}

/// Certifies the devices by what a model computes.
fn of_model(args: &AnswerArgs, screen: &Screen) -> Result<Certificate, CliError> {
    let devices = named(&args.devices, screen)?;
    let work = Work::read(args)?;
    let limits = Limits::default();
    let (reference, hash) = work.reference(screen)?;
    let mut check = |_: Device, device: &BurnDevice| -> Result<Checked, CliError> {
        let timed = work.compute(device, screen)?;
        let found = model::found(&reference, &timed.computation, limits)?;
        Ok((found, timed.seconds, timed.memory_bytes))
    };
    let devices = devices.into_iter();
    let devices = devices.map(|device| tested(device, &mut check)).collect();
    Ok(Certificate::new(work.subject(hash), limits, devices))
}

/// The devices that are asked for.
fn named(devices: &Devices, screen: &Screen) -> Result<Vec<Device>, CliError> {
    match devices {
        Devices::All => {
            let found = discover().into_iter();
            let here = found.filter(|found| found.status.is_ok());
            Ok(here.map(|found| found.device).collect())
        }
        Devices::Named(named) => named
            .iter()
            .map(|device| match device {
                Device::Auto => resolve(Device::Auto, screen),
                named => Ok(*named),
            })
            .collect(),
    }
}

/// What a device computed, the seconds that it took, and the bytes in use on the device, where known.
type Checked = (Found, f64, Option<u64>);

/// Function that has an open device compute.
type Check<'a> = dyn FnMut(Device, &BurnDevice) -> Result<Checked, CliError> + 'a;

/// Opens a device and checks it with `check`, which also tells the seconds of the computation and the bytes in use on the device. An error is
/// that of the device alone, so that the others are checked all the same.
fn tested(name: Device, check: &mut Check<'_>) -> Tested {
    let capability = probe(&name).ok();
    let checked = moebius::open(&name).map_err(CliError::from);
    let checked = checked.and_then(|device| check(name, &device));
    let (found, seconds, memory_bytes) = match checked {
        Ok((found, seconds, memory_bytes)) => (found, Some(seconds), memory_bytes),
        Err(error) => (Found::Error(error.to_string()), None, None),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Tested {
        device: name.to_string(),
        adapter: capability.as_ref().map(|of| of.name.clone()),
        driver: capability.and_then(|of| of.driver),
        machine: Machine {
            system: system(),
            processors: processors as u64,
        },
        seconds,
        memory_bytes,
        verdict: found.verdict(),
        found,
    }
}

/// Runs `moebius validate merge`.
fn merged(args: &ValidateMergeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let mut all: Option<Certificate> = None;
    for file in &args.files {
        let path = file.display().to_string();
        let bytes = fs::read(file).map_err(CliError::read(&path))?;
        let read = Certificate::parse(&path, &bytes)?;
        all = Some(match all {
            None => read,
            Some(all) => all.with(read, &path)?,
        });
    }
    let all = all.ok_or_else(|| CliError::usage("expected certificates to unite", None))?;
    finish(&all, args.out.as_deref(), screen)
}

/// Writes a certificate's files, and shows its table and its verdict.
fn finish(
    certificate: &Certificate,
    out: Option<&Path>,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    if certificate.devices.is_empty() {
        let hint = "`moebius devices` shows what can be used here, and why the rest cannot";
        return Err(CliError::usage("no device to validate", Some(hint)));
    }
    if let Some(folder) = out {
        fs::create_dir_all(folder).map_err(CliError::write(folder.display()))?;
        let json = serde_json::to_string_pretty(certificate)? + "\n";
        for (name, text) in [
            ("report.json", json),
            ("report.md", pages::markdown(certificate)),
            ("report.html", pages::html(certificate)),
        ] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(CliError::write(path.display()))?;
        }
    }
    let mut table = Table::new(pages::HEADINGS);
    for tested in &certificate.devices {
        table.row(pages::cells(tested), style(tested.verdict));
    }
    table.print(screen)?;
    let outcome = certificate
        .devices
        .iter()
        .map(|tested| outcome(tested.verdict));
    let outcome = outcome.max().unwrap_or(Outcome::Incomplete);
    let painted = if outcome == Outcome::Good { GOOD } else { BAD };
    let said = screen.paint(painted, &pages::verdict(certificate));
    screen.line(&format!("\n{said}"))?;
    if let Some(folder) = out {
        let folder = folder.display();
        screen.line(&format!("{folder}: report.json, report.md, report.html"))?;
    }
    screen.object(certificate)?;
    Ok(outcome)
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Same => GOOD,
        Verdict::Apart | Verdict::Undecided | Verdict::Failed => BAD,
    }
}

/// How the command ends where a device has this verdict.
fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Same => Outcome::Good,
        Verdict::Apart => Outcome::Negative,
        Verdict::Undecided | Verdict::Failed => Outcome::Incomplete,
    }
}
