use super::*;
use moebius_device::profiles;
use moebius_ops::Element;
use moebius_ops::attention::{Rule, Rules, Sizes};

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
    // 128 MiB are 2^16 rows of 8 heads of 64.
    assert!(plan(problem(1 << 16), None, &device).is_ok());
    assert!(plan(problem((1 << 16) + 1), None, &device).is_err());
}

/// Another number of a rule is no other kernel.
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
