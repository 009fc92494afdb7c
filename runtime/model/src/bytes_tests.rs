use super::DecoderConfig;
use crate::decoder::{Cache, Logits, Model};
use crate::error::Error;
use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::{CacheFormat, Pages};

fn small() -> DecoderConfig {
    DecoderConfig {
        sequence: 6,
        ..DecoderConfig::default().with_hidden(16)
    }
}

fn forward(bytes: [[i32; 6]; 2]) -> Logits {
    let device = Device::flex();
    let decoder = small().init(0, &device).unwrap();
    decoder
        .forward(Tensor::<2, Int>::from_ints(bytes, &device))
        .unwrap()
}

fn rows(output: Logits) -> Vec<Vec<f32>> {
    let logits: Vec<f32> = output.logits.into_data().iter().collect();
    logits.chunks(256).map(<[f32]>::to_vec).collect()
}

#[test]
fn a_byte_changes_nothing_before_it_and_nothing_in_other_sequences() {
    let one = forward([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]);
    let two = forward([[1, 2, 3, 99, 5, 6], [7, 8, 9, 10, 11, 12]]);
    assert_eq!(one.routing.len(), 2);
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
    let logits = decoder.forward(zeros(4)).unwrap().logits;
    assert_eq!(logits.dims(), [3, 4, 256]);
    let error = decoder.forward(zeros(7)).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

/// Steps over a cache continue with the learned positions after those of earlier steps, also when the sequences differ in length.
#[test]
fn learned_positions_go_on_from_step_to_step() {
    let device = Device::flex();
    let decoder = small().init(0, &device).unwrap();
    let step = |bytes: &[i32], counts: [usize; 2], cache: &mut Cache, model: &Model| {
        let data = TensorData::new(bytes.to_vec(), [2, bytes.len() / 2]);
        let bytes = Tensor::<2, Int>::from_data(data, &device);
        model.step(bytes, &counts, cache).map(rows)
    };
    let whole = rows(forward([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]));
    let pages = Pages::paged(2, 2, 16).unwrap();
    let mut cache = Cache::new(decoder.spec(), pages, CacheFormat::F32, &device).unwrap();
    let first = step(&[1, 2, 3, 4, 7, 8, 0, 0], [4, 2], &mut cache, &decoder).unwrap();
    assert_eq!(first[..4], whole[..4]);
    assert_eq!(first[4..6], whole[6..8]);
    let second = step(&[5, 6, 9, 10], [2, 2], &mut cache, &decoder).unwrap();
    assert_eq!(second, [&whole[4..6], &whole[8..10]].concat());
    let error = step(&[13, 11], [1, 1], &mut cache, &decoder).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

#[test]
fn sizes_that_cannot_work_are_refused_before_anything_is_allocated() {
    let sizes = DecoderConfig::default();
    sizes.check().unwrap();
    let (narrow, wide) = (sizes.with_hidden(1), sizes.with_hidden(130));
    let large = "decoder: expected at most 268435456 parameters";
    type Change = fn(&mut DecoderConfig);
    let wrong: [(DecoderConfig, Change, &str); 7] = [
        (
            sizes,
            |of| of.heads = 3,
            "heads: expected a divisor of hidden 64, got 3",
        ),
        (
            wide,
            |of| of.heads = 1,
            "hidden / heads: expected at most 128, got 130",
        ),
        (sizes, |of| of.top_k = 9, "top_k: expected at most 8, got 9"),
        (
            sizes,
            |of| of.inter = 0,
            "inter: expected at least 1, got 0",
        ),
        (
            narrow,
            |of| of.layers = 20_000_000,
            "layers: expected at most 1024, got 20000000",
        ),
        (narrow, |of| of.experts = 1 << 31, large),
        (sizes.with_hidden(usize::MAX - 15), |_| (), large),
    ];
    for (mut sizes, change, message) in wrong {
        change(&mut sizes);
        let error = sizes.init(0, &Device::flex()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn a_width_brings_its_heads_and_experts() {
    let sizes = DecoderConfig::default();
    assert_eq!(sizes.with_hidden(64), sizes);
    for (hidden, heads) in [(10, 1), (130, 2), (131, 131), (200, 2), (1000, 8)] {
        assert_eq!(sizes.with_hidden(hidden).heads, heads);
        sizes.with_hidden(hidden).check().unwrap();
    }
}
