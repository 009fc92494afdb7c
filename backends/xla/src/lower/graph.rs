//! Lowering of whole programs, from captured graphs and from recordings.

use super::{Divided, LowerError, Lowering, draws, tensor_type, value_type};
use crate::stablehlo::{Builder, Program, Value};
use burn::tensor::{CapturedGraph, TensorData};
use burn_ir::{GraphIr, OperationIr, TensorId, TensorIr};
use moebius_pjrt::{ElementType, TensorType};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A graph lowered to a program.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program. Its arguments are the graph's inputs, then `constants`, then the state of the random
    /// number generator (ui64\[2\]) if `random`; its results are the graph's outputs, then the new state.
    pub program: Program,
    /// Initialised tensors whose values become arguments, in the order of their first use.
    pub constants: Vec<TensorId>,
    /// Whether the program draws random numbers.
    pub random: bool,
}

/// A list of operations to lower to one program.
pub(crate) struct Source<'a> {
    /// The tensors that become arguments.
    pub(crate) inputs: Vec<(TensorId, TensorType)>,
    /// The operations, in order.
    pub(crate) operations: &'a [OperationIr],
    /// The tensors that become results.
    pub(crate) outputs: &'a [TensorId],
    /// How many float scalars of the operations, by number, are elements of one more argument, and that argument's
    /// type.
    pub(crate) scalars: (usize, ElementType),
    /// Indices of inputs that donate their memory, each to the first free result of its type.
    pub(crate) donated: Vec<usize>,
    /// The tensors that lie divided on several devices; `None` for one device.
    pub(crate) divided: Option<&'a Divided>,
}

impl Source<'_> {
    /// Lowers the operations to a program without constants; also returns the donated inputs for which no result was
    /// left. If the program draws random numbers, the generator's state, ui64\[2\], is an argument after the inputs and
    /// the last result. A vector of the scalars, if there are any, is the last argument.
    pub(crate) fn lower(self) -> Result<(Lowered, Vec<usize>), LowerError> {
        let random = self.operations.iter().any(draws);
        let b = match self.divided {
            Some(divided) => Builder::placed(divided.mesh()),
            None => Builder::new(),
        };
        let divided = |id| self.divided.is_some_and(|divided| divided.contains(id));
        let mut lowering = Lowering::new(&b, None);
        lowering.divided = self.divided;
        for (id, ty) in &self.inputs {
            lowering.set(*id, b.argument_of(ty.clone(), divided(*id)));
        }
        let state = random.then(|| b.argument(TensorType::new([2], ElementType::U64)));
        lowering.random.set(state);
        let (count, element) = self.scalars;
        let scalars = (count > 0).then(|| b.argument(TensorType::new([count], element)));
        lowering.scalars = scalars;
        for operation in self.operations {
            lowering.operation(operation)?;
        }
        let outputs = self.outputs.iter().map(|id| lowering.value(*id));
        let mut outputs = outputs.collect::<Result<Vec<Value>, _>>()?;
        outputs.extend(lowering.random());
        let mut parts: Vec<bool> = self.outputs.iter().map(|id| divided(*id)).collect();
        parts.resize(outputs.len(), false);
        let mut free: Vec<usize> = (0..self.outputs.len()).collect();
        let mut unused = Vec::new();
        for index in &self.donated {
            let given = self.inputs.get(*index);
            let given = given.map(|(id, ty)| (ty.clone(), divided(*id)));
            let fits = |output: &usize| given == Some((b.ty(outputs[*output]), parts[*output]));
            match free.iter().position(fits) {
                Some(place) => b.donate(*index, free.remove(place)),
                None => unused.push(*index),
            }
        }
        let lowered = Lowered {
            program: b.finish_divided(&outputs, &parts),
            constants: Vec::new(),
            random,
        };
        Ok((lowered, unused))
    }
}

/// Lowers a captured graph. Initialised values that aren't inputs of the graph become further arguments; none is
/// written into the program.
///
/// # Errors
///
/// [`LowerError::Unsupported`] and others for an operation without a lowering, and [`LowerError::Unknown`] when the
/// graph reads a tensor that it neither takes nor makes.
pub fn graph(captured: &CapturedGraph) -> Result<Lowered, LowerError> {
    graph_donating(captured, &[])
}

/// As [`graph`], but each input whose index is in `donated` donates its memory to the first free output of its type.
///
/// # Errors
///
/// As for [`graph`], and [`LowerError::Donation`] for an input that fits no output.
pub fn graph_donating(captured: &CapturedGraph, donated: &[usize]) -> Result<Lowered, LowerError> {
    let (graph, values) = (&captured.graph, &captured.values);
    let types = types(graph, values)?;
    let constants = constants(graph, values);
    let input = |id: &TensorId| {
        let ty = types.get(id).cloned();
        Ok((*id, ty.ok_or(LowerError::Unknown(*id))?))
    };
    let inputs = graph.inputs.iter().chain(&constants).map(input);
    let whole = Source {
        inputs: inputs.collect::<Result<_, LowerError>>()?,
        operations: &graph.operations,
        outputs: &graph.outputs,
        scalars: (0, ElementType::F32),
        donated: donated.to_vec(),
        divided: None,
    };
    // Only inputs of the graph can be donated, not its constants.
    let constant = donated.iter().find(|index| **index >= graph.inputs.len());
    let (lowered, unused) = whole.lower()?;
    match constant.or(unused.first()) {
        Some(&index) => Err(LowerError::Donation(index)),
        None => Ok(Lowered {
            constants,
            ..lowered
        }),
    }
}

/// The types of all tensors of a graph.
fn types(
    graph: &GraphIr,
    values: &BTreeMap<TensorId, TensorData>,
) -> Result<HashMap<TensorId, TensorType>, LowerError> {
    let mut types = HashMap::new();
    for (id, data) in values {
        types.insert(*id, value_type(data.shape(), data.dtype())?);
    }
    for tensor in graph.operations.iter().flat_map(OperationIr::nodes) {
        types.insert(tensor.id, tensor_type(tensor)?);
    }
    Ok(types)
}

/// The values that the graph reads or returns and that aren't inputs.
fn constants(graph: &GraphIr, values: &BTreeMap<TensorId, TensorData>) -> Vec<TensorId> {
    let mut seen: HashSet<TensorId> = graph.inputs.iter().copied().collect();
    let read = graph.operations.iter().flat_map(|operation| {
        let inputs: Vec<&TensorIr> = operation.inputs().collect();
        inputs.into_iter().map(|tensor| tensor.id)
    });
    let used = read.chain(graph.outputs.iter().copied());
    used.filter(|id| values.contains_key(id) && seen.insert(*id))
        .collect()
}
