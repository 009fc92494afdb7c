//! Compiled programs by structure.

use super::canonical::{Canonical, Structure};
use crate::ElementType;
use crate::lower::{Lowering, tensor_type};
use crate::machine::{Machine, Program, RunError};
use crate::pjrt::Buffer;
use crate::stablehlo::{self, Builder, TensorType, Value};
use burn_backend::{DType, TensorData};
use burn_ir::{OperationIr, TensorId};
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
    program: Arc<Compiled>,
    /// The donated inputs of the last runs, where they differ from those that the program was compiled with, and how
    /// many runs had them.
    otherwise: (Vec<bool>, u32),
}

/// A program of a structure.
pub(super) struct Compiled {
    program: Program,
    source: Arc<stablehlo::Program>,
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
    ) -> Result<Arc<Compiled>, RunError> {
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
        let program = Arc::new(Compiled::new(machine, canonical)?);
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
    pub(super) fn sources(&self) -> Vec<Arc<stablehlo::Program>> {
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

impl Compiled {
    fn new(machine: &Machine, canonical: &Canonical) -> Result<Self, RunError> {
        let (source, random) = lower(canonical)?;
        Ok(Self {
            program: machine.compile(&source)?,
            source: Arc::new(source),
            consumed: canonical.consumed.clone(),
            scalars: match scalar_element(canonical) {
                ElementType::F64 => DType::F64,
                _ => DType::F32,
            },
            random,
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
            inputs.push(Arc::new(crate::host::upload(machine, &data)?));
        }
        let mut results = self.program.run(inputs)?;
        let random = if self.random { results.pop() } else { None };
        Ok((results, random))
    }
}

/// The program of a structure, and whether it draws random numbers: then the generator's state is an
/// argument after the inputs, and the last result. The scalars, f32\[n\], are the last argument.
fn lower(canonical: &Canonical) -> Result<(stablehlo::Program, bool), RunError> {
    let random = canonical
        .structure
        .operations
        .iter()
        .any(crate::lower::draws);
    let mut b = Builder::new();
    let mut arguments = Vec::new();
    for tensor in &canonical.structure.inputs {
        arguments.push(b.argument(tensor_type(tensor)?));
    }
    let element = scalar_element(canonical);
    let state = random.then(|| b.argument(TensorType::new([2], ElementType::U64)));
    let scalars = scalar_arguments(&mut b, canonical.scalars.len(), element);
    let mut lowering = Lowering::new(&mut b, state);
    lowering.set_scalars(scalars);
    for (tensor, value) in canonical.structure.inputs.iter().zip(&arguments) {
        lowering.set(tensor.id, *value);
    }
    for operation in &canonical.structure.operations {
        lowering.operation(operation)?;
    }
    let mut outputs = outputs(&lowering, &canonical.structure.outputs)?;
    outputs.extend(lowering.random());
    donate(&mut b, canonical, &outputs);
    Ok((b.finish(&outputs), random))
}

fn outputs(lowering: &Lowering<'_>, ids: &[TensorId]) -> Result<Vec<Value>, RunError> {
    let value = |id: &TensorId| lowering.value(*id).map_err(RunError::from);
    ids.iter().map(value).collect()
}

/// The type that loses nothing of a scalar: no TPU has f64, and without tensors of f64 nothing needs it.
fn scalar_element(canonical: &Canonical) -> ElementType {
    let wide = |op: &OperationIr| op.nodes().iter().any(|tensor| tensor.dtype == DType::F64);
    match canonical.structure.operations.iter().any(wide) {
        true => ElementType::F64,
        false => ElementType::F32,
    }
}

/// Scalars of the last argument, by number.
fn scalar_arguments(b: &mut Builder, count: usize, element: ElementType) -> HashMap<usize, Value> {
    if count == 0 {
        return HashMap::new();
    }
    let all = b.argument(TensorType::new([count], element));
    let scalar = |number: usize| {
        let one = b.slice_dim(all, 0, number..number + 1);
        (number, b.reshape(one, &[]))
    };
    (0..count).map(scalar).collect()
}

/// Lets results take the memory of inputs that no tensor refers to any more.
fn donate(b: &mut Builder, canonical: &Canonical, outputs: &[Value]) {
    let mut free: Vec<usize> = (0..outputs.len()).collect();
    for (index, tensor) in canonical.structure.inputs.iter().enumerate() {
        let Ok(ty) = tensor_type(tensor) else {
            continue;
        };
        if !canonical.consumed[index] {
            continue;
        }
        if let Some(place) = free.iter().position(|output| *b.ty(outputs[*output]) == ty) {
            b.donate(index, free.remove(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::canonical::tests::tensor;
    use super::*;
    use crate::host;
    use crate::pjrt::Platform;
    use burn_backend::Shape;
    use burn_ir::{NumericOperationIr, ScalarIr, ScalarOpIr, TensorStatus};

    /// x [size] · 3 for x = 0, 1, …
    fn tripled(programs: &mut Programs, machine: &Machine, size: usize) {
        let tensor = |id, status| {
            let mut tensor = tensor(id, status);
            tensor.shape = Shape::new([size]);
            tensor
        };
        let canonical = Canonical::of(vec![OperationIr::NumericFloat(
            DType::F32,
            NumericOperationIr::MulScalar(ScalarOpIr {
                lhs: tensor(1, TensorStatus::ReadOnly),
                rhs: ScalarIr::Float(3.0),
                out: tensor(2, TensorStatus::NotInit),
            }),
        )]);
        let program = programs.get(machine, &canonical).unwrap();
        let x: Vec<f32> = (0..size).map(|i| i as f32).collect();
        let x = host::upload(machine, &TensorData::new(x, [size])).unwrap();
        let random = host::random_state(machine, 1).unwrap();
        let arguments = (vec![Arc::new(x)], Arc::new(random));
        let (results, _) = program.run(machine, arguments, &canonical.scalars).unwrap();
        let y = host::read(&results[0], DType::F32).unwrap();
        let expected: Vec<f32> = (0..size).map(|i| 3.0 * i as f32).collect();
        assert_eq!(y.try_to_vec::<f32>().unwrap(), expected);
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten_and_compiled_again() {
        let client = crate::client(Platform::Cpu).unwrap();
        let machine = Machine::new(client.device(0).unwrap()).unwrap();
        let mut programs = Programs::default();
        tripled(&mut programs, &machine, 1);
        let lines = programs.sources()[0].text.lines().count();
        programs.most = 5 * lines;
        for size in 2..=30 {
            tripled(&mut programs, &machine, size);
            // The first is used all the time.
            tripled(&mut programs, &machine, 1);
            assert_eq!(programs.sources().len(), size.min(5));
        }
        assert_eq!(programs.compiled(), 30);
        tripled(&mut programs, &machine, 27);
        assert_eq!(programs.compiled(), 30, "one of the last four");
        tripled(&mut programs, &machine, 26);
        assert_eq!(programs.compiled(), 31, "it was forgotten");
        assert_eq!(programs.sources().len(), 5);
        // The newest stays though it is too long alone.
        programs.most = 0;
        tripled(&mut programs, &machine, 40);
        assert_eq!(programs.sources().len(), 1);
    }
}
