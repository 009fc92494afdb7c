//! Tests of the host's quantiser against a plain loop over blocks, and against known numbers.

use super::{Grid, Quantized, quantize_host};
use crate::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use crate::scaling::{Fp8Scheme, Granularity, HostScales, e8m0_host, e8m0_value, scale_host};
use proptest::prelude::*;

/// Reproducible pseudo-random numbers in 0..1.
fn uniform(seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 16_777_216.0
    })
}

/// Values of both signs and many magnitudes.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let pairs: Vec<f32> = uniform(seed).take(2 * count).collect();
    let pairs = pairs.as_chunks::<2>().0.iter();
    pairs
        .map(|[value, size]| (2.0 * value - 1.0) * (8.0 * size - 4.0).exp())
        .collect()
}

/// Quantises block by block, as the definition says.
fn plain(values: &[f32], rows: usize, columns: usize, scheme: Fp8Scheme) -> Quantized {
    let [r, c] = scheme.granularity.block(rows, columns);
    let mut codes = vec![0; values.len()];
    let (mut factors, mut bytes) = (Vec::new(), Vec::new());
    for top in (0..rows).step_by(r) {
        for left in (0..columns).step_by(c) {
            let block: Vec<usize> = (top..rows.min(top.saturating_add(r)))
                .flat_map(|row| {
                    (left..columns.min(left.saturating_add(c)))
                        .map(move |column| row * columns + column)
                })
                .collect();
            let finite = block
                .iter()
                .map(|&at| values[at].abs())
                .filter(|v| v.is_finite());
            let amax = finite.fold(0.0, f32::max);
            let factor = if scheme.granularity == Granularity::Mx {
                bytes.push(e8m0_host(amax, scheme.format, 0));
                e8m0_value(bytes[bytes.len() - 1])
            } else {
                scale_host(amax, scheme.format, 0)
            };
            factors.push(factor);
            for at in block {
                codes[at] = encode_host(values[at] / factor, scheme.format, Overflow::Saturate);
            }
        }
    }
    let scales = match scheme.granularity {
        Granularity::Mx => HostScales::E8M0(bytes),
        _ => HostScales::F32(factors),
    };
    Quantized { codes, scales }
}

const BLOCK: Granularity = Granularity::Block {
    rows: 128,
    columns: 96,
};

#[test]
fn threads_change_nothing() {
    let (rows, columns) = (301, 307);
    let mut values = noise(rows * columns, 5);
    for (at, value) in [
        (0, f32::NAN),
        (5000, f32::INFINITY),
        (70_000, f32::NEG_INFINITY),
        (80_000, 1e-42),
    ] {
        values[at] = value;
    }
    let row = Granularity::Block {
        rows: 1,
        columns: usize::MAX,
    };
    let all = Granularity::Block {
        rows: usize::MAX,
        columns: 100,
    };
    for granularity in [
        Granularity::Tensor,
        Granularity::Row,
        BLOCK,
        Granularity::Mx,
        row,
        all,
    ] {
        for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
            let scheme = Fp8Scheme {
                format,
                granularity,
            };
            let got = quantize_host(&values, rows, columns, scheme).unwrap();
            assert_eq!(got, plain(&values, rows, columns, scheme), "{scheme}");
        }
    }
    // A single long row, and a single long column.
    let scheme = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Tensor,
    };
    for (rows, columns) in [(1, values.len()), (values.len(), 1)] {
        let got = quantize_host(&values, rows, columns, scheme).unwrap();
        assert_eq!(got, plain(&values, rows, columns, scheme));
    }
}

#[test]
fn normal_values_come_back_within_the_formats_error() {
    // The sum of twelve uniform numbers is close enough to a normal distribution.
    let parts: Vec<f32> = uniform(9).take(12 * 256 * 256).collect();
    let values: Vec<f32> = parts
        .chunks(12)
        .map(|c| c.iter().sum::<f32>() - 6.0)
        .collect();
    for (format, limit) in [(Fp8Format::E4M3, 0.027), (Fp8Format::E5M2, 0.053)] {
        for granularity in [Granularity::Row, BLOCK, Granularity::Mx] {
            let scheme = Fp8Scheme {
                format,
                granularity,
            };
            let quantized = quantize_host(&values, 256, 256, scheme).unwrap();
            let factors = quantized.scales.to_f32();
            let [r, c] = granularity.block(256, 256);
            let across = granularity.blocks(256, 256)[1];
            let (mut squares, mut sum) = (0.0, 0.0);
            for (at, (&value, &code)) in values.iter().zip(&quantized.codes).enumerate() {
                let factor = factors[at / 256 / r * across + at % 256 / c];
                squares += f64::from(decode_host(code, format) * factor - value).powi(2);
                sum += f64::from(value).powi(2);
            }
            let relative = (squares / sum).sqrt();
            assert!(relative > 0.01 && relative < limit, "{scheme}: {relative}");
        }
    }
}

#[test]
fn sizes_must_agree() {
    let scheme = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    };
    assert!(quantize_host(&[1.0; 6], 2, 2, scheme).is_err());
    assert!(quantize_host(&[1.0; 6], usize::MAX, 6, scheme).is_err());
    for (granularity, scales) in [(Granularity::Tensor, 1), (Granularity::Row, 3), (BLOCK, 0)] {
        let scheme = Fp8Scheme {
            granularity,
            ..scheme
        };
        let empty = quantize_host(&[], 3, 0, scheme).unwrap();
        let counts = (empty.codes.len(), empty.scales.len());
        assert_eq!(counts, (0, scales), "{granularity:?}");
    }
}

proptest! {
    #[test]
    fn any_matrix_is_quantised_block_by_block(
        (rows, columns) in (1_usize..40, 1_usize..70),
        block in prop::option::of((1_usize..50, 1_usize..50)),
        e5m2 in any::<bool>(),
        bits in prop::collection::vec(any::<u32>(), 2800),
    ) {
        let format = if e5m2 { Fp8Format::E5M2 } else { Fp8Format::E4M3 };
        let granularity = match block {
            Some((rows, columns)) => Granularity::Block { rows, columns },
            None => Granularity::Mx,
        };
        let scheme = Fp8Scheme { format, granularity };
        // All bit patterns, including NaN, infinities and subnormals.
        let values: Vec<f32> = bits[..rows * columns].iter().map(|&b| f32::from_bits(b)).collect();
        let got = quantize_host(&values, rows, columns, scheme).unwrap();
        prop_assert_eq!(got, plain(&values, rows, columns, scheme));
    }
}

#[test]
fn nearest_is_what_codes_decode_to() {
    for (format, largest) in [(Fp8Format::E4M3, 448.0f32), (Fp8Format::E5M2, 57344.0)] {
        let grid = Grid::of(format);
        for bits in (0..largest.to_bits()).step_by(997) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let code = encode_host(x, format, Overflow::Saturate);
                let want = decode_host(code, format);
                assert_eq!(grid.nearest(x), want, "{x:e} in {format:?}");
            }
        }
    }
}
