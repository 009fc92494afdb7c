//! Hand-written devices of the targets, for plans and for the expansion of kernels.
//!
//! Types and matrix shapes are those that CubeCL's runtime registers for such a device. Limits are WebGPU's defaults for WGSL and
//! SPIR-V, and those of the target's least capable hardware elsewhere.

use super::server::{self, Backing, Launch};
use super::{Planned, Target};
use crate::error::PlanError;
use crate::launched;
use crate::named::{FromNames, Lookup};
use cubecl::ir::features::{AtomicUsage, Features, Plane, TypeUsage};
use cubecl::ir::{
    DeviceIdentity, ElemType, FloatKind, HardwareProperties, IntKind, MemoryDeviceProperties, Type,
    UIntKind,
};
use cubecl::prelude::*;
use cubecl::server::{CopyDescriptor, Handle};
use cubecl_runtime::memory_management::ManagedMemoryHandle;
use moebius_device::{Capability, Limits};
use moebius_ops::Element;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes of workgroup memory that every GPU of a native target has.
const NATIVE_SHARED: usize = 48 * 1024;
/// Bytes of workgroup memory that CUDA gives kernels that ask for it: since sm_80, and since sm_90.
const CUDA_SHARED: [usize; 2] = [99 * 1024, 227 * 1024];
/// Bytes of workgroup memory of GPUs in Vulkan.
const VULKAN_SHARED: usize = 32 * 1024;

/// The architecture of the PTX target.
const PTX_SM: u32 = 90;

/// Bytes of a buffer without memory behind it; more than any kernel reads.
const BUFFER: usize = 1 << 40;

/// A device that exists only as its properties, and that records launches.
pub(crate) struct Machine {
    /// The capability that plans read.
    pub(crate) capability: Capability,
    recorder: Recorder,
}

impl Machine {
    /// The device of `target` that stores `element` if any device of the target can, with CUDA architecture `sm` (for PTX, that
    /// of the target). Devices are shared, because each has a thread.
    pub(super) fn of(target: Target, element: Option<Element>, sm: u32) -> Arc<Self> {
        type Machines = HashMap<(Target, Option<Element>, u32), Arc<Machine>>;
        static MACHINES: LazyLock<Mutex<Machines>> = LazyLock::new(Mutex::default);
        let mut machines = MACHINES.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = machines.entry((target, element, sm)).or_insert_with(|| {
            let properties = properties(target, element, sm);
            Arc::new(Self {
                capability: Capability::from_properties(target.runtime(), &properties),
                recorder: Recorder::new(properties),
            })
        });
        machine.clone()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.recorder.client
    }

    /// A buffer large enough for any operand.
    pub(crate) fn buffer(&self) -> Handle {
        self.recorder.client.empty(BUFFER)
    }

    /// Runs `launch` with `plan`, with buffers for all names except those that `given` marks `false`.
    pub(crate) fn launch<P, B: FromNames>(
        &self,
        given: &[(&str, bool)],
        plan: Result<P, impl Into<PlanError>>,
        launch: impl Fn(&Client, &P, B),
    ) -> Planned {
        let plan = plan.map_err(Into::into)?;
        launch(self.client(), &plan, (self, given).fill());
        Ok(())
    }

    /// Runs `launch` and returns the names and, in the same order, the kernels that it launched.
    pub(super) fn record(
        &self,
        launch: impl FnOnce(&Self) -> Planned,
    ) -> Result<(Vec<String>, Kernels), PlanError> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // Discards the kernels of an earlier launch that panicked.
        drop(self.recorder.take());
        let (planned, names) = launched::record(|| launch(self));
        planned.map(|()| (names, self.recorder.take()))
    }
}

impl Lookup for (&Machine, &[(&str, bool)]) {
    fn find(&self, name: &str) -> Option<Handle> {
        let (machine, given) = self;
        let absent = given.contains(&(name, false));
        (!absent).then(|| machine.buffer())
    }
}

pub(super) fn properties(target: Target, element: Option<Element>, sm: u32) -> DeviceProperties {
    let memory = MemoryDeviceProperties::new(
        Limits::WEBGPU_DEFAULT.max_binding_bytes,
        Limits::WEBGPU_DEFAULT.binding_alignment,
    );
    let identity = DeviceIdentity {
        name: format!("any device for {target}"),
        fingerprint: fingerprint(target, sm),
        physical: None,
    };
    let mut properties = DeviceProperties::new(
        Features::default(),
        memory,
        hardware(target, sm),
        cubecl::profile::TimingMethod::Device,
        identity,
    );
    match target {
        Target::Wgsl => register_words(&mut properties, target, element),
        Target::SpirV => {
            register_words(&mut properties, target, element);
            register_matrices(&mut properties, target, sm);
        }
        _ => {
            cubecl_cpp::register_supported_types(&mut properties);
            properties.features.plane.insert(Plane::Ops);
            // CubeCL chooses between its compilers for CUDA by this feature when it converts FP8.
            properties.features.copy_async = target == Target::CudaCpp;
            register_matrices(&mut properties, target, sm);
        }
    }
    properties
}

/// The fingerprint that CubeCL's runtimes give such a device; a capability reads the architecture from it.
fn fingerprint(target: Target, sm: u32) -> String {
    match target {
        Target::CudaCpp => format!("ptx_sm{sm}"),
        Target::Ptx => format!("ptx_sm{PTX_SM}"),
        Target::HipCpp | Target::AmdgpuGfx942 => "hip-kernel_gfx942".to_owned(),
        Target::AmdgpuGfx1201 => "hip-kernel_gfx1201".to_owned(),
        Target::Wgsl | Target::SpirV | Target::Msl => String::new(),
    }
}

/// The number of units of a plane.
pub(super) const fn plane(target: Target) -> u32 {
    match target {
        Target::HipCpp | Target::AmdgpuGfx942 => 64,
        _ => 32,
    }
}

/// The architecture of an AMDGPU target.
#[cfg(feature = "emit-llvm")]
pub(super) fn gfx(target: Target) -> &'static str {
    target.name().trim_start_matches("amdgpu-")
}

fn hardware(target: Target, sm: u32) -> HardwareProperties {
    let limits = Limits::WEBGPU_DEFAULT;
    let [x, y, z] = limits.max_cube_dim;
    let [count_x, count_y, count_z] = limits.max_cube_count;
    HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: plane(target),
        plane_size_max: plane(target),
        max_bindings: limits.max_bindings,
        max_shared_memory_size: match target {
            Target::Wgsl => limits.max_shared_memory,
            Target::SpirV => VULKAN_SHARED,
            Target::CudaCpp => CUDA_SHARED[usize::from(sm >= 90)],
            _ => NATIVE_SHARED,
        },
        max_cube_count: (count_x, count_y, count_z),
        max_units_per_cube: limits.max_units_per_cube,
        max_cube_dim: (x, y, z),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: 4,
        cube_mma_reserved_shared_memory: 0,
    }
}

/// Registers the types and atomics of both wgpu compilers.
fn register_words(properties: &mut DeviceProperties, target: Target, element: Option<Element>) {
    properties.register_address_type(AddressType::U32);
    let words = [ElemType::UInt(UIntKind::U32), ElemType::Int(IntKind::I32)];
    let others = [
        ElemType::Index,
        ElemType::Float(FloatKind::F32),
        ElemType::Bool,
    ];
    for kind in words.into_iter().chain(others) {
        properties.register_type_usage(kind, TypeUsage::all());
    }
    for kind in words {
        let usage = AtomicUsage::LoadStore | AtomicUsage::Exchange | AtomicUsage::Add;
        properties.register_atomic_type_usage(Type::atomic(kind), usage);
    }
    match element {
        Some(Element::F16) => {
            properties.register_type_usage(ElemType::Float(FloatKind::F16), TypeUsage::all());
        }
        // VK_KHR_shader_bfloat16 has storage and conversion of bf16, but no arithmetic.
        Some(Element::Bf16) if target == Target::SpirV => {
            let usage = TypeUsage::Conversion | TypeUsage::Buffer;
            properties.register_type_usage(ElemType::Float(FloatKind::BF16), usage);
        }
        _ => {}
    }
}

/// Registers the matrix instructions that CubeCL's compiler for `target` supports on the target's oldest hardware.
fn register_matrices(properties: &mut DeviceProperties, target: Target, sm: u32) {
    use cubecl_cpp::cuda::{arch::CudaArchitecture, mma::CudaCmmaCompiler, mma::manual};
    use cubecl_cpp::hip::{arch::AMDArchitecture, mma::HipCmmaCompiler};
    use cubecl_cpp::metal::{arch::MetalArchitecture, supported_cmma_combinations_metal};
    let shapes = match target {
        Target::CudaCpp | Target::Ptx => {
            let version = if target == Target::Ptx { PTX_SM } else { sm };
            let arch = CudaArchitecture {
                version,
                tensor_cores: true,
            };
            let fragments = manual::supported_mma_combinations(&arch);
            cubecl_cpp::shared::register_mma_features(fragments, properties);
            CudaCmmaCompiler::Cpp.supported_cmma_combinations(&arch)
        }
        Target::HipCpp | Target::AmdgpuGfx942 => {
            HipCmmaCompiler::RocWmma.supported_cmma_combinations(&AMDArchitecture::GFX94)
        }
        Target::AmdgpuGfx1201 => {
            HipCmmaCompiler::RocWmma.supported_cmma_combinations(&AMDArchitecture::GFX12)
        }
        Target::Msl => supported_cmma_combinations_metal(&MetalArchitecture::Metal3),
        Target::SpirV => [FloatKind::F16, FloatKind::BF16].map(common_matrix).into(),
        Target::Wgsl => Vec::new(),
    };
    cubecl_cpp::shared::register_wmma_features(shapes, properties);
    #[cfg(feature = "emit-llvm")]
    restrict(properties, target);
}

/// The matrix shape of GPUs with cooperative matrices in Vulkan.
fn common_matrix(kind: FloatKind) -> cubecl::ir::features::MmaConfig {
    cubecl::ir::features::MmaConfig {
        a_type: ElemType::Float(kind),
        b_type: ElemType::Float(kind),
        cd_type: ElemType::Float(FloatKind::F32),
        m: 16,
        n: 16,
        k: 16,
    }
}

/// Removes the features that CubeCL's LLVM compilers can't lower.
#[cfg(feature = "emit-llvm")]
fn restrict(properties: &mut DeviceProperties, target: Target) {
    use cubecl_llvm::shared::lowered_features::{GpuTarget, restrict_features};
    match target {
        Target::Ptx => restrict_features(properties, GpuTarget::Nvptx),
        Target::AmdgpuGfx942 | Target::AmdgpuGfx1201 => {
            let wmma = cubecl::ir::amd::GfxArch::parse(gfx(target)).wmma();
            restrict_features(properties, GpuTarget::AmdGpu { wmma });
        }
        _ => {}
    }
}

/// Kernels in the order of their launches.
pub(super) type Kernels = Vec<Box<dyn CubeKernel>>;

type Launched = Arc<Mutex<Kernels>>;

/// A device that runs nothing and keeps the kernels launched on it, so that the compiled kernels are exactly those that a launch
/// would enqueue.
struct Recorder {
    client: Client,
    launched: Launched,
}

impl Recorder {
    /// A recorder for a device with `properties`.
    fn new(properties: DeviceProperties) -> Self {
        let launched = Launched::default();
        let client = server::client("recorder", properties, Record(launched.clone()));
        Self { client, launched }
    }

    /// The kernels launched since the last call.
    fn take(&self) -> Kernels {
        // Launches are sent to the server's thread; the answer means that it has processed them.
        let flushed = self.client.flush();
        debug_assert!(flushed.is_ok(), "the recorder's flush never fails");
        std::mem::take(&mut self.launched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Record(Launched);

impl Backing for Record {
    /// Accepts any size, without memory behind the buffer.
    fn allocate(&mut self, _memory: ManagedMemoryHandle, _bytes: u64) -> Result<(), String> {
        Ok(())
    }

    fn read(&mut self, _from: &CopyDescriptor) -> Result<Vec<u8>, String> {
        Err("a device that only records launches was asked for values".to_owned())
    }

    fn write(&mut self, _to: &CopyDescriptor, _bytes: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self, launch: Launch) -> Result<(), String> {
        let mut launched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        launched.push(launch.kernel);
        Ok(())
    }
}
