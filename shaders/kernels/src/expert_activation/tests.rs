use super::*;
use moebius_ops::Element;

use moebius_profiles as profiles;

fn problem(gated: bool, activation: Option<Activation>) -> Problem {
    let problem = Problem::new(4, 2, 3).unwrap().with_row_bound(3).unwrap();
    problem.with_activation(activation, gated)
}

/// Values in ±2 that avoid 0, where relu has no derivative.
#[test]
fn a_row_takes_a_cube_of_a_gpu_and_a_unit_of_a_cpu() {
    let problem = problem(true, Some(Activation::Silu));
    let gpu = plan(problem, &profiles::webgpu_default()).unwrap();
    assert_eq!(
        (gpu.per_slot.units, gpu.per_slot.grid.cubes),
        (64, [4, 1, 1])
    );
    let cpu = plan(problem, &profiles::cpu_2core_avx512()).unwrap();
    assert_eq!(
        (cpu.per_slot.units, cpu.per_slot.grid.cubes),
        (1, [2, 1, 1])
    );
    let many = Problem::new(1 << 20, 2, 4).unwrap();
    let gpu = plan(many, &profiles::webgpu_default()).unwrap();
    assert!(gpu.per_slot.grid.cubes[1] > 1, "{gpu:?}");
}

#[test]
fn a_plan_refuses_what_the_device_lacks() {
    let device = profiles::webgpu_default();
    let half = problem(true, None).with_element(Element::F16);
    assert!(plan(half, &device).is_err());
    // A row of 2 · 4096 f32 takes 32 KiB, so 128 MiB hold 4096 rows.
    let gated = |slots| {
        Problem::new(slots, 2, 1 << 12)
            .unwrap()
            .with_activation(None, true)
    };
    assert!(plan(gated(1 << 12), &device).is_ok());
    assert!(plan(gated((1 << 12) + 1), &device).is_err());
}
