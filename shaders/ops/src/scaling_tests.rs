use super::*;

#[test]
fn shapes_round_up() {
    let block = Granularity::Block {
        rows: 128,
        columns: 128,
    };
    assert_eq!(block.scale_shape(129, 391), [2, 4]);
    assert_eq!(Granularity::Tensor.scale_shape(129, 391), [1, 1]);
    assert_eq!(Granularity::Row.scale_shape(129, 391), [129, 1]);
    assert_eq!(Granularity::Mx.blocks(3, 391), [3, 13]);
    assert_eq!(Granularity::Mx.scale_shape(3, 391), [3, 4]);
}

#[test]
fn scales_reach_the_largest_value() {
    assert_eq!(scale_host(448.0, Fp8Format::E4M3, 0), 1.0);
    assert_eq!(scale_host(448.0, Fp8Format::E4M3, 1), 2.0);
    assert_eq!(scale_host(0.0, Fp8Format::E4M3, 0), 1.0);
    assert_eq!(scale_host(1e-45, Fp8Format::E5M2, 0), f32::MIN_POSITIVE);
    assert_eq!(scale_host(f32::MAX, Fp8Format::E4M3, 40), f32::MAX);
}

#[test]
fn e8m0_rounds_up() {
    for (format, max) in [(Fp8Format::E4M3, 448.0f32), (Fp8Format::E5M2, 57344.0)] {
        assert_eq!(e8m0_host(max, format, 0), E8M0_ONE);
        assert_eq!(e8m0_host(max.next_up(), format, 0), E8M0_ONE + 1);
        assert_eq!(e8m0_host(max.next_down(), format, 0), E8M0_ONE);
        assert_eq!(e8m0_host(max / 2.0, format, 0), E8M0_ONE - 1);
        assert_eq!(e8m0_host(0.0, format, 0), E8M0_ONE);
    }
    assert_eq!(e8m0_value(E8M0_ONE), 1.0);
    assert_eq!(e8m0_value(1), f32::MIN_POSITIVE);
    assert!(e8m0_value(255).is_nan());
}
