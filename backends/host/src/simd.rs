//! Which vector instructions our own code for the processor uses: the widest that there are, or a
//! narrower set that the process is held to.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Vector instructions of a processor, the wider the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Simd {
    /// What the compiler makes of plain code for any processor of the kind.
    Portable,
    /// 128 bits of WebAssembly.
    Simd128,
    /// 128 bits of AArch64.
    Neon,
    /// 256 bits of x86-64, with fused multiply-adds.
    Avx2,
    /// 512 bits of x86-64: F, BW, CD, DQ and VL.
    Avx512,
}

/// Why a process isn't held to a set of vector instructions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimdError {
    /// There is no set of this name.
    #[error("instruction set: expected {}, got `{got}`", names(&Simd::ALL))]
    Unknown {
        /// What was written.
        got: String,
    },
    /// This processor lacks it.
    #[error("instruction set: expected one of this processor's, {}, got {asked}", names(.available))]
    Missing {
        /// What was asked for.
        asked: Simd,
        /// What there is, the widest first.
        available: Vec<Simd>,
    },
    /// Something has run already.
    #[error("instruction set: {used} is in use already, got {asked}; ask before anything runs")]
    InUse {
        /// What was asked for.
        asked: Simd,
        /// What has run.
        used: Simd,
    },
}

static USED: OnceLock<Simd> = OnceLock::new();

/// What our own code for the processor uses in this process: the first call, or
/// [`limit_simd`] before it, decides for good.
///
/// Portable bodies on `flex` ask this before they choose what they were compiled for. CubeCL's
/// kernels on `cpu` don't: LLVM compiles them for all that the processor has.
pub fn simd() -> Simd {
    *USED.get_or_init(Simd::widest)
}

/// Holds our own code to `to`. Call it before anything runs.
///
/// # Errors
/// [`SimdError`] where the processor lacks it, or another is in use.
pub fn limit_simd(to: Simd) -> Result<(), SimdError> {
    let available = Simd::available();
    if !available.contains(&to) {
        let asked = to;
        return Err(SimdError::Missing { asked, available });
    }
    let used = *USED.get_or_init(|| to);
    if used == to {
        return Ok(());
    }
    Err(SimdError::InUse { asked: to, used })
}

impl Simd {
    /// Every set, the widest first.
    pub const ALL: [Self; 5] = [
        Self::Avx512,
        Self::Avx2,
        Self::Neon,
        Self::Simd128,
        Self::Portable,
    ];

    /// Its name: `avx512`, `avx2`, `neon`, `simd128` or `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Simd128 => "simd128",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Those of this processor, the widest first; the last is [`Simd::Portable`].
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|set| set.is_here()).collect()
    }

    /// The widest of this processor.
    pub fn widest() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }

    fn is_here(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Simd128 => cfg!(all(target_family = "wasm", target_feature = "simd128")),
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Avx2 => has_avx2(),
            Self::Avx512 => has_avx2() && has_avx512(),
        }
    }
}

/// What code for x86-64-v3 is compiled with, as far as vectors go.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx512() -> bool {
    false
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Simd {
    type Err = SimdError;

    fn from_str(text: &str) -> Result<Self, SimdError> {
        let found = Self::ALL.into_iter().find(|set| set.name() == text);
        found.ok_or_else(|| SimdError::Unknown {
            got: text.to_owned(),
        })
    }
}

/// Names in a sentence.
fn names(sets: &[Simd]) -> String {
    let names: Vec<&str> = sets.iter().map(|set| set.name()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
#[path = "simd_tests.rs"]
mod tests;
