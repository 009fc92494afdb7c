//! Checks of what devices and models need around them: folders, the terminal, variables of the environment.

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

use super::check::{Check, State};
use crate::config;
use crate::devices::bytes;
use crate::hub;
use crate::trust::Trust;

/// Bytes that are written to try a folder: as many as the file of verdicts has at most.
const TRIED: usize = 256 * 1024;

/// Free bytes of the cache folder's disk below which there is a warning.
const LEAST: u64 = 64 << 20;

/// The variable that moves the user's cache folder.
const CACHES: &str = if cfg!(target_os = "macos") {
    "HOME"
} else if cfg!(windows) {
    "LOCALAPPDATA"
} else {
    "XDG_CACHE_HOME"
};

/// The variables of ours that the command reads beside those of its flags, and whether this build does; docs/environment.md says what they
/// mean.
const OURS: [(&str, bool); 8] = [
    ("MOEBIUS_API_KEYS", true),
    ("MOEBIUS_CONFIG", true),
    ("MOEBIUS_PJRT_CPU", cfg!(feature = "xla")),
    ("MOEBIUS_PJRT_CUDA", cfg!(feature = "xla")),
    ("MOEBIUS_PJRT_TPU", cfg!(feature = "xla")),
    ("MOEBIUS_PRESET", true),
    ("MOEBIUS_SIMD", true),
    ("MOEBIUS_XLA_CACHE", cfg!(feature = "xla")),
];

/// All checks of this kind. The terminal's is left out where the output isn't one.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![cache(&mut Trust::of_user()), models()];
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    checks.push(variables(names));
    if cfg!(unix) && io::stdout().is_terminal() {
        checks.push(terminal(|name| env::var(name).ok()));
    }
    checks
}

/// Whether verdicts on GPUs can be remembered.
fn cache(trust: &mut Trust) -> Check {
    let said = trust.said().join("; ");
    let check = |state, found: String| Check::new("cache folder", state, found);
    let Some(folder) = trust.folder() else {
        let found = "the environment names none, so that GPUs are checked again in every run";
        return check(State::Warning, found.to_owned()).with_fix(format!("set {CACHES}"));
    };
    let shown = folder.display();
    match tried(folder) {
        Err(error) => {
            let found = format!(
                "{shown} can't be written, so that GPUs are checked again in every run: {error}"
            );
            let fix =
                format!("let this user write there, make room, or name another folder in {CACHES}");
            check(State::Warning, found).with_fix(fix)
        }
        Ok(free) if free < LEAST => {
            let found = format!("{shown} has {} free", bytes(free));
            check(State::Warning, found).with_fix("make room on its disk".to_owned())
        }
        Ok(_) if !said.is_empty() => {
            check(State::Warning, said).with_fix("remove the file".to_owned())
        }
        Ok(free) => check(State::Ok, format!("{shown}, {} free", bytes(free))),
    }
}

/// Writes a file in the folder and removes it; returns the free bytes of the folder's disk.
fn tried(folder: &Path) -> io::Result<u64> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("doctor.{}", std::process::id()));
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0_u8; TRIED])?;
        // Some file systems notice only now that there is no room.
        file.sync_all()
    });
    // If nothing could be created there is nothing to remove; the first error is the one to tell.
    let removed = fs::remove_file(&path);
    written.and(removed)?;
    fs4::available_space(folder)
}

/// Whether models in Hugging Face's cache can be found.
fn models() -> Check {
    let check = |state, found: String| Check::new("model cache", state, found);
    let folder = match hub::cache() {
        Ok(folder) => folder,
        Err(error) => return check(State::Failed, error.to_string()).with_fix(error.hint()),
    };
    let shown = folder.display();
    match fs::read_dir(&folder) {
        Ok(entries) => {
            let models = entries.flatten().filter(|entry| {
                let name = entry.file_name();
                name.to_string_lossy().starts_with("models--")
            });
            check(State::Ok, format!("{shown}, {} models", models.count()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found = format!("{shown} isn't there yet; `moebius fetch` makes it");
            check(State::Ok, found)
        }
        Err(error) => {
            let fix = "let this user read it, or name another folder in HF_HUB_CACHE";
            check(State::Failed, format!("{shown} can't be read: {error}")).with_fix(fix.to_owned())
        }
    }
}

/// Whether all variables of ours among `names` have an effect.
fn variables(names: impl Iterator<Item = String>) -> Check {
    let idle = |name: String| match OURS.iter().find(|(ours, _)| *ours == name) {
        Some((_, true)) => None,
        Some((_, false)) => Some(format!("{name} has no effect without the feature `xla`")),
        None if config::is_variable(&name) => None,
        None => Some(format!("{name} is not read by the command")),
    };
    let ours = names.filter(|name| name.to_lowercase().starts_with("moebius_"));
    let mut idle: Vec<String> = ours.filter_map(idle).collect();
    if idle.is_empty() {
        return Check::new("variables", State::Ok, "none is set without effect");
    }
    idle.sort();
    let read: Vec<&str> = OURS.iter().map(|(name, _)| *name).collect();
    let fix = format!(
        "unset them, or write one of {}, or the variable of a flag",
        read.join(", ")
    );
    Check::new("variables", State::Warning, idle.join("; ")).with_fix(fix)
}

/// Whether the locale's characters are those that models write.
fn terminal(variable: impl Fn(&str) -> Option<String>) -> Check {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut set = names.into_iter().filter_map(variable);
    let locale = set.find(|value| !value.is_empty());
    let locale = locale.unwrap_or_else(|| "C".to_owned());
    let plain = locale.to_lowercase().replace('-', "");
    if plain.ends_with("utf8") {
        return Check::new("terminal", State::Ok, locale);
    }
    let found = format!("the locale {locale} has no UTF-8, which models write");
    Check::new("terminal", State::Warning, found).with_fix("set LC_ALL=C.UTF-8".to_owned())
}

#[cfg(test)]
#[path = "house_tests.rs"]
mod tests;
