//! CubeCL's compilers, one per target.

use super::machine::plane;
use super::{Artifact, EmitError, Target, names};
use cubecl::ir::settings::KernelSettings;
use cubecl::prelude::{CubeKernel, KernelDefinition};
use cubecl::{Compiler, WgpuCompilationOptions};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler, CppSupportedFeatures};
use cubecl_runtime::compiler::CompilationError;

/// The bytes of a module, or the compiler's message.
type Compiled = Result<Vec<u8>, String>;

/// Compiles `kernel` for `target`; in text output, names the entry point `name`.
pub(super) fn compile(
    kernel: &dyn CubeKernel,
    name: Option<&str>,
    target: Target,
) -> Result<Artifact, EmitError> {
    let definition = kernel.define();
    let KernelSettings {
        kernel_name,
        cube_dim,
        ..
    } = definition.settings.clone();
    let name = name.unwrap_or(&kernel_name);
    let compiled = match target {
        Target::Wgsl => wgsl(definition),
        #[cfg(feature = "emit-spirv")]
        Target::SpirV => spirv(definition),
        #[cfg(not(feature = "emit-spirv"))]
        Target::SpirV => return Err(not_built(target, "emit-spirv")),
        Target::CudaCpp => cpp::<cubecl_cpp::target::Cuda>(definition, target),
        Target::HipCpp => cpp::<cubecl_cpp::target::Hip>(definition, target),
        Target::Msl => cpp::<cubecl_cpp::target::Metal>(definition, target),
        #[cfg(feature = "emit-llvm")]
        Target::Ptx => llvm::ptx(definition),
        #[cfg(feature = "emit-llvm")]
        Target::AmdgpuGfx942 | Target::AmdgpuGfx1201 => llvm::amdgpu(definition, target),
        #[cfg(not(feature = "emit-llvm"))]
        Target::Ptx | Target::AmdgpuGfx942 | Target::AmdgpuGfx1201 => {
            return Err(not_built(target, "emit-llvm"));
        }
    };
    let bytes = compiled.map_err(|reason| EmitError::Failed {
        kernel: name.to_owned(),
        target,
        reason,
    })?;
    let (bytes, entry_point) = match str::from_utf8(&bytes) {
        Ok(text) if is_text(target) => {
            let text = text.replace(&kernel_name, name);
            (text.into_bytes(), name.to_owned())
        }
        _ => (bytes, kernel_name.clone()),
    };
    Ok(Artifact {
        bytes,
        extension: target.extension(),
        entry_point,
        workgroup: [cube_dim.x, cube_dim.y, cube_dim.z],
    })
}

#[cfg(not(all(feature = "emit-spirv", feature = "emit-llvm")))]
const fn not_built(target: Target, feature: &'static str) -> EmitError {
    EmitError::NotBuilt { target, feature }
}

fn is_text(target: Target) -> bool {
    let binary = [Target::SpirV, Target::AmdgpuGfx942, Target::AmdgpuGfx1201];
    !binary.contains(&target)
}

/// The compiler's message without the backtrace that CubeCL's `Display` appends.
fn reason(error: CompilationError) -> String {
    match error {
        CompilationError::UnsupportedInstruction { reason, .. }
        | CompilationError::Generic { reason, .. }
        | CompilationError::Validation { reason, .. } => reason,
        CompilationError::ExpansionPanicked { message, .. } => message,
        other => other.to_string(),
    }
}

/// Compiles to the WGSL that a browser gets. In a browser CubeCL shares no buffer between bindings, so bindings that are only
/// read are declared `read`, as WebGPU's uniformity analysis needs. Native builds print `read_write` everywhere.
fn wgsl(definition: KernelDefinition) -> Compiled {
    let options = WgpuCompilationOptions::default();
    let shader = cubecl_wgpu::WgslCompiler.compile(definition, &options);
    let shader = shader.map_err(reason)?;
    let mut text = shader.to_string();
    for (binding, io) in shader.io.iter().enumerate() {
        if !io.is_writable() {
            let native = format!("@binding({binding}) var<storage, read_write>");
            let browser = format!("@binding({binding}) var<storage, read>");
            text = text.replace(&native, &browser);
        }
    }
    Ok(text.into_bytes())
}

/// Compiles to SPIR-V with the features that Vulkan 1.2 requires of every implementation, plus
/// `VK_KHR_workgroup_memory_explicit_layout`: without it, CubeCL 0.11.3 declares workgroup memory as a variable of a pointer
/// type, which is invalid.
#[cfg(feature = "emit-spirv")]
fn spirv(definition: KernelDefinition) -> Compiled {
    let mut options = WgpuCompilationOptions {
        supports_vulkan_compiler: true,
        ..Default::default()
    };
    options.vulkan.max_spirv_version = (1, 5);
    options.vulkan.max_vector_size = 4;
    options.vulkan.supports_uniform_standard_layout = true;
    options.vulkan.supports_explicit_smem = true;
    options.vulkan.push_constant_size = 128;
    let module = cubecl_spirv::SpirvCompiler.compile(definition, &options);
    let words = module.map_err(reason)?.assembled_module;
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Compiles to C++ with the options of CubeCL's CUDA (sm_80), HIP (gfx942) and Metal runtimes.
fn cpp<T: cubecl_cpp::target::CppTarget>(definition: KernelDefinition, target: Target) -> Compiled
where
    CppCompiler<T>: Compiler<
            Representation = cubecl_cpp::ComputeKernel,
            CompilationOptions = CompilationOptions,
        > + Default,
{
    let cuda = target == Target::CudaCpp;
    let options = CompilationOptions {
        warp_size: plane(target) as usize,
        supports_features: CppSupportedFeatures {
            fast_math: true,
            dp4a: cuda,
            grid_constants: cuda,
            fast_tanh: cuda,
            ..Default::default()
        },
        amd_wmma: None,
    };
    let source = CppCompiler::<T>::default().compile(definition, &options);
    let text = source.map_err(reason)?.to_string();
    let text = match target {
        Target::Msl => with_sorted_arguments(&text),
        _ => text,
    };
    Ok(names::numbered(&text).into_bytes())
}

/// Sorts Metal's built-in arguments, because CubeCL 0.11.3 takes them from a hash set. In each line `[[kernel]] void
/// NAME(ARGUMENTS) {`, the arguments that aren't buffers are sorted and moved behind the buffers.
fn with_sorted_arguments(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(sorted).collect();
    lines.join("\n") + "\n"
}

fn sorted(line: &str) -> String {
    let signature = || {
        let (before, rest) = line.split_once("[[kernel]] void ")?;
        let (name, rest) = rest.split_once('(')?;
        let (arguments, after) = rest.split_once(") {")?;
        let is_builtin =
            |argument: &&str| argument.contains(" [[") && !argument.contains(" [[buffer(");
        let (mut builtins, mut all): (Vec<_>, Vec<_>) = arguments.split(", ").partition(is_builtin);
        builtins.sort_unstable();
        all.append(&mut builtins);
        let all = all.join(", ");
        Some(format!("{before}[[kernel]] void {name}({all}) {{{after}"))
    };
    signature().unwrap_or_else(|| line.to_owned())
}

#[cfg(feature = "emit-llvm")]
mod llvm {
    use super::super::machine::gfx;
    use super::{Compiled, Target, reason};
    use cubecl::Compiler;
    use cubecl::ir::{amd::GfxArch, nvidia::SmArch};
    use cubecl::prelude::KernelDefinition;
    use cubecl_llvm::nvptx::ptx_version::PtxVersion;
    use cubecl_llvm::{LlvmTarget, PlironArtifact, PlironCompiler, PlironOptions};

    /// CUDA 12.8 as `cuDriverGetVersion` reports it: old enough to be installed widely, new enough for sm_90.
    const DRIVER: i32 = 12_080;

    fn compile(
        target: LlvmTarget,
        definition: KernelDefinition,
        options: &PlironOptions,
    ) -> Result<PlironArtifact, String> {
        let mut compiler = PlironCompiler { target };
        compiler.compile(definition, options).map_err(reason)
    }

    pub(super) fn ptx(definition: KernelDefinition) -> Compiled {
        let options = PlironOptions {
            sm_arch: Some(SmArch::new(90, true)),
            ptx_version: PtxVersion::for_driver(DRIVER),
            grid_constants: true,
            ..Default::default()
        };
        match compile(LlvmTarget::Nvptx, definition, &options)? {
            PlironArtifact::NvptxCode(module) => {
                // The text ends in a NUL; `c_char` is signed on some hosts.
                let bytes = module.ptx.iter().map(|byte| byte.cast_unsigned());
                Ok(bytes.take_while(|byte| *byte != 0).collect())
            }
            _ => unreachable!("the NVPTX target makes PTX"),
        }
    }

    pub(super) fn amdgpu(definition: KernelDefinition, target: Target) -> Compiled {
        let options = PlironOptions {
            arch: Some(GfxArch::parse(gfx(target))),
            ..Default::default()
        };
        match compile(LlvmTarget::AmdGpu, definition, &options)? {
            PlironArtifact::AmdGpuCode(module) => Ok(module.code_object.to_vec()),
            _ => unreachable!("the AMDGPU target makes a code object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_other_orders_give_one_text() {
        let run = |arguments: &str| {
            format!(
                "[[kernel]] void k(device float* const v7 [[buffer(0)]], {arguments}, constant info_st const* const v8) {{\n}}\n"
            )
        };
        let one = "uint3 const x_v20 [[x]], uint const y_v21 [[y]]";
        let other = "uint const y_v21 [[y]], uint3 const x_v20 [[x]]";
        let wanted = "[[kernel]] void k(device float* const v7 [[buffer(0)]], constant info_st const* const v8, \
                      uint const y_v21 [[y]], uint3 const x_v20 [[x]]) {\n}\n";
        assert_eq!(with_sorted_arguments(&run(one)), wanted);
        assert_eq!(with_sorted_arguments(&run(other)), wanted);
    }
}
