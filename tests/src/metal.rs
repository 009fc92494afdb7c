//! A CubeCL server that launches kernels in Metal's language on the grid of the emulator: no Mac is needed, and what runs is the
//! text that CubeCL writes. It is for kernels alone; Burn doesn't know it.

#![allow(unsafe_code, reason = "kernels are launched with what CubeCL binds")]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cubecl::client::Client;
use cubecl::ir::TargetProperties;
use cubecl::prelude::{CubeCount, CubeKernel, KernelId};
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
    ManagedMemoryHandle, ManagedMemoryId, MemoryAllocationMode, StreamMemoryReport,
    WeakMemoryBinding,
};
use cubecl_runtime::storage::ManagedResource;
use moebius_device::Capability;
use moebius_emulator::metal::{Buffer, Kernel};
use moebius_shaders::emit::{self, Target};

/// A client of a new device, and what it can do.
pub(crate) fn open() -> (Client, Capability) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // No runtime of CubeCL's has this type of device, and neither has the recorder of `emit`.
    let id = DeviceId::new(u16::MAX - 1, NEXT.fetch_add(1, Ordering::Relaxed));
    let properties = emit::properties(Target::Msl);
    let capability = Capability::from_properties(Target::Msl.runtime(), &properties);
    let (utilities, _captures) = ServerUtilities::init(
        ServiceId::of::<Server>(id),
        "emulated Metal",
        properties,
        TargetProperties::default(),
        Arc::new(ServerLogger::default()),
        OneBuffer,
    );
    let server = Server {
        utilities: Arc::new(utilities),
        buffers: HashMap::new(),
        kernels: HashMap::new(),
        failed: Mutex::default(),
    };
    (Client::init(id, server), capability)
}

/// Where a part of a buffer may begin.
const ALIGNMENT: usize = 256;

/// All that is asked for at once in one buffer, row by row.
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

struct Server {
    utilities: Arc<ServerUtilities>,
    /// Of all memory that something still refers to.
    buffers: HashMap<ManagedMemoryId, (WeakMemoryBinding, Buffer)>,
    kernels: HashMap<KernelId, Compiled>,
    /// The first failure since one was told.
    failed: Mutex<Option<String>>,
}

/// A kernel and the threads of its blocks.
struct Compiled {
    kernel: Kernel,
    block: [u32; 3],
}

impl fmt::Debug for Server {
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

impl Server {
    fn buffer(&self, binding: &BufferBinding) -> Result<&Buffer, String> {
        let found = self.buffers.get(&binding.memory.id());
        let (_, buffer) = found.ok_or("memory that was never initialised")?;
        Ok(buffer)
    }

    fn address(&self, binding: &BufferBinding) -> Result<u64, String> {
        Ok(self.buffer(binding)?.address() + binding.offset_start.unwrap_or(0))
    }

    /// Keeps a failure for the next who waits.
    fn note(&self, result: Result<(), String>) {
        if let Err(reason) = result {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(reason);
        }
    }

    fn told(&self) -> Result<(), ServerError> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), |reason| Err(error(reason)))
    }

    fn compiled(&mut self, kernel: &dyn CubeKernel) -> Result<&Compiled, String> {
        let id = kernel.id();
        if !self.kernels.contains_key(&id) {
            let artifact = emit::compile(kernel, Target::Msl).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&artifact.bytes);
            let dim = kernel.define().settings.cube_dim;
            let compiled = Compiled {
                kernel: Kernel::new(&text, &artifact.entry_point)?,
                block: [dim.x, dim.y, dim.z],
            };
            self.kernels.insert(id.clone(), compiled);
        }
        Ok(&self.kernels[&id])
    }

    fn run(
        &mut self,
        kernel: &dyn CubeKernel,
        count: &CubeCount,
        bindings: &KernelArguments,
        mode: LaunchMode,
    ) -> Result<(), String> {
        self.compiled(kernel)?;
        if mode == LaunchMode::Skip {
            return Ok(());
        }
        let grid = match count {
            CubeCount::Static(x, y, z) => [*x, *y, *z],
            CubeCount::Dynamic(_) => return Err("no count of cubes is told in a buffer".to_owned()),
        };
        if grid.contains(&0) {
            return Ok(());
        }
        let mut arguments = Vec::new();
        for resource in &bindings.resources {
            match resource {
                KernelResource::Buffer(binding) => arguments.push(self.address(binding)?),
                _ => return Err("a tensor map".to_owned()),
            }
        }
        let words = &bindings.info.data;
        let info = Buffer::new(size_of_val(&words[..]))?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        info.write(0, &bytes)?;
        arguments.push(info.address());
        let Compiled { kernel, block } = self.compiled(kernel)?;
        // SAFETY: CubeCL binds what the kernel takes.
        unsafe { kernel.launch(grid, *block, &arguments) }
    }
}

impl DeviceService for Server {
    fn init(_device: DeviceId) -> Self {
        unreachable!("it is made by `open`")
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

impl ServerCommunication for Server {}

impl cubecl::server::Server for Server {
    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        size: u64,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        self.buffers.retain(|_, (memory, _)| memory.is_alive());
        let binding = memory.binding();
        let buffer = Buffer::new(size as usize).map_err(error)?;
        let kept = (binding.downgrade(), buffer);
        self.buffers.insert(binding.id(), kept);
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
        descriptors: Vec<CopyDescriptor>,
        _stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let one = |d: &CopyDescriptor| -> Result<Bytes, ServerError> {
            let bytes = d.shape.iter().product::<usize>() * d.elem_size;
            let first = d.handle.offset_start.unwrap_or(0) as usize;
            let read = self.buffer(&d.handle).and_then(|b| b.read(first, bytes));
            read.map(Bytes::from_bytes_vec).map_err(error)
        };
        let all = self.told();
        let all = all.and_then(|()| descriptors.iter().map(one).collect());
        Box::pin(async { all })
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, _stream: StreamId) {
        for (descriptor, bytes) in descriptors {
            let first = descriptor.handle.offset_start.unwrap_or(0) as usize;
            let buffer = self.buffer(&descriptor.handle);
            self.note(buffer.and_then(|buffer| buffer.write(first, &bytes)));
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
        bindings: KernelArguments,
        _stream: StreamId,
        mode: LaunchMode,
    ) {
        let ran = self.run(&*kernel, &count, &bindings, mode);
        self.note(ran);
    }

    fn flush(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _stream: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        self.buffers.retain(|_, (memory, _)| memory.is_alive());
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

impl ServerStorage for Server {
    // Never made; the type only has to be one.
    type Storage = cubecl_wgpu::WgpuStorage;

    fn get_resource(
        &mut self,
        _binding: BufferBinding,
        _stream: StreamId,
    ) -> Result<ManagedResource<cubecl_wgpu::WgpuResource>, ServerError> {
        Err(error("its memory is its own".to_owned()))
    }
}
