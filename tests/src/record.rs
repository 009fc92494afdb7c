//! What ran: every launch of this process, and the record that conformance leaves of its cases.
//!
//! Where the environment variable `MOEBIUS_TEST_RECORD` names a folder, conformance appends a line for each case and
//! device to `cases-<process id>.tsv` there. Lines have eight fields with tabs between them:
//!
//! 1. the case, `grouped_gemm::bias`
//! 2. the device, as `MOEBIUS_TEST_DEVICES` names it: `cpu`, `wgpu`, `flex`, `xla:cpu`, ...
//! 3. the adapter and its kind: `llvmpipe (LLVM 15.0.6, 256 bits) [cpu]`
//! 4. `ran`, `refused` or `failed`
//! 5. why it was refused; empty otherwise
//! 6. seconds, with three decimals
//! 7. how many kernels it launched, Burn's included
//! 8. the kernels of ours among them: `name=type|name=type`, by the names of `moebius_shaders::kernels()` and the paths of their
//!    Rust types; empty for a case that compares no results with a reference

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::{env, fs};

use cubecl::logging::{LaunchObservation, LaunchObserver};

/// The environment variable that names the folder.
pub const FOLDER: &str = "MOEBIUS_TEST_RECORD";

/// A kernel that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The path of its Rust type.
    pub kernel: &'static str,
    /// Its name among `moebius_shaders::kernels()`, or one built like those; `None` for kernels of Burn's.
    pub name: Option<String>,
}

impl Launch {
    /// Whether the kernel is one of `moebius-shaders`.
    pub fn ours(&self) -> bool {
        self.kernel.starts_with("moebius_shaders::")
    }

    /// The name and the type of a kernel that has a name.
    pub fn named(&self) -> Option<(String, String)> {
        Some((self.name.clone()?, self.kernel.to_owned()))
    }
}

static LAUNCHES: Mutex<Vec<Launch>> = Mutex::new(Vec::new());

thread_local! {
    /// What `moebius-shaders` is about to launch.
    static NAME: Cell<Option<String>> = const { Cell::new(None) };
}

fn launches() -> MutexGuard<'static, Vec<Launch>> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CubeCL tells it every launch of the process, on the thread that issues it.
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

/// Listens to all launches from the first call on, for as long as the process lives.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        moebius_shaders::launched::listen(|name| NAME.set(Some(name)));
        std::mem::forget(LaunchObservation::new(Arc::new(Observer)));
    });
}

/// Forgets the launches so far.
pub fn forget() {
    launches().clear();
}

/// What `work` launches, on any thread; it has to wait for the device.
pub fn launched_by(work: impl FnOnce()) -> Vec<Launch> {
    let before = launches().len();
    work();
    launches()[before..].to_vec()
}

/// What was launched since the last [`forget`].
pub fn launched() -> Vec<Launch> {
    launches().clone()
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran, and its checks held.
    Ran,
    /// The device refused it for this reason, as it must.
    Refused(String),
    /// Anything else.
    Failed,
}

/// A line of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// `family::case`.
    pub case: String,
    /// The device's name in `MOEBIUS_TEST_DEVICES`.
    pub device: String,
    /// The adapter's name and kind.
    pub adapter: String,
    /// How it ended.
    pub end: End,
    /// How long it took.
    pub seconds: f64,
    /// Launches, Burn's included.
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

    /// The line that `text` is.
    ///
    /// # Errors
    /// What is wrong with it.
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

/// The folder of the record, where one is asked for.
pub fn folder() -> Option<PathBuf> {
    let named = env::var_os(FOLDER).filter(|name| !name.is_empty());
    named.map(PathBuf::from)
}

/// Appends `line` to this process's file in `folder`.
///
/// # Panics
/// When the file can't be written: a record that lacks cases would say that they didn't run.
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

/// Every line of every file in `folder`.
///
/// # Errors
/// Which file can't be read, or which line makes no sense.
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
