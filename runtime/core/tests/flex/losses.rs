//! The entropy loss.

use burn::tensor::{Device, Tensor};
use moebius::moe::{RouteConfig, Routing, route};

/// The entropy loss of one token with these probabilities, whose sum is 1 to the last bit.
fn entropy(probs: &[f32]) -> f32 {
    let probs = Tensor::<1>::from_floats(probs, &Device::flex()).unsqueeze::<2>();
    let routing = Routing {
        probs: probs.clone(),
        ..route(probs, None, &RouteConfig::new(1)).unwrap()
    };
    routing.losses(1).unwrap().entropy.into_scalar()
}

#[test]
fn entropy_keeps_its_digits_near_balance_and_far_from_it() {
    // Steps in parts of 8192, which f32 holds, so that nothing is rounded before the entropy.
    for parts in [0, 1, 64, 1536, 2176, 4096, 8184] {
        let step = f64::from(parts) / 8192.0;
        let sign = |e: usize| if e.is_multiple_of(2) { step } else { -step };
        let q: Vec<f64> = (0..8).map(|e| (1.0 + sign(e)) / 8.0).collect();
        let rounded: Vec<f32> = q.iter().map(|q| *q as f32).collect();
        let got = entropy(&rounded);
        let want = q.iter().map(|q| q * (8.0 * q).ln()).sum::<f64>() / 8f64.ln();
        let error = (f64::from(got) - want).abs();
        assert!(error <= 2e-5 * want + 1e-12, "{step}: {got} for {want}");
    }
    let collapsed = entropy(&[1.0, 0.0, 0.0]);
    assert!((collapsed - 1.0).abs() < 1e-6);
}
