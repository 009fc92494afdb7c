//! Programs that judge emitted code, where `scripts/setup` puts the parts of CUDA, and what compilers said before about the same text.

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

/// Where `scripts/setup` keeps what it doesn't install.
fn kept() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.unwrap_or_default().join("moebius")
}

/// The folder of the wheels, laid out as `scripts/setup` unpacks them.
fn wheels() -> PathBuf {
    kept().join("nvrtc/nvidia")
}

/// NVRTC and the headers of CUDA.
pub(crate) fn cuda_runtime() -> PathBuf {
    wheels().join("cu13")
}

/// ptxas and libdevice.
pub(crate) fn cuda_nvcc() -> PathBuf {
    wheels().join("cuda_nvcc")
}

/// The versions of NVRTC and ptxas, as `scripts/setup` wrote them down.
pub(crate) fn cuda_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let file = wheels().with_file_name("version");
        // Without the file there is no version that a verdict could be kept for.
        let version = fs::read_to_string(file).map(|text| text.trim().to_owned());
        version.unwrap_or_else(|_| format!("of process {}", std::process::id()))
    })
}

/// The spirv-val that knows all extensions of our kernels, as `scripts/setup` found or unpacked it.
pub(crate) fn spirv_val_program() -> PathBuf {
    kept().join("spirv-tools/spirv-val")
}

/// Its version.
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

/// Google's WGSL compiler, the one in Chromium.
pub(crate) fn tint() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join("tint"))
        .find(|path| path.is_file())
}

/// A file of `bytes` for a program to read, removed when it is dropped. Tint knows languages by the ends of names.
pub(crate) fn file(bytes: &[u8], end: &str) -> Result<NamedTempFile, String> {
    let write = || -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().suffix(end).tempfile()?;
        file.write_all(bytes)?;
        Ok(file)
    };
    write().map_err(|error| format!("a temporary file: {error}"))
}

/// Runs `program`, whose exit status is its verdict; one that is missing is a failure.
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

/// SPIR-V of Vulkan 1.2.
pub(crate) fn spirv_val(artifact: &Artifact) -> Verdict {
    let tool = format!("spirv-val vulkan1.2 {}", spirv_val_version());
    verdict(&tool, &artifact.bytes, || spirv_val_of(&artifact.bytes))
}

/// What spirv-val says now of a module of Vulkan 1.2.
pub(crate) fn spirv_val_of(module: &[u8]) -> Verdict {
    let file = file(module, ".spv")?;
    let environment = ["--target-env", "vulkan1.2"].map(OsStr::new);
    let arguments = [environment[0], environment[1], file.path().as_os_str()];
    run(&spirv_val_program(), &arguments)
}

/// Verdicts that no run has asked for in this time are removed. Most kernels don't change from one run to the next, and a compiler of
/// one version says the same again.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Asks for the verdict of `tool` on `text`, or takes what the tool said before. `tool` names everything else that the answer
/// depends on: program, version, options. `MOEBIUS_TEST_VERDICTS` names the folder of verdicts; without it nothing is kept.
pub(crate) fn verdict(tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| folder(env::var_os("MOEBIUS_TEST_VERDICTS")));
    match folder {
        Some(folder) => verdict_in(folder, tool, text, ask),
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

fn verdict_in(folder: &Path, tool: &str, text: &[u8], ask: impl FnOnce() -> Verdict) -> Verdict {
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
