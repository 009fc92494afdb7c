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
mod tests {
    use super::*;

    fn subject(number: usize) -> Subject {
        Subject {
            device: format!("vulkan card {number}"),
            driver: "1.2".to_owned(),
            kernels: "abc".to_owned(),
        }
    }

    #[test]
    fn verdicts_are_read_as_they_were_written_and_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/verdicts.json");
        assert_eq!(Verdicts::read(&file).unwrap(), Verdicts::default());
        let mut verdicts = Verdicts::default();
        for number in 0..MOST + 9 {
            let verdict = Verdict::Failed(format!("case {number}"));
            verdicts.remember(subject(number), verdict);
        }
        verdicts.remember(subject(MOST), Verdict::Passed);
        verdicts.write(&file).unwrap();
        let read = Verdicts::read(&file).unwrap();
        assert_eq!(read, verdicts);
        assert_eq!(read.0.len(), MOST);
        assert_eq!(read.on(&subject(8)), None);
        assert_eq!(read.on(&subject(MOST)), Some(&Verdict::Passed));
        let beside: Vec<_> = file.parent().unwrap().read_dir().unwrap().collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
    }

    #[test]
    fn files_that_make_no_sense_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdicts.json");
        for text in ["", "[", "{}", "[{\"device\": 1}]", "\u{1}"] {
            fs::write(&file, text).unwrap();
            assert!(Verdicts::read(&file).is_err(), "{text}");
        }
        // More than is read of a file.
        fs::write(&file, format!("[{}]", " ".repeat(MOST_BYTES as usize))).unwrap();
        assert!(Verdicts::read(&file).is_err());
    }

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn the_file_lies_in_the_cache_folder() {
        let with = |variables: &'static [(&str, &str)]| {
            file(move |name| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| value.into())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(
            with(&[("HOME", "/h/me")]),
            path("/h/me/.cache/moebius/verdicts.json")
        );
        assert_eq!(
            with(&[("HOME", "/h/me"), ("XDG_CACHE_HOME", "/c")]),
            path("/c/moebius/verdicts.json")
        );
        assert_eq!(with(&[("XDG_CACHE_HOME", "")]), None);
    }
}
