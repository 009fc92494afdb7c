//! What a device can do: the only input of a kernel's `plan` besides the problem.

use std::fmt;

use serde::Serialize;

/// The limits and features of one device, in the terms that kernels are planned with.
///
/// Read from the wgpu adapter and the CubeCL device properties by [`crate::probe`]; a test or a compile-only run writes
/// one by hand. Sizes are bytes unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capability {
    /// The adapter's name, as the driver reports it.
    pub name: String,
    /// The device's maker.
    pub vendor: Vendor,
    /// The instruction set or chip family, if known: `sm_90`, `gfx942`, `x86_64`.
    pub architecture: Option<String>,
    /// The runtime that drives the device.
    pub runtime: Runtime,
    /// The kind of device: a sort of GPU or a processor.
    pub kind: DeviceKind,
    /// Hard limits of a launch.
    pub limits: Limits,
    /// Widest load in bits (CPU: the vector register; GPU: 128).
    pub load_width_bits: u32,
    /// The number of vector registers that a CPU kernel may keep live; `None` on a GPU.
    pub vector_registers: Option<u32>,
    /// The number of parallel CPU cores; `None` on a GPU.
    pub cpu_cores: Option<u32>,
    /// The smallest and largest subgroup size; `None` where neither subgroup operations nor matrix instructions may be
    /// used.
    pub subgroup: Option<(u32, u32)>,
    /// Whether f16 can be used in storage buffers and arithmetic.
    pub f16: bool,
    /// Whether bf16 can be used in storage buffers.
    pub bf16: bool,
    /// The matrix-multiply-accumulate shapes that the compiler can emit.
    pub mma: Vec<MmaShape>,
    /// Whether the compiler can emit copies to workgroup memory that run beside a kernel's other instructions.
    pub async_copies: bool,
    /// Whether the target has an instruction that converts FP8.
    pub fp8_conversion: bool,
    /// Whether the target has instructions that multiply FP8 matrices.
    pub fp8_mma: bool,
    /// The rounds that one invocation of a kernel may make in all its loops together, each loop's last look at its end included;
    /// beyond, a software adapter ends every loop in silence. `None` where loops have no such limit. Measured by a kernel on
    /// software adapters, and never on GPUs and processors.
    pub loop_rounds: Option<u32>,
    /// The driver's name and version, if the system tells; `None` for processors.
    pub driver: Option<String>,
    /// Device memory, if the driver tells.
    pub memory: Option<MemoryFigures>,
}

/// Hard limits of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The number of buffers that one kernel may bind (CubeCL uses one more for metadata).
    pub max_bindings: u32,
    /// The number of invocations (units) in one workgroup (cube).
    pub max_units_per_cube: u32,
    /// The largest workgroup size along x, y, z.
    pub max_cube_dim: [u32; 3],
    /// The largest number of workgroups along x, y, z.
    pub max_cube_count: [u32; 3],
    /// Bytes of workgroup (shared) memory.
    pub max_shared_memory: usize,
    /// Bytes that one storage binding may span.
    pub max_binding_bytes: u64,
    /// Bytes that one buffer may have; on wgpu CubeCL makes none larger than a binding.
    pub max_buffer_bytes: u64,
    /// The alignment of a binding's offset, in bytes.
    pub binding_alignment: u64,
}

impl Limits {
    /// The default limits of the WebGPU specification, with one binding fewer, which CubeCL takes.
    pub const WEBGPU_DEFAULT: Self = Self {
        max_bindings: 7,
        max_units_per_cube: 256,
        max_cube_dim: [256, 256, 64],
        max_cube_count: [65_535; 3],
        max_shared_memory: 16 * 1024,
        max_binding_bytes: 128 * 1024 * 1024,
        max_buffer_bytes: 256 * 1024 * 1024,
        binding_alignment: 256,
    };

    /// The limits of a device on which no kernel is launched: a single unit, and tensors of any size.
    #[cfg(any(feature = "flex", feature = "xla"))]
    pub(crate) const NO_LAUNCH: Self = Self {
        max_bindings: u32::MAX,
        max_units_per_cube: 1,
        max_cube_dim: [1; 3],
        max_cube_count: [u32::MAX; 3],
        max_shared_memory: 0,
        max_binding_bytes: u64::MAX,
        max_buffer_bytes: u64::MAX,
        binding_alignment: 64,
    };
}

/// The maker of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Apple.
    Apple,
    /// Qualcomm.
    Qualcomm,
    /// ARM.
    Arm,
    /// A software rasteriser (lavapipe, SwiftShader, WARP).
    Software,
    /// An unknown maker.
    Unknown,
}

/// The runtime that drives a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// wgpu with the WGSL compiler.
    Wgpu,
    /// wgpu on Vulkan with the SPIR-V compiler.
    Vulkan,
    /// CUDA.
    Cuda,
    /// ROCm/HIP.
    Rocm,
    /// CubeCL CPU (LLVM JIT).
    Cpu,
    /// Burn Flex: plain Rust.
    Flex,
    /// XLA through PJRT.
    Xla,
}

/// The kind of a device, in order from the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A GPU with its own memory.
    DiscreteGpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A virtual GPU.
    VirtualGpu,
    /// An unclassified device.
    Unknown,
    /// A processor, directly or behind a software graphics driver.
    Cpu,
}

/// One matrix-multiply-accumulate shape: C\[m,n\] += A\[m,k\] · B\[k,n\].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MmaShape {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Element type of A and B, e.g. `f16`.
    pub input: String,
    /// Element type of C, e.g. `f32`.
    pub accumulator: String,
}

/// Amounts of device memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryFigures {
    /// Bytes installed, or the limit that applies to this process.
    pub total: u64,
    /// Bytes free now, if the driver tells.
    pub free: Option<u64>,
}

impl Capability {
    /// The least that any WebGPU implementation gives: the specification's default limits and no optional feature.
    pub fn webgpu_default() -> Self {
        Self {
            name: "WebGPU default limits".to_owned(),
            vendor: Vendor::Unknown,
            architecture: None,
            runtime: Runtime::Wgpu,
            kind: DeviceKind::Unknown,
            limits: Limits::WEBGPU_DEFAULT,
            load_width_bits: 128,
            vector_registers: None,
            cpu_cores: None,
            subgroup: None,
            f16: false,
            bf16: false,
            mma: Vec::new(),
            async_copies: false,
            fp8_conversion: false,
            fp8_mma: false,
            loop_rounds: None,
            driver: None,
            memory: None,
        }
    }

    /// Whether the compiler multiplies `(m, n, k)` tiles of type `input` into `accumulator`.
    pub fn has_mma(&self, tile: (u32, u32, u32), input: &str, accumulator: &str) -> bool {
        self.mma.iter().any(|shape| {
            (shape.m, shape.n, shape.k) == tile
                && shape.input == input
                && shape.accumulator == accumulator
        })
    }

    /// Whether the device runs on the processor, directly or behind a software graphics driver.
    pub fn is_cpu(&self) -> bool {
        self.kind == DeviceKind::Cpu
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Intel => "Intel",
            Self::Apple => "Apple",
            Self::Qualcomm => "Qualcomm",
            Self::Arm => "ARM",
            Self::Software => "software",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DiscreteGpu => "discrete GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::VirtualGpu => "virtual GPU",
            Self::Cpu => "CPU",
            Self::Unknown => "unclassified adapter",
        })
    }
}

impl fmt::Display for MmaShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (m, n, k) = (self.m, self.n, self.k);
        write!(f, "m{m}n{n}k{k} {}->{}", self.input, self.accumulator)
    }
}
