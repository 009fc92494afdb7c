//! Memory figures: bytes that a CubeCL client, the process and the host use or have.

use cubecl::MemoryScope;
use cubecl::client::Client;
use serde::Serialize;

#[cfg(all(
    any(feature = "wgpu", feature = "cpu", feature = "flex", test),
    not(target_family = "wasm")
))]
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

/// Reads `VmRSS` and `VmHWM`, in KiB, from a Linux process status.
#[cfg(any(target_os = "linux", test))]
fn parse_status(status: &str) -> Option<ProcessMemory> {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(ProcessMemory {
        resident: field("VmRSS:")?,
        peak_resident: field("VmHWM:"),
    })
}

/// The size of main memory: the control group's limit if one applies, else what is installed. `free` is what can be
/// allocated without swapping.
#[cfg(all(
    any(feature = "wgpu", feature = "cpu", feature = "flex", test),
    not(target_family = "wasm")
))]
pub(crate) fn host_memory() -> Option<MemoryFigures> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let installed = MemoryFigures {
        total: system.total_memory(),
        free: Some(system.available_memory()),
    };
    let figures = match system.cgroup_limits() {
        Some(group) if group.total_memory > 0 && group.total_memory < installed.total => {
            MemoryFigures {
                total: group.total_memory,
                free: Some(group.free_memory.min(system.available_memory())),
            }
        }
        _ => installed,
    };
    (figures.total > 0).then_some(figures)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
