//! The values of a tensor between runs.

use crate::lower::{LowerError, value_type};
use crate::machine::{Machine, RunError};
use burn_backend::{DType, TensorData};
use moebius_pjrt::{Buffer, Event, LoadedExecutable};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values of a tensor: on the devices, or on the host until a program says whether each of several devices needs all
/// of them or a part.
#[derive(Debug)]
pub(super) struct Stored(Mutex<Values>);

#[derive(Clone, Debug)]
enum Values {
    Host(TensorData),
    Devices {
        /// A buffer on each device.
        buffers: Vec<Buffer>,
        /// Whether each place of experts has a part.
        divided: bool,
    },
}

impl Stored {
    /// Values that come from the host.
    pub(super) fn new(machine: &Machine, data: TensorData) -> Result<Self, RunError> {
        if machine.mesh().is_none() {
            return Self::on_each(machine, &data);
        }
        value_type(data.shape(), data.dtype())?;
        Ok(Self(Mutex::new(Values::Host(data))))
    }

    /// Values that every device needs.
    pub(super) fn on_each(machine: &Machine, data: &TensorData) -> Result<Self, RunError> {
        Ok(Self::made(machine.spread(data, false)?, false))
    }

    fn made(buffers: Vec<Buffer>, divided: bool) -> Self {
        Self(Mutex::new(Values::Devices { buffers, divided }))
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each place of experts has a part of the values.
    pub(super) fn is_divided(&self) -> bool {
        matches!(*self.values(), Values::Devices { divided: true, .. })
    }

    /// The buffers of values of which each device has its part if `divided`, and all otherwise. Values that lie differently
    /// are copied and lie like this from then on.
    fn placed(&self, machine: &Machine, divided: bool) -> Result<Vec<Buffer>, RunError> {
        let mut values = self.values();
        let buffers = match &*values {
            Values::Devices {
                buffers,
                divided: now,
            } if *now == divided => return Ok(buffers.clone()),
            Values::Devices {
                buffers,
                divided: now,
            } => {
                let element = buffers[0].element();
                let quantised = || LowerError::Quantised(element.to_string());
                let dtype = crate::dtype(element).ok_or_else(quantised)?;
                machine.spread(&machine.gather(buffers, *now, dtype)?, divided)?
            }
            Values::Host(data) => machine.spread(data, divided)?,
        };
        *values = Values::Devices {
            buffers: buffers.clone(),
            divided,
        };
        Ok(buffers)
    }

    /// Reads the values as Burn's `dtype`; waits for the devices.
    pub(super) fn read(&self, machine: &Machine, dtype: DType) -> Result<TensorData, RunError> {
        // The lock isn't held while the devices compute.
        let values = self.values().clone();
        match values {
            Values::Host(data) if data.dtype() == dtype => Ok(data),
            Values::Host(data) => machine.gather(&machine.spread(&data, false)?, false, dtype),
            Values::Devices { buffers, divided } => machine.gather(&buffers, divided, dtype),
        }
    }

    /// Events that come when the values are computed, one for each device.
    pub(super) fn ready(&self) -> Vec<Result<Event, RunError>> {
        match &*self.values() {
            Values::Host(_) => Vec::new(),
            Values::Devices { buffers, .. } => {
                let ready = buffers.iter().map(|buffer| Ok(buffer.ready()?));
                ready.collect()
            }
        }
    }
}

/// Starts a program on the machine's devices and returns its results. Of each argument and each result, `divided` says
/// whether each place of experts has a part. A donated argument is overwritten if nothing else holds it.
pub(super) fn run(
    machine: &Machine,
    executable: &LoadedExecutable,
    arguments: &[Arc<Stored>],
    divided: (&[bool], &[bool]),
) -> Result<Vec<Arc<Stored>>, RunError> {
    let placed = arguments.iter().zip(divided.0);
    let buffers = placed.map(|(argument, divided)| argument.placed(machine, *divided));
    let buffers = buffers.collect::<Result<Vec<_>, RunError>>()?;
    let shared = |argument: &Arc<Stored>| Arc::strong_count(argument) > 1;
    let kept: Vec<usize> = (0..arguments.len())
        .filter(|i| shared(&arguments[*i]))
        .collect();
    let results = machine.run_all(executable, &buffers, &kept)?;
    let results = results.into_iter().zip(divided.1);
    let stored = results.map(|(buffers, divided)| Arc::new(Stored::made(buffers, *divided)));
    Ok(stored.collect())
}
