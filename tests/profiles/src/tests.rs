use super::*;

#[test]
fn tensor_cores_and_fp8_are_where_they_belong() {
    for gpu in [a100(), h100(), l4()] {
        for input in ["f16", "bf16"] {
            assert!(gpu.has_mma((16, 16, 16), input, "f32"), "{}", gpu.name);
        }
        let fp8 = gpu.has_mma((16, 8, 32), "e4m3", "f32");
        assert_eq!(
            (fp8, fp8),
            (gpu.fp8_mma, gpu.fp8_conversion),
            "{}",
            gpu.name
        );
    }
    assert!(!a100().fp8_mma && h100().fp8_mma && l4().fp8_mma);
    assert!(mi300x().mma.is_empty());
    assert!(rdna4().has_mma((16, 16, 16), "bf16", "f32"));
}

#[test]
fn no_profile_is_below_the_webgpu_defaults_except_processors() {
    let floor = Limits::WEBGPU_DEFAULT;
    let adapters = [lavapipe(), swiftshader(), apple_m()];
    for gpu in [a100(), h100(), l4(), mi300x(), rdna4()]
        .iter()
        .chain(&adapters)
    {
        let limits = gpu.limits;
        assert!(limits.max_bindings >= floor.max_bindings, "{}", gpu.name);
        assert!(
            limits.max_units_per_cube >= floor.max_units_per_cube,
            "{}",
            gpu.name
        );
        assert!(
            limits.max_shared_memory >= floor.max_shared_memory,
            "{}",
            gpu.name
        );
        assert!(
            limits.max_binding_bytes >= floor.max_binding_bytes,
            "{}",
            gpu.name
        );
    }
    assert_eq!(cpu_2core_avx512().limits.max_units_per_cube, 2);
}
