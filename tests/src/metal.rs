//! A CubeCL device that launches Metal kernels on the emulator's grid: it needs no Mac, and runs the text that CubeCL writes.
//! It serves kernels only, because Burn doesn't know it.

#![allow(unsafe_code, reason = "kernels are launched with what CubeCL binds")]

use std::collections::HashMap;

use cubecl::client::Client;
use cubecl::prelude::{CubeCount, CubeKernel, KernelId};
use cubecl::server::{BufferBinding, CopyDescriptor, KernelArguments, KernelResource};
use cubecl_runtime::memory_management::{ManagedMemoryHandle, ManagedMemoryId, WeakMemoryBinding};
use moebius_device::Capability;
use moebius_emulator::metal::{Buffer, Kernel};
use moebius_shaders::emit::server::{self, Backing, Launch};
use moebius_shaders::emit::{self, Target};

/// Opens a new device: its client and its capability.
pub(crate) fn open() -> (Client, Capability) {
    let properties = emit::properties(Target::Msl);
    let capability = Capability::from_properties(Target::Msl.runtime(), &properties);
    let client = server::client("emulated Metal", properties, Emulator::default());
    (client, capability)
}

#[derive(Default)]
struct Emulator {
    /// Buffers by the identity of their memory; the weak reference tells whether CubeCL still uses the memory.
    buffers: HashMap<ManagedMemoryId, (WeakMemoryBinding, Buffer)>,
    kernels: HashMap<KernelId, Compiled>,
}

/// A compiled kernel, and the number of threads in its blocks.
struct Compiled {
    kernel: Kernel,
    block: [u32; 3],
}

impl Emulator {
    fn buffer(&self, binding: &BufferBinding) -> Result<&Buffer, String> {
        let found = self.buffers.get(&binding.memory.id());
        let (_, buffer) = found.ok_or("memory that was never initialised")?;
        Ok(buffer)
    }

    fn compiled(&mut self, kernel: &dyn CubeKernel) -> Result<&Compiled, String> {
        let id = kernel.id();
        if !self.kernels.contains_key(&id) {
            let artifact = emit::compile(kernel, Target::Msl).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&artifact.bytes);
            let compiled = Compiled {
                kernel: Kernel::new(&text, &artifact.entry_point)?,
                block: artifact.workgroup,
            };
            self.kernels.insert(id.clone(), compiled);
        }
        Ok(&self.kernels[&id])
    }

    /// The addresses of a launch's buffers. The last is `info`, CubeCL's own buffer with sizes and scalars.
    fn addresses(&self, bound: &KernelArguments, info: &Buffer) -> Result<Vec<u64>, String> {
        let address = |resource: &KernelResource| match resource {
            KernelResource::Buffer(binding) => {
                Ok(self.buffer(binding)?.address() + first(binding) as u64)
            }
            _ => Err("a tensor map".to_owned()),
        };
        let mut all: Vec<u64> = bound
            .resources
            .iter()
            .map(address)
            .collect::<Result<_, _>>()?;
        all.push(info.address());
        Ok(all)
    }
}

/// The offset of a tensor's first byte in its buffer.
fn first(binding: &BufferBinding) -> usize {
    binding.offset_start.unwrap_or(0) as usize
}

impl Backing for Emulator {
    fn allocate(&mut self, memory: ManagedMemoryHandle, bytes: u64) -> Result<(), String> {
        self.buffers.retain(|_, (memory, _)| memory.is_alive());
        let binding = memory.binding();
        let kept = (binding.downgrade(), Buffer::new(bytes as usize)?);
        self.buffers.insert(binding.id(), kept);
        Ok(())
    }

    fn read(&mut self, from: &CopyDescriptor) -> Result<Vec<u8>, String> {
        let bytes = from.shape.iter().product::<usize>() * from.elem_size;
        self.buffer(&from.handle)?.read(first(&from.handle), bytes)
    }

    fn write(&mut self, to: &CopyDescriptor, bytes: &[u8]) -> Result<(), String> {
        self.buffer(&to.handle)?.write(first(&to.handle), bytes)
    }

    fn launch(&mut self, launch: Launch) -> Result<(), String> {
        self.compiled(&*launch.kernel)?;
        let grid = match launch.count {
            CubeCount::Static(x, y, z) => [x, y, z],
            CubeCount::Dynamic(_) => return Err("no count of cubes is told in a buffer".to_owned()),
        };
        if launch.prepared_only || grid.contains(&0) {
            return Ok(());
        }
        let words = &launch.arguments.info.data;
        let info = Buffer::new(size_of_val(&words[..]))?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        info.write(0, &bytes)?;
        let addresses = self.addresses(&launch.arguments, &info)?;
        let Compiled { kernel, block } = self.compiled(&*launch.kernel)?;
        // SAFETY: CubeCL binds the buffers that the kernel takes.
        unsafe { kernel.launch(grid, *block, &addresses) }
    }
}
