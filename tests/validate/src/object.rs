//! AMDGPU code objects: shared ELF files with a kernel and its descriptor.

use moebius_shaders::emit::Artifact;

use crate::Verdict;

/// `EF_AMDGPU_MACH` of gfx942 and gfx1201, the low byte of `e_flags`.
pub(crate) const GFX942: u8 = 0x4c;
pub(crate) const GFX1201: u8 = 0x4e;

/// `e_type` of a shared object and `e_machine` of AMDGPU.
const ET_DYN: u8 = 3;
const EM_AMDGPU: u8 = 0xe0;

pub(crate) fn validate(artifact: &Artifact, machine: u8) -> Verdict {
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
    for symbol in [
        artifact.entry_point.clone(),
        format!("{}.kd", artifact.entry_point),
    ] {
        let name = [&b"\0"[..], symbol.as_bytes(), b"\0"].concat();
        if !bytes.windows(name.len()).any(|window| window == name) {
            return Err(format!("no symbol {symbol}"));
        }
    }
    Ok(())
}
