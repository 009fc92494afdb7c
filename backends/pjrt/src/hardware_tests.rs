//! Tests of hardware detection, on a PCI bus made of files.

use super::*;

fn device(folder: &Path, name: &str, vendor: &str, device: &str) {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("vendor"), format!("{vendor}\n")).unwrap();
    fs::write(folder.join("device"), format!("{device}\n")).unwrap();
}

#[test]
fn a_tpu_is_known_by_vendor_and_device() {
    let bus = tempfile::tempdir().unwrap();
    assert!(!has_tpu(bus.path()));
    device(bus.path(), "0000:00:01.0", "0x8086", "0x0063");
    // Google's network and disk devices, which are not TPUs.
    device(bus.path(), "0000:00:02.0", GOOGLE, "0x0042");
    assert!(!has_tpu(bus.path()));
    device(bus.path(), "0000:00:03.0", GOOGLE, "0x0063");
    assert!(has_tpu(bus.path()));
    assert!(!has_tpu(&bus.path().join("none")));
}

#[test]
fn a_gpu_of_nvidia_is_a_display() {
    let bus = tempfile::tempdir().unwrap();
    device(bus.path(), "0000:00:01.0", "0x10de", "0x1021");
    assert!(!has_nvidia(bus.path()));
    let class = |class| fs::write(bus.path().join("0000:00:01.0/class"), class).unwrap();
    class("0x020700\n");
    assert!(!has_nvidia(bus.path()));
    class("0x030200\n");
    assert!(has_nvidia(bus.path()));
}
