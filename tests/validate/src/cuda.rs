//! CUDA C++ through NVRTC, and PTX through ptxas.

use std::ffi::OsStr;

use moebius_shaders::emit::{Artifact, KernelEntry};
use moebius_tests::availability::converts_by_instructions;

use crate::{Verdict, nvrtc, tools, verdicts};

/// Ampere, Ada and Hopper.
const ARCHITECTURES: [u32; 3] = [80, 89, 90];

/// The first architecture that has what a kernel needs, and the last that lacks it; in the deep tier all.
fn architectures(needed: u32) -> Vec<u32> {
    if std::env::var_os("MOEBIUS_TEST_DEEP").is_some() {
        return ARCHITECTURES.into();
    }
    let takes = ARCHITECTURES.into_iter().find(|one| *one >= needed);
    let refuses = ARCHITECTURES.into_iter().rfind(|one| *one < needed);
    takes.into_iter().chain(refuses).collect()
}

pub(crate) fn compile(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let source = String::from_utf8_lossy(&artifact.bytes);
    for architecture in architectures(entry.sm) {
        let tool = format!(
            "nvrtc {} sm_{architecture} {}",
            tools::cuda_version(),
            entry.name
        );
        let compiled = verdicts::kept(&tool, &artifact.bytes, || {
            nvrtc::compile(&source, &entry.name, architecture)
        });
        match (compiled, architecture >= entry.sm) {
            (Ok(()), true) | (Err(_), false) => {}
            // Without the instructions NVIDIA's header converts in software.
            (Ok(()), false) if converts_by_instructions(entry.variant) => {}
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
    let tool = format!("ptxas {} sm_90a", tools::cuda_version());
    verdicts::kept(&tool, &artifact.bytes, || {
        let file = tools::file(&artifact.bytes, ".ptx")?;
        let arguments = ["-arch", "sm_90a", "-o", "/dev/null"].map(OsStr::new);
        let ptxas = tools::cuda_nvcc().join("bin/ptxas");
        tools::run(
            &ptxas,
            &[&arguments[..], &[file.path().as_os_str()]].concat(),
        )
    })
}
