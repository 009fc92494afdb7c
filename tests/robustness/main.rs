//! Failures that short cases don't show: concurrent threads, failing devices, killed processes, files of earlier versions,
//! thousands of steps, buffers beyond 2³¹ bytes.
//!
//! A case that may end its process, or counts its memory or threads, runs in a process of its own: this program again, with a
//! role (`process.rs`). With `MOEBIUS_TEST_DEEP=1` cases repeat more often, and the large ones run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod endurance;
mod faults;
mod kills;
mod offsets;
mod process;
mod records;
mod threads;
mod worker_counts;

use libtest_mimic::{Arguments, Trial};
use moebius_tests::target::Target;

/// Whether the long versions of the cases run.
fn deep() -> bool {
    std::env::var("MOEBIUS_TEST_DEEP").is_ok_and(|value| value == "1")
}

type OnDevice = fn(&Target);
type Role = fn(&[String]);

/// Lists functions with their names.
macro_rules! named {
    ($($module:ident::$case:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($case)), $module::$case)),*]
    };
}

/// Cases that run once on each device.
const ON_EACH: &[(&str, OnDevice)] = named![
    threads::different_layers,
    threads::one_layer,
    records::trainings_resume,
    records::layers_load,
];

/// Cases that choose their own devices.
const ONCE: &[(&str, fn())] = named![
    threads::devices_side_by_side,
    worker_counts::flex,
    kills::a_finished_checkpoint_survives,
    kills::a_conversion_is_whole_or_absent,
];

/// Cases that need Linux's `taskset`.
const ON_LINUX: &[(&str, fn())] = named![worker_counts::cpu];

/// Cases that need gigabytes of memory.
const DEEP: &[(&str, fn())] = named![
    offsets::weights_on_cpu,
    offsets::weights_on_flex,
    offsets::tokens_on_cpu,
    offsets::tokens_on_flex,
];

/// Cases that run as a child process, which must succeed: the case's name, the child's role and its arguments.
const CHILDREN: &[(&str, &str, &[&str])] = &[
    ("endurance::on_cpu", "endure", &["cpu"]),
    ("endurance::on_wgpu", "endure", &["wgpu"]),
    ("endurance::on_flex", "endure", &["flex"]),
    ("faults::too_large_for_cpu", "too-large", &["cpu"]),
    ("faults::too_large_for_wgpu", "too-large", &["wgpu"]),
    ("faults::a_lost_device", "lost", &[]),
];

/// Child cases that need Linux's `prlimit`.
const CHILDREN_ON_LINUX: &[(&str, &str, &[&str])] = &[
    ("faults::no_memory_left_on_cpu", "no-memory", &["cpu"]),
    ("faults::no_memory_left_on_wgpu", "no-memory", &["wgpu"]),
    ("faults::no_memory_left_for_a_cache", "fill-a-cache", &[]),
];

/// The roles of this program as a child process.
const ROLES: &[(&str, Role)] = &[
    ("bits", worker_counts::print_bits),
    ("too-large", faults::ask_too_much),
    ("no-memory", faults::run_out),
    ("fill-a-cache", faults::fill_a_cache),
    ("lost", faults::lose),
    ("train", kills::train),
    ("convert", kills::convert_once),
    ("endure", endurance::endure),
    ("make-records", records::make),
];

fn main() {
    if let Some((role, arguments)) = process::role() {
        let known = ROLES.iter().find(|(name, _)| *name == role);
        return known.unwrap_or_else(|| panic!("no role {role}")).1(&arguments);
    }
    let mut arguments = Arguments::from_args();
    // One case at a time: they already use both cores, and one case counts the device's memory.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let mut trials = Vec::new();
    for target in Target::all() {
        for (name, case) in ON_EACH {
            let name = format!("{name}[{}]", target.name);
            trials.push(Trial::test(name, move || {
                case(target);
                Ok(())
            }));
        }
    }
    let on_linux = cfg!(target_os = "linux");
    let linux = ON_LINUX.iter().filter(|_| on_linux);
    let deep = DEEP.iter().filter(|_| deep());
    for (name, case) in ONCE.iter().chain(linux).chain(deep) {
        trials.push(Trial::test(*name, || {
            case();
            Ok(())
        }));
    }
    let linux = CHILDREN_ON_LINUX.iter().filter(|_| on_linux);
    for (name, role, arguments) in CHILDREN.iter().chain(linux) {
        trials.push(Trial::test(*name, move || {
            print!("{}", process::output(process::command(role, arguments)));
            Ok(())
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
