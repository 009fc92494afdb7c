//! What kernels compiled for this processor call to convert floats.
//!
//! Where a processor has no instruction to round to bf16 (x86-64 without AVX512-BF16) LLVM calls a function of the
//! compiler's run-time library, and CubeCL's JIT looks for it among the symbols of the process. Executables export none,
//! and libgcc has it from release 13 on, so a small library brings it along (`conversions/`).

use std::sync::OnceLock;

/// Whether kernels on CubeCL's CPU runtime can convert to bf16; the first call loads the library if need be.
pub(crate) fn bf16() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // LLVM rounds without a call on AArch64.
    *FOUND.get_or_init(|| cfg!(target_arch = "aarch64") || imp::found())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(
    unsafe_code,
    reason = "a library is loaded, and nothing in Rust does that safely"
)]
mod imp {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};

    const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/conversions.so"));

    /// Whether the process has the functions, once the library is loaded: an older libgcc's own stay in use.
    pub(super) fn found() -> bool {
        // Without it the process may still have them.
        let _ = load();
        ["__truncsfbf2", "__truncdfbf2"].into_iter().all(has)
    }

    pub(super) fn has(name: &str) -> bool {
        // SAFETY: the address is not used.
        unsafe { Library::this().get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// Loads from memory: a temporary folder may not be there, or not allow programs.
    fn load() -> Result<(), Box<dyn std::error::Error>> {
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(c"conversions".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(LIBRARY)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: the library runs nothing when it is loaded, and its functions do what compilers expect of their names.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
        // Compiled kernels call into it until the process ends.
        let _ = library.into_raw();
        Ok(())
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    /// Nothing is brought along here, and what the system may have is not known.
    pub(super) fn found() -> bool {
        false
    }
}

#[cfg(test)]
#[path = "../conversions/convert.rs"]
mod convert;

#[cfg(test)]
mod tests {
    use super::convert;
    use half::{bf16, f16};

    /// The values halfway between neighbours of a 16-bit float, and the f64s and f32s around them, with the neighbours.
    fn halfway(value: impl Fn(u16) -> f64, mut check: impl FnMut(f64, u16)) {
        for bits in 0..=u16::MAX {
            let (low, high) = (value(bits), value(bits.wrapping_add(1)));
            check(low, bits);
            let last = high.is_infinite() && low.is_finite();
            if bits & 0x7FFF == 0x7FFF || !(high.is_finite() || last) {
                continue;
            }
            // Past the largest value the next step would be as large as the one before.
            let high = if last {
                2.0 * low - value(bits - 1)
            } else {
                high
            };
            let middle = (low + high) / 2.0;
            let away = |ulps: i64| f64::from_bits(middle.to_bits().wrapping_add_signed(ulps));
            check(away(-1), bits);
            check(away(1), bits + 1);
            check(middle, bits + (bits & 1));
            let f32s =
                |ulps: i32| f32::from_bits((middle as f32).to_bits().wrapping_add_signed(ulps));
            if middle as f32 as f64 == middle {
                check(f32s(-1).into(), bits);
                check(f32s(1).into(), bits + 1);
            }
        }
    }

    #[test]
    fn every_bf16_its_ties_and_their_neighbours_are_rounded_to_even() {
        let value = |bits| f64::from(bf16::from_bits(bits));
        halfway(value, |x, want| {
            if x.is_nan() {
                return;
            }
            assert_eq!(convert::bf16_from_f64(x.to_bits()), want, "{x:e}");
            if f64::from(x as f32) == x {
                assert_eq!(convert::bf16_from_f32((x as f32).to_bits()), want, "{x:e}");
            }
        });
    }

    #[test]
    fn every_f16_its_ties_and_their_neighbours_are_rounded_to_even() {
        let value = |bits| f64::from(f16::from_bits(bits));
        halfway(value, |x, want| {
            if !x.is_nan() {
                assert_eq!(convert::f16_from_f64(x.to_bits()), want, "{x:e}");
            }
        });
    }

    #[test]
    fn upper_halves_with_every_kind_of_lower_half_are_those_of_the_crate_half() {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                let bits = u32::from(upper) << 16 | lower;
                let want = bf16::from_f32(f32::from_bits(bits)).to_bits();
                assert_eq!(convert::bf16_from_f32(bits), want, "{bits:#x}");
            }
        }
    }

    #[test]
    fn every_f16_is_widened() {
        for bits in 0..=u16::MAX {
            let want = f16::from_bits(bits).to_f32().to_bits();
            assert_eq!(convert::f32_from_f16(bits), want, "{bits:#x}");
        }
    }

    #[test]
    fn nans_are_quiet_and_keep_their_sign() {
        for sign in [0, 1 << 63] {
            let nan = sign | 0x7FF0_0000_0000_0001;
            let top = (sign >> 48) as u16;
            assert_eq!(convert::bf16_from_f64(nan), top | 0x7FC0);
            assert_eq!(convert::f16_from_f64(nan), top | 0x7E00);
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn the_process_has_every_function() {
        assert!(super::bf16());
        let names = [
            "__truncsfbf2",
            "__truncdfbf2",
            "__truncsfhf2",
            "__truncdfhf2",
            "__extendhfsf2",
        ];
        for name in names {
            assert!(super::imp::has(name), "{name}");
        }
    }
}
