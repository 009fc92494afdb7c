use super::*;
use moebius_profiles as profiles;

#[test]
fn refuses_what_it_has_no_variant_for() {
    let problem = Problem::of(&Product::new(64, 8, 2, 128, 128).unwrap());
    let choice = |variant| Choice {
        variant: Some(variant),
        allow_unproven: true,
    };
    // There are no matrix instructions for a product in f32.
    for variant in [Variant::Gemv, Variant::TensorCore] {
        let error = plan(problem, &profiles::h100(), choice(variant)).unwrap_err();
        assert!(error.to_string().contains(variant.name()), "{error}");
    }
    assert!(plan(problem, &profiles::h100(), choice(Variant::Cpu)).is_err());
    let automatic = |device| plan(problem, &device, Choice::default()).unwrap().variant;
    assert_eq!(automatic(profiles::webgpu_default()), Variant::Unit);
    assert_eq!(automatic(profiles::cpu_neon()), Variant::Cpu);
}

/// Gradients use the matrix instructions of their products, slower ones where columns don't suit these, and none where the products use none.
#[test]
fn gradients_are_computed_as_their_products_are() {
    let of = |n, variant| {
        let product = Product {
            element: Element::F16,
            ..Product::new(64, 8, 2, 128, n).unwrap()
        };
        let plan = plan_beside(Problem::of(&product), &profiles::h100(), variant);
        plan.unwrap().variant
    };
    for variant in [Variant::Unit, Variant::TensorCore, Variant::Pipelined] {
        assert_eq!(of(128, variant), variant);
        assert_eq!(of(127, variant), Variant::Unit);
    }
    assert_eq!(of(124, Variant::Pipelined), Variant::TensorCore);
    assert_eq!(of(128, Variant::Gemv), Variant::Unit);
}

/// 8 gradients of 16 MiB fit one binding of WebGPU's 128 MiB; 8 of 32 MiB need two.
#[test]
fn gradients_beyond_a_binding_are_split() {
    let device = profiles::webgpu_default();
    let slabs = |n| {
        let problem = Problem::of(&Product::new(64, 8, 2, 2048, n).unwrap());
        plan(problem, &device, Choice::default()).unwrap().slabs
    };
    assert_eq!(slabs(2048).len(), 1);
    assert_eq!(slabs(4096).len(), 2);
}

#[test]
fn a_plan_refuses_sizes_that_no_constructor_takes() {
    let device = profiles::webgpu_default();
    let product = Product::new(4, 3, 2, 8, 8).unwrap();
    for wrong in [
        Product { n: 0, ..product },
        Product {
            row_bound: 5,
            ..product
        },
        Product {
            dense: true,
            ..product
        },
        Product {
            slots: 3,
            ..product
        },
    ] {
        let error = plan(Problem::of(&wrong), &device, Choice::default());
        assert!(matches!(error, Err(PlanError::Mismatch(_))), "{wrong:?}");
    }
}
