//! Tests of random numbers: their distribution, and that each operation draws its own.

use super::harness::execute;
use burn::backend::Capture;
use burn::tensor::{CapturedGraph, DType, Device, Distribution, Int, Tensor, TensorData};
use moebius_xla::lower::{LowerError, Lowering, graph};
use moebius_xla::stablehlo::Builder;

/// The number of random numbers that each test draws.
const COUNT: usize = 1 << 16;

fn captured(make: impl FnOnce(&Device) -> Vec<Tensor<1>>) -> CapturedGraph {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let kept = make(&device).into_iter();
        let kept: Vec<_> = kept
            .map(|x| x.try_into_primitive::<Capture>().unwrap())
            .collect();
        scope.complete([], kept.iter().map(|x| x.id()))
    });
    captured.unwrap()
}

fn drawn(captured: &CapturedGraph, state: [u64; 2]) -> Vec<TensorData> {
    let lowered = graph(captured).unwrap();
    assert!(lowered.random);
    execute(&lowered, captured, Some(state)).unwrap()
}

fn floats(distribution: Distribution, dtype: DType) -> Vec<f64> {
    let captured = captured(|device| vec![Tensor::random([COUNT], distribution, (device, dtype))]);
    drawn(&captured, [7, 9])[0].iter::<f64>().collect()
}

fn integers(distribution: Distribution, dtype: DType) -> Vec<i64> {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let x = Tensor::<1, Int>::random([COUNT], distribution, (&device, dtype));
        let x = x.try_into_primitive::<Capture>().unwrap();
        scope.complete([], [x.id()])
    });
    drawn(&captured.unwrap(), [3, 1])[0].iter::<i64>().collect()
}

/// The first four moments around 0.
fn moments(numbers: &[f64]) -> [f64; 4] {
    [1, 2, 3, 4]
        .map(|power| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64)
}

/// Six standard errors of the mean of `COUNT` numbers with this deviation.
fn bound(deviation: f64) -> f64 {
    6.0 * deviation / (COUNT as f64).sqrt()
}

#[test]
fn uniform_numbers_fill_their_range_evenly() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        // Numbers of few bits are multiples of a step, so that their mean is half a step lower.
        let step = match dtype {
            DType::BF16 => 1.0 / 256.0,
            DType::F16 => 1.0 / 2048.0,
            _ => 0.0,
        };
        let x = floats(Distribution::Uniform(-1.0, 3.0), dtype);
        assert!(x.iter().all(|x| (-1.0..3.0).contains(x)), "{dtype:?}");
        let unit: Vec<f64> = x.iter().map(|x| (x + 1.0) / 4.0).collect();
        for (power, moment) in moments(&unit).into_iter().enumerate() {
            let expected = 1.0 / (power as f64 + 2.0);
            let wrong = (moment - expected).abs();
            assert!(
                wrong < bound(0.3) + 2.0 * step,
                "{dtype:?}: moment {power} is {moment}"
            );
        }
        let mut counts = [0usize; 16];
        unit.iter().for_each(|x| counts[(x * 16.0) as usize] += 1);
        let even = COUNT as f64 / 16.0;
        let chi: f64 = counts
            .iter()
            .map(|n| (*n as f64 - even).powi(2) / even)
            .sum();
        assert!(chi < 50.0, "{dtype:?}: χ² of 15 degrees is {chi}");
    }
}

#[test]
fn default_numbers_are_between_0_and_1() {
    let x = floats(Distribution::Default, DType::F32);
    assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    assert!((moments(&x)[0] - 0.5).abs() < bound(0.3));
}

#[test]
fn normal_numbers_have_the_moments_of_a_normal_distribution() {
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let x = floats(Distribution::Normal(0.5, 2.0), dtype);
        let x: Vec<f64> = x.iter().map(|x| (x - 0.5) / 2.0).collect();
        let moments = moments(&x);
        // The standard deviations of xⁿ: 1, √2, √15, √96.
        for (i, (expected, deviation)) in [(0.0, 1.0), (1.0, 1.414), (0.0, 3.873), (3.0, 9.798)]
            .into_iter()
            .enumerate()
        {
            let wrong = (moments[i] - expected).abs();
            assert!(
                wrong < bound(deviation),
                "{dtype:?}: moment {i} is {}",
                moments[i]
            );
        }
        assert!(x.iter().all(|x| x.is_finite()));
        let beyond = x.iter().filter(|x| x.abs() > 3.0).count() as f64 / COUNT as f64;
        assert!(
            (beyond - 0.0027).abs() < bound(0.052),
            "{dtype:?}: {beyond} beyond 3"
        );
    }
}

#[test]
fn bernoulli_numbers_are_1_with_their_probability() {
    let x = floats(Distribution::Bernoulli(0.3), DType::F32);
    assert!(x.iter().all(|x| *x == 0.0 || *x == 1.0));
    assert!((moments(&x)[0] - 0.3).abs() < bound(0.46));
    let x = integers(Distribution::Bernoulli(0.7), DType::I32);
    let mean = x.iter().sum::<i64>() as f64 / COUNT as f64;
    assert!((mean - 0.7).abs() < bound(0.46));
}

#[test]
fn integers_fill_their_range_evenly() {
    for dtype in [DType::I64, DType::I32, DType::U8] {
        let x = integers(Distribution::Uniform(2.0, 12.0), dtype);
        let mut counts = [0usize; 10];
        x.iter().for_each(|x| counts[(*x - 2) as usize] += 1);
        let even = COUNT as f64 / 10.0;
        let chi: f64 = counts
            .iter()
            .map(|n| (*n as f64 - even).powi(2) / even)
            .sum();
        assert!(chi < 40.0, "{dtype:?}: χ² of 9 degrees is {chi}");
    }
    let x = integers(Distribution::Default, DType::I32);
    assert!(x.iter().any(|x| *x < -(1 << 30)) && x.iter().any(|x| *x > 1 << 30));
}

#[test]
fn the_state_goes_from_operation_to_operation() {
    let make = |device: &Device| {
        let draw = || Tensor::<1>::random([64], Distribution::Default, device);
        vec![draw(), draw()]
    };
    let captured = captured(make);
    let first = drawn(&captured, [1, 2]);
    assert_ne!(first[0].as_bytes(), first[1].as_bytes());
    let again = drawn(&captured, [1, 2]);
    assert_eq!(first[0].as_bytes(), again[0].as_bytes());
    let other = drawn(&captured, [1, 3]);
    assert_ne!(first[0].as_bytes(), other[0].as_bytes());
    let state: Vec<u64> = first[2].iter::<u64>().collect();
    let next = drawn(&captured, [state[0], state[1]]);
    assert!(next[0].as_bytes() != first[0].as_bytes() && next[0].as_bytes() != first[1].as_bytes());
}

#[test]
fn without_a_state_nothing_is_drawn() {
    let captured = captured(|device| vec![Tensor::random([4], Distribution::Default, device)]);
    let b = Builder::new();
    let mut lowering = Lowering::new(&b, None);
    let error = lowering
        .operation(&captured.graph.operations[0])
        .unwrap_err();
    assert!(matches!(error, LowerError::Unsupported { .. }));
    assert!(
        error
            .to_string()
            .contains("state of the random number generator"),
        "{error}"
    );
}
