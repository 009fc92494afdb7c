use super::{DecoderConfig, DecoderOutput};
use crate::error::Error;
use burn::tensor::{Device, Int, Tensor};

fn small() -> DecoderConfig {
    DecoderConfig {
        sequence: 6,
        ..DecoderConfig::default().with_hidden(16)
    }
}

fn forward(bytes: [[i32; 6]; 2]) -> DecoderOutput {
    let device = Device::flex();
    let decoder = small().init(0, &device).unwrap();
    decoder
        .forward(Tensor::<2, Int>::from_ints(bytes, &device))
        .unwrap()
}

#[test]
fn a_byte_changes_nothing_before_it_and_nothing_in_other_sequences() {
    let one = forward([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]);
    let two = forward([[1, 2, 3, 99, 5, 6], [7, 8, 9, 10, 11, 12]]);
    let rows = |output: DecoderOutput| -> Vec<Vec<f32>> {
        let logits: Vec<f32> = output.logits.into_data().iter().collect();
        logits.chunks(256).map(<[f32]>::to_vec).collect()
    };
    assert_eq!(one.moe.len(), 2);
    let (one, two) = (rows(one), rows(two));
    for row in 0..12 {
        assert_eq!(one[row] == two[row], !(3..6).contains(&row), "row {row}");
    }
}

#[test]
fn a_sequence_may_be_shorter_and_not_longer() {
    let device = Device::flex();
    let decoder = small().init(0, &device).unwrap();
    let zeros = |sequence| Tensor::<2, Int>::zeros([3, sequence], &device);
    assert_eq!(decoder.forward(zeros(4)).unwrap().logits.dims(), [12, 256]);
    let error = decoder.forward(zeros(7)).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}
