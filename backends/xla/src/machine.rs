//! The devices for which programs are compiled and run, and buffers of Burn's data on them.

use crate::lower::{LowerError, value_type};
use crate::stablehlo::{Axis, Mesh, Program};
use burn_backend::{BoolStore, DType, Shape, TensorData};
use burn_ir::TensorId;
use moebius_pjrt::{Buffer, Client, CompileOptions, Device, DiskCache, Donate, LoadedExecutable};
use std::any::Any;
use std::borrow::Cow;
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

/// One device of a plugin, or several that run one program together, with the programs compiled for them.
#[derive(Clone, Debug)]
pub struct Machine {
    devices: Vec<Device>,
    /// How programs are divided among several devices.
    mesh: Option<Mesh>,
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
        Ok(Self::of(vec![device], None, options))
    }

    /// Makes the machine whose programs XLA divides among `devices`, the devices of `mesh` by their numbers.
    ///
    /// # Errors
    ///
    /// [`moebius_pjrt::Error::CompileOptions`] unless there are as many different devices as the mesh has.
    pub fn placed(devices: Vec<Device>, mesh: Mesh) -> Result<Self, moebius_pjrt::Error> {
        let ids: Vec<i32> = devices.iter().map(Device::id).collect();
        let options = CompileOptions::new(1, mesh.devices())?.with_devices(&ids)?;
        Ok(match devices.len() {
            1 => Self::of(devices, None, options),
            _ => Self::of(devices, Some(mesh), options.with_shardy()),
        })
    }

    fn of(devices: Vec<Device>, mesh: Option<Mesh>, options: CompileOptions) -> Self {
        Self {
            devices,
            mesh,
            options,
            cache: None,
            programs: Arc::default(),
        }
    }

    /// Keeps this machine's programs on disk between processes, in `cache`.
    #[must_use]
    pub fn with_cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The machine's device; the first of several.
    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// How programs are divided among the machine's devices; `None` for one device.
    pub fn mesh(&self) -> Option<Mesh> {
        self.mesh
    }

    /// The client that the devices belong to.
    pub fn client(&self) -> &Client {
        self.device().client()
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

    /// Copies values to the devices: all of them to each, or, if `divided`, to each the part of its place of experts.
    ///
    /// # Errors
    ///
    /// As for [`upload`].
    pub(crate) fn spread(&self, data: &TensorData, divided: bool) -> Result<Vec<Buffer>, RunError> {
        let (whole, bytes) = (value_type(data.shape(), data.dtype())?, bytes_of(data));
        let devices = self.devices.iter().enumerate();
        let buffers = devices.map(|(at, device)| match self.mesh.filter(|_| divided) {
            Some(mesh) => {
                let part = mesh.local(&whole, Some(Axis::Experts));
                let from = mesh.place(Axis::Experts, at) * part.bytes();
                Buffer::from_host(device, &part, &bytes[from..][..part.bytes()])
            }
            None => Buffer::from_host(device, &whole, &bytes),
        });
        Ok(buffers.collect::<Result<_, moebius_pjrt::Error>>()?)
    }

    /// Reads the values of a tensor from its buffers, as [`Machine::spread`] makes them, in Burn's `dtype`.
    ///
    /// # Errors
    ///
    /// [`RunError::Plugin`] when the plugin fails.
    pub(crate) fn gather(
        &self,
        buffers: &[Buffer],
        divided: bool,
        dtype: DType,
    ) -> Result<TensorData, RunError> {
        let Some(mesh) = self.mesh.filter(|_| divided) else {
            return read(&buffers[0], dtype);
        };
        let mut shape = buffers[0].dims().to_vec();
        shape[0] *= mesh.places(Axis::Experts);
        let mut bytes = Vec::new();
        for (at, buffer) in buffers.iter().enumerate() {
            if mesh.place(Axis::Data, at) == 0 {
                bytes.extend(buffer.read()?);
            }
        }
        Ok(values_of(bytes, shape, dtype))
    }

    /// Starts a program on all devices. Each argument and each result is a list of buffers, one for each device; the
    /// arguments whose indices are in `kept` aren't donated.
    ///
    /// # Errors
    ///
    /// As for [`run`].
    pub(crate) fn run_all(
        &self,
        executable: &LoadedExecutable,
        arguments: &[Vec<Buffer>],
        kept: &[usize],
    ) -> Result<Vec<Vec<Buffer>>, RunError> {
        let place = |device: &Device| self.devices.iter().position(|own| own == device);
        let places = executable.devices();
        let places = places.iter().map(|device| {
            place(device).unwrap_or_else(|| unreachable!("a program runs where it is compiled for"))
        });
        let places: Vec<usize> = places.collect();
        let of_device = |at: &usize| arguments.iter().map(|argument| &argument[*at]).collect();
        let lists: Vec<Vec<&Buffer>> = places.iter().map(of_device).collect();
        let made = executable.execute_sharded(&lists, Donate::AllBut(kept))?;
        let mut made: Vec<(usize, Vec<Buffer>)> = places.into_iter().zip(made).collect();
        made.sort_by_key(|(place, _)| *place);
        let mut results = vec![Vec::with_capacity(made.len()); executable.outputs().len()];
        for (_, buffers) in made {
            let pairs = results.iter_mut().zip(buffers);
            pairs.for_each(|(result, buffer)| result.push(buffer));
        }
        Ok(results)
    }
}

/// Compiles a program, or takes it from the disk cache.
fn compile(
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
    let buffer = Buffer::from_host(machine.device(), &ty, &bytes_of(data))?;
    Ok(Arc::new(buffer))
}

/// The bytes of values as buffers hold them. Burn may have a word for each boolean; a buffer has a byte.
fn bytes_of(data: &TensorData) -> Cow<'_, [u8]> {
    let bytes = data.as_bytes();
    match data.dtype() {
        DType::Bool(BoolStore::U32) => {
            let words = bytes.chunks(4);
            words.map(|word| u8::from(word != [0; 4])).collect()
        }
        _ => bytes.into(),
    }
}

/// Values in Burn's `dtype` from the bytes of a buffer.
fn values_of(mut bytes: Vec<u8>, shape: Vec<usize>, dtype: DType) -> TensorData {
    if dtype == DType::Bool(BoolStore::U32) {
        bytes = bytes
            .into_iter()
            .flat_map(|byte| u32::from(byte).to_le_bytes())
            .collect();
    }
    TensorData::from_bytes_vec(bytes, Shape::from(shape), dtype)
}

/// Reads the values of a buffer as Burn's `dtype`.
pub(crate) fn read(buffer: &Buffer, dtype: DType) -> Result<TensorData, RunError> {
    Ok(values_of(buffer.read()?, buffer.dims().to_vec(), dtype))
}

/// The initial state of the random number generator for `seed`.
pub(crate) fn random_state(seed: u64) -> TensorData {
    TensorData::new(vec![seed, 0], [2])
}

/// A number that can't be guessed from outside the process: the standard library seeds its hashers from the system's
/// random number generator.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
