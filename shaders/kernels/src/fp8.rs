//! How CubeCL computes [`moebius_ops::fp8`]: by the host's integer arithmetic on the bits of the f32, or by conversion
//! instructions if the caller names them.

use crate::prelude::*;
use cubecl::prelude::*;
use cubecl::{e4m3, e5m2};
use moebius_device::Runtime;
use moebius_ops::fp8::{Fp8Format, Overflow, Problem};

#[cube]
fn round_to_even_cube(value: u32, shift: u32) -> u32 {
    (value + (1u32 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

/// Encodes the f32 with these bits, like [`encode_host`].
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

/// Decodes a code (0 to 255) to the bits of an f32: the value of [`decode_host`], or some NaN.
///
/// A subnormal code is computed as a normal number of the smallest exponent minus its implicit bit, so no integer is converted to
/// a float and no f32 is subnormal; the other exponents are rebiased by an addition to the bits.
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
        // Exponent 31 moves to 255, so that infinity and NaN are preserved.
        let special = (magnitude << shift) + comptime!(2 * ((127 - bias) << 23));
        select(magnitude >= 0x7C, special, finite)
    } else {
        select(magnitude >= 0x7F, 0x7FC0_0000u32, finite)
    };
    sign | bits
}

/// How FP8 codes are encoded and decoded, four at once. The instructions round and saturate like the integer arithmetic; only NaN
/// differs: they have a single code for it, to which the kernels add the sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// Integer arithmetic on the bits, on every device.
    #[default]
    Bits,
    /// The device's conversion instructions: NVIDIA's from sm_89 on, through CubeCL's C++ compiler. [Unproven](crate#unproven).
    Instructions,
}

impl Conversion {
    /// Checks that `device` supports this conversion.
    ///
    /// # Errors
    /// [`Unsupported`] for instructions that the device lacks.
    pub fn supported(self, kernel: &'static str, device: &Capability) -> Result<(), Unsupported> {
        let needs = "FP8 conversion instructions that CubeCL's compiler has";
        let has = self == Self::Bits || device.runtime == Runtime::Cuda && device.fp8_conversion;
        Unsupported::unless(has, kernel, needs, format_args!("{} without", device.name))
    }

    /// Adapts the entry of a kernel to this conversion. NVIDIA's GPUs have the instructions since sm_89.
    #[cfg(feature = "emit")]
    pub(crate) fn entry(self, entry: crate::emit::KernelEntry) -> crate::emit::KernelEntry {
        match self {
            Self::Bits => entry,
            Self::Instructions => entry.since_sm(89).proven(false),
        }
    }

    /// The suffix of a kernel's name for this conversion.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Bits => "",
            Self::Instructions => "_instructions",
        }
    }
}

/// Decodes the four codes of a word.
#[cube]
pub(crate) fn decode_four(
    word: u32,
    #[comptime] format: Fp8Format,
    #[comptime] conversion: Conversion,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::empty();
    match comptime!((conversion, format)) {
        (Conversion::Instructions, Fp8Format::E4M3) => {
            four = Vector::cast_from(Vector::<e4m3, Const<4>>::reinterpret(word));
        }
        (Conversion::Instructions, Fp8Format::E5M2) => {
            four = Vector::cast_from(Vector::<e5m2, Const<4>>::reinterpret(word));
        }
        (Conversion::Bits, format) =>
        {
            #[unroll]
            for lane in 0..4usize {
                let code = (word >> comptime!(8 * lane as u32)) & 0xFF;
                four.insert(lane, f32::reinterpret(decode_bits(code, format)));
            }
        }
    }
    four
}

/// Encodes four f32, given by their bits, into a word; by instructions only if values saturate.
#[cube]
pub(crate) fn encode_four(
    bits: Vector<u32, Const<4>>,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
    #[comptime] conversion: Conversion,
) -> u32 {
    // The instructions always saturate.
    let saturates = comptime!(overflow == Overflow::Saturate);
    let mut word = 0u32;
    if comptime!(saturates && conversion == Conversion::Instructions) {
        let values = Vector::<f32, Const<4>>::reinterpret(bits);
        word = match comptime!(format) {
            Fp8Format::E4M3 => u32::reinterpret(Vector::<e4m3, Const<4>>::cast_from(values)),
            Fp8Format::E5M2 => u32::reinterpret(Vector::<e5m2, Const<4>>::cast_from(values)),
        };
        let nan = comptime!(u32::from(format.nan_code()));
        #[unroll]
        for lane in 0..4usize {
            let value = bits.extract(lane);
            if value & 0x7FFF_FFFF > 0x7F80_0000 {
                let code = ((value >> 24) & 0x80) | nan;
                let shift = comptime!(8 * lane as u32);
                word = (word & comptime!(!(0xFFu32 << shift))) | (code << shift);
            }
        }
    } else {
        #[unroll]
        for lane in 0..4usize {
            let shift = comptime!(8 * lane as u32);
            word |= encode_bits(bits.extract(lane), format, overflow) << shift;
        }
    }
    word
}

/// Computes words\[i\] = codes of x\[4i .. 4i+4\], with zero codes past the end; x is given by the bits of its f32.
#[cube(launch_unchecked)]
fn fp8_encode(
    x: &[u32],
    words: &mut [u32],
    len: usize,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
    #[comptime] conversion: Conversion,
) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        // The code of zero bits is zero.
        let mut bits = Vector::<u32, Const<4>>::new(0u32);
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                bits.insert(lane, x[first + lane]);
            }
        }
        words[ABSOLUTE_POS] = encode_four(bits, format, overflow, conversion);
    }
}

/// Computes y\[4i .. 4i+4\] = values of words\[i\], as the bits of their f32.
#[cube(launch_unchecked)]
fn fp8_decode(
    words: &[u32],
    y: &mut [u32],
    len: usize,
    #[comptime] format: Fp8Format,
    #[comptime] conversion: Conversion,
) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        let values = decode_four(words[ABSOLUTE_POS], format, conversion);
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                y[first + lane] = u32::reinterpret(values.extract(lane));
            }
        }
    }
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    grid: Grid,
    conversion: Conversion,
}

impl Plan {
    /// A copy that uses `conversion`.
    ///
    /// # Errors
    /// [`Unsupported`] under the conditions of [`Conversion::supported`].
    pub fn by(self, conversion: Conversion, device: &Capability) -> Result<Self, Unsupported> {
        conversion.supported("fp8_cast", device)?;
        Ok(Self { conversion, ..self })
    }
}

/// Plans a cast: one unit per word.
///
/// # Errors
/// [`Unsupported`] when the values exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("fp8_cast", problem.len() * 4, device)?;
    let grid = Grid::elementwise("fp8_cast", problem.words(), device)?;
    Ok(Plan {
        problem,
        grid,
        conversion: Conversion::Bits,
    })
}

fn encode_name(format: Fp8Format, overflow: Overflow, conversion: Conversion) -> String {
    let mode = format!("{overflow:?}").to_lowercase();
    format!("fp8_encode_{}_{mode}{}", format.name(), conversion.suffix())
}

fn decode_name(format: Fp8Format, conversion: Conversion) -> String {
    format!("fp8_decode_{}{}", format.name(), conversion.suffix())
}

/// Enqueues words = encode(x).
pub fn launch_encode(client: &Client, plan: &Plan, overflow: Overflow, x: Handle, words: Handle) {
    let Plan {
        problem,
        grid,
        conversion,
    } = *plan;
    if problem.is_empty() {
        return;
    }
    launched::note(|| encode_name(problem.format(), overflow, conversion));
    let (count, dim, len, format) = (grid.count(), grid.dim(), problem.len(), problem.format());
    let [x, words] = [x, words].map(bind);
    // SAFETY: `Problem::new` ties the lengths of both buffers, which are as long as they are described; units past the last word
    // return.
    unsafe {
        fp8_encode::launch_unchecked(
            client, count, dim, x, words, len, format, overflow, conversion,
        );
    }
}

/// Enqueues y = decode(words).
pub fn launch_decode(client: &Client, plan: &Plan, words: Handle, y: Handle) {
    let Plan {
        problem,
        grid,
        conversion,
    } = *plan;
    if problem.is_empty() {
        return;
    }
    launched::note(|| decode_name(problem.format(), conversion));
    let (count, dim, len, format) = (grid.count(), grid.dim(), problem.len(), problem.format());
    let [words, y] = [words, y].map(bind);
    // SAFETY: `Problem::new` ties the lengths of both buffers, which are as long as they are described; units past the last word
    // return.
    unsafe {
        fp8_decode::launch_unchecked(client, count, dim, words, y, len, format, conversion);
    }
}

/// Encoders of every format and overflow mode and decoders of every format, by bits and by instructions.
#[cfg(feature = "emit")]
pub fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine};
    use crate::error::PlanError;
    use Conversion::{Bits, Instructions};
    let planned = |at: &Machine, format, conversion| -> Result<Plan, PlanError> {
        let plan = plan(Problem::new(4096, 1024, format)?, &at.capability)?;
        Ok(plan.by(conversion, &at.capability)?)
    };
    let mut entries = Vec::new();
    for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
        let ways = [
            (Overflow::Saturate, Bits),
            (Overflow::Ieee, Bits),
            (Overflow::Saturate, Instructions),
        ];
        for (overflow, conversion) in ways {
            let name = encode_name(format, overflow, conversion);
            let entry = KernelEntry::new("fp8", variant("encode", conversion), name, move |at| {
                let plan = planned(at, format, conversion)?;
                launch_encode(at.client(), &plan, overflow, at.buffer(), at.buffer());
                Ok(())
            });
            entries.push(conversion.entry(entry));
        }
        for conversion in [Bits, Instructions] {
            let name = decode_name(format, conversion);
            let entry = KernelEntry::new("fp8", variant("decode", conversion), name, move |at| {
                let plan = planned(at, format, conversion)?;
                launch_decode(at.client(), &plan, at.buffer(), at.buffer());
                Ok(())
            });
            entries.push(conversion.entry(entry));
        }
    }
    entries
}

/// The variant's name in the support table for `what` by this conversion.
#[cfg(feature = "emit")]
fn variant(what: &'static str, conversion: Conversion) -> &'static str {
    match (what, conversion) {
        (_, Conversion::Bits) => what,
        ("encode", Conversion::Instructions) => "encode by instructions",
        (_, Conversion::Instructions) => "decode by instructions",
    }
}
