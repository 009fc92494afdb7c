//! CUDA C++ through NVRTC for three generations, and PTX through ptxas.

use std::ffi::OsStr;

use moebius_shaders::emit::{Artifact, KernelEntry};

use super::{Verdict, nvrtc, tools};

/// Ampere, Ada and Hopper.
const ARCHITECTURES: [u32; 3] = [80, 89, 90];

pub(crate) fn compile(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let source = String::from_utf8_lossy(&artifact.bytes);
    for architecture in ARCHITECTURES {
        let compiled = nvrtc::compile(&source, &entry.name, architecture);
        match (compiled, architecture >= entry.sm) {
            (Ok(()), true) | (Err(_), false) => {}
            (Err(log), true) => return Err(format!("sm_{architecture}: {log}")),
            (Ok(()), false) => {
                return Err(format!(
                    "for sm_{} only, but sm_{architecture} takes it",
                    entry.sm
                ));
            }
        }
    }
    Ok(())
}

pub(crate) fn assemble(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let text = String::from_utf8_lossy(&artifact.bytes);
    let wanted = format!(".visible .entry {}(", entry.name);
    if !text.contains(&wanted) {
        return Err(format!("no `{wanted}` in:\n{text}"));
    }
    let path = tools::file(entry, artifact)?;
    let arguments = ["-arch", "sm_90a", "-o", "/dev/null"].map(OsStr::new);
    let ptxas = tools::cuda_nvcc().join("bin/ptxas");
    tools::run(&ptxas, &[&arguments[..], &[path.as_os_str()]].concat())
}
