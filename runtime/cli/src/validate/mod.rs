//! `moebius validate`: certificates that devices give the same answer, and the first part of a model that differs.

mod cases;
mod charts;
mod compare;
mod emulated;
mod model;
mod pages;
mod programs;
mod reference;
mod training;
mod values;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anstyle::Style;
use burn::tensor::Device as BurnDevice;
use moebius::discover;
use moebius_device::{Device, OpenError, probe};
use moebius_model::computation::{Computation, Limits};

use crate::args::{Devices, ValidateArgs, ValidateCommand, ValidateMergeArgs};
use crate::certificate::{
    Absent, Certificate, Done, Found, Machine, OfModel, Section, Subject, Tested, Verdict,
};
use crate::devices::system;
use crate::error::CliError;
use crate::process;
use crate::resolve::resolve;
use crate::screen::{BAD, DIM, GOOD, Outcome, Screen, Table};
use cases::Cases;
use emulated::Drivers;
use model::Work;

/// How a model is named, for a line that needs one.
const MODELS: &str = "--model names a model, --bundled takes the one inside this program";

/// Runs `moebius validate`.
pub(crate) fn run(args: &ValidateArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        Some(ValidateCommand::Merge(merge)) => merged(merge, screen),
        Some(ValidateCommand::Compare(compare)) => compare::run(compare, screen),
        Some(ValidateCommand::Reference(reference)) => reference::run(reference, screen),
        None => {
            let certificate = certified(args, screen)?;
            let out = args.out.as_deref().filter(|_| !args.here);
            finish(&certificate, out, screen)
        }
    }
}

/// Certifies the devices, and cards in software where they are asked for.
fn certified(args: &ValidateArgs, screen: &Screen) -> Result<Certificate, CliError> {
    let parts = asked(args)?;
    // Before anything else, so that drivers that are missing are an error before the work.
    let emulated = args.emulated.as_deref().filter(|_| !args.here);
    let drivers = emulated.map(Drivers::find).transpose()?;
    let (devices, absent) = named(&args.of.devices, screen)?;
    let plan = Plan::new(args, parts, screen)?;
    let devices = devices.into_iter();
    let devices = devices.map(|device| tested(device, &plan, screen));
    let devices = devices.collect();
    let certificate = Certificate::new(plan.subject(), plan.limits, absent, devices);
    match drivers {
        Some(drivers) => drivers.certify(args, certificate, screen),
        None => Ok(certificate),
    }
}

/// The parts that are asked for, in their order.
///
/// # Errors
/// [`CliError::Usage`] for options without the part that they are of, and for the part of a model without one.
fn asked(args: &ValidateArgs) -> Result<Vec<Section>, CliError> {
    let of = &args.of;
    let has_model = of.model.is_some() || of.bundled;
    let mut parts = match &args.parts[..] {
        [] if has_model => vec![Section::Model, Section::Cases],
        [] => vec![Section::Cases],
        parts => parts.to_vec(),
    };
    parts.sort();
    parts.dedup();
    let wants_model = parts.contains(&Section::Model);
    let trains = parts.contains(&Section::Training);
    let (message, hint) = if trains && !wants_model {
        let hint = "add `model` to --parts, which says what model and text it is";
        ("--parts training without the part `model`", hint)
    } else if trains && of.exact {
        let hint = "leave --exact or `training` out";
        ("a model that is computed exactly does not train", hint)
    } else if wants_model && !has_model {
        (
            "--parts model without a model has nothing to compare",
            MODELS,
        )
    } else if has_model && !wants_model {
        let hint = "add `model` to --parts, or leave the model out";
        ("a model has no effect without its part", hint)
    } else if of.tokens.is_some() && !has_model {
        ("--tokens without a model has no effect", MODELS)
    } else if of.exact && !has_model {
        ("--exact without a model has no effect", MODELS)
    } else if args.cases.is_some() && !parts.contains(&Section::Cases) {
        let hint = "add `cases` to --parts";
        ("--cases has no effect without its part", hint)
    } else if args.emulated.is_some() && parts == [Section::Bench] {
        let hint = "add another part to --parts";
        ("--emulated has no effect on benchmarks alone", hint)
    } else {
        return Ok(parts);
    };
    Err(CliError::usage(message, Some(hint)))
}

/// What each device is asked for.
struct Plan {
    parts: Vec<Section>,
    limits: Limits,
    model: Option<Model>,
    cases: Option<Cases>,
}

/// A model, and what it computes in f64.
struct Model {
    work: Work,
    reference: Computation,
    subject: OfModel,
}

/// What a device computed, the seconds of it, where they aren't those of the whole part, and the bytes in use on the device, where known.
type Checked = (Found, Option<f64>, Option<u64>);

impl Plan {
    fn new(args: &ValidateArgs, parts: Vec<Section>, screen: &Screen) -> Result<Self, CliError> {
        let wants = |section: Section| parts.contains(&section).then_some(());
        let cases = wants(Section::Cases).map(|()| Cases::read(args.cases.as_deref()));
        let cases = cases.transpose()?;
        let model = wants(Section::Model).map(|()| Model::read(args, screen));
        let model = model.transpose()?;
        Ok(Self {
            parts,
            limits: Limits::default(),
            model,
            cases,
        })
    }

    fn subject(&self) -> Subject {
        let names = |section: Section, names: fn() -> Vec<String>| {
            let wants = self.parts.contains(&section);
            wants.then(names).unwrap_or_default()
        };
        Subject {
            model: self.model.as_ref().map(|of| of.subject.clone()),
            cases: self.cases.as_ref().map(|of| of.subject.clone()),
            training: self.parts.contains(&Section::Training),
            demos: names(Section::Demos, programs::demo_names),
            benchmarks: names(Section::Bench, programs::benchmark_names),
        }
    }

    /// Has a device compute one part.
    fn check(
        &self,
        part: Section,
        (name, device): (Device, &BurnDevice),
        screen: &Screen,
    ) -> Result<Checked, CliError> {
        let found = match (part, &self.model, &self.cases) {
            (Section::Model, Some(model), _) => return model.check(device, self.limits, screen),
            (Section::Training, Some(model), _) => {
                training::check(&model.work, name, device, screen)?
            }
            (Section::Cases, _, Some(cases)) => cases.run((name, device), screen),
            (Section::Model | Section::Training, None, _) => {
                unreachable!("the parts of a model have one")
            }
            (Section::Cases, _, None) => unreachable!("the part of cases has some"),
            (Section::Demos, ..) => programs::run_demos(device, screen),
            (Section::Bench, ..) => programs::run_benchmarks(name, screen),
        };
        Ok((found, None, None))
    }

    /// Has a device compute one part. An error is that of the part alone, so that others are computed all the same.
    fn done(&self, part: Section, device: (Device, &BurnDevice), screen: &Screen) -> Done {
        let begun = Instant::now();
        let checked = self.check(part, device, screen);
        // Results after a lost launch come from memory that was never written.
        let lost = process::lost().map(CliError::Launch);
        let (found, seconds, memory_bytes) = match lost.map_or(checked, Err) {
            Ok((found, seconds, memory)) => {
                let seconds = seconds.unwrap_or_else(|| begun.elapsed().as_secs_f64());
                (found, Some(seconds), memory)
            }
            Err(error) => (Found::Error(error.to_string()), None, None),
        };
        Done {
            part,
            seconds,
            memory_bytes,
            verdict: found.verdict(),
            found,
        }
    }
}

impl Model {
    /// Opens the model, and computes its reference.
    fn read(args: &ValidateArgs, screen: &Screen) -> Result<Self, CliError> {
        let work = Work::read(&args.of)?;
        let (reference, hash) = work.reference(screen)?;
        Ok(Self {
            subject: work.subject(hash),
            work,
            reference,
        })
    }

    /// Has a device compute the model.
    fn check(
        &self,
        device: &BurnDevice,
        limits: Limits,
        screen: &Screen,
    ) -> Result<Checked, CliError> {
        let timed = self.work.measure(device, screen)?;
        let computed = (&timed.computation, timed.costs);
        let found = model::found(&self.reference, computed, limits)?;
        Ok((found, Some(timed.seconds), timed.memory_bytes))
    }
}

/// The devices that are asked for, and those that this machine lacks where all are.
fn named(devices: &Devices, screen: &Screen) -> Result<(Vec<Device>, Vec<Absent>), CliError> {
    let named = match devices {
        Devices::Named(named) => named,
        Devices::All => {
            let mut here = Vec::new();
            let mut absent = Vec::new();
            for found in discover() {
                match found.status {
                    // A driver that fails is told when its device can't be opened.
                    Ok(_) | Err(OpenError::Failed { .. }) => here.push(found.device),
                    Err(reason) => absent.push(Absent {
                        device: found.device.to_string(),
                        machine: machine(),
                        reason: reason.to_string(),
                    }),
                }
            }
            return Ok((here, absent));
        }
    };
    let named = named.iter().map(|device| match device {
        Device::Auto => resolve(Device::Auto, screen),
        named => Ok(*named),
    });
    Ok((named.collect::<Result<_, _>>()?, Vec::new()))
}

/// This machine.
fn machine() -> Machine {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Machine {
        system: system(),
        processors: processors as u64,
    }
}

/// Opens a device and has it compute each part. An error is that of the device alone, so that the others are checked all the same.
fn tested(name: Device, plan: &Plan, screen: &Screen) -> Tested {
    let capability = probe(&name).ok();
    let (error, parts) = match moebius::open(&name) {
        Err(error) => (Some(error.to_string()), Vec::new()),
        Ok(device) => {
            let parts = plan.parts.iter();
            let parts = parts.map(|part| plan.done(*part, (name, &device), screen));
            (None, parts.collect())
        }
    };
    let tested = Tested {
        device: name.to_string(),
        adapter: capability.as_ref().map(|of| of.name.clone()),
        driver: capability.and_then(|of| of.driver),
        machine: machine(),
        emulated: false,
        verdict: Verdict::Failed,
        error,
        parts,
    };
    tested.judged()
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
        write(certificate, folder)?;
    }
    let mut table = Table::new(pages::HEADINGS);
    for tested in &certificate.devices {
        for (cells, verdict) in pages::rows(tested) {
            table.row(cells, style(verdict));
        }
    }
    table.print(screen)?;
    screen.line("")?;
    for said in pages::outside(certificate) {
        let said = screen.paint(DIM, &said);
        screen.line(&said)?;
    }
    let outcomes = certificate.devices.iter();
    let outcomes = outcomes.map(|tested| outcome(tested.verdict));
    let outcome = outcomes.max().unwrap_or(Outcome::Incomplete);
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

/// Writes a certificate's files into a folder, which is made where it is missing.
fn write(certificate: &Certificate, folder: &Path) -> Result<(), CliError> {
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
    Ok(())
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
