//! Memory figures: what a CubeCL client holds, what the process holds, what the host has.

use cubecl::MemoryScope;
use cubecl::client::Client;
use serde::Serialize;

#[cfg(all(
    any(feature = "wgpu", feature = "cpu", feature = "flex", test),
    not(target_family = "wasm")
))]
use crate::MemoryFigures;

/// Bytes a CubeCL client's pools hold on its device, over every stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes of live buffers.
    pub in_use: u64,
    /// Bytes taken from the device: live buffers, their padding, and pages kept for reuse.
    pub reserved: u64,
}

/// Bytes of main memory this process holds: the figure for `flex`, which has no pools of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// Resident now.
    pub resident: u64,
    /// Most ever resident, where the system keeps it (Linux).
    pub peak_resident: Option<u64>,
}

/// The name and version of a kernel module, a GPU's driver, where the kernel tells (Linux).
#[cfg(any(feature = "cuda", feature = "rocm"))]
pub(crate) fn driver_module(name: &str) -> Option<String> {
    let version = std::fs::read_to_string(format!("/sys/module/{name}/version")).ok()?;
    Some(format!("{name} {}", version.trim()))
}

/// Bytes in use and reserved on the client's device.
///
/// Asks the device's own thread, so it waits for the launches queued before it to be submitted
/// (not to finish).
///
/// In a build with CubeCL's CPU runtime this takes 10 ms or more: a thread of that runtime counts a kernel
/// as done and lets go of its buffers a moment later, or milliseconds later where the system has stopped
/// that thread in between, so the figure is read until it stands still.
pub fn memory_in_use(client: &Client) -> MemoryUse {
    #[cfg(feature = "cpu")]
    return settled(|| reported(client));
    #[cfg(not(feature = "cpu"))]
    reported(client)
}

/// A figure that ten readings in a row agree on; the last of a hundred where others are at work.
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

/// Bytes this process has resident, now and at its peak; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn process_memory() -> Option<ProcessMemory> {
    parse_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Bytes this process has resident, now and at its peak; `None` where the system does not tell.
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

/// Bytes this process has resident, now and at its peak; a browser does not tell.
#[cfg(target_family = "wasm")]
pub fn process_memory() -> Option<ProcessMemory> {
    None
}

/// `VmRSS` and `VmHWM` of a Linux process status, which are in KiB.
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

/// Main memory: the control group's limit where one applies, else what is installed; free is what
/// can be had without swapping.
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
