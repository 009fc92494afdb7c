use super::*;

#[test]
fn reference_values() {
    // Values of Φ from tables; silu and relu from their definitions.
    assert!((Activation::Gelu.reference(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
    assert!((Activation::Gelu.reference(-5.0) + 5.0 * 2.866_515_718_791_939e-7).abs() < 1e-15);
    assert!((Activation::Silu.reference(0.0)).abs() < 1e-300);
    assert_eq!(Activation::Relu.reference(-3.0), 0.0);
    assert!(Activation::Relu.reference(f64::NAN).is_nan());
    // ln 2 = softplus(0), so mish'(0) = tanh(ln 2) = 3/5.
    assert_eq!(Activation::Mish.reference(0.0), 0.0);
    assert!((Activation::Mish.reference_gradient(0.0) - 0.6).abs() < 1e-15);
    assert!((Activation::Mish.reference(1.0) - 0.865_098_388_267_310_3).abs() < 1e-15);
    assert_eq!(Activation::Mish.reference(1e4), 1e4);
    // σ(1.702) = 1 / (1 + exp(−1.702)); beyond 7 the function is constant.
    assert!((Activation::Clamped.reference(1.0) - 0.845_795_768_8).abs() < 1e-9);
    assert_eq!(
        Activation::Clamped.reference(9.0),
        Activation::Clamped.reference(7.0)
    );
    assert!(Activation::Clamped.reference(f64::NAN).is_nan());
    let gated = [-9.0, -0.5, 9.0].map(|up| Activation::Clamped.reference_gated(up));
    assert_eq!(gated, [-6.0, 0.5, 8.0]);
    assert_eq!(Activation::Silu.reference_gated(-9.0), -9.0);
    // ½ · (1 + tanh(√(2/π) · 1.044715)) = ½ · (1 + 0.682383…), as PyTorch's `gelu` with `approximate='tanh'` has it.
    assert!((Activation::GeluTanh.reference(1.0) - 0.841_191_990_608_3).abs() < 1e-10);
    assert_eq!(Activation::GeluTanh.reference(1e4), 1e4);
    assert_eq!(Activation::GeluTanh.reference_gradient(-1e4), 0.0);
}

#[test]
fn gradients_are_those_of_finite_differences() {
    const STEP: f64 = 1e-5;
    for activation in Activation::ALL {
        for i in -60..=60 {
            // x is never 0, where relu has no derivative.
            let x = f64::from(i) * 0.21 + 0.005;
            let rise = activation.reference(x + STEP) - activation.reference(x - STEP);
            let (got, want) = (activation.reference_gradient(x), rise / (2.0 * STEP));
            assert!(
                (got - want).abs() < 1e-8,
                "{activation}'({x}): {got}, {want}"
            );
        }
    }
    assert_eq!(Activation::Relu.reference_gradient(0.0), 0.0);
}

#[test]
fn erfc_is_that_of_tables() {
    // Values of Abramowitz and Stegun, tables 7.1 and 7.3.
    for (x, want) in [
        (0.0, 1.0),
        (0.5, 0.479_500_122_187),
        (2.0, 4.677_734_981_05e-3),
        (5.0, 1.537_459_794_43e-12),
        (10.0, 2.088_487_583_76e-45),
    ] {
        assert!((erfc(x) / want - 1.0).abs() < 1e-9, "{x}: {}", erfc(x));
        assert!((erfc(-x) - (2.0 - want)).abs() < 1e-10, "{x}");
    }
    assert_eq!((erfc(30.0), erfc(-7.0)), (0.0, 2.0));
}
