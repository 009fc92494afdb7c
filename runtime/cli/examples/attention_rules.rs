//! Rules of attention skip the keys that they hide or change the scores of the others, and compute what tables of all pairs compute.

use std::error::Error;

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Distribution, Int, Tensor, TensorData};
use moebius::attention::Attend;
use moebius_ops::distance;

const TOKENS: i64 = 64;
const WIDTH: usize = 16;

/// Tokens of each document but the last.
const DOCUMENT: i64 = 24;

/// Whether a rule lets the query at one place see the key at another.
type Sees = fn(i64, i64) -> bool;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let size = TOKENS as usize;
    let documents: Vec<i32> = (0..TOKENS as i32).map(|i| i / DOCUMENT as i32).collect();
    let documents = Tensor::<2, Int>::from_data(TensorData::new(documents, [1, size]), device);
    let of_documents = Attend::new().documents(documents.clone(), documents);
    device.seed(1);
    let random =
        |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), device);
    let [q, k, v] = [(); 3].map(|()| random([1, 2, size, WIDTH]));
    let forward = |attend: &Attend| attend.forward(q.clone(), k.clone(), v.clone());
    let mut figures = String::from("rule       pairs seen  apart from all pairs");
    let mut most = 0.0f64;
    let mut add = |name: &str, seen: usize, got: Tensor<4>, want: Tensor<4>| {
        let (got, want): (Vec<f32>, Vec<f32>) = (got.try_into_vec_as()?, want.try_into_vec_as()?);
        let apart = distance(&got, &want);
        figures += &format!("\n{name:9}  {seen:10}  {apart:.0e}");
        most = most.max(apart);
        Ok::<(), Box<dyn Error>>(())
    };
    for (name, rule, sees) in hiding(of_documents) {
        let of_query = |i| (0..TOKENS).map(move |j| !sees(i, j));
        let hidden: Vec<bool> = (0..TOKENS).flat_map(of_query).collect();
        let seen = hidden.iter().filter(|hidden| !**hidden).count();
        let hidden = TensorData::new(hidden, [1, 1, size, size]);
        let mask = Attend::new().mask(Tensor::<4, Bool>::from_data(hidden, device));
        add(name, seen, forward(&rule)?.o, forward(&mask)?.o)?;
    }
    let bias = random([1, 2, size, size]);
    let slopes = [0.5f32, 0.25];
    let of_query = |slope: f32, i: i64| (0..TOKENS).map(move |j| slope * (j - i) as f32);
    let of_head = |slope: f32| (0..TOKENS).flat_map(move |i| of_query(slope, i));
    let distances: Vec<f32> = slopes.into_iter().flat_map(of_head).collect();
    let distances = TensorData::new(distances, [1, 2, size, size]);
    let slopes = Tensor::<1>::from_data(TensorData::new(slopes.to_vec(), [2]), device);
    for (name, rule, table) in [
        ("bias", Attend::new().bias(bias.clone()), bias),
        (
            "alibi",
            Attend::new().alibi_slopes(slopes),
            Tensor::from_data(distances, device),
        ),
    ] {
        let by_table = weighted(scores(q.clone(), k.clone()) + table, v.clone());
        add(name, size * size, forward(&rule)?.o, by_table)?;
    }
    let fact = format!("no rule is more than {most:.0e} of its result apart from a table of pairs");
    Ok((figures, fact, most <= 1e-5))
}

/// The rules that hide keys, each with the condition that it stands for; `documents` is the rule of documents.
fn hiding(documents: Attend) -> [(&'static str, Attend, Sees); 7] {
    [
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
        ("documents", documents, |i, j| i / DOCUMENT == j / DOCUMENT),
    ]
}

/// The scores ⟨q_i, k_j⟩ / √D of all pairs. Sums of products are written out, because GPUs may round what a matrix product multiplies.
fn scores(q: Tensor<4>, k: Tensor<4>) -> Tensor<4> {
    let products = q.unsqueeze_dim::<5>(3) * k.unsqueeze_dim::<5>(2);
    products.sum_dim(4).squeeze_dim::<4>(4) / (WIDTH as f64).sqrt()
}

/// The rows of v, weighted with the softmax of the scores.
fn weighted(scores: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let weights = softmax(scores, 3);
    let products = weights.unsqueeze_dim::<5>(4) * v.unsqueeze_dim::<5>(2);
    products.sum_dim(3).squeeze_dim::<4>(3)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
