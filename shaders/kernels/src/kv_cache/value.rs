//! Words as values, and values as codes: [`moebius_ops::kv_cache::CacheFormat`].

use super::Spec;
use crate::fp8::encode_bits;
use crate::grouped_gemm::fp8::decode_lane;
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::kv_cache::CacheFormat;

/// The values of code `place` of every word, without their scales.
#[cube]
pub(super) fn value_of<N: Size>(
    words: Vector<u32, N>,
    #[comptime] place: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    match comptime!(spec.format) {
        CacheFormat::F32 => Vector::<f32, N>::reinterpret(words),
        CacheFormat::Bf16 => {
            let up = comptime!(16 - 16 * place as u32);
            let top = (words << Vector::new(up)) & Vector::new(0xFFFF_0000u32);
            Vector::<f32, N>::reinterpret(top)
        }
        CacheFormat::F16 => half_of::<N>(words >> Vector::new(comptime!(16 * place as u32))),
        CacheFormat::E4m3 => {
            if comptime!(spec.cpu) {
                decode_lane::<N>(words, place, Fp8Format::E4M3)
            } else {
                e4m3_of::<N>(words >> Vector::new(comptime!(8 * place as u32)))
            }
        }
    }
}

/// The halves in the low bits. No f32 on the way is subnormal: drivers make those 0.
#[cube]
fn half_of<N: Size>(words: Vector<u32, N>) -> Vector<f32, N> {
    let sign = (words & Vector::new(0x8000u32)) << Vector::new(16u32);
    let magnitude = (words & Vector::new(0x7FFFu32)) << Vector::new(13u32);
    let small = from_smallest::<N>(magnitude, 113u32);
    let is_small = magnitude.less_than(&Vector::new(0x0080_0000u32));
    let normal = magnitude + Vector::new(0x3800_0000u32);
    let finite = select_many(is_small, small, normal);
    let special = magnitude.greater_equal(&Vector::new(0x0F80_0000u32));
    let bits = select_many(special, magnitude | Vector::new(0x7F80_0000u32), finite);
    Vector::<f32, N>::reinterpret(bits | sign)
}

/// The values of the e4m3 codes in the low bits, the same way.
#[cube]
fn e4m3_of<N: Size>(words: Vector<u32, N>) -> Vector<f32, N> {
    let sign = (words & Vector::new(0x80u32)) << Vector::new(24u32);
    let magnitude = (words & Vector::new(0x7Fu32)) << Vector::new(20u32);
    let small = from_smallest::<N>(magnitude, 121u32);
    let is_small = magnitude.less_than(&Vector::new(0x0080_0000u32));
    let normal = magnitude + Vector::new(0x3C00_0000u32);
    let finite = select_many(is_small, small, normal);
    let special = magnitude.greater_equal(&Vector::new(0x07F0_0000u32));
    let bits = select_many(special, Vector::new(0x7FC0_0000u32), finite);
    Vector::<f32, N>::reinterpret(bits | sign)
}

/// The bits of subnormal codes: a normal number of the smallest exponent, less its implicit bit.
#[cube]
fn from_smallest<N: Size>(magnitude: Vector<u32, N>, #[comptime] exponent: u32) -> Vector<u32, N> {
    let implicit = comptime!(f32::from_bits(exponent << 23));
    let above = magnitude + Vector::new(comptime!(exponent << 23));
    let value = Vector::<f32, N>::reinterpret(above) - Vector::new(implicit);
    Vector::<u32, N>::reinterpret(value)
}

/// The code of a value that was divided by its scale.
#[cube]
pub(super) fn code_of(value: f32, #[comptime] format: CacheFormat) -> u32 {
    let bits = u32::reinterpret(value);
    let magnitude = bits & 0x7FFF_FFFF;
    match comptime!(format) {
        CacheFormat::F32 => bits,
        CacheFormat::Bf16 => {
            let rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
            select(magnitude > 0x7F80_0000, (bits >> 16) | 0x40, rounded)
        }
        CacheFormat::F16 => {
            // Added to 1/2, a subnormal half is rounded to its place in the last bits.
            let small = u32::reinterpret(f32::reinterpret(magnitude) + 0.5f32) - 0x3F00_0000;
            let rebased = max(magnitude, 0x3880_0000u32) - 0x3800_0000;
            let normal = (rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13;
            let finite = select(magnitude < 0x3880_0000, small, min(normal, 0x7C00u32));
            let code = select(magnitude > 0x7F80_0000, 0x7E00u32, finite);
            code | ((bits >> 16) & 0x8000)
        }
        CacheFormat::E4m3 => encode_bits(bits, Fp8Format::E4M3, Overflow::Saturate),
    }
}
