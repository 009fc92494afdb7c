//! A rule of a program's own, written in CubeCL, becomes a part of the kernels of attention, forward and backward.

use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor};
use cubecl::prelude::*;
use moebius::attention::{
    Attend, HostRule, LaunchRule, Pair, Pairs, RuleArgs, ScoreRule, check_rule,
};

/// The length of a step along the gradient.
const STEP: f64 = 0.01;

/// s / (1 + |s| / cap) − rate · (p − j)², of keys that aren't later than the query: far keys fade, and no score grows beyond the cap.
#[derive(Clone, Debug)]
struct Fading {
    cap: f32,
    rate: f32,
}

/// The rule's numbers on a device: others compile nothing.
#[derive(CubeType, CubeLaunch)]
struct Numbers {
    cap: f32,
    rate: f32,
}

#[cube]
impl ScoreRule for Fading {
    type Args = Numbers;

    fn score<N: Size>(args: &Numbers, s: Vector<f32, N>, at: &Pairs<N>) -> Vector<f32, N> {
        let one = Vector::<f32, N>::new(1.0f32);
        let back = Vector::<f32, N>::cast_from(Vector::new(at.position) - at.keys);
        let capped = s / (one + s.abs() / Vector::new(args.cap));
        capped - Vector::new(args.rate) * back * back
    }

    fn slope<N: Size>(args: &Numbers, s: Vector<f32, N>, _at: &Pairs<N>) -> Vector<f32, N> {
        let one = Vector::<f32, N>::new(1.0f32);
        let by = one + s.abs() / Vector::new(args.cap);
        one / (by * by)
    }

    fn seen<N: Size>(_args: &Numbers, at: &Pairs<N>) -> Vector<bool, N> {
        at.keys.less_equal(&Vector::new(at.position))
    }
}

/// The same in plain Rust: what `flex` runs, and what [`check_rule`] compares with.
impl HostRule for Fading {
    fn score(&self, s: f64, at: &Pair) -> f64 {
        let back = (at.position - at.key as i64) as f64;
        s / (1.0 + s.abs() / f64::from(self.cap)) - f64::from(self.rate) * back * back
    }

    fn slope(&self, s: f64, _: &Pair) -> f64 {
        (1.0 + s.abs() / f64::from(self.cap)).powi(-2)
    }

    fn seen(&self, at: &Pair) -> bool {
        at.key as i64 <= at.position
    }
}

impl LaunchRule for Fading {
    fn args(&self) -> RuleArgs<Self> {
        NumbersLaunch::new(self.cap, self.rate)
    }
}

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let (cap, rate) = (2.0, 0.002);
    let rule = Fading { cap, rate };
    check_rule(&rule, device, [1, 2, 5, 9], 4.0)?;

    device.seed(1);
    let random = || {
        let shape = [1, 2, 24, 16];
        Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), device)
    };
    let attend = Attend::new().causal().rule(rule);
    // The outputs, each with a weight of its own, which the loss sums.
    let weighted = |[q, k, v, weights]: [Tensor<4>; 4]| -> Result<Tensor<4>, moebius::Error> {
        Ok(attend.forward(q, k, v)?.o * weights)
    };
    let inputs = [(); 4].map(|()| random());
    let tracked = inputs.clone().map(|x| x.autodiff().require_grad());
    let gradients = weighted(tracked.clone())?.sum().backward();
    let [Some(dq), Some(dk), ..] = tracked.map(|x| x.grad(&gradients)) else {
        return Err("expected gradients of q and k, got none".into());
    };
    let squares = (dq.clone() * dq.clone()).sum() + (dk.clone() * dk.clone()).sum();
    let squares: Vec<f32> = squares.try_into_vec_as()?;
    let length = f64::from(squares[0]).sqrt();

    // Along its own direction a gradient's slope is its length.
    let loss = |step: f64| -> Result<f64, Box<dyn Error>> {
        let ([q, k, v, weights], by) = (inputs.clone(), step / length);
        let moved = [q + dq.clone() * by, k + dk.clone() * by, v, weights];
        let values: Vec<f32> = weighted(moved)?.try_into_vec_as()?;
        Ok(values.into_iter().map(f64::from).sum())
    };
    let measured = (loss(STEP)? - loss(-STEP)?) / (2.0 * STEP);
    let apart = (measured / length - 1.0).abs();
    let figures =
        format!("slope along the gradient: {length:.4}\ndifference quotient:      {measured:.4}");
    let fact = format!("the rule's gradient is {apart:.0e} of itself apart from differences");
    // Quotients are off by the square of the step, as far as the loss bends, and by rounding.
    Ok((figures, fact, apart <= 5e-3))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
