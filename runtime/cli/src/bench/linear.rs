//! `bench linear`.

use anstyle::Style;
use moebius::fp8::{Activations, Granularity};
use moebius_benches::linear::{BytesOf, LinearBench, LinearReport, PathTime};
use serde_json::{Value, json};

use super::{Measured, bound, memory, title};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::{Screen, Table};

impl Measured for LinearReport {
    type Bench = LinearBench;

    fn workload(bench: &LinearBench) -> Value {
        let activations = match bench.activations {
            Activations::Float => "float",
            _ => "dynamic-row",
        };
        let granularity = match bench.granularity {
            Granularity::Tensor => "tensor".to_owned(),
            Granularity::Row => "row".to_owned(),
            Granularity::Block { rows, columns } => format!("{rows}x{columns}"),
            Granularity::Mx => "mx".to_owned(),
        };
        json!({
            "name": "linear",
            "tokens": bench.m,
            "n": bench.n,
            "k": bench.k,
            "format": bench.format.name(),
            "granularity": granularity,
            "dtype": bench.dtype.name(),
            "activations": activations,
        })
    }

    fn verified(&self) -> bool {
        self.checked.verified
    }

    fn print(&self, bench: &LinearBench, screen: &mut Screen) -> Result<(), CliError> {
        if !title(&subject(bench), &self.ran, &self.checked, screen)? {
            return wrong(self, screen);
        }
        times(self, screen)?;
        for (name, error) in &self.left_out {
            screen.line(&format!(
                "  {name} is left out: its relative L2 is {error:.1e}"
            ))?;
        }
        if let Some(ratio) = self.ratio_to_best_own {
            screen.line(&format!(
                "  FP8 runs at {ratio:.2} × the speed of the best float layer of this device"
            ))?;
        }
        screen.line(&format!(
            "  verified to {:.1e} · decoded weights differ from those quantised by {:.2e}",
            self.checked.max_rel_l2, self.weights_rel_l2
        ))?;
        sizes(self, screen)?;
        copies(self, screen)?;
        memory(self.ceilings.memory.as_ref(), screen)
    }
}

/// All rows of the table, in its order.
fn paths(report: &LinearReport) -> impl Iterator<Item = &PathTime> {
    let own = [&report.fp8].into_iter().chain(&report.own);
    let coded = report.sparse24.iter().chain(&report.blocks);
    own.chain(coded).chain(&report.peer)
}

/// Writes which ways to compute the layer don't verify, each with its own error.
fn wrong(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    for path in paths(report) {
        if let Some(checked) = path.checked.filter(|checked| !checked.verified) {
            let (name, error) = (&path.name, checked.max_rel_l2);
            screen.line(&format!("  {name}: relative L2 {error:.2e}"))?;
        }
    }
    Ok(())
}

fn subject(bench: &LinearBench) -> String {
    let (format, dtype) = (bench.format.name(), bench.dtype.name());
    let scales = match bench.granularity {
        Granularity::Tensor => "one scale".to_owned(),
        Granularity::Row => "scales per row".to_owned(),
        Granularity::Block { rows, columns } => format!("scales per {rows} × {columns}"),
        Granularity::Mx => "MX scales".to_owned(),
    };
    let rounded = match bench.activations {
        Activations::Float => "",
        _ => " rounded to e4m3",
    };
    format!(
        "Linear {} → {} · {} tokens · weights {format}, {scales} · activations {dtype}{rounded}",
        bench.k, bench.n, bench.m
    )
}

fn times(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    let headings = "layer | time | GFLOP/s | weights | of its floor | speed of FP8";
    let mut table = Table::new(headings).right(&[1, 2, 3, 4, 5]);
    table.row(row(&report.fp8, String::new()), Style::new());
    for path in paths(report).skip(1) {
        let ratio = format!("{:.2} ×", path.ratio);
        table.row(row(path, ratio), Style::new());
    }
    table.print(screen)
}

fn row(path: &PathTime, ratio: String) -> [String; 6] {
    [
        path.name.clone(),
        format!("{:.3} ms", path.speed.median_ms),
        format!("{:.1}", path.speed.gflops),
        format!("{:.2} GB/s", path.weights_gb_per_s),
        bound(path.floor.as_ref()),
        ratio,
    ]
}

fn sizes(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    let layer = &report.layer_bytes;
    let of = match layer.of {
        BytesOf::Allocator => "measured by the device's allocator",
        BytesOf::Tensors => "sizes of the tensors",
    };
    screen.line(&format!(
        "  layer {}, in f32 {}: {:.3} × ({of})",
        bytes(layer.fp8),
        bytes(layer.f32),
        layer.ratio,
    ))?;
    screen.line(&format!(
        "  at least {} to read and {:.1} MFLOP to compute",
        bytes(report.floor_bytes),
        report.flops as f64 / 1e6,
    ))
}

/// Writes the number of copies of the weights that took turns.
fn copies(report: &LinearReport, screen: &mut Screen) -> Result<(), CliError> {
    let copies: Vec<usize> = paths(report).map(|path| path.copies).collect();
    if copies.iter().all(|copies| *copies == 1) {
        return screen.line("  one copy of the weights, which caches may hold");
    }
    let copies: Vec<String> = copies.iter().map(usize::to_string).collect();
    let copies = copies.join(", ");
    screen.line(&format!(
        "  each product takes the next of so many copies of its weights, in the order of the table: {copies}"
    ))
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
