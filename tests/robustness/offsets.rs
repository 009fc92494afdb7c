//! Weights and tokens that lie beyond 2³¹ and 2³² bytes in their buffers.
//!
//! Buffers are zero except for a few rows, so that the zeros on the host take no memory.

use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::moe::{MoeConfig, MoeWeights, RouteConfig};
use moebius_tests::data::Rng;

const HIDDEN: usize = 8192;
const INTER: usize = 8192;

fn open(device: moebius::Device) -> Device {
    moebius::open(&device).unwrap()
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as().unwrap()
}

/// A stack of matrices that are all zero except the first and the last.
fn stack(experts: usize, [rows, columns]: [usize; 2], device: &Device) -> Tensor<3> {
    let len = rows * columns;
    let mut values = vec![0.0; experts * len];
    for (expert, seed) in [(0, 1), (experts - 1, 2)] {
        let mut rng = Rng::new(seed);
        values[expert * len..][..len].fill_with(|| 0.02 * rng.unit());
    }
    Tensor::from_data(TensorData::new(values, [experts, rows, columns]), device)
}

/// Compares the outputs of the first and the last of `experts` experts with those of a layer of two experts that have the same
/// weights.
fn weights(device: &Device, experts: usize) {
    let config = |experts| MoeConfig::new(HIDDEN, INTER, experts).with_router(RouteConfig::new(1));
    let run = |experts: usize| {
        // The sign of a token's first number decides between the first and the last expert.
        let mut router = vec![0.0; experts * HIDDEN];
        (router[0], router[(experts - 1) * HIDDEN]) = (-1.0, 1.0);
        let layer = config(experts).with_weights(MoeWeights {
            router: Tensor::from_data(TensorData::new(router, [experts, HIDDEN]), device),
            w_in: stack(experts, [INTER, HIDDEN], device),
            b_in: None,
            w_out: stack(experts, [HIDDEN, INTER], device),
            b_out: None,
        });
        let mut x = Rng::new(3).vec(4 * HIDDEN, 1.0);
        for (token, x) in x.chunks_mut(HIDDEN).enumerate() {
            x[0] = if token % 2 == 0 { 50.0 } else { -50.0 };
        }
        let x = Tensor::<2>::from_data(TensorData::new(x, [4, HIDDEN]), device);
        let out = layer.unwrap().forward(x).unwrap();
        let chosen: Vec<i64> = out.routing.indices.into_data().iter().collect();
        let last = experts as i64 - 1;
        assert_eq!(chosen, [last, 0, last, 0]);
        (floats(out.y), floats(out.routing.weights))
    };
    let (got, weights) = run(experts);
    let (want, same_weights) = run(2);
    assert_eq!(weights, same_weights);
    assert!(want.iter().all(|y| *y != 0.0));
    assert!(got == want, "weights beyond 2^31 bytes give other results");
}

/// Checks 9 experts with matrices of 256 MiB: the last one begins at 2³¹ bytes.
pub(crate) fn weights_on_cpu() {
    weights(&open(moebius::Device::Cpu), 9);
}

/// Checks 17 experts with matrices of 256 MiB: the last one begins at 2³² bytes.
pub(crate) fn weights_on_flex() {
    weights(&open(moebius::Device::Flex), 17);
}

/// Checks the logits of `tokens` tokens that are all zero except the first and the last few.
fn tokens(device: &Device, tokens: usize) {
    const ROWS: usize = 5;
    let mut rng = Rng::new(4);
    let some = rng.vec(ROWS * HIDDEN, 1.0);
    let config = MoeConfig::new(HIDDEN, 8, 4).with_router(RouteConfig::new(1));
    let layer = config.init(device).unwrap();
    let logits = |values: Vec<f32>| {
        let rows = values.len() / HIDDEN;
        let data = TensorData::new(values, [rows, HIDDEN]);
        let x = Tensor::<2>::from_data(data, (device, DType::F32));
        floats(layer.router_logits(x).unwrap())
    };
    let want = logits(some.clone());
    let mut values = vec![0.0; tokens * HIDDEN];
    values[..some.len()].copy_from_slice(&some);
    let at = values.len() - some.len();
    values[at..].copy_from_slice(&some);
    let got = logits(values);
    assert!(got[..want.len()] == want[..], "the first tokens");
    assert!(got[got.len() - want.len()..] == want[..], "the last tokens");
    let mut between = got[want.len()..got.len() - want.len()].iter();
    assert!(between.all(|logit| *logit == 0.0), "the tokens between");
}

/// Checks tokens of which the last lie beyond 2³² bytes.
pub(crate) fn tokens_on_cpu() {
    tokens(&open(moebius::Device::Cpu), (1 << 32) / (4 * HIDDEN) + 100);
}

/// Checks tokens of which the last lie beyond 2³¹ bytes: fewer than on `cpu`, because Flex copies them.
pub(crate) fn tokens_on_flex() {
    tokens(&open(moebius::Device::Flex), (1 << 31) / (4 * HIDDEN) + 100);
}
