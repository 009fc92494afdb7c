//! Rules of attention skip the keys that they hide, and compute what a mask of all pairs computes.

use std::error::Error;

use burn::tensor::{Bool, Device, Distribution, Tensor, TensorData};
use moebius::attention::Attend;
use moebius_ops::distance;

const TOKENS: i64 = 64;

/// Whether a rule lets the query at one place see the key at another.
type Sees = fn(i64, i64) -> bool;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let rules: [(&str, Attend, Sees); 6] = [
        ("causal", Attend::new().causal(), |i, j| j <= i),
        ("window", Attend::new().window(8), |i, j| {
            (0..8).contains(&(i - j))
        }),
        ("symmetric", Attend::new().symmetric_window(8), |i, j| {
            (i - j).abs() < 8
        }),
        ("prefix", Attend::new().prefix(8), |i, j| j < 8 || j <= i),
        ("dilated", Attend::new().dilated(4), |i, j| (i - j) % 4 == 0),
        ("global", Attend::new().global(2, 8), |i, j| {
            (i - j).abs() < 8 || j < 2 || i < 2
        }),
    ];
    device.seed(1);
    let size = TOKENS as usize;
    let random = || {
        let shape = [1, 2, size, 16];
        Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), device)
    };
    let (q, k, v) = (random(), random(), random());
    let mut figures = String::from("rule       pairs seen  apart from its mask");
    let mut most = 0.0f64;
    for (name, rule, sees) in rules {
        let of_query = |i| (0..TOKENS).map(move |j| !sees(i, j));
        let hidden: Vec<bool> = (0..TOKENS).flat_map(of_query).collect();
        let seen = hidden.iter().filter(|hidden| !**hidden).count();
        let hidden = TensorData::new(hidden, [1, 1, size, size]);
        let mask = Attend::new().mask(Tensor::<4, Bool>::from_data(hidden, device));
        let [by_rule, by_mask] =
            [rule, mask].map(|attend| attend.forward(q.clone(), k.clone(), v.clone()));
        let by_rule: Vec<f32> = by_rule?.o.try_into_vec_as()?;
        let by_mask: Vec<f32> = by_mask?.o.try_into_vec_as()?;
        let apart = distance(&by_rule, &by_mask);
        figures += &format!("\n{name:9}  {seen:10}  {apart:.0e}");
        most = most.max(apart);
    }
    let fact = format!("no rule is more than {most:.0e} of its result apart from its mask");
    Ok((figures, fact, most <= 1e-5))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
