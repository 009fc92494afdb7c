//! A kernel that fails to compile or to launch gives an error in the call that reads its output.
//!
//! Flex has no kernels, and programs that XLA can't compile are tested in `backends/xla/tests/`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    unsafe_code,
    reason = "a launch can't check that buffers have the lengths that its kernel expects"
)]

use cubecl::client::Client;
use cubecl::frontend::push_validation_error;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Runtime;
use moebius_tests::target::{Target, download_u32, poisoned, upload_u32};

const LEN: usize = 8;

#[cube(launch)]
fn refused(input: &[u32], output: &mut [u32]) {
    push_validation_error("planted".to_string());
    output[UNIT_POS as usize] = input[UNIT_POS as usize];
}

/// A kernel with a barrier over the device, on which CubeCL's CPU compiler panics.
#[cube(launch)]
fn waits_for_the_device(input: &[u32], output: &mut [u32]) {
    sync_storage();
    output[UNIT_POS as usize] = input[UNIT_POS as usize];
}

#[cube(launch)]
fn copies(input: &[u32], output: &mut [u32]) {
    output[UNIT_POS as usize] = input[UNIT_POS as usize];
}

#[cube(launch)]
fn shares(input: &[u32], output: &mut [u32], #[comptime] words: usize) {
    let mut shared = Shared::<[u32]>::new_slice(words);
    shared[(words - 1) - UNIT_POS as usize] = input[UNIT_POS as usize];
    sync_cube();
    output[UNIT_POS as usize] = shared[(words - 1) - UNIT_POS as usize];
}

/// A device with kernels, and the buffers of a launch on it.
struct Launch {
    target: &'static Target,
    client: Client,
    input: Handle,
    output: Handle,
}

/// A launch on every device that has kernels.
fn launches() -> impl Iterator<Item = Launch> {
    Target::all().iter().filter_map(|target| {
        let client = target.client()?;
        let words: Vec<u32> = (100..).take(LEN).collect();
        Some(Launch {
            target,
            input: upload_u32(&client, &words),
            output: poisoned(&client, LEN),
            client,
        })
    })
}

impl Launch {
    fn on_the_processor(&self) -> bool {
        self.target.capability().runtime == Runtime::Cpu
    }

    fn args(&self) -> [BufferArg; 2] {
        // SAFETY: both buffers have LEN words.
        [&self.input, &self.output]
            .map(|buffer| unsafe { BufferArg::from_raw_parts(buffer.clone(), LEN) })
    }

    /// Asserts that reading the output, or what is computed from it, is an error that contains `what`, and that the input can
    /// still be read.
    fn assert_failed(self, what: &str) {
        let name = self.target.name;
        self.client.read_one(self.input.clone()).unwrap();
        let next = Self {
            input: self.output.clone(),
            output: poisoned(&self.client, LEN),
            ..self
        };
        let [input, output] = next.args();
        copies::launch(&next.client, ONE, units(LEN), input, output);
        for buffer in [next.input, next.output] {
            match next.client.read_one(buffer) {
                Ok(bytes) => panic!("{name}: {what}: read {:x?}", u32::from_bytes(&bytes)),
                Err(error) => assert!(error.to_string().contains(what), "{name}: {error}"),
            }
        }
    }

    /// Asserts that the kernel has written every word.
    fn assert_ran(self) {
        let got = download_u32(&self.client, self.output, LEN);
        assert_eq!(got, (100..).take(LEN).collect::<Vec<u32>>());
    }
}

const ONE: CubeCount = CubeCount::Static(1, 1, 1);

fn units(count: usize) -> CubeDim {
    CubeDim::new_1d(count as u32)
}

#[test]
fn what_a_compiler_refuses_is_an_error() {
    for launch in launches() {
        let [input, output] = launch.args();
        refused::launch(&launch.client, ONE, units(LEN), input, output);
        launch.assert_failed("planted");
    }
}

#[test]
fn a_compiler_that_panics_is_an_error() {
    for launch in launches() {
        let ([input, output], client) = (launch.args(), launch.client.clone());
        moebius_shaders::checked(&client, &[&launch.output], || {
            waits_for_the_device::launch(&client, ONE, units(LEN), input, output);
        });
        if launch.on_the_processor() {
            launch.assert_failed("Device wide synchronization is not supported");
        } else {
            launch.assert_ran();
        }
    }
}

#[test]
fn more_than_the_limits_is_an_error() {
    for launch in launches().filter(|launch| !launch.on_the_processor()) {
        let limits = launch.target.capability().limits;
        let [input, output] = launch.args();
        let past = limits.max_units_per_cube as usize + 1;
        copies::launch(&launch.client, ONE, units(past), input, output);
        launch.assert_failed("");
    }
    for launch in launches().filter(|launch| !launch.on_the_processor()) {
        let limits = launch.target.capability().limits;
        let [input, output] = launch.args();
        let words = limits.max_shared_memory / 4 + 1;
        shares::launch(&launch.client, ONE, units(LEN), input, output, words);
        launch.assert_failed("");
    }
}
