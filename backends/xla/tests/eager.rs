//! Ordinary tensors on the CPU plugin: the same results as on Flex, gradients and training too.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData, activation};
use moebius_xla::{open, pjrt::Platform};

fn xla() -> Device {
    open(Platform::Cpu, 0).unwrap_or_else(|error| panic!("{error}"))
}

fn values(n: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..n).scan(seed, |state, _| next(state)).collect()
}

fn matrix(device: &Device, [rows, columns]: [usize; 2], seed: u32) -> Tensor<2> {
    Tensor::from_data(
        TensorData::new(values(rows * columns, seed), [rows, columns]),
        device,
    )
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= 2e-5 * (1.0 + e.abs()),
            "{i}: {g} instead of {e}"
        );
    }
}

#[test]
fn a_product_and_an_activation() {
    let product = |device: &Device| {
        let (x, w) = (matrix(device, [5, 7], 1), matrix(device, [7, 3], 2));
        floats(activation::gelu(x.matmul(w) + 0.5).sum_dim(0))
    };
    assert_close(&product(&xla()), &product(&Device::flex()));
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        let mut seed = 10;
        let mut linear = |[from, to]: [usize; 2]| {
            let mut linear = LinearConfig::new(from, to).init(device);
            seed += 1;
            linear.weight = Param::from_tensor(matrix(device, [from, to], seed));
            linear.bias = Some(Param::from_tensor(Tensor::zeros([to], device)));
            linear
        };
        Self {
            first: linear([6, 16]),
            second: linear([16, 2]),
        }
    }

    fn loss(&self, x: Tensor<2>, goal: Tensor<2>) -> Tensor<1> {
        let hidden = activation::silu(self.first.forward(x));
        (self.second.forward(hidden) - goal).powi_scalar(2).mean()
    }
}

/// Losses of a training, read after every step or at the end only.
fn train(device: Device, steps: usize, look: bool) -> Vec<f32> {
    let device = device.autodiff();
    let mut net = Net::new(&device);
    let mut adam = AdamConfig::new().init();
    let (x, goal) = (matrix(&device, [32, 6], 3), matrix(&device, [32, 2], 4));
    let mut losses = Vec::new();
    for step in 0..steps {
        let loss = net.loss(x.clone(), goal.clone());
        if look {
            losses.push(floats(loss.clone().inner())[0]);
        }
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = adam.step(0.02 / (1.0 + step as f64 * 0.01), net, grads);
    }
    losses.push(floats(net.loss(x, goal).inner())[0]);
    losses
}

#[test]
fn training_follows_flex() {
    let (got, expected) = (train(xla(), 20, true), train(Device::flex(), 20, true));
    assert!(expected[20] < expected[0] / 2.0, "{expected:?}");
    assert_close(&got, &expected);
}

#[test]
fn a_loop_that_reads_nothing_ends_where_it_should() {
    assert_close(&train(xla(), 60, false), &train(Device::flex(), 60, false));
}
