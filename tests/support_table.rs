//! The support table of the README, made from the kernels' entries, the availability that `validate` checks, and what CI
//! opens. `MOEBIUS_BLESS=1` rewrites it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use moebius_shaders::Element;
use moebius_shaders::emit::{self, KernelEntry, Target};
use moebius_tests::availability::unavailable;

const BEGIN: &str = "<!-- support-table:begin -->";
const END: &str = "<!-- support-table:end -->";

/// How well a kernel is known to work somewhere, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    NotAvailable,
    Unproven,
    Compiles,
    Runs,
}

impl Cell {
    fn text(self) -> &'static str {
        match self {
            Self::Runs => "runs in CI",
            Self::Compiles => "compiles in CI",
            Self::Unproven => "unproven",
            Self::NotAvailable => "not available",
        }
    }
}

/// A column's name, and what CI knows about an entry there.
type Column = (&'static str, fn(&KernelEntry) -> Cell);

const COLUMNS: [Column; 7] = [
    ("cpu", cpu),
    ("wgpu (WGSL)", wgpu),
    ("vulkan (SPIR-V)", vulkan),
    ("cuda", cuda),
    ("rocm", rocm),
    ("metal (MSL)", metal),
    ("flex", flex),
];

/// `found` where one of the targets has code.
fn if_available(entry: &KernelEntry, targets: &[Target], found: Cell) -> Cell {
    let available = targets
        .iter()
        .any(|target| unavailable(entry, *target).is_none());
    if available { found } else { Cell::NotAvailable }
}

/// Conformance runs on CubeCL's CPU runtime, which has fewer units than the workgroup variants need.
fn cpu(entry: &KernelEntry) -> Cell {
    match entry.variant {
        "unit" | "gemv" | "tensor_core" | "mma" => Cell::NotAvailable,
        _ => Cell::Runs,
    }
}

/// Conformance runs on lavapipe, which has f16, and on SwiftShader.
fn wgpu(entry: &KernelEntry) -> Cell {
    if_available(entry, &[Target::Wgsl], Cell::Runs)
}

/// spirv-val, but for bf16, which is younger.
fn vulkan(entry: &KernelEntry) -> Cell {
    let found = match entry.element {
        Some(Element::Bf16) => Cell::Unproven,
        _ => Cell::Compiles,
    };
    if_available(entry, &[Target::SpirV], found)
}

/// What a target's compiler takes; a variant that has run on no machine at all stays unproven.
fn compiles(entry: &KernelEntry) -> Cell {
    match entry.variant {
        "tensor_core" | "mma" => Cell::Unproven,
        _ => Cell::Compiles,
    }
}

/// NVRTC and ptxas.
fn cuda(entry: &KernelEntry) -> Cell {
    if_available(entry, &[Target::CudaCpp, Target::Ptx], compiles(entry))
}

/// LLVM, down to a linked object.
fn rocm(entry: &KernelEntry) -> Cell {
    let targets = [Target::AmdgpuGfx942, Target::AmdgpuGfx1201];
    if_available(entry, &targets, compiles(entry))
}

/// Written, and read by no compiler.
fn metal(entry: &KernelEntry) -> Cell {
    if_available(entry, &[Target::Msl], Cell::Unproven)
}

/// Conformance runs the portable bodies: those of the casts, of routing, and one of all the rest.
fn flex(entry: &KernelEntry) -> Cell {
    match entry.family {
        "grouped_gemm" | "fp8_gemm" | "weight_gradient" => Cell::NotAvailable,
        _ => Cell::Runs,
    }
}

struct Row {
    kernel: String,
    elements: Vec<String>,
    cells: [Cell; 7],
}

impl Row {
    fn text(&self) -> String {
        let cells = self.cells.map(Cell::text).join(" | ");
        format!(
            "| {} | {} | {cells} |\n",
            self.kernel,
            self.elements.join(", ")
        )
    }
}

/// The kernels that programs depend on; `peak` is an instrument of the benchmarks.
fn entries() -> Vec<KernelEntry> {
    let entries = emit::kernels().into_iter();
    entries.filter(|entry| entry.family != "peak").collect()
}

/// One row for the entries of a family, a variant and an element type; a cell is its worst entry's. Neighbouring types
/// with the same cells share a row.
fn rows(entries: &[KernelEntry]) -> Vec<Row> {
    let mut order = Vec::new();
    let mut worst: BTreeMap<(String, String), [Cell; 7]> = BTreeMap::new();
    for entry in entries {
        let kernel = format!("{} · {}", entry.family, entry.variant).replace('_', " ");
        let element = entry
            .element
            .map_or("–".to_owned(), |element| element.to_string());
        let cells = COLUMNS.map(|(_, cell)| cell(entry));
        let key = (kernel, element);
        if !order.contains(&key) {
            order.push(key.clone());
        }
        let row = worst.entry(key).or_insert(cells);
        for (old, new) in row.iter_mut().zip(cells) {
            *old = new.min(*old);
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for key in order {
        let cells = worst[&key];
        let (kernel, element) = key;
        match rows.last_mut() {
            Some(row) if row.kernel == kernel && row.cells == cells => row.elements.push(element),
            _ => rows.push(Row {
                kernel,
                elements: vec![element],
                cells,
            }),
        }
    }
    rows
}

fn table() -> String {
    let mut rows = rows(&entries());
    let portable = |kernel: &str| Row {
        kernel: format!("{kernel} · portable"),
        elements: Element::ALL.map(|element| element.to_string()).into(),
        cells: COLUMNS.map(|(name, _)| match name {
            "flex" => Cell::Runs,
            _ => Cell::NotAvailable,
        }),
    };
    rows.extend(["grouped gemm", "fp8 gemm"].map(portable));
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let lines = "---|".repeat(COLUMNS.len());
    let body: String = rows.iter().map(Row::text).collect();
    format!(
        "| kernel | types | {names} |\n|---|---|{lines}\n{body}\n\
        *runs in CI*: its results are compared with a reference there. *compiles in CI*: the target's own compiler or \
        validator takes the code, and no machine of CI can run it. *unproven*: no compiler has \
        looked at it, or it compiles and has run on no machine at all; never chosen by default. On flex a portable body of Burn's operations stands in for the kernels.\n"
    )
}

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

/// The README before the table, the table, and the rest.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    Some((before, table.trim_start_matches('\n'), after))
}

#[test]
fn readme_has_the_current_support_table() {
    let text = fs::read_to_string(readme()).unwrap_or_else(|error| panic!("README.md: {error}"));
    let Some((before, committed, after)) = split(&text) else {
        panic!("README.md lacks {BEGIN} or {END}");
    };
    let table = table();
    if env::var_os("MOEBIUS_BLESS").is_some() {
        let new = format!("{before}{BEGIN}\n{table}{END}{after}");
        return fs::write(readme(), new).unwrap_or_else(|error| panic!("README.md: {error}"));
    }
    let stale = committed
        .lines()
        .zip(table.lines())
        .find(|(old, new)| old != new);
    assert!(
        committed == table,
        "the support table is stale: MOEBIUS_BLESS=1 cargo test --test support_table\n{stale:#?}"
    );
}

/// A table in which everything works everywhere, or nothing does, would be a table of nothing.
#[test]
fn the_table_tells_kernels_apart() {
    let rows = rows(&entries());
    for cell in [
        Cell::Runs,
        Cell::Compiles,
        Cell::Unproven,
        Cell::NotAvailable,
    ] {
        let found = rows.iter().any(|row| row.cells.contains(&cell));
        assert!(found, "no cell says `{}`", cell.text());
    }
    let unproven = rows.iter().filter(|row| {
        let kernel = &row.kernel;
        kernel.ends_with("tensor core") || kernel.ends_with("mma")
    });
    assert!(
        unproven
            .flat_map(|row| row.cells)
            .all(|cell| matches!(cell, Cell::Unproven | Cell::NotAvailable))
    );
}
