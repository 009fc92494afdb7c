//! What a recorder sees of a step, and how it plays the step again.

use super::programs::Compiled;
use super::recorder::{Recorder, State};
use crate::host;
use crate::machine::RunError;
use crate::pjrt::Buffer;
use burn_backend::TensorData;
use burn_ir::TensorId;
use std::sync::Arc;

/// What was seen between two looks.
#[derive(Default)]
pub(crate) struct Watch {
    /// Values that came from the host, in order.
    pub(crate) uploads: Vec<(TensorId, TensorData)>,
    /// Programs that ran.
    pub(crate) runs: Vec<Ran>,
    /// Tensors that were read.
    pub(crate) reads: Vec<TensorId>,
}

/// A program's run.
pub(crate) struct Ran {
    pub(crate) program: Arc<Compiled>,
    pub(crate) scalars: Vec<f64>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
}

/// A program with what it takes and gives, to be run without recording anything.
#[derive(Clone)]
pub(crate) struct Play {
    pub(crate) program: Arc<Compiled>,
    pub(crate) scalars: Vec<f64>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
}

/// Where an argument comes from.
#[derive(Clone)]
pub(crate) enum Input {
    /// The caller, by number.
    Given(usize),
    /// A tensor, which a result takes the place of.
    Carried(TensorId),
    /// The same in every run.
    Constant(Arc<Buffer>),
}

/// Where a result goes: to the place of a tensor, and to the caller, by number.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) carried: Option<TensorId>,
    pub(crate) returned: Option<usize>,
}

impl Recorder {
    /// What was seen since the last call, which begins to look. While somebody looks, nothing runs before a
    /// result is wanted.
    pub(crate) fn watch(&self) -> Watch {
        self.state()
            .watch
            .replace(Watch::default())
            .unwrap_or_default()
    }

    /// Looks no longer.
    pub(crate) fn unwatch(&self) {
        self.state().watch = None;
    }

    /// A constant: a tensor that is there, or what it was uploaded from.
    pub(crate) fn constant(
        &self,
        id: TensorId,
        uploaded: Option<&TensorData>,
    ) -> Result<Arc<Buffer>, RunError> {
        if let Some(data) = uploaded {
            return host::upload(&self.machine, data).map(Arc::new);
        }
        let slot = self.state().slots.get(&id).cloned();
        slot.unwrap_or(Err(RunError::Unknown { id }))
    }

    /// Plays a step: its results, by number, and what it carries in its places.
    pub(crate) fn play(
        &self,
        play: &Play,
        given: &[Arc<Buffer>],
    ) -> Result<Vec<Arc<Buffer>>, RunError> {
        let mut state = self.state();
        // What was recorded may use, or make, what the step carries.
        state.run_all(&self.machine);
        let inputs = state.take(play, given)?;
        let random = state.random.clone()?;
        let results = play
            .program
            .run(&self.machine, (inputs, random), &play.scalars);
        let (results, random) = results.inspect_err(|error| state.lose(play, error))?;
        if let Some(random) = random {
            state.random = Ok(random);
        }
        state.note(&results);
        Ok(state.put(play, results))
    }
}

impl State {
    /// The arguments of a step. Carried tensors leave their places, so that results may overwrite them,
    /// unless one of them is missing.
    fn take(&mut self, play: &Play, given: &[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, RunError> {
        for input in &play.inputs {
            if let Input::Carried(id) = input {
                let slot = self.slots.get(id).ok_or(RunError::Unknown { id: *id })?;
                slot.as_ref().map_err(Clone::clone)?;
            }
        }
        let argument = |input: &Input| match input {
            Input::Given(number) => given.get(*number).cloned().ok_or(RunError::Inputs {
                expected: number + 1,
                got: given.len(),
            }),
            Input::Constant(buffer) => Ok(buffer.clone()),
            Input::Carried(id) => {
                let slot = self.slots.remove(id);
                slot.unwrap_or(Err(RunError::Unknown { id: *id }))
            }
        };
        play.inputs.iter().map(argument).collect()
    }

    fn put(&mut self, play: &Play, results: Vec<Arc<Buffer>>) -> Vec<Arc<Buffer>> {
        let mut returned = Vec::new();
        for (output, buffer) in play.outputs.iter().zip(results) {
            if let Some(number) = output.returned {
                returned.push((number, buffer.clone()));
            }
            if let Some(id) = output.carried {
                self.slots.insert(id, Ok(buffer));
            }
        }
        returned.sort_unstable_by_key(|(number, _)| *number);
        returned.into_iter().map(|(_, buffer)| buffer).collect()
    }

    /// After a run that failed nobody knows what is in the memory of what it carried.
    fn lose(&mut self, play: &Play, error: &RunError) {
        for id in play.outputs.iter().filter_map(|output| output.carried) {
            self.slots.insert(id, Err(error.clone()));
        }
    }
}
