//! Layouts of integers that a configuration tells apart, and those of compressed-tensors (`tests/cases/make_packings.py`).

use std::path::Path;

use moebius_weights::{Dtype, Reader, WeightsError};
use serde_json::{Value, json};

use crate::files::{Tensor, f32s, file};

fn reader(tensors: &[Tensor], config: &Value) -> Result<Reader, WeightsError> {
    let bytes = file(tensors);
    Reader::from_sources(
        [("test".to_owned(), Box::new(bytes) as _)],
        Some(("config.json", config.clone())),
    )
}

/// The values of `x.weight`.
fn values(tensors: &[Tensor], config: &Value) -> Vec<f32> {
    let reader = reader(tensors, config).unwrap();
    reader.read_f32("x.weight").unwrap()
}

fn words(name: &'static str, shape: &[usize], words: &[u32]) -> Tensor {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    (name, Dtype::I32, shape.to_vec(), bytes)
}

/// A weight [8, 8] of GPTQ with all codes 0, the scale 1 and these zeros.
fn of_zeros(zeros: u32) -> [Tensor; 3] {
    [
        words("x.qweight", &[1, 8], &[0; 8]),
        words("x.qzeros", &[1, 1], &[zeros]),
        f32s("x.scales", &[1, 8], &[1.0; 8]),
    ]
}

/// The negative zeros of rows, each for 8 columns.
fn negative(zeros: [u8; 8]) -> Vec<f32> {
    let rows = zeros.into_iter().map(|zero| [0.0 - f32::from(zero); 8]);
    rows.flatten().collect()
}

#[test]
fn words_of_compressed_tensors_are_those_of_its_own_functions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/packings");
    let open = |name: &str| Reader::open(&folder.join(name)).unwrap();
    let (stored, expected) = (open("model.safetensors"), open("expected.safetensors"));
    let names = |reader: &Reader| -> Vec<String> {
        reader.tensors().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&stored), names(&expected), "no part is left over");
    for name in names(&expected) {
        assert_eq!(stored.get(&name).unwrap().shape, [5, 44], "{name}");
        let want = expected.read_f32(&name).unwrap();
        assert_eq!(stored.read_f32(&name).unwrap(), want, "{name}");
    }
}

/// GPTQModel stores zeros 0 to 7 as 0x76543210 − 0x11111111, where the first zero borrows from the second, and so on.
#[test]
fn zeros_of_the_first_version_of_gptq_borrow_from_their_neighbors() {
    let config = json!({"quantization_config": {"quant_method": "gptq", "bits": 4}});
    let stored = 0x7654_3210_u32 - 0x1111_1111;
    let expected = negative([0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(values(&of_zeros(stored), &config), expected);
}

/// The second version stores zeros as they are, and so does AutoRound unless it names its layout after AutoGPTQ.
#[test]
fn zeros_are_read_as_the_configuration_names_them() {
    let (same, more) = (negative([8; 8]), negative([9; 8]));
    for (config, expected) in [
        (json!({"checkpoint_format": "gptq"}), &more),
        (json!({"checkpoint_format": "gptq_v2"}), &same),
        (json!({"format": "gptq_v2"}), &same),
        (json!({"format": "gptq_p"}), &same),
        (json!({"packing_format": "auto_round:auto_gptq"}), &more),
        (json!({"packing_format": "auto_round:gptqmodel"}), &same),
        (json!({"packing_format": "auto_round"}), &same),
    ] {
        let config = json!({ "quantization_config": config });
        let got = values(&of_zeros(0x8888_8888), &config);
        assert_eq!(&got, expected, "{config}");
    }
}

/// Three bits of the planar layout of GPTQModel lie in two planes.
#[test]
fn planes_of_gptq_are_refused() {
    let tensors = [
        words("x.qweight", &[3, 1], &[0; 3]),
        words("x.qzeros", &[1, 1], &[0]),
        f32s("x.scales", &[1, 1], &[1.0]),
    ];
    let config = json!({"quantization_config": {"bits": 3, "checkpoint_format": "gptq_p"}});
    let error = reader(&tensors, &config).unwrap_err().to_string();
    assert!(error.contains("x.qweight"), "{error}");
}

/// Of 24 columns in groups of 16 the second group has 8.
#[test]
fn the_last_group_may_have_fewer_columns() {
    let tensors = [
        words("x.qweight", &[3, 8], &[0x9999_9999; 24]),
        words("x.qzeros", &[2, 1], &[0x7777_7777; 2]),
        f32s("x.scales", &[2, 8], &[[1.0; 8], [2.0; 8]].concat()),
    ];
    let config = json!({"quantization_config": {"bits": 4, "group_size": 16}});
    let row = [[1.0; 16].as_slice(), &[2.0; 8]].concat();
    assert_eq!(values(&tensors, &config), row.repeat(8));
    let untold = json!({"quantization_config": {"bits": 4}});
    let row = [[1.0; 12], [2.0; 12]].concat();
    assert_eq!(values(&tensors, &untold), row.repeat(8));
}

#[test]
fn numbers_of_groups_are_checked() {
    let of_gptq = |number: u32| {
        let [codes, zeros, scales] = of_zeros(0x7777_7777);
        let mut numbers = [0; 8];
        numbers[5] = number;
        [codes, zeros, scales, words("x.g_idx", &[8], &numbers)]
    };
    for (number, got) in [(1, "got 1"), (u32::MAX, "got -1")] {
        let reader = reader(&of_gptq(number), &Value::Null).unwrap();
        let error = reader.read_f32("x.weight").unwrap_err().to_string();
        let parts = ["x.g_idx", "numbers of groups from 0 to 0", got];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    // compressed-tensors writes −1 for columns in their own order.
    let tensors = [
        words("x.weight_packed", &[1, 1], &[0x9999_9999]),
        f32s("x.weight_scale", &[1, 2], &[1.0, 2.0]),
        words("x.weight_g_idx", &[8], &[u32::MAX; 8]),
    ];
    let expected = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
    assert_eq!(values(&tensors, &Value::Null), expected);
}

#[test]
fn shapes_that_do_not_fit_their_words_are_refused() {
    let of_shape = |extents: [i64; 2]| {
        let bytes = extents.iter().flat_map(|extent| extent.to_le_bytes());
        let shape = ("x.weight_shape", Dtype::I64, vec![2], bytes.collect());
        [
            words("x.weight_packed", &[1, 1], &[0]),
            f32s("x.weight_scale", &[1, 1], &[1.0]),
            shape,
        ]
    };
    assert_eq!(values(&of_shape([1, 7]), &Value::Null), [-8.0; 7]);
    for (extents, said) in [
        ([1, -7], "got [1, -7]"),
        ([2, 7], "x.weight_packed"),
        ([1, 40], "x.weight_packed"),
        ([1, i64::MAX], "x.weight_packed"),
    ] {
        let error = reader(&of_shape(extents), &Value::Null).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// A scale of 129 in E8M0 is four, and the code 2 of E2M1 is 1.
#[test]
fn a_layer_of_mlx_may_have_a_mode_of_its_own() {
    let (name, scales) = ("x.weight", "x.scales");
    let tensors = [
        (name, Dtype::U32, vec![1, 4], vec![0x22; 16]),
        (scales, Dtype::U8, vec![1, 1], vec![129]),
    ];
    let own = json!({"group_size": 32, "bits": 4, "mode": "mxfp4"});
    let config = json!({"quantization": {"group_size": 64, "mode": "affine", "x": own}});
    assert_eq!(values(&tensors, &config), [4.0; 32]);
}
