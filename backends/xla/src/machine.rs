//! One device, for which programs are compiled and run, and buffers of Burn's data on it.

use crate::lower::{LowerError, value_type};
use crate::stablehlo::Program;
use burn_backend::{BoolStore, DType, Shape, TensorData};
use burn_ir::TensorId;
use moebius_pjrt::{Buffer, Client, CompileOptions, Device, DiskCache, Donate, LoadedExecutable};
use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The reason why something recorded has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An operation can't be compiled, or values have a type that no program has.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The plugin refused a program or its arguments, or failed.
    #[error(transparent)]
    Plugin(#[from] moebius_pjrt::Error),
    /// A tensor was never made, or has been consumed.
    #[error("tensor {0} holds nothing: it was never made, or its last use is over")]
    Unknown(TensorId),
    /// A function was called with the wrong number of inputs.
    #[error("expected {expected} inputs, got {got}")]
    Inputs {
        /// The number of the function's inputs.
        expected: usize,
        /// The number of inputs given.
        got: usize,
    },
    /// Lowering or running a recording panicked; holds the message.
    #[error("a defect of moebius-xla, please report it: {0}")]
    Defect(String),
    /// A tensor came from another device, on which it couldn't be read; holds the reason.
    #[error("the device it came from: {0}")]
    Moved(String),
}

/// One device of a plugin, with the programs compiled for it.
#[derive(Clone, Debug)]
pub struct Machine {
    device: Device,
    options: CompileOptions,
    cache: Option<DiskCache>,
    /// Programs that are still held elsewhere, by a hash of their text.
    programs: Arc<Mutex<HashMap<blake3::Hash, Weak<LoadedExecutable>>>>,
}

impl Machine {
    /// Makes the machine that runs on `device`.
    ///
    /// # Errors
    ///
    /// [`moebius_pjrt::Error::CompileOptions`] when the device's id is negative.
    pub fn new(device: Device) -> Result<Self, moebius_pjrt::Error> {
        let options = CompileOptions::on_device(device.id())?;
        Ok(Self {
            device,
            options,
            cache: None,
            programs: Arc::default(),
        })
    }

    /// Keeps this machine's programs on disk between processes, in `cache`.
    #[must_use]
    pub fn with_cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The machine's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The client that the device belongs to.
    pub fn client(&self) -> &Client {
        self.device.client()
    }

    /// Compiles a program, or returns one of the same text that is still held.
    ///
    /// # Errors
    ///
    /// [`RunError::Plugin`] when the plugin refuses the program.
    pub fn compile(&self, program: &Program) -> Result<Arc<LoadedExecutable>, RunError> {
        let key = blake3::hash(program.text.as_bytes());
        let held = self.programs().get(&key).and_then(Weak::upgrade);
        if let Some(executable) = held {
            return Ok(executable);
        }
        // Compile without the lock: other threads may compile at the same time.
        let cache = self.cache.as_ref();
        let executable = Arc::new(compile(self.client(), cache, &self.options, program)?);
        let mut programs = self.programs();
        programs.retain(|_, program| program.strong_count() > 0);
        programs.insert(key, Arc::downgrade(&executable));
        Ok(executable)
    }

    fn programs(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Weak<LoadedExecutable>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles a program, or takes it from the disk cache.
pub(crate) fn compile(
    client: &Client,
    cache: Option<&DiskCache>,
    options: &CompileOptions,
    program: &Program,
) -> Result<LoadedExecutable, moebius_pjrt::Error> {
    let (text, inputs) = (&program.text, program.inputs.clone());
    match cache {
        Some(cache) => Ok(cache.compile_cached(client, text, options, inputs)?.0),
        None => client.compile(text, options, inputs),
    }
}

/// Starts a program on its one device. A donated argument is overwritten if nothing else holds it.
///
/// # Errors
///
/// [`RunError::Plugin`] when the arguments don't match the program, or the plugin fails.
pub fn run(
    executable: &LoadedExecutable,
    arguments: Vec<Arc<Buffer>>,
) -> Result<Vec<Arc<Buffer>>, RunError> {
    let shared = |argument: &Arc<Buffer>| Arc::strong_count(argument) > 1;
    let kept: Vec<usize> = (0..arguments.len())
        .filter(|i| shared(&arguments[*i]))
        .collect();
    let borrowed: Vec<&Buffer> = arguments.iter().map(Arc::as_ref).collect();
    let results = executable.execute(&borrowed, Donate::AllBut(&kept))?;
    Ok(results.into_iter().map(Arc::new).collect())
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(ToString::to_string);
    message.or_else(literal).unwrap_or_default()
}

/// Copies values to a buffer on the machine's device, e.g. to call a [`CompiledFunction`](crate::CompiledFunction).
///
/// # Errors
///
/// [`LowerError::Quantised`](crate::lower::LowerError::Quantised) for a quantised dtype, and [`RunError::Plugin`] when
/// the plugin fails.
pub fn upload(machine: &Machine, data: &TensorData) -> Result<Arc<Buffer>, RunError> {
    let ty = value_type(data.shape(), data.dtype())?;
    let bytes = data.as_bytes();
    let device = machine.device();
    let buffer = match data.dtype() {
        // Burn has a word for each boolean; a buffer has a byte.
        DType::Bool(BoolStore::U32) => {
            let words = bytes.chunks(4);
            let bytes: Vec<u8> = words.map(|word| u8::from(word != [0; 4])).collect();
            Buffer::from_host(device, &ty, &bytes)?
        }
        _ => Buffer::from_host(device, &ty, bytes)?,
    };
    Ok(Arc::new(buffer))
}

/// Reads the values of a buffer as Burn's `dtype`.
pub(crate) fn read(buffer: &Buffer, dtype: DType) -> Result<TensorData, RunError> {
    let shape: Vec<usize> = buffer.dims().to_vec();
    let mut bytes = buffer.read()?;
    if dtype == DType::Bool(BoolStore::U32) {
        bytes = bytes
            .into_iter()
            .flat_map(|byte| u32::from(byte).to_le_bytes())
            .collect();
    }
    Ok(TensorData::from_bytes_vec(bytes, Shape::from(shape), dtype))
}

/// The initial state of the random number generator for `seed`.
pub(crate) fn random_state(machine: &Machine, seed: u64) -> Result<Arc<Buffer>, RunError> {
    upload(machine, &TensorData::new(vec![seed, 0], [2]))
}

/// A number that can't be guessed from outside the process: the standard library seeds its hashers from the system's
/// random number generator.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
