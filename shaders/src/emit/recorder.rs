//! A CubeCL server that runs nothing and keeps the kernels launched on it: what is compiled without a device is what a
//! launch would enqueue.

use cubecl::client::Client;
use cubecl::ir::{DeviceProperties, TargetProperties};
use cubecl::prelude::{CubeCount, CubeKernel};
use cubecl::server::*;
use cubecl_core::bytes::Bytes;
use cubecl_core::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_core::environment::{backtrace::BackTrace, stream::StreamId};
use cubecl_core::future::DynFut;
use cubecl_core::profile::ProfileDuration;
use cubecl_core::zspace::Strides;
use cubecl_runtime::dry_run::LaunchMode;
use cubecl_runtime::logging::ServerLogger;
use cubecl_runtime::memory_management::{
    ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport,
};
use cubecl_runtime::storage::ManagedResource;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
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
        // No runtime of CubeCL's has this type of device.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let id = DeviceId::new(u16::MAX, NEXT.fetch_add(1, Ordering::Relaxed));
        let (utilities, _captures) = ServerUtilities::init(
            ServiceId::of::<Server>(id),
            "recorder",
            properties,
            TargetProperties::default(),
            Arc::new(ServerLogger::default()),
            Sizes,
        );
        let launched = Launched::default();
        let server = Server {
            utilities: Arc::new(utilities),
            launched: launched.clone(),
        };
        let client = Client::init(id, server);
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

/// Buffers of the sizes asked for, without memory behind them.
struct Sizes;

impl MemoryLayoutPolicy for Sizes {
    fn apply(
        &self,
        service: ServiceId,
        stream: StreamId,
        descriptors: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        let bytes = |d: &MemoryLayoutDescriptor| d.shape.iter().product::<usize>() * d.elem_size;
        let layout = |d| {
            MemoryLayout::new(
                Handle::new(service, stream, bytes(d) as u64),
                Strides::new(&[1]),
            )
        };
        let total = descriptors.iter().map(bytes).sum::<usize>();
        (
            Handle::new(service, stream, total as u64),
            descriptors.iter().map(layout).collect(),
        )
    }
}

struct Server {
    utilities: Arc<ServerUtilities>,
    launched: Launched,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

fn runs_nothing<T>() -> Result<T, ServerError> {
    Err(ServerError::Generic {
        reason: "a device that only records launches was asked to run".to_owned(),
        backtrace: BackTrace::capture(),
    })
}

impl DeviceService for Server {
    fn init(_device: DeviceId) -> Self {
        unreachable!("a recorder is made with its properties, by `Recorder::new`")
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

impl ServerCommunication for Server {}

impl cubecl::server::Server for Server {
    fn initialize_memory(
        &mut self,
        _memory: ManagedMemoryHandle,
        _size: u64,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        Ok(())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        _descriptors: Vec<CopyDescriptor>,
        _stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        Box::pin(async { runs_nothing() })
    }

    fn write(&mut self, _descriptors: Vec<(CopyDescriptor, Bytes)>, _stream: StreamId) {}

    fn sync(
        &mut self,
        _handles: Vec<BufferBinding>,
        _stream: StreamId,
    ) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn check(
        &mut self,
        _handles: Vec<BufferBinding>,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        _count: CubeCount,
        _bindings: KernelArguments,
        _stream: StreamId,
        _mode: LaunchMode,
    ) {
        let mut launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched.push(kernel);
    }

    fn flush(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _stream: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _stream: StreamId) -> Result<ProfilingToken, ServerError> {
        runs_nothing()
    }

    fn end_profile(
        &mut self,
        _stream: StreamId,
        _token: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered {
            backtrace: BackTrace::capture(),
        })
    }

    fn allocation_mode(&mut self, _mode: MemoryAllocationMode, _stream: StreamId) {}
}

impl ServerStorage for Server {
    // Never made; the type only has to be one.
    type Storage = cubecl_wgpu::WgpuStorage;

    fn get_resource(
        &mut self,
        _binding: BufferBinding,
        _stream: StreamId,
    ) -> Result<ManagedResource<cubecl_wgpu::WgpuResource>, ServerError> {
        runs_nothing()
    }
}
