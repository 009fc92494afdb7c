//! What CubeCL may ask for and the emulator has not: tensor maps.

use super::{NOT_SUPPORTED, Status};

/// Says what is missing.
pub(crate) fn told(what: &str) -> Status {
    eprintln!("moebius-emulator: not supported: {what}");
    NOT_SUPPORTED
}

/// See `cuTensorMapEncodeTiled`. Its arguments are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled() -> Status {
    told("cuTensorMapEncodeTiled")
}

/// See `cuTensorMapEncodeIm2col`. Its arguments are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeIm2col() -> Status {
    told("cuTensorMapEncodeIm2col")
}

/// See `cuTensorMapEncodeIm2colWide`. Its arguments are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeIm2colWide() -> Status {
    told("cuTensorMapEncodeIm2colWide")
}
