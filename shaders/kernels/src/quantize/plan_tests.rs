use super::*;
use moebius_device::Limits;
use moebius_ops::Element;
use moebius_ops::fp8::Fp8Format;
use moebius_profiles as profiles;

const fn block(rows: usize, columns: usize) -> Granularity {
    Granularity::Block { rows, columns }
}

fn problem(shape: [usize; 3], granularity: Granularity) -> Problem {
    Problem::new(shape, Element::F32, granularity, Fp8Format::E4M3).unwrap()
}

fn devices() -> [Capability; 8] {
    [
        profiles::webgpu_default(),
        profiles::lavapipe(),
        profiles::swiftshader(),
        profiles::apple_m(),
        profiles::h100(),
        profiles::mi300x(),
        profiles::cpu_2core_avx512(),
        profiles::cpu_neon(),
    ]
}

#[test]
fn scales_and_codes_are_one_launch_wherever_a_cube_owns_a_block() {
    for device in devices() {
        let launches = |shape, granularity| {
            let plan = plan(problem(shape, granularity), &device).unwrap();
            assert!(plan.units_per_cube() <= device.limits.max_units_per_cube);
            plan.launches()
        };
        let weights = [1, 4096, 4096];
        for granularity in [
            Granularity::Row,
            block(128, 128),
            block(1, 128),
            Granularity::Mx,
        ] {
            assert_eq!(launches(weights, granularity), 1, "{granularity:?}");
        }
        assert_eq!(launches(weights, Granularity::Tensor), 3);
        assert_eq!(launches([1, 16, 64], Granularity::Tensor), 1);
        assert_eq!(launches([1, 1, 1 << 20], Granularity::Row), 3);
        assert_eq!(launches([1, 1, 1 << 20], Granularity::Mx), 1);
        // Words may hold values of two blocks.
        assert_eq!(launches([2, 30, 40], block(3, 5)), 2);
        assert_eq!(launches([2, 30, 5], block(3, 5)), 1);
    }
}

#[test]
fn units_share_blocks_by_their_size() {
    let units = |granularity, shape| {
        let plan = plan(problem(shape, granularity), &profiles::webgpu_default()).unwrap();
        match plan.variant {
            Variant::Cube(grid) => grid.units,
            other => panic!("{other:?}"),
        }
    };
    let shape = [1, 1000, 4096];
    assert_eq!(units(Granularity::Mx, shape), [8, 32]);
    assert_eq!(units(block(1, 128), shape), [32, 8]);
    assert_eq!(units(block(128, 128), shape), [256, 1]);
    assert_eq!(units(Granularity::Row, shape), [256, 1]);
    assert_eq!(units(Granularity::Row, [1, 1000, 9]), [4, 64]);
    assert_eq!(units(Granularity::Row, [1, 1000, 1]), [1, 256]);
}

#[test]
fn what_a_device_lacks_is_refused() {
    let default = profiles::webgpu_default();
    let large = problem([1, 6000, 6000], Granularity::Row);
    let refused = plan(large, &default).unwrap_err().to_string();
    assert!(
        refused.contains("a binding of 144000000 bytes"),
        "{refused}"
    );
    for element in [Element::F16, Element::Bf16] {
        let problem = Problem::new([1, 6000, 6000], element, Granularity::Row, Fp8Format::E4M3);
        let refused = plan(problem.unwrap(), &profiles::swiftshader()).unwrap_err();
        assert!(refused.needs.ends_with("storage buffers"), "{refused}");
    }
    let limited = |limits| Capability {
        limits,
        ..default.clone()
    };
    let small = problem([1, 8, 64], Granularity::Mx);
    for limits in [
        Limits {
            max_units_per_cube: 16,
            ..Limits::WEBGPU_DEFAULT
        },
        Limits {
            max_shared_memory: 1024,
            ..Limits::WEBGPU_DEFAULT
        },
        Limits {
            max_bindings: 2,
            ..Limits::WEBGPU_DEFAULT
        },
    ] {
        assert!(plan(small, &limited(limits)).is_err(), "{limits:?}");
    }
    assert!(plan(small, &default).is_ok());
    // A buffer of codes may exceed the binding limit.
    let codes = |rows| check_kept(&problem([1, rows, 6000], Granularity::Row), 1, &default);
    assert!(codes(30_000).is_ok());
    let refused = codes(60_000).unwrap_err().to_string();
    assert!(refused.contains("a buffer of 360000000 bytes"), "{refused}");
}

#[test]
fn a_cpu_gets_a_unit_for_each_run_of_words() {
    let device = profiles::cpu_4core_avx2();
    let plan = |granularity| plan(problem([2, 3, 10_000], granularity), &device).unwrap();
    // A row of 2500 words takes three runs; 313 blocks per row take as many runs.
    assert_eq!(runs(&plan(Granularity::Row).problem, &device), (RUN, 18));
    assert_eq!(
        runs(&plan(Granularity::Mx).problem, &device),
        (RUN, 6 * 313)
    );
    assert_eq!(runs(&plan(block(3, 5)).problem, &device), (1, 15_000));
}
