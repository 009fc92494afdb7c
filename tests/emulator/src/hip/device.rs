//! The device in HIP's terms, as `hipGetDeviceProperties` describes it.

use std::ffi::{c_char, c_int, c_uint};

use crate::driver::device::{BUS_ID, text};
use crate::driver::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Status, answer, context};
use crate::settings::{self, Card, Maker};

/// The card and the name of its architecture, if it is AMD's.
fn shown() -> Option<(&'static Card, &'static str)> {
    let card = settings::get().card;
    match card.maker {
        Maker::Amd(architecture) => Some((card, architecture)),
        Maker::Nvidia(..) => None,
    }
}

fn card(device: c_int) -> Result<(&'static Card, &'static str), Status> {
    shown().filter(|_| device == 0).ok_or(INVALID_DEVICE)
}

/// `hipDeviceProp_tR0600`, HIP's since version 6, with names for the fields that are set here.
#[repr(C)]
#[derive(Debug)]
pub struct Properties {
    name: [c_char; 256],
    _identity: [u8; 32],
    memory: usize,
    shared_bytes: usize,
    registers: c_int,
    lanes: c_int,
    pitch: usize,
    threads_of_block: c_int,
    most_threads: [c_int; 3],
    most_blocks: [c_int; 3],
    clock_khz: c_int,
    constant_bytes: usize,
    version: [c_int; 2],
    texture_alignment: usize,
    texture_pitch_alignment: usize,
    overlap: c_int,
    multiprocessors: c_int,
    /// Time limit, integrated, mapping, mode, and the limits of textures and surfaces, all 0 for a card without them.
    _textures: [c_int; 44],
    surface_alignment: usize,
    /// Fields that CubeCL doesn't read, up to the name of the architecture.
    _more: [u8; 584],
    architecture: [c_char; 256],
    _rest: [u8; 56],
}

/// The offsets of AMD's header.
const _: () = {
    assert!(std::mem::offset_of!(Properties, memory) == 288);
    assert!(std::mem::offset_of!(Properties, texture_alignment) == 368);
    assert!(std::mem::offset_of!(Properties, multiprocessors) == 388);
    assert!(std::mem::offset_of!(Properties, surface_alignment) == 568);
    assert!(std::mem::offset_of!(Properties, architecture) == 1160);
    assert!(size_of::<Properties>() == 1472);
};

functions! {
    fn hipGetDeviceCount(count: *mut c_int) {
        let shown = shown().is_some();
        // SAFETY: the caller's pointer.
        unsafe { answer(count, c_int::from(shown)) }?;
        if shown { Ok(()) } else { Err(NO_DEVICE) }
    }

    fn hipSetDevice(device: c_int) { card(device).map(|_| ()) }

    /// Ignores the flags, which say how to wait: nothing waits here.
    fn hipSetDeviceFlags(_flags: c_uint) { Ok(()) }

    fn hipDeviceSynchronize() { context() }

    fn hipDeviceGetPCIBusId(id: *mut c_char, room: c_int, device: c_int) {
        card(device)?;
        // SAFETY: the caller's buffer.
        unsafe { text(id, room, BUS_ID) }
    }

    fn hipGetDevicePropertiesR0600(to: *mut Properties, device: c_int) {
        let (card, architecture) = card(device)?;
        // SAFETY: the caller's pointer; zeros are a value of every field.
        let properties = unsafe {
            to.cast::<u8>().write_bytes(0, size_of::<Properties>());
            to.as_mut()
        };
        let to = properties.ok_or(INVALID_VALUE)?;
        let room = to.name.len() as c_int;
        // SAFETY: the texts have that room.
        unsafe {
            text(to.name.as_mut_ptr(), room, card.name.as_bytes())?;
            text(to.architecture.as_mut_ptr(), room, architecture.as_bytes())?;
        }
        to.memory = usize::try_from(card.memory).unwrap_or(usize::MAX);
        to.shared_bytes = card.shared_bytes_of_block as usize;
        to.registers = 65536;
        to.lanes = card.lanes as c_int;
        to.pitch = c_int::MAX as usize;
        to.threads_of_block = 1024;
        to.most_threads = [1024; 3];
        to.most_blocks = [c_int::MAX, 65536, 65536];
        to.clock_khz = card.clock_khz;
        to.constant_bytes = c_int::MAX as usize;
        to.texture_alignment = 256;
        to.texture_pitch_alignment = 256;
        to.overlap = 1;
        to.multiprocessors = card.multiprocessors;
        Ok(())
    }
}
