//! Converts CubeCL's properties of a device to a [`Capability`].

use cubecl::features::{Plane, TypeUsage};
use cubecl::ir::features::MmaConfig;
use cubecl::ir::{DeviceProperties, ElemType, FloatKind, PciVendor};

use crate::{Capability, DeviceKind, Limits, MemoryFigures, MmaShape, Runtime, Vendor};

impl Capability {
    /// What a device with these CubeCL properties can do on `runtime`.
    ///
    /// Reads nothing but its arguments, so a tool without the device can use it. What the properties do not say stays
    /// unknown: the kind of an adapter with a card behind it is `Unknown`, a processor's `architecture` is `None`, free
    /// memory is `None`, and a software adapter's `loop_rounds` is `None`, which [`crate::capability_of`] completes.
    ///
    /// - `mma` joins the cooperative (`cmma`) and the manual (`mma`) shapes whose A and B have one
    ///   type; shapes whose n is 8 on NVIDIA and k above 16 are manual ones.
    /// - `f16` and `bf16` need storage buffers of that type, `f16` arithmetic as well.
    /// - `fp8_conversion` is true where CubeCL's CUDA C++ compiler serves sm_89 or newer; its LLVM
    ///   compilers convert in software, and WGSL always does.
    pub fn from_properties(runtime: Runtime, properties: &DeviceProperties) -> Self {
        let hardware = &properties.hardware;
        let plane = (hardware.plane_size_min, hardware.plane_size_max);
        let usage = |kind| properties.features.type_usage(ElemType::Float(kind));
        let f16 = usage(FloatKind::F16);
        let architecture = architecture(runtime, &properties.identity.fingerprint);
        let mma = shapes(properties);
        let async_copies = runtime == Runtime::Cuda && properties.features.copy_async;
        Self {
            name: match properties.identity.name.as_str() {
                // Browsers often withhold the name.
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
            subgroup: (properties.features.plane.contains(Plane::Ops) || !mma.is_empty())
                .then_some(plane),
            f16: f16.contains(TypeUsage::Buffer) && f16.contains(TypeUsage::Arithmetic),
            bf16: usage(FloatKind::BF16).contains(TypeUsage::Buffer),
            async_copies,
            // CubeCL's LLVM compiler lacks asynchronous copies, by which it is recognised, and native conversion.
            fp8_conversion: async_copies && sm(architecture.as_deref()).is_some_and(|sm| sm >= 89),
            fp8_mma: mma.iter().any(|shape| is_fp8(&shape.input)),
            mma,
            architecture,
            loop_rounds: None,
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

/// The chip family in a CubeCL fingerprint such as `ptx_sm90` or `hip-kernel_gfx942:sramecc+:xnack-`.
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
        // CubeCL does not say which GPUs share the host's memory.
        Runtime::Cuda | Runtime::Rocm => DeviceKind::DiscreteGpu,
        Runtime::Xla => DeviceKind::Unknown,
        // Only a software adapter has no card behind it.
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

/// The vendor in the brand string that a processor reports.
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
#[path = "properties_tests.rs"]
mod tests;
