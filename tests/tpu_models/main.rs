//! Models compiled for TPUs by libtpu, on machines with or without a TPU: the tests check that they compile, and that the
//! compiler plans the memory listed in `TPU.md`.
//!
//! libtpu isn't free software and not installed everywhere: without it there are no tests here, and the result says so.
//! `MOEBIUS_BLESS=1` rewrites the table.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod programs;
mod table;

use libtest_mimic::{Arguments, Trial};
use moebius_pjrt::{CompileOptions, CompiledMemory, ElementType, Plugin, TensorType, Topology};
use programs::Named;
use std::sync::{Arc, Mutex, PoisonError};
use table::{Row, Table};

/// One chip of each kind; the first also compiles the programs in f32.
const CHIPS: [&str; 4] = ["v5e:1x1", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"];

/// Topologies of several chips, and their numbers of devices: a chip of the last kind is two devices. Every program is compiled
/// for the first one.
const SEVERAL: [(&str, usize); 6] = [
    ("v5e:2x2", 4),
    ("v5e:4x4", 16),
    ("v5e:4x8", 32),
    ("v5p:2x2x1", 4),
    ("v6e:2x2", 4),
    ("tpu7x:2x2x1", 8),
];

fn main() {
    let arguments = Arguments::from_args();
    let Some(plugin) = moebius_tests::target::libtpu() else {
        libtest_mimic::run(&arguments, Vec::new()).exit();
    };
    let rows = Arc::new(Mutex::new(Vec::new()));
    let mut tests = Vec::new();
    let mut add = |topology: &'static str, programs: Vec<Named>| {
        for named in programs {
            let rows = rows.clone();
            tests.push(Trial::test(
                format!("{topology}::{}", named.name),
                move || {
                    let row = compiled(plugin, topology, named);
                    let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                    rows.push(row.clone());
                    drop(rows);
                    if table::blesses() {
                        return Ok(());
                    }
                    Ok(Table::read()?.expect(&row)?)
                },
            ));
        }
    };
    for topology in CHIPS {
        add(topology, programs::of_one_chip(ElementType::BF16));
    }
    add(CHIPS[0], programs::of_one_chip(ElementType::F32));
    let step = |chips| {
        let (name, program) = (
            "decoder, training step, f32",
            programs::training_step(chips),
        );
        programs::named(name, chips, program)
    };
    let one = step(1);
    for topology in CHIPS {
        add(topology, vec![one.clone()]);
    }
    let (first, chips) = SEVERAL[0];
    add(first, vec![step(chips)]);
    for (at, (topology, chips)) in SEVERAL.into_iter().enumerate() {
        add(topology, programs::of_chips(chips, at == 0));
    }
    let all = tests.len();
    let conclusion = libtest_mimic::run(&arguments, tests);
    let rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
    if table::blesses() && rows.len() == all && !conclusion.has_failed() {
        table::write(&rows);
    }
    conclusion.exit();
}

/// Compiles a program, and checks its planned memory against the sizes of its inputs and outputs.
fn compiled(plugin: Plugin, topology: &str, named: Named) -> Row {
    let of = Topology::create(plugin, topology, &[]);
    let of = of.unwrap_or_else(|error| panic!("{topology}: {error}"));
    let options = CompileOptions::new(1, named.chips).unwrap();
    let options = match named.chips {
        1 => options,
        _ => options.with_shardy(),
    };
    let executable = of.compile(&named.program.text, &options);
    let executable = executable.unwrap_or_else(|error| panic!("{}: {error}", named.name));
    let memory: CompiledMemory = executable.memory().unwrap();
    let bytes = |types: &[TensorType]| -> u64 { types.iter().map(|ty| ty.bytes() as u64).sum() };
    // Layouts may pad an array, but never cut it.
    let (inputs, outputs) = (bytes(&named.program.inputs), bytes(&named.program.outputs));
    assert!(
        memory.arguments >= inputs && memory.outputs >= outputs && memory.code > 0,
        "{inputs} and {outputs} bytes, {memory:?}"
    );
    Row {
        topology: topology.to_owned(),
        program: named.name,
        devices: named.chips,
        memory,
    }
}
