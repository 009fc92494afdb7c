//! The verdicts on devices that are remembered between runs.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The most verdicts that are kept; the oldest go first.
const MOST: usize = 64;
/// The most bytes of a file that is read.
const MOST_BYTES: u64 = 256 * 1024;

/// What a verdict is about. Another driver or other kernels are another subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The runtime and the name of the adapter.
    pub(crate) device: String,
    /// The driver's version; empty where the system doesn't tell.
    pub(crate) driver: String,
    /// The fingerprint of our kernels.
    pub(crate) kernels: String,
}

/// What the bundled cases said about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// All of them pass.
    Passed,
    /// Not all of them do, and this is what is wrong.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    subject: Subject,
    verdict: Verdict,
}

/// All remembered verdicts, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts(Vec<Entry>);

impl Verdicts {
    /// Those in `file`: none where there is no such file.
    ///
    /// # Errors
    /// The system's words, or that the file makes no sense.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        let opened = match fs::File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        opened.take(MOST_BYTES).read_to_string(&mut text)?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    /// Puts them in `file`, which other processes see as it was or as it will be.
    ///
    /// # Errors
    /// The system's words.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let beside = file.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&beside, serde_json::to_vec_pretty(&self.0)?)
            .and_then(|()| fs::rename(&beside, file));
        if written.is_err() {
            // Its name is of this process, so nothing else removes it; the first error is the one to tell.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The verdict on `subject`.
    pub(crate) fn on(&self, subject: &Subject) -> Option<&Verdict> {
        let found = self.0.iter().rfind(|entry| entry.subject == *subject);
        found.map(|entry| &entry.verdict)
    }

    /// Remembers a verdict instead of older ones on the same device and kernels.
    pub(crate) fn remember(&mut self, subject: Subject, verdict: Verdict) {
        self.0.retain(|entry| entry.subject != subject);
        self.0.push(Entry { subject, verdict });
        let over = self.0.len().saturating_sub(MOST);
        self.0.drain(..over);
    }
}

/// The file of the verdicts in the user's cache folder, as the variables of the environment tell it.
pub(crate) fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| {
        let folder = variable(name).filter(|value| !value.is_empty());
        folder.map(PathBuf::from)
    };
    let caches = if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
    };
    Some(caches?.join("moebius").join("verdicts.json"))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
