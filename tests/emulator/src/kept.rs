//! The folder of compiled kernels, which the next process finds again.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

/// Objects that no process has asked for in this time are removed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The folder, after old objects were removed; the reason where it can't be made.
pub(crate) fn folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = place();
        let swept = fs::create_dir_all(&folder).and_then(|()| sweep(&folder));
        swept
            .map(|()| folder.clone())
            .map_err(|error| format!("{}: {error}", folder.display()))
    });
    folder.as_deref().map_err(Clone::clone)
}

/// Whether an object of this name is kept; if so, it was used now.
pub(crate) fn is_kept(object: &Path) -> bool {
    let Ok(file) = fs::File::open(object) else {
        return false;
    };
    // Of a folder that can't be written to, nothing is removed either.
    let _ = file.set_modified(SystemTime::now());
    true
}

/// `$MOEBIUS_EMULATOR_CACHE`, else a folder of the user's.
fn place() -> PathBuf {
    if let Some(folder) = env::var_os("MOEBIUS_EMULATOR_CACHE") {
        return PathBuf::from(folder);
    }
    let home = env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from);
    home.join(".cache/moebius/emulator")
}

fn sweep(folder: &Path) -> io::Result<()> {
    let now = SystemTime::now();
    for entry in fs::read_dir(folder)?.flatten() {
        let used = entry.metadata().and_then(|data| data.modified());
        let age = used.ok().and_then(|used| now.duration_since(used).ok());
        if age.is_some_and(|age| age > KEPT) {
            // Another process may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_long_is_removed() -> io::Result<()> {
        let folder = env::temp_dir().join(format!("moebius-emulator-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let [old, used] = ["old.so", "used.so"].map(|name| folder.join(name));
        for object in [&old, &used] {
            fs::write(object, "")?;
            let long_ago = SystemTime::now() - 2 * KEPT;
            fs::File::open(object)?.set_modified(long_ago)?;
        }
        assert!(is_kept(&used) && !is_kept(&folder.join("new.so")));
        sweep(&folder)?;
        assert!(!old.exists() && used.exists());
        fs::remove_dir_all(&folder)
    }
}
