//! The devices of the targets, written by hand: what plans read and kernels are expanded with.
//!
//! Types and matrix shapes are those that CubeCL's runtime registers for such a device; limits are
//! WebGPU's defaults for WGSL and SPIR-V, and the least hardware of the target elsewhere.

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

/// Bytes that workgroup memory holds on any GPU of a native target.
const NATIVE_SHARED: usize = 48 * 1024;
/// Bytes of workgroup memory that GPUs have in Vulkan.
const VULKAN_SHARED: usize = 32 * 1024;

/// The architecture of the PTX target.
const PTX_SM: u32 = 90;

/// Bytes of a buffer without memory behind it, more than any kernel reads.
const BUFFER: usize = 1 << 40;

/// A device that isn't there.
pub(crate) struct Machine {
    /// What plans read.
    pub(crate) capability: Capability,
    recorder: Recorder,
}

impl Machine {
    /// The device of `target` that stores `element`, if any of its kind does; on CUDA of architecture `sm` or, as PTX, of
    /// the target's. There is one of a kind, for each has a thread.
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

    /// Launches what is planned, with buffers of all names but those that are `given` not to be there.
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

    /// What `launch` launches: the names, and the kernels in the same order.
    pub(super) fn record(
        &self,
        launch: impl FnOnce(&Self) -> Planned,
    ) -> Result<(Vec<String>, Kernels), PlanError> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // What a launch that panicked left behind.
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
        hardware(target),
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
            // Which of CubeCL's compilers for CUDA converts FP8 is told by this.
            properties.features.copy_async = target == Target::CudaCpp;
            register_matrices(&mut properties, target, sm);
        }
    }
    properties
}

/// What CubeCL's runtimes call such a device, which is where a capability reads its architecture.
fn fingerprint(target: Target, sm: u32) -> String {
    match target {
        Target::CudaCpp => format!("ptx_sm{sm}"),
        Target::Ptx => format!("ptx_sm{PTX_SM}"),
        Target::HipCpp | Target::AmdgpuGfx942 => "hip-kernel_gfx942".to_owned(),
        Target::AmdgpuGfx1201 => "hip-kernel_gfx1201".to_owned(),
        Target::Wgsl | Target::SpirV | Target::Msl => String::new(),
    }
}

/// Units of a plane.
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

fn hardware(target: Target) -> HardwareProperties {
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

/// The types and atomics of both wgpu compilers.
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
        // VK_KHR_shader_bfloat16 stores and converts; arithmetic is none of its business.
        Some(Element::Bf16) if target == Target::SpirV => {
            let usage = TypeUsage::Conversion | TypeUsage::Buffer;
            properties.register_type_usage(ElemType::Float(FloatKind::BF16), usage);
        }
        _ => {}
    }
}

/// The matrix instructions CubeCL's compiler for `target` has, on the oldest hardware it is for.
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

/// What GPUs with cooperative matrices have in Vulkan.
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

/// Takes away what CubeCL's LLVM compilers can't lower.
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

/// A device that runs nothing and keeps the kernels launched on it: what is compiled without a device is what a launch would
/// enqueue.
struct Recorder {
    client: Client,
    launched: Launched,
}

impl Recorder {
    /// A recorder for a device of these properties.
    fn new(properties: DeviceProperties) -> Self {
        let launched = Launched::default();
        let client = server::client("recorder", properties, Record(launched.clone()));
        Self { client, launched }
    }

    /// The kernels launched since the last call.
    fn take(&self) -> Kernels {
        // Launches are sent to the server's thread, and done when it answers.
        let flushed = self.client.flush();
        debug_assert!(flushed.is_ok(), "the recorder's flush never fails");
        std::mem::take(&mut self.launched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Record(Launched);

impl Backing for Record {
    /// Buffers are as large as they are asked to be, without memory behind them.
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
