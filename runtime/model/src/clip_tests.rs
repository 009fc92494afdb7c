use super::clip;
use burn::nn::RmsNormConfig;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

#[test]
fn the_common_norm_is_bounded_and_the_direction_stays() {
    let device = Device::flex();
    let modules = vec![
        RmsNormConfig::new(1).init(&device),
        RmsNormConfig::new(2).init(&device),
    ];
    // The norm of the gradients is √(2² + 3² + 6²) = 7.
    for (longest, scale) in [(100.0, 1.0), (7.0, 1.0), (3.5, 0.5)] {
        let mut gradients = GradientsParams::new();
        let values: [&[f32]; 2] = [&[2.0], &[3.0, -6.0]];
        for (module, values) in modules.iter().zip(values) {
            gradients.register(module.gamma.id, Tensor::<1>::from_floats(values, &device));
        }
        let clipped = clip(&modules, gradients, longest);
        for (module, values) in modules.iter().zip(values) {
            let got = clipped.get::<1>(module.gamma.id).unwrap();
            let got: Vec<f32> = got.into_data().iter().collect();
            let close = |(a, b): (&f32, &f32)| (a - b * scale).abs() < 1e-6;
            assert!(got.iter().zip(values).all(close), "{longest}: {got:?}");
        }
    }
}
