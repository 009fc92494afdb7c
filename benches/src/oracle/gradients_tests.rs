use super::*;
use burn::tensor::{Device, Distribution};
use moebius::moe::{Activation, MoeConfig, RouteConfig};

/// Gradients from a layer's backward pass for dy, and its routing.
fn pass(layer: &MoeLayer, x: &Tensor<2>, dy: &Tensor<2>) -> (Gradients, Routing) {
    let out = layer.forward(x.clone()).unwrap();
    let tape = (out.y * dy.clone()).sum().backward();
    let weights = layer.weights().unwrap();
    let gradients = Gradients {
        x: x.grad(&tape).unwrap(),
        router: weights.router.grad(&tape).unwrap(),
        w_in: weights.w_in.grad(&tape).unwrap(),
        w_out: weights.w_out.grad(&tape).unwrap(),
    };
    (gradients, out.routing)
}

#[test]
fn right_gradients_pass_and_wrong_ones_do_not() {
    let device = Device::flex().autodiff();
    // The bounds hold for this fixed seed; with others, one run in forty misses one.
    device.seed(1);
    for (top_k, gated, activation) in [
        (2, false, Activation::Relu),
        (3, true, Activation::Silu),
        (1, true, Activation::Mish),
        (2, true, Activation::Clamped),
    ] {
        let config = MoeConfig::new(20, 12, 6)
            .with_router(RouteConfig::new(top_k))
            .with_gated(gated)
            .with_activation(activation);
        let layer = config.init(&device).expect("a sound configuration");
        let random = || Tensor::<2>::random([5, 20], Distribution::Default, &device);
        let (x, dy) = (random().require_grad(), random());
        let (mut got, routing) = pass(&layer, &x, &dy);
        let oracle = GradientOracle::new(&layer, (&x, &dy), &routing).expect("an oracle");
        assert!(oracle.error(&got) < 1e-5, "{}", oracle.error(&got));
        let (sampled, _) = pass(&layer, &x, &oracle.sampled_dy(&dy));
        assert!(oracle.router_error(&sampled.router) < 1e-5);
        if top_k > 1 {
            assert!(oracle.router_error(&(sampled.router * 1.01)) > 1e-4);
        }
        let wrong = 1.0 + 1e-3;
        for part in 0..3 {
            let right = (got.x.clone(), got.w_in.clone(), got.w_out.clone());
            match part {
                0 => got.x = got.x * wrong,
                1 => got.w_in = got.w_in * wrong,
                _ => got.w_out = got.w_out * wrong,
            }
            assert!(oracle.error(&got) > 5e-4, "part {part}");
            (got.x, got.w_in, got.w_out) = right;
        }
    }
}
