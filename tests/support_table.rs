//! The support table of `docs/support.md`, made from the kernels that conformance launched and compared (`support/ran.tsv`),
//! from the availability that `validate` checks, and from the code that CI's compilers accept.
//!
//! If `MOEBIUS_TEST_RECORD` names the record of a whole conformance run ([`moebius_tests::record`]), the table is checked
//! against it. `MOEBIUS_BLESS=1` rewrites the table, and from a record `support/ran.tsv`. `support/ran_on_gpus.tsv` lists what
//! ran on a GPU; `MOEBIUS_BLESS=1` rewrites it from the GPU's record that `MOEBIUS_GPU_RECORD` names.

#![allow(clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use libtest_mimic::{Arguments, Failed, Trial};
use moebius_shaders::emit::{KernelEntry, Target};
use moebius_tests::availability::{CI, METAL, cannot_run, unavailable};
use moebius_tests::record::{self, End, Line};

const BEGIN: &str = "<!-- support-table:begin -->";
const END: &str = "<!-- support-table:end -->";

/// The state of a kernel on a device, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    NotAvailable,
    Unproven,
    Emitted,
    Compiles,
    UnprovenEmulated,
    Emulated,
    Runs,
}

impl Cell {
    fn text(self) -> &'static str {
        match self {
            Self::Runs => "runs in CI",
            Self::Emulated => "emulated in CI",
            Self::UnprovenEmulated => "emulated in CI, unproven",
            Self::Compiles => "compiles in CI",
            Self::Emitted => "emitted",
            Self::Unproven => "unproven",
            Self::NotAvailable => "not available",
        }
    }
}

/// For each kernel, the devices on which a case launched it and compared its results.
type Ran = BTreeMap<String, BTreeSet<String>>;

/// A column: its name, its device in records, and the function that gives CI's knowledge of an entry there.
type Column = (&'static str, &'static str, fn(&KernelEntry, &Ran) -> Cell);

const COLUMNS: [Column; 6] = [
    ("cpu", "cpu", |entry, ran| on_device(entry, "cpu", ran)),
    ("wgpu (WGSL)", "wgpu", |e, ran| on_device(e, "wgpu", ran)),
    ("vulkan (SPIR-V)", "vulkan", vulkan),
    ("cuda", "cuda", |e, ran| card(e, "cuda", &CUDA, ran)),
    ("rocm", "rocm", |e, ran| card(e, "rocm", &ROCM, ran)),
    ("metal (MSL)", METAL, |e, ran| card(e, METAL, &MSL, ran)),
];

/// The targets that CI compiles for the cards of each column.
const CUDA: [Target; 2] = [Target::CudaCpp, Target::Ptx];
const ROCM: [Target; 2] = [Target::AmdgpuGfx942, Target::AmdgpuGfx1201];
const MSL: [Target; 1] = [Target::Msl];

/// The data that the table is made from.
struct Known {
    /// The kernels that ran in CI.
    ci: Ran,
    /// The kernels that ran on a GPU.
    gpus: Ran,
}

impl Known {
    fn committed() -> Result<Self, String> {
        Ok(Self {
            ci: committed(&ran_path())?,
            gpus: committed(&gpus_path())?,
        })
    }

    /// The state of an entry in each column, and whether a GPU ran it there.
    fn states(&self, entry: &KernelEntry) -> States {
        COLUMNS.map(|(_, device, cell)| (cell(entry, &self.ci), has_run(entry, device, &self.gpus)))
    }
}

/// For each column, a kernel's state, and whether a GPU ran it there.
type States = [(Cell, bool); COLUMNS.len()];

/// The devices whose records are read.
fn recording() -> impl Iterator<Item = &'static str> {
    CI.into_iter().chain([METAL])
}

fn has_run(entry: &KernelEntry, device: &str, ran: &Ran) -> bool {
    let devices = ran.get(&entry.name);
    devices.is_some_and(|devices| devices.contains(device))
}

fn on_device(entry: &KernelEntry, device: &str, ran: &Ran) -> Cell {
    match cannot_run(entry, device) {
        Some(_) => Cell::NotAvailable,
        None if has_run(entry, device, ran) => Cell::Runs,
        None => Cell::Emitted,
    }
}

/// The state `found` if one of the targets has code; a lower one for an unproven variant.
fn compiled(entry: &KernelEntry, targets: &[Target], found: Cell) -> Cell {
    let available = |target: &Target| unavailable(entry, *target).is_none();
    if !targets.iter().any(available) {
        Cell::NotAvailable
    } else if entry.proven {
        found
    } else {
        Cell::Unproven
    }
}

/// The state on an emulated card of CI, else by the compilers.
fn card(entry: &KernelEntry, device: &str, targets: &[Target], ran: &Ran) -> Cell {
    match (has_run(entry, device, ran), entry.proven) {
        (true, true) => Cell::Emulated,
        (true, false) => Cell::UnprovenEmulated,
        _ => compiled(entry, targets, Cell::Compiles),
    }
}

/// The state by CI's driver, else by spirv-val.
fn vulkan(entry: &KernelEntry, ran: &Ran) -> Cell {
    if has_run(entry, "vulkan", ran) {
        return Cell::Runs;
    }
    compiled(entry, &[Target::SpirV], Cell::Compiles)
}

struct Row {
    kernel: String,
    elements: Vec<String>,
    states: States,
}

impl Row {
    fn text(&self) -> String {
        let text = |(cell, on_a_gpu): (Cell, bool)| {
            if on_a_gpu {
                format!("{} ✓", cell.text())
            } else {
                cell.text().to_owned()
            }
        };
        let cells = self.states.map(text).join(" | ");
        let elements = self.elements.join(", ");
        format!("| {} | {elements} | {cells} |\n", self.kernel)
    }
}

/// The kernels that programs use; `peak`, an instrument of the benchmarks, is left out.
fn entries() -> Vec<KernelEntry> {
    let entries = moebius_shaders::kernels().into_iter();
    entries.filter(|entry| entry.family != "peak").collect()
}

/// Rows for families, variants and element types; a cell shows its worst entry. Adjacent element types with equal cells share a
/// row.
fn rows(entries: &[KernelEntry], known: &Known) -> Vec<Row> {
    let mut order = Vec::new();
    let mut worst: BTreeMap<(String, String), States> = BTreeMap::new();
    for entry in entries {
        let kernel = format!("{} · {}", entry.family, entry.variant).replace('_', " ");
        let element = entry.element.map(|element| element.to_string());
        let element = element.unwrap_or("–".to_owned());
        let states = known.states(entry);
        let key = (kernel, element);
        if !order.contains(&key) {
            order.push(key.clone());
        }
        let row = worst.entry(key).or_insert(states);
        for (old, new) in row.iter_mut().zip(states) {
            *old = (new.0.min(old.0), new.1 && old.1);
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for key in order {
        let states = worst[&key];
        let (kernel, element) = key;
        match rows.last_mut() {
            Some(row) if row.kernel == kernel && row.states == states => row.elements.push(element),
            _ => rows.push(Row {
                kernel,
                elements: vec![element],
                states,
            }),
        }
    }
    rows
}

/// For a device, the number of kernels in each state, best first, and the number that ran on a GPU.
fn summary(entries: &[KernelEntry], known: &Known) -> String {
    let mut counts: BTreeMap<Cell, [usize; COLUMNS.len()]> = BTreeMap::new();
    let mut on_gpus = [0; COLUMNS.len()];
    for entry in entries {
        for (column, (cell, on_a_gpu)) in known.states(entry).into_iter().enumerate() {
            counts.entry(cell).or_default()[column] += 1;
            on_gpus[column] += usize::from(on_a_gpu);
        }
    }
    let number = |count: usize| match count {
        0 => "–".to_owned(),
        _ => count.to_string(),
    };
    let row = |name: &str, counts: [usize; COLUMNS.len()]| {
        let counts = counts.map(number).join(" | ");
        format!("| {name} | {counts} |\n")
    };
    let states = counts.iter().rev();
    let states = states.map(|(cell, counts)| row(cell.text(), *counts));
    states.collect::<String>() + &row("ran on a GPU ✓", on_gpus)
}

fn table(known: &Known) -> String {
    let names = COLUMNS.map(|(name, _, _)| name).join(" | ");
    let lines = "---|".repeat(COLUMNS.len());
    let entries = entries();
    let summary = summary(&entries, known);
    let body: String = rows(&entries, known).iter().map(Row::text).collect();
    format!(
        "| kernels that | {names} |\n|---|{lines}\n{summary}\n| kernel | types | {names} |\n|---|---|{lines}\n{body}\n\
        *runs in CI*: conformance launches it there and compares its results with a reference (`cpu` has bodies of its own for \
        some kernels; `vulkan` is a software driver). *emulated in CI*: the same on a software driver, which gives CubeCL's CUDA C++, HIP C++ or Metal to the compiler of \
        the processor (of Metal those kernels that a case launches without Burn, which has no such device); CubeCL's PTX and its code for AMD's GPUs are compiled only. *compiles in CI*: the target's own compiler or validator takes the code, and no machine of CI can run it. \
        *emitted*: the code is written, and no compiler of CI reads it. *unproven*: a way of computing that a plan \
        chooses only on request; but `tensor core` of products and gradients on NVIDIA's cards, and `pipelined wgmma` on Hopper, which have had them right. ✓: cases that launch it passed on a GPU, too; which one is said below. `flex` and `xla` have no kernels: the same operations in Rust and in StableHLO, \
        held to the same references by conformance.\n"
    )
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn ran_path() -> PathBuf {
    manifest().join("support/ran.tsv")
}

fn gpus_path() -> PathBuf {
    manifest().join("support/ran_on_gpus.tsv")
}

/// Parses a committed file: each line has a kernel, a tab, and devices separated by commas.
fn committed(path: &Path) -> Result<Ran, String> {
    let text = read(path)?;
    let line = |line: &str| -> Result<(String, BTreeSet<String>), String> {
        let parts = line.split_once('\t');
        let (kernel, devices) = parts.ok_or_else(|| format!("expected a tab, got {line:?}"))?;
        let devices = devices.split(',').map(str::to_owned).collect();
        Ok((kernel.to_owned(), devices))
    };
    text.lines().map(line).collect()
}

/// The emitted kernels that the record in `folder` shows on CI's devices.
fn recorded(folder: &Path) -> Result<Ran, String> {
    let entries = entries();
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let lines = record::read(folder)?;
    for device in recording() {
        if !lines.iter().any(|line| line.device == device) {
            return Err(format!("{}: no case of `{device}`", folder.display()));
        }
    }
    let mut ran = Ran::new();
    for line in lines {
        let recorded = recording().any(|device| device == line.device);
        for (kernel, _) in line.kernels {
            if recorded && line.end == End::Ran && names.contains(kernel.as_str()) {
                ran.entry(kernel).or_default().insert(line.device.clone());
            }
        }
    }
    Ok(ran)
}

/// The table's kernels that the GPU record in `folder` shows, with the devices on which every case that launched them passed.
fn recorded_on_gpus(folder: &Path) -> Result<Ran, String> {
    let entries = entries();
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let (mut ran, mut failed) = (Ran::new(), BTreeSet::new());
    for line in record::read(folder)? {
        let kernels = line.kernels.into_iter().map(|(name, _)| name);
        for kernel in kernels.filter(|kernel| names.contains(kernel.as_str())) {
            let device = line.device.clone();
            match line.end {
                End::Ran => _ = ran.entry(kernel).or_default().insert(device),
                End::Failed => _ = failed.insert((kernel, device)),
                End::Refused(_) => {}
            }
        }
    }
    for (kernel, devices) in &mut ran {
        devices.retain(|device| !failed.contains(&(kernel.clone(), device.clone())));
    }
    ran.retain(|_, devices| !devices.is_empty());
    Ok(ran)
}

/// All (kernel, device) pairs.
fn pairs(ran: &Ran) -> BTreeSet<(&str, &str)> {
    let pairs = ran.iter().flat_map(|(kernel, devices)| {
        let devices = devices.iter();
        devices.map(move |device| (kernel.as_str(), device.as_str()))
    });
    pairs.collect()
}

fn differences(committed: &Ran, recorded: &Ran) -> Vec<String> {
    let (said, ran) = (pairs(committed), pairs(recorded));
    let missing = said.difference(&ran);
    let missing = missing.map(|(kernel, device)| {
        format!("{kernel} is said to run on {device}, and no case of this run launched it there")
    });
    let new = ran.difference(&said);
    let new = new.map(|(kernel, device)| format!("{kernel} ran on {device}, which isn't said"));
    missing.chain(new).collect()
}

fn verdict(problems: &[String], advice: &str) -> Result<(), Failed> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{advice}", problems.join("\n")).into())
}

fn the_record_says_what_the_table_says(folder: &Path) -> Result<(), Failed> {
    let problems = differences(&committed(&ran_path())?, &recorded(folder)?);
    let advice = "if that is right: MOEBIUS_BLESS=1 with the same record";
    verdict(&problems, advice)
}

/// Kernels that some CI device could run but no case launches there.
fn never_launched(entries: &[KernelEntry], ran: &Ran) -> Vec<String> {
    let mut problems = Vec::new();
    for entry in entries {
        for device in CI {
            if cannot_run(entry, device).is_none() && !has_run(entry, device, ran) {
                problems.push(format!("{} on {device}", entry.name));
            }
        }
    }
    problems
}

fn every_kernel_is_launched() -> Result<(), Failed> {
    let problems = never_launched(&entries(), &committed(&ran_path())?);
    let advice = "no conformance case launches these and compares what they write";
    verdict(&problems, advice)
}

fn kernels_are_told_by_their_names() -> Result<(), Failed> {
    let entries = moebius_shaders::kernels();
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.len(), entries.len(), "two kernels have one name");
    Ok(())
}

/// Launches on WebGPU whose Rust type isn't that of the emitted kernel with their name.
fn misnamed(entries: &[KernelEntry], lines: &[Line]) -> Vec<String> {
    let types: BTreeMap<&str, &str> = entries
        .iter()
        .filter_map(|entry| Some((entry.name.as_str(), entry.type_name(Target::Wgsl)?)))
        .collect();
    let mut problems = Vec::new();
    for line in lines.iter().filter(|line| line.device == "wgpu") {
        for (name, launched) in &line.kernels {
            let emitted = types.get(name.as_str());
            if let Some(emitted) = emitted.filter(|emitted| **emitted != launched) {
                let case = &line.case;
                let problem = format!("{case}: {name} is {emitted}, and {launched} is launched");
                problems.push(problem);
            }
        }
    }
    problems
}

fn launches_have_the_names_of_their_kernels(folder: &Path) -> Result<(), Failed> {
    let (entries, mut lines) = (entries(), record::read(folder)?);
    verdict(&misnamed(&entries, &lines), "see `launched::note`")?;
    // The check finds a launch with another kernel's type.
    let on_wgpu = lines.iter_mut().filter(|line| line.device == "wgpu");
    let mut kernels = on_wgpu.flat_map(|line| &mut line.kernels);
    let named = kernels.find(|(name, _)| entries.iter().any(|entry| entry.name == *name));
    let (_, launched) = named.ok_or("no kernel is launched on wgpu")?;
    launched.push('!');
    assert!(!misnamed(&entries, &lines).is_empty());
    Ok(())
}

/// Splits a page into the text before the table, the table, and the rest.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    Some((before, table.trim_start_matches('\n'), after))
}

fn the_page_has_the_current_support_table() -> Result<(), Failed> {
    let path = manifest().join("../docs/support.md");
    let text = read(&path)?;
    let Some((before, shown, after)) = split(&text) else {
        return Err(format!("docs/support.md lacks {BEGIN} or {END}").into());
    };
    let table = table(&Known::committed()?);
    if blessing() {
        let page = format!("{before}{BEGIN}\n{table}{END}{after}");
        return Ok(write(&path, &page)?);
    }
    let mut lines = shown.lines().zip(table.lines());
    let stale = lines.find(|(old, new)| old != new);
    assert!(
        shown == table,
        "the support table is stale: MOEBIUS_BLESS=1 cargo test --test support_table\n{stale:#?}"
    );
    Ok(())
}

/// A table in which every cell is the same would say nothing.
fn the_table_tells_kernels_apart() -> Result<(), Failed> {
    let rows = rows(&entries(), &Known::committed()?);
    for cell in [
        Cell::Runs,
        Cell::Emulated,
        Cell::UnprovenEmulated,
        Cell::Compiles,
        Cell::Unproven,
        Cell::NotAvailable,
    ] {
        let mut states = rows.iter().flat_map(|row| row.states);
        let found = states.any(|(of, _)| of == cell);
        assert!(found, "no cell says `{}`", cell.text());
    }
    Ok(())
}

/// The checks find a missing kernel and an unexpected one in a record.
fn a_kernel_that_did_not_run_is_found() -> Result<(), Failed> {
    let all = |device: &str| -> BTreeSet<String> { [device.to_owned()].into() };
    let said = Ran::from([("a".to_owned(), all("cpu")), ("b".to_owned(), all("cpu"))]);
    let ran = Ran::from([("b".to_owned(), all("wgpu"))]);
    let problems = differences(&said, &ran);
    assert_eq!(problems.len(), 3, "{problems:#?}");
    let begins = problems[0].starts_with("a is said to run on cpu");
    assert!(begins, "{problems:#?}");
    assert!(differences(&said, &said).is_empty());
    let without = never_launched(&entries(), &Ran::new());
    assert!(without.contains(&"sort_scan on wgpu".to_owned()));
    assert!(!without.contains(&"fp8_gemm_mma_e4m3_row_dense on wgpu".to_owned()));
    Ok(())
}

fn blessing() -> bool {
    env::var_os("MOEBIUS_BLESS").is_some()
}

fn bless(path: &Path, ran: Ran) -> Result<(), String> {
    let line = |(kernel, devices): (String, BTreeSet<String>)| {
        let devices: Vec<String> = devices.into_iter().collect();
        format!("{kernel}\t{}\n", devices.join(","))
    };
    let text: String = ran.into_iter().map(line).collect();
    write(path, &text)
}

/// Rewrites the files for which records were given.
fn bless_all(folder: Option<&Path>) -> Result<(), String> {
    if let Some(folder) = folder {
        bless(&ran_path(), recorded(folder)?)?;
    }
    if let Some(folder) = env::var_os("MOEBIUS_GPU_RECORD") {
        bless(&gpus_path(), recorded_on_gpus(Path::new(&folder))?)?;
    }
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let record = record::folder();
    if blessing() && !arguments.list {
        bless_all(record.as_deref()).unwrap_or_else(|error| panic!("{error}"));
    }
    macro_rules! trials {
        ($($test:ident($($given:expr)?)),*) => {
            vec![$(Trial::test(stringify!($test), move || $test($($given)?))),*]
        };
    }
    let mut trials = trials![
        every_kernel_is_launched(),
        kernels_are_told_by_their_names(),
        the_page_has_the_current_support_table(),
        the_table_tells_kernels_apart(),
        a_kernel_that_did_not_run_is_found()
    ];
    if let Some(folder) = record {
        let folder: &'static Path = Box::leak(folder.into_boxed_path());
        trials.extend(trials![
            the_record_says_what_the_table_says(folder),
            launches_have_the_names_of_their_kernels(folder)
        ]);
    }
    libtest_mimic::run(&arguments, trials).exit();
}
