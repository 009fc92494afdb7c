//! The search for a plugin's file.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::hardware;

/// The kind of hardware that a plugin drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    /// The processor, for tests and for machines without an accelerator.
    Cpu,
    /// TPUs; the plugin also compiles for them on machines that have none.
    Tpu,
    /// NVIDIA GPUs.
    Cuda,
}

/// A wheel's name, and the plugin's path in a folder of Python packages.
type Wheel = (&'static str, &'static str);

impl Platform {
    /// Every platform.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Tpu, Self::Cuda];

    /// The environment variable that names the plugin's file.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Cpu => "MOEBIUS_PJRT_CPU",
            Self::Tpu => "MOEBIUS_PJRT_TPU",
            Self::Cuda => "MOEBIUS_PJRT_CUDA",
        }
    }

    /// The command that installs the plugin.
    pub const fn install(self) -> &'static str {
        match self {
            Self::Cpu => "pip install xla-cpu-pjrt==0.0.1",
            Self::Tpu => "pip install libtpu",
            Self::Cuda => "pip install jax-cuda12-pjrt",
        }
    }

    /// The platform's names in `PJRT_NAMES_AND_LIBRARY_PATHS`.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &["cpu", "xla_cpu", "xla_cpu_pjrt"],
            Self::Tpu => &["tpu", "libtpu"],
            Self::Cuda => &[
                "cuda",
                "cuda12",
                "cuda13",
                "xla_cuda",
                "xla_cuda12",
                "xla_cuda13",
                "gpu",
            ],
        }
    }

    const fn wheels(self) -> &'static [Wheel] {
        match self {
            Self::Cpu => &[("xla-cpu-pjrt", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")],
            Self::Tpu => &[("libtpu", "libtpu/libtpu.so")],
            Self::Cuda => &[
                (
                    "jax-cuda13-pjrt",
                    "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
                ),
                (
                    "jax-cuda12-pjrt",
                    "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
                ),
            ],
        }
    }

    /// The plugin's file names in folders of libraries.
    const fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &["xla_cpu_pjrt.so", "pjrt_c_api_cpu_plugin.so"],
            Self::Tpu => &["libtpu.so", "pjrt_c_api_tpu_plugin.so"],
            Self::Cuda => &["xla_cuda_plugin.so", "pjrt_c_api_cuda_plugin.so"],
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Tpu => "tpu",
            Self::Cuda => "cuda",
        })
    }
}

/// The process's settings for plugins, as data: only [`Self::from_process`] reads environment variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The plugin files that the user names, by an option of a command or by [`Platform::variable`].
    pub plugins: BTreeMap<Platform, PathBuf>,
    /// The value of `TPU_LIBRARY_PATH`.
    pub tpu_library: Option<PathBuf>,
    /// The names and files in `PJRT_NAMES_AND_LIBRARY_PATHS`.
    pub named: Vec<(String, PathBuf)>,
    /// Folders with Python packages in `lib/python3*/site-packages`, nearest first.
    pub prefixes: Vec<PathBuf>,
    /// Moebius's folder of unpacked wheels, each in a folder of its name and version.
    pub wheels: Option<PathBuf>,
    /// The folder where compiled programs are kept, from `MOEBIUS_XLA_CACHE`.
    pub programs: Option<PathBuf>,
    /// Folders of shared libraries.
    pub library_folders: Vec<PathBuf>,
    /// The value of `XLA_FLAGS`, which every plugin reads by itself. A plugin reports an unknown flag and ends the
    /// process.
    pub xla_flags: Option<String>,
    /// The value of `LIBTPU_INIT_ARGS`, which libtpu reads by itself.
    pub libtpu_flags: Option<String>,
    /// Whether `TPU_SKIP_MDS_QUERY` is set, to whatever value.
    pub tpu_metadata_decided: bool,
    /// The folder that has a folder for each PCI device.
    pub pci_devices: PathBuf,
}

impl Environment {
    /// Whether the PCI bus shows hardware of `platform`; loads no plugin. A plugin may still find a device that no bus
    /// shows, such as a GPU that a virtual machine shares.
    pub fn has_hardware(&self, platform: Platform) -> bool {
        match platform {
            Platform::Cpu => true,
            Platform::Tpu => hardware::has_tpu(&self.pci_devices),
            Platform::Cuda => hardware::has_nvidia(&self.pci_devices),
        }
    }

    /// Reads this process's environment variables.
    pub fn from_process() -> Self {
        let path = |name: &str| set(name).map(PathBuf::from);
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        let home = path("HOME");
        let under_home = |folder: &str| home.as_ref().map(|home| home.join(folder));
        let named_file = |platform: Platform| Some((platform, path(platform.variable())?));
        let caches = path("XDG_CACHE_HOME").or_else(|| under_home(".cache"));
        let searched = set("LD_LIBRARY_PATH").unwrap_or_default();
        let searched = env::split_paths(&searched).filter(|folder| !folder.as_os_str().is_empty());
        let usual = [
            Some("/usr/local/lib".into()),
            under_home(".local/lib"),
            Some("/usr/lib".into()),
            Some(format!("/usr/lib/{}-linux-gnu", env::consts::ARCH).into()),
        ];
        let prefixes = [
            path("VIRTUAL_ENV"),
            path("CONDA_PREFIX"),
            under_home(".local"),
            Some("/usr/local".into()),
            Some("/usr".into()),
        ];
        Self {
            plugins: Platform::ALL.into_iter().filter_map(named_file).collect(),
            tpu_library: path("TPU_LIBRARY_PATH"),
            named: named(&text("PJRT_NAMES_AND_LIBRARY_PATHS").unwrap_or_default()),
            prefixes: prefixes.into_iter().flatten().collect(),
            wheels: caches.map(|caches| caches.join("moebius/pjrt")),
            programs: path("MOEBIUS_XLA_CACHE"),
            library_folders: searched.chain(usual.into_iter().flatten()).collect(),
            xla_flags: text("XLA_FLAGS"),
            libtpu_flags: text("LIBTPU_INIT_ARGS"),
            tpu_metadata_decided: env::var_os("TPU_SKIP_MDS_QUERY").is_some(),
            pci_devices: "/sys/bus/pci/devices".into(),
        }
    }

    /// The flags that a plugin of the platform reads, on which compiled programs depend. If `XLA_FLAGS` names a file, the
    /// file's content.
    pub(crate) fn flags(&self, platform: Platform) -> String {
        let xla = self.xla_flags.as_deref().map(str::trim).unwrap_or_default();
        let file = if xla.starts_with('-') {
            None
        } else {
            std::fs::read_to_string(xla).ok()
        };
        let libtpu = match platform {
            Platform::Tpu => self.libtpu_flags.as_deref().unwrap_or_default(),
            _ => "",
        };
        format!("{}\n{libtpu}", file.as_deref().unwrap_or(xla))
    }

    /// Sets `path` as the file of the platform's plugin.
    #[must_use]
    pub fn with_plugin(mut self, platform: Platform, path: impl Into<PathBuf>) -> Self {
        self.plugins.insert(platform, path.into());
        self
    }
}

/// A variable's value; `None` when it is unset or empty.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Parses `name:/path,name:/path`; parts without a colon are ignored.
fn named(text: &str) -> Vec<(String, PathBuf)> {
    let parts = text
        .split(',')
        .filter_map(|part| part.trim().split_once(':'));
    parts
        .map(|(name, path)| (name.to_ascii_lowercase(), path.into()))
        .collect()
}

/// The error that no plugin was found: every place that was searched, and what to install.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NotFound {
    /// The platform whose plugin was searched for.
    pub platform: Platform,
    /// The variable that named the file, if one did: then no other place is searched.
    pub named_by: Option<&'static str>,
    /// Every file or folder that was searched, in order.
    pub looked_at: Vec<PathBuf>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let platform = self.platform;
        if let Some(named_by) = self.named_by {
            write!(
                f,
                "{named_by} names a plugin for {platform} that is not there:"
            )?;
        } else {
            let (install, variable) = (platform.install(), platform.variable());
            write!(
                f,
                "no PJRT plugin for {platform}: install it with `{install}`, or name its file in {variable}; looked at"
            )?;
        }
        let mut separator = "";
        for path in &self.looked_at {
            write!(f, "{separator} {}", path.display())?;
            separator = ",";
        }
        Ok(())
    }
}

/// Finds the file of the platform's plugin.
///
/// The first of these is taken: a file that the user names; `TPU_LIBRARY_PATH`, for TPUs;
/// `PJRT_NAMES_AND_LIBRARY_PATHS`; Python's packages; unpacked wheels in [`Environment::wheels`], the newest first;
/// folders of libraries. A file that is named but does not exist is an error: a user's choice is never passed over.
///
/// # Errors
///
/// [`NotFound`] with every place that was searched.
pub fn locate(platform: Platform, environment: &Environment) -> Result<PathBuf, NotFound> {
    let not_found = |named_by, looked_at| NotFound {
        platform,
        named_by,
        looked_at,
    };
    if let Some((named_by, path)) = chosen(platform, environment) {
        if path.is_file() {
            return Ok(path.to_owned());
        }
        return Err(not_found(Some(named_by), vec![path.to_owned()]));
    }
    let mut looked_at = Vec::new();
    for candidate in candidates(platform, environment) {
        if candidate.is_file() {
            return Ok(candidate);
        }
        looked_at.push(candidate);
    }
    Err(not_found(None, looked_at))
}

/// The file that the user has named, and the variable that names it.
fn chosen(platform: Platform, environment: &Environment) -> Option<(&'static str, &Path)> {
    if let Some(path) = environment.plugins.get(&platform) {
        return Some((platform.variable(), path));
    }
    if let (Platform::Tpu, Some(path)) = (platform, &environment.tpu_library) {
        return Some(("TPU_LIBRARY_PATH", path));
    }
    let mut named = environment.named.iter();
    let (_, path) = named.find(|(name, _)| platform.names().contains(&name.as_str()))?;
    Some(("PJRT_NAMES_AND_LIBRARY_PATHS", path))
}

/// The files where a plugin usually is; where no package or wheel is unpacked, a pattern stands for the folder.
fn candidates(platform: Platform, environment: &Environment) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for prefix in &environment.prefixes {
        let folders = package_folders(prefix);
        if folders.is_empty() {
            found.push(prefix.join("lib/python3*/site-packages"));
        }
        for folder in folders {
            found.extend(platform.wheels().iter().map(|(_, file)| folder.join(file)));
        }
    }
    if let Some(wheels) = &environment.wheels {
        for (wheel, file) in platform.wheels() {
            let unpacked = versions(wheels, wheel);
            if unpacked.is_empty() {
                found.push(wheels.join(format!("{wheel}-*")).join(file));
            }
            found.extend(unpacked.into_iter().map(|folder| folder.join(file)));
        }
    }
    for folder in &environment.library_folders {
        found.extend(platform.libraries().iter().map(|file| folder.join(file)));
    }
    found
}

/// The folders of Python packages under `prefix`.
fn package_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        let mut pythons = entries(&prefix.join(lib), "python3");
        // The newest Python first, by number: 3.11 before 3.9.
        pythons.sort_by_key(|folder| std::cmp::Reverse(numbers(folder)));
        for python in pythons {
            let packages = ["site-packages", "dist-packages"].map(|name| python.join(name));
            found.extend(packages.into_iter().filter(|folder| folder.is_dir()));
        }
    }
    found
}

/// The folders `wheel-VERSION` under `wheels`, newest version first.
fn versions(wheels: &Path, wheel: &str) -> Vec<PathBuf> {
    let mut found = entries(wheels, &format!("{wheel}-"));
    found.retain(|folder| folder.is_dir());
    found.sort_by_key(|folder| std::cmp::Reverse(numbers(folder)));
    found
}

/// The entries of a folder whose names start with `start`; a folder that cannot be read has none.
fn entries(folder: &Path, start: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let named = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(start)
    });
    named.map(|entry| entry.path()).collect()
}

/// The numbers in a file's name, by which versions compare.
fn numbers(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = name.split(|letter: char| !letter.is_ascii_digit());
    digits.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
