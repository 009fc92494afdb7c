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
