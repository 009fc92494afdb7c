//! Four codes at once, by the device's conversion instructions where a caller names them.
//!
//! The instructions round and saturate as integer arithmetic does; only NaN is one code for them, and here it keeps its sign.

use super::{decode_bits, encode_bits};
use crate::prelude::*;
use cubecl::prelude::*;
use cubecl::{e4m3, e5m2};
use moebius_device::Runtime;
use moebius_ops::fp8::{Fp8Format, Overflow};

/// How codes become numbers and numbers codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// Integer arithmetic on their bits, on every device.
    #[default]
    Bits,
    /// The device's instructions: NVIDIA's from sm_89 on, through CubeCL's C++ compiler. [Unproven](crate#unproven).
    Instructions,
}

impl Conversion {
    /// Whether `device` converts so.
    ///
    /// # Errors
    /// [`Unsupported`] for instructions that it hasn't.
    pub fn supported(self, kernel: &'static str, device: &Capability) -> Result<(), Unsupported> {
        let needs = "FP8 conversion instructions that CubeCL's compiler has";
        let has = self == Self::Bits || device.runtime == Runtime::Cuda && device.fp8_conversion;
        Unsupported::unless(has, kernel, needs, format_args!("{} without", device.name))
    }

    /// An entry of a kernel that converts so. NVIDIA's GPUs have the instructions since sm_89.
    #[cfg(feature = "emit")]
    pub(crate) fn entry(self, entry: crate::emit::KernelEntry) -> crate::emit::KernelEntry {
        match self {
            Self::Bits => entry,
            Self::Instructions => entry.since_sm(89).proven(false),
        }
    }

    /// What the name of a kernel says of it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Bits => "",
            Self::Instructions => "_instructions",
        }
    }
}

/// The values of a word's codes.
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

/// The word of the codes of four f32, which come as their bits, by instructions where they saturate.
#[cube]
pub(crate) fn encode_four(
    bits: Vector<u32, Const<4>>,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
    #[comptime] conversion: Conversion,
) -> u32 {
    // The instructions have no other way with what is too large.
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
