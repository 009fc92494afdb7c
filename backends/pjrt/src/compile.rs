//! Programs: compiling StableHLO text, loading kept bytes, and the options that say for which and how many devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::client::Client;
use crate::error::Error;
use crate::ffi;
use crate::loaded_executable::LoadedExecutable;
use crate::locate::Platform;
use crate::serialized;
use crate::types::TensorType;

/// The stack of a compilation, in bytes: MLIR's parser and XLA call themselves for each level of nesting, and regions nested
/// 128 deep overflow the 2 MiB of Rust's threads. Pages that are not used take no memory.
const STACK: usize = 64 << 20;

static COMPILED: AtomicU64 = AtomicU64::new(0);
static LOADED: AtomicU64 = AtomicU64::new(0);

/// How many programs this process got from plugins since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Programs compiled, for devices of this machine or for a topology.
    pub compiled: u64,
    /// Programs loaded from bytes, such as those of a [`crate::DiskCache`].
    pub loaded: u64,
}

/// Counts the programs that this process got from plugins so far, on all devices and threads.
pub fn program_counts() -> ProgramCounts {
    ProgramCounts {
        compiled: COMPILED.load(Ordering::Relaxed),
        loaded: LOADED.load(Ordering::Relaxed),
    }
}

/// Counts a program that a plugin has compiled.
pub(crate) fn count_compiled() {
    COMPILED.fetch_add(1, Ordering::Relaxed);
}

impl Client {
    /// Compiles a program in StableHLO text. `signature` lists the arguments that `main` takes on each device;
    /// executions are checked against it, because the plugin compares only sizes in bytes. The text must not nest
    /// regions or types hundreds deep: that overflows the plugin's stack and ends the process.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] with the line of a mistake in the text, [`Error::Program`] when no thread can be started, and
    /// [`Error::UnknownElementType`] when a result's element type is not an [`crate::ElementType`].
    pub fn compile(
        &self,
        text: &str,
        options: &CompileOptions,
        signature: Vec<TensorType>,
    ) -> Result<LoadedExecutable, Error> {
        let options = options.to_bytes_for(self.plugin().platform());
        with_program(text, |program| {
            let mut compile = ffi::ClientCompile::of(self.object());
            compile.program = program;
            compile.compile_options = options.as_ptr().cast();
            compile.compile_options_size = options.len();
            // SAFETY: the client is alive, and the program and the options live until the call returns. The executable is a
            // new one of this client, which is ours.
            unsafe {
                let compiled = self.plugin().ask(compile)?;
                count_compiled();
                LoadedExecutable::new(self.clone(), compiled.executable, signature)
            }
        })
    }

    /// Loads an executable from the bytes of [`crate::Executable::serialize`].
    ///
    /// The plugin trusts the bytes that it is given, so a header in front of them is checked first: it holds a
    /// checksum, and the plugin, platform and, on the CPU, the processor features that the bytes were made with.
    /// `signature` is that of the program.
    ///
    /// # Errors
    ///
    /// [`Error::Serialized`] when the header does not match, and [`Error::Plugin`].
    pub fn deserialize(
        &self,
        bytes: &[u8],
        signature: Vec<TensorType>,
    ) -> Result<LoadedExecutable, Error> {
        let identity = serialized::identity(self.plugin(), self.platform_name());
        let payload = serialized::unwrap(bytes, &identity)?;
        let mut load = ffi::ExecutableDeserializeAndLoad::of(self.object());
        load.serialized_executable = payload.as_ptr().cast();
        load.serialized_executable_size = payload.len();
        // SAFETY: the client is alive and the bytes live until the call returns; null options mean those in the bytes. The
        // executable is a new one of this client, which is ours.
        unsafe {
            let loaded = self.plugin().ask(load)?;
            LOADED.fetch_add(1, Ordering::Relaxed);
            LoadedExecutable::new(self.clone(), loaded.loaded_executable, signature)
        }
    }
}

/// Calls `compile` with the record of a program in StableHLO text, on a thread with a stack of [`STACK`] bytes: an
/// overflow ends the process.
///
/// # Errors
///
/// [`Error::Program`] when no thread can be started, and the errors of `compile`.
pub(crate) fn with_program<T: Send>(
    text: &str,
    compile: impl FnOnce(&ffi::ProgramCode) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    const FORMAT: &str = "mlir";
    let call = || {
        let mut program = ffi::ProgramCode::new();
        program.code = text.as_ptr().cast_mut().cast();
        program.code_size = text.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        compile(&program)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, call);
        let thread =
            thread.map_err(|error| Error::Program(format!("no thread to compile on: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Options of a compilation: the number of devices, and which. There is always at least one: a plugin ends the process
/// when it is asked for zero replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompileOptions {
    replicas: usize,
    partitions: usize,
    /// Whether Shardy cuts the program into partitions, rather than GSPMD.
    shardy: bool,
    /// Device ids, indexed by replica, then partition; `None` lets the plugin choose.
    devices: Option<Vec<i32>>,
}

impl Default for CompileOptions {
    /// Options for one device, which the plugin chooses.
    fn default() -> Self {
        Self {
            replicas: 1,
            partitions: 1,
            shardy: false,
            devices: None,
        }
    }
}

impl CompileOptions {
    /// The most devices that a program can be compiled for. The largest pod of TPUs has 9216; a plugin that is asked
    /// for billions allocates until memory is exhausted.
    pub const MAX_DEVICES: usize = 1 << 16;

    /// Options for `replicas` copies of the program, each cut into `partitions` by the sharding that the text names in
    /// attributes `mhlo.sharding`.
    ///
    /// # Errors
    ///
    /// [`Error::CompileOptions`] when either is 0, or for more devices than [`Self::MAX_DEVICES`].
    pub fn new(replicas: usize, partitions: usize) -> Result<Self, Error> {
        let refuse = |reason: String| Err(Error::CompileOptions(reason));
        if replicas == 0 || partitions == 0 {
            return refuse(format!(
                "{replicas} replicas of {partitions} partitions: at least one of each is needed"
            ));
        }
        let devices = replicas.checked_mul(partitions);
        if devices.is_none_or(|devices| devices > Self::MAX_DEVICES) {
            let most = Self::MAX_DEVICES;
            return refuse(format!(
                "{replicas} x {partitions} devices are more than {most}"
            ));
        }
        Ok(Self {
            replicas,
            partitions,
            shardy: false,
            devices: None,
        })
    }

    /// Has the program cut into partitions by Shardy, which reads the sharding in the text's dialect `sdy` and no
    /// `mhlo.sharding`.
    #[must_use]
    pub fn with_shardy(self) -> Self {
        Self {
            shardy: true,
            ..self
        }
    }

    /// Options for one device, by its id.
    ///
    /// # Errors
    ///
    /// [`Error::CompileOptions`] when `id` is negative.
    pub fn on_device(id: i32) -> Result<Self, Error> {
        Self::default().with_devices(&[id])
    }

    /// Names the devices to run on by id: those of the first replica's partitions, then those of the second, and so on.
    ///
    /// # Errors
    ///
    /// [`Error::CompileOptions`] unless `ids` has a different, non-negative id for each partition of each replica.
    pub fn with_devices(mut self, ids: &[i32]) -> Result<Self, Error> {
        let refuse = |reason: String| Err(Error::CompileOptions(reason));
        if ids.len() != self.device_count() {
            let (expected, got) = (self.device_count(), ids.len());
            return refuse(format!("expected {expected} device ids, got {got}"));
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if let Some(&id) = sorted.first().filter(|&&id| id < 0) {
            return refuse(format!("{id} is not the id of a device"));
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("device {} is named twice", pair[0]));
        }
        self.devices = Some(ids.to_vec());
        Ok(self)
    }

    /// The number of devices that the program runs on.
    pub fn device_count(&self) -> usize {
        self.replicas * self.partitions
    }

    /// The ids of the devices, if they were named.
    pub fn devices(&self) -> Option<&[i32]> {
        self.devices.as_deref()
    }

    /// Encodes the options as the `xla.CompileOptionsProto` of `xla/pjrt/proto/compile_options.proto`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // The `ExecutableBuildOptionsProto`.
        let mut build = Message::default()
            .number(4, self.replicas as u64)
            .number(5, self.partitions as u64);
        if self.partitions > 1 {
            // Let the compiler partition the program by its sharding.
            build = build.number(6, 1);
        }
        if let Some(devices) = &self.devices {
            build = build.message(9, &self.assignment(devices));
        }
        if self.shardy {
            build = build.number(19, 1);
        }
        Message::default().message(3, &build).bytes
    }

    /// Encodes the options with what `platform` needs to follow StableHLO's specification: XLA's CPU compiler returns
    /// the other operand for a maximum with NaN unless it is told not to.
    pub(crate) fn to_bytes_for(&self, platform: Platform) -> Vec<u8> {
        let mut bytes = self.to_bytes();
        if platform == Platform::Cpu {
            // `CompileOptionsProto.env_option_overrides`, a map to `OptionOverrideProto { bool bool_field = 2 }`.
            let no = Message::default().number(2, 0);
            let entry = Message::default().text(1, "xla_cpu_enable_fast_min_max");
            let entry = entry.message(2, &no);
            bytes.extend(Message::default().message(7, &entry).bytes);
        }
        bytes
    }

    /// Encodes an `xla.DeviceAssignmentProto`, which lists the replicas of each partition.
    fn assignment(&self, devices: &[i32]) -> Message {
        let mut assignment = Message::default()
            .number(1, self.replicas as u64)
            .number(2, self.partitions as u64);
        for partition in 0..self.partitions {
            let mut ids = Message::default();
            for replica in 0..self.replicas {
                // Ids are not negative, so that the cast keeps them.
                ids.varint(devices[replica * self.partitions + partition] as u64);
            }
            assignment = assignment.message(3, &Message::default().message(1, &ids));
        }
        assignment
    }
}

/// A message in the wire format of Protocol Buffers.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends a field of wire type 0: a number.
    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// Appends a field of wire type 2: a string.
    fn text(self, field: u64, text: &str) -> Self {
        self.delimited(field, text.as_bytes())
    }

    /// Appends a field of wire type 2: a message or packed numbers.
    fn message(self, field: u64, message: &Self) -> Self {
        self.delimited(field, &message.bytes)
    }

    fn delimited(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
