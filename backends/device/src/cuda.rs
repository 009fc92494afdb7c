//! NVIDIA GPUs, as the CUDA driver lists them.

use std::sync::OnceLock;
use std::thread;

use cubecl::cuda::compiler::CudaBackend;
use cubecl::device::CudaDevice;
use cudarc::driver::sys::CUdevice_attribute::{self as Attribute, *};
use cudarc::driver::{CudaContext, DriverError};

use crate::guard::{PROBE_THREAD, quietly};
use crate::located::{Found, Located, index_among};
use crate::memory::driver_module;
use crate::nvidia::{Compiler, shapes};
use crate::{Capability, Device, DeviceKind, Limits, MemoryFigures, OpenError, Runtime, Vendor};

/// CubeCL's own limit on bindings for CUDA.
const MAX_BINDINGS: u32 = 1024;
const ALIGNMENT: u64 = 512;

/// Lists every CUDA GPU, described through a context that is released at once: a CubeCL runtime would hold memory on
/// each GPU for the life of the process.
pub(crate) fn list(runtime: Device) -> Result<Vec<Found>, OpenError> {
    let devices: Vec<Device> = (0..).take(count(runtime)?).map(|i| runtime.at(i)).collect();
    quietly(|| describe_all(&devices)).map_err(|reason| OpenError::Failed {
        device: runtime,
        reason,
    })
}

pub(crate) fn locate(device: Device) -> Result<Located, OpenError> {
    let index = index_among(device, count(device)?)?;
    Ok(Located {
        device: device.at(index),
        cubecl: Some(cubecl::Device::Cuda(CudaDevice::new(index as usize))),
        known: None,
    })
}

/// Adds what CubeCL's properties lack: the driver, free memory, and whether the GPU is integrated.
pub(crate) fn complete(capability: Capability, index: u32) -> Capability {
    // The runtime already holds the device's primary context; this adds a reference to it.
    let figures = quietly(|| -> Result<_, DriverError> {
        let context = CudaContext::new(index as usize)?;
        Ok((memory(&context)?, kind(&context)?))
    });
    match figures {
        Ok(Ok((memory, kind))) => Capability {
            driver: driver_module("nvidia"),
            memory: Some(memory),
            kind,
            ..capability
        },
        _ => capability,
    }
}

/// The number of GPUs: at least one, or an error. CubeCL counts them, because it checks for the library before calling
/// it.
fn count(device: Device) -> Result<usize, OpenError> {
    let any = cubecl::Device::Cuda(CudaDevice::default()).to_id();
    let count = quietly(|| cubecl::Device::enumerate(any).len())
        .map_err(|reason| OpenError::Failed { device, reason })?;
    if count > 0 {
        return match kernel_compiler() {
            Ok(()) => Ok(count),
            Err((library, reason)) => Err(OpenError::NoDriver {
                device,
                library,
                reason,
            }),
        };
    }
    let loaded = std::path::Path::new("/proc/driver/nvidia/version").exists();
    let reason = if loaded {
        "the NVIDIA kernel driver is loaded, but libcuda is missing or shows no GPU"
    } else {
        "libcuda could not be loaded or shows no GPU"
    };
    Err(OpenError::NoDriver {
        device,
        library: "the NVIDIA driver (libcuda)",
        reason: reason.to_owned(),
    })
}

/// Checks that kernels can be compiled: CubeCL's C++ compiler needs NVRTC and its folder of headers, and panics at the
/// first launch without them. The error says what is missing, and why.
fn kernel_compiler() -> Result<(), (&'static str, String)> {
    static ANSWER: OnceLock<Result<(), (&str, String)>> = OnceLock::new();
    let ask = || {
        if CudaBackend::default() == CudaBackend::Llvm {
            return Ok(());
        }
        let toolkit = "the CUDA toolkit, or PyPI's nvidia-cuda-nvrtc and nvidia-cuda-runtime";
        if cubecl::cuda::install::cuda_path().is_none() {
            let reason = "there is no toolkit in its usual places, and CUDA_PATH names no other";
            return Err((toolkit, reason.to_owned()));
        }
        // The call panics if the library can't be loaded; its answer to an empty text doesn't matter.
        let loaded = quietly(|| drop(cudarc::nvrtc::compile_ptx("")));
        loaded.map_err(|reason| (toolkit, format!("libnvrtc can't be loaded: {reason}")))
    };
    ANSWER.get_or_init(ask).clone()
}

/// Describes each device on a thread of its own: making a context takes a tenth of a second and more.
fn describe_all(devices: &[Device]) -> Vec<Found> {
    thread::scope(|scope| {
        let probes: Vec<_> = devices
            .iter()
            .map(|&device| {
                let ordinal = device.index().unwrap_or(0) as usize;
                let probe = thread::Builder::new()
                    .name(PROBE_THREAD.to_owned())
                    .spawn_scoped(scope, move || describe(ordinal).map_err(|e| e.to_string()));
                (device, probe)
            })
            .collect();
        let status = |device, probe: Result<thread::ScopedJoinHandle<'_, _>, std::io::Error>| {
            let answer = match probe {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| Err("the driver library is incomplete".to_owned())),
                Err(error) => Err(error.to_string()),
            };
            answer.map_err(|reason| OpenError::Failed { device, reason })
        };
        probes
            .into_iter()
            .map(|(device, probe)| Found {
                device,
                status: status(device, probe),
            })
            .collect()
    })
}

/// What CubeCL will report for the GPU, read from the driver's attributes.
fn describe(ordinal: usize) -> Result<Capability, DriverError> {
    let context = CudaContext::new(ordinal)?;
    let name = context.name()?;
    let (major, minor) = context.compute_capability()?;
    let sm = unsigned(major) * 10 + unsigned(minor);
    let warp = unsigned(context.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE)?);
    let compiler = match CudaBackend::default() {
        CudaBackend::Cpp => Compiler::Nvrtc,
        CudaBackend::Llvm => Compiler::Llvm,
    };
    // Of the generation with compute capability 7.5, NVIDIA calls those without tensor cores GTX.
    let tensor_cores = sm >= 70 && !(sm == 75 && name.to_uppercase().contains("GTX"));
    let mma = if tensor_cores {
        shapes(sm, compiler)
    } else {
        Vec::new()
    };
    let memory = memory(&context)?;
    let fp8 = sm >= 89 && compiler == Compiler::Nvrtc;
    Ok(Capability {
        name,
        vendor: Vendor::Nvidia,
        architecture: Some(format!("sm_{sm}")),
        runtime: Runtime::Cuda,
        kind: kind(&context)?,
        limits: limits(&context, memory.total)?,
        subgroup: Some((warp, warp)),
        f16: true,
        bf16: true,
        mma,
        async_copies: sm >= 80 && compiler == Compiler::Nvrtc,
        fp8_conversion: fp8,
        fp8_mma: fp8,
        driver: driver_module("nvidia"),
        memory: Some(memory),
        ..Capability::webgpu_default()
    })
}

fn limits(context: &CudaContext, total_memory: u64) -> Result<Limits, DriverError> {
    let read = |attribute: Attribute| context.attribute(attribute).map(unsigned);
    let shared = read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Ok(Limits {
        max_bindings: MAX_BINDINGS,
        max_units_per_cube: read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_cube_dim: [
            read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_cube_count: [
            read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_shared_memory: shared as usize,
        // CubeCL allocates at most a quarter of the memory in one piece.
        max_binding_bytes: total_memory / 4,
        max_buffer_bytes: total_memory / 4,
        binding_alignment: ALIGNMENT,
    })
}

fn kind(context: &CudaContext) -> Result<DeviceKind, DriverError> {
    Ok(match context.attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED)? {
        0 => DeviceKind::DiscreteGpu,
        _ => DeviceKind::IntegratedGpu,
    })
}

fn memory(context: &CudaContext) -> Result<MemoryFigures, DriverError> {
    let (free, _) = context.mem_get_info()?;
    Ok(MemoryFigures {
        total: context.total_mem()? as u64,
        free: Some(free as u64),
    })
}

/// The bytes that the driver has free on a GPU.
pub(crate) fn free(index: usize) -> Option<u64> {
    let figures = quietly(|| -> Result<_, DriverError> {
        let context = CudaContext::new(index)?;
        memory(&context)
    });
    figures.ok()?.ok()?.free
}

/// Converts a driver's attribute, which is signed but never negative.
fn unsigned(attribute: i32) -> u32 {
    attribute.unsigned_abs()
}
