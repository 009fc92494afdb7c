use moebius::attention::Pages;
use moebius::fp8::Weight;

use super::*;
use crate::decoder::{Drawn, Mixer, Model};

fn numbers(words: &Tensor<1, Int>) -> Vec<i32> {
    words.clone().into_data().iter().collect()
}

#[test]
fn sequences_go_on_from_their_last_page() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let (mut pages, mut ends) = (Pages::paged(2, 4, 64).unwrap(), vec![0; 4]);
    let mut turns = |tokens: [usize; 2], kept: Option<usize>, least: usize| {
        if let Some(kept) = kept {
            pages.truncate(0, kept).unwrap();
        }
        let step = pages.extend(&tokens, &device).unwrap();
        let turns = Turns::new(&step, [2, 16], least, &mut ends, &device)?;
        let words = [turns.read, turns.written, turns.kept];
        Ok::<_, Error>(words.map(|words| numbers(&words)))
    };
    // Token t of the first sequence is value t + 2, after the two values before the new ones, and of the second value 22 + t + 2.
    let [read, written, kept] = turns([20, 3], None, 0).unwrap();
    assert_eq!((read, written), (vec![0, 0], vec![1, 2, 3]));
    assert_eq!(kept, [16, 17, 20, 21, 25, 26]);
    let [read, written, kept] = turns([1, 14], None, 5).unwrap();
    // Pages that are missing in a table of five are the last one again.
    assert_eq!((read, written), (vec![2, 3], vec![2, 3, 4, 4, 4]));
    assert_eq!(kept, [1, 2, 29, 30, 30, 31, 30, 31, 30, 31]);
    // The values before token 18 are gone, those before token 16 are in the first page.
    let fault = turns([1, 0], Some(18), 0).unwrap_err().to_string();
    assert!(fault.contains("expected 21, got 18"), "{fault}");
    let [read, ..] = turns([1, 0], Some(16), 0).unwrap();
    assert_eq!(read, [1, 4]);
}

#[test]
fn a_sum_is_over_the_last_tokens() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let matrix = |values: &[f32], shape: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), &device)
    };
    let linear = |values: &[f32], shape| {
        let weight = Param::from_tensor(matrix(values, shape));
        Linear::new(Weight::from(weight), None).unwrap()
    };
    // b, c and v of the one channel are x, 2x and 1x.
    let convolution = Convolution {
        input: linear(&[1.0, 2.0, 1.0], [3, 1]),
        factors: Param::from_tensor(matrix(&[100.0, 10.0, 1.0], [1, 3])),
        bias: None,
        out: linear(&[1.0], [1, 1]),
    };
    let places = Places {
        first: vec![0],
        tokens: 4,
        longest: 4,
        packed: None,
        counts: None,
    };
    let x = matrix(&[1.0, 2.0, 3.0, 1.0], [4, 1]);
    let y = convolution.forward(x, &places, None).unwrap();
    let y: Vec<f32> = y.into_data().iter().collect();
    assert_eq!(y, [2.0, 56.0, 894.0, 982.0]);
}

#[test]
fn a_convolution_over_one_token_is_refused() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let mut spec = crate::DecoderConfig::default().spec();
    spec.layers[0].mixer = Mixer::Convolution(ConvolutionSpec {
        taps: 1,
        bias: false,
        fp8: None,
    });
    let model = Model::of_values(&spec, &mut Drawn::new(&spec, 1), &device);
    let fault = model.unwrap_err().to_string();
    assert!(fault.contains("expected at least 2, got 1"), "{fault}");
}
