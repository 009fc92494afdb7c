//! The processor: through CubeCL's `cpu` runtime, and as the runtime `flex` sees it.

use crate::Capability;
use crate::located::Located;
use crate::memory::host_memory;

#[cfg(feature = "cpu")]
pub(crate) fn locate_cpu() -> Located {
    Located {
        device: crate::Device::Cpu,
        cubecl: Some(cubecl::Device::Cpu(cubecl::device::CpuDevice)),
        known: None,
    }
}

/// Adds what CubeCL's properties lack about this processor, and loads the functions that its kernels call.
#[cfg(feature = "cpu")]
pub(crate) fn complete(capability: Capability) -> Capability {
    Capability {
        architecture: Some(architecture()),
        bf16: capability.bf16 && crate::conversions::bf16(),
        memory: host_memory(),
        ..capability
    }
}

#[cfg(feature = "flex")]
pub(crate) fn locate_flex() -> Located {
    Located {
        device: crate::Device::Flex,
        cubecl: None,
        known: Some(flex()),
    }
}

/// What plain Rust code can use of the processor, where only memory bounds a tensor.
#[cfg(feature = "flex")]
fn flex() -> Capability {
    use crate::{DeviceKind, Limits, Runtime, properties};

    let memory = host_memory();
    let most = memory.map_or(u64::MAX, |memory| memory.total);
    let name = brand();
    let (load_width_bits, vector_registers) = vector_registers();
    Capability {
        vendor: properties::vendor_of_processor(&name),
        name,
        architecture: Some(architecture()),
        runtime: Runtime::Flex,
        kind: DeviceKind::Cpu,
        limits: Limits {
            max_binding_bytes: most,
            max_buffer_bytes: most,
            ..Limits::NO_LAUNCH
        },
        load_width_bits,
        vector_registers,
        cpu_cores: std::thread::available_parallelism()
            .ok()
            .and_then(|cores| u32::try_from(cores.get()).ok()),
        f16: true,
        bf16: true,
        memory,
        ..Capability::webgpu_default()
    }
}

#[cfg(feature = "flex")]
fn brand() -> String {
    let mut system = sysinfo::System::new();
    system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
    system
        .cpus()
        .first()
        .map(|cpu| cpu.brand().trim())
        .filter(|brand| !brand.is_empty())
        .map_or_else(|| format!("CPU {}", std::env::consts::ARCH), str::to_owned)
}

/// The instruction set and its widest usable vector extension, e.g. `x86_64-avx512`, `x86_64-avx2`, `aarch64-neon`.
pub(crate) fn architecture() -> String {
    match extension() {
        Some(extension) => format!("{}-{extension}", std::env::consts::ARCH),
        None => std::env::consts::ARCH.to_owned(),
    }
}

fn extension() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = [
        ("avx512", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("avx", std::arch::is_x86_feature_detected!("avx")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let known = [("neon", cfg!(target_arch = "aarch64"))];
    let found = known.into_iter().find(|(_, has)| *has);
    found.map(|(name, _)| name)
}

/// The bits of a vector register, and the number of registers if known.
#[cfg(feature = "flex")]
fn vector_registers() -> (u32, Option<u32>) {
    match (std::env::consts::ARCH, extension()) {
        ("x86_64", Some("avx512")) => (512, Some(32)),
        ("x86_64", Some(_)) => (256, Some(16)),
        ("x86_64", None) => (128, Some(16)),
        ("aarch64", _) => (128, Some(32)),
        _ => (128, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_starts_with_the_instruction_set() {
        assert!(architecture().starts_with(std::env::consts::ARCH));
    }

    #[test]
    #[cfg(all(feature = "cpu", feature = "flex"))]
    fn both_runtimes_see_the_same_processor() {
        let cpu = crate::probe(&crate::Device::Cpu).unwrap();
        let flex = flex();
        assert_eq!(cpu.name, flex.name);
        assert_eq!(cpu.vendor, flex.vendor);
        assert_eq!(cpu.architecture, flex.architecture);
        assert_eq!(cpu.load_width_bits, flex.load_width_bits);
        assert_eq!(cpu.vector_registers, flex.vector_registers);
        assert_eq!(cpu.cpu_cores, flex.cpu_cores);
    }
}
