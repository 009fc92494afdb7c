//! Compiled programs, found by the structure of a recording.

use super::recording::{Canonical, Structure};
use super::stored::{self, Stored};
use crate::lower::{Divided, Source, tensor_type};
use crate::machine::{Machine, RunError};
use crate::stablehlo::Program;
use burn_backend::{DType, TensorData};
use burn_ir::OperationIr;
use moebius_pjrt::{ElementType, LoadedExecutable};
use std::collections::HashMap;
use std::sync::Arc;

/// The compiled programs of a device.
///
/// All tensors are arguments, so no program holds weights. Float scalars of arithmetic (a decaying learning rate,
/// Adam's corrections) are arguments, too: a compiler computes differently with constants, and a resumed training would
/// get other bits than one in which the scalars have changed.
pub(super) struct Programs {
    /// The programs by a hash of their operations.
    known: HashMap<u64, Vec<Known>>,
    /// The limit on the lines of text of all kept programs; the newest is kept however long it is.
    most: usize,
    compiled: u64,
    /// The number of uses so far, which dates each program's last use.
    uses: u64,
}

struct Known {
    used: u64,
    structure: Structure,
    program: Arc<CompiledStructure>,
    /// The donated inputs of the last runs, if they differ from those that the program was compiled for, and the number
    /// of consecutive runs with them.
    otherwise: (Vec<bool>, u32),
}

/// The compiled program of a structure.
pub(super) struct CompiledStructure {
    executable: Arc<LoadedExecutable>,
    source: Arc<Program>,
    /// Whether the program may overwrite each input. An input that is still needed is copied first.
    consumed: Vec<bool>,
    /// Whether each place of experts has a part of each argument, and of each result.
    divided: (Vec<bool>, Vec<bool>),
    /// The dtype of the scalars.
    scalars: DType,
    random: bool,
}

/// The results of a run, and the new state of the random number generator.
type Results = (Vec<Arc<Stored>>, Option<Arc<Stored>>);

/// The lines of StableHLO whose programs are kept. On a processor each kernel takes three memory mappings, up to half a
/// mapping for each line, and Linux allows a process 65530; beyond that the compiler ends the process.
const KEPT: usize = 100_000;

/// The number of runs with other consumed inputs after which a program is compiled again for them: that saves memory in
/// a loop, but a few runs aren't worth a compilation.
const PATIENCE: u32 = 8;

impl Default for Programs {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            most: KEPT,
            compiled: 0,
            uses: 0,
        }
    }
}

impl Programs {
    /// The number of programs compiled so far.
    pub(super) fn compiled(&self) -> u64 {
        self.compiled
    }

    /// The program of a structure, compiled if there is none yet that takes `inputs` as they lie on the devices.
    pub(super) fn get(
        &mut self,
        machine: &Machine,
        canonical: &Canonical,
        inputs: &[Arc<Stored>],
    ) -> Result<Arc<CompiledStructure>, RunError> {
        self.uses += 1;
        let given: Vec<bool> = inputs.iter().map(|input| input.is_divided()).collect();
        let known = self.known.entry(canonical.structure.hash()).or_default();
        let place = known
            .iter()
            .position(|k| k.structure == canonical.structure && k.program.takes(&given));
        if let Some(known) = place.and_then(|place| known.get_mut(place)) {
            known.used = self.uses;
            if !known.settled_otherwise(&canonical.consumed) {
                return Ok(known.program.clone());
            }
        }
        let program = Arc::new(CompiledStructure::new(machine, canonical, &given)?);
        self.compiled += 1;
        let entry = Known {
            used: self.uses,
            structure: canonical.structure.clone(),
            program: program.clone(),
            otherwise: (Vec::new(), 0),
        };
        match place {
            Some(place) => known[place] = entry,
            None => known.push(entry),
        }
        self.forget_oldest();
        Ok(program)
    }

    /// Forgets the least recently used programs until the others are short enough together; never the newest.
    fn forget_oldest(&mut self) {
        let mut lines = 0;
        let too_many = self.by_use().into_iter().find(|known| {
            lines += known.program.source.text.lines().count();
            lines > self.most && known.used < self.uses
        });
        if let Some(Known { used, .. }) = too_many {
            let time = *used;
            self.forget(time);
        }
    }

    /// The programs, most recently used first.
    fn by_use(&self) -> Vec<&Known> {
        let mut all: Vec<&Known> = self.known.values().flatten().collect();
        all.sort_unstable_by_key(|known| std::cmp::Reverse(known.used));
        all
    }

    /// The texts of the programs, most recently used first.
    pub(super) fn sources(&self) -> Vec<Arc<Program>> {
        let source = |known: &Known| known.program.source.clone();
        self.by_use().into_iter().map(source).collect()
    }

    /// Forgets programs that were last used at `time` or before.
    fn forget(&mut self, time: u64) {
        self.known.retain(|_, known| {
            known.retain(|k| k.used > time);
            !known.is_empty()
        });
    }
}

impl Known {
    /// Whether the last [`PATIENCE`] runs all consumed the same inputs, and others than the program was compiled for.
    fn settled_otherwise(&mut self, consumed: &[bool]) -> bool {
        let (others, runs) = &mut self.otherwise;
        if self.program.consumed == consumed {
            *runs = 0;
        } else if others == consumed {
            *runs += 1;
        } else {
            *others = consumed.to_vec();
            *runs = 1;
        }
        *runs >= PATIENCE
    }
}

impl CompiledStructure {
    /// Compiles the program; `given` says of each input whether each place of experts has a part already.
    fn new(machine: &Machine, canonical: &Canonical, given: &[bool]) -> Result<Self, RunError> {
        let (structure, consumed) = (&canonical.structure, canonical.consumed.clone());
        let (dtype, element) = scalar_type(canonical);
        let inputs = structure.inputs.iter();
        let divided = machine.mesh().map(|mesh| {
            let given = inputs.clone().zip(given).filter(|(_, given)| **given);
            let given = given.map(|(tensor, _)| tensor.id);
            Divided::of(mesh, &structure.operations, given)
        });
        let is_divided = |id| divided.as_ref().is_some_and(|divided| divided.contains(id));
        let mut arguments: Vec<bool> = inputs.clone().map(|t| is_divided(t.id)).collect();
        let mut results: Vec<bool> = structure.outputs.iter().map(|id| is_divided(*id)).collect();
        let source = Source {
            inputs: inputs
                .map(|tensor| Ok((tensor.id, tensor_type(tensor)?)))
                .collect::<Result<_, RunError>>()?,
            operations: &structure.operations,
            outputs: &structure.outputs,
            scalars: (canonical.scalars.len(), element),
            donated: (0..consumed.len()).filter(|i| consumed[*i]).collect(),
            divided: divided.as_ref(),
        };
        let (lowered, _) = source.lower()?;
        // The state of the random number generator and the scalars are whole.
        arguments.resize(lowered.program.inputs.len(), false);
        results.resize(lowered.program.outputs.len(), false);
        Ok(Self {
            executable: machine.compile(&lowered.program)?,
            source: Arc::new(lowered.program),
            consumed,
            divided: (arguments, results),
            scalars: dtype,
            random: lowered.random,
        })
    }

    /// Whether the program takes inputs of which each place of experts has a part where `given` says so. A tensor that is
    /// divided stays so; any other is divided for the program if need be.
    fn takes(&self, given: &[bool]) -> bool {
        let mut inputs = given.iter().zip(&self.divided.0);
        inputs.all(|(given, divided)| !given || *divided)
    }

    /// Runs the program: its results, and the new state of the random number generator if the program draws numbers.
    pub(super) fn run(
        &self,
        machine: &Machine,
        (mut inputs, random): (Vec<Arc<Stored>>, Arc<Stored>),
        scalars: &[f64],
    ) -> Result<Results, RunError> {
        if self.random {
            inputs.push(random);
        }
        if !scalars.is_empty() {
            let shape = [scalars.len()];
            let data = TensorData::new(scalars.to_vec(), shape).convert_dtype(self.scalars);
            inputs.push(Arc::new(Stored::on_each(machine, &data)?));
        }
        let (arguments, results) = &self.divided;
        let divided = (arguments.as_slice(), results.as_slice());
        let mut results = stored::run(machine, &self.executable, &inputs, divided)?;
        let random = if self.random { results.pop() } else { None };
        Ok((results, random))
    }
}

/// The type of the scalars: f64 if some tensor is f64, otherwise f32, because no TPU has f64.
fn scalar_type(canonical: &Canonical) -> (DType, ElementType) {
    let wide = |op: &OperationIr| op.nodes().iter().any(|tensor| tensor.dtype == DType::F64);
    if canonical.structure.operations.iter().any(wide) {
        (DType::F64, ElementType::F64)
    } else {
        (DType::F32, ElementType::F32)
    }
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
