//! Codes are matched with their scales, or an error says why not.

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::{Granularity, HostScales};
use moebius_weights::{Dtype, Fp8Weight, Reader, Unscaled, WeightsError};

use crate::files::{Tensor, bytes, f32s, file, write};

/// The only FP8 weight, `w.weight`, of a file with these tensors.
fn weight(tensors: &[Tensor]) -> Result<Fp8Weight, WeightsError> {
    let reader = Reader::from_bytes("w.safetensors", file(tensors)).unwrap();
    let layout = reader.fp8_layout("w.weight", Unscaled::Refuse)?;
    reader.fp8_weight(&layout)
}

/// Codes of 1 in E4M3.
fn codes(shape: &[usize]) -> Tensor {
    bytes("w.weight", Dtype::F8_E4M3, shape, 0x38)
}

#[test]
fn scales_multiply_whatever_they_are_called() {
    for name in [
        "w.weight_scale_inv",
        "w.weight_scale",
        "w.weight_scales",
        "w.scale",
        "w.scales",
    ] {
        let read = weight(&[codes(&[2, 3]), f32s(name, &[2, 1], &[0.5, 4.0])]).unwrap();
        assert_eq!(read.scheme.granularity, Granularity::Row);
        assert_eq!(read.dequantize().unwrap(), [0.5, 0.5, 0.5, 4.0, 4.0, 4.0]);
    }
}

#[test]
fn values_have_the_scale_of_their_block() {
    let scales: Vec<f32> = (1..=6).map(|n| n as f32).collect();
    let scales = f32s("w.weight_scale_inv", &[2, 3], &scales);
    let read = weight(&[codes(&[129, 257]), scales]).unwrap();
    let values = read.dequantize().unwrap();
    for (at, want) in [
        ((0, 0), 1.0),
        ((127, 127), 1.0),
        ((127, 128), 2.0),
        ((0, 256), 3.0),
        ((128, 0), 4.0),
        ((128, 256), 6.0),
    ] {
        assert_eq!(values[at.0 * 257 + at.1], want, "{at:?}");
    }
}

/// Each matrix of a stack can be read without the others, whether scales are its own or those of all.
#[test]
fn one_matrix_of_a_stack_is_read_alone() {
    for scales in [
        f32s(
            "w.weight_scale",
            &[3, 2, 1],
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        ),
        f32s("w.weight_scale", &[3, 1, 1], &[1.0, 2.0, 3.0]),
        f32s("w.weight_scale", &[1], &[2.0]),
        bytes("w.weight_scale", Dtype::U8, &[3, 2, 1], 130),
    ] {
        let stack = file(&[codes(&[3, 2, 4]), scales]);
        let reader = Reader::from_bytes("w.safetensors", stack).unwrap();
        let layout = reader.fp8_layout("w.weight", Unscaled::Refuse).unwrap();
        let whole = reader.fp8_weight(&layout).unwrap().dequantize().unwrap();
        for number in 0..3 {
            let before = reader.bytes_read();
            let one = reader.fp8_matrix(&layout, number).unwrap();
            assert_eq!(one.shape, [2, 4]);
            assert_eq!(one.dequantize().unwrap(), whole[number * 8..][..8]);
            // Its eight codes, and two scales at most.
            assert!(reader.bytes_read() - before <= 16);
        }
        let none = reader.fp8_matrix(&layout, 3).unwrap_err();
        assert!(matches!(none, WeightsError::DataLength { .. }), "{none}");
    }
}

#[test]
fn bytes_are_exponents() {
    let scales = bytes("w.weight_scale", Dtype::U8, &[1, 2], 130);
    let mx = weight(&[codes(&[1, 33]), scales]).unwrap();
    assert_eq!(mx.scheme.granularity, Granularity::Mx);
    assert_eq!(mx.scales, HostScales::E8M0(vec![130, 130]));
    assert_eq!(mx.dequantize().unwrap(), [8.0; 33]);
    let scales = bytes("w.weight_scale_inv", Dtype::F8_E8M0, &[2, 2], 126);
    let blocks = weight(&[codes(&[200, 200]), scales]).unwrap();
    assert_eq!(blocks.scales, HostScales::F32(vec![0.5; 4]));
    // Plain bytes in a grid of blocks are ambiguous.
    let scales = bytes("w.weight_scale", Dtype::U8, &[2, 2], 126);
    let error = weight(&[codes(&[200, 200]), scales]).unwrap_err();
    assert!(error.to_string().contains("got shape [2, 2]"), "{error}");
}

#[test]
fn experts_have_scales_of_their_own_or_share_one() {
    let experts = codes(&[2, 1, 2]);
    let own = weight(&[experts.clone(), f32s("w.weight_scale", &[2], &[1.0, 2.0])]).unwrap();
    assert_eq!(own.dequantize().unwrap(), [1.0, 1.0, 2.0, 2.0]);
    let shared = weight(&[experts, f32s("w.weight_scale", &[1], &[3.0])]).unwrap();
    assert_eq!(shared.scales, HostScales::F32(vec![3.0; 2]));
    assert_eq!(shared.dequantize().unwrap(), [3.0; 4]);
}

#[test]
fn the_scale_of_the_input_is_one_value() {
    let pair = [codes(&[1, 1]), f32s("w.weight_scale", &[1], &[1.0])];
    let with = |scale: Tensor| weight(&[pair[0].clone(), pair[1].clone(), scale]);
    assert_eq!(weight(&pair).unwrap().input_scale, None);
    for (name, shape) in [
        ("w.input_scale", &[][..]),
        ("w.input_scale", &[1]),
        ("w.activation_scale", &[1, 1]),
    ] {
        let read = with(f32s(name, shape, &[0.25])).unwrap();
        assert_eq!(read.input_scale, Some(0.25));
    }
    let two = with(f32s("w.input_scale", &[2], &[1.0, 1.0]));
    let error = two.unwrap_err().to_string();
    let said = "`w.input_scale`: expected one value, got shape [2]";
    assert!(error.contains(said), "{error}");
    let error = with(bytes("w.input_scale", Dtype::U8, &[], 1)).unwrap_err();
    assert!(matches!(error, WeightsError::WrongTensor { .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_with_both_shapes() {
    macro_rules! refused {
        ($($tensors:expr => $pattern:pat, $($said:expr),+;)+) => {$(
            let error = weight(&$tensors).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, $pattern), "{text}");
            $(assert!(text.contains($said), "{} in {text}", $said);)+
        )+};
    }
    let scales = |shape: &[usize], values: &[f32]| f32s("w.weight_scale", shape, values);
    let inverse = f32s("w.weight_scale_inv", &[2, 2], &[1.0; 4]);
    let second = f32s("w.scale", &[1], &[1.0]);
    let integers = bytes("w.weight_scale", Dtype::I8, &[1], 0);
    refused! {
        [codes(&[384, 384]), inverse] => WeightsError::WrongTensor { .. },
            "w.safetensors", "`w.weight_scale_inv`", "[384, 384]", "[2, 2]";
        [codes(&[4, 4])] => WeightsError::MissingScale { .. }, "`w.weight_scale_inv`";
        [codes(&[4, 4]), scales(&[1], &[1.0]), second] => WeightsError::ManyScales { .. }, "one tensor of scales";
        [f32s("w.weight", &[1], &[1.0])] => WeightsError::WrongTensor { .. }, "F8_E4M3 or F8_E5M2";
        [bytes("w.weight", Dtype::F8_E4M3, &[4], 0)] => WeightsError::Rank { .. }, "two or three extents";
        [codes(&[4, 4]), integers] => WeightsError::WrongTensor { .. }, "F32, F16, BF16, F8_E8M0 or U8";
    }
    for scale in [f32::NAN, f32::INFINITY] {
        let error = weight(&[codes(&[2, 4]), scales(&[2], &[1.0, scale])]).unwrap_err();
        let said = format!("expected finite scales, got {scale} at 1");
        assert!(error.to_string().ends_with(&said), "{error}");
    }
}

#[test]
fn codes_without_a_scale_are_taken_as_they_are_when_asked() {
    let bare = bytes("w.weight", Dtype::F8_E5M2, &[2, 2], 0x40);
    let reader = Reader::from_bytes("w", file(&[bare])).unwrap();
    let layouts = reader.fp8_layouts(Unscaled::AssumeOne).unwrap();
    assert_eq!(
        (layouts[0].scheme.format, &layouts[0].scale),
        (Fp8Format::E5M2, &None)
    );
    let read = reader.fp8_weight(&layouts[0]).unwrap();
    assert_eq!(read.dequantize().unwrap(), [2.0; 4]);
}

#[test]
fn the_configuration_says_how_large_a_block_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let tensors = [
        codes(&[384, 384]),
        f32s("w.weight_scale_inv", &[2, 2], &[1.0; 4]),
    ];
    write(path, "model.safetensors", file(&tensors));
    let layout = || {
        Reader::open(path)
            .unwrap()
            .fp8_layout("w.weight", Unscaled::Refuse)
    };
    let say = |size: &str| {
        let config = format!(r#"{{"quantization_config":{{"weight_block_size":{size}}}}}"#);
        write(path, "config.json", config);
    };
    for size in ["[192, 256]", "[200,300]"] {
        say(size);
        let [rows, columns] = serde_json::from_str(size).unwrap();
        let expected = Granularity::Block { rows, columns };
        assert_eq!(layout().unwrap().scheme.granularity, expected);
    }
    for size in ["[0, 128]", "[128]", "128", "[128, -1]", "\"x\"", "[1.5, 1]"] {
        say(size);
        let error = layout().unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, WeightsError::BlockSize { .. }),
            "{size}: {text}"
        );
        assert!(text.contains("config.json"), "{text}");
    }
    // Configurations without a block size change nothing.
    let null = r#"{"quantization_config":{"weight_block_size":null}}"#;
    for text in ["{}", "[]", "7", null] {
        write(path, "config.json", text);
        let error = layout().unwrap_err().to_string();
        assert!(error.contains(", got shape ["), "{text}: {error}");
    }
}

#[test]
fn a_weight_made_by_hand_is_checked() {
    let sound = weight(&[codes(&[2, 3]), f32s("w.weight_scale", &[2, 1], &[0.5, 4.0])]).unwrap();
    let broken: [fn(&mut Fp8Weight); 6] = [
        |w| w.codes.push(0),
        |w| w.scales = HostScales::F32(vec![1.0]),
        |w| w.scales = HostScales::E8M0(vec![1, 1]),
        |w| w.shape = vec![6],
        |w| w.shape = vec![usize::MAX, usize::MAX],
        |w| w.scheme.granularity = Granularity::Mx,
    ];
    for (index, damage) in broken.into_iter().enumerate() {
        let mut weight = sound.clone();
        damage(&mut weight);
        assert!(weight.check().is_err(), "{index}");
        assert!(weight.dequantize().is_err(), "{index}");
    }
}
