//! Tests of the device that `auto` takes among those found.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use moebius_device::{Capability, Device, DeviceKind, Found, OpenError, Work, choose, choose_for};
use moebius_profiles as profiles;

fn found(device: &str, capability: Capability) -> Found {
    Found {
        device: device.parse().unwrap(),
        status: Ok(capability),
    }
}

fn not_built(name: &str) -> Found {
    let device: Device = name.parse().unwrap();
    Found {
        device,
        status: Err(OpenError::NotBuilt {
            device,
            feature: device.feature(),
        }),
    }
}

fn chosen(found: &[Found]) -> String {
    choose(found).unwrap().device.to_string()
}

#[test]
fn cuda_serves_an_h100_better_than_vulkan() {
    let found = [
        found("flex", profiles::cpu_4core_avx2()),
        found("wgpu:0", profiles::h100()),
        found("vulkan:0", profiles::h100()),
        found("cuda:0", profiles::h100()),
        found("cuda:1", profiles::h100()),
        not_built("rocm"),
    ];
    let choice = choose(&found).unwrap();
    assert_eq!(choice.device, Device::Cuda(Some(0)));
    assert_eq!(
        choice.reason,
        "cuda:0 (NVIDIA H100 80GB HBM3) is the best GPU found, a discrete GPU; \
         passed over cuda:1, vulkan:0, wgpu:0, flex, rocm (not built in)"
    );
}

#[test]
fn a_discrete_gpu_beats_an_integrated_one_on_any_runtime() {
    let mut jetson = profiles::h100();
    jetson.kind = DeviceKind::IntegratedGpu;
    let found = [
        found("cuda:0", jetson),
        found("wgpu:0", profiles::rdna4()),
        found("cpu", profiles::cpu_4core_avx2()),
    ];
    assert_eq!(chosen(&found), "wgpu:0");
}

#[test]
fn apple_runs_on_wgpu() {
    let found = [
        not_built("cuda"),
        found("wgpu:0", profiles::apple_m()),
        found("cpu", profiles::cpu_neon()),
        found("flex", profiles::cpu_neon()),
    ];
    assert_eq!(chosen(&found), "wgpu:0");
}

#[test]
fn a_software_adapter_is_the_last_resort() {
    let lavapipe = || found("wgpu:0", profiles::lavapipe());
    let cpu = || found("cpu", profiles::cpu_2core_avx512());
    let flex = || found("flex", profiles::cpu_2core_avx512());
    assert_eq!(chosen(&[lavapipe(), flex(), cpu()]), "cpu");
    assert_eq!(chosen(&[lavapipe(), flex()]), "flex");
    let choice = choose(&[lavapipe(), not_built("flex")]).unwrap();
    assert_eq!(choice.device, Device::Wgpu(Some(0)));
    assert!(
        choice.reason.contains("software adapter"),
        "{}",
        choice.reason
    );
}

#[test]
fn small_steps_of_a_training_run_on_flex_where_no_gpu_is() {
    let cpu = || found("cpu", profiles::cpu_2core_avx512());
    let flex = || found("flex", profiles::cpu_2core_avx512());
    let chosen = |flops, found: &[Found]| {
        let choice = choose_for(Work::Steps { flops }, found).unwrap();
        (choice.device.to_string(), choice.reason)
    };
    let (device, reason) = chosen(1e9, &[cpu(), flex()]);
    assert_eq!(device, "flex");
    assert!(reason.contains("steps as small"), "{reason}");
    assert_eq!(chosen(1e12, &[cpu(), flex()]).0, "cpu");
    assert_eq!(chosen(f64::NAN, &[cpu(), flex()]).0, "cpu");
    assert_eq!(chosen(1e9, &[cpu()]).0, "cpu");
    let gpu = found("cuda:0", profiles::h100());
    assert_eq!(chosen(1e9, &[cpu(), flex(), gpu]).0, "cuda:0");
    let tokens = choose_for(Work::Tokens, &[cpu(), flex()]).unwrap();
    assert_eq!(tokens.device, Device::Flex);
}

#[test]
fn one_device_is_enough_and_none_is_an_error() {
    let choice = choose(&[found("flex", profiles::cpu_neon())]).unwrap();
    assert_eq!(choice.device, Device::Flex);
    assert!(
        choice.reason.ends_with("passed over nothing"),
        "{}",
        choice.reason
    );

    let error = choose(&[not_built("cuda"), not_built("flex")]).unwrap_err();
    assert!(matches!(
        error,
        OpenError::NoSuchDevice {
            device: Device::Auto,
            ..
        }
    ));
    assert_eq!(choose(&[]).unwrap_err(), error);
}
