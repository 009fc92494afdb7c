//! The vector instructions that this crate's code uses: the widest of the processor, or a narrower set that the process is limited to.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Sets of vector instructions, ordered from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Simd {
    /// Plain code, compiled for any processor of the architecture.
    Portable,
    /// 128 bits of WebAssembly.
    Simd128,
    /// 128 bits of AArch64.
    Neon,
    /// 256 bits of x86-64, with fused multiply-adds.
    Avx2,
    /// 512 bits of x86-64: F, BW, CD, DQ and VL.
    Avx512,
    /// [`Self::Avx512`] with the BF16 instructions, which multiply pairs of bf16 numbers. They round sums in another way than f32 multiply-adds,
    /// so that a product of two bf16 factors has other last bits than the other sets give.
    Avx512Bf16,
}

/// The reason why a process can't be limited to a set of vector instructions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimdError {
    /// No set has this name.
    #[error("instruction set: expected {}, got `{got}`", names(&Simd::ALL))]
    Unknown {
        /// The name that was given.
        got: String,
    },
    /// The processor lacks the set.
    #[error("instruction set: expected one of this processor's, {}, got {asked}", names(.available))]
    Missing {
        /// The requested set.
        asked: Simd,
        /// The available sets, the widest first.
        available: Vec<Simd>,
    },
    /// Code has run already, with another set.
    #[error("instruction set: {used} is in use already, got {asked}; ask before anything runs")]
    InUse {
        /// The requested set.
        asked: Simd,
        /// The set in use.
        used: Simd,
    },
}

static USED: OnceLock<Simd> = OnceLock::new();

/// Returns the vector instructions that this crate's code uses in this process; the first call, or [`limit_simd`] before it, decides for
/// good.
///
/// Code for `flex` calls this to choose among its compiled versions. CubeCL's kernels on `cpu` don't: LLVM compiles them for all
/// instructions of the processor.
pub fn simd() -> Simd {
    *USED.get_or_init(Simd::widest)
}

/// Limits this crate's code to the vector instructions `to`. Call it before anything else runs.
///
/// # Errors
/// [`SimdError`] if the processor lacks the set, or another set is in use.
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
    /// All sets, the widest first.
    pub const ALL: [Self; 6] = [
        Self::Avx512Bf16,
        Self::Avx512,
        Self::Avx2,
        Self::Neon,
        Self::Simd128,
        Self::Portable,
    ];

    /// The name of the set: `avx512bf16`, `avx512`, `avx2`, `neon`, `simd128` or `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Simd128 => "simd128",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
        }
    }

    /// The sets that this processor has, the widest first; the last is [`Simd::Portable`].
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|set| set.is_here()).collect()
    }

    /// The widest set that this processor has.
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
            Self::Avx512Bf16 => Self::Avx512.is_here() && has_avx512_bf16(),
        }
    }
}

/// Whether the processor has the vector instructions of x86-64-v3, with those for F16.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    let vectors = has!("avx2") && has!("fma") && has!("f16c");
    vectors && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512_bf16() -> bool {
    std::arch::is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx512_bf16() -> bool {
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

/// Joins the names of sets for a sentence.
fn names(sets: &[Simd]) -> String {
    let names: Vec<&str> = sets.iter().map(|set| set.name()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
