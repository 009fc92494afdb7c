//! Compiled programs, loaded or not: their results, memory and cost.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::ffi;
use crate::plugin::Owned;
use crate::serialized;
use crate::types::{ElementType, TensorType};
use crate::value::{self, Value};

/// A compiled program. It need not be loaded on a device: [`crate::Topology::compile`] makes it for devices elsewhere.
#[derive(Clone, Debug)]
pub struct Executable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    object: Owned<ffi::ExecutableDestroy>,
    platform_name: String,
    /// Keeps the client or the topology alive: the executable needs it.
    _maker: Box<dyn fmt::Debug + Send + Sync>,
}

/// The memory that one execution takes on each device, in bytes, as the compiler plans it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemory {
    /// Bytes of the machine code.
    pub code: u64,
    /// Bytes of the arguments.
    pub arguments: u64,
    /// Bytes of the results.
    pub outputs: u64,
    /// Bytes of results that are written in place of donated arguments.
    pub aliased: u64,
    /// Bytes of intermediate values.
    pub temporary: u64,
    /// The most bytes in use at any one time; 0 where the plugin does not say.
    pub peak: u64,
}

/// A program after the compiler's optimisations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizedProgram {
    /// What `code` is: `hlo` or `hlo_with_config`, both serialised protocol buffers of XLA, or `mlir`.
    pub format: String,
    /// The encoded program.
    pub code: Vec<u8>,
}

impl Executable {
    /// Wraps an executable of `maker`, the client or topology, and keeps `maker` alive.
    pub(crate) fn new(
        object: Owned<ffi::ExecutableDestroy>,
        platform_name: String,
        maker: impl fmt::Debug + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner {
            object,
            platform_name,
            _maker: Box::new(maker),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The name of the program's module.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn name(&self) -> Result<String, Error> {
        // SAFETY: the executable is alive, and its name lives as long as it.
        unsafe {
            let name = self.inner.object.ask(ffi::ExecutableName::of)?;
            Ok(value::text(name.executable_name, name.executable_name_size))
        }
    }

    /// The types of the results on each device. A result of bounded dynamic size has its bound as extent.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownElementType`] for an element type that this crate doesn't have, [`Error::Contract`] when the
    /// plugin's lists do not fit together, and [`Error::Plugin`].
    pub fn outputs(&self) -> Result<Vec<TensorType>, Error> {
        let object = &self.inner.object;
        // SAFETY: the executable is alive, and the lists live as long as it; `dims` has as many numbers as the sizes add up to.
        let (count, elements, sizes, dims) = unsafe {
            let count = object.ask(ffi::ExecutableNumOutputs::of)?.num_outputs;
            let elements = object.ask(ffi::ExecutableOutputElementTypes::of)?;
            let dims = object.ask(ffi::ExecutableOutputDimensions::of)?;
            let sizes = value::slice(dims.dim_sizes, dims.num_outputs);
            (
                count,
                value::slice(elements.output_types, elements.num_output_types),
                sizes,
                value::slice(dims.dims, sizes.iter().sum()),
            )
        };
        let contract = |reason| Error::Contract {
            function: "PJRT_Executable_OutputDimensions",
            reason,
        };
        if elements.len() != count || sizes.len() != count {
            return Err(contract("lists another number of outputs"));
        }
        let mut rest = dims;
        let spec = |(&code, &rank): (&i32, &usize)| {
            let element = ElementType::from_code(code);
            let element = element.ok_or(Error::UnknownElementType(code))?;
            let (own, others) = rest.split_at(rank);
            rest = others;
            let dims: Result<Vec<usize>, _> = own.iter().map(|&dim| usize::try_from(dim)).collect();
            let dims = dims.map_err(|_| contract("gives a negative dimension"))?;
            Ok(TensorType::new(dims, element))
        };
        elements.iter().zip(sizes).map(spec).collect()
    }

    /// The memory that one execution takes on each device.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn memory(&self) -> Result<CompiledMemory, Error> {
        let stats = ffi::ExecutableGetCompiledMemoryStats::of;
        // SAFETY: the executable is alive.
        let stats = unsafe { self.inner.object.ask(stats) }?;
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

    /// The compiler's estimates of what an execution costs, e.g. `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn cost(&self) -> Result<Vec<(String, Value)>, Error> {
        // SAFETY: the executable is alive, and the list lives as long as it.
        unsafe {
            let cost = self.inner.object.ask(ffi::ExecutableGetCostAnalysis::of)?;
            Ok(value::read(cost.properties, cost.num_properties))
        }
    }

    /// A fingerprint: equal bytes for the same program, options and compiler.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the executable is alive, and the text lives as long as it.
        unsafe {
            let print = self.inner.object.ask(ffi::ExecutableFingerprint::of)?;
            let size = print.executable_fingerprint_size;
            Ok(value::slice(print.executable_fingerprint.cast::<u8>(), size).to_vec())
        }
    }

    /// The program after the compiler's optimisations.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn optimized(&self) -> Result<OptimizedProgram, Error> {
        let mut program = ffi::ProgramCode::new();
        let get = |program: &mut ffi::ProgramCode| {
            let mut get = ffi::ExecutableOptimizedProgram::of(self.inner.object.get());
            get.program = program;
            // SAFETY: the executable and the record are alive. A null code asks for its size; one that isn't null has it.
            unsafe { self.inner.object.plugin().ask(get) }.map(drop)
        };
        get(&mut program)?;
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        get(&mut program)?;
        // SAFETY: the format is the plugin's own text.
        let format = unsafe { value::text(program.format, program.format_size) };
        Ok(OptimizedProgram { format, code })
    }

    /// Serialises the executable to bytes that [`crate::Client::deserialize`] loads: a header with a checksum and the
    /// identity of the plugin, then the plugin's own bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`], e.g. when the plugin cannot serialise.
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let Inner { object, .. } = &*self.inner;
        // SAFETY: the executable is alive; the bytes live until the deleter is called with what backs them, once.
        unsafe {
            let serialize = object.ask(|it| ffi::ExecutableSerialize::of(it))?;
            let payload = value::slice(
                serialize.serialized_bytes.cast::<u8>(),
                serialize.serialized_bytes_size,
            );
            let identity = serialized::identity(object.plugin(), &self.inner.platform_name);
            let bytes = serialized::wrap(payload, &identity);
            if let Some(free) = serialize.serialized_executable_deleter {
                free(serialize.serialized_executable);
            }
            Ok(bytes)
        }
    }
}
