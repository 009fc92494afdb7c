//! TEMP
#![allow(clippy::unwrap_used, reason = "test")]
use burn::tensor::{Distribution, Tensor};
use moebius::moe::*;
#[test]
fn grads() {
    let name = std::env::var("DEV").unwrap_or("flex".into());
    let device = moebius::open(&name.parse().unwrap()).unwrap().autodiff();
    for (gated, bias, act) in [
        (false, false, Activation::Relu),
        (true, true, Activation::Silu),
        (false, true, Activation::Gelu),
        (true, false, Activation::Mish),
    ] {
        let layer = MoeConfig::new(6, 10, 4)
            .with_gated(gated)
            .with_bias(bias)
            .with_activation(act)
            .init(&device)
            .unwrap();
        let x = Tensor::<2>::random([7, 6], Distribution::Normal(0.0, 1.0), &device).require_grad();
        let dy = Tensor::<2>::random([7, 6], Distribution::Normal(0.0, 1.0), &device);
        let f = |x: Tensor<2>, l: &MoeLayer| (l.forward(x).unwrap().y * dy.clone()).sum();
        let loss = f(x.clone(), &layer);
        let grads = loss.backward();
        let dx = x.grad(&grads).unwrap();
        let dr = layer.router.val().grad(&grads).unwrap();
        let dw = layer.w_in.val().grad(&grads).unwrap();
        let dwo = layer.w_out.val().grad(&grads).unwrap();
        let h = 1e-2f32;
        let fd = |x: Tensor<2>, l: &MoeLayer| -> f32 { f(x, l).into_scalar() };
        let dir = Tensor::<2>::random([7, 6], Distribution::Normal(0.0, 1.0), &device);
        let num = (fd(x.clone() + dir.clone() * h, &layer)
            - fd(x.clone() - dir.clone() * h, &layer))
            / (2.0 * h);
        let ana: f32 = (dx * dir.inner()).sum().into_scalar();
        println!("x {num} {ana}");
        let step = |s: f32, which: usize| {
            let mut l = layer.clone();
            match which {
                0 => {
                    l.router = l.router.map(|t| {
                        let d = t.clone().sin() * 3.0;
                        t + d * s
                    })
                }
                1 => {
                    l.w_in = l.w_in.map(|t| {
                        let d = t.clone().sin() * 3.0;
                        t + d * s
                    })
                }
                _ => {
                    l.w_out = l.w_out.map(|t| {
                        let d = t.clone().sin() * 3.0;
                        t + d * s
                    })
                }
            };
            l
        };
        for w in 0..3 {
            let num = (fd(x.clone(), &step(h, w)) - fd(x.clone(), &step(-h, w))) / (2.0 * h);
            let ana: f32 = match w {
                0 => (dr.clone() * (layer.router.val().inner().sin() * 3.0))
                    .sum()
                    .into_scalar(),
                1 => (dw.clone() * (layer.w_in.val().inner().sin() * 3.0))
                    .sum()
                    .into_scalar(),
                _ => (dwo.clone() * (layer.w_out.val().inner().sin() * 3.0))
                    .sum()
                    .into_scalar(),
            };
            println!("w{w} {num} {ana}");
        }
    }
}
