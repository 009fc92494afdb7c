//! Compiles every kernel for every target and gives the output to a tool for the target: for WGSL naga, our check of WebGPU's
//! default limits and, where installed, tint; spirv-val for SPIR-V; NVRTC for CUDA C++; ptxas for PTX. AMDGPU code objects come
//! from LLVM and are inspected; the emulator compiles MSL; HIP C++ is compiled where it is launched.
//!
//! A trial is named `sort_scan[wgsl]`. A kernel that `availability` lists as unavailable fails its trial if it compiles.
//!
//! Each program in `programs/` has the kernels of some families and changes only with them, so that `scripts/test` need not run
//! it again after a change of another family.

#![allow(clippy::panic, reason = "a test fails by panicking")]

#[cfg(feature = "vulkan")]
mod bf16;
mod nvrtc;
mod tools;
mod wgsl;

use std::process::{Command, exit};
use std::sync::Arc;
use std::{env, io};

use libtest_mimic::{Arguments, Failed, Trial};
use moebius_shaders::emit::{self, Artifact, EmitError, KernelEntry, Target};
use moebius_shaders::{
    expert_activation, fp8, fp8_mma, grouped_gemm, kv_cache, peak, permute, quantize,
    segment_attention,
};
use moebius_tests::availability::unavailable;

/// The result of a check, with what is wrong.
type Verdict = Result<(), String>;

fn validate(entry: &KernelEntry, target: Target, artifact: &Artifact) -> Verdict {
    match target {
        Target::Wgsl => wgsl::validate(entry, artifact),
        Target::SpirV => tools::spirv_val(artifact),
        Target::CudaCpp => nvrtc::compile(entry, artifact),
        Target::Ptx => nvrtc::assemble(entry, artifact),
        Target::AmdgpuGfx942 => code_object(artifact, 0x4c),
        Target::AmdgpuGfx1201 => code_object(artifact, 0x4e),
        Target::HipCpp => names_its_entry(artifact),
        Target::Msl => metal(artifact),
    }
}

/// Metal's language, compiled by the host's compiler with the emulator's header.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn metal(artifact: &Artifact) -> Verdict {
    let text = String::from_utf8_lossy(&artifact.bytes);
    moebius_emulator::metal::Kernel::new(&text, &artifact.entry_point).map(drop)
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn metal(artifact: &Artifact) -> Verdict {
    names_its_entry(artifact)
}

/// Checks what can be checked in a text without a compiler for it.
fn names_its_entry(artifact: &Artifact) -> Verdict {
    let text = String::from_utf8_lossy(&artifact.bytes);
    if text.contains(&format!("{}(", artifact.entry_point)) {
        return Ok(());
    }
    Err(format!("no function {} in:\n{text}", artifact.entry_point))
}

/// ELF's `e_type` of a shared object, and `e_machine` of AMDGPU.
const ET_DYN: u8 = 3;
const EM_AMDGPU: u8 = 0xe0;

/// Checks an AMDGPU code object: a shared ELF file with a kernel and its descriptor. `machine` is `EF_AMDGPU_MACH`, the low
/// byte of `e_flags`.
fn code_object(artifact: &Artifact, machine: u8) -> Verdict {
    let bytes = &artifact.bytes;
    if bytes.len() < 64 || !bytes.starts_with(b"\x7fELF") {
        return Err(format!("{} bytes that are no ELF file", bytes.len()));
    }
    let (kind, processor, flags) = (bytes[16], bytes[18], bytes[48]);
    if (kind, processor, flags) != (ET_DYN, EM_AMDGPU, machine) {
        return Err(format!(
            "type {kind}, machine {processor:#x}, flags {flags:#x}: expected {ET_DYN}, {EM_AMDGPU:#x}, {machine:#x}"
        ));
    }
    // The code, and the descriptor that a launch looks up.
    for end in ["", ".kd"] {
        let symbol = format!("{}{end}", artifact.entry_point);
        let name = format!("\0{symbol}\0");
        let mut windows = bytes.windows(name.len());
        if !windows.any(|window| window == name.as_bytes()) {
            return Err(format!("no symbol {symbol}"));
        }
    }
    Ok(())
}

fn check(entry: &KernelEntry, target: Target) -> Result<(), Failed> {
    match (emit::emit(entry, target), unavailable(entry, target)) {
        (Err(EmitError::NotAvailable { .. }), Some(_)) => Ok(()),
        (Ok(_), Some(reason)) => Err(format!(
            "listed as not available ({reason}), but it compiles: update availability.rs"
        )
        .into()),
        (Err(error), _) => Err(error.to_string().into()),
        (Ok(artifact), None) => validate(entry, target, &artifact).map_err(Failed::from),
    }
}

/// Checks that each tool refuses invalid input.
fn refuse_nonsense(entry: &KernelEntry) -> Result<(), Failed> {
    let no_compiler = [Target::HipCpp, Target::Msl];
    for target in Target::ALL
        .into_iter()
        .filter(|target| !no_compiler.contains(target))
    {
        let mut artifact = emit::emit(entry, target)?;
        // A truncated text, words that are no instructions, an ELF file of an unknown machine.
        let at = artifact.bytes.len() / 2;
        artifact.bytes[at..].fill(b'Z');
        artifact.bytes[16..32].fill(b'Z');
        if validate(entry, target, &artifact).is_ok() {
            return Err(format!("{target}: a broken module was taken for a good one").into());
        }
    }
    Ok(())
}

/// Runs this program again with `CUDA_PATH`, where CubeCL looks for libdevice: a process must not change its own environment
/// while it has threads.
fn with_cuda_path() -> io::Result<()> {
    if env::var_os("CUDA_PATH").is_some() {
        return Ok(());
    }
    let again = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env("CUDA_PATH", tools::cuda_nvcc())
        .status()?;
    exit(again.code().unwrap_or(1));
}

/// A function that returns the kernels of a program.
pub type Kernels = fn() -> Vec<KernelEntry>;

fn all<const N: usize>(families: [Vec<KernelEntry>; N]) -> Vec<KernelEntry> {
    families.into_iter().flatten().collect()
}

/// Kernels of attention.
pub fn attention() -> Vec<KernelEntry> {
    moebius_shaders::attention::entries()
}

/// Kernels of attention over caches and within the rows of each expert.
pub fn caches() -> Vec<KernelEntry> {
    all([kv_cache::entries(), segment_attention::entries()])
}

/// Kernels of the experts' matrix products, their gradients, and the operations on their rows.
pub fn products() -> Vec<KernelEntry> {
    all([
        grouped_gemm::entries(),
        fp8_mma::entries(),
        grouped_gemm::weight_gradient::entries(),
        grouped_gemm::bias_gradient::entries(),
        expert_activation::entries(),
    ])
}

/// Kernels of routing and permutation.
pub fn routing() -> Vec<KernelEntry> {
    all([moebius_shaders::routing::entries(), permute::entries()])
}

/// Kernels with the same bits on every device.
pub fn exact() -> Vec<KernelEntry> {
    let all = moebius_shaders::kernels().into_iter();
    all.filter(|kernel| kernel.family == "exact").collect()
}

/// Kernels of FP8 codes, and the instrument of the benchmarks.
pub fn codes() -> Vec<KernelEntry> {
    all([fp8::entries(), quantize::entries(), vec![peak::entry()]])
}

/// The trials of some kernels: one for each kernel and target.
fn trials(kernels: Vec<KernelEntry>) -> Vec<Trial> {
    let of_kernel = |entry: KernelEntry| {
        let entry = Arc::new(entry);
        Target::ALL.map(|target| {
            let entry = entry.clone();
            let name = format!("{}[{target}]", entry.name);
            Trial::test(name, move || check(&entry, target))
        })
    };
    kernels.into_iter().flat_map(of_kernel).collect()
}

/// Trials of the tools: each refuses invalid input, bf16 arithmetic becomes valid only when rewritten, and verdicts are cached.
pub fn trials_of_tools() -> Vec<Trial> {
    vec![
        Trial::test("each_tool_refuses_nonsense", || {
            refuse_nonsense(&peak::entry())
        }),
        #[cfg(feature = "vulkan")]
        Trial::test("bf16_arithmetic_is_made_valid", || {
            Ok(bf16::arithmetic_is_made_valid()?)
        }),
        Trial::test("verdicts_are_kept", || Ok(tools::verdicts_are_kept()?)),
    ]
}

/// Runs a program that compiles these kernels and then runs the trials of `others`.
///
/// # Errors
/// The program can't be started again with the variable that CubeCL needs.
pub fn run(kernels: Kernels, others: fn() -> Vec<Trial>) -> io::Result<()> {
    with_cuda_path()?;
    let arguments = Arguments::from_args();
    if !arguments.list {
        match tools::tint() {
            Some(path) => println!("tint: {}", path.display()),
            None => println!("tint: not on the PATH, so uniformity of barriers is not checked"),
        }
    }
    let mut all = trials(kernels());
    all.extend(others());
    libtest_mimic::run(&arguments, all).exit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_one_program() {
        let programs: [Kernels; 6] = [attention, caches, products, routing, exact, codes];
        let names = |kernels: Vec<KernelEntry>| -> Vec<String> {
            let mut names: Vec<String> = kernels.into_iter().map(|entry| entry.name).collect();
            names.sort();
            names
        };
        let in_programs = programs.into_iter().flat_map(|kernels| kernels());
        assert_eq!(
            names(in_programs.collect()),
            names(moebius_shaders::kernels())
        );
    }
}
