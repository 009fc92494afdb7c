//! Tests of which programs are kept.

use super::super::recording::tests::tensor;
use super::*;
use crate::machine::random_state;
use burn_backend::Shape;
use burn_ir::{NumericOperationIr, ScalarIr, ScalarOpIr, TensorStatus};
use moebius_pjrt::Platform;

/// Computes x · 3 for x = 0, 1, …, `size` − 1.
fn tripled(programs: &mut Programs, machine: &Machine, size: usize) {
    let tensor = |id, status| {
        let mut tensor = tensor(id, status);
        tensor.shape = Shape::new([size]);
        tensor
    };
    let canonical = Canonical::of(vec![OperationIr::NumericFloat(
        DType::F32,
        NumericOperationIr::MulScalar(ScalarOpIr {
            lhs: tensor(1, TensorStatus::ReadOnly),
            rhs: ScalarIr::Float(3.0),
            out: tensor(2, TensorStatus::NotInit),
        }),
    )]);
    let x: Vec<f32> = (0..size).map(|i| i as f32).collect();
    let x = Stored::new(machine, TensorData::new(x, [size])).unwrap();
    let random = Stored::on_each(machine, &random_state(1)).unwrap();
    let (inputs, random) = (vec![Arc::new(x)], Arc::new(random));
    let program = programs.get(machine, &canonical, &inputs).unwrap();
    let (results, _) = program
        .run(machine, (inputs, random), &canonical.scalars)
        .unwrap();
    let y = results[0].read(machine, DType::F32).unwrap();
    let expected: Vec<f32> = (0..size).map(|i| 3.0 * i as f32).collect();
    assert_eq!(y.try_to_vec::<f32>().unwrap(), expected);
}

#[test]
fn what_was_used_longest_ago_is_forgotten_and_compiled_again() {
    let client = crate::client(Platform::Cpu).unwrap();
    let machine = Machine::new(client.device(0).unwrap()).unwrap();
    let mut programs = Programs::default();
    tripled(&mut programs, &machine, 1);
    let lines = programs.sources()[0].text.lines().count();
    programs.most = 5 * lines;
    for size in 2..=30 {
        tripled(&mut programs, &machine, size);
        // The first program is used all the time.
        tripled(&mut programs, &machine, 1);
        assert_eq!(programs.sources().len(), size.min(5));
    }
    assert_eq!(programs.compiled(), 30);
    tripled(&mut programs, &machine, 27);
    assert_eq!(programs.compiled(), 30, "one of the last four");
    tripled(&mut programs, &machine, 26);
    assert_eq!(programs.compiled(), 31, "it was forgotten");
    assert_eq!(programs.sources().len(), 5);
    // The newest program stays though it alone exceeds the limit.
    programs.most = 0;
    tripled(&mut programs, &machine, 40);
    assert_eq!(programs.sources().len(), 1);
}
