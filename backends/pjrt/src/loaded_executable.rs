//! Programs loaded on devices, and their execution.

use std::ptr;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::client::{Client, Device};
use crate::error::Error;
use crate::executable::Executable;
use crate::ffi::{self, BufferObject, LoadedObject};
use crate::plugin::Owned;
use crate::types::TensorType;
use crate::value;

/// The arguments that an execution may overwrite with its results. Only arguments that the program's text marks with
/// `tf.aliasing_output` or `jax.buffer_donor` are ever donated.
#[derive(Clone, Copy, Debug, Default)]
pub enum Donate<'a> {
    /// All arguments that the program marks. Their buffers are gone afterwards: using one gives [`Error::Donated`].
    #[default]
    Marked,
    /// No argument; marked ones are copied if need be.
    Nothing,
    /// All arguments that the program marks, except those with these indices.
    AllBut(&'a [usize]),
}

/// A program loaded on devices. Clones share the program; it is unloaded with the last of them.
#[derive(Clone, Debug)]
pub struct LoadedExecutable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    object: Owned<ffi::LoadedExecutableDestroy>,
    client: Client,
    executable: Executable,
    /// The types of `main`'s arguments on each device.
    inputs: Vec<TensorType>,
    outputs: Vec<Arc<TensorType>>,
    /// Indices of the program's devices in the client's list.
    devices: Vec<usize>,
    /// The indices 0, 1, 2, … of the arguments.
    indices: Vec<i64>,
}

impl LoadedExecutable {
    /// Takes ownership of a loaded executable of the client's plugin.
    ///
    /// # Safety
    ///
    /// `object` is a live loaded executable of `client` that nothing else frees.
    pub(crate) unsafe fn new(
        client: Client,
        object: *mut LoadedObject,
        inputs: Vec<TensorType>,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let (object, executable) = unsafe {
            let owned = Owned::new(client.plugin(), object);
            (owned, executable(&client, object)?)
        };
        let inner = Inner {
            outputs: executable.outputs()?.into_iter().map(Arc::new).collect(),
            devices: devices(&client, &object)?,
            indices: (0..inputs.len() as i64).collect(),
            object,
            client,
            executable,
            inputs,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The client that the program is loaded by.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The types of the arguments on each device.
    pub fn inputs(&self) -> &[TensorType] {
        &self.inner.inputs
    }

    /// The types of the results on each device.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorType> {
        self.inner.outputs.iter().map(|output| &**output)
    }

    /// The devices that the program runs on, in the order in which [`Self::execute_sharded`] takes arguments.
    pub fn devices(&self) -> Vec<Device> {
        let device = |&index: &usize| Device::new(self.inner.client.clone(), index);
        self.inner.devices.iter().map(device).collect()
    }

    /// The compiled program, which tells its memory and cost and can be serialised.
    pub fn executable(&self) -> &Executable {
        &self.inner.executable
    }

    /// Runs the program on its one device. Returns as soon as the work has begun: the results can be used at once, also
    /// as arguments, and an error of the execution itself comes when they are read.
    ///
    /// # Errors
    ///
    /// [`Error::ArgumentCount`], [`Error::Argument`], [`Error::ArgumentDevice`] and [`Error::OtherClient`] when the
    /// arguments do not match the signature, the device or the client; [`Error::DeviceCount`] for a program of several
    /// devices; [`Error::Donated`] for an argument that was donated before; and [`Error::Plugin`].
    pub fn execute(&self, arguments: &[&Buffer], donate: Donate<'_>) -> Result<Vec<Buffer>, Error> {
        self.run(&[arguments], donate)
    }

    /// Runs the program on all its devices. `arguments` has one list for each device, in the order of
    /// [`Self::devices`]; so have the results.
    ///
    /// # Errors
    ///
    /// As for [`Self::execute`].
    pub fn execute_sharded<'a>(
        &self,
        arguments: &[impl AsRef<[&'a Buffer]>],
        donate: Donate<'_>,
    ) -> Result<Vec<Vec<Buffer>>, Error> {
        let arguments: Vec<&[&Buffer]> = arguments.iter().map(AsRef::as_ref).collect();
        let mut outputs = self.run(&arguments, donate)?;
        let each = self.inner.outputs.len();
        // Split from the back, so that the results before stay in place.
        let starts = (0..arguments.len()).rev();
        let mut devices: Vec<_> = starts.map(|i| outputs.split_off(i * each)).collect();
        devices.reverse();
        Ok(devices)
    }

    /// Runs the program and returns the results of all devices, one device after the other.
    fn run(&self, lists: &[&[&Buffer]], donate: Donate<'_>) -> Result<Vec<Buffer>, Error> {
        self.check(lists)?;
        let inner = &*self.inner;
        let count = inner.inputs.len();
        let kept = self.kept(donate)?;
        let arguments = lists.iter().copied().flatten();
        let arguments: Vec<*mut BufferObject> = arguments.map(|buffer| buffer.object()).collect();
        let mut outputs: Vec<*mut BufferObject> =
            vec![ptr::null_mut(); lists.len() * inner.outputs.len()];
        // Pointers to the rows of the two tables; `wrapping_add`, because a row without elements has no address.
        let rows = |start: usize, each: usize| (0..lists.len()).map(move |i| start + i * each);
        let argument_rows: Vec<*const *mut BufferObject> = rows(0, count)
            .map(|at| arguments.as_ptr().wrapping_add(at))
            .collect();
        let first = outputs.as_mut_ptr();
        let output_rows: Vec<*mut *mut BufferObject> = rows(0, inner.outputs.len())
            .map(|at| first.wrapping_add(at))
            .collect();
        let mut options = ffi::ExecuteOptions::new();
        options.non_donatable_input_indices = kept.as_ptr();
        options.num_non_donatable_input_indices = kept.len();
        let mut execute = ffi::LoadedExecutableExecute::of(inner.object.get());
        execute.options = &mut options;
        execute.argument_lists = argument_rows.as_ptr();
        execute.num_devices = lists.len();
        execute.num_args = count;
        execute.output_lists = output_rows.as_ptr();
        // SAFETY: the executable is alive; the arguments are live buffers of its client,
        // as many per device as `num_args`, and the tables live until the call returns. Null events and device mean that
        // none are asked for and that it runs where it was compiled for.
        let executed = unsafe { inner.client.plugin().ask(execute) };
        executed.map_err(|error| explain(lists, error))?;
        // SAFETY: the plugin has filled in a new buffer for each output of each device.
        unsafe { self.take(&outputs) }
    }

    /// Wraps the results of an execution as buffers.
    ///
    /// # Safety
    ///
    /// `outputs` are null or live buffers of the client that nothing else frees, one for each output of each device.
    unsafe fn take(&self, outputs: &[*mut BufferObject]) -> Result<Vec<Buffer>, Error> {
        let inner = &*self.inner;
        if outputs.iter().any(|output| output.is_null()) {
            return Err(Error::Contract {
                function: "PJRT_LoadedExecutable_Execute",
                reason: "an output is missing",
            });
        }
        let places = inner.devices.iter();
        let places =
            places.flat_map(|&device| inner.outputs.iter().map(move |spec| (device, spec)));
        let buffer =
            |(&object, (device, spec)): (&*mut BufferObject, (usize, &Arc<TensorType>))| {
                // SAFETY: the caller's promise, and the program says what each output is.
                unsafe { Buffer::new(inner.client.clone(), object, device, spec.clone()) }
            };
        Ok(outputs.iter().zip(places).map(buffer).collect())
    }

    /// Compares the arguments with the signature, the devices and the client.
    fn check(&self, lists: &[&[&Buffer]]) -> Result<(), Error> {
        let inner = &*self.inner;
        let (expected, got) = (inner.devices.len(), lists.len());
        if expected != got {
            return Err(Error::DeviceCount { expected, got });
        }
        for (&device, arguments) in inner.devices.iter().zip(lists) {
            let (expected, got) = (inner.inputs.len(), arguments.len());
            if expected != got {
                return Err(Error::ArgumentCount { expected, got });
            }
            let arguments = arguments.iter().zip(&inner.inputs);
            for (index, (argument, expected)) in arguments.enumerate() {
                if argument.spec() != expected {
                    return Err(Error::Argument {
                        index,
                        expected: expected.clone(),
                        got: argument.spec().clone(),
                    });
                }
                if *argument.client() != inner.client {
                    return Err(Error::OtherClient("an argument"));
                }
                if argument.device_index() != device {
                    return Err(Error::ArgumentDevice {
                        index,
                        expected: device,
                        got: argument.device_index(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The indices of the arguments that may not be donated.
    fn kept<'a>(&'a self, donate: Donate<'_>) -> Result<std::borrow::Cow<'a, [i64]>, Error> {
        let indices = &self.inner.indices;
        Ok(match donate {
            Donate::Marked => Default::default(),
            Donate::Nothing => indices.into(),
            Donate::AllBut(kept) => {
                let number = |&index: &usize| {
                    let number = indices.get(index).copied();
                    number.ok_or(Error::ArgumentCount {
                        expected: indices.len(),
                        got: index + 1,
                    })
                };
                kept.iter()
                    .map(number)
                    .collect::<Result<Vec<i64>, _>>()?
                    .into()
            }
        })
    }
}

/// The executable of a loaded program.
///
/// # Safety
///
/// `loaded` is a live executable of the client.
unsafe fn executable(client: &Client, loaded: *mut LoadedObject) -> Result<Executable, Error> {
    let get = ffi::LoadedExecutableGetExecutable::of(loaded);
    let name = client.platform_name().to_owned();
    // SAFETY: the caller's promise; the header leaves the new object to us.
    unsafe {
        let object = Owned::new(client.plugin(), client.plugin().ask(get)?.executable);
        Ok(Executable::new(object, name, client.clone()))
    }
}

/// The indices of the devices that a program runs on.
fn devices(
    client: &Client,
    object: &Owned<ffi::LoadedExecutableDestroy>,
) -> Result<Vec<usize>, Error> {
    // SAFETY: the executable is alive, and the list lives as long as it.
    let devices = unsafe {
        let list = object.ask(ffi::LoadedExecutableAddressableDevices::of)?;
        value::slice(list.addressable_devices, list.num_addressable_devices)
    };
    let devices = devices.iter().map(|&device| client.device_index(device));
    let devices: Option<Vec<usize>> = devices.collect();
    devices.ok_or(Error::Contract {
        function: "PJRT_LoadedExecutable_AddressableDevices",
        reason: "names a device that the client does not have",
    })
}

/// Replaces an execution's error by [`Error::Donated`] when the cause is a donated argument.
#[cold]
fn explain(lists: &[&[&Buffer]], error: Error) -> Error {
    let mut arguments = lists.iter().copied().flatten();
    let gone = arguments.find_map(|argument| argument.check_alive().err());
    gone.unwrap_or(error)
}
