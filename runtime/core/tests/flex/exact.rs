//! What operations with the same bits on every device refuse.

use burn::nn::RmsNormConfig;
use burn::tensor::Tensor;
use moebius::exact;
use moebius::moe::Activation;

#[test]
fn refusals_name_what_was_expected() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let x = Tensor::<2>::ones([2, 7], &device);
    let norm = RmsNormConfig::new(8).init(&device);
    let narrow = exact::rms_norm(&norm, x.clone()).unwrap_err();
    assert_eq!(narrow.to_string(), "last dimension of x: expected 8, got 7");
    let odd = exact::activation(x, Activation::Silu, true).unwrap_err();
    assert_eq!(
        odd.to_string(),
        "columns of gate and up: expected an even number, got 7"
    );
}
