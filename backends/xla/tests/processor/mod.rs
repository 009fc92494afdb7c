//! The CPU plugin's device, for tests of ordinary tensors and of steps.

use burn::tensor::Device;
use moebius_pjrt::Platform;
use moebius_xla::open;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lets one test run at a time, because a device counts and lists the programs of all tests together.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn xla() -> Device {
    open(Platform::Cpu, 0).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= 2e-5 * (1.0 + e.abs()),
            "{i}: {g} instead of {e}"
        );
    }
}
