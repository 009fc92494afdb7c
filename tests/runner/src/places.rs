//! The places of files and folders on this machine, from `scripts/places.sh`, so that the scripts and this program agree.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Files and folders; `None` for those that don't exist.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The folder of everything kept between runs.
    pub(crate) cache: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// The files that describe Mesa's and Chromium's software drivers to the Vulkan loader.
    pub(crate) lavapipe: Option<String>,
    pub(crate) swiftshader: Option<String>,
    /// The file that describes a lavapipe that takes SPIR-V, and the loader that programs need for it, unless it is the system's.
    pub(crate) spirv_driver: Option<String>,
    pub(crate) spirv_loader: Option<String>,
    /// The device file of a real GPU.
    pub(crate) gpu: Option<String>,
    pub(crate) libtpu: Option<String>,
    /// QEMU's user-mode emulator, which imitates other processors of this architecture.
    pub(crate) qemu: Option<String>,
    /// The folder of the browser's tests.
    pub(crate) browser_tests: String,
}

impl Places {
    /// Finds the places; what `scripts/setup` installs exists only after it ran.
    pub(crate) fn look(metadata: &Value) -> io::Result<Self> {
        let script = r#". scripts/places.sh
            [ "$(uname -s)" = Linux ] || { lavapipe_icd() { :; }; swiftshader_icd() { :; }; }
            printf '%s\n' "$CACHE" "$(lavapipe_icd)" "$(swiftshader_icd)" "$(spirv_icd)" "$(spirv_loader)" \
                "$(first_file /dev/dri/renderD* /dev/nvidia0)" "$(first_file "$LIBTPU_PLUGIN")" "$(command -v qemu-x86_64)" "$BROWSER_TESTS""#;
        let output = Command::new("bash").args(["-c", script]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let &[
            cache,
            lavapipe,
            swiftshader,
            spirv_driver,
            spirv_loader,
            gpu,
            libtpu,
            qemu,
            browser_tests,
        ] = &lines[..]
        else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("scripts/places.sh: {said}{text}")));
        };
        let some = |line: &str| (!line.is_empty()).then(|| line.to_owned());
        let target = metadata["target_directory"].as_str().unwrap_or("target");
        Ok(Self {
            cache: cache.into(),
            target: target.into(),
            lavapipe: some(lavapipe),
            swiftshader: some(swiftshader),
            spirv_driver: some(spirv_driver),
            spirv_loader: some(spirv_loader),
            gpu: some(gpu),
            libtpu: some(libtpu),
            qemu: some(qemu),
            browser_tests: browser_tests.to_owned(),
        })
    }

    /// The emulator's library, which stands in for NVIDIA's and AMD's drivers, as the tests' build makes it.
    pub(crate) fn software_driver(&self) -> PathBuf {
        self.target.join("debug/deps/libmoebius_emulator.so")
    }

    /// The command `moebius` that the tests' build makes.
    pub(crate) fn moebius(&self) -> String {
        self.target.join("debug/moebius").display().to_string()
    }
}

/// The newest instruction set of this processor among those that results depend on.
pub(crate) fn instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return "AVX2";
        }
    }
    std::env::consts::ARCH
}

/// The commit that is checked out.
pub(crate) fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

/// Whether the tree has uncommitted changes.
pub(crate) fn uncommitted() -> bool {
    let output = Command::new("git").args(["status", "--porcelain"]).output();
    output.is_ok_and(|output| !output.stdout.is_empty())
}

/// Makes a folder that only this user can access, removed after the run.
pub(crate) fn scratch() -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("moebius-tests-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(folder)
}

/// Replaces a file atomically: readers see either the old or the new contents.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, path)
}

/// Copies the files of a folder into another, which is created if necessary; their names get the prefix `before`.
pub(crate) fn copy_files(from: &Path, to: &Path, before: &str) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        std::fs::copy(entry.path(), to.join(name))?;
    }
    Ok(())
}

/// A path as a string for an argument.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
