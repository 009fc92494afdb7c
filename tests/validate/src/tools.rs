//! The programs that check emitted code, the places where `scripts/setup` puts parts of CUDA, and the cached verdicts on
//! earlier texts.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use moebius_shaders::emit::Artifact;
use tempfile::NamedTempFile;

use crate::Verdict;

/// The folder where `scripts/setup` keeps what it doesn't install.
fn kept() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.unwrap_or_default().join("moebius")
}

/// The folder of the unpacked wheels, as `scripts/setup` lays it out.
fn wheels() -> PathBuf {
    kept().join("nvrtc/nvidia")
}

/// The folder of NVRTC and CUDA's headers.
pub(crate) fn cuda_runtime() -> PathBuf {
    wheels().join("cu13")
}

/// The folder of ptxas and libdevice.
pub(crate) fn cuda_nvcc() -> PathBuf {
    wheels().join("cuda_nvcc")
}

/// The versions of NVRTC and ptxas, as `scripts/setup` noted them.
pub(crate) fn cuda_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let file = wheels().with_file_name("version");
        // Without the file there is no version by which a verdict could be cached.
        let version = fs::read_to_string(file).map(|text| text.trim().to_owned());
        version.unwrap_or_else(|_| format!("of process {}", std::process::id()))
    })
}

/// The spirv-val that knows all extensions in our kernels, as `scripts/setup` found or unpacked it.
pub(crate) fn spirv_val_program() -> PathBuf {
    kept().join("spirv-tools/spirv-val")
}

/// The version of spirv-val.
fn spirv_val_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new(spirv_val_program()).arg("--version").output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    })
}

/// Tint, Google's WGSL compiler, as in Chromium.
pub(crate) fn tint() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join("tint"))
        .find(|path| path.is_file())
}

/// Writes `bytes` to a temporary file for a program to read. Tint recognises languages by file extension.
pub(crate) fn file(bytes: &[u8], end: &str) -> Result<NamedTempFile, String> {
    let write = || -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().suffix(end).tempfile()?;
        file.write_all(bytes)?;
        Ok(file)
    };
    write().map_err(|error| format!("a temporary file: {error}"))
}

/// Runs `program`, whose exit status is its verdict; a missing program is a failure.
pub(crate) fn run(program: &Path, arguments: &[&OsStr]) -> Verdict {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| {
            let program = program.display();
            format!("{program} did not start ({error}): run scripts/setup, which installs it")
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(String::from_utf8_lossy(&said).into_owned())
}

/// Validates SPIR-V for Vulkan 1.2, with cached verdicts.
pub(crate) fn spirv_val(artifact: &Artifact) -> Verdict {
    let tool = format!("spirv-val vulkan1.2 {}", spirv_val_version());
    verdict(&tool, &artifact.bytes, || spirv_val_of(&artifact.bytes))
}

/// Runs spirv-val on a module for Vulkan 1.2.
pub(crate) fn spirv_val_of(module: &[u8]) -> Verdict {
    let file = file(module, ".spv")?;
    let environment = ["--target-env", "vulkan1.2"].map(OsStr::new);
    let arguments = [environment[0], environment[1], file.path().as_os_str()];
    run(&spirv_val_program(), &arguments)
}

/// How long a verdict stays cached after its last use. Most kernels don't change from run to run, and a compiler of the same
/// version gives the same verdict.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Asks for the verdict of `tool` on `text`, or reads the cached one. `tool` names everything else that the verdict depends on:
/// program, version and options. `MOEBIUS_TEST_VERDICTS` names the cache folder; without it nothing is cached.
pub(crate) fn verdict(tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| folder(env::var_os("MOEBIUS_TEST_VERDICTS")));
    match folder {
        Some(folder) => verdict_in(folder, tool, text, ask),
        None => ask(),
    }
}

/// The cache folder, after old verdicts are removed.
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

fn verdict_in(folder: &Path, tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool.as_bytes()).update(&[0]).update(text);
    let path = folder.join(hasher.finalize().to_hex().as_str());
    if let Ok(kept) = fs::read_to_string(&path) {
        // Updates the time of last use.
        let _ = fs::write(&path, &kept);
        return if kept.is_empty() { Ok(()) } else { Err(kept) };
    }
    let verdict = ask();
    let said = match &verdict {
        Ok(()) => "",
        Err(reason) => reason,
    };
    // A verdict that can't be cached is asked for again. The file is renamed, so that no other process reads half of it.
    let fresh = path.with_extension(std::process::id().to_string());
    let _ = fs::write(&fresh, said).and_then(|()| fs::rename(&fresh, &path));
    verdict
}

/// Checks that a verdict is asked for once per tool and text, and that a refusal is cached, too.
pub(crate) fn verdicts_are_kept() -> Verdict {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    let refuse = || Err("no".to_owned());
    let never = || Err("asked again".to_owned());
    let answers = [
        verdict_in(folder, "tool 1", b"good", || Ok(())),
        verdict_in(folder, "tool 1", b"good", never),
        verdict_in(folder, "tool 1", b"bad", refuse),
        verdict_in(folder, "tool 1", b"bad", never),
        verdict_in(folder, "tool 2", b"good", refuse),
    ];
    let expected = [Ok(()), Ok(()), refuse(), refuse(), refuse()];
    if answers == expected {
        return Ok(());
    }
    Err(format!("expected {expected:?}, got {answers:?}"))
}
