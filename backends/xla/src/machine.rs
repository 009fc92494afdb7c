//! One device: compiling programs for it and running them, and Burn's data as buffers on it.

use crate::lower::{LowerError, value_type};
use crate::stablehlo::Program;
use burn_backend::{BoolStore, DType, Shape, TensorData};
use burn_ir::TensorId;
use moebius_pjrt::{Buffer, Client, CompileOptions, Device, DiskCache, Donate, LoadedExecutable};
use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Why something recorded has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An operation that can't be compiled, or a type of values that no program has.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The plugin refuses a program or its arguments.
    #[error(transparent)]
    Plugin(#[from] moebius_pjrt::Error),
    /// A tensor that was never made, or was used up.
    #[error("tensor {0} holds nothing: it was never made, or its last use is over")]
    Unknown(TensorId),
    /// A function is called with more or fewer inputs than it has.
    #[error("expected {expected} inputs, got {got}")]
    Inputs {
        /// Inputs of the function.
        expected: usize,
        /// Inputs that came.
        got: usize,
    },
    /// Lowering a recording panicked.
    #[error("a defect of moebius-xla, please report it: {0}")]
    Defect(String),
    /// A tensor came from a device where it couldn't be read.
    #[error("the device it came from: {0}")]
    Moved(String),
}

/// One device of a plugin.
#[derive(Clone, Debug)]
pub struct Machine {
    device: Device,
    options: CompileOptions,
    cache: Option<DiskCache>,
    /// Programs that are still held, by their text.
    programs: Arc<Mutex<HashMap<blake3::Hash, Weak<LoadedExecutable>>>>,
}

impl Machine {
    /// The machine that runs on `device`.
    ///
    /// # Errors
    ///
    /// [`moebius_pjrt::Error::CompileOptions`] for a device whose id is negative.
    pub fn new(device: Device) -> Result<Self, moebius_pjrt::Error> {
        let options = CompileOptions::on_device(device.id())?;
        Ok(Self {
            device,
            options,
            cache: None,
            programs: Arc::default(),
        })
    }

    /// The same, with programs kept on disk between processes.
    #[must_use]
    pub fn with_cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its plugin's client.
    pub fn client(&self) -> &Client {
        self.device.client()
    }

    /// Compiles a program, unless one of the same text is still held.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn compile(&self, program: &Program) -> Result<Arc<LoadedExecutable>, RunError> {
        let key = blake3::hash(program.text.as_bytes());
        let held = self.programs().get(&key).and_then(Weak::upgrade);
        if let Some(executable) = held {
            return Ok(executable);
        }
        // Not under the lock: others may compile at the same time.
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

/// Compiles a program, or takes it from the disk.
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

/// Starts a program on its one device. An argument that it may overwrite is overwritten if this is its last holder.
///
/// # Errors
///
/// The plugin's, and where the arguments aren't those of the program.
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

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(ToString::to_string);
    message.or_else(literal).unwrap_or_default()
}

/// A buffer with these values on the machine's device, to call a
/// [`CompiledFunction`](crate::CompiledFunction) with.
///
/// # Errors
///
/// The plugin's, and [`LowerError::Quantised`](crate::lower::LowerError::Quantised).
pub fn upload(machine: &Machine, data: &TensorData) -> Result<Arc<Buffer>, RunError> {
    let ty = value_type(data.shape(), data.dtype())?;
    let bytes = data.as_bytes();
    let device = machine.device();
    let buffer = match data.dtype() {
        // A word each; a buffer has a byte.
        DType::Bool(BoolStore::U32) => {
            let words = bytes.chunks(4);
            let bytes: Vec<u8> = words.map(|word| u8::from(word != [0; 4])).collect();
            Buffer::from_host(device, &ty, &bytes)?
        }
        _ => Buffer::from_host(device, &ty, bytes)?,
    };
    Ok(Arc::new(buffer))
}

/// The values of a buffer, as Burn's `dtype`.
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

/// The state of a random number generator that starts with `seed`.
pub(crate) fn random_state(machine: &Machine, seed: u64) -> Result<Arc<Buffer>, RunError> {
    upload(machine, &TensorData::new(vec![seed, 0], [2]))
}

/// A number that can't be guessed outside the process: the standard library keys its hashes from the
/// system's generator.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
