//! Conversions between f32 and the types of 16 bits.

use crate::sets::held;
use half::{bf16, f16};
use moebius_host::Values;
use moebius_host::casts::{to_bf16, to_f16, widened};

/// Numbers of all exponents with lowest bits that are rounded down, up and to even; infinities and NaN.
fn numbers() -> Vec<f32> {
    let upper = (0..=u16::MAX).map(|upper| u32::from(upper) << 16);
    let lower = [0, 1, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
    let bits = upper.flat_map(|upper| lower.map(|lower| upper | lower));
    bits.map(f32::from_bits).collect()
}

#[test]
fn numbers_are_rounded_as_one_by_one() {
    held();
    let all = numbers();
    let bits = |numbers: Vec<bf16>| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
    let expected = all.iter().map(|n| bf16::from_f32(*n)).collect();
    assert_eq!(bits(to_bf16(&all)), bits(expected));
    let bits = |numbers: Vec<f16>| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
    let expected = all.iter().map(|n| f16::from_f32(*n)).collect();
    assert_eq!(bits(to_f16(&all)), bits(expected));
}

#[test]
fn numbers_of_16_bits_are_widened_exactly() {
    held();
    let bits = 0..=u16::MAX;
    let halves: Vec<f16> = bits.clone().map(f16::from_bits).collect();
    let brains: Vec<bf16> = bits.map(bf16::from_bits).collect();
    for (half, wide) in halves.iter().zip(widened(Values::F16(&halves))) {
        assert_eq!(
            f16::from_f32(wide).to_bits() & 0xFDFF,
            half.to_bits() & 0xFDFF
        );
    }
    for (brain, wide) in brains.iter().zip(widened(Values::Bf16(&brains))) {
        assert_eq!(wide.to_bits(), u32::from(brain.to_bits()) << 16);
    }
}
