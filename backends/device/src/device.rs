//! A device's name: the text that a user types, and the value that programs pass on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A device, named by runtime and index: `auto`, `wgpu[:n]`, `vulkan[:n]`, `cuda[:n]`, `rocm[:n]`, `cpu`, `flex`, or
/// `xla:` with a platform: `xla:cpu[:n]`, `xla:tpu[:n]`, `xla:cuda[:n]`.
///
/// The text form round-trips through [`FromStr`] and [`Display`](fmt::Display); serde uses it too. An index counts the
/// runtime's devices from 0 in the order of [`discover`](crate::discover): the drivers' own order for `cuda` and
/// `rocm`; for `wgpu` and `vulkan` discrete GPUs first, then integrated, virtual, unclassified and software adapters,
/// each kind in the driver's order. Without an index the name means index 0, the best device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// The best device of this build and this machine: see [`choose`](crate::choose).
    #[default]
    Auto,
    /// An adapter through wgpu, on the graphics API that CubeCL chooses.
    Wgpu(Option<u32>),
    /// An adapter through wgpu on Vulkan, with kernels compiled to SPIR-V.
    Vulkan(Option<u32>),
    /// An NVIDIA GPU through CUDA.
    Cuda(Option<u32>),
    /// An AMD GPU through ROCm/HIP.
    Rocm(Option<u32>),
    /// The processor through CubeCL and LLVM.
    Cpu,
    /// The processor in plain Rust (Burn Flex).
    Flex,
    /// A device that XLA compiles for, through the platform's PJRT plugin.
    Xla(XlaPlatform, Option<u32>),
}

/// A platform that XLA compiles for; each has a PJRT plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum XlaPlatform {
    /// The processor.
    Cpu,
    /// Google's TPUs.
    Tpu,
    /// NVIDIA's GPUs.
    Cuda,
}

impl XlaPlatform {
    /// Every platform.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Tpu, Self::Cuda];

    /// The platform's name: `cpu`, `tpu` or `cuda`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Tpu => "tpu",
            Self::Cuda => "cuda",
        }
    }
}

/// The reason why a text does not name a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDeviceError {
    /// The part before the colon names no runtime.
    #[error(
        "expected a device, one of {}, got `{got}`{}",
        Device::EXPECTED,
        suggestion(*.nearest)
    )]
    UnknownName {
        /// The whole text.
        got: String,
        /// The name of the runtime that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The part after the colon is not an index.
    #[error("expected a whole number after `{name}:`, such as `{name}:0`, got `{got}`")]
    BadIndex {
        /// The runtime's name.
        name: &'static str,
        /// The whole text.
        got: String,
    },
    /// The runtime has one device and takes no index.
    #[error("expected `{name}`, which takes no index, got `{got}`")]
    UnexpectedIndex {
        /// The runtime's name.
        name: &'static str,
        /// The whole text.
        got: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl Device {
    /// Every form a device's name can take, for help texts.
    pub const EXPECTED: &'static str = "auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex, xla:cpu[:n], xla:tpu[:n], xla:cuda[:n]";

    /// Every runtime, without an index, in the order in which [`discover`](crate::discover) lists them; XLA's platforms last.
    pub const RUNTIMES: [Self; 9] = [
        Self::Cuda(None),
        Self::Rocm(None),
        Self::Vulkan(None),
        Self::Wgpu(None),
        Self::Cpu,
        Self::Flex,
        Self::Xla(XlaPlatform::Cpu, None),
        Self::Xla(XlaPlatform::Tpu, None),
        Self::Xla(XlaPlatform::Cuda, None),
    ];

    /// Names that other programs use, each with this crate's; they are suggested, not accepted.
    const SYNONYMS: [(&'static str, &'static str); 15] = [
        ("amd", "rocm"),
        ("default", "auto"),
        ("gpu", "auto"),
        ("hip", "rocm"),
        ("host", "flex"),
        ("llvm", "cpu"),
        ("metal", "wgpu"),
        ("ndarray", "flex"),
        ("nvidia", "cuda"),
        ("opengl", "wgpu"),
        ("pjrt", "xla:cpu"),
        ("spirv", "vulkan"),
        ("tpu", "xla:tpu"),
        ("webgpu", "wgpu"),
        ("xla", "xla:cpu"),
    ];

    /// Every name, without an index.
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Auto).chain(Self::RUNTIMES)
    }

    /// The runtime's name without an index.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Wgpu(_) => "wgpu",
            Self::Vulkan(_) => "vulkan",
            Self::Cuda(_) => "cuda",
            Self::Rocm(_) => "rocm",
            Self::Cpu => "cpu",
            Self::Flex => "flex",
            Self::Xla(XlaPlatform::Cpu, _) => "xla:cpu",
            Self::Xla(XlaPlatform::Tpu, _) => "xla:tpu",
            Self::Xla(XlaPlatform::Cuda, _) => "xla:cuda",
        }
    }

    /// The cargo feature that builds the runtime; `auto` has none.
    pub fn feature(&self) -> &'static str {
        match self {
            Self::Xla(..) => "xla",
            other => other.name(),
        }
    }

    /// The index among the runtime's devices, if one was given.
    pub fn index(&self) -> Option<u32> {
        match *self {
            Self::Wgpu(index)
            | Self::Vulkan(index)
            | Self::Cuda(index)
            | Self::Rocm(index)
            | Self::Xla(_, index) => index,
            Self::Auto | Self::Cpu | Self::Flex => None,
        }
    }

    /// The device of the same runtime at `index`; a runtime without indices stays as it is.
    pub(crate) fn at(self, index: u32) -> Self {
        match self {
            Self::Wgpu(_) => Self::Wgpu(Some(index)),
            Self::Vulkan(_) => Self::Vulkan(Some(index)),
            Self::Cuda(_) => Self::Cuda(Some(index)),
            Self::Rocm(_) => Self::Rocm(Some(index)),
            Self::Xla(platform, _) => Self::Xla(platform, Some(index)),
            Self::Auto | Self::Cpu | Self::Flex => self,
        }
    }

    /// The known name closest to `got`: that of a synonym, else one at most two edits away.
    fn nearest(got: &str) -> Option<&'static str> {
        let got = got.trim().to_ascii_lowercase();
        if let Some((_, ours)) = Self::SYNONYMS.iter().find(|(theirs, _)| *theirs == got) {
            return Some(ours);
        }
        Self::all()
            .map(|device| (edit_distance(&got, device.name()), device.name()))
            .filter(|&(distance, name)| distance <= 2 && distance < name.len())
            .min_by_key(|&(distance, _)| distance)
            .map(|(_, name)| name)
    }
}

/// The number of insertions, deletions and substitutions between `a` and `b`. It gives up past 16 characters, so that a
/// long text costs nothing.
fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > 16 {
        return a.len();
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index() {
            Some(index) => f.pad(&format!("{}:{index}", self.name())),
            None => f.pad(self.name()),
        }
    }
}

impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, index) = split(text);
        let device = Self::all().find(|device| device.name() == name);
        let device = device.ok_or_else(|| ParseDeviceError::UnknownName {
            got: text.to_owned(),
            nearest: Self::nearest(name),
        })?;
        let Some(index) = index else {
            return Ok(device);
        };
        if matches!(device, Self::Auto | Self::Cpu | Self::Flex) {
            return Err(ParseDeviceError::UnexpectedIndex {
                name: device.name(),
                got: text.to_owned(),
            });
        }
        // Only digits are accepted: `u32::from_str` takes a leading `+`, which would not round-trip.
        let digits = index.bytes().all(|byte| byte.is_ascii_digit());
        match index.parse() {
            Ok(index) if digits => Ok(device.at(index)),
            _ => Err(ParseDeviceError::BadIndex {
                name: device.name(),
                got: text.to_owned(),
            }),
        }
    }
}

/// Splits a name into the runtime's name and what follows its colon. XLA's names contain a colon of their own.
fn split(text: &str) -> (&str, Option<&str>) {
    let start = text.strip_prefix("xla:").map_or(0, |_| "xla:".len());
    match text[start..].split_once(':') {
        Some((name, index)) => (&text[..start + name.len()], Some(index)),
        None => (text, None),
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
