//! Errors of models and trainings.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use moebius_weights::{InFile, Unfit, quoted};

/// Error of a model or a training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration value doesn't fit.
    #[error(transparent)]
    Config(Unfit),
    /// A text file can't be read.
    #[error("cannot read {0}")]
    Text(#[source] InFile<io::Error>),
    /// A layer or the device refused an input or failed.
    #[error(transparent)]
    Moebius(#[from] moebius::Error),
    /// A device failed during a computation.
    #[error("the device failed: {0}")]
    Device(String),
    /// A checkpoint can't be written, read or continued from.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A published model can't be loaded; lists everything that doesn't fit.
    #[error(transparent)]
    Misfits(#[from] Misfits),
    /// Weights can't be read, written or converted.
    #[error(transparent)]
    Weights(#[from] moebius_weights::WeightsError),
    /// The device's memory doesn't hold the weights or the cache.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The device's memory doesn't hold the steps of a training.
    #[error(transparent)]
    NoRoomToTrain(#[from] NoRoomToTrain),
}

/// Weights, or a cache of keys and values, that a device's memory doesn't hold; found before anything of that size is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory for weights and cache: expected at most the {free} bytes that the device has for them, got {needed} bytes that are needed; {tokens} tokens would fit"
)]
pub struct NoRoom {
    /// Bytes that are needed, in all or for a cache's growth.
    pub needed: u64,
    /// Bytes that are free, or that one buffer of the device may have.
    pub free: u64,
    /// Tokens of the largest cache that there is room for.
    pub tokens: u64,
}

/// A training whose steps a device's memory doesn't hold; found before anything of it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory of a training step: expected at most the {free} bytes that the device has for it, got {needed} bytes that are needed"
)]
pub struct NoRoomToTrain {
    /// Bytes that are needed, with the margin.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
}

impl Error {
    /// Refuses a value unless `fits`: returns [`Error::Config`].
    pub(crate) fn check(
        fits: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        if fits {
            Ok(())
        } else {
            Err(Self::Config(Unfit::new(what, expected, got)))
        }
    }

    /// Refuses a value that isn't finite and above 0.
    pub(crate) fn check_positive<T: Copy + Into<f64> + ToString>(
        what: &'static str,
        number: T,
    ) -> Result<(), Self> {
        let fits = number.into().is_finite() && number.into() > 0.0;
        Self::check(fits, what, "a positive number", number)
    }

    /// Refuses a value that isn't finite or is below 0.
    pub(crate) fn check_not_negative<T: Copy + Into<f64> + ToString>(
        what: &'static str,
        number: T,
    ) -> Result<(), Self> {
        let fits = number.into().is_finite() && number.into() >= 0.0;
        Self::check(fits, what, "a number of at least 0", number)
    }

    pub(crate) fn device(error: impl ToString) -> Self {
        Self::Device(error.to_string())
    }

    /// Runs `read`, which reads from a device, and turns panics into [`Error::Device`]. CubeCL panics in the first read after a WebGPU
    /// device was lost while work was queued for it, and returns errors from then on; both become [`Error::Device`].
    pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(Self::device(text.unwrap_or("a panic while it was read")))
        })
    }
}

/// Error of a training's checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The folder holds no checkpoint.
    #[error("no checkpoint in {0}")]
    Missing(PathBuf),
    /// A file can't be read.
    #[error("cannot read {0}")]
    Read(#[source] InFile<io::Error>),
    /// A file or folder can't be written.
    #[error("cannot write {0}")]
    Write(#[source] InFile<io::Error>),
    /// The file was written by another program or a later version.
    #[error("{path} is no checkpoint of this program: {reason}")]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// What shows that the file is foreign.
        reason: String,
    },
    /// A file has another length or checksum than when it was written.
    #[error("{} is damaged: expected {}, got {}", .0.what, .0.expected, .0.got)]
    Damaged(Unfit),
    /// The checkpoint belongs to another training.
    #[error("the checkpoint is of another training: {} was {}, not {}", .0.what, .0.expected, .0.got)]
    Other(Unfit),
    /// Burn can't write or load the records.
    #[error("{0}")]
    Record(String),
}

/// Everything that keeps a checkpoint from being loaded, collected in one error.
#[derive(Debug, Default)]
pub struct Misfits {
    /// Path of the checkpoint; empty where the checkpoint has none.
    pub path: PathBuf,
    /// Values of the configuration that are missing, wrong or unsupported, and tensors that can't be decoded.
    pub faults: Vec<Unfit>,
    /// Tensors that the model needs and the checkpoint lacks.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that the model has no place for.
    pub unexpected: Vec<String>,
    /// Tensors with another shape than their place in the model.
    pub misshapen: Vec<Unfit>,
}

/// Number of similar names (equal but for their numbers) that a message shows; only one of each kind when there would be too many lines.
const SHOWN: usize = 3;
/// Lines of a message, not counting the first line and the line that counts what is left out.
const LINES: usize = 8;

impl Misfits {
    /// Misfits of a configuration alone.
    pub(crate) fn of_config(faults: Vec<Unfit>) -> Self {
        Self {
            faults,
            ..Self::default()
        }
    }

    /// These misfits, of the checkpoint at `path`.
    pub(crate) fn at(self, path: &Path) -> Self {
        let path = path.to_owned();
        Self { path, ..self }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        let names = self.missing.is_empty() && self.unexpected.is_empty();
        names && self.faults.is_empty() && self.misshapen.is_empty()
    }
}

impl std::error::Error for Misfits {}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            f.write_str("the checkpoint can't be loaded")?;
        } else {
            write!(f, "{}: the checkpoint can't be loaded", self.path.display())?;
        }
        let mut lines = self.lines(SHOWN);
        if lines.len() > LINES {
            lines = self.lines(1);
        }
        let left = lines.len().saturating_sub(LINES);
        for line in lines.iter().take(LINES) {
            write!(f, "\n  {line}")?;
        }
        match left {
            0 => Ok(()),
            left => write!(f, "\n  and {left} more lines of this kind"),
        }
    }
}

impl Misfits {
    /// A line for each fault; of similar names, at most `shown` lines.
    fn lines(&self, shown: usize) -> Vec<String> {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        let mut lines = Vec::new();
        for alike in in_order(&faults) {
            let some = alike.iter().take(shown).map(|line| (*line).to_owned());
            push_counted(&mut lines, some.collect(), alike.len());
        }
        let (missing, unexpected) = (groups(&self.missing), groups(&self.unexpected));
        show(&mut lines, shown, "missing", (&missing, &unexpected));
        show(&mut lines, shown, "unexpected", (&unexpected, &missing));
        let shapes: Vec<String> = self.misshapen.iter().map(ToString::to_string).collect();
        for (_, alike) in groups(&shapes) {
            let some = alike.iter().take(shown).map(|line| (*line).to_owned());
            push_counted(&mut lines, some.collect(), alike.len());
        }
        lines
    }
}

/// Groups lines by their [`pattern`], in the order of each group's first line.
fn in_order(lines: &[String]) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    let mut places = BTreeMap::new();
    for line in lines {
        let at = *places.entry(pattern(line)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(line.as_str()),
            None => groups.push(vec![line.as_str()]),
        }
    }
    groups
}

/// Groups names by their [`pattern`].
fn groups(names: &[String]) -> BTreeMap<String, Vec<&str>> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        groups.entry(pattern(name)).or_default().push(name);
    }
    groups
}

/// The name with `#` in place of each number.
fn pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

/// Adds lines `some`, the first of `all` similar lines; the last one says how many are left out.
fn push_counted(lines: &mut Vec<String>, mut some: Vec<String>, all: usize) {
    let left = all - some.len();
    if let (Some(last), 1..) = (some.last_mut(), left) {
        last.push_str(&format!(", and {left} more that differ in their numbers"));
    }
    lines.append(&mut some);
}

/// Groups of names by their common pattern.
type Groups<'a> = BTreeMap<String, Vec<&'a str>>;

fn show(
    lines: &mut Vec<String>,
    shown: usize,
    what: &str,
    (groups, others): (&Groups<'_>, &Groups<'_>),
) {
    for (pattern, names) in groups {
        let line = |name: &&str| {
            let near = nearest(name, pattern, others);
            let near = near.map_or(String::new(), |near| format!(", nearest {}", quoted(near)));
            format!("{what} {}{near}", quoted(name))
        };
        let some = names.iter().take(shown).map(line).collect();
        push_counted(lines, some, names.len());
    }
}

/// The name among `others` that is most like this one: of the pattern with the fewest changes, the name with the same numbers, or the
/// first.
fn nearest<'a>(
    name: &str,
    pattern: &str,
    others: &BTreeMap<String, Vec<&'a str>>,
) -> Option<&'a str> {
    let changes = others.keys().map(|other| distance(pattern, other));
    let (least, names) = changes
        .zip(others.values())
        .min_by_key(|(least, _)| *least)?;
    // A pattern that differs in more than half its characters isn't similar.
    if 2 * least > pattern.len() {
        return None;
    }
    let same = names.iter().find(|other| numbers(other) == numbers(name));
    same.or(names.first()).copied()
}

/// The numbers in a name.
fn numbers(name: &str) -> Vec<&str> {
    let parts = name.split(|c: char| !c.is_ascii_digit());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Edit distance: characters to insert, remove or replace (Levenshtein 1965).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "misfits_tests.rs"]
mod tests;
