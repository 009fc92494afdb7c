#![doc = include_str!("../README.md")]
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(
    unsafe_code,
    reason = "it is a C interface, and runs machine code on stacks of its own"
)]

/// Defines functions of a C interface, documented by their names: a body returns a `Result`, whose error is the function's status.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) { $($body:tt)* })*) => {$(
        #[doc = concat!("See `", stringify!($name), "`.")]
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $crate::driver::Status {
            $crate::driver::status(|| -> Result<(), $crate::driver::Status> { $($body)* })
        }
    )*};
}

/// Defines functions of a C interface that call another one.
macro_rules! renamed {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) = $call:expr;)*) => {$(
        #[doc = concat!("See `", stringify!($name), "`.")]
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $crate::driver::Status {
            // SAFETY: the caller's arguments mean the same to the other function.
            unsafe { $call }
        }
    )*};
}

mod compile;
pub mod driver;
mod grid;
pub mod hip;
pub mod metal;
pub mod nvrtc;
mod report;
mod settings;
mod text;
