//! What compilers said before about the same text. Most kernels don't change from one run to the next, and a compiler of
//! one version says the same again. `MOEBIUS_TEST_VERDICTS` names the folder; without it nothing is kept.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::Verdict;

/// Verdicts that no run has asked for in this time are removed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Asks for the verdict of `tool` on `text`, or takes what it said before. `tool` names everything else that the answer
/// depends on: program, version, options.
pub(crate) fn kept(tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| folder(std::env::var_os("MOEBIUS_TEST_VERDICTS")));
    match folder {
        Some(folder) => kept_in(folder, tool, text, ask),
        None => ask(),
    }
}

/// The folder, after old verdicts were removed.
fn folder(named: Option<OsString>) -> Option<PathBuf> {
    let folder = PathBuf::from(named.filter(|name| !name.is_empty())?);
    fs::create_dir_all(&folder).ok()?;
    for entry in fs::read_dir(&folder).ok()?.flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).ok();
        let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
        if age.is_some_and(|age| age > KEPT) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Some(folder)
}

fn kept_in(folder: &Path, tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool.as_bytes()).update(&[0]).update(text);
    let path = folder.join(hasher.finalize().to_hex().as_str());
    if let Ok(kept) = fs::read_to_string(&path) {
        // The time of its last use.
        let _ = fs::write(&path, &kept);
        return if kept.is_empty() { Ok(()) } else { Err(kept) };
    }
    let verdict = ask();
    let said = match &verdict {
        Ok(()) => "",
        Err(reason) => reason,
    };
    // One that can't be kept is asked for again. Renamed, so that no other process reads half of it.
    let fresh = path.with_extension(std::process::id().to_string());
    let _ = fs::write(&fresh, said).and_then(|()| fs::rename(&fresh, &path));
    verdict
}

/// A verdict is asked for once for each tool and text, and a refusal stays one.
pub(crate) fn are_kept() -> Verdict {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    let refuse = || Err("no".to_owned());
    let never = || Err("asked again".to_owned());
    let answers = [
        kept_in(folder, "tool 1", b"good", || Ok(())),
        kept_in(folder, "tool 1", b"good", never),
        kept_in(folder, "tool 1", b"bad", refuse),
        kept_in(folder, "tool 1", b"bad", never),
        kept_in(folder, "tool 2", b"good", refuse),
    ];
    let expected = [Ok(()), Ok(()), refuse(), refuse(), refuse()];
    if answers == expected {
        return Ok(());
    }
    Err(format!("expected {expected:?}, got {answers:?}"))
}
