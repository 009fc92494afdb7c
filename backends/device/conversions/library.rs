//! A shared library of the functions that LLVM calls to convert floats on x86-64 processors without an instruction for
//! it. Compiled code looks them up in the process, and only libgcc from release 13 on has all of them.
//!
//! `build.rs` builds it. LLVM passes 16-bit floats in the low half of a vector register, as it passes an f32.
#![no_std]

mod convert;

#[unsafe(no_mangle)]
pub extern "C" fn __truncsfbf2(x: f32) -> f32 {
    low(convert::bf16_from_f32(x.to_bits()))
}

#[unsafe(no_mangle)]
pub extern "C" fn __truncdfbf2(x: f64) -> f32 {
    low(convert::bf16_from_f64(x.to_bits()))
}

#[unsafe(no_mangle)]
pub extern "C" fn __truncsfhf2(x: f32) -> f32 {
    low(convert::f16_from_f64(f64::from(x).to_bits()))
}

#[unsafe(no_mangle)]
pub extern "C" fn __truncdfhf2(x: f64) -> f32 {
    low(convert::f16_from_f64(x.to_bits()))
}

#[unsafe(no_mangle)]
pub extern "C" fn __extendhfsf2(x: f32) -> f32 {
    f32::from_bits(convert::f32_from_f16(x.to_bits() as u16))
}

fn low(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits))
}

/// The panic handler that a library without `std` must have; nothing here panics.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
