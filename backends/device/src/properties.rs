//! From what CubeCL tells of a device to what planning needs.

use cubecl::features::{Plane, TypeUsage};
use cubecl::ir::features::MmaConfig;
use cubecl::ir::{DeviceProperties, ElemType, FloatKind, PciVendor};

use crate::{Capability, DeviceKind, Limits, MemoryFigures, MmaShape, Runtime, Vendor};

impl Capability {
    /// What a device with these CubeCL properties can do on `runtime`.
    ///
    /// Reads nothing but its arguments, so a tool without the device can use it. What the
    /// properties do not say stays open: an adapter's kind is `Unknown` when there is a card
    /// behind it, a processor's `architecture` is `None`, free memory is `None`.
    ///
    /// - `mma` joins the cooperative (`cmma`) and the manual (`mma`) shapes whose A and B have one
    ///   type; shapes whose n is 8 on NVIDIA and k above 16 are manual ones.
    /// - `f16` and `bf16` ask for storage buffers of that type, `f16` for arithmetic as well.
    /// - `fp8_conversion` is true where CubeCL's CUDA C++ compiler serves sm_89 or newer; its LLVM
    ///   compilers convert in software, and WGSL always does.
    pub fn from_properties(runtime: Runtime, properties: &DeviceProperties) -> Self {
        let hardware = &properties.hardware;
        let plane = (hardware.plane_size_min, hardware.plane_size_max);
        let usage = |kind| properties.features.type_usage(ElemType::Float(kind));
        let f16 = usage(FloatKind::F16);
        let architecture = architecture(runtime, &properties.identity.fingerprint);
        let mma = shapes(properties);
        Self {
            name: match properties.identity.name.as_str() {
                // Browsers often keep it to themselves.
                "" => "unnamed device".to_owned(),
                name => name.to_owned(),
            },
            vendor: vendor(runtime, properties),
            runtime,
            kind: kind(runtime, properties),
            limits: limits(properties),
            load_width_bits: hardware.load_width,
            vector_registers: hardware.vector_register_count,
            cpu_cores: hardware.num_cpu_cores,
            subgroup: properties
                .features
                .plane
                .contains(Plane::Ops)
                .then_some(plane),
            f16: f16.contains(TypeUsage::Buffer) && f16.contains(TypeUsage::Arithmetic),
            bf16: usage(FloatKind::BF16).contains(TypeUsage::Buffer),
            fp8_conversion: runtime == Runtime::Cuda
                && sm(architecture.as_deref()).is_some_and(|sm| sm >= 89)
                // The LLVM compiler takes this feature away, and with it native conversion.
                && properties.features.copy_async,
            fp8_mma: mma.iter().any(|shape| is_fp8(&shape.input)),
            mma,
            architecture,
            driver: None,
            memory: properties
                .memory
                .max_memory()
                .map(|total| MemoryFigures { total, free: None }),
        }
    }
}

fn limits(properties: &DeviceProperties) -> Limits {
    let hardware = &properties.hardware;
    Limits {
        max_bindings: hardware.max_bindings,
        max_units_per_cube: hardware.max_units_per_cube,
        max_cube_dim: hardware.max_cube_dim.into(),
        max_cube_count: hardware.max_cube_count.into(),
        max_shared_memory: hardware.max_shared_memory_size,
        max_binding_bytes: properties.memory.max_page_size,
        max_buffer_bytes: properties.memory.max_page_size,
        binding_alignment: properties.memory.alignment,
    }
}

/// The chip family in a CubeCL fingerprint: `ptx_sm90`, `hip-kernel_gfx942:sramecc+:xnack-`.
fn architecture(runtime: Runtime, fingerprint: &str) -> Option<String> {
    match runtime {
        Runtime::Cuda => fingerprint
            .strip_prefix("ptx_sm")
            .map(|version| format!("sm_{version}")),
        Runtime::Rocm => fingerprint
            .strip_prefix("hip-kernel_")
            .and_then(|name| name.split(':').next())
            .map(str::to_owned),
        Runtime::Wgpu | Runtime::Vulkan | Runtime::Cpu | Runtime::Flex | Runtime::Xla => None,
    }
}

/// The number in `sm_90`.
fn sm(architecture: Option<&str>) -> Option<u32> {
    architecture?.strip_prefix("sm_")?.parse().ok()
}

fn is_fp8(element: &str) -> bool {
    matches!(element, "e4m3" | "e5m2")
}

fn shapes(properties: &DeviceProperties) -> Vec<MmaShape> {
    let matmul = &properties.features.matmul;
    let mut shapes: Vec<_> = matmul
        .cmma
        .iter()
        .chain(&matmul.mma)
        .filter(|config| config.a_type == config.b_type)
        .map(shape)
        .collect();
    shapes.sort();
    shapes.dedup();
    shapes
}

fn shape(config: &MmaConfig) -> MmaShape {
    MmaShape {
        m: config.m,
        n: config.n,
        k: config.k,
        input: config.a_type.to_string(),
        accumulator: config.cd_type.to_string(),
    }
}

fn kind(runtime: Runtime, properties: &DeviceProperties) -> DeviceKind {
    match runtime {
        Runtime::Cpu | Runtime::Flex => DeviceKind::Cpu,
        // CubeCL does not say which of them share the host's memory.
        Runtime::Cuda | Runtime::Rocm => DeviceKind::DiscreteGpu,
        Runtime::Xla => DeviceKind::Unknown,
        // A software adapter is the only one without a card.
        Runtime::Wgpu | Runtime::Vulkan if properties.identity.physical.is_none() => {
            DeviceKind::Cpu
        }
        Runtime::Wgpu | Runtime::Vulkan => DeviceKind::Unknown,
    }
}

fn vendor(runtime: Runtime, properties: &DeviceProperties) -> Vendor {
    let card = properties.identity.physical.as_ref();
    match runtime {
        Runtime::Cuda => Vendor::Nvidia,
        Runtime::Rocm => Vendor::Amd,
        Runtime::Cpu | Runtime::Flex => vendor_of_processor(&properties.identity.name),
        Runtime::Xla => Vendor::Unknown,
        Runtime::Wgpu | Runtime::Vulkan => match card {
            None => Vendor::Software,
            Some(card) => card.vendor.map_or(Vendor::Unknown, vendor_of_card),
        },
    }
}

pub(crate) fn vendor_of_card(vendor: PciVendor) -> Vendor {
    match vendor {
        PciVendor::Nvidia => Vendor::Nvidia,
        PciVendor::Amd => Vendor::Amd,
        PciVendor::Intel => Vendor::Intel,
        PciVendor::Apple => Vendor::Apple,
        PciVendor::Arm => Vendor::Arm,
        PciVendor::Qualcomm => Vendor::Qualcomm,
        PciVendor::Other(_) => Vendor::Unknown,
    }
}

/// From the brand string that the processor reports.
pub(crate) fn vendor_of_processor(brand: &str) -> Vendor {
    let brand = brand.to_ascii_lowercase();
    [
        ("amd", Vendor::Amd),
        ("intel", Vendor::Intel),
        ("apple", Vendor::Apple),
        ("qualcomm", Vendor::Qualcomm),
        ("snapdragon", Vendor::Qualcomm),
        ("nvidia", Vendor::Nvidia),
        ("neoverse", Vendor::Arm),
        ("cortex", Vendor::Arm),
    ]
    .into_iter()
    .find(|(word, _)| brand.contains(word))
    .map_or(Vendor::Unknown, |(_, vendor)| vendor)
}

#[cfg(test)]
mod tests {
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
}
