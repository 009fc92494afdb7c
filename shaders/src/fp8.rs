//! How CubeCL computes [`moebius_ops::fp8`]: the host's integer arithmetic on the bits of the f32.

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, Overflow, Problem};

#[cube]
fn round_to_even_cube(value: u32, shift: u32) -> u32 {
    (value + (1u32 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

/// The code of the f32 with these bits, as [`encode_host`].
#[cube]
pub(crate) fn encode_bits(
    bits: u32,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
) -> u32 {
    let mantissa = comptime!(format.mantissa_bits());
    let bias = comptime!(format.bias());
    let sign = (bits >> 24) & 0x80;
    let magnitude = bits & 0x7FFF_FFFF;
    let exponent = magnitude >> 23;

    let normal_shift = comptime!(23 - mantissa);
    let rebias = comptime!((127 - bias) << mantissa);
    let subnormal_base = comptime!(23 - mantissa + 128 - bias);
    let shift = clamp(subnormal_base - min(exponent, subnormal_base - 1), 1, 25);
    let subnormal = round_to_even_cube((magnitude & 0x7F_FFFF) | 0x80_0000, shift);
    let normal = round_to_even_cube(magnitude, normal_shift) - rebias;

    let limit = comptime!(match overflow {
        Overflow::Saturate => u32::from(format.max_code()),
        Overflow::Ieee => u32::from(format.max_code()) + 1,
    });
    let is_normal = exponent + bias > 127;
    let code = min(select(is_normal, normal, subnormal), limit);
    let nan = comptime!(u32::from(format.nan_code()));
    sign | select(magnitude > 0x7F80_0000, nan, code)
}

/// The bits of the f32 with this code (0 to 255): the value of [`decode_host`], or some NaN.
///
/// A subnormal code is a normal number of the smallest exponent, less its implicit bit, so nothing
/// is converted and no f32 is subnormal; the other exponents move by adding to the bits.
#[cube]
pub(crate) fn decode_bits(code: u32, #[comptime] format: Fp8Format) -> u32 {
    let mantissa = comptime!(format.mantissa_bits());
    let bias = comptime!(format.bias());
    let sign = (code & 0x80) << 24;
    let magnitude = code & 0x7F;
    let shift = comptime!(23 - mantissa);
    let rebias = comptime!((127 - bias) << 23);
    let above = comptime!((128 - bias) << 23);
    let implicit = comptime!(f32::from_bits((128 - bias) << 23));
    let first_normal = comptime!(1u32 << mantissa);

    let normal = (magnitude << shift) + rebias;
    let subnormal = u32::reinterpret(f32::reinterpret((magnitude << shift) + above) - implicit);
    let finite = select(magnitude < first_normal, subnormal, normal);
    let bits = if comptime!(format == Fp8Format::E5M2) {
        // Exponent 31 moves to 255: infinity and NaN stay what they are.
        let special = (magnitude << shift) + comptime!(2 * ((127 - bias) << 23));
        select(magnitude >= 0x7C, special, finite)
    } else {
        select(magnitude >= 0x7F, 0x7FC0_0000u32, finite)
    };
    sign | bits
}

/// words\[i\] = codes of x\[4i .. 4i+4\], zero codes past the end; x comes as the bits of its f32.
#[cube(launch_unchecked)]
fn fp8_encode(
    x: &[u32],
    words: &mut [u32],
    len: usize,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        let mut word = 0u32;
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                let shift = comptime!(8 * lane as u32);
                word |= encode_bits(x[first + lane], format, overflow) << shift;
            }
        }
        words[ABSOLUTE_POS] = word;
    }
}

/// y\[4i .. 4i+4\] = values of words\[i\], as the bits of their f32.
#[cube(launch_unchecked)]
fn fp8_decode(words: &[u32], y: &mut [u32], len: usize, #[comptime] format: Fp8Format) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        let word = words[ABSOLUTE_POS];
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                let shift = comptime!(8 * lane as u32);
                y[first + lane] = decode_bits((word >> shift) & 0xFF, format);
            }
        }
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    grid: Grid,
}

/// Plans a cast: one unit per word.
///
/// # Errors
/// [`Unsupported`] when the values exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("fp8_cast", problem.len() * 4, device)?;
    let grid = Grid::elementwise("fp8_cast", problem.words(), device)?;
    Ok(Plan { problem, grid })
}

fn encode_name(format: Fp8Format, overflow: Overflow) -> String {
    let mode = format!("{overflow:?}").to_lowercase();
    format!("fp8_encode_{}_{mode}", format.name())
}

/// Enqueues words = encode(x).
pub fn launch_encode(client: &Client, plan: &Plan, overflow: Overflow, x: Handle, words: Handle) {
    let Plan { problem, grid } = *plan;
    if problem.is_empty() {
        return;
    }
    // SAFETY: `Problem::new` ties the lengths of both buffers; units past the last word return.
    unsafe {
        launched::note(|| encode_name(problem.format(), overflow));
        fp8_encode::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            bind_words(x, problem.len()),
            bind_words(words, problem.words()),
            problem.len(),
            problem.format(),
            overflow,
        );
    }
}

/// Enqueues y = decode(words).
pub fn launch_decode(client: &Client, plan: &Plan, words: Handle, y: Handle) {
    let Plan { problem, grid } = *plan;
    if problem.is_empty() {
        return;
    }
    // SAFETY: `Problem::new` ties the lengths of both buffers; units past the last word return.
    unsafe {
        launched::note(|| format!("fp8_decode_{}", problem.format().name()));
        fp8_decode::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            bind_words(words, problem.words()),
            bind_words(y, problem.len()),
            problem.len(),
            problem.format(),
        );
    }
}

/// Encoders of every format and overflow mode, and decoders of every format.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine};
    use crate::error::PlanError;
    let planned = |at: &Machine, format| -> Result<Plan, PlanError> {
        Ok(plan(Problem::new(4096, 1024, format)?, &at.capability)?)
    };
    let mut entries = Vec::new();
    for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
        for overflow in [Overflow::Saturate, Overflow::Ieee] {
            let name = encode_name(format, overflow);
            entries.push(KernelEntry::new(("fp8", "encode"), name, move |at| {
                let plan = planned(at, format)?;
                launch_encode(at.client(), &plan, overflow, at.buffer(), at.buffer());
                Ok(())
            }));
        }
        let name = format!("fp8_decode_{}", format.name());
        entries.push(KernelEntry::new(("fp8", "decode"), name, move |at| {
            launch_decode(at.client(), &planned(at, format)?, at.buffer(), at.buffer());
            Ok(())
        }));
    }
    entries
}
