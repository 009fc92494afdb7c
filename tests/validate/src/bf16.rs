//! Arithmetic on bf16 in SPIR-V: spirv-val refuses it as CubeCL writes it, and accepts the form that Vulkan devices get.

use std::sync::Arc;

use cubecl::ir::TargetProperties;
use cubecl::prelude::*;
use half::bf16;
use moebius_shaders::emit::{self, Target};

use crate::{Verdict, tools};

/// A kernel with a sum, a product, a function, a maximum and a quotient of bf16.
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

/// The kernel's SPIR-V as CubeCL writes it, for vectors of `lanes` values.
fn written(lanes: usize) -> Result<Vec<u32>, String> {
    let settings = KernelSettings::new(
        *CubeDim::new_1d(64),
        ExecutionMode::Unchecked,
        AddressType::U32,
    );
    let buffer = || BufferCompilationArg { inplace: None };
    let kernel = bf16_arithmetic::Bf16Arithmetic::new(
        settings,
        Arc::new(emit::properties(Target::SpirV)),
        Arc::new(TargetProperties::default()),
        buffer(),
        buffer(),
        buffer(),
        lanes,
    );
    let module = emit::compile(&kernel, Target::SpirV).map_err(|error| error.to_string())?;
    let words = module.bytes.chunks_exact(4);
    Ok(words
        .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect())
}

fn judged(words: &[u32]) -> Verdict {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    tools::spirv_val_of(&bytes)
}

/// Checks that CubeCL's SPIR-V is invalid, which is why it is rewritten for devices, and that the rewritten form is valid.
pub(crate) fn arithmetic_is_made_valid() -> Verdict {
    for lanes in [1, 2, 4] {
        let words = written(lanes)?;
        match judged(&words) {
            Err(said) if said.contains("BFloat16") => {}
            Err(said) => return Err(said),
            Ok(()) => {
                let advice = "rewriting it (backends/device/src/vulkan/bf16.rs) may be needless";
                return Err(format!("CubeCL's arithmetic on bf16 is valid: {advice}"));
            }
        }
        let rewritten = moebius_device::bf16_in_f32(&words)?;
        let rewritten = rewritten.ok_or("the module was taken for one without bf16")?;
        judged(&rewritten)?;
    }
    Ok(())
}
