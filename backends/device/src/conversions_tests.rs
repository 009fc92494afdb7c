use super::convert;
use half::{bf16, f16};

/// Calls `check` with the midpoint of every two neighbouring 16-bit floats, and with the f64s and f32s next to it, each
/// with the 16-bit float that it rounds to.
fn halfway(value: impl Fn(u16) -> f64, mut check: impl FnMut(f64, u16)) {
    for bits in 0..=u16::MAX {
        let (low, high) = (value(bits), value(bits.wrapping_add(1)));
        check(low, bits);
        let last = high.is_infinite() && low.is_finite();
        if bits & 0x7FFF == 0x7FFF || !(high.is_finite() || last) {
            continue;
        }
        // The step past the largest value would be as large as the one before it.
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
        let f32s = |ulps: i32| f32::from_bits((middle as f32).to_bits().wrapping_add_signed(ulps));
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
