use super::*;
use moebius_device::{DeviceKind, choose};
use moebius_profiles as profiles;
use std::fs;
use std::path::Path;

const WRONG: &str = "moe_layer_relu disagrees";

fn device(name: &str) -> Device {
    name.parse().unwrap()
}

fn found(name: &str, capability: Capability) -> Found {
    Found {
        device: device(name),
        status: Ok(capability),
    }
}

fn gpu(driver: &str) -> Capability {
    Capability {
        driver: Some(driver.to_owned()),
        ..profiles::h100()
    }
}

/// A machine with two GPUs, one of them through two runtimes, and a processor.
fn machine(driver: &str) -> Vec<Found> {
    let mut other = gpu(driver);
    other.kind = DeviceKind::IntegratedGpu;
    other.name = "integrated".to_owned();
    vec![
        found("vulkan:0", gpu(driver)),
        found("wgpu:0", gpu(driver)),
        found("wgpu:1", other),
        found("cpu", profiles::cpu_4core_avx2()),
    ]
}

/// Runs `auto`'s choice as a new process would; returns the device, the devices checked and the messages.
fn run(
    file: &Path,
    kernels: &'static str,
    driver: &str,
    wrong: &[&str],
) -> (String, Vec<String>, Vec<String>) {
    let mut trust = Trust::at(Some(file.to_owned()), kernels);
    let mut checked = Vec::new();
    let mut check = |device: Device| -> Result<Verdict, CliError> {
        let name = device.to_string();
        let verdict = if wrong.contains(&name.as_str()) {
            Verdict::Failed(WRONG.to_owned())
        } else {
            Verdict::Passed
        };
        checked.push(name);
        Ok(verdict)
    };
    let choice = trust
        .choose(Work::Products, &mut machine(driver), &mut check)
        .unwrap();
    (choice.device.to_string(), checked, trust.said())
}

#[test]
fn a_device_is_checked_once_for_each_driver_and_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verdicts.json");
    let chosen = |kernels, driver| run(&file, kernels, driver, &[]);
    let (device, checked, said) = chosen("k1", "1.0");
    assert_eq!(
        (device.as_str(), &checked[..]),
        ("vulkan:0", &["vulkan:0".to_owned()][..])
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("has not run these kernels before"),
        "{said:?}"
    );
    let (device, checked, said) = chosen("k1", "1.0");
    assert_eq!(
        (device.as_str(), checked.len(), said.len()),
        ("vulkan:0", 0, 0)
    );
    assert_eq!(chosen("k1", "1.1").1.len(), 1, "another driver");
    assert_eq!(chosen("k2", "1.1").1.len(), 1, "other kernels");
    assert_eq!(
        chosen("k1", "1.0").1.len(),
        0,
        "the first verdict is still there"
    );
}

#[test]
fn auto_passes_over_devices_that_fail_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verdicts.json");
    let wrong = ["vulkan:0", "wgpu:0"];
    let (device, checked, said) = run(&file, "k", "1", &wrong);
    assert_eq!(device, "wgpu:1");
    assert_eq!(checked, ["vulkan:0", "wgpu:0", "wgpu:1"]);
    let over = |said: &[String]| {
        let over = said
            .iter()
            .filter(|line| line.starts_with("auto passes over"));
        over.filter(|line| line.contains(WRONG)).count()
    };
    assert_eq!(over(&said), 2, "{said:?}");
    // The second run checks nothing and gives the reason again.
    let (device, checked, said) = run(&file, "k", "1", &[]);
    assert_eq!(
        (device.as_str(), checked.len(), over(&said)),
        ("wgpu:1", 0, 2)
    );
    // If every GPU fails, the choice is the processor, which needs no check.
    let all = ["vulkan:0", "wgpu:0", "wgpu:1"];
    let (device, checked, _) = run(&file, "other kernels", "1", &all);
    assert_eq!((device.as_str(), checked.len()), ("cpu", 3));
}

#[test]
fn verdicts_are_shown_without_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verdicts.json");
    let trust = |kernels| Trust::at(Some(file.clone()), kernels);
    assert_eq!(
        trust("k").known(device("wgpu:0"), &gpu("1")),
        Known::Unchecked
    );
    run(&file, "k", "1", &["vulkan:0"]);
    let failed = Known::Checked(Verdict::Failed(WRONG.to_owned()));
    assert_eq!(trust("k").known(device("vulkan:0"), &gpu("1")), failed);
    let passed = Known::Checked(Verdict::Passed);
    assert_eq!(trust("k").known(device("wgpu:0"), &gpu("1")), passed);
    assert_eq!(
        trust("k").known(device("wgpu:0"), &gpu("2")),
        Known::Unchecked
    );
    for (name, capability) in [
        ("cpu", profiles::cpu_4core_avx2()),
        ("flex", profiles::cpu_4core_avx2()),
        ("wgpu:0", profiles::lavapipe()),
        ("wgpu:0", profiles::swiftshader()),
        ("xla:tpu", gpu("1")),
    ] {
        assert_eq!(trust("k").known(device(name), &capability), Known::Trusted);
    }
    let mut all = machine("1");
    trust("k").mark(&mut all);
    assert_eq!(choose(&all).unwrap().device, device("wgpu:0"));
    let error = all[0].status.as_ref().unwrap_err().to_string();
    assert!(
        error.contains("computes wrong results") && error.contains(WRONG),
        "{error}"
    );
}

#[test]
fn a_broken_file_is_ignored_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verdicts.json");
    fs::write(&file, "[{\"device\": ").unwrap();
    let (device, checked, said) = run(&file, "k", "1", &[]);
    assert_eq!((device.as_str(), checked.len()), ("vulkan:0", 1));
    assert!(said[0].contains("is ignored"), "{said:?}");
    // The broken file has been replaced.
    assert_eq!(run(&file, "k", "1", &[]).1.len(), 0);
    // A file that can't be written doesn't keep the device from being used.
    let below = file.join("below.json");
    let (device, checked, said) = run(&below, "k", "1", &[]);
    assert_eq!((device.as_str(), checked.len()), ("vulkan:0", 1));
    assert!(
        said.iter().any(|line| line.contains("can't be written")),
        "{said:?}"
    );
}

#[test]
fn a_device_that_does_not_open_has_no_verdict() {
    let mut trust = Trust::at(None, "k");
    let mut check = |device: Device| -> Result<Verdict, CliError> {
        Err(CliError::NoDevice(failed(device, "gone".to_owned())))
    };
    assert!(
        trust
            .choose(Work::Products, &mut machine("1"), &mut check)
            .is_err()
    );
    let card = gpu("1");
    assert_eq!(trust.known(device("vulkan:0"), &card), Known::Unchecked);
}
