//! What is recorded for one device, and when it runs.

use super::canonical::Canonical;
use super::hash::{ById, Multiply, Relative};
use super::period::{LONGEST, Rhythm};
use super::programs::Programs;
use super::watch::{Ran, Watch};
use crate::host;
use crate::machine::{Machine, RunError};
use crate::pjrt::{Buffer, Event};
use crate::stablehlo;
use burn_backend::TensorData;
use burn_ir::{GraphId, OperationIr, TensorId, TensorIr, TensorStatus};
use burn_router::Graph;
use std::any::Any;
use std::collections::HashMap;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records operations and runs them when somebody wants to see a result.
///
/// What was recorded since the last time becomes one program. A read, a wait or a flush runs it, and
/// so does a loop that goes on for long without any of them (see [`Rhythm`]).
pub(crate) struct Recorder {
    pub(crate) machine: Machine,
    ids: AtomicU64,
    state: Mutex<State>,
}

pub(super) struct State {
    /// Operations that compute, and drops between them.
    pending: Vec<OperationIr>,
    /// Of each pending operation that computes: drops come in any order (gradients live in a hash table).
    hashes: Vec<u64>,
    /// Where those operations are.
    places: Vec<usize>,
    relative: Relative,
    rhythm: Rhythm,
    pub(super) slots: ById<Slot>,
    programs: Programs,
    graphs: HashMap<GraphId, Graph>,
    pub(super) random: Slot,
    /// Runs that nobody has waited for, each by its first result: a run's results come together. The
    /// results themselves aren't held, so that the next run may overwrite what nobody needs.
    unfinished: Vec<Result<Event, RunError>>,
    runs: u64,
    /// What somebody who looks sees.
    pub(super) watch: Option<Watch>,
}

/// What a device has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Programs that were compiled.
    pub compiled: u64,
    /// Runs of programs.
    pub runs: u64,
}

/// Where a tensor is: in a buffer, or nowhere, because what should have made it failed.
pub(super) type Slot = Result<Arc<Buffer>, RunError>;

/// A recording that grows by drops of what it never used runs at this length.
const MOST_DROPS: usize = 4 * LONGEST;

impl Recorder {
    pub(super) fn new(machine: Machine) -> Self {
        let state = State {
            pending: Vec::new(),
            hashes: Vec::new(),
            places: Vec::new(),
            relative: Relative::default(),
            rhythm: Rhythm::default(),
            slots: ById::default(),
            programs: Programs::default(),
            graphs: HashMap::new(),
            random: host::random_state(&machine, host::entropy()).map(Arc::new),
            unfinished: Vec::new(),
            runs: 0,
            watch: None,
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tensor with these values.
    pub(super) fn upload(&self, data: TensorData) -> TensorId {
        let buffer = host::upload(&self.machine, &data).map(Arc::new);
        let id = self.new_id();
        let mut state = self.state();
        state.slots.insert(id, buffer);
        if let Some(watch) = &mut state.watch {
            watch.uploads.push((id, data));
        }
        id
    }

    /// A tensor that couldn't be made.
    pub(super) fn failed(&self, reason: String) -> TensorId {
        let id = self.new_id();
        self.state()
            .slots
            .insert(id, Err(RunError::Moved { reason }));
        id
    }

    pub(super) fn record(&self, operation: OperationIr) {
        let mut state = self.state();
        match operation {
            // Its values were uploaded before.
            OperationIr::Init(_) => {}
            OperationIr::Drop(tensor) if state.pending.is_empty() => {
                state.slots.remove(&tensor.id);
            }
            OperationIr::Drop(_) => state.pending.push(operation),
            _ => state.compute(&self.machine, operation),
        }
        if state.pending.len() > MOST_DROPS && state.watch.is_none() {
            state.run_all(&self.machine);
        }
    }

    /// The values of a tensor.
    pub(super) fn read(&self, tensor: &TensorIr) -> Result<TensorData, RunError> {
        let buffer = self.buffer(tensor)?;
        host::read(&buffer, tensor.dtype)
    }

    fn buffer(&self, tensor: &TensorIr) -> Result<Arc<Buffer>, RunError> {
        let mut state = self.state();
        state.run_all(&self.machine);
        if let Some(watch) = &mut state.watch {
            watch.reads.push(tensor.id);
        }
        let unknown = Err(RunError::Unknown { id: tensor.id });
        match tensor.status {
            TensorStatus::ReadWrite => state.slots.remove(&tensor.id),
            _ => state.slots.get(&tensor.id).cloned(),
        }
        .unwrap_or(unknown)
    }

    pub(super) fn flush(&self) {
        self.state().run_all(&self.machine);
    }

    /// The programs that are kept, the last used first.
    pub(super) fn sources(&self) -> Vec<Arc<stablehlo::Program>> {
        self.state().programs.sources()
    }

    /// What the device has done.
    pub(super) fn activity(&self) -> Activity {
        let state = self.state();
        Activity {
            compiled: state.programs.compiled(),
            runs: state.runs,
        }
    }

    /// Runs everything and waits for it; the first error of what ran since the last time.
    pub(super) fn sync(&self) -> Result<(), RunError> {
        let unfinished = {
            let mut state = self.state();
            state.run_all(&self.machine);
            std::mem::take(&mut state.unfinished)
        };
        unfinished.into_iter().try_for_each(|run| Ok(run?.wait()?))
    }

    pub(super) fn seed(&self, seed: u64) {
        let mut state = self.state();
        // What was recorded before must not see the seed.
        state.run_all(&self.machine);
        state.random = host::random_state(&self.machine, seed).map(Arc::new);
    }

    pub(super) fn alias(&self, new: TensorId, source: TensorId) {
        let mut state = self.state();
        state.run_all(&self.machine);
        let slot = state.slots.get(&source).cloned();
        state
            .slots
            .insert(new, slot.unwrap_or(Err(RunError::Unknown { id: source })));
    }

    pub(super) fn keep_graph(&self, id: GraphId, graph: Graph) {
        self.state().graphs.insert(id, graph);
    }

    pub(super) fn graph(&self, id: GraphId) -> Option<Graph> {
        self.state().graphs.get(&id).cloned()
    }
}

impl State {
    /// Records an operation, after what is complete without it has run: then the drops that followed
    /// that are known, and nothing is kept for nobody.
    fn compute(&mut self, machine: &Machine, mut operation: OperationIr) {
        while self.watch.is_none()
            && let Some(count) = self.rhythm.cut(&self.hashes)
        {
            let end = self.places.get(count).copied();
            self.run(machine, end.unwrap_or(self.pending.len()));
        }
        self.places.push(self.pending.len());
        self.hashes.push(self.relative.hash(&mut operation));
        self.pending.push(operation);
    }

    pub(super) fn run_all(&mut self, machine: &Machine) {
        if !self.pending.is_empty() {
            self.run(machine, self.pending.len());
        }
    }

    /// Runs what was recorded before place `end` as one program. Whether it fails is seen by who reads
    /// a result, as with any asynchronous device.
    fn run(&mut self, machine: &Machine, end: usize) {
        let operations: Vec<OperationIr> = self.pending.drain(..end).collect();
        let count = self.places.partition_point(|place| *place < end);
        let mut key = Multiply::default();
        let hashes = self.hashes.drain(..count);
        hashes.for_each(|hash| key.write_u64(hash));
        self.places.drain(..count);
        self.places.iter_mut().for_each(|place| *place -= end);
        let canonical = Canonical::of(operations);
        let execute = || self.execute(machine, (&canonical, key.finish()));
        // Nobody would answer who waits for a result if the server's thread ended here.
        let results = catch_unwind(AssertUnwindSafe(execute));
        let results = results.unwrap_or_else(|panic| Err(defect(panic.as_ref())));
        for id in &canonical.released {
            self.slots.remove(id);
        }
        match results {
            Ok(results) => {
                for (tensor, buffer) in canonical.outputs.iter().zip(results) {
                    self.slots.insert(tensor.id, Ok(buffer));
                }
            }
            Err(error) => {
                if let Some(watch) = &mut self.watch {
                    watch.error.get_or_insert(error.clone());
                }
                for tensor in &canonical.outputs {
                    self.slots.insert(tensor.id, Err(error.clone()));
                }
            }
        }
    }

    fn execute(
        &mut self,
        machine: &Machine,
        (canonical, key): (&Canonical, u64),
    ) -> Result<Vec<Arc<Buffer>>, RunError> {
        if canonical.outputs.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = canonical.inputs.iter().map(|id| {
            let slot = self.slots.get(id).cloned();
            slot.unwrap_or(Err(RunError::Unknown { id: *id }))
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let program = self.programs.get(machine, (canonical, key))?;
        // The slots of consumed inputs are given up first: a buffer that nobody else holds may be
        // overwritten by a result.
        for (id, consumed) in canonical.inputs.iter().zip(&canonical.consumed) {
            if *consumed {
                self.slots.remove(id);
            }
        }
        let random = self.random.clone()?;
        let (results, random) = program.run(machine, (inputs, random), &canonical.scalars)?;
        if let Some(random) = random {
            self.random = Ok(random);
        }
        self.note(&results);
        if let Some(watch) = &mut self.watch {
            watch.runs.push(Ran {
                program: program.clone(),
                scalars: canonical.scalars.clone(),
                inputs: canonical.inputs.clone(),
                outputs: canonical.outputs.iter().map(|tensor| tensor.id).collect(),
            });
        }
        Ok(results)
    }

    /// Counts a run. The list of those that nobody waited for stays short in programs that never wait.
    pub(super) fn note(&mut self, results: &[Arc<Buffer>]) {
        self.runs += 1;
        let first = results.first().map(|buffer| Ok(buffer.ready()?));
        self.unfinished.extend(first);
        if self.unfinished.len() > 1024 {
            let running = |run: &Result<Event, RunError>| match run {
                Ok(event) => !event.is_ready().unwrap_or(false),
                Err(_) => true,
            };
            self.unfinished.retain(running);
        }
    }
}

/// What a panic says.
fn defect(panic: &(dyn Any + Send)) -> RunError {
    let message = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(ToString::to_string);
    let reason = message.or_else(literal).unwrap_or_default();
    RunError::Defect { reason }
}
