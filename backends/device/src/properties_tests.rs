use super::*;
use cubecl::ir::features::Features;
use cubecl::ir::{DeviceIdentity, HardwareProperties, MemoryDeviceProperties, PhysicalDevice};
use cubecl::profile::TimingMethod;

fn properties(fingerprint: &str) -> DeviceProperties {
    DeviceProperties::new(
        Features::default(),
        MemoryDeviceProperties::new(1 << 30, 256).with_max_memory(4 << 30),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 64,
            max_bindings: 9,
            max_shared_memory_size: 48 * 1024,
            max_cube_count: (1, 2, 3),
            max_units_per_cube: 1024,
            max_cube_dim: (4, 5, 6),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        },
        TimingMethod::System,
        DeviceIdentity {
            name: "test".to_owned(),
            fingerprint: fingerprint.to_owned(),
            physical: None,
        },
    )
}

fn config(input: FloatKind, (m, n, k): (u32, u32, u32)) -> MmaConfig {
    MmaConfig {
        a_type: ElemType::Float(input),
        b_type: ElemType::Float(input),
        cd_type: ElemType::Float(FloatKind::F32),
        m,
        n,
        k,
    }
}

#[test]
fn architectures_come_out_of_fingerprints() {
    assert_eq!(
        architecture(Runtime::Cuda, "ptx_sm90").as_deref(),
        Some("sm_90")
    );
    assert_eq!(
        architecture(Runtime::Rocm, "hip-kernel_gfx942:sramecc+:xnack-").as_deref(),
        Some("gfx942")
    );
    assert_eq!(architecture(Runtime::Wgpu, "spirv_1_2"), None);
    assert_eq!(sm(Some("sm_121")), Some(121));
    assert_eq!(sm(Some("gfx942")), None);
}

#[test]
fn nothing_is_claimed_that_the_properties_do_not_say() {
    let capability = Capability::from_properties(Runtime::Wgpu, &properties("spirv_0_0"));
    assert_eq!(capability.subgroup, None);
    assert!(!capability.f16 && !capability.bf16 && capability.mma.is_empty());
    assert_eq!(capability.vendor, Vendor::Software);
    assert_eq!(capability.kind, DeviceKind::Cpu);
    assert_eq!(capability.limits.max_bindings, 9);
    assert_eq!(capability.limits.max_binding_bytes, 1 << 30);
    assert_eq!(capability.memory.unwrap().total, 4 << 30);
}

#[test]
fn types_planes_and_shapes_are_read() {
    let mut properties = properties("ptx_sm90");
    properties.identity.physical = Some(PhysicalDevice::default());
    properties.features.plane.insert(Plane::Ops);
    let conversion = TypeUsage::Conversion | TypeUsage::Buffer;
    properties.register_type_usage(ElemType::Float(FloatKind::F16), conversion);
    properties.register_type_usage(ElemType::Float(FloatKind::BF16), conversion);
    let matmul = &mut properties.features.matmul;
    matmul.cmma.insert(config(FloatKind::F16, (16, 16, 16)));
    matmul.mma.insert(config(FloatKind::F16, (16, 16, 16)));
    matmul.mma.insert(config(FloatKind::E4M3, (16, 8, 32)));

    let capability = Capability::from_properties(Runtime::Cuda, &properties);
    assert_eq!(capability.subgroup, Some((32, 64)));
    assert!(capability.bf16);
    assert!(!capability.f16, "storage alone is not enough");
    assert_eq!(capability.mma.len(), 2);
    assert!(capability.has_mma((16, 16, 16), "f16", "f32"));
    assert!(capability.fp8_mma);
    assert!(!capability.fp8_conversion, "the LLVM compiler has none");

    properties.features.copy_async = true;
    let capability = Capability::from_properties(Runtime::Cuda, &properties);
    assert!(capability.fp8_conversion);
}

#[test]
fn processors_tell_their_maker() {
    assert_eq!(vendor_of_processor("AMD EPYC"), Vendor::Amd);
    assert_eq!(vendor_of_processor("Intel(R) Xeon(R)"), Vendor::Intel);
    assert_eq!(vendor_of_processor("Neoverse-N1"), Vendor::Arm);
    assert_eq!(vendor_of_processor("CPU riscv64"), Vendor::Unknown);
}
