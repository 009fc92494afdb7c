//! Hand-written capabilities of well-known devices, to plan and compile for devices that are not present.
//!
//! They hold what CubeCL 0.11.3 would report. Launch limits are the hardware's; memory is the nominal size, and `free`
//! is never given. The NVIDIA profiles are those of CubeCL's CUDA C++ compiler (its feature `cuda-cpp`): the default
//! LLVM compiler leaves out the fp8 shapes, fp8 conversion and the 16x16x16 integer shapes.

use moebius_device::nvidia::{self, Compiler};
use moebius_device::{Capability, DeviceKind, Limits, MemoryFigures, MmaShape, Runtime, Vendor};

const KIB: usize = 1024;
const GIB: u64 = 1 << 30;

/// The least that any WebGPU implementation gives: the specification's default limits and no optional feature.
pub fn webgpu_default() -> Capability {
    Capability::webgpu_default()
}

/// Mesa's lavapipe 22.3 (llvmpipe) through wgpu and WGSL, as read on Debian 12.
pub fn lavapipe() -> Capability {
    Capability {
        name: "llvmpipe (LLVM 15.0.6, 256 bits)".to_owned(),
        vendor: Vendor::Software,
        kind: DeviceKind::Cpu,
        limits: Limits {
            max_bindings: 31,
            max_units_per_cube: 1024,
            max_cube_dim: [1024; 3],
            max_shared_memory: 32 * KIB,
            binding_alignment: 32,
            ..Limits::WEBGPU_DEFAULT
        },
        f16: true,
        loop_rounds: Some(65_535),
        ..webgpu_default()
    }
}

/// SwiftShader as a native driver (the one Chromium ships), through wgpu and WGSL: no f16, and 256
/// units in a cube.
pub fn swiftshader() -> Capability {
    Capability {
        name: "SwiftShader Device (Subzero)".to_owned(),
        vendor: Vendor::Software,
        kind: DeviceKind::Cpu,
        limits: Limits {
            max_bindings: 9,
            max_shared_memory: 32 * KIB,
            max_binding_bytes: GIB,
            max_buffer_bytes: GIB,
            ..Limits::WEBGPU_DEFAULT
        },
        ..webgpu_default()
    }
}

/// An Apple M-series GPU through wgpu on Metal and WGSL.
pub fn apple_m() -> Capability {
    Capability {
        name: "Apple M2".to_owned(),
        vendor: Vendor::Apple,
        kind: DeviceKind::IntegratedGpu,
        limits: Limits {
            // wgpu keeps two of Metal's 31 buffer slots, and CubeCL one.
            max_bindings: 28,
            max_units_per_cube: 1024,
            max_cube_dim: [1024; 3],
            max_shared_memory: 32 * KIB,
            // `maxBufferLength` grows with the memory; this is the value of an 8 GB machine.
            max_binding_bytes: 4 * GIB,
            max_buffer_bytes: 4 * GIB,
            ..Limits::WEBGPU_DEFAULT
        },
        subgroup: Some((32, 32)),
        f16: true,
        ..webgpu_default()
    }
}

/// NVIDIA A100 80 GB (sm_80): f16, bf16 and tf32 tensor cores, no fp8.
pub fn a100() -> Capability {
    cuda("NVIDIA A100-SXM4-80GB", 80, 163, 80)
}

/// NVIDIA H100 80 GB (sm_90): fp8 conversion and tensor cores.
pub fn h100() -> Capability {
    cuda("NVIDIA H100 80GB HBM3", 90, 227, 80)
}

/// NVIDIA L4 24 GB (sm_89): fp8 conversion and tensor cores, little shared memory.
pub fn l4() -> Capability {
    cuda("NVIDIA L4", 89, 99, 24)
}

/// An NVIDIA GPU of compute capability `sm`. `shared_kib` is the opt-in limit per block, which CubeCL reports, not the
/// default of 48 KiB.
fn cuda(name: &str, sm: u32, shared_kib: usize, memory_gib: u64) -> Capability {
    let card = card(name, 32, memory_gib);
    Capability {
        vendor: Vendor::Nvidia,
        architecture: Some(format!("sm_{sm}")),
        runtime: Runtime::Cuda,
        limits: Limits {
            max_cube_dim: [1024, 1024, 64],
            max_shared_memory: shared_kib * KIB,
            binding_alignment: 512,
            ..card.limits
        },
        mma: nvidia::shapes(sm, Compiler::Nvrtc),
        async_copies: sm >= 80,
        fp8_conversion: sm >= 89,
        fp8_mma: sm >= 89,
        ..card
    }
}

/// A graphics card, with AMD's limits.
fn card(name: &str, subgroup: u32, memory_gib: u64) -> Capability {
    Capability {
        name: name.to_owned(),
        kind: DeviceKind::DiscreteGpu,
        limits: Limits {
            max_bindings: 1024,
            max_units_per_cube: 1024,
            max_cube_dim: [1024; 3],
            // HIP reports 65 536 for y and z; every driver accepts one less.
            max_cube_count: [i32::MAX.unsigned_abs(), 65_535, 65_535],
            max_shared_memory: 64 * KIB,
            // CubeCL allocates at most a quarter of the memory in one piece.
            max_binding_bytes: memory_gib * GIB / 4,
            max_buffer_bytes: memory_gib * GIB / 4,
            // The alignment of `textureAlignment`, which CubeCL uses.
            binding_alignment: 256,
        },
        subgroup: Some((subgroup, subgroup)),
        f16: true,
        bf16: true,
        memory: memory(memory_gib),
        ..webgpu_default()
    }
}

/// AMD Instinct MI300X (gfx942): wavefronts of 64, no matrix shape, because CubeCL's LLVM compiler
/// has none for CDNA.
pub fn mi300x() -> Capability {
    rocm("AMD Instinct MI300X", "gfx942", 64, 192)
}

/// AMD Radeon RX 9070 XT (RDNA4, gfx1201): wavefronts of 32, WMMA for f16 and bf16.
pub fn rdna4() -> Capability {
    let wmma = [
        ("bf16", "bf16"),
        ("bf16", "f32"),
        ("f16", "f16"),
        ("f16", "f32"),
    ];
    Capability {
        mma: wmma
            .map(|(input, accumulator)| MmaShape {
                m: 16,
                n: 16,
                k: 16,
                input: input.to_owned(),
                accumulator: accumulator.to_owned(),
            })
            .into(),
        ..rocm("AMD Radeon RX 9070 XT", "gfx1201", 32, 16)
    }
}

fn rocm(name: &str, architecture: &str, wavefront: u32, memory_gib: u64) -> Capability {
    Capability {
        vendor: Vendor::Amd,
        architecture: Some(architecture.to_owned()),
        runtime: Runtime::Rocm,
        ..card(name, wavefront, memory_gib)
    }
}

/// A two-core x86-64 machine with AVX-512 and 48 KiB of L1 data cache, through CubeCL's CPU
/// runtime.
pub fn cpu_2core_avx512() -> Capability {
    let name = "AMD EPYC";
    cpu((name, Vendor::Amd), "x86_64-avx512", (512, 32), 2, 48)
}

/// A four-core x86-64 machine with AVX2 and 32 KiB of L1 data cache, through CubeCL's CPU runtime.
pub fn cpu_4core_avx2() -> Capability {
    let name = "Intel(R) Core(TM) i5-8400";
    cpu((name, Vendor::Intel), "x86_64-avx2", (256, 16), 4, 32)
}

/// A four-core 64-bit ARM machine with NEON and 64 KiB of L1 data cache, through CubeCL's CPU
/// runtime.
pub fn cpu_neon() -> Capability {
    let name = "Neoverse-N1";
    cpu((name, Vendor::Arm), "aarch64-neon", (128, 32), 4, 64)
}

fn cpu(
    (name, vendor): (&str, Vendor),
    architecture: &str,
    (register_bits, registers): (u32, u32),
    cores: u32,
    l1d_kib: usize,
) -> Capability {
    let memory_gib = 16;
    Capability {
        name: name.to_owned(),
        vendor,
        architecture: Some(architecture.to_owned()),
        runtime: Runtime::Cpu,
        kind: DeviceKind::Cpu,
        limits: Limits {
            max_bindings: u32::MAX,
            // A unit is a core; the cubes run one after another on each.
            max_units_per_cube: cores,
            max_cube_dim: [cores; 3],
            max_cube_count: [u32::MAX; 3],
            max_shared_memory: l1d_kib * KIB,
            max_binding_bytes: memory_gib * GIB,
            max_buffer_bytes: memory_gib * GIB,
            binding_alignment: 64,
        },
        load_width_bits: register_bits,
        vector_registers: Some(registers),
        cpu_cores: Some(cores),
        f16: true,
        bf16: true,
        memory: memory(memory_gib),
        ..webgpu_default()
    }
}

fn memory(gib: u64) -> Option<MemoryFigures> {
    Some(MemoryFigures {
        total: gib * GIB,
        free: None,
    })
}

#[cfg(test)]
mod tests;
