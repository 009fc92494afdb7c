//! Reductions in pieces. What cuts an axis is compiled here once more: a device tells how long its pieces are, and Flex has no limit.

#[path = "../../src/reduce/pieces.rs"]
mod pieces;

use burn::tensor::{Device, Tensor};
use moebius::reduce::{check_rows, sum};
use pieces::in_pieces;

/// Numbers whose sums are exact in f32, in [2, len, 3].
fn numbers(len: usize) -> Tensor<3> {
    let values: Vec<f32> = (0..2 * len * 3).map(|i| (i * 7 % 31) as f32).collect();
    Tensor::<1>::from_floats(&values[..], &Device::flex()).reshape([2, len, 3])
}

fn values(x: Tensor<3>) -> Vec<f32> {
    x.into_data().iter::<f32>().collect()
}

#[test]
fn pieces_reduce_to_the_whole() {
    // Lengths below, at and above the longest piece, of whole pieces and not, and of pieces of pieces.
    for len in [1, 3, 4, 5, 8, 17, 64, 101] {
        let x = numbers(len);
        let all: Vec<f32> = values(x.clone());
        let column = |a: usize, c: usize| (0..len).map(move |b| (a * len + b) * 3 + c);
        let (mut sums, mut largest) = (Vec::new(), Vec::new());
        for (a, c) in (0..2).flat_map(|a| (0..3).map(move |c| (a, c))) {
            sums.push(column(a, c).map(|i| all[i]).sum::<f32>());
            largest.push(column(a, c).map(|i| all[i]).fold(f32::MIN, f32::max));
        }
        let sum = in_pieces(x.clone(), 1, 4, |x| x.sum_dim(1), |a, b| a + b);
        assert_eq!(sum.dims(), [2, 1, 3]);
        assert_eq!(values(sum), sums, "{len}");
        let max = in_pieces(x, 1, 4, |x| x.max_dim(1), Tensor::max_pair);
        assert_eq!(values(max), largest, "{len}");
    }
}

#[test]
fn a_device_without_a_limit_cuts_nothing() {
    let x = numbers(5);
    // Where gradients are recorded, any limit would refuse as many rows.
    for device in [x.device(), x.device().autodiff()] {
        assert!(check_rows("a model", usize::MAX, &device).is_ok());
    }
    let total: f32 = sum(x.clone()).into_scalar();
    assert_eq!(total, values(x).iter().sum::<f32>());
}
