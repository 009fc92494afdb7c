//! The moments of an optimizer, and where they are between its steps.

use super::moment_file::{MomentFile, MomentReads, Region, lock, read_ahead};
use crate::Error;
use burn::optim::{
    AdamW, AdamWState, AdaptiveMomentumState, Optimizer, RecordState, StateSink, StateSource,
};
use burn::tensor::{Device, Tensor, TensorData};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a [`GuardedAdamW`](super::GuardedAdamW) keeps its moments between steps in place of the device
/// ([`StepGuard::keep_moments_in`](super::StepGuard::keep_moments_in)): main memory, or a file.
///
/// A step takes the moments of one parameter after another to the device, and reads those of the parameter before while the device
/// computes, so that no more than those of two parameters are there at once. They are the same to the bit, and so are records. No moments are on
/// the device during a backward pass: they would add to its peak of memory, which is a step's.
///
/// A file has a thread of its own. While the next passes run, it reads what the update takes first into main memory, [`Self::read_ahead`] bytes
/// at most; during the update it reads what comes next, and writes the moments of one parameter behind. What is in main memory needs no
/// reading.
#[derive(Clone)]
pub struct MomentStore(Arc<Mutex<Store>>);

struct Store {
    file: Option<Arc<MomentFile>>,
    /// The moments that the last step has left on the device.
    leaving: Option<Leaving>,
    failure: Option<Error>,
}

/// Reads moments from the device, and has them written to the file if there is one.
type Leaving = Box<dyn FnOnce(Option<&Arc<MomentFile>>) -> Result<(), Error> + Send>;

impl MomentStore {
    /// A store in main memory.
    pub fn host() -> Self {
        Self::new(None)
    }

    /// A store in a new file at `path`, of 8 bytes for each trained f32. The file is removed when the last moments in it are dropped. It
    /// holds those of one optimizer: copies of this must not go on with their own.
    ///
    /// # Errors
    /// The error of the system, if there is a file already, or neither a file nor a thread can be made.
    pub fn file(path: &Path) -> io::Result<Self> {
        MomentFile::create(path).map(|file| Self::new(Some(Arc::new(file))))
    }

    /// The most bytes that are read ahead of a file with so many `moments` in bytes: a sixteenth, but 64 KiB to 64 MiB.
    pub fn read_ahead(moments: u64) -> u64 {
        read_ahead(moments)
    }

    /// What has been read ahead of steps.
    pub fn reads(&self) -> MomentReads {
        let store = lock(&self.0);
        let file = store.file.as_ref();
        file.map_or_else(MomentReads::default, |file| file.reads())
    }

    fn new(file: Option<Arc<MomentFile>>) -> Self {
        Self(Arc::new(Mutex::new(Store {
            file,
            leaving: None,
            failure: None,
        })))
    }

    /// Takes the moments of a step over, and reads those of the step before from the device. Those of this one are read later: the device
    /// may still compute them.
    pub(super) fn take<const D: usize>(&self, moments: &Moments<D>) {
        let place = moments.0.clone();
        let leaving: Leaving = Box::new(move |file| leave(&place, file));
        let mut store = lock(&self.0);
        store.settle();
        store.leaving = Some(leaving);
    }

    /// Reads the last moments from the device, waits until all are written, and begins to read for the next step; returns the first failure
    /// since the store was made.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut store = lock(&self.0);
        store.settle();
        let finished = store.file.as_ref().map_or(Ok(()), |file| file.finish());
        store.failure.clone().map_or(finished, Err)
    }
}

impl Store {
    fn settle(&mut self) {
        if let Some(leaving) = self.leaving.take()
            && let Err(error) = leaving(self.file.as_ref())
        {
            self.failure.get_or_insert(error);
        }
    }
}

/// Moves moments from the device to the host, and on to the file's thread if there is a file. After an error they are where they were. The
/// error may be that of the moments which the thread got before these, and which the file doesn't have then.
fn leave<const D: usize>(
    place: &Mutex<Place<D>>,
    file: Option<&Arc<MomentFile>>,
) -> Result<(), Error> {
    let mut place = lock(place);
    let Place::Live(state, region) = &*place else {
        return Ok(());
    };
    // What waits to be written is in main memory, so that only one parameter's moments may.
    file.map_or(Ok(()), |file| file.written())?;
    let moments = &state.momentum;
    let both = [read(&moments.moment_1)?, read(&moments.moment_2)?];
    let left = match file {
        None => Place::Host(moments.time, both),
        Some(file) => {
            let region = region.clone().unwrap_or_else(|| file.region(&both[0]));
            region.write(both);
            Place::Filed(moments.time, region)
        }
    };
    *place = left;
    Ok(())
}

/// Copies a moment from the device into main memory. The data that a device returns keep the device's buffer until their bytes are read, and
/// on wgpu they are a mapped buffer of the device even then.
fn read<const D: usize>(moment: &Tensor<D>) -> Result<TensorData, Error> {
    let data = moment.clone().try_into_data().map_err(Error::device)?;
    let bytes = data.bytes().read(Default::default());
    let bytes = bytes.map_err(Error::device)?.to_vec();
    let (shape, dtype) = (data.shape().clone(), data.dtype());
    Ok(TensorData::from_bytes_vec(bytes, shape, dtype))
}

/// The moments of one parameter: on its device, or elsewhere between steps, as where a record was loaded and no step has used it.
///
/// A record holds them as `time`, `first` and `second`. Moments that can't be read are missing in the record, because Burn can't return an
/// error there: check a record before you rely on it.
#[derive(Clone)]
pub struct Moments<const D: usize>(
    /// Shared with a [`MomentStore`], which moves moments while Burn holds them.
    Arc<Mutex<Place<D>>>,
);

#[derive(Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "tensors are large on the stack, and nearly all moments are live"
)]
enum Place<const D: usize> {
    /// On the device, and the region of a file that they come from.
    Live(AdamWState<D>, Option<Region>),
    /// The number of steps, and the first and second moment.
    Host(usize, [TensorData; 2]),
    /// The number of steps, and the region of a file with both moments.
    Filed(usize, Region),
}

impl<const D: usize> Moments<D> {
    fn new(place: Place<D>) -> Self {
        Self(Arc::new(Mutex::new(place)))
    }

    /// Moments after a step, with what the step began with.
    pub(super) fn live(state: AdamWState<D>, began: Began) -> Self {
        Self::new(Place::Live(state, began.0))
    }

    /// The moments on a device for a step, and what the step begins with.
    pub(super) fn on(self, device: &Device) -> (AdamWState<D>, Began) {
        let place = match Arc::try_unwrap(self.0) {
            Ok(place) => place.into_inner().unwrap_or_else(PoisonError::into_inner),
            Err(shared) => lock(&shared).clone(),
        };
        let (time, moments, region) = match place {
            Place::Live(state, region) => return (AdamW::to_device(state, device), Began(region)),
            Place::Host(time, moments) => (time, moments, None),
            Place::Filed(time, region) => (time, region.take_or_note(), Some(region)),
        };
        let [first, second] = moments.map(|data| Tensor::from_data(data, device));
        let state = AdaptiveMomentumState::new(time, first, second);
        (AdamWState::new(state), Began(region))
    }
}

/// What the moments of a step began with, which those after the step keep: their region of a file.
#[derive(Default)]
pub(super) struct Began(Option<Region>);

impl<const D: usize> RecordState for Moments<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let (time, moments) = match &*lock(&self.0) {
            Place::Live(state, _) => {
                let moments = &state.momentum;
                let data = |tensor: &Tensor<D>| tensor.clone().try_into_data().ok();
                let both = [data(&moments.moment_1), data(&moments.moment_2)];
                (moments.time, both)
            }
            Place::Host(time, moments) => (*time, moments.clone().map(Some)),
            Place::Filed(time, region) => {
                let both = region.read().map(|moments| moments.map(Some));
                (*time, both.unwrap_or_default())
            }
        };
        out.push_scalar(prefix, "time", time.into());
        for (name, data) in ["first", "second"].into_iter().zip(moments) {
            if let Some(data) = data {
                out.push_tensor(prefix, name, data);
            }
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, _device: &Device) -> Option<Self> {
        let time = src.take_scalar(prefix, "time")?.try_into().ok()?;
        let mut moment = |name| src.take_tensor(prefix, name);
        let moments = [moment("first")?, moment("second")?];
        Some(Self::new(Place::Host(time, moments)))
    }
}
