//! Compiled programs, loaded or not: what they give and need.

use std::fmt;
use std::sync::Arc;

use super::client::Client;
use super::error::Error;
use super::ffi::{self, ExecutableObject};
use super::plugin::Plugin;
use super::serialized;
use super::tensor::{self, TensorSpec};
use super::topology::Topology;
use super::value::{self, Value};

/// A compiled program. It need not be loaded on a device: [`super::Topology::compile`] makes it for devices elsewhere.
#[derive(Clone)]
pub struct Executable {
    inner: Arc<Inner>,
}

struct Inner {
    plugin: Plugin,
    object: *mut ExecutableObject,
    platform_name: String,
    _keep: Keep,
}

/// What must live as long as the executable.
pub(super) enum Keep {
    Client(#[allow(dead_code, reason = "held, not read")] Client),
    Topology(#[allow(dead_code, reason = "held, not read")] Topology),
}

// SAFETY: executables of the C API may be used from any thread, several at a time; nothing here changes them.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({:?})", self.inner.object)
    }
}

/// The memory that one execution takes on each device, in bytes, as the compiler plans it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemory {
    /// The code itself.
    pub code: u64,
    /// The arguments.
    pub arguments: u64,
    /// The results.
    pub outputs: u64,
    /// How much of the results lies in donated arguments.
    pub aliased: u64,
    /// Everything between.
    pub temporary: u64,
    /// The most at any one time; 0 where the plugin does not say.
    pub peak: u64,
}

/// A program after the compiler's optimisations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizedProgram {
    /// What `code` is: `hlo` or `hlo_with_config`, both serialised protocol buffers of XLA, or `mlir`.
    pub format: String,
    /// The program.
    pub code: Vec<u8>,
}

impl Executable {
    /// Takes an executable of a plugin.
    ///
    /// # Safety
    ///
    /// `object` is a live executable of the plugin that nothing else frees, and lives as long as `keep`.
    pub(super) unsafe fn new(
        plugin: Plugin,
        object: *mut ExecutableObject,
        platform_name: String,
        keep: Keep,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                plugin,
                object,
                platform_name,
                _keep: keep,
            }),
        }
    }

    /// The name of the program's module.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn name(&self) -> Result<String, Error> {
        let mut name = ffi::ExecutableName::new();
        name.executable = self.inner.object;
        // SAFETY: the executable is alive, and its name lives as long as it.
        unsafe {
            self.inner.plugin.call(&mut name)?;
            Ok(value::text(name.executable_name, name.executable_name_size))
        }
    }

    /// The results on each device. For a result of bounded dynamic size, the bound.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownElementType`], [`Error::Contract`] where the plugin's lists do not fit together, and the plugin's.
    pub fn outputs(&self) -> Result<Vec<TensorSpec>, Error> {
        let mut count = ffi::ExecutableNumOutputs::new();
        count.executable = self.inner.object;
        let mut elements = ffi::ExecutableOutputElementTypes::new();
        elements.executable = self.inner.object;
        let mut dims = ffi::ExecutableOutputDimensions::new();
        dims.executable = self.inner.object;
        // SAFETY: the executable is alive, and the lists live as long as it; `dims` has as many numbers as the sizes add up to.
        let (elements, sizes, dims) = unsafe {
            self.inner.plugin.call(&mut count)?;
            self.inner.plugin.call(&mut elements)?;
            self.inner.plugin.call(&mut dims)?;
            let sizes = value::slice(dims.dim_sizes, dims.num_outputs);
            (
                value::slice(elements.output_types, elements.num_output_types),
                sizes,
                value::slice(dims.dims, sizes.iter().sum()),
            )
        };
        let contract = |reason| Error::Contract {
            function: "PJRT_Executable_OutputDimensions",
            reason,
        };
        if elements.len() != count.num_outputs || sizes.len() != count.num_outputs {
            return Err(contract("lists another number of outputs"));
        }
        let mut rest = dims;
        let spec = |(&code, &rank): (&i32, &usize)| {
            let element = tensor::from_code(code)?;
            let (own, others) = rest.split_at(rank);
            rest = others;
            let dims: Result<Vec<usize>, _> = own.iter().map(|&dim| usize::try_from(dim)).collect();
            let dims = dims.map_err(|_| contract("gives a negative dimension"))?;
            Ok(TensorSpec::new(element, dims))
        };
        elements.iter().zip(sizes).map(spec).collect()
    }

    /// The memory that one execution takes on each device.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn memory(&self) -> Result<CompiledMemory, Error> {
        let mut stats = ffi::ExecutableGetCompiledMemoryStats::new();
        stats.executable = self.inner.object;
        // SAFETY: the executable is alive.
        unsafe { self.inner.plugin.call(&mut stats) }?;
        let bytes = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(CompiledMemory {
            code: bytes(stats.generated_code_size_in_bytes),
            arguments: bytes(stats.argument_size_in_bytes),
            outputs: bytes(stats.output_size_in_bytes),
            aliased: bytes(stats.alias_size_in_bytes),
            temporary: bytes(stats.temp_size_in_bytes),
            peak: bytes(stats.peak_memory_in_bytes),
        })
    }

    /// The size of the compiled code in bytes; 0 or less where the plugin does not say.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn code_bytes(&self) -> Result<i64, Error> {
        let mut size = ffi::ExecutableSizeOfGeneratedCodeInBytes::new();
        size.executable = self.inner.object;
        // SAFETY: the executable is alive.
        unsafe { self.inner.plugin.call(&mut size) }?;
        Ok(size.size_in_bytes)
    }

    /// What the compiler expects an execution to cost, e.g. `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn cost(&self) -> Result<Vec<(String, Value)>, Error> {
        let mut cost = ffi::ExecutableGetCostAnalysis::new();
        cost.executable = self.inner.object;
        // SAFETY: the executable is alive, and the list lives as long as it.
        unsafe {
            self.inner.plugin.call(&mut cost)?;
            Ok(value::read(cost.properties, cost.num_properties))
        }
    }

    /// A text that is the same for the same program, options and compiler.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let mut print = ffi::ExecutableFingerprint::new();
        print.executable = self.inner.object;
        // SAFETY: the executable is alive, and the text lives as long as it.
        unsafe {
            self.inner.plugin.call(&mut print)?;
            let size = print.executable_fingerprint_size;
            Ok(value::slice(print.executable_fingerprint.cast::<u8>(), size).to_vec())
        }
    }

    /// The program after the compiler's optimisations.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn optimized(&self) -> Result<OptimizedProgram, Error> {
        let mut program = ffi::Program::new();
        let mut get = ffi::ExecutableOptimizedProgram::new();
        get.executable = self.inner.object;
        get.program = &mut program;
        // SAFETY: the executable and the record are alive; a null code asks for its size.
        unsafe { self.inner.plugin.call(&mut get) }?;
        // SAFETY: `get` borrows nothing: it is written through its pointer only while a call runs.
        let size = unsafe { (*get.program).code_size };
        let mut code = vec![0_u8; size];
        // SAFETY: as above, and the code has the size that was asked for; the format is the plugin's own text.
        unsafe {
            (*get.program).code = code.as_mut_ptr().cast();
            self.inner.plugin.call(&mut get)?;
            let format = value::text((*get.program).format, (*get.program).format_size);
            Ok(OptimizedProgram { format, code })
        }
    }

    /// The executable as bytes that [`Client::deserialize`] loads: the plugin's own, behind a header with a checksum and with
    /// what they were made by.
    ///
    /// # Errors
    ///
    /// The plugin's, e.g. where it cannot serialise.
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let mut serialize = ffi::ExecutableSerialize::new();
        serialize.executable = self.inner.object;
        // SAFETY: the executable is alive; the bytes live until the deleter is called with what backs them, once.
        unsafe {
            self.inner.plugin.call(&mut serialize)?;
            let payload = value::slice(
                serialize.serialized_bytes.cast::<u8>(),
                serialize.serialized_bytes_size,
            );
            let identity = serialized::identity(self.inner.plugin, &self.inner.platform_name);
            let bytes = serialized::wrap(payload, &identity);
            if let Some(free) = serialize.serialized_executable_deleter {
                free(serialize.serialized_executable);
            }
            Ok(bytes)
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut destroy = ffi::ExecutableDestroy::new();
        destroy.executable = self.object;
        // SAFETY: the executable is alive and is not used again. Nothing can be done about an error here.
        let _ = unsafe { self.plugin.call(&mut destroy) };
    }
}
