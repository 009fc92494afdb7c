//! Ordinary layers on the experts' kernels.

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Distribution, Tensor};
use moebius::ErrorKind;
use moebius::nn::{attention, decodes_weights, linear, rms_norm, takes_half_weights};

fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

#[test]
fn a_linear_layer_is_a_product_with_the_transposed_weights() {
    let device = Device::flex();
    let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
    let w = Tensor::from_floats([[1.0, 0.0], [0.0, 10.0], [1.0, 1.0], [0.0, 0.0]], &device);
    let y = linear(x.clone(), w.clone(), None).unwrap();
    assert_eq!(floats(y), floats(x.clone().matmul(w.clone().transpose())));
    let bias = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
    let y = linear(x.clone(), w.clone(), Some(bias.clone())).unwrap();
    let want = x.matmul(w.transpose()) + bias.unsqueeze();
    assert_eq!(floats(y), floats(want));
}

#[test]
fn half_weights_are_multiplied_as_what_they_stand_for() {
    let device = Device::flex();
    let random = |shape| Tensor::<2>::random(shape, Distribution::Default, &device);
    for rows in [1, 3, 70] {
        let (x, w) = (random([rows, 37]), random([75, 37]));
        for dtype in [DType::F16, DType::BF16] {
            let half = w.clone().cast(dtype);
            let wide = half.clone().cast(DType::F32);
            let got = linear(x.clone(), half, None).unwrap();
            assert_eq!(got.dtype(), DType::F32);
            assert_eq!(floats(got), floats(linear(x.clone(), wide, None).unwrap()));
        }
    }
    let recording = device.clone().autodiff();
    assert!(takes_half_weights(&device) && !takes_half_weights(&recording));
    assert!(!decodes_weights(&device));
    let half = random([2, 4]).cast(DType::BF16);
    let refused = linear(random([1, 4]).autodiff(), half.autodiff(), None);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Shape);
}

/// A norm with factors in f32 is that of the values in f32, rounded once, and the gradient of the factors is that of f32.
#[test]
fn a_norm_of_halves_is_computed_in_the_dtype_of_its_factors() {
    let device = Device::flex();
    for device in [device.clone(), device.autodiff()] {
        let x = Tensor::<2>::random([2000, 8], Distribution::Default, &device);
        let x = x.cast(DType::BF16);
        let gamma = Tensor::from_floats([1.0, 0.5, 3.0, 1.5, 1.0, -1.0, 0.25, 2.0], &device);
        let norm = RmsNorm {
            gamma: Param::from_tensor(gamma),
            epsilon: 1e-5,
        };
        let wide = rms_norm(&norm, x.clone().cast(DType::F32));
        let y = rms_norm(&norm, x);
        assert_eq!(y.dtype(), DType::BF16);
        assert_eq!(floats(y.clone()), floats(wide.clone().cast(DType::BF16)));
        if device.is_autodiff() {
            let of = |y: Tensor<2>| {
                let gradients = y.cast(DType::F32).sum().backward();
                norm.gamma.val().grad(&gradients).unwrap()
            };
            let [got, want] = [y, wide].map(of);
            assert_eq!(got.dtype(), DType::F32);
            assert_eq!(got.into_data(), want.into_data());
        }
    }
}

#[test]
fn attention_stays_in_its_sequence_and_sees_nothing_later() {
    let device = Device::flex();
    // Equal keys: every token's result is the mean of the values it sees.
    let keys = Tensor::<2>::zeros([4, 2], &device);
    let values = [[1.0, 10.0], [3.0, 30.0], [5.0, 50.0], [9.0, 90.0]];
    let values = Tensor::<2>::from_floats(values, &device);
    let attend = |causal| {
        let inputs = [keys.clone(), keys.clone(), values.clone()];
        floats(attention(inputs, 2, 2, causal).unwrap())
    };
    assert_eq!(attend(true), [1.0, 10.0, 2.0, 20.0, 5.0, 50.0, 7.0, 70.0]);
    assert_eq!(attend(false), [2.0, 20.0, 2.0, 20.0, 7.0, 70.0, 7.0, 70.0]);
}

#[test]
fn wrong_shapes_are_refused() {
    let device = Device::flex();
    let x = Tensor::<2>::zeros([4, 6], &device);
    let product = linear(x.clone(), Tensor::zeros([2, 5], &device), None);
    let bias = Tensor::zeros([3], &device);
    let bias = linear(x.clone(), Tensor::zeros([2, 6], &device), Some(bias));
    let heads = attention([x.clone(), x.clone(), x.clone()], 4, 2, true);
    let keys = attention(
        [x.clone(), x.clone().narrow(1, 0, 3), x.clone()],
        2,
        2,
        true,
    );
    let sequence = attention([x.clone(), x.clone(), x], 2, 0, true);
    for error in [product, bias, keys, sequence].map(Result::err) {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Shape));
    }
    assert_eq!(heads.unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn no_rows_are_no_rows() {
    let device = Device::flex();
    let x = Tensor::<2>::zeros([0, 6], &device);
    let y = linear(x.clone(), Tensor::zeros([2, 6], &device), None).unwrap();
    assert_eq!(y.dims(), [0, 2]);
    let y = attention([x.clone(), x.clone(), x], 2, 3, true).unwrap();
    assert_eq!(y.dims(), [0, 6]);
}
