//! A device that runs nothing and keeps the kernels launched on it: what is compiled without a device is what a launch would
//! enqueue.

use super::server::{self, Backing, Launch};
use cubecl::client::Client;
use cubecl::ir::DeviceProperties;
use cubecl::prelude::CubeKernel;
use cubecl::server::CopyDescriptor;
use cubecl_runtime::memory_management::ManagedMemoryHandle;
use std::sync::{Arc, Mutex, PoisonError};

/// Kernels in the order of their launches.
pub(super) type Kernels = Vec<Box<dyn CubeKernel>>;

type Launched = Arc<Mutex<Kernels>>;

/// A device that isn't there, and what was launched on it.
pub(super) struct Recorder {
    pub(super) client: Client,
    launched: Launched,
}

impl Recorder {
    /// A recorder for a device of these properties.
    pub(super) fn new(properties: DeviceProperties) -> Self {
        let launched = Launched::default();
        let client = server::client("recorder", properties, Record(launched.clone()));
        Self { client, launched }
    }

    /// The kernels launched since the last call.
    pub(super) fn take(&self) -> Kernels {
        // Launches are sent to the server's thread, and done when it answers.
        let flushed = self.client.flush();
        debug_assert!(flushed.is_ok(), "the recorder's flush never fails");
        std::mem::take(&mut self.launched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Record(Launched);

impl Backing for Record {
    /// Buffers are as large as they are asked to be, without memory behind them.
    fn allocate(&mut self, _memory: ManagedMemoryHandle, _bytes: u64) -> Result<(), String> {
        Ok(())
    }

    fn read(&mut self, _from: &CopyDescriptor) -> Result<Vec<u8>, String> {
        Err("a device that only records launches was asked for values".to_owned())
    }

    fn write(&mut self, _to: &CopyDescriptor, _bytes: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self, launch: Launch) -> Result<(), String> {
        let mut launched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        launched.push(launch.kernel);
        Ok(())
    }
}
