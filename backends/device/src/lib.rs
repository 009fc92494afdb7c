//! Devices: naming, finding, opening, and what each can do.
//!
//! A [`Device`] is a name (`cuda:0`, `wgpu`, `flex`, `auto`); [`discover`] lists the devices of this build and this
//! machine, [`probe`] tells what a device can do, [`open`] starts it, and [`choose`] picks the one that `auto` stands
//! for. Nothing here does arithmetic, and nothing reads the environment (CubeCL's own variables keep their effect
//! inside CubeCL).
//!
//! ```
//! use moebius_device::{Device, discover};
//!
//! for found in discover() {
//!     match &found.status {
//!         Ok(capability) => println!("{}: {}", found.device, capability.name),
//!         Err(reason) => println!("{reason}"),
//!     }
//! }
//! assert_eq!("wgpu:1".parse(), Ok(Device::Wgpu(Some(1))));
//! ```

#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod adapter;
#[cfg(feature = "wgpu")]
pub mod browser;
#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
// Where wgpu has no Vulkan, no driver of it can be asked.
#[cfg_attr(
    not(any(
        windows,
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd"
    )),
    path = "without_budget.rs"
)]
mod budget;
mod capability;
mod choose;
#[cfg(target_os = "linux")]
mod control_group;
#[cfg(feature = "cpu")]
mod conversions;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod guard;
#[cfg(any(feature = "cpu", feature = "flex"))]
mod host;
mod located;
mod memory;
#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod named;
#[doc(hidden)]
pub mod nvidia;
mod open;
mod placement;
mod properties;
#[cfg(feature = "rocm")]
mod rocm;
#[cfg(feature = "wgpu")]
mod rounds;
#[cfg(all(feature = "vulkan", not(target_family = "wasm")))]
mod vulkan;

#[cfg(all(feature = "vulkan", not(target_family = "wasm")))]
#[doc(hidden)]
pub use vulkan::bf16_in_f32;

#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
#[doc(hidden)]
pub use adapter::wgpu_handle;
pub use capability::{Capability, DeviceKind, Limits, MemoryFigures, MmaShape, Runtime, Vendor};
pub use choose::{Choice, Work, choose, choose_for};
pub use device::{Device, ParseDeviceError, XlaPlatform};
pub use located::{Found, OpenError};
pub use memory::{MemoryUse, ProcessMemory, host_memory_free, memory_in_use, process_memory};
pub use open::{Opened, capability_of, discover, discover_on, memory_free, open, probe};
pub use placement::{Placement, PlacementError};
