//! What a recorder does in a step, and how it runs the step again without recording it.

use super::programs::Compiled;
use super::recorder::{Recorder, State};
use super::recording::Recording;
use crate::machine::RunError;
use crate::pjrt::Buffer;
use burn_backend::TensorData;
use burn_ir::TensorId;
use burn_std::id::StreamId;
use std::sync::Arc;

/// What a device did since the last trace.
#[derive(Default)]
pub(crate) struct StepTrace {
    /// Values that came from the host, in order.
    pub(crate) uploads: Vec<(TensorId, TensorData)>,
    /// Programs that ran.
    pub(crate) runs: Vec<TracedRun>,
    /// Tensors that were read.
    pub(crate) reads: Vec<TensorId>,
    /// Why a program didn't run.
    pub(crate) error: Option<RunError>,
}

/// A program's run.
pub(crate) struct TracedRun {
    pub(crate) program: Arc<Compiled>,
    pub(crate) scalars: Vec<f64>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
}

/// A program with what it takes and gives, to be run without recording anything.
#[derive(Clone)]
pub(crate) struct Replay {
    pub(crate) program: Arc<Compiled>,
    pub(crate) scalars: Vec<f64>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// The results that go to the caller, by their places among the outputs.
    pub(crate) returned: Vec<usize>,
}

/// Where an argument comes from.
#[derive(Clone)]
pub(crate) enum Input {
    /// The caller, by number.
    Given(usize),
    /// A tensor, which a result takes the place of.
    Carried(TensorId),
    /// A tensor that the step leaves alone, and what it was when the step was recorded: others may
    /// put something else in its place, or drop it.
    Held(TensorId, Arc<Buffer>),
    /// Values that the step uploads every time.
    Constant(Arc<Buffer>),
}

impl Replay {
    /// Whether a recording has something that the step takes or changes.
    fn meets(&self, recording: &Recording) -> bool {
        let held = |input: &Input| matches!(input, Input::Held(id, _) if recording.has(*id));
        // What it carries has the places of results.
        let changed = |output: &Output| recording.has(output.id);
        self.inputs.iter().any(held) || self.outputs.iter().any(changed)
    }
}

/// Where a result goes.
#[derive(Clone)]
pub(crate) struct Output {
    /// The tensor whose place it takes.
    pub(crate) id: TensorId,
    /// Whether the next step takes it: then it has its place whoever else has dropped it.
    pub(crate) carried: bool,
}

impl Recorder {
    /// What was done since the last call; the first one begins the trace. Meanwhile recordings aren't cut for their length.
    pub(crate) fn trace(&self) -> StepTrace {
        self.state()
            .trace
            .replace(StepTrace::default())
            .unwrap_or_default()
    }

    /// Stops tracing.
    pub(crate) fn end_trace(&self) {
        self.state().trace = None;
    }

    /// Where a tensor is.
    pub(crate) fn place(&self, id: TensorId) -> Result<Arc<Buffer>, RunError> {
        let slot = self.state().slots.get(&id).cloned();
        slot.unwrap_or(Err(RunError::Unknown { id }))
    }

    /// Runs a recorded step: its results, by number, and what it carries in its places.
    pub(crate) fn replay(
        &self,
        replay: &Replay,
        given: &[Arc<Buffer>],
    ) -> Result<Vec<Arc<Buffer>>, RunError> {
        let mut state = self.state();
        // What was recorded before sees what the step takes as it was, and may draw random numbers.
        state.run_stream(&self.machine, StreamId::current());
        state.run_those(&self.machine, |recording| replay.meets(recording));
        let random = state.random.clone()?;
        let inputs = state.take(replay, given)?;
        let results = replay
            .program
            .run(&self.machine, (inputs, random), &replay.scalars);
        let (results, random) = results.inspect_err(|error| state.lose(replay, error))?;
        if let Some(random) = random {
            state.random = Ok(random);
        }
        state.note(&results);
        Ok(state.put(replay, results))
    }
}

impl State {
    /// The arguments of a step. Carried tensors leave their places, so that results may overwrite them,
    /// unless a tensor is missing: then all stay.
    fn take(
        &mut self,
        replay: &Replay,
        given: &[Arc<Buffer>],
    ) -> Result<Vec<Arc<Buffer>>, RunError> {
        for input in &replay.inputs {
            let slot = match input {
                Input::Carried(id) => {
                    Some(self.slots.get(id).ok_or(RunError::Unknown { id: *id })?)
                }
                Input::Held(id, _) => self.slots.get(id),
                Input::Given(_) | Input::Constant(_) => None,
            };
            slot.map(Result::as_ref).transpose().map_err(Clone::clone)?;
        }
        let argument = |input: &Input| match input {
            Input::Given(number) => given.get(*number).cloned().ok_or(RunError::Inputs {
                expected: number + 1,
                got: given.len(),
            }),
            Input::Held(id, before) => {
                let slot = self.slots.get(id).cloned();
                slot.unwrap_or_else(|| Ok(before.clone()))
            }
            Input::Constant(buffer) => Ok(buffer.clone()),
            Input::Carried(id) => {
                let slot = self.slots.remove(id);
                slot.unwrap_or(Err(RunError::Unknown { id: *id }))
            }
        };
        replay.inputs.iter().map(argument).collect()
    }

    /// Results in the places of what the step made before, where a tensor still refers to it.
    fn put(&mut self, replay: &Replay, results: Vec<Arc<Buffer>>) -> Vec<Arc<Buffer>> {
        let returned = replay.returned.iter().map(|place| results[*place].clone());
        let returned = returned.collect();
        for (Output { id, carried }, buffer) in replay.outputs.iter().zip(results) {
            if *carried || self.slots.contains_key(id) {
                self.slots.insert(*id, Ok(buffer));
            }
        }
        returned
    }

    /// After a run that failed the contents of what it carried are unknown.
    fn lose(&mut self, replay: &Replay, error: &RunError) {
        for output in replay.outputs.iter().filter(|output| output.carried) {
            self.slots.insert(output.id, Err(error.clone()));
        }
    }
}
