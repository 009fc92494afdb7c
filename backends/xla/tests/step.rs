//! Recorded steps on the CPU plugin, played again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use burn::module::Param;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData, activation};
use burn_std::id::StreamId;
use moebius_xla::{Adam, RunError, Step, StepError, download, pjrt::Platform};
use processor::{alone, assert_close, xla};

mod processor;

fn values(shape: [usize; 2], seed: usize) -> TensorData {
    let n = shape[0] * shape[1];
    let value = |i: usize| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.5;
    TensorData::new((0..n).map(value).collect::<Vec<_>>(), shape)
}

fn floats(data: &TensorData) -> Vec<f32> {
    data.try_to_vec().unwrap()
}

/// A layer that learns the tanh of its input.
struct Training {
    device: Device,
    linear: Linear,
    optimizer: ModuleOptimizer,
}

impl Training {
    fn new(device: &Device, optimizer: ModuleOptimizer) -> Self {
        let device = device.clone().autodiff();
        let mut linear = LinearConfig::new(4, 4).init(&device);
        linear.weight = Param::from_tensor(Tensor::from_data(values([4, 4], 1), &device));
        linear.bias = Some(Param::from_tensor(Tensor::zeros([4], &device)));
        Self {
            device,
            linear,
            optimizer,
        }
    }

    fn step(&mut self, x: &TensorData) -> Vec<f32> {
        let x = Tensor::<2>::from_data(x.clone(), &self.device);
        let error = self.linear.forward(x.clone()) - activation::tanh(x);
        let loss = error.powi_scalar(2).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &self.linear);
        self.linear = self.optimizer.step(0.03, self.linear.clone(), gradients);
        floats(&loss.into_data())
    }

    fn weights(&self) -> Vec<f32> {
        floats(&self.linear.weight.val().into_data())
    }
}

fn ours() -> ModuleOptimizer {
    ModuleOptimizer::from(Adam::default())
}

/// Two batches, to record with.
fn examples() -> [[TensorData; 1]; 2] {
    [[values([8, 4], 30)], [values([8, 4], 31)]]
}

/// The step of `training`, recorded.
fn recorded(training: &mut Training) -> Step {
    let [a, b] = examples();
    let step = Step::record(Platform::Cpu, 0, [&a, &b], |given| {
        training.step(&given[0]);
    });
    step.unwrap_or_else(|error| panic!("{error}"))
}

/// The losses and weights of a training with Burn's Adam on Flex: four steps of the examples, then a batch
/// each.
fn expected(steps: usize) -> (Vec<f32>, Vec<f32>) {
    let burns = AdamConfig::new().with_epsilon(1e-8).init();
    let mut training = Training::new(&Device::flex(), burns);
    (0..4).for_each(|i| {
        training.step(&values([8, 4], 30 + i % 2));
    });
    let losses = (0..steps).flat_map(|i| training.step(&values([8, 4], i)));
    (losses.collect(), training.weights())
}

#[test]
fn a_played_step_goes_on_where_the_recorded_ended() {
    let _alone = alone();
    let mut training = Training::new(&xla(), ours());
    let step = recorded(&mut training);
    let played = (0..20).map(|i| {
        let results = step.run(&[values([8, 4], i)]).unwrap();
        assert_eq!(results.len(), 1);
        floats(&download(&results[0]).unwrap())[0]
    });
    let losses: Vec<f32> = played.collect();
    let (expected, weights) = expected(20);
    assert_close(&losses, &expected);
    let sum = |losses: &[f32]| losses.iter().sum::<f32>();
    assert!(sum(&losses[16..]) < sum(&losses[..4]) / 2.0, "{losses:?}");
    // The module has what was learnt, and goes on by itself.
    assert_close(&training.weights(), &weights);
    let next = training.step(&values([8, 4], 20));
    assert_close(&next, &[self::expected(21).0[20]]);
}

#[test]
fn several_steps_run_without_a_look() {
    let _alone = alone();
    let mut training = Training::new(&xla(), ours());
    let step = recorded(&mut training);
    for i in 0..50 {
        step.run(&[values([8, 4], i)]).unwrap();
    }
    assert_close(&training.weights(), &expected(50).1);
}

/// The error of recording `step` with one batch.
fn refused(step: impl FnMut(&[TensorData])) -> StepError {
    let [a, b] = examples();
    let step = Step::record(Platform::Cpu, 0, [&a, &b], step);
    step.err().unwrap_or_else(|| panic!("no error"))
}

#[test]
fn what_cannot_be_played_again_is_refused() {
    let _alone = alone();
    let device = xla();
    let burns = AdamConfig::new().init();
    let mut training = Training::new(&device, burns);
    let error = refused(|given| {
        training.step(&given[0]);
    });
    assert!(matches!(error, StepError::Scalar { before, after } if before != after));
    assert!(error.to_string().contains("moebius_xla::Adam"), "{error}");

    let upload = |data: &TensorData| Tensor::<2>::from_data(data.clone(), &device);
    let error = refused(|given| drop(upload(&given[0])));
    assert!(matches!(error, StepError::Programs(0)), "{error}");
    let error = refused(|given| {
        let x = upload(&given[0]) + 1.0;
        x.clone().into_data();
        (x * 2.0).into_data();
    });
    assert!(matches!(error, StepError::Programs(2)), "{error}");
    let mut rows = 0;
    let error = refused(|given| {
        rows += 1;
        upload(&given[0]).narrow(0, 0, rows).sum().into_data();
    });
    assert!(matches!(error, StepError::Differs), "{error}");
    let error = refused(|_| {
        upload(&values([8, 4], 3)).sum().into_data();
    });
    assert!(
        matches!(error, StepError::Given { index: 0, .. }),
        "{error}"
    );
    let mut seed = 0;
    let error = refused(|given| {
        seed += 1;
        (upload(&given[0]) + upload(&values([8, 4], seed))).into_data();
    });
    assert!(matches!(error, StepError::Upload(1)), "{error}");
    // Computed from what is given, by the host.
    let error = refused(|given| {
        (upload(&given[0]) + upload(&given[0])).into_data();
    });
    assert!(matches!(error, StepError::Upload(1)), "{error}");
    let error = refused(|given| {
        let first = given[0].iter::<f32>().next().unwrap();
        (upload(&given[0]) * first).into_data();
    });
    assert!(matches!(error, StepError::Scalar { .. }), "{error}");
    let there = [upload(&values([8, 4], 1)), upload(&values([8, 4], 2))];
    let mut number = 0;
    let error = refused(|given| {
        number += 1;
        (upload(&given[0]) + there[number % 2].clone()).into_data();
    });
    assert!(matches!(error, StepError::Other), "{error}");
    let same = [values([8, 4], 0)];
    let error = Step::record(Platform::Cpu, 0, [&same, &same], |_| {});
    assert!(matches!(error.err(), Some(StepError::Examples(0))));
}

/// Two steps on the same weights: one trains, the other looks.
#[test]
fn steps_share_what_they_carry() {
    let _alone = alone();
    let mut training = Training::new(&xla(), ours());
    let train = recorded(&mut training);
    let [a, b] = examples();
    let look = Step::record(Platform::Cpu, 0, [&a, &b], |given| {
        let x = Tensor::<2>::from_data(given[0].clone(), &xla());
        let weight = training.linear.weight.val().inner();
        let y = x.matmul(weight).sum();
        // Twice the same result.
        y.to_data();
        y.into_data();
    });
    let look = look.unwrap_or_else(|error| panic!("{error}"));
    for i in 0..3 {
        // On its way when the step runs, which must not change it.
        let before = training.weights();
        let copy = training.linear.weight.val() * 1.0;
        train.run(&[values([8, 4], i)]).unwrap();
        assert_eq!(floats(&copy.into_data()), before);
        let results = look.run(&[values([8, 4], 9)]).unwrap();
        let got: Vec<Vec<f32>> = results
            .iter()
            .map(|y| floats(&download(y).unwrap()))
            .collect();
        let flex = Device::flex();
        let weight = TensorData::new(training.weights(), [4, 4]);
        let x = Tensor::<2>::from_data(values([8, 4], 9), &flex);
        let y = x.matmul(Tensor::from_data(weight, &flex)).sum();
        let expected = floats(&y.into_data());
        assert_close(&got[0], &expected);
        assert_eq!(got, [got[0].clone(), got[0].clone()]);
    }
}

/// What another thread computes with the weights, and flushes, is of before or after a step, as it comes.
#[test]
fn threads_see_what_a_step_leaves() {
    let _alone = alone();
    let mut training = Training::new(&xla(), ours());
    let step = recorded(&mut training);
    let other = StreamId::allocate();
    let weight = training.linear.weight.val().inner();
    let copy = || {
        other.executes(|| {
            let copy = weight.clone() * 1.0;
            xla().flush().unwrap();
            copy
        })
    };
    let (first, before) = (training.weights(), copy());
    step.run(&[values([8, 4], 0)]).unwrap();
    let (second, after) = (training.weights(), copy());
    step.run(&[values([8, 4], 1)]).unwrap();
    assert_ne!(first, second);
    assert_eq!(floats(&before.into_data()), first);
    assert_eq!(floats(&after.into_data()), second);
}

#[test]
fn wrong_calls_are_errors_and_lose_nothing() {
    let _alone = alone();
    let mut training = Training::new(&xla(), ours());
    let given = [values([8, 4], 0)];
    let step = recorded(&mut training);
    let before = training.weights();
    assert!(matches!(
        step.run(&[]),
        Err(RunError::Inputs {
            expected: 1,
            got: 0
        })
    ));
    assert!(step.run(&[values([4, 8], 0)]).is_err());
    assert_eq!(training.weights(), before);
    step.run(&given).unwrap();
    // Without the module nothing is left to go on with.
    drop(training);
    xla().sync().unwrap();
    assert!(matches!(step.run(&given), Err(RunError::Unknown { .. })));
}
