//! A CubeCL server over a custom memory and custom launches: a [`Backing`] is all that a device needs to run or record kernels.
//! The server has one queue, no memory pools and no clock.

use cubecl::client::Client;
use cubecl::ir::{DeviceProperties, TargetProperties};
use cubecl::prelude::{CubeCount, CubeKernel};
use cubecl::server::{
    BufferBinding, CopyDescriptor, Handle, KernelArguments, MemoryLayout, MemoryLayoutDescriptor,
    MemoryLayoutPolicy, ProfileError, ProfilingToken, ServerCommunication, ServerError,
    ServerStorage, ServerUtilities,
};
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
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// The alignment, in bytes, of a part of a buffer.
const ALIGNMENT: usize = 256;

/// An enqueued launch.
pub struct Launch {
    /// The kernel.
    pub kernel: Box<dyn CubeKernel>,
    /// The number of workgroups.
    pub count: CubeCount,
    /// The buffers and scalars.
    pub arguments: KernelArguments,
    /// Whether the kernel is only prepared, without running.
    pub prepared_only: bool,
}

/// The memory and the launches of a device. The server reports an error to the next caller that waits for the device or reads
/// from it.
pub trait Backing: Send + 'static {
    /// Allocates `bytes` bytes of memory for a handle.
    ///
    /// # Errors
    /// A message if there is no memory left.
    fn allocate(&mut self, memory: ManagedMemoryHandle, bytes: u64) -> Result<(), String>;

    /// Reads the bytes of a tensor.
    ///
    /// # Errors
    /// A message if the tensor has no memory.
    fn read(&mut self, from: &CopyDescriptor) -> Result<Vec<u8>, String>;

    /// Writes the bytes of a tensor.
    ///
    /// # Errors
    /// A message if the tensor has no memory.
    fn write(&mut self, to: &CopyDescriptor, bytes: &[u8]) -> Result<(), String>;

    /// Runs or records a kernel.
    ///
    /// # Errors
    /// A message that says why the kernel couldn't run.
    fn launch(&mut self, launch: Launch) -> Result<(), String>;
}

/// A client of a new device with `properties` and `backing`.
pub fn client<B: Backing>(name: &'static str, properties: DeviceProperties, backing: B) -> Client {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // None of CubeCL's runtimes has this type of device.
    let id = DeviceId::new(u16::MAX, NEXT.fetch_add(1, Ordering::Relaxed));
    let (utilities, _captures) = ServerUtilities::init(
        ServiceId::of::<Server<B>>(id),
        name,
        properties,
        TargetProperties::default(),
        Arc::new(ServerLogger::default()),
        OneBuffer,
    );
    let server = Server {
        utilities: Arc::new(utilities),
        backing,
        failure: None,
    };
    Client::init(id, server)
}

/// A memory layout that puts all tensors of a request into one buffer, each row-major.
struct OneBuffer;

impl MemoryLayoutPolicy for OneBuffer {
    fn apply(
        &self,
        service: ServiceId,
        stream: StreamId,
        descriptors: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        let bytes = |d: &MemoryLayoutDescriptor| d.shape.iter().product::<usize>() * d.elem_size;
        let room = |d| bytes(d).next_multiple_of(ALIGNMENT);
        let total: usize = descriptors.iter().map(room).sum();
        let whole = Handle::new(service, stream, total as u64);
        let mut first = 0;
        let layouts = descriptors.iter().map(|d| {
            let handle = whole.clone().offset_start(first as u64);
            first += room(d);
            let after = total - first + room(d) - bytes(d);
            MemoryLayout::new(handle.offset_end(after as u64), row_by_row(d))
        });
        let layouts = layouts.collect();
        (whole, layouts)
    }
}

fn row_by_row(descriptor: &MemoryLayoutDescriptor) -> Strides {
    let mut strides = vec![1; descriptor.shape.len()];
    for axis in (1..strides.len()).rev() {
        strides[axis - 1] = strides[axis] * descriptor.shape[axis];
    }
    Strides::new(&strides)
}

struct Server<B> {
    utilities: Arc<ServerUtilities>,
    backing: B,
    /// The first failure since the last report.
    failure: Option<String>,
}

impl<B> fmt::Debug for Server<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

fn error(reason: String) -> ServerError {
    ServerError::Generic {
        reason,
        backtrace: BackTrace::capture(),
    }
}

impl<B> Server<B> {
    /// Keeps a failure for the next caller that waits.
    fn note(&mut self, result: Result<(), String>) {
        if let Err(reason) = result {
            self.failure.get_or_insert(reason);
        }
    }

    fn told(&mut self) -> Result<(), ServerError> {
        self.failure
            .take()
            .map_or(Ok(()), |reason| Err(error(reason)))
    }
}

impl<B: Backing> DeviceService for Server<B> {
    fn init(_device: DeviceId) -> Self {
        unreachable!("it is made with its backing, by `client`")
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

impl<B: Backing> ServerCommunication for Server<B> {}

impl<B: Backing> cubecl::server::Server for Server<B> {
    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        size: u64,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        self.backing.allocate(memory, size).map_err(error)
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        descriptors: Vec<CopyDescriptor>,
        _stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let told = self.told();
        let mut one = |from: &CopyDescriptor| {
            let bytes = self.backing.read(from);
            bytes.map(Bytes::from_bytes_vec).map_err(error)
        };
        let all = told.and_then(|()| descriptors.iter().map(&mut one).collect());
        Box::pin(async { all })
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, _stream: StreamId) {
        for (to, bytes) in descriptors {
            let written = self.backing.write(&to, &bytes);
            self.note(written);
        }
    }

    fn sync(
        &mut self,
        _handles: Vec<BufferBinding>,
        _stream: StreamId,
    ) -> DynFut<Result<(), ServerError>> {
        let told = self.told();
        Box::pin(async { told })
    }

    fn check(
        &mut self,
        _handles: Vec<BufferBinding>,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        self.told()
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        _stream: StreamId,
        mode: LaunchMode,
    ) {
        let launched = self.backing.launch(Launch {
            kernel,
            count,
            arguments,
            prepared_only: mode == LaunchMode::Skip,
        });
        self.note(launched);
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
        Err(error("nothing is timed".to_owned()))
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

impl<B: Backing> ServerStorage for Server<B> {
    // Never constructed; the associated type just needs a value.
    type Storage = cubecl_wgpu::WgpuStorage;

    fn get_resource(
        &mut self,
        _binding: BufferBinding,
        _stream: StreamId,
    ) -> Result<ManagedResource<cubecl_wgpu::WgpuResource>, ServerError> {
        Err(error("its memory is its own".to_owned()))
    }
}
