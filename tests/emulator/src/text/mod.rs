//! Turns CUDA C++, HIP C++ and Metal's language into C++ for the host's compiler: the kernels' own text with few changes, line
//! by line.

#[path = "../../../../shaders/kernels/src/emit/names.rs"]
mod names;
mod ptx;

use std::fmt::Write as _;

use crate::compile::Language;

/// A kernel found in a text.
#[derive(Debug, PartialEq, Eq)]
struct Kernel {
    name: String,
    most_threads: u32,
    /// Whether shapes and strides of tensors come in a buffer of their own, the last before the scalars' buffer.
    dynamic: bool,
}

const GRID: &str = include_str!("../device/grid.h");
const MATH: &str = include_str!("../device/math.h");
const HALF: &str = include_str!("../device/half.h");
const ATOMICS: &str = include_str!("../device/atomics.h");
const FP8: &str = include_str!("../device/fp8.h");
const MATRIX: &str = include_str!("../device/matrix.h");
const COMPLEX: &str = include_str!("../device/complex.h");
const HIP: &str = include_str!("../device/hip.h");
const ROCWMMA: &str = include_str!("../device/rocwmma.h");
const METAL: &str = include_str!("../device/metal.h");
const CHECK: &str = include_str!("../device/check.h");

/// HIP's names for types that work like CUDA's.
const HIP_HALF: &str =
    "typedef __nv_bfloat16 __hip_bfloat16;\ntypedef __nv_bfloat162 __hip_bfloat162;";

/// Ends Metal's address spaces, which are also names in our headers.
const METAL_ENDS: &str = "#undef device\n#undef constant\n#undef thread\n#undef threadgroup";

/// Headers of CUDA, HIP and Metal that ours replace.
const KNOWN: &str = "rocwmma/rocwmma.hpp hip/hip_bf16.h cuda_fp16.h cuda_bf16.h cuda_fp8.h mma.h cuComplex.h cuda_runtime.h stdint.h \
    metal_stdlib cstdint";

/// Words of operations in which threads wait for each other.
const WAITING: &str = "__shfl __ballot __any __all wave_barrier __syncthreads _sync( __syncwarp __activemask emu_elect emu_mma< emu_wgmma< \
    emu_ldmatrix emu_stmatrix threadgroup_barrier simdgroup_";

/// The whole program for the host's compiler; `check` adds the calls that report every access.
pub(crate) fn program(given: &str, language: Language, check: bool) -> String {
    // Names are numbered, so that a cached object is found again.
    let given = &names::numbered(given);
    let metal = language == Language::Metal;
    let body = if metal {
        rewritten(&as_cuda(given))
    } else {
        rewritten(given)
    };
    let waits = WAITING.split(' ').any(|word| body.contains(word));
    let mut out = String::new();
    let mut add = |header: &str, name: &str, wanted: bool| {
        if wanted {
            let _ = writeln!(out, "#line 1 \"emulator/{name}\"\n{header}");
        }
    };
    let has = |word: &str| body.contains(word) || given.contains(word);
    let fp8 = has("cuda_fp8.h") || has("emu_e4m3") || has("emu_e5m2");
    let matrix =
        has("mma.h") || has("emu_mma<") || has("emu_wgmma<") || has("matrix<") || has("rocwmma");
    let hip = language == Language::Hip;
    let mut words = "cuda_fp16.h cuda_bf16.h __half bfloat16".split(' ');
    let half = fp8 || matrix || metal || words.any(has);
    add(GRID, "grid.h", true);
    add(CHECK, "check.h", check);
    add(MATH, "math.h", true);
    add(HALF, "half.h", half);
    add(ATOMICS, "atomics.h", has("atomic") || has("emu_atom"));
    add("#define EMU_FP8", "fp8.h", fp8);
    add(FP8, "fp8.h", fp8);
    add(MATRIX, "matrix.h", matrix);
    add(COMPLEX, "complex.h", has("cuComplex.h"));
    add(HIP, "hip.h", hip);
    add(HIP_HALF, "hip.h", hip && half);
    add(ROCWMMA, "rocwmma.h", has("rocwmma"));
    add(METAL, "metal.h", metal);
    add(&body, "kernel.cu", true);
    add(METAL_ENDS, "metal.h", metal);
    for kernel in kernels(&body) {
        let (name, most) = (kernel.name, kernel.most_threads);
        let [waits, dynamic] = [waits, kernel.dynamic].map(u8::from);
        let _ = writeln!(out, "EMU_KERNEL({name}, {most}, {waits}, {dynamic})");
    }
    out
}

fn rewritten(cuda: &str) -> String {
    let lines: Vec<String> = cuda.lines().map(line).collect();
    ptx::called(&lines.join("\n"))
}

/// Rewrites a line: drops known headers, and places dynamic shared memory where the block's begins.
fn line(text: &str) -> String {
    if let Some(header) = text.trim().strip_prefix("#include") {
        let name = header.trim().trim_matches(['<', '>', '"']);
        if KNOWN.split(' ').any(|known| known == name) {
            return String::new();
        }
        return format!("#error the emulator has no <{name}>");
    }
    let Some(start) = text.find("extern __shared__") else {
        return if text.contains("__shared__") {
            "#error the emulator has dynamic shared memory only".to_owned()
        } else {
            text.to_owned()
        };
    };
    let Some(end) = text[start..].find("[];").map(|at| start + at) else {
        return text.to_owned();
    };
    let declaration = &text[start + "extern __shared__".len()..end];
    let parts = declaration.trim().rsplit_once(' ');
    let (kind, name) = parts.unwrap_or(("char", declaration));
    let kind = kind.rsplit(')').next().unwrap_or(kind).trim();
    let (before, after) = (&text[..start], &text[end + "[];".len()..]);
    format!("{before}{kind}* const {name} = reinterpret_cast<{kind}*>(emu_shared());{after}")
}

/// The kernels of a text, with the most threads of their blocks.
fn kernels(text: &str) -> Vec<Kernel> {
    const MOST: u32 = 1024;
    let mut found = Vec::new();
    for (at, word) in text.match_indices("__global__") {
        let mut rest = &text[at + word.len()..];
        let mut most_threads = MOST;
        while let Some((head, tail)) = rest.split_once('(') {
            let name = head.split_whitespace().last().unwrap_or_default();
            if !name.starts_with("__") {
                let parameters = tail.split_once('{').map_or(tail, |(head, _)| head);
                found.push(Kernel {
                    name: name.to_owned(),
                    most_threads,
                    dynamic: parameters.contains("* const __restrict__ dynamic_meta"),
                });
                break;
            }
            let (inner, after) = tail.split_once(')').unwrap_or((tail, ""));
            if name == "__launch_bounds__" {
                let first = inner.split(',').next().unwrap_or_default();
                most_threads = first.trim().parse().unwrap_or(MOST);
            }
            rest = after;
        }
    }
    found
}

/// Rewrites Metal's language as CUDA C++: a kernel's built-in arguments become variables, and its shared memory a pointer;
/// `device/metal.h` defines the rest. Line numbers don't change.
fn as_cuda(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(metal_line).collect();
    lines.join("\n")
}

fn metal_line(text: &str) -> String {
    let found = kernel(text).or_else(|| shared(text).map(|(name, _)| pointer(name)));
    // Metal's `constant` address space implies const.
    found.unwrap_or_else(|| text.replace("constant info_st& ", "info_st const& "))
}

fn pointer(name: &str) -> String {
    format!("char* const {name} = emu_shared();")
}

/// Bytes of shared memory that a kernel's text declares.
pub(crate) fn shared_bytes(text: &str) -> u32 {
    let all = text.lines().filter_map(shared);
    all.map(|(_, bytes)| bytes).sum()
}

/// The name and bytes in `alignas(16) threadgroup char NAME[BYTES];`.
fn shared(text: &str) -> Option<(&str, u32)> {
    let (_, declaration) = text.split_once(") threadgroup char ")?;
    let (name, bytes) = declaration.strip_suffix("];")?.split_once('[')?;
    Some((name, bytes.parse().ok()?))
}

/// Rewrites `[[max_total_threads_per_threadgroup(N)]] [[kernel]] void NAME(ARGUMENTS) {REST`.
fn kernel(text: &str) -> Option<String> {
    let (attributes, signature) = text.split_once("[[kernel]] void ")?;
    let (name, rest) = signature.split_once('(')?;
    let (arguments, rest) = rest.split_once(") {")?;
    let most = attributes.split_once("per_threadgroup(")?.1;
    let (most, _) = most.split_once(')')?;
    let (mut given, mut variables) = (Vec::new(), String::new());
    for argument in arguments.split(", ") {
        match argument.trim().split_once(" [[") {
            None => given.push(argument.trim()),
            Some((pointer, attribute)) if attribute.starts_with("buffer(") => given.push(pointer),
            Some((variable, attribute)) => {
                let value = builtin(attribute.trim_end_matches("]]"));
                let _ = write!(variables, "{variable} = {value};");
            }
        }
    }
    let given = given.join(", ");
    Some(format!(
        "extern \"C\" __global__ void __launch_bounds__({most}) {name}({given}) {{{variables}{rest}"
    ))
}

/// The value of a built-in argument with this attribute.
fn builtin(attribute: &str) -> &str {
    match attribute {
        "thread_index_in_threadgroup" => "emu_thread_index()",
        "thread_position_in_threadgroup" => "emu_thread_position()",
        "threadgroup_position_in_grid" => "emu_group_position()",
        "threadgroups_per_grid" => "emu_groups()",
        "threads_per_threadgroup" => "emu_threads_of_group()",
        // An undefined name, which the compiler will report.
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_with_their_bounds() {
        let text = "extern \"C\" __global__ void __launch_bounds__(64) __cluster_dims__(2, 1, 1) first(int a) {}\n\
                    extern \"C\" __global__ void second(int const* const __restrict__ dynamic_meta_v1, int b) {}";
        let kernel = |name: &str, most_threads, dynamic| Kernel {
            name: name.to_owned(),
            most_threads,
            dynamic,
        };
        let expected = [kernel("first", 64, false), kernel("second", 1024, true)];
        assert_eq!(kernels(text), expected);
    }

    #[test]
    fn shared_memory_is_a_pointer() {
        let given = "extern __shared__ __align__(16) char v12[];uint32_t const v3 = 0;";
        let wanted =
            "char* const v12 = reinterpret_cast<char*>(emu_shared());uint32_t const v3 = 0;";
        assert_eq!(line(given), wanted);
    }

    #[test]
    fn an_unknown_header_says_so() {
        assert!(line("#include <cuda/barrier>").starts_with("#error"));
        assert_eq!(line("#include <mma.h>"), "");
    }

    #[test]
    fn arguments_become_variables() {
        let given = "[[max_total_threads_per_threadgroup(64)]] [[kernel]] void k(device float const* const v1 [[buffer(0)]], \
                     constant info_st const* const v2, uint3 const v3 [[threadgroups_per_grid]]) {int a;";
        let wanted = "extern \"C\" __global__ void __launch_bounds__(64) k(device float const* const v1, \
                      constant info_st const* const v2) {uint3 const v3 = emu_groups();int a;";
        assert_eq!(as_cuda(given), wanted);
    }

    #[test]
    fn shared_memory_is_counted() {
        let given = "int a;\nalignas(16) threadgroup char v4[640];";
        assert_eq!(shared_bytes(given), 640);
        assert_eq!(as_cuda(given), "int a;\nchar* const v4 = emu_shared();");
    }
}
