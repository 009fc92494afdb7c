//! Compiled programs by structure.

use super::recording::{Canonical, Structure};
use crate::lower::{Source, tensor_type};
use crate::machine::{self, Machine, RunError};
use crate::stablehlo::Program;
use burn_backend::{DType, TensorData};
use burn_ir::OperationIr;
use moebius_pjrt::{Buffer, ElementType, LoadedExecutable};
use std::collections::HashMap;
use std::sync::Arc;

/// The compiled programs of a device.
///
/// Tensors are arguments always, so no program holds weights, and so are float scalars of arithmetic
/// (a learning rate that decays, Adam's corrections): a compiler computes otherwise with constants, and a resumed
/// training would have other bits than one that has seen the scalars change.
pub(super) struct Programs {
    /// By a hash of the operations.
    known: HashMap<u64, Vec<Known>>,
    /// Lines of text that are kept, and the newest program however long it is.
    most: usize,
    compiled: u64,
    /// Counts uses, so that the one that was used longest ago can go.
    uses: u64,
}

struct Known {
    used: u64,
    structure: Structure,
    program: Arc<CompiledStructure>,
    /// The donated inputs of the last runs, where they differ from those that the program was compiled with, and how
    /// many runs had them.
    otherwise: (Vec<bool>, u32),
}

/// A program of a structure.
pub(super) struct CompiledStructure {
    executable: Arc<LoadedExecutable>,
    source: Arc<Program>,
    /// Which inputs it may overwrite. One that is still needed is copied first.
    consumed: Vec<bool>,
    /// Dtype of the scalars.
    scalars: DType,
    random: bool,
}

/// Results of a run, and the new state of the random number generator.
type Results = (Vec<Arc<Buffer>>, Option<Arc<Buffer>>);

/// Lines of StableHLO whose programs are kept. On a processor each kernel takes three mappings of memory, a
/// line up to half a mapping, and Linux gives a process 65530; then its compiler ends the process.
const KEPT: usize = 100_000;

/// Runs that use up other inputs than their program was compiled for, before it is compiled for them:
/// a loop saves memory by it, a few runs aren't worth a compilation.
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
    /// How many were compiled.
    pub(super) fn compiled(&self) -> u64 {
        self.compiled
    }

    /// The program of a structure, compiled if there is none yet.
    pub(super) fn get(
        &mut self,
        machine: &Machine,
        canonical: &Canonical,
    ) -> Result<Arc<CompiledStructure>, RunError> {
        self.uses += 1;
        let known = self.known.entry(canonical.structure.hash()).or_default();
        let place = known
            .iter()
            .position(|k| k.structure == canonical.structure);
        if let Some(known) = place.and_then(|place| known.get_mut(place)) {
            known.used = self.uses;
            if !known.settled_otherwise(&canonical.consumed) {
                return Ok(known.program.clone());
            }
        }
        let program = Arc::new(CompiledStructure::new(machine, canonical)?);
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

    /// Forgets what was used longest ago until the rest is short enough; never the newest.
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

    /// The last used first.
    fn by_use(&self) -> Vec<&Known> {
        let mut all: Vec<&Known> = self.known.values().flatten().collect();
        all.sort_unstable_by_key(|known| std::cmp::Reverse(known.used));
        all
    }

    /// What is kept, the last used first.
    pub(super) fn sources(&self) -> Vec<Arc<Program>> {
        let source = |known: &Known| known.program.source.clone();
        self.by_use().into_iter().map(source).collect()
    }

    /// Forgets what was last used at `time` or before.
    fn forget(&mut self, time: u64) {
        self.known.retain(|_, known| {
            known.retain(|k| k.used > time);
            !known.is_empty()
        });
    }
}

impl Known {
    /// Whether runs have for long used up other inputs than the program was compiled for, and always the same.
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
    fn new(machine: &Machine, canonical: &Canonical) -> Result<Self, RunError> {
        let (structure, consumed) = (&canonical.structure, canonical.consumed.clone());
        let (dtype, element) = scalar_type(canonical);
        let inputs = structure.inputs.iter();
        let source = Source {
            inputs: inputs
                .map(|tensor| Ok((tensor.id, tensor_type(tensor)?)))
                .collect::<Result<_, RunError>>()?,
            operations: &structure.operations,
            outputs: &structure.outputs,
            scalars: (canonical.scalars.len(), element),
            donated: (0..consumed.len()).filter(|i| consumed[*i]).collect(),
        };
        let (lowered, _) = source.lower()?;
        Ok(Self {
            executable: machine.compile(&lowered.program)?,
            source: Arc::new(lowered.program),
            consumed,
            scalars: dtype,
            random: lowered.random,
        })
    }

    /// The results, and the state of the random number generator if the program changes it.
    pub(super) fn run(
        &self,
        machine: &Machine,
        (mut inputs, random): (Vec<Arc<Buffer>>, Arc<Buffer>),
        scalars: &[f64],
    ) -> Result<Results, RunError> {
        if self.random {
            inputs.push(random);
        }
        if !scalars.is_empty() {
            let shape = [scalars.len()];
            let data = TensorData::new(scalars.to_vec(), shape).convert_dtype(self.scalars);
            inputs.push(machine::upload(machine, &data)?);
        }
        let mut results = machine::run(&self.executable, inputs)?;
        let random = if self.random { results.pop() } else { None };
        Ok((results, random))
    }
}

/// The type that loses nothing of a scalar: no TPU has f64, and without tensors of f64 nothing needs it.
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
