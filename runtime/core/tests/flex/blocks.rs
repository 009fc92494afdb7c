//! Rows of blocks of codes that Burn's operations decode.

use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use moebius::blocks::{BlockFormat, BlockLayout, BlockTensor};
use moebius::exact;
use moebius_ops::blocks::interleaved;

fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

/// The values of blocks of 32 that begin with these scales, one in each row: decoded by Burn's operations, and on the host.
fn both<const N: usize>(
    format: BlockFormat,
    scales: impl Iterator<Item = [u8; N]>,
) -> [Vec<f32>; 2] {
    let size = format.layout().bytes;
    let codes = 1..=(size - N) as u8;
    let bytes: Vec<u8> = scales
        .flat_map(|scale| scale.into_iter().chain(codes.clone()))
        .collect();
    let layout = BlockLayout {
        shape: [1, bytes.len() / size, 32],
        format,
    };
    rows_and_whole(&bytes, layout)
}

/// The values of all rows, decoded by Burn's operations, and on the host.
fn rows_and_whole(bytes: &[u8], layout: BlockLayout) -> [Vec<f32>; 2] {
    let device = Device::flex();
    let weights = BlockTensor::from_bytes(bytes, layout, &device).unwrap();
    let ids = Tensor::<1, Int>::arange(0..layout.shape[1] as i64, &device);
    let whole = weights.to_dense().unwrap().squeeze_dim(0);
    [weights.rows(ids).unwrap(), whole].map(floats)
}

fn assert_same([got, want]: [Vec<f32>; 2]) {
    assert_eq!(got.len(), want.len());
    assert!(want.iter().any(|value| value.is_infinite()));
    for (at, (got, want)) in got.into_iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "value {at}: {got} in place of {want}");
    }
}

/// A file may have any scale: zeros of both signs, subnormal numbers, infinity and NaN.
#[test]
fn rows_have_the_values_of_every_scale() {
    let all = (0..=u8::MAX).flat_map(|upper| [[0, upper], [1, upper], [0xA7, upper]]);
    assert_same(both(BlockFormat::Q8_0, all));
}

/// A row of numbers of 16 bits has each of them.
#[test]
fn rows_have_the_values_of_every_number() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for format in [BlockFormat::F16, BlockFormat::Bf16] {
        let layout = BlockLayout {
            shape: [1, 1 << 11, 1 << 5],
            format,
        };
        assert_same(rows_and_whole(&bytes, layout));
    }
}

/// An exact product, or an embedding, decodes four million values at once, and the rest after them.
#[test]
fn exact_products_and_rows_are_decoded_in_parts() {
    let (device, rows, columns) = (Device::flex(), 130, 1 << 15);
    let block = |at: usize| {
        let scale = [(at % 251) as u8, 0x38];
        scale
            .into_iter()
            .chain((0..32).map(move |code| (7 * at + 13 * code) as u8))
    };
    let bytes: Vec<u8> = (0..rows * columns / 32).flat_map(block).collect();
    let layout = BlockLayout {
        shape: [1, rows, columns],
        format: BlockFormat::Q8_0,
    };
    let weights = BlockTensor::from_bytes(&bytes, layout, &device).unwrap();
    assert!(exact::decoding_bytes(rows * columns) < 32 * (rows * columns) as u64);
    let x = Tensor::random([1, columns], Distribution::Default, &device);
    let bias = Tensor::random([rows], Distribution::Default, &device);
    let dense: Tensor<2> = weights.to_dense().unwrap().squeeze_dim(0);
    let ids = Tensor::<1, Int>::arange(0..rows as i64, &device);
    let got = exact::rows_in_blocks(&weights, ids);
    let want = exact::combine(dense.clone(), None, None, 1.0);
    let [got, want] = [got, want].map(|values| floats(values.unwrap()));
    assert!(got == want);
    let got = exact::linear_in_blocks(x.clone(), &weights, Some(bias.clone()));
    let want = exact::linear(x, dense, Some(bias));
    let [got, want] = [got, want].map(|y| floats(y.unwrap()));
    assert_eq!(got.len(), rows);
    assert!(got == want && got.iter().all(|value| value.is_finite()));
}

/// Every scale in E4M3 in rows of several scales, and every neighbour of their products, above and below.
#[test]
fn rows_have_the_values_of_every_scale_of_nvfp4() {
    let of_rows = [
        1.0,
        1.0 + f32::EPSILON,
        2.0 - f32::EPSILON,
        0.1,
        3.7e-5,
        2.0_f32.powi(-90),
        2.0_f32.powi(90),
    ];
    // The last fills the last block.
    let scales = (0..=0x7F).chain(0x81..=0xFF).chain([0x38]);
    let scales: Vec<u8> = scales.collect();
    let codes = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE].repeat(2);
    let blocks = scales.chunks(2).flat_map(|pair| [pair, &codes].concat());
    let blocks: Vec<u8> = blocks.collect();
    let row = |scale: f32| [&scale.to_le_bytes()[..], &blocks].concat();
    let rows = of_rows
        .into_iter()
        .flat_map(|scale| [row(scale), row(-scale)]);
    let (bytes, device) = (rows.collect::<Vec<_>>().concat(), Device::flex());
    let layout = BlockLayout {
        shape: [1, 2 * of_rows.len(), 16 * scales.len()],
        format: BlockFormat::Nvfp4,
    };
    let weights = BlockTensor::from_bytes(&bytes, layout, &device).unwrap();
    let ids = Tensor::<1, Int>::arange(0..layout.shape[1] as i64, &device);
    let got = floats(weights.rows(ids).unwrap());
    let want = floats(weights.to_dense().unwrap().squeeze_dim(0));
    assert!(want.iter().all(|value| value.is_finite()));
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(&got) == bits(&want));
}

/// Scales of twenty bits with every sign and exponent, beside a zero of four bits.
#[test]
fn rows_have_the_values_of_every_scale_of_integers() {
    let parts = [[0x07, 0], [0xF3, 0x7F], [0x58, 0x80], [0x0F, 0xA5]];
    let all = (0..=u8::MAX).flat_map(|upper| parts.map(|[low, middle]| [low, middle, upper]));
    let is_nan = |[low, middle, upper]: &[u8; 3]| {
        f32::from_le_bytes([0, low & 0xF0, *middle, *upper]).is_nan()
    };
    assert_same(both(
        BlockFormat::Int4_32,
        all.filter(|scale| !is_nan(scale)),
    ));
}

/// Rows that end inside a word are filled up there, whoever does it; words of another shape are refused.
#[test]
fn words_are_the_bytes_of_padded_rows() {
    let (device, format) = (Device::flex(), BlockFormat::Q8_0);
    let layout = BlockLayout {
        shape: [1, 3, 32],
        format,
    };
    let bytes: Vec<u8> = (0..3 * 34).map(|at| (at * 7 % 61) as u8).collect();
    let rows = bytes.chunks(34);
    let padded: Vec<u8> = rows.flat_map(|row| [row, &[0; 2]].concat()).collect();
    let words = padded.as_chunks::<4>().0.iter();
    let words: Vec<i32> = words.map(|four| i32::from_le_bytes(*four)).collect();
    assert_eq!(layout.words_shape(), [1, 3, 9]);
    let of = |shape: &[usize]| {
        let words = TensorData::new(words.clone(), shape.to_vec());
        BlockTensor::from_words(words, layout, &device)
    };
    let values = |blocks: BlockTensor| floats(blocks.to_dense().unwrap().squeeze_dim(0));
    let want = values(BlockTensor::from_bytes(&bytes, layout, &device).unwrap());
    assert_eq!(values(of(&[1, 3, 9]).unwrap()), want);
    let mut interleaved = padded;
    interleaved::interleave(interleaved.as_chunks_mut().0, format, [3, 9]);
    let interleaved = interleaved
        .as_chunks()
        .0
        .iter()
        .map(|word| i32::from_ne_bytes(*word));
    let interleaved = TensorData::new(interleaved.collect(), [1, 3, 9]);
    let of_interleaved = BlockTensor::from_interleaved(interleaved, layout, &device);
    assert_eq!(values(of_interleaved.unwrap()), want);
    let said = of(&[3, 9]).unwrap_err().to_string();
    assert!(
        said.contains("expected [1, 3, 9] of I32, got [3, 9]"),
        "{said}"
    );
}
