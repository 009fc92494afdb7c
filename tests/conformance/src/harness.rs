//! Runs the cases of a program on the devices that it is asked for, and leaves a record.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use moebius::{Error, ErrorKind};
use moebius_tests::record::{self, End, Line};
use moebius_tests::target::Target;

use crate::expect;

/// What became of a case that didn't fail.
#[must_use]
pub(crate) enum Outcome {
    /// It ran and its checks held.
    Ran,
    /// The device refused it with this error.
    Unsupported(String),
}

impl Outcome {
    /// The first refusal of several runs, or that all of them ran.
    pub(crate) fn of(runs: impl IntoIterator<Item = Outcome>) -> Outcome {
        let mut runs = runs.into_iter();
        runs.find(|run| matches!(run, Outcome::Unsupported(_)))
            .unwrap_or(Outcome::Ran)
    }
}

/// A case that no device refuses.
impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Ran
    }
}

/// A case that a device may refuse as unsupported; any other error is a failure.
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

/// Asserts that the library refused something with an error of this kind, and gives what the error says.
#[track_caller]
pub(crate) fn assert_refused<T>(kind: ErrorKind, result: Result<T, Error>) -> String {
    let Err(error) = result else {
        panic!("expected an error, {kind:?}");
    };
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// A case, by its name.
#[derive(Clone, Copy)]
pub struct Case {
    pub(crate) name: &'static str,
    pub(crate) check: fn(&Target) -> Outcome,
}

/// The cases of modules, named after both. A case is the function of its name, or `name = function(argument)`: a function that
/// several cases share, and what it is given after the target.
macro_rules! cases {
    (@check $module:ident $case:ident) => {
        |target| $crate::harness::Outcome::from($crate::$module::$case(target))
    };
    (@check $module:ident $case:ident $function:ident $argument:expr) => {
        |target| $crate::harness::Outcome::from($crate::$module::$function(target, $argument))
    };
    ($($module:ident: $($case:ident $(= $function:ident($argument:expr))?),+;)+) => {
        &[$($($crate::harness::Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            check: $crate::harness::cases!(@check $module $case $($function $argument)?),
        }),+),+]
    };
}

pub(crate) use cases;

/// The device that refuses for all.
const REFUSES: &str = "cpu";

/// The cases that launch kernels without comparing what they write with a reference.
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

/// Whether this run wants a case on a device: those of all families (on XLA, of all but one), or of those that
/// `MOEBIUS_TEST_FAMILIES` lists, or cases that it lists by name; what is refused before there is a launch is refused alike everywhere.
fn wanted(name: &str, target: &Target) -> bool {
    if name.contains("::refuses_") && target.name != REFUSES {
        return false;
    }
    let family = name.split("::").next();
    let Ok(families) = std::env::var("MOEBIUS_TEST_FAMILIES") else {
        // XLA compiles a program for each problem. Of these families `xla_operations` compares as many through
        // the same lowering; what is left of attention's shows that calls, gradients and halves get there.
        let through_the_seam = [
            "heads",
            "through_lse",
            "f16",
            "parts",
            "positions",
            "masks",
            "dropout_repeats",
            "own_rule",
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

/// Runs a case and leaves its line in the record, if one is kept.
fn record_of(case: Case, target: &Target) -> Result<(), Failed> {
    record::forget();
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

/// The main function of a program with these cases.
pub fn run(cases: &'static [Case]) {
    let mut arguments = Arguments::from_args();
    // Devices are shared; one case at a time keeps memory figures and panics apart.
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
    // A driver that still works while the process ends may crash it (SwiftShader).
    for target in Target::all() {
        if let Err(error) = target.sync() {
            eprintln!("{} doesn't come to an end: {error}", target.name);
        }
    }
    conclusion.exit();
}
