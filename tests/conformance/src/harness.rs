//! Runs the cases of a program on the requested devices, and writes a record.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use moebius::{Error, ErrorKind};
use moebius_tests::record::{self, End, Line};
use moebius_tests::target::Target;

use crate::expect;

/// The outcome of a case that didn't fail.
#[must_use]
pub enum Outcome {
    /// The case ran and its checks held.
    Ran,
    /// The device refused the case with this error.
    Unsupported(String),
}

impl Outcome {
    /// Combines several runs: the first refusal, or `Ran` if there was none.
    pub(crate) fn of(runs: impl IntoIterator<Item = Outcome>) -> Outcome {
        let mut runs = runs.into_iter();
        runs.find(|run| matches!(run, Outcome::Unsupported(_)))
            .unwrap_or(Outcome::Ran)
    }
}

/// The outcome of a case that no device may refuse.
impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Ran
    }
}

/// The outcome of a case that a device may refuse as unsupported; panics on any other error.
impl From<Result<(), Error>> for Outcome {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Ran,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Self::Unsupported(error.to_string())
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A named case.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    check: fn(&Target) -> Outcome,
}

impl Case {
    /// A case named `module::case`, which a device ran or refused as `check` tells.
    pub const fn new(name: &'static str, check: fn(&Target) -> Outcome) -> Self {
        Self { name, check }
    }
}

/// Lists the cases of modules, each named `module::case`. A case is the function of that name, or `name = function(argument)`,
/// where several cases share a function and pass it this argument after the target.
macro_rules! cases {
    (@check $module:ident $case:ident) => {
        |target| $crate::harness::Outcome::from($crate::$module::$case(target))
    };
    (@check $module:ident $case:ident $function:ident $argument:expr) => {
        |target| $crate::harness::Outcome::from($crate::$module::$function(target, $argument))
    };
    ($($module:ident: $($case:ident $(= $function:ident($argument:expr))?),+;)+) => {
        &[$($($crate::harness::Case::new(
            concat!(stringify!($module), "::", stringify!($case)),
            $crate::harness::cases!(@check $module $case $($function $argument)?),
        )),+),+]
    };
}

pub(crate) use cases;

/// The device that runs the cases of refusals on behalf of all devices.
const REFUSES: &str = "cpu";

/// Whether a case launches kernels without comparing what they write with a reference.
fn compares_nothing(name: &str) -> bool {
    let (_, case) = name.split_once("::").unwrap_or_default();
    let without = [
        "device_memory",
        "appends_in_place",
        "warm_forward_allocates_nothing",
        "launches_are_fixed",
        "training_launches_are_fixed",
        "skips_and_refusals",
    ];
    case.starts_with("refuses_") || without.contains(&case)
}

fn judge(case: Case, target: &Target) -> Result<End, Failed> {
    let refusal = expect::unsupported(case.name, target);
    let outcome = if expect::needs_kernels(case.name) && target.client().is_none() {
        Outcome::Unsupported("no kernels".into())
    } else {
        (case.check)(target)
    };
    let end = match (outcome, refusal) {
        (Outcome::Ran, None) => End::Ran,
        (Outcome::Unsupported(error), Some(_)) => End::Refused(error),
        (Outcome::Ran, Some(reason)) => {
            let advice = "but it runs: update expect.rs";
            return Err(format!("listed as unsupported ({reason}), {advice}").into());
        }
        (Outcome::Unsupported(error), None) => {
            return Err(format!("must run here: {error}").into());
        }
    };
    let launched = record::launched();
    let unnamed = |launch: &&record::Launch| launch.ours() && launch.name.is_none();
    match launched.iter().find(unnamed) {
        Some(launch) => Err(format!("{} is launched without a name", launch.kernel).into()),
        None => Ok(end),
    }
}

/// Whether this run includes a case on a device: by default every case (on XLA, without those compared elsewhere), else those
/// of the families, or the single cases, that `MOEBIUS_TEST_FAMILIES` lists. Cases of refusals before a launch run on one
/// device, because all devices refuse alike.
fn wanted(name: &str, target: &Target) -> bool {
    if name.contains("::refuses_") && target.name != REFUSES {
        return false;
    }
    let family = name.split("::").next();
    let Ok(families) = std::env::var("MOEBIUS_TEST_FAMILIES") else {
        // XLA compiles a program for each problem. `xla_operations` compares problems of these families through the same
        // lowering; the attention cases that remain show that calls, gradients and half precision reach it.
        let through_the_seam = [
            "heads",
            "through_lse",
            "f16",
            "parts",
            "positions",
            "masks",
            "dropout_repeats",
            "own_rule",
            "weights",
        ];
        let case = name.split("::").nth(1).unwrap_or_default();
        let compared_elsewhere = match family {
            Some("quantize") => true,
            Some("attention") => !through_the_seam.contains(&case),
            _ => false,
        };
        return !(target.name.starts_with("xla") && compared_elsewhere);
    };
    let asked = |one: &str| Some(one) == family || one == name;
    families.split(',').any(asked)
}

/// What a case's random weights start from.
const SEED: u64 = 7;

/// Runs a case, with the same random values in every run, and appends its line to the record, if there is one.
fn record_of(case: Case, target: &Target) -> Result<(), Failed> {
    record::forget();
    target.seed(SEED);
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| judge(case, target)));
    if let Some(folder) = record::folder() {
        let capability = target.capability();
        let launched = record::launched();
        let compared = !compares_nothing(case.name);
        let named = launched.iter().filter_map(record::Launch::named);
        let kernels: BTreeSet<(String, String)> = named.filter(|_| compared).collect();
        let line = Line {
            case: case.name.to_owned(),
            device: target.name.to_owned(),
            adapter: format!("{} [{}]", capability.name, capability.kind),
            end: match &result {
                Ok(Ok(end)) => end.clone(),
                _ => End::Failed,
            },
            seconds: started.elapsed().as_secs_f64(),
            launches: launched.len(),
            kernels: kernels.into_iter().collect(),
        };
        record::append(&folder, &line);
    }
    result
        .unwrap_or_else(|panic| resume_unwind(panic))
        .map(drop)
}

/// Runs these cases as the main function of a test program.
pub fn run(cases: &'static [Case]) {
    let mut arguments = Arguments::from_args();
    // One case at a time, because the devices are shared: this keeps memory figures and panics apart.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    record::listen();
    let mut trials = Vec::new();
    for target in Target::all() {
        for case in cases.iter().filter(|case| wanted(case.name, target)) {
            let label = format!("{}[{}]", case.name, target.name);
            trials.push(Trial::test(label, move || record_of(*case, target)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A driver thread that still runs at process exit may crash the process (SwiftShader).
    for target in Target::all() {
        if let Err(error) = target.sync() {
            eprintln!("{} doesn't come to an end: {error}", target.name);
        }
    }
    conclusion.exit();
}
