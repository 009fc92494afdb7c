//! Whole captured graphs.

use super::{LowerError, Lowering, draws, tensor_type};
use crate::ElementType;
use crate::record::element;
use crate::stablehlo::{Builder, Program, TensorType, Value};
use burn::tensor::{CapturedGraph, DType, Shape, TensorData};
use burn_ir::{GraphIr, OperationIr, TensorId, TensorIr};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A graph as a program.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program. Its arguments are the graph's inputs, then `constants`, then the state of the random
    /// number generator (ui64\[2\]) if `random`; its results are the graph's outputs, then the new state.
    pub program: Program,
    /// Initialised tensors whose values are arguments, in the order of their first use.
    pub constants: Vec<TensorId>,
    /// Whether the program draws random numbers.
    pub random: bool,
}

/// The program of a captured graph. Initialised values that aren't inputs of the graph become further
/// arguments: none is written into the program.
///
/// # Errors
///
/// If an operation has no lowering, or the graph reads what it neither takes nor makes.
pub fn graph(captured: &CapturedGraph) -> Result<Lowered, LowerError> {
    graph_donating(captured, &[])
}

/// As [`graph`]; each input named in `donated` gives its memory to the first output of its type that
/// has none yet.
///
/// # Errors
///
/// As [`graph`], and [`LowerError::Donation`] for an input that fits no output.
pub fn graph_donating(captured: &CapturedGraph, donated: &[usize]) -> Result<Lowered, LowerError> {
    let (graph, values) = (&captured.graph, &captured.values);
    let types = types(graph, values)?;
    let constants = constants(graph, values);
    let random = graph.operations.iter().any(draws);
    let mut b = Builder::new();
    let mut arguments = Vec::new();
    for id in graph.inputs.iter().chain(&constants) {
        let ty = types.get(id).ok_or(LowerError::Unknown { id: *id })?;
        arguments.push((*id, b.argument(ty.clone())));
    }
    let state = random.then(|| b.argument(TensorType::new([2], ElementType::U64)));
    let mut lowering = Lowering::new(&mut b, state);
    for (id, value) in arguments {
        lowering.set(id, value);
    }
    for operation in &graph.operations {
        lowering.operation(operation)?;
    }
    let outputs = graph.outputs.iter().map(|id| lowering.value(*id));
    let mut outputs = outputs.collect::<Result<Vec<Value>, _>>()?;
    let state = lowering.random();
    donate(&mut b, &outputs, graph.inputs.len(), donated)?;
    outputs.extend(state);
    Ok(Lowered {
        program: b.finish(&outputs),
        constants,
        random,
    })
}

fn donate(
    b: &mut Builder,
    outputs: &[Value],
    inputs: usize,
    donated: &[usize],
) -> Result<(), LowerError> {
    let mut free: Vec<usize> = (0..outputs.len()).collect();
    for index in donated.iter().copied() {
        let ty = (index < inputs).then(|| b.argument_type(index).clone());
        let fits = |output: &usize| ty.as_ref() == Some(b.ty(outputs[*output]));
        let place = free
            .iter()
            .position(fits)
            .ok_or(LowerError::Donation { index })?;
        b.donate(index, free.remove(place));
    }
    Ok(())
}

/// The types of all tensors.
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

fn value_type(shape: &Shape, dtype: DType) -> Result<TensorType, LowerError> {
    let element = element(dtype).ok_or_else(|| LowerError::Quantised {
        dtype: format!("{dtype:?}"),
    })?;
    Ok(TensorType::new(shape.to_vec(), element))
}

/// Values that the graph reads, or gives back, without them being inputs.
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
