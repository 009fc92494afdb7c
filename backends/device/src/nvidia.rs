//! The matrix shapes that CubeCL 0.11.3 compiles for NVIDIA GPUs, by architecture.
//!
//! A started CUDA runtime reports its shapes itself; this table serves where none is started.

use crate::MmaShape;

/// One of CubeCL's two CUDA compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// CUDA C++ through NVRTC (cubecl's feature `cuda-cpp`).
    Nvrtc,
    /// NVPTX through LLVM, the default.
    Llvm,
}

/// Warp-level (`wmma`) tiles (m, n, k), for every element type but tf32.
const TILES: [(u32, u32, u32); 3] = [(16, 16, 16), (32, 8, 16), (8, 32, 16)];

/// The shapes for compute capability `sm` (90 is 9.0), sorted. Callers must exclude Turing parts without tensor cores
/// (GTX).
pub fn shapes(sm: u32, compiler: Compiler) -> Vec<MmaShape> {
    let mut shapes = Vec::new();
    let mut add = |tiles: &[(u32, u32, u32)], input: &str, accumulator: &str| {
        shapes.extend(tiles.iter().map(|&(m, n, k)| MmaShape {
            m,
            n,
            k,
            input: input.to_owned(),
            accumulator: accumulator.to_owned(),
        }));
    };
    if sm >= 70 {
        add(&TILES, "f16", "f16");
        add(&TILES, "f16", "f32");
        if compiler == Compiler::Nvrtc {
            add(&TILES, "i8", "i32");
            add(&TILES, "u8", "i32");
        }
    }
    if (75..80).contains(&sm) {
        add(&[(16, 8, 8)], "f16", "f32");
    }
    if sm >= 80 {
        add(&TILES, "bf16", "f32");
        add(&[(16, 16, 8)], "tf32", "f32");
        add(&[(16, 8, 16)], "f16", "f32");
        add(&[(16, 8, 16)], "bf16", "f32");
        add(&[(16, 8, 8)], "tf32", "f32");
        add(&[(16, 8, 32)], "i8", "i32");
        add(&[(16, 8, 32)], "u8", "i32");
    }
    if sm >= 89 && compiler == Compiler::Nvrtc {
        for input in ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"] {
            add(&[(16, 8, 32)], input, "f32");
        }
    }
    shapes.sort();
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(sm: u32, compiler: Compiler, input: &str) -> bool {
        shapes(sm, compiler)
            .iter()
            .any(|shape| shape.input == input)
    }

    #[test]
    fn each_type_starts_with_its_generation() {
        assert!(shapes(61, Compiler::Nvrtc).is_empty());
        assert!(has(70, Compiler::Llvm, "f16"));
        assert!(!has(75, Compiler::Nvrtc, "bf16") && has(80, Compiler::Llvm, "bf16"));
        assert!(!has(80, Compiler::Nvrtc, "e4m3") && has(89, Compiler::Nvrtc, "e4m3"));
        assert!(!has(90, Compiler::Llvm, "e4m3"), "LLVM has no fp8 shape");
    }
}
