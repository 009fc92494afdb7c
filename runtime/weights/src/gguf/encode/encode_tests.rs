use std::path::Path;

use safetensors::SafeTensors;

use super::super::element::decode;
use super::*;

fn decoded(kind: GgmlType, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![f32::NAN; bytes.len() / kind.bytes * kind.values];
    decode(kind, bytes, &mut values);
    values
}

fn again(kind: GgmlType, values: &[f32]) -> Vec<f32> {
    decoded(kind, &encode("w", kind, values).unwrap())
}

/// The sum of squared differences.
fn squares(values: &[f32], others: &[f32]) -> f64 {
    assert_eq!(values.len(), others.len());
    let pairs = values.iter().zip(others);
    pairs
        .map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2))
        .sum()
}

/// Compares the error with that of the blocks that ggml and the Python package `gguf` made of the same values
/// (`tests/cases/gguf/make_quantized.py`).
#[test]
fn errors_are_not_above_those_of_other_programs() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/gguf");
    let file = std::fs::read(cases.join("quantized_values.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let mut compared = 0;
    for name in file.names() {
        let parts: Vec<&str> = name.split('.').collect();
        let &[program @ ("ggml" | "gguf"), kind, number] = &parts[..] else {
            continue;
        };
        let kind = GgmlType::named(kind).unwrap();
        let values = file.tensor(&format!("values.{number}")).unwrap();
        let values = decoded(GgmlType::F32, values.data());
        let theirs = decoded(kind, file.tensor(name).unwrap().data());
        let theirs = squares(&values, &theirs);
        let ours = squares(&values, &again(kind, &values));
        assert!(ours <= theirs, "{program} {kind} {number}: {ours} {theirs}");
        compared += 1;
    }
    // Five tensors, of ten types by ggml and of six by the package.
    assert_eq!(compared, 5 * (10 + 6));
}

/// Half of the smallest number of F16, by which a scale may be rounded.
const SMALL: f32 = 1.0 / 33_554_432.0;

/// The largest difference that a type promises for `value` of the block `block`.
fn promise(kind: GgmlType, block: &[f32], value: f32) -> f32 {
    let most = block
        .iter()
        .fold(0.0_f32, |most, value| most.max(value.abs()));
    let low = |of: &[f32]| of.iter().copied().fold(f32::INFINITY, f32::min);
    let high = |of: &[f32]| of.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let even = |codes: f32| most / codes + codes * SMALL;
    let shifted = |codes: f32| {
        let range = high(block) - low(block);
        range / codes + low(block).abs() / 2048.0 + (codes + 1.0) * SMALL
    };
    let grouped = |codes: f32| {
        let groups = block
            .chunks(32)
            .map(|of| [low(of).min(0.0), high(of).max(0.0)]);
        let [widest, deepest] = groups.fold([0.0_f32; 2], |[widest, deepest], [low, high]| {
            [widest.max(high - low), deepest.max(-low)]
        });
        widest / codes + deepest / 63.0 + 63.0 * (codes + 1.0) * SMALL
    };
    match kind {
        GgmlType::F32 => 0.0,
        GgmlType::F16 => (value.abs() / 2048.0).max(SMALL),
        GgmlType::BF16 => (value.abs() / 256.0).max(f32::MIN_POSITIVE / 256.0),
        GgmlType::Q8_0 => even(127.0),
        GgmlType::Q4_0 => even(7.0),
        GgmlType::Q5_0 => even(15.0),
        GgmlType::Q4_1 => shifted(15.0),
        GgmlType::Q5_1 => shifted(31.0),
        GgmlType::Q4_K => grouped(15.0),
        GgmlType::Q5_K => grouped(31.0),
        GgmlType::Q6_K => most / 31.0 + 128.0 * 32.0 * SMALL,
        GgmlType::IQ4_NL => most * 24.0 / 113.0 + 113.0 * SMALL,
        GgmlType::MXFP4 => most / 4.0 + 8.0 * f32::MIN_POSITIVE,
        other => panic!("{other}"),
    }
}

/// Numbers between −1 and 1 in no regular order.
fn numbers() -> [f32; 256] {
    std::array::from_fn(|at| ((at * 7919 + at * at * 31) % 2003) as f32 / 1001.0 - 1.0)
}

/// Blocks of 256 values that are easy to get wrong.
fn hard_blocks() -> Vec<[f32; 256]> {
    let some = numbers();
    let huge = |huge: f32| {
        let mut block = some.map(|value| value * 1e-3);
        block[77] = huge;
        block
    };
    let mut blocks = vec![
        [0.0; 256],
        [-0.0; 256],
        [0.37; 256],
        [-2.5; 256],
        [65504.0; 256],
        [f32::from_bits(1); 256],
        some,
        some.map(f32::abs),
        some.map(|value| -value.abs() - 3.0),
        some.map(|value| value + 1000.0),
        some.map(|value| value.powi(9)),
        huge(60000.0),
        huge(-60000.0),
        std::array::from_fn(|at| if at % 2 == 0 { 1.0 } else { -1.0 }),
        std::array::from_fn(|at| {
            if at / 32 == 3 {
                some[at]
            } else {
                1e-6 * some[at]
            }
        }),
        std::array::from_fn(|at| if at == 9 { 1.0 } else { 0.0 }),
    ];
    for power in [-10, -20, -30, -60, -126, -140] {
        blocks.push(some.map(|value| value * 2.0_f64.powi(power) as f32));
    }
    blocks
}

#[test]
fn no_value_is_off_by_more_than_its_type_promises() {
    for &kind in ENCODED {
        for (number, values) in hard_blocks().iter().enumerate() {
            let got = again(kind, values);
            // A type of single values has blocks of one.
            let blocks = values.chunks(kind.values).zip(got.chunks(kind.values));
            for (values, got) in blocks {
                for (&value, &got) in values.iter().zip(got) {
                    // The bound itself is rounded to f32.
                    let most = promise(kind, values, value) * 1.000_001;
                    let off = (value - got).abs();
                    assert!(off <= most, "{kind}, block {number}: {value} {got} {most}");
                }
            }
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    for &kind in ENCODED {
        for zero in [0.0, -0.0] {
            assert!(
                again(kind, &[zero; 256]).iter().all(|value| *value == 0.0),
                "{kind}"
            );
        }
    }
}

/// Values that codes and a scale give exactly come back exactly.
#[test]
fn what_a_type_has_is_kept() {
    let with = |count: usize, of: &dyn Fn(usize) -> f32| -> Vec<f32> {
        // All codes occur in each block, in another order.
        (0..256)
            .map(|at| of((at * 5 + at / 32) % 32 % count))
            .collect()
    };
    let table = |table: &'static [i8; 16]| move |at: usize| 0.5 * f32::from(table[at]);
    let wide = |at: usize| 0.25 * (at as f32 * 8.0 - 127.0);
    let wide = |at: usize| if at == 31 { 31.75 } else { wide(at) };
    for (kind, values) in [
        (GgmlType::Q8_0, with(32, &wide)),
        (
            GgmlType::Q4_0,
            with(16, &|at: usize| 0.25 * (at as f32 - 8.0)),
        ),
        (
            GgmlType::Q5_0,
            with(32, &|at: usize| 0.25 * (at as f32 - 16.0)),
        ),
        (GgmlType::Q4_1, with(16, &|at: usize| 0.5 * at as f32 + 3.0)),
        (GgmlType::Q5_1, with(32, &|at: usize| 0.5 * at as f32 - 3.0)),
        (
            GgmlType::IQ4_NL,
            with(16, &table(&moebius_ops::blocks::UNEVEN)),
        ),
        (
            GgmlType::MXFP4,
            with(16, &table(&moebius_ops::blocks::TWICE_E2M1)),
        ),
    ] {
        assert_eq!(again(kind, &values), values, "{kind}");
    }
}

/// Values of MXFP4 are values of MXFP4 again, whatever the largest of a block is, so that gpt-oss's weights lose nothing.
#[test]
fn values_of_mxfp4_come_back() {
    let all = (100..=140_u8).flat_map(|exponent| (0..8_u8).map(move |most| [exponent, most]));
    for [exponent, most] in all {
        let mut block = [exponent; 17];
        for (at, byte) in (0_u8..).zip(&mut block[1..]) {
            let codes = [at % (most + 1), ((at * 7 + 3) % (most + 1)) | 8];
            *byte = codes[0] | codes[1] << 4;
        }
        let values = decoded(GgmlType::MXFP4, &block);
        assert_eq!(again(GgmlType::MXFP4, &values), values, "{exponent} {most}");
    }
}

#[test]
fn ties_are_broken_as_documented() {
    assert_eq!([2.5, -3.5].map(grid::nearest), [2.0, -4.0]);
    assert_eq!(
        [1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0].map(grid::half),
        [1.0, 1.0 + 4.0 / 2048.0]
    );
    // 7 lies between 1 and 13.
    assert_eq!([7.0, 7.001].map(tables::uneven), [8, 9]);
    // 2.5 lies between 2 and 3, whose codes are 2 and 3 since the table has twice the values.
    assert_eq!([2.5, -2.5, 2.6].map(tables::e2m1), [2, 10, 3]);
    assert_eq!([-0.2, -0.0].map(tables::e2m1), [0, 0]);
}

#[test]
fn numbers_that_no_type_has_are_refused_by_the_tensors_name() {
    for &kind in ENCODED {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [1.0; 256];
            values[200] = bad;
            let error = encode("blk.0.ffn_up.weight", kind, &values).unwrap_err();
            assert!(matches!(error, WeightsError::WrongTensor(_)), "{error}");
            let text = error.to_string();
            let (begin, end) = (
                "tensor `blk.0.ffn_up.weight`: expected",
                format!("got {bad}"),
            );
            assert!(text.starts_with(begin) && text.ends_with(&end), "{text}");
        }
        let large = encode("w", kind, &[70000.0; 256]);
        let wide = [GgmlType::F32, GgmlType::BF16].contains(&kind);
        assert_eq!(large.is_ok(), wide, "{kind}");
    }
    assert!(encode("w", GgmlType::BF16, &[f32::MAX]).is_err());
}

#[test]
fn other_types_and_parts_of_blocks_are_refused() {
    let text = |kind, count: usize| {
        encode("w", kind, &vec![0.0; count])
            .unwrap_err()
            .to_string()
    };
    assert!(text(GgmlType::Q2_K, 256).contains("MXFP4, got Q2_K"));
    assert!(text(GgmlType::Q4_K, 32).contains("whole blocks of 256 values, got 32"));
    assert_eq!(encode("w", GgmlType::Q4_K, &[]).unwrap(), [0_u8; 0]);
}

#[test]
fn rows_that_are_no_whole_blocks_get_the_type_that_llama_cpp_takes() {
    for (kind, row, fitting) in [
        (GgmlType::Q4_K, 512, GgmlType::Q4_K),
        (GgmlType::Q4_K, 96, GgmlType::Q5_0),
        (GgmlType::Q5_K, 96, GgmlType::Q5_1),
        (GgmlType::Q6_K, 96, GgmlType::Q8_0),
        (GgmlType::Q6_K, 48, GgmlType::F16),
        (GgmlType::Q8_0, 48, GgmlType::F16),
        (GgmlType::MXFP4, 33, GgmlType::F16),
        (GgmlType::BF16, 33, GgmlType::BF16),
        (GgmlType::F32, 1, GgmlType::F32),
    ] {
        assert_eq!(kind.fitting(row), fitting, "{kind} {row}");
    }
}

/// The bytes of many values, which several threads encode, are those of their blocks one by one.
#[test]
fn blocks_do_not_depend_on_each_other() {
    let values: Vec<f32> = numbers().into_iter().cycle().take(5 * SHARE / 2).collect();
    for kind in [GgmlType::F16, GgmlType::MXFP4] {
        let all = encode("w", kind, &values).unwrap();
        let one = encode("w", kind, &values[..256]).unwrap();
        assert_eq!(all, one.repeat(values.len() / 256), "{kind}");
    }
}

#[test]
fn names_of_types_are_those_of_files() {
    assert_eq!(GgmlType::named("q4_k"), Some(GgmlType::Q4_K));
    for none in ["Q4_K_M", "", "NVFP4", "Q8_K"] {
        assert_eq!(GgmlType::named(none), None);
    }
}
