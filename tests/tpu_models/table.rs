//! The table of planned memory in `TPU.md`.

use moebius_pjrt::CompiledMemory;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The largest relative difference of a figure: another version of the compiler plans a little differently.
const TOLERANCE: f64 = 0.1;
/// MiB by which a figure may differ beyond [`TOLERANCE`]: smaller differences say nothing.
const SMALL: f64 = 0.5;

/// The result of one compilation.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) topology: String,
    pub(crate) program: String,
    pub(crate) devices: usize,
    pub(crate) memory: CompiledMemory,
}

impl Row {
    fn key(&self) -> String {
        format!("{} | {} | {}", self.topology, self.devices, self.program)
    }

    /// The figures in MiB per device.
    fn figures(&self) -> [f64; 5] {
        let m = &self.memory;
        let all = [m.arguments, m.outputs, m.temporary, m.code, m.peak];
        all.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }
}

fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../backends/xla/TPU.md"
    ))
}

/// Whether the table is to be rewritten.
pub(crate) fn blesses() -> bool {
    std::env::var_os("MOEBIUS_BLESS").is_some()
}

/// The table's figures by topology, number of devices and program.
pub(crate) struct Table(BTreeMap<String, Vec<f64>>);

impl Table {
    pub(crate) fn read() -> Result<Self, String> {
        let text = std::fs::read_to_string(path()).map_err(|error| error.to_string())?;
        let rows = text.lines().filter_map(|line| {
            let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
            let cells: Vec<&str> = line.split(" | ").collect();
            let (key, figures) = cells.split_at_checked(3)?;
            let figures: Vec<f64> = figures.iter().filter_map(|f| f.parse().ok()).collect();
            (figures.len() == 5).then(|| (key.join(" | "), figures))
        });
        Ok(Self(rows.collect()))
    }

    /// Compares a row with the table's row.
    pub(crate) fn expect(&self, row: &Row) -> Result<(), String> {
        let key = row.key();
        let expected = self.0.get(&key);
        let expected = expected.ok_or_else(|| format!("TPU.md has no row {key}"))?;
        for (got, expected) in row.figures().iter().zip(expected) {
            if (got - expected).abs() > TOLERANCE * expected + SMALL {
                return Err(format!(
                    "{key}: {got:.2} MiB, and {expected} in TPU.md, which MOEBIUS_BLESS=1 writes"
                ));
            }
        }
        Ok(())
    }
}

const HEAD: &str = "# Memory on TPUs

What libtpu 0.0.51 plans for programs of this crate, compiled on a machine without a TPU: MiB on each device, of arguments,
results, what the compiler calls temporary, the code, and the most at one time. The temporary part isn't everything between arguments and results: in many rows
the peak exceeds the sum of the columns before it, and it is the peak that a device must have. None of it has run on a TPU.

The layer has 4096 tokens in all, H 512, F 2048, gated, K 2, and 8 experts, or one for each device where these are more. Where
experts have places, each place has as many of them as the others, and the devices of a place share the tokens. The FP8
product is of 4096 x 512 with 512 x 2048 (E4M3, a scale for each row of weights); the transformer block has 8 sequences of
512 tokens of 512 columns, 8 heads and 2048 hidden columns. The decoder's step is that of `moebius train` with its default
sizes: forward, backward, clipping and optimizer, recorded from ordinary tensors on `xla:cpu`.

`MOEBIUS_BLESS=1 cargo test --workspace --features cpu,xla --test tpu_models` writes this table; without the variable
figures must be within 10 % of it.

| topology | devices | program | arguments | results | temporary | code | peak |
|---|---:|---|---:|---:|---:|---:|---:|
";

/// Rewrites the table.
pub(crate) fn write(rows: &[Row]) {
    let mut lines: Vec<(String, [f64; 5])> =
        rows.iter().map(|row| (row.key(), row.figures())).collect();
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    let mut text = HEAD.to_owned();
    for (key, figures) in lines {
        let figures = figures.map(|figure| format!("{figure:.2}")).join(" | ");
        let _ = writeln!(text, "| {key} | {figures} |");
    }
    std::fs::write(path(), text).unwrap();
}
