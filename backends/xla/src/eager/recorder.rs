//! The recorder of one device: what it records, and when that runs.

use super::programs::Programs;
use super::recording::{Piece, Recording, Slot};
use super::stored::Stored;
use crate::machine::{self, Machine, RunError, panic_text};
use crate::stablehlo::Program;
use burn_backend::TensorData;
use burn_ir::{GraphId, OperationIr, TensorId, TensorIr, TensorStatus};
use burn_router::Graph;
use burn_std::id::StreamId;
use moebius_pjrt::Event;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records operations and runs them when a result is needed.
///
/// All that one stream recorded since its last run becomes one program; mixing the streams of threads that compute in
/// parallel would give another program each time. A recording runs at a wait or a flush, at a read of a result, when
/// another stream takes a result, and at a seed. A loop without any of these marks its steps ([`crate::mark_step`]).
pub(crate) struct Recorder {
    machine: Machine,
    ids: AtomicU64,
    state: Mutex<State>,
}

struct State {
    recordings: FxHashMap<StreamId, Recording>,
    slots: FxHashMap<TensorId, Slot>,
    programs: Programs,
    graphs: HashMap<GraphId, Graph>,
    random: Slot,
    /// The runs that haven't been waited for, each by the events of its first result, because a run's results come
    /// together. The results themselves aren't held, so that the next run may overwrite those of dropped tensors.
    unfinished: Vec<Result<Event, RunError>>,
    runs: u64,
}

/// Counts of what a device has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of programs compiled.
    pub compiled: u64,
    /// The number of runs of programs.
    pub runs: u64,
}

fn random_state(machine: &Machine, seed: u64) -> Slot {
    Stored::on_each(machine, &machine::random_state(seed)).map(Arc::new)
}

/// The number of operations at which a recording runs in any case: longer programs take minutes to compile.
const LONGEST: usize = 1 << 14;

impl Recorder {
    pub(crate) fn new(machine: Machine) -> Self {
        let state = State {
            recordings: FxHashMap::default(),
            slots: FxHashMap::default(),
            programs: Programs::default(),
            graphs: HashMap::new(),
            random: random_state(&machine, machine::entropy()),
            unfinished: Vec::new(),
            runs: 0,
        };
        Self {
            machine,
            ids: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    pub(super) fn new_id(&self) -> TensorId {
        TensorId::new(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a tensor of `data` on the device.
    pub(super) fn upload(&self, data: TensorData) -> TensorId {
        let stored = Stored::new(&self.machine, data).map(Arc::new);
        let id = self.new_id();
        self.state().slots.insert(id, stored);
        id
    }

    /// Makes a tensor whose reads fail for `reason`.
    pub(super) fn failed(&self, reason: String) -> TensorId {
        let id = self.new_id();
        self.state().slots.insert(id, Err(RunError::Moved(reason)));
        id
    }

    pub(super) fn record(&self, operation: OperationIr) {
        let mut state = self.state();
        match operation {
            // The values have been uploaded already.
            OperationIr::Init(_) => {}
            OperationIr::Drop(tensor) => state.release(&self.machine, tensor),
            _ => state.compute(&self.machine, operation),
        }
    }

    /// Reads the values of a tensor, and runs what makes the tensor if need be.
    pub(super) fn read(&self, tensor: &TensorIr) -> Result<TensorData, RunError> {
        self.stored(tensor)?.read(&self.machine, tensor.dtype)
    }

    fn stored(&self, tensor: &TensorIr) -> Slot {
        let mut state = self.state();
        // Burn reads on a thread of its own, so the tensor, not the current stream, tells which recording has to run.
        state.settle(&self.machine, tensor.id);
        let slot = state.slot(tensor.id);
        if tensor.status == TensorStatus::ReadWrite {
            state.slots.remove(&tensor.id);
        }
        slot
    }

    pub(crate) fn flush(&self) {
        self.state().run_stream(&self.machine, StreamId::current());
    }

    /// The texts of the kept programs, most recently used first.
    pub(crate) fn sources(&self) -> Vec<Arc<Program>> {
        self.state().programs.sources()
    }

    /// Counts of what the device has done.
    pub(crate) fn activity(&self) -> Activity {
        let state = self.state();
        Activity {
            compiled: state.programs.compiled(),
            runs: state.runs,
        }
    }

    /// Runs what the stream recorded and waits for the device; returns the first error of the runs since the last wait.
    pub(super) fn sync(&self) -> Result<(), RunError> {
        let unfinished = {
            let mut state = self.state();
            state.run_stream(&self.machine, StreamId::current());
            std::mem::take(&mut state.unfinished)
        };
        unfinished.into_iter().try_for_each(|run| Ok(run?.wait()?))
    }

    pub(super) fn seed(&self, seed: u64) {
        let mut state = self.state();
        // Operations recorded before must not see the seed. The call doesn't say which stream seeds, so all of them
        // run.
        state.run_those(&self.machine, |_| true);
        state.random = random_state(&self.machine, seed);
    }

    pub(super) fn alias(&self, new: TensorId, source: TensorId) {
        let mut state = self.state();
        state.settle(&self.machine, source);
        let slot = state.slot(source);
        state.slots.insert(new, slot);
    }

    pub(super) fn keep_graph(&self, id: GraphId, graph: Graph) {
        self.state().graphs.insert(id, graph);
    }

    pub(super) fn graph(&self, id: GraphId) -> Option<Graph> {
        self.state().graphs.get(&id).cloned()
    }
}

impl State {
    /// Records an operation.
    fn compute(&mut self, machine: &Machine, operation: OperationIr) {
        let stream = StreamId::current();
        if !self.recordings.contains_key(&stream) {
            // The end of a thread is not signalled, so recordings without operations are removed here.
            self.recordings.retain(|_, recording| recording.len() > 0);
        }
        if self.recordings.entry(stream).or_default().len() >= LONGEST {
            self.run_stream(machine, stream);
        }
        for tensor in operation.inputs() {
            self.hold(machine, stream, tensor.id);
        }
        let recording = self.recordings.entry(stream).or_default();
        recording.compute(operation);
    }

    /// Adds a tensor to a stream's recording; if another stream has recorded what makes the tensor, that runs first.
    fn hold(&mut self, machine: &Machine, stream: StreamId, id: TensorId) {
        if !self.has(stream, id) {
            self.settle(machine, id);
            let slot = self.slot(id);
            self.recordings.entry(stream).or_default().take(id, slot);
        }
    }

    /// The place of a tensor.
    fn slot(&self, id: TensorId) -> Slot {
        let slot = self.slots.get(&id).cloned();
        slot.unwrap_or(Err(RunError::Unknown(id)))
    }

    fn has(&self, stream: StreamId, id: TensorId) -> bool {
        let recording = self.recordings.get(&stream);
        recording.is_some_and(|recording| recording.has(id))
    }

    /// Drops a tensor. A recording that has the tensor may then overwrite it; a recording whose results are all dropped
    /// is run, and so gives up what it holds, since its thread may have ended.
    fn release(&mut self, machine: &Machine, tensor: TensorIr) {
        let current = StreamId::current();
        let stream = if self.has(current, tensor.id) {
            Some(current)
        } else {
            self.maker(tensor.id)
        };
        let recording = stream.and_then(|stream| self.recordings.get_mut(&stream));
        let (Some(stream), Some(recording)) = (stream, recording) else {
            self.slots.remove(&tensor.id);
            return;
        };
        recording.release(tensor);
        if !recording.is_needed() {
            self.run_stream(machine, stream);
        }
    }

    /// The stream whose recording makes a tensor.
    fn maker(&self, id: TensorId) -> Option<StreamId> {
        let mut recordings = self.recordings.iter();
        let maker = recordings.find(|(_, recording)| recording.makes(id));
        maker.map(|(stream, _)| *stream)
    }

    /// Runs the recording that makes a tensor, whichever stream it belongs to.
    fn settle(&mut self, machine: &Machine, id: TensorId) {
        self.run_those(machine, |recording| recording.makes(id));
    }

    /// Runs the recordings for which `such` holds.
    fn run_those(&mut self, machine: &Machine, such: impl Fn(&Recording) -> bool) {
        let streams = self.recordings.iter();
        let streams = streams.filter(|(_, recording)| recording.len() > 0 && such(recording));
        let streams: Vec<StreamId> = streams.map(|(stream, _)| *stream).collect();
        for stream in streams {
            self.run_stream(machine, stream);
        }
    }

    /// Runs a stream's recording as one program. A failure shows when a result is read, as on any asynchronous device.
    fn run_stream(&mut self, machine: &Machine, stream: StreamId) {
        let recorded = self.recordings.get_mut(&stream).map(std::mem::take);
        let Some(recording) = recorded.filter(|recording| recording.len() > 0) else {
            return;
        };
        let piece = recording.into_piece();
        // Free the slots of consumed inputs first: a result may overwrite a buffer that has no other holder.
        for id in &piece.canonical.released {
            self.slots.remove(id);
        }
        let outputs = piece.canonical.outputs.iter().map(|tensor| tensor.id);
        let outputs: Vec<TensorId> = outputs.collect();
        // A panic here would end the server's thread, and readers would wait forever.
        let results = catch_unwind(AssertUnwindSafe(|| self.execute(machine, piece)));
        let results = results.unwrap_or_else(|panic| {
            let reason = panic_text(panic.as_ref());
            Err(RunError::Defect(reason))
        });
        let slots: Vec<Slot> = match results {
            Ok(results) => results.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); outputs.len()],
        };
        self.slots.extend(outputs.into_iter().zip(slots));
    }

    fn execute(&mut self, machine: &Machine, piece: Piece) -> Result<Vec<Arc<Stored>>, RunError> {
        let Piece { canonical, inputs } = piece;
        if canonical.outputs.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = inputs?;
        let program = self.programs.get(machine, &canonical, &inputs)?;
        let random = self.random.clone()?;
        let (results, random) = program.run(machine, (inputs, random), &canonical.scalars)?;
        if let Some(random) = random {
            self.random = Ok(random);
        }
        self.note(&results);
        Ok(results)
    }

    /// Counts a run. Finished runs are removed from a long list, which programs that never wait would let grow.
    fn note(&mut self, results: &[Arc<Stored>]) {
        self.runs += 1;
        let first = results.first().map(|stored| stored.ready());
        self.unfinished.extend(first.into_iter().flatten());
        if self.unfinished.len() > 1024 {
            let running = |run: &Result<Event, RunError>| match run {
                Ok(event) => !event.is_ready().unwrap_or(false),
                Err(_) => true,
            };
            self.unfinished.retain(running);
        }
    }
}
