//! Records of what ran: every launch of this process, and the record that conformance leaves of its cases.
//!
//! If the environment variable `MOEBIUS_TEST_RECORD` names a folder, conformance appends a line for each case and device to
//! `cases-<process id>.tsv` there. Lines have eight fields separated by tabs:
//!
//! 1. the case, `grouped_gemm::bias`
//! 2. the device, as `MOEBIUS_TEST_DEVICES` names it: `cpu`, `wgpu`, `flex`, `xla:cpu`, ...
//! 3. the adapter and its kind: `llvmpipe (LLVM 15.0.6, 256 bits) [cpu]`
//! 4. `ran`, `refused` or `failed`
//! 5. the reason of a refusal, else empty
//! 6. seconds, with three decimals
//! 7. the number of kernels launched, Burn's included
//! 8. our kernels among them: `name=type|name=type`, by the names of `moebius_shaders::kernels()` and the paths of their
//!    Rust types; empty for a case that compares no results with a reference

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::{env, fs};

use cubecl::logging::{LaunchObservation, LaunchObserver};

/// The environment variable that names the record's folder.
pub const FOLDER: &str = "MOEBIUS_TEST_RECORD";

/// A launched kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The path of the kernel's Rust type.
    pub kernel: &'static str,
    /// The kernel's name in `moebius_shaders::kernels()`, or a name of the same form; `None` for Burn's kernels.
    pub name: Option<String>,
}

impl Launch {
    /// Whether the kernel belongs to `moebius-shaders`.
    pub fn ours(&self) -> bool {
        self.kernel.starts_with("moebius_shaders::")
    }

    /// The name and the Rust type, of a kernel that has a name.
    pub fn named(&self) -> Option<(String, String)> {
        Some((self.name.clone()?, self.kernel.to_owned()))
    }
}

static LAUNCHES: Mutex<Vec<Launch>> = Mutex::new(Vec::new());

thread_local! {
    /// The name of the kernel that `moebius-shaders` is about to launch on this thread.
    static NAME: Cell<Option<String>> = const { Cell::new(None) };
}

fn launches() -> MutexGuard<'static, Vec<Launch>> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives every launch of the process from CubeCL, on the thread that issues it.
struct Observer;

impl LaunchObserver for Observer {
    fn launched(&self, kernel: &'static str) {
        let mut launch = Launch { kernel, name: None };
        if launch.ours() {
            launch.name = NAME.take();
        }
        launches().push(launch);
    }
}

/// Records all launches from the first call on, until the process ends.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        moebius_shaders::launched::listen(|name| NAME.set(Some(name)));
        std::mem::forget(LaunchObservation::new(Arc::new(Observer)));
    });
}

/// Forgets the launches recorded so far.
pub fn forget() {
    launches().clear();
}

/// The launches that `work` makes, on any thread; `work` must wait for the device.
pub fn launched_by(work: impl FnOnce()) -> Vec<Launch> {
    let before = launches().len();
    work();
    launches()[before..].to_vec()
}

/// The launches since the last [`forget`].
pub fn launched() -> Vec<Launch> {
    launches().clone()
}

/// The end of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The case ran, and its checks held.
    Ran,
    /// The device refused the case for this reason, as expected.
    Refused(String),
    /// The case failed in any other way.
    Failed,
}

/// A line of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The case's name, `family::case`.
    pub case: String,
    /// The device's name in `MOEBIUS_TEST_DEVICES`.
    pub device: String,
    /// The adapter's name and kind.
    pub adapter: String,
    /// The case's end.
    pub end: End,
    /// The case's duration in seconds.
    pub seconds: f64,
    /// The number of launches, Burn's included.
    pub launches: usize,
    /// Names and types of our kernels whose results were compared.
    pub kernels: Vec<(String, String)>,
}

impl Line {
    fn text(&self) -> String {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let kernels = self.kernels.iter();
        let kernels = kernels.map(|(name, kernel)| format!("{name}={kernel}"));
        let (end, reason) = match &self.end {
            End::Ran => ("ran", ""),
            End::Refused(reason) => ("refused", reason.as_str()),
            End::Failed => ("failed", ""),
        };
        format!(
            "{}\t{}\t{}\t{end}\t{}\t{:.3}\t{}\t{}\n",
            self.case,
            self.device,
            one_line(&self.adapter),
            one_line(reason),
            self.seconds,
            self.launches,
            kernels.collect::<Vec<_>>().join("|")
        )
    }

    /// Parses a line of the record.
    ///
    /// # Errors
    /// A description of what is wrong with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<String> = text.split('\t').map(str::to_owned).collect();
        let count = fields.len();
        let fields: Result<[String; 8], _> = fields.try_into();
        let fields = fields.map_err(|_| format!("expected 8 fields, got {count}"))?;
        let [
            case,
            device,
            adapter,
            end,
            reason,
            seconds,
            launches,
            kernels,
        ] = fields;
        let pair = |text: &str| {
            let (name, kernel) = text.split_once('=')?;
            Some((name.to_owned(), kernel.to_owned()))
        };
        let kernels = kernels.split('|').filter(|pair| !pair.is_empty());
        let kernels: Option<Vec<_>> = kernels.map(pair).collect();
        Ok(Self {
            case,
            device,
            adapter,
            end: match end.as_str() {
                "ran" => End::Ran,
                "refused" => End::Refused(reason),
                "failed" => End::Failed,
                _ => return Err(format!("expected ran, refused or failed, got {end:?}")),
            },
            seconds: seconds.parse().map_err(|error| format!("{error}"))?,
            launches: launches.parse().map_err(|error| format!("{error}"))?,
            kernels: kernels.ok_or("expected name=type of each kernel")?,
        })
    }
}

/// The record's folder, if one is requested.
pub fn folder() -> Option<PathBuf> {
    let named = env::var_os(FOLDER).filter(|name| !name.is_empty());
    named.map(PathBuf::from)
}

/// Appends `line` to this process's file in `folder`.
///
/// # Panics
/// When the file can't be written: a record without the case would say that it didn't run.
pub fn append(folder: &Path, line: &Line) {
    let path = folder.join(format!("cases-{}.tsv", std::process::id()));
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(&path)?;
        file.write_all(line.text().as_bytes())
    };
    write().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Reads every line of every file in `folder`.
///
/// # Errors
/// The file that can't be read, or the line that is malformed.
pub fn read(folder: &Path) -> Result<Vec<Line>, String> {
    let named = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let files = fs::read_dir(folder).and_then(|files| files.collect::<std::io::Result<Vec<_>>>());
    let mut lines = Vec::new();
    for file in files.map_err(|error| named(folder, error))? {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "tsv") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| named(&path, error))?;
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |error| format!("{}: line {number}: {error}", path.display());
            lines.push(Line::parse(line).map_err(wrong)?);
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{End, Line};

    #[test]
    fn lines_round_trip() {
        let line = Line {
            case: "permute::sizes".into(),
            device: "wgpu".into(),
            adapter: "llvmpipe (LLVM 15) [cpu]".into(),
            end: End::Refused("no kernels\tthere\n at all".into()),
            seconds: 1.25,
            launches: 12,
            kernels: [("scan", "sort::Scan"), ("scatter", "sort::Scatter<f32, 4>")]
                .map(|(name, kernel)| (name.to_owned(), kernel.to_owned()))
                .into(),
        };
        let text = line.text();
        let read = Line::parse(text.trim_end_matches('\n')).unwrap();
        let end = End::Refused("no kernels there at all".into());
        assert_eq!(read, Line { end, ..line });
        assert!(Line::parse("permute::sizes\twgpu").is_err());
        assert!(Line::parse(&text.replace("refused", "ignored")).is_err());
    }
}
