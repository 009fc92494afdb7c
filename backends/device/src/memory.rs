//! Memory figures: bytes that a CubeCL client, the process and the host use or have.

use cubecl::MemoryScope;
use cubecl::client::Client;
use serde::Serialize;

#[cfg(not(target_family = "wasm"))]
use crate::MemoryFigures;

/// Bytes that a CubeCL client's pools hold on its device, over all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes of live buffers.
    pub in_use: u64,
    /// Bytes taken from the device: live buffers, their padding, and pages kept for reuse.
    pub reserved: u64,
}

/// Bytes of main memory that this process holds: the figure for `flex`, which has no pools of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// Bytes resident now.
    pub resident: u64,
    /// The most bytes ever resident, if the system keeps the figure (Linux).
    pub peak_resident: Option<u64>,
}

/// The name and version of a kernel module, such as a GPU's driver, if the kernel tells (Linux).
#[cfg(any(feature = "cuda", feature = "rocm"))]
pub(crate) fn driver_module(name: &str) -> Option<String> {
    let version = std::fs::read_to_string(format!("/sys/module/{name}/version")).ok()?;
    Some(format!("{name} {}", version.trim()))
}

/// Bytes in use and reserved on the client's device.
///
/// The device's own thread answers, so the call waits until the launches queued before it are submitted (not finished).
///
/// In a build with CubeCL's CPU runtime this takes 10 ms or more: a thread of that runtime counts a kernel as done
/// before it releases the kernel's buffers, by milliseconds if the system interrupts the thread in between, so the
/// figure is read until it no longer changes.
pub fn memory_in_use(client: &Client) -> MemoryUse {
    #[cfg(feature = "cpu")]
    return settled(|| reported(client));
    #[cfg(not(feature = "cpu"))]
    reported(client)
}

/// Reads `figure` until ten readings in a row agree, at most a hundred times, and returns the last reading.
#[cfg(feature = "cpu")]
fn settled(figure: impl Fn() -> MemoryUse) -> MemoryUse {
    let mut last = figure();
    let mut still = 0;
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let now = figure();
        still = if now == last { still + 1 } else { 0 };
        last = now;
        if still == 10 {
            break;
        }
    }
    last
}

fn reported(client: &Client) -> MemoryUse {
    let usage = client.memory_report(MemoryScope::Device).usage();
    MemoryUse {
        in_use: usage.bytes_in_use,
        reserved: usage.bytes_reserved,
    }
}

/// Bytes of this process that are resident, now and at its peak; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn process_memory() -> Option<ProcessMemory> {
    parse_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Bytes of this process that are resident, now and at its peak; `None` where the system does not tell.
#[cfg(not(any(target_os = "linux", target_family = "wasm")))]
pub fn process_memory() -> Option<ProcessMemory> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

    let pid = sysinfo::get_current_pid().ok()?;
    let mut system = System::new();
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[pid]),
        true,
        ProcessRefreshKind::nothing().with_memory(),
    );
    Some(ProcessMemory {
        resident: system.process(pid)?.memory(),
        peak_resident: None,
    })
}

/// Bytes of this process that are resident; always `None`, since a browser does not tell.
#[cfg(target_family = "wasm")]
pub fn process_memory() -> Option<ProcessMemory> {
    None
}

/// Reads `VmRSS` and `VmHWM` from a Linux process status.
#[cfg(any(target_os = "linux", test))]
fn parse_status(status: &str) -> Option<ProcessMemory> {
    Some(ProcessMemory {
        resident: status_bytes(status, "VmRSS:")?,
        peak_resident: status_bytes(status, "VmHWM:"),
    })
}

/// The bytes of a field of a Linux process status, which has KiB.
#[cfg(any(target_os = "linux", test))]
fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The size of main memory: the smallest limit of the process's control groups if one applies, else what is installed. `free` is what can be
/// allocated without swapping.
#[cfg(all(
    any(
        feature = "wgpu",
        feature = "cpu",
        feature = "flex",
        feature = "xla",
        test
    ),
    not(target_family = "wasm")
))]
pub(crate) fn host_memory() -> Option<MemoryFigures> {
    read_host().map(|(figures, _)| figures)
}

/// The figures of main memory, and the free bytes of swap space.
#[cfg(not(target_family = "wasm"))]
fn read_host() -> Option<(MemoryFigures, u64)> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let (total, available) = (system.total_memory(), system.available_memory());
    let figures = match control_group() {
        Some(group) if group.total < total => {
            // How much a group may swap is not told.
            let free = group.free.map(|free| free.min(available));
            (MemoryFigures { free, ..group }, 0)
        }
        _ => {
            let free = Some(available);
            (MemoryFigures { total, free }, system.free_swap())
        }
    };
    (figures.0.total > 0).then_some(figures)
}

/// What this process's control groups leave to it; `None` without a limit.
#[cfg(target_os = "linux")]
fn control_group() -> Option<MemoryFigures> {
    crate::control_group::memory()
}

/// What this process's control groups leave to it; `None`, since only Linux has them.
#[cfg(not(any(target_os = "linux", target_family = "wasm")))]
fn control_group() -> Option<MemoryFigures> {
    None
}

/// Bytes of main memory that this process can still take: what is free, or can be swapped out for it, and at most what is
/// left of the process's address space where that has a limit (`ulimit -v`, Linux). `None` where the system does not tell.
#[cfg(not(target_family = "wasm"))]
pub fn host_memory_free() -> Option<u64> {
    let (figures, swap) = read_host()?;
    let free = figures.free?.saturating_add(swap);
    Some(address_space_free().map_or(free, |left| free.min(left)))
}

/// Bytes of main memory that this process can still take; always `None`, since a browser does not tell.
#[cfg(target_family = "wasm")]
pub fn host_memory_free() -> Option<u64> {
    None
}

/// The bytes that are left of the process's address space; `None` without a limit.
#[cfg(target_os = "linux")]
fn address_space_free() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let limit = parse_address_limit(&limits)?;
    Some(limit.saturating_sub(status_bytes(&status, "VmSize:")?))
}

/// The bytes that are left of the process's address space; `None`, since only Linux is asked.
#[cfg(not(any(target_os = "linux", target_family = "wasm")))]
fn address_space_free() -> Option<u64> {
    None
}

/// The soft limit of the address space in bytes, from a Linux process's limits; `None` if there is none.
#[cfg(any(target_os = "linux", test))]
fn parse_address_limit(limits: &str) -> Option<u64> {
    let name = "Max address space";
    let values = limits.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
