use super::*;
use moebius_ops::Element;
use moebius_ops::attention::{Rule, Rules, Sizes};
use moebius_profiles as profiles;

#[test]
fn a_plan_refuses_what_the_device_lacks() {
    let device = profiles::webgpu_default();
    let problem = |queries| {
        let sizes = Sizes {
            batch: 1,
            heads: 8,
            kv_heads: 8,
            queries,
            keys: 64,
            head_dim: 64,
            value_dim: 64,
        };
        Problem::new(sizes).unwrap()
    };
    assert!(plan(problem(1 << 10).with_element(Element::F16), None, &device).is_err());
    // 128 MiB hold 2^16 rows of 8 heads of 64 f32.
    assert!(plan(problem(1 << 16), None, &device).is_ok());
    assert!(plan(problem((1 << 16) + 1), None, &device).is_err());
}

/// Different numbers of a rule give the same kernel.
#[test]
fn numbers_of_rules_are_not_compiled_in() {
    let of = |rules: [Rule; 3]| {
        let sizes = Sizes {
            batch: 1,
            heads: 2,
            kv_heads: 2,
            queries: 9,
            keys: 9,
            head_dim: 8,
            value_dim: 8,
        };
        let rules = Rules::new(rules).unwrap();
        let problem = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
        plan(problem, None, &profiles::webgpu_default())
            .unwrap()
            .form()
    };
    let one = of([Rule::Softcap(3.0), Rule::Window(4), Rule::Dilated(2)]);
    assert_eq!(
        one,
        of([Rule::Softcap(5.0), Rule::Window(7), Rule::Dilated(3)])
    );
    assert_ne!(
        one,
        of([Rule::Window(4), Rule::Softcap(3.0), Rule::Dilated(2)])
    );
}

/// A problem of one sequence and 40 keys, with two query heads on one key head.
fn heads(queries: usize, head_dim: usize, value_dim: usize) -> Problem {
    let sizes = Sizes {
        batch: 1,
        heads: 2,
        kv_heads: 1,
        queries,
        keys: 40,
        head_dim,
        value_dim,
    };
    Problem::new(sizes).unwrap()
}

/// Heads of multiples of 8 and enough queries choose `tile`, or `rows` on a software adapter; a processor chooses neither.
#[test]
fn heads_and_queries_choose_the_variant() {
    let (gpu, software) = (profiles::apple_m(), profiles::lavapipe());
    let default = profiles::webgpu_default();
    let chosen = |problem, device| plan(problem, None, device).unwrap().variant;
    for dim in (8..=256).step_by(8) {
        for (head_dim, value_dim) in [(dim, dim), (dim, 256), (256, dim)] {
            let problem = heads(16, head_dim, value_dim);
            assert_eq!(chosen(problem, &default), Variant::Tile);
            assert_eq!(chosen(problem, &gpu), Variant::Tile);
            assert_eq!(chosen(problem, &software), Variant::Rows);
        }
    }
    for problem in [heads(15, 64, 64), heads(16, 12, 8), heads(16, 8, 33)] {
        assert_eq!(chosen(problem, &gpu), Variant::Unit);
        assert_eq!(chosen(problem, &software), Variant::Unit);
        for variant in [Variant::Tile, Variant::Rows] {
            assert!(plan(problem, Some(variant), &gpu).is_err());
        }
    }
    let cpu = profiles::cpu_4core_avx2();
    assert_eq!(chosen(heads(64, 64, 64), &cpu), Variant::Cpu);
    assert!(plan(heads(64, 64, 64), Some(Variant::Tile), &cpu).is_err());
}

/// There is a cube for every block of queries of every head.
#[test]
fn cubes_take_blocks_of_queries() {
    let cubes = |problem, device| {
        let plan = plan(problem, None, device).unwrap();
        plan.tiling.unwrap().grid.cubes
    };
    // On a GPU 64 units with one query each, on a software adapter 16 with eight each.
    let (gpu, software) = (profiles::webgpu_default(), profiles::lavapipe());
    assert_eq!(cubes(heads(128, 64, 64), &gpu), [4, 1, 1]);
    assert_eq!(cubes(heads(129, 64, 64), &gpu), [6, 1, 1]);
    assert_eq!(cubes(heads(128, 64, 64), &software), [2, 1, 1]);
    assert_eq!(cubes(heads(129, 64, 64), &software), [4, 1, 1]);
}
