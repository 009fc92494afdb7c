//! Weights in several tensors: bitsandbytes, NVFP4, MXFP4, MLX and GPTQ, with values worked out by hand.

use std::cmp::Ordering;
use std::ops::Range;

use moebius_ops::blocks::BlockFormat;
use moebius_ops::scaling::Granularity;
use moebius_weights::{Dtype, Reader, Unscaled, WeightsError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::any_bytes::any_bytes;
use crate::files::{Tensor, f32s, file};

/// The values of the codes of E2M1.
const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

fn reader(tensors: &[Tensor], config: Value) -> Result<Reader, WeightsError> {
    let bytes = file(tensors);
    Reader::from_sources(
        [("test".to_owned(), Box::new(bytes) as _)],
        Some(("config.json", config)),
    )
}

/// Checks that the only tensor is `x.weight` with this shape and these values.
fn is(tensors: &[Tensor], config: Value, shape: &[usize], expected: &[f32]) {
    let reader = reader(tensors, config).unwrap();
    let names: Vec<&str> = reader.tensors().map(|(name, _)| name).collect();
    assert_eq!(names, ["x.weight"]);
    assert!(reader.is_packed());
    let info = reader.get("x.weight").unwrap();
    assert_eq!((info.dtype, &info.shape[..]), (Dtype::F32, shape));
    assert_eq!(reader.read_f32("x.weight").unwrap(), expected);
    let last = expected.len() as u64;
    let tail = reader.read_f32_part("x.weight", last - 2..last).unwrap();
    assert_eq!(tail, expected[expected.len() - 2..]);
}

/// Checks that the tensors are refused with an error that contains all of `said`.
fn refused(tensors: &[Tensor], said: &[&str]) {
    let error = reader(tensors, Value::Null).unwrap_err().to_string();
    for part in said {
        assert!(error.contains(part), "{part:?} isn't in: {error}");
    }
}

fn bytes(name: &'static str, dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Tensor {
    (name, dtype, shape.to_vec(), bytes.to_vec())
}

fn words(name: &'static str, dtype: Dtype, shape: &[usize], words: &[u32]) -> Tensor {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    (name, dtype, shape.to_vec(), bytes)
}

/// A table of 16 values, code − 8.
fn table() -> Tensor {
    let values: Vec<f32> = (0..16_u8).map(|code| f32::from(code) - 8.0).collect();
    f32s("x.weight.quant_map", &[16], &values)
}

/// The description of a weight [2, 4] in blocks of four.
fn state(dtype: &str, more: &str) -> Tensor {
    let text = format!(
        r#"{{"quant_type": "nf4", "blocksize": 4, "dtype": "{dtype}", "shape": [2, 4]{more}}}"#
    );
    let name = "x.weight.quant_state.bitsandbytes__nf4";
    bytes(name, Dtype::U8, &[text.len()], text.as_bytes())
}

/// Codes 0, 15, 1, 10, and 7, 9, 8, 0: the first of a byte is in its high half.
fn codes() -> Tensor {
    bytes("x.weight", Dtype::U8, &[4, 1], &[0x0f, 0x1a, 0x79, 0x80])
}

#[test]
fn four_bits_of_bitsandbytes_index_a_table() {
    let scales = |values: &[f32]| f32s("x.weight.absmax", &[2], values);
    let expected = [-4.0, 3.5, -3.5, 1.0, -2.0, 2.0, 0.0, -16.0];
    let tensors = [codes(), table(), scales(&[0.5, 2.0]), state("float32", "")];
    is(&tensors, Value::Null, &[2, 4], &expected);
    // 7 · 1.001 = 7.007 lies between neighbours at 7 + 1/32 of bf16 and 7 + 2/256 of f16.
    for (dtype, expected) in [("bfloat16", 7.0), ("float16", 7.007_812_5)] {
        let tensors = [codes(), table(), scales(&[1.001, 1.0]), state(dtype, "")];
        let reader = reader(&tensors, Value::Null).unwrap();
        assert_eq!(reader.read_f32_part("x.weight", 1..2).unwrap(), [expected]);
    }
}

/// The scales are codes themselves: 0 and 255 of a table of n/256, times 4, plus 1/4.
#[test]
fn scales_of_bitsandbytes_may_be_codes() {
    let inner: Vec<f32> = (0..=255_u8).map(|code| f32::from(code) / 256.0).collect();
    let more = r#", "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25"#;
    let tensors = [
        codes(),
        table(),
        bytes("x.weight.absmax", Dtype::U8, &[2], &[0, 255]),
        f32s("x.weight.nested_absmax", &[1], &[4.0]),
        f32s("x.weight.nested_quant_map", &[256], &inner),
        state("float32", more),
    ];
    let large = 4.234_375;
    let expected = [-2.0, 1.75, -1.75, 0.5, -large, large, 0.0, -8.0 * large];
    is(&tensors, Value::Null, &[2, 4], &expected);
}

#[test]
fn states_of_bitsandbytes_that_do_not_fit_are_refused() {
    let scales = f32s("x.weight.absmax", &[1], &[1.0]);
    let wrong = [codes(), table(), scales, state("float32", "")];
    refused(
        &wrong,
        &[
            "bitsandbytes__nf4",
            "that it describes",
            "[4, 1]",
            "blocksize",
        ],
    );
    let name = "x.weight.quant_state.bitsandbytes__fp4";
    let no_json = [codes(), bytes(name, Dtype::U8, &[1], b"{")];
    refused(
        &no_json,
        &["bitsandbytes__fp4", "the JSON of a quantization state"],
    );
    let long = [bytes(name, Dtype::U8, &[5000], &[b' '; 5000])];
    refused(&long, &["at most 4096 bytes", "got 5000"]);
}

/// 127 stands for the scale of the row.
#[test]
fn eight_bits_of_bitsandbytes_have_a_scale_for_each_row() {
    let codes = bytes("x.weight", Dtype::I8, &[2, 2], &[127, 0x81, 64, 0]);
    let scales = f32s("x.SCB", &[2], &[2.0, 1.0]);
    let order = |order: u8| bytes("x.weight_format", Dtype::U8, &[], &[order]);
    let tensors = [codes.clone(), scales.clone(), order(0)];
    is(&tensors, Value::Null, &[2, 2], &[2.0, -2.0, 0.503_937, 0.0]);
    refused(
        &[codes.clone(), scales, order(2)],
        &["x.weight_format", "order of rows", "[2]"],
    );
    refused(
        &[codes, f32s("x.SCB", &[1], &[1.0])],
        &["for each row", "x.SCB"],
    );
}

/// Sixteen bytes of codes n and 15 − n, and their values times a quarter and a half.
fn fours() -> (Vec<u8>, Vec<f32>) {
    let bytes = (0..16_u8).map(|n| n | (15 - n) << 4);
    let values = (0..16_usize).flat_map(|n| {
        let scale = if n < 8 { 0.25 } else { 0.5 };
        [E2M1[n] * scale, E2M1[15 - n] * scale]
    });
    (bytes.collect(), values.collect())
}

#[test]
fn four_bit_floats_have_scales_of_their_own_and_one_of_all() {
    let (codes, expected) = fours();
    // 1 and 2 in E4M3.
    let scales = bytes("x.weight_scale", Dtype::F8_E4M3, &[1, 2], &[0x38, 0x40]);
    let compressed = [
        bytes("x.weight_packed", Dtype::U8, &[1, 16], &codes),
        scales.clone(),
        f32s("x.weight_global_scale", &[1], &[4.0]),
        f32s("x.input_global_scale", &[1], &[9.0]),
    ];
    is(&compressed, Value::Null, &[1, 32], &expected);
    are_in_blocks(&compressed, Value::Null, BlockFormat::Nvfp4, &expected);
    let modelopt = |scale: f32| {
        [
            bytes("x.weight", Dtype::U8, &[1, 16], &codes),
            scales.clone(),
            f32s("x.weight_scale_2", &[], &[scale]),
            f32s("x.input_scale", &[], &[9.0]),
        ]
    };
    is(&modelopt(0.25), Value::Null, &[1, 32], &expected);
    are_in_blocks(&modelopt(0.25), Value::Null, BlockFormat::Nvfp4, &expected);
    let damaged = reader(&modelopt(f32::NAN), Value::Null).unwrap();
    let error = damaged.read_f32("x.weight").unwrap_err().to_string();
    assert!(
        error.contains("x.weight_scale_2") && error.contains("positive"),
        "{error}"
    );
}

/// The values of rows of `x.weight` in blocks of this format, from row `first` on.
fn in_blocks(
    reader: &Reader,
    format: BlockFormat,
    rows: Range<usize>,
) -> Result<Vec<f32>, WeightsError> {
    assert_eq!(reader.blocks("x.weight"), Some(format));
    let columns = *reader.get("x.weight").unwrap().shape.last().unwrap();
    let mut bytes = vec![0; rows.len() * format.row_bytes(columns)];
    reader.read_blocks("x.weight", rows.start, &mut bytes)?;
    Ok(format.decoded(&format.to_words(&bytes, columns).unwrap(), columns))
}

/// Checks that the blocks of the only row of `x.weight` decode to these values.
fn are_in_blocks(tensors: &[Tensor], config: Value, format: BlockFormat, expected: &[f32]) {
    let reader = reader(tensors, config).unwrap();
    assert_eq!(in_blocks(&reader, format, 0..1).unwrap(), expected);
}

/// NVFP4 [4, 512] with every code and every scale, in the layouts of ModelOpt and compressed-tensors with this scale of all, and in MLX's.
fn nvfp4(whole: f32) -> [(Vec<Tensor>, Value); 3] {
    let codes: Vec<u8> = (0..4 * 256_u32).map(|i| (i * 73 / 4) as u8).collect();
    let mut scales: Vec<u8> = (0..0x7F).collect();
    scales.push(0x38);
    let each = bytes("x.weight_scale", Dtype::F8_E4M3, &[4, 32], &scales);
    let modelopt = vec![
        bytes("x.weight", Dtype::U8, &[4, 256], &codes),
        each.clone(),
        f32s("x.weight_scale_2", &[], &[whole]),
    ];
    let compressed = vec![
        bytes("x.weight_packed", Dtype::U8, &[4, 256], &codes),
        each,
        f32s("x.weight_global_scale", &[1], &[whole]),
    ];
    let mlx = vec![
        bytes("x.weight", Dtype::U32, &[4, 64], &codes),
        bytes("x.scales", Dtype::U8, &[4, 32], &scales),
    ];
    let mode = json!({"quantization": {"group_size": 16, "bits": 4, "mode": "nvfp4"}});
    let none = Value::Null;
    [(modelopt, none.clone()), (compressed, none), (mlx, mode)]
}

/// The blocks of NVFP4 have the bits of the decoded weight, but for the sign of zeros, whatever the scale of all is: also where it divides and a product
/// with its reciprocal is larger (0.3) or smaller (2688 / 0.37).
#[test]
fn blocks_of_nvfp4_have_the_bits_of_their_values() {
    let wholes = [1.0, 0.3, 7.0, 2688.0 / 0.37, 3.1e-4, f32::EPSILON + 1.0];
    let differ = |whole: f32, by: Ordering| {
        let mut scales = (0..16_u8).map(f32::from);
        scales.any(|scale| (scale * (1.0 / whole)).total_cmp(&(scale / whole)) == by)
    };
    assert!(differ(0.3, Ordering::Greater) && differ(2688.0 / 0.37, Ordering::Less));
    for whole in wholes {
        for (tensors, config) in nvfp4(whole) {
            let reader = reader(&tensors, config).unwrap();
            let want = reader.read_f32("x.weight").unwrap();
            assert_eq!(want.len(), 4 * 512);
            let bits = |values: &[f32]| -> Vec<u32> {
                values.iter().map(|x| (x + 0.0).to_bits()).collect()
            };
            for rows in [0..4, 1..3] {
                let got = in_blocks(&reader, BlockFormat::Nvfp4, rows.clone()).unwrap();
                let want = bits(&want[512 * rows.start..512 * rows.end]);
                assert!(bits(&got) == want, "{}, {whole}", tensors[0].0);
            }
        }
    }
    // Nine bytes for each 16 values, and a word for each row.
    let [device, stored] = [4 * BlockFormat::Nvfp4.row_words(1024), 1024 / 16 * 9];
    assert!(stored < device && (device as f64) < 1.01 * stored as f64);
}

/// Negative scales, and scales of all with which products could be subnormal or infinite, are errors that say what to do; rows that end in half of a
/// block are known by their header.
#[test]
fn nvfp4_that_is_no_blocks_is_decoded() {
    let refuses = |tensors: &[Tensor], part: &str, said: &str| {
        let reader = reader(tensors, Value::Null).unwrap();
        let error = in_blocks(&reader, BlockFormat::Nvfp4, 0..4).unwrap_err();
        let error = error.to_string();
        let all = [part, said, "decode the weights"];
        assert!(all.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(reader.read_f32("x.weight").unwrap().len(), 4 * 512);
    };
    for whole in [1e-30, 1e30] {
        let [(modelopt, _), (compressed, _), _] = nvfp4(whole);
        refuses(&modelopt, "x.weight_scale_2", "2^-90");
        refuses(&compressed, "x.weight_global_scale", "2^-90");
    }
    let [(mut modelopt, _), ..] = nvfp4(0.5);
    modelopt[1].3[5] = 0xB8;
    refuses(&modelopt, "x.weight_scale", "negative, got -1");
    let odd = [
        bytes("x.weight", Dtype::U8, &[2, 24], &[0x21; 48]),
        bytes("x.weight_scale", Dtype::F8_E4M3, &[2, 3], &[0x38; 6]),
        f32s("x.weight_scale_2", &[], &[2.0]),
    ];
    let odd = reader(&odd, Value::Null).unwrap();
    assert_eq!(odd.blocks("x.weight"), None);
    assert_eq!(odd.read_f32("x.weight").unwrap()[..2], [1.0, 2.0]);
}

/// A header needs no bytes for the extents beside one of 0: they must not become rows or blocks to go through.
#[test]
fn weights_without_values_are_no_blocks() {
    let many = 1_usize << 40;
    let floats = [
        bytes("x.weight", Dtype::U8, &[many, 0], &[]),
        bytes("x.weight_scale", Dtype::F8_E4M3, &[many, 0], &[]),
        f32s("x.weight_scale_2", &[], &[2.0]),
    ];
    let integers = [
        bytes("x.weight_packed", Dtype::I32, &[0, many], &[]),
        bytes("x.weight_scale", Dtype::F16, &[0, many / 16], &[]),
    ];
    for tensors in [&floats[..], &integers[..]] {
        let reader = reader(tensors, Value::Null).unwrap();
        assert!(reader.get("x.weight").unwrap().shape.contains(&0));
        assert_eq!(reader.blocks("x.weight"), None);
        assert!(reader.read_blocks("x.weight", 0, &mut []).is_err());
        any_bytes(&file(tensors));
    }
}

/// A scale of 129 in E8M0 is four times that of 127, 1.
#[test]
fn scales_of_mxfp4_are_powers_of_two() {
    let (format, (codes, _)) = (BlockFormat::Mxfp4, fours());
    let pairs = (0..16_usize).flat_map(|n| [4.0 * E2M1[n], 4.0 * E2M1[15 - n]]);
    let expected: Vec<f32> = pairs.collect();
    let compressed = [
        bytes("x.weight_packed", Dtype::U8, &[1, 16], &codes),
        bytes("x.weight_scale", Dtype::U8, &[1, 1], &[129]),
    ];
    is(&compressed, Value::Null, &[1, 32], &expected);
    are_in_blocks(&compressed, Value::Null, format, &expected);
    let modelopt = [
        bytes("x.weight", Dtype::U8, &[1, 16], &codes),
        bytes("x.weight_scale", Dtype::U8, &[1, 1], &[129]),
    ];
    is(&modelopt, Value::Null, &[1, 32], &expected);
    are_in_blocks(&modelopt, Value::Null, format, &expected);
    let mlx = [
        bytes("x.weight", Dtype::U32, &[1, 4], &codes),
        bytes("x.scales", Dtype::U8, &[1, 1], &[129]),
    ];
    let config = json!({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}});
    is(&mlx, config.clone(), &[1, 32], &expected);
    are_in_blocks(&mlx, config.clone(), format, &expected);
    // The second matrix of a stack, whose scale is twice that of the first; 255 is no scale.
    let stack = |second: u8| {
        [
            bytes("x.weight", Dtype::U32, &[2, 1, 4], &codes.repeat(2)),
            bytes("x.scales", Dtype::U8, &[2, 1, 1], &[129, second]),
        ]
    };
    let read = |second: u8| {
        let reader = reader(&stack(second), config.clone()).unwrap();
        in_blocks(&reader, format, 1..2)
    };
    let twice: Vec<f32> = expected.iter().map(|value| 2.0 * value).collect();
    assert_eq!(read(130).unwrap(), twice);
    let error = read(255).unwrap_err().to_string();
    assert!(error.contains("finite scales"), "{error}");
    refused(&mlx, &["words of MLX", "x.weight", "mxfp4"]);
}

/// Codes 0, 1, 2 … in the order of the bits; a group of a layer may have a size of its own.
#[test]
fn words_of_mlx_are_scaled_and_moved() {
    let of = |codes: &[u32], scales: &[f32], biases: &[f32]| {
        [
            words("x.weight", Dtype::U32, &[1, codes.len()], codes),
            f32s("x.scales", &[1, scales.len()], scales),
            f32s("x.biases", &[1, biases.len()], biases),
        ]
    };
    let four = of(&[0x7654_3210, 0xfedc_ba98], &[0.5, 2.0], &[-1.0, 0.25]);
    let expected: Vec<f32> = (0..16_u8)
        .map(|code| match code {
            0..8 => 0.5 * f32::from(code) - 1.0,
            _ => 2.0 * f32::from(code) + 0.25,
        })
        .collect();
    let config = json!({"quantization": {"group_size": 64, "bits": 4, "x": {"group_size": 8}}});
    is(&four, config, &[1, 16], &expected);
    // Eight codes of three bits are 0xfac688; three words hold them four times.
    let three = of(&[0x88fa_c688, 0xc688_fac6, 0xfac6_88fa], &[1.0], &[0.5]);
    let expected: Vec<f32> = (0..32_u8).map(|at| f32::from(at % 8) + 0.5).collect();
    let config = json!({"quantization": {"group_size": 32, "bits": 3}});
    is(&three, config, &[1, 32], &expected);
}

/// Extents that fit 64 bits as words, and not as the values of the words' codes.
#[test]
fn weights_whose_size_overflows_are_refused() {
    let [rows, words_of_row, groups] = [1 << 33, 1 << 30, 1 << 27];
    let tensors = [
        words("x.weight", Dtype::U32, &[rows, 0, words_of_row], &[]),
        f32s("x.scales", &[rows, 0, groups], &[]),
        f32s("x.biases", &[rows, 0, groups], &[]),
    ];
    let shape = format!("[{rows}, 0, {}]", 64 * groups);
    refused(&tensors, &["x.weight", "whose size fits", &shape]);
}

/// The same words as in MLX, with a stored zero of 2, which stands for 3.
#[test]
fn codes_of_gptq_may_cross_words() {
    let tensors = [
        words(
            "x.qweight",
            Dtype::I32,
            &[3, 1],
            &[0x88fa_c688, 0xc688_fac6, 0xfac6_88fa],
        ),
        words("x.qzeros", Dtype::I32, &[1, 1], &[2]),
        f32s("x.scales", &[1, 1], &[0.5]),
    ];
    let expected: Vec<f32> = (0..32_u8)
        .map(|at| 0.5 * (f32::from(at % 8) - 3.0))
        .collect();
    let config = json!({"quantization_config": {"quant_method": "gptq", "bits": 3}});
    is(&tensors, config, &[1, 32], &expected);
}

/// Where nothing is declared, the zeros' shape tells the bits: four words for 16 zeros are eight bits each.
#[test]
fn zeros_tell_the_bits() {
    let tensors = [
        words("x.qweight", Dtype::I32, &[1, 16], &[0x0403_0201; 16]),
        words("x.qzeros", Dtype::I32, &[1, 4], &[0; 4]),
        f32s("x.scales", &[1, 16], &[1.0; 16]),
    ];
    is(
        &tensors,
        Value::Null,
        &[16, 4],
        &[0.0, 1.0, 2.0, 3.0].repeat(16),
    );
    let marlin = [
        words("x.qweight", Dtype::I32, &[1, 32], &[0; 32]),
        f32s("x.scales", &[1, 16], &[1.0; 16]),
    ];
    refused(
        &marlin,
        &[
            "x.qweight",
            "GPTQ",
            "I32 of shape [1, 32]",
            "F32 of shape [1, 16]",
        ],
    );
    let narrow = [
        words("x.weight_packed", Dtype::I64, &[1, 2], &[0; 4]),
        f32s("x.weight_scale", &[1, 1], &[1.0]),
    ];
    refused(&narrow, &["x.weight_packed", "compressed-tensors", "I64"]);
}

/// Blocks of 8 × 8, where 12 rows in two blocks could also be blocks of 6.
#[test]
fn blocks_of_compressed_tensors_are_declared_for_a_group() {
    let tensors = [
        bytes("x.weight", Dtype::F8_E4M3, &[12, 12], &[0x38; 144]),
        f32s("x.weight_scale", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
    ];
    let group = json!({"weights": {"num_bits": 8, "strategy": "block", "block_structure": [8, 8]}});
    let config = json!({"quantization_config": {"config_groups": {"group_0": group}}});
    let layout = |config: Value| {
        let reader = reader(&tensors, config).unwrap();
        reader.fp8_layout("x.weight", Unscaled::Refuse)
    };
    let declared = layout(config).unwrap().scheme.granularity;
    let eight = Granularity::Block {
        rows: 8,
        columns: 8,
    };
    assert_eq!(declared, eight);
    let untold = layout(Value::Null).unwrap_err().to_string();
    assert!(untold.contains("must be told by the shape"), "{untold}");
}

proptest! {
    // The environment variable PROPTEST_CASES may set more cases.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1024), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_parts_are_read_or_refused(
        parts in prop::collection::btree_map(
            prop::sample::select(vec![
                "x.weight", "x.weight_packed", "x.weight_scale", "x.weight_scale_2", "x.weight_global_scale", "x.qweight", "x.qzeros",
                "x.scales", "x.biases", "x.g_idx", "x.SCB", "x.weight_format", "x.weight.absmax", "x.weight.quant_map",
                "x.weight.quant_state.bitsandbytes__nf4",
            ]),
            (
                prop::sample::select(vec![Dtype::F32, Dtype::U8, Dtype::I8, Dtype::I32, Dtype::U32, Dtype::F8_E4M3]),
                prop::collection::vec(0_usize..5, 0..3),
                any::<u8>(),
            ),
            1..5,
        ),
        codes in 0_usize..33,
    ) {
        let tensors: Vec<Tensor> = parts
            .into_iter()
            .map(|(name, (dtype, mut shape, fill))| {
                if let Some(last) = shape.last_mut().filter(|_| name.ends_with("weight")) {
                    *last = codes;
                }
                let count: usize = shape.iter().product();
                (name, dtype, shape, vec![fill; count * dtype.bitsize() / 8])
            })
            .collect();
        any_bytes(&file(&tensors));
    }

    #[test]
    fn arbitrary_states_are_read_or_refused(text in "[\\{\\}\\[\\]\",:0-9a-z_. ]{0,80}", shape in "[0-9, ]{0,8}") {
        let name = "x.weight.quant_state.bitsandbytes__nf4";
        let sound = format!(r#"{{"blocksize": 4, "dtype": "float32", "shape": [{shape}]}}"#);
        for text in [text, sound] {
            let state = bytes(name, Dtype::U8, &[text.len()], text.as_bytes());
            let scales = f32s("x.weight.absmax", &[2], &[1.0, 2.0]);
            any_bytes(&file(&[codes(), table(), scales, state]));
        }
    }
}
