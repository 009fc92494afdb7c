use super::*;

#[test]
fn a_status_file_gives_bytes() {
    let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
    assert_eq!(
        parse_status(status),
        Some(ProcessMemory {
            resident: 1 << 20,
            peak_resident: Some(2 << 20),
        })
    );
    assert_eq!(parse_status("VmRSS:\t1024 MB\n"), None);
    assert_eq!(parse_status(""), None);
}

#[test]
#[cfg(target_os = "linux")]
fn this_process_is_resident() {
    let memory = process_memory().unwrap();
    assert!(memory.resident > 0);
    assert!(memory.peak_resident.unwrap() >= memory.resident / 2);
}

#[test]
fn the_host_has_memory() {
    let host = host_memory().unwrap();
    assert!(host.free.unwrap() <= host.total);
    assert!(host_memory_free().unwrap() > 0);
}

#[test]
fn a_limit_of_the_address_space_is_read() {
    let limits = |soft: &str| {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max data size             unlimited            unlimited            bytes     \n\
             Max address space         {soft:<21}unlimited            bytes     \n"
        )
    };
    let parsed = |soft| parse_address_limit(&limits(soft));
    assert_eq!(parsed("9216000000"), Some(9_216_000_000));
    assert_eq!(parsed("unlimited"), None);
    assert_eq!(parse_address_limit(""), None);
}

#[test]
#[cfg(feature = "cpu")]
fn a_buffer_counts_as_in_use() {
    let client = cubecl::Device::Cpu(Default::default()).client();
    let before = memory_in_use(&client);
    let buffer = client.empty(1 << 20);
    let during = memory_in_use(&client);
    assert!(
        during.in_use >= before.in_use + (1 << 20),
        "{before:?} {during:?}"
    );
    assert!(during.reserved >= during.in_use);
    drop(buffer);
}

#[test]
#[cfg(feature = "cpu")]
fn a_figure_is_taken_when_it_stands_still() {
    use std::cell::Cell;

    let figure = |in_use| MemoryUse {
        in_use,
        reserved: 8,
    };
    let readings = Cell::new(0);
    let falling = || {
        readings.set(readings.get() + 1);
        figure(12_u64.saturating_sub(readings.get()).max(4))
    };
    assert_eq!(settled(falling), figure(4));
    let restless = || {
        readings.set(readings.get() + 1);
        figure(readings.get())
    };
    readings.set(0);
    assert_eq!(
        settled(restless),
        figure(101),
        "a hundred readings are enough"
    );
}
