//! Validates WGSL: naga without capabilities, WebGPU's default limits, and tint.

use std::ffi::OsStr;

use moebius_ops::Element;
use moebius_shaders::emit::{Artifact, KernelEntry};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Module};

use crate::{Verdict, tools};

/// The default limits of the WebGPU specification, section 3.6.2.
const STORAGE_BUFFERS: usize = 8;
const INVOCATIONS: u32 = 256;
const WORKGROUP_SIZE: [u32; 3] = [256, 256, 64];
const WORKGROUP_BYTES: u32 = 16_384;

pub(crate) fn validate(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let text = String::from_utf8_lossy(&artifact.bytes);
    let module = naga::front::wgsl::parse_str(&text)
        .map_err(|error| error.emit_to_string_with_path(&text, &entry.name))?;
    let capabilities = match entry.element {
        Some(Element::F16) => Capabilities::SHADER_FLOAT16,
        _ => Capabilities::empty(),
    };
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|error| error.emit_to_string_with_path(&text, &entry.name))?;
    within_default_limits(&module)?;
    match tools::tint() {
        Some(tint) => {
            let file = tools::file(&artifact.bytes, ".wgsl")?;
            let arguments = ["--format", "wgsl", "-o", "/dev/null"].map(OsStr::new);
            tools::run(
                &tint,
                &[&arguments[..], &[file.path().as_os_str()]].concat(),
            )
        }
        None => Ok(()),
    }
}

fn within_default_limits(module: &Module) -> Verdict {
    let in_space = |wanted: fn(&AddressSpace) -> bool| {
        let variables = module.global_variables.iter().map(|(_, variable)| variable);
        variables.filter(move |variable| wanted(&variable.space))
    };
    let buffers = in_space(|space| matches!(space, AddressSpace::Storage { .. })).count();
    let bytes: u32 = in_space(|space| matches!(space, AddressSpace::WorkGroup))
        .map(|variable| module.types[variable.ty].inner.size(module.to_ctx()))
        .sum();
    let [entry_point] = &module.entry_points[..] else {
        return Err(format!("{} entry points", module.entry_points.len()));
    };
    let size = entry_point.workgroup_size;
    let invocations: u32 = size.iter().product();
    let beyond_size = (0..3).any(|axis| size[axis] > WORKGROUP_SIZE[axis]);
    if buffers > STORAGE_BUFFERS {
        return Err(format!(
            "{buffers} storage buffers, expected at most {STORAGE_BUFFERS}"
        ));
    }
    if invocations > INVOCATIONS || beyond_size {
        return Err(format!(
            "a workgroup of {size:?}, expected at most {INVOCATIONS} invocations"
        ));
    }
    if bytes > WORKGROUP_BYTES {
        return Err(format!(
            "{bytes} bytes of workgroup memory, expected at most {WORKGROUP_BYTES}"
        ));
    }
    Ok(())
}
