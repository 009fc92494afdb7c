//! Weights in large pages.

use burn::tensor::{Distribution, Tensor};
use moebius::in_large_pages;
use moebius::nn::{Linear, LinearConfig};

#[test]
fn a_module_computes_the_same() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let x = Tensor::<2>::random([2, 1024], Distribution::Default, &device);
    let linear = LinearConfig::new(1024, 1030).init(&device).unwrap();
    let y = |linear: &Linear| linear.forward(x.clone()).unwrap().into_data();
    let before = y(&linear);
    let (id, weight) = (
        linear.bias.as_ref().unwrap().id,
        linear.weight.values().unwrap(),
    );
    let moved = in_large_pages(linear);
    assert_eq!(y(&moved), before);
    assert_eq!(moved.bias.as_ref().unwrap().id, id);
    assert_eq!(
        moved.weight.values().unwrap().into_data(),
        weight.into_data()
    );
    let trained = in_large_pages(
        LinearConfig::new(1024, 1024)
            .init(&device.autodiff())
            .unwrap(),
    );
    assert!(trained.bias.unwrap().val().is_require_grad());
}
