//! The moments of an optimizer, and where they are between its steps.

use crate::Error;
use burn::optim::{
    AdamW, AdamWState, AdaptiveMomentumState, Optimizer, RecordState, StateSink, StateSource,
};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use moebius_ops::Fault;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a [`GuardedAdamW`](super::GuardedAdamW) keeps its moments between steps in place of the device
/// ([`StepGuard::keep_moments_in`](super::StepGuard::keep_moments_in)): main memory, or a file.
///
/// A step takes the moments of one parameter after another to the device, and reads those of the parameter before while the device
/// computes, so that no more than those of two parameters are there at once. They are the same to the bit, and so are records. No moments move
/// during a backward pass: they would add to its peak of memory, which is a step's.
#[derive(Clone)]
pub struct MomentStore(Arc<Mutex<Store>>);

struct Store {
    file: Option<Arc<MomentFile>>,
    /// The moments that the last step has left on the device.
    leaving: Option<Leaving>,
    failure: Option<Error>,
}

/// Reads moments from the device, and writes them to the file if there is one.
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
    /// The error of the system, if there is a file already or none can be made.
    pub fn file(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let open = Open {
            file: options.read(true).write(true).create_new(true).open(path)?,
            end: 0,
            failure: None,
        };
        Ok(Self::new(Some(Arc::new(MomentFile {
            open: Mutex::new(open),
            _removed: Removed(path.to_owned()),
        }))))
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

    /// Reads the last moments from the device; returns the first failure since the store was made.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut store = lock(&self.0);
        store.settle();
        let of_file = |file: &Arc<MomentFile>| lock(&file.open).failure.clone();
        let failure = store.failure.clone();
        let failure = failure.or_else(|| store.file.as_ref().and_then(of_file));
        failure.map_or(Ok(()), Err)
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

/// Moves moments from the device to the host or to the file. After an error they are where they were.
fn leave<const D: usize>(
    place: &Mutex<Place<D>>,
    file: Option<&Arc<MomentFile>>,
) -> Result<(), Error> {
    let mut place = lock(place);
    let Place::Live(state, region) = &*place else {
        return Ok(());
    };
    let moments = &state.momentum;
    let both = [read(&moments.moment_1)?, read(&moments.moment_2)?];
    let left = match file {
        None => Place::Host(moments.time, both),
        Some(file) => {
            let region = region.clone().unwrap_or_else(|| file.region(&both[0]));
            region.write(&both).map_err(refused)?;
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

/// The error of a file that doesn't keep moments.
fn refused(error: io::Error) -> Error {
    let expected = "moments to be written and read";
    Fault::State
        .error("the file of an optimizer", expected, error)
        .into()
}

/// A file with moments. It is closed before it is removed.
struct MomentFile {
    open: Mutex<Open>,
    _removed: Removed,
}

struct Open {
    file: File,
    /// Bytes that have been given to regions.
    end: u64,
    failure: Option<Error>,
}

/// Removes a file at the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // A file that stays is seen by the next training, which refuses to take it.
        let _ = fs::remove_file(&self.0);
    }
}

impl MomentFile {
    /// A new region for two moments like `moment`.
    fn region(self: &Arc<Self>, moment: &TensorData) -> Region {
        let bytes = moment.as_bytes().len();
        let mut open = lock(&self.open);
        let at = open.end;
        open.end += 2 * bytes as u64;
        Region {
            file: self.clone(),
            at,
            bytes,
            shape: moment.shape().clone(),
            dtype: moment.dtype(),
        }
    }
}

/// Region of a file with the two moments of a parameter.
#[derive(Clone)]
struct Region {
    file: Arc<MomentFile>,
    at: u64,
    /// Bytes of one moment.
    bytes: usize,
    shape: Shape,
    dtype: DType,
}

impl Region {
    fn write(&self, moments: &[TensorData; 2]) -> io::Result<()> {
        let mut open = lock(&self.file.open);
        open.file.seek(SeekFrom::Start(self.at))?;
        let write = |moment: &TensorData| open.file.write_all(moment.as_bytes());
        moments.iter().try_for_each(write)
    }

    fn read(&self) -> io::Result<[TensorData; 2]> {
        let mut open = lock(&self.file.open);
        open.file.seek(SeekFrom::Start(self.at))?;
        let mut both = [vec![0; self.bytes], vec![0; self.bytes]];
        for bytes in &mut both {
            open.file.read_exact(bytes)?;
        }
        Ok(both.map(|bytes| self.moment(bytes)))
    }

    fn moment(&self, bytes: Vec<u8>) -> TensorData {
        TensorData::from_bytes_vec(bytes, self.shape.clone(), self.dtype)
    }

    /// The moments, or zeros if they can't be read: Burn takes no error here, and the store tells it after the step.
    fn read_or_note(&self) -> [TensorData; 2] {
        self.read().unwrap_or_else(|error| {
            let mut open = lock(&self.file.open);
            open.failure.get_or_insert(refused(error));
            [0, 1].map(|_| self.moment(vec![0; self.bytes]))
        })
    }
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
            Place::Filed(time, region) => (time, region.read_or_note(), Some(region)),
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
