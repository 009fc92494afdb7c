//! Arithmetic on bf16 in SPIR-V: as CubeCL writes it spirv-val refuses it, and as Vulkan devices get it spirv-val takes it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cubecl::ir::features::Features;
use cubecl::ir::{
    DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties, TargetProperties,
};
use cubecl::prelude::*;
use cubecl_core::{Compiler, WgpuCompilationOptions};
use cubecl_runtime::kernel::CubeKernel;
use half::bf16;

use super::{Verdict, tools};

/// A sum, a product, a function, a maximum and a quotient, all of bf16.
#[cube(launch)]
fn bf16_arithmetic<N: Size>(
    a: &[Vector<bf16, N>],
    b: &[Vector<bf16, N>],
    out: &mut [Vector<bf16, N>],
) {
    if ABSOLUTE_POS < out.len() {
        let x = a[ABSOLUTE_POS];
        let y = b[ABSOLUTE_POS];
        let power = Vector::exp(x + y * x - y);
        out[ABSOLUTE_POS] = max(power, y) / x;
    }
}

/// A device that isn't there, with the least that a kernel without workgroup memory needs.
fn properties() -> DeviceProperties {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 8,
        max_shared_memory_size: 1 << 14,
        max_cube_count: (65535, 65535, 65535),
        max_units_per_cube: 256,
        max_cube_dim: (256, 256, 64),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: 4,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity {
        name: "any device for SPIR-V".to_owned(),
        fingerprint: String::new(),
        physical: None,
    };
    DeviceProperties::new(
        Features::default(),
        MemoryDeviceProperties::new(1 << 30, 256),
        hardware,
        cubecl::profile::TimingMethod::Device,
        identity,
    )
}

/// The kernel's words as CubeCL writes them, for vectors of so many values.
fn written(lanes: usize) -> Result<Vec<u32>, String> {
    let settings = KernelSettings::new(
        *CubeDim::new_1d(64),
        ExecutionMode::Unchecked,
        AddressType::U32,
    );
    let buffer = || BufferCompilationArg { inplace: None };
    let kernel = bf16_arithmetic::Bf16Arithmetic::new(
        settings,
        Arc::new(properties()),
        Arc::new(TargetProperties::default()),
        buffer(),
        buffer(),
        buffer(),
        lanes,
    );
    let mut options = WgpuCompilationOptions {
        supports_vulkan_compiler: true,
        ..Default::default()
    };
    options.vulkan.max_spirv_version = (1, 5);
    options.vulkan.max_vector_size = 4;
    options.vulkan.supports_uniform_standard_layout = true;
    options.vulkan.push_constant_size = 128;
    let module = cubecl_spirv::SpirvCompiler.compile(kernel.define(), &options);
    let module = module.map_err(|error| format!("{error:?}"))?;
    Ok(module.assembled_module)
}

fn judged(name: &str, words: &[u32]) -> Verdict {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("validate");
    let path = folder.join(format!("{name}.spv"));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let file = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, bytes));
    file.map_err(|error| format!("{}: {error}", path.display()))?;
    let environment = ["--target-env", "vulkan1.2"].map(OsStr::new);
    let arguments = [environment[0], environment[1], path.as_os_str()];
    tools::run(&tools::spirv_val_program(), &arguments)
}

/// What CubeCL writes is invalid, which is why devices get it rewritten; what they get is valid.
pub(crate) fn arithmetic_is_made_valid() -> Verdict {
    for lanes in [1, 2, 4] {
        let words = written(lanes)?;
        let name = format!("bf16_arithmetic_{lanes}");
        match judged(&name, &words) {
            Err(said) if said.contains("BFloat16") => {}
            Err(said) => return Err(said),
            Ok(()) => {
                let advice = "rewriting it (backends/device/src/vulkan/bf16.rs) may be needless";
                return Err(format!("CubeCL's arithmetic on bf16 is valid: {advice}"));
            }
        }
        let rewritten = moebius_device::bf16_in_f32(&words)?;
        let rewritten = rewritten.ok_or("the module was taken for one without bf16")?;
        judged(&format!("{name}_in_f32"), &rewritten)?;
    }
    Ok(())
}
