//! Calls on a device that records gradients: the tensors that the backward pass reads are kept, and the backward pass is the operation that
//! [`Operation::gradient`](moebius_ops::Operation::gradient) names.

use super::call::{Call, Operations, Planned};
use super::tensors::{Named, Tensors, Value};
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend};
use moebius_ops::{Gradient, Signature, TensorInfo};
use moebius_shaders::Kernels;
use std::sync::Arc;

/// The largest number of operands with a gradient.
const MOST: usize = 6;

impl<B: Operations, C: CheckpointStrategy> Operations for Autodiff<B, C> {
    fn moebius_run(operands: Tensors<Self>, call: Box<Call>) -> Tensors<Self> {
        let through = call.operation.differentiable().first();
        let through = through.map(|result| Through::of(&call, result));
        let parents = parents(&operands, &call, through.as_ref());
        let plain = Tensors(operands.0.into_iter().map(without_graph).collect());
        let Some(through) = through else {
            return constants(B::moebius_run(plain, call));
        };
        match parents.len() {
            0 => constants(B::moebius_run(plain, call)),
            1 => record::<B, C, 1>(parents, plain, call, through),
            2 => record::<B, C, 2>(parents, plain, call, through),
            3 => record::<B, C, 3>(parents, plain, call, through),
            4 => record::<B, C, 4>(parents, plain, call, through),
            5 => record::<B, C, 5>(parents, plain, call, through),
            MOST => record::<B, C, MOST>(parents, plain, call, through),
            more => unreachable!("{more} operands with gradients"),
        }
    }
}

type Parent<B, C> = (&'static str, FloatTensor<Autodiff<B, C>>);

/// The operands that may have a gradient.
fn parents<B: Backend, C: CheckpointStrategy>(
    operands: &Tensors<Autodiff<B, C>>,
    call: &Call,
    through: Option<&Through>,
) -> Vec<Parent<B, C>> {
    let Some(Through { parents, .. }) = through else {
        return Vec::new();
    };
    let operands = call.operands().zip(&operands.0);
    let parents = operands.filter_map(|(name, operand)| match operand {
        Value::Float(tensor) if parents.contains(&name) => Some((name, tensor.clone())),
        _ => None,
    });
    parents.collect()
}

/// The backward pass through one result, with the forward's names of its tensors.
struct Through {
    /// The operands whose gradients the pass computes.
    parents: Vec<&'static str>,
    /// The tensors of the forward that the pass reads.
    reads: Vec<&'static str>,
}

impl Through {
    fn of(call: &Call, result: &str) -> Self {
        let (operation, names) = match call.operation.gradient(result, |_| true) {
            Some(Gradient::By { operation, names }) => (*operation, names),
            Some(Gradient::Same) | None => {
                let (parents, reads) = (call.operands().take(1).collect(), Vec::new());
                return Self { parents, reads };
            }
        };
        let Signature {
            operands, results, ..
        } = operation.signature();
        let of = |result: &TensorInfo| called(result.name, names).strip_prefix('d');
        Self {
            parents: results.iter().filter_map(of).collect(),
            reads: operands
                .iter()
                .map(|operand| called(operand.name, names))
                .collect(),
        }
    }
}

/// Returns the forward's name of a tensor of its backward pass.
fn called(name: &'static str, names: &[(&'static str, &'static str)]) -> &'static str {
    let other = names.iter().find(|(its, _)| *its == name);
    other.map_or(name, |(_, forward)| *forward)
}

fn without_graph<B: Backend, C: CheckpointStrategy>(value: Value<Autodiff<B, C>>) -> Value<B> {
    match value {
        Value::Float(tensor) => Value::Float(tensor.into_primitive()),
        Value::Word(tensor) => Value::Word(tensor),
    }
}

fn constant<B: Backend, C: CheckpointStrategy>(value: Value<B>) -> Value<Autodiff<B, C>> {
    match value {
        Value::Float(tensor) => Value::Float(Autodiff::<B, C>::from_inner(tensor)),
        Value::Word(tensor) => Value::Word(tensor),
    }
}

fn constants<B: Backend, C: CheckpointStrategy>(values: Tensors<B>) -> Tensors<Autodiff<B, C>> {
    Tensors(values.0.into_iter().map(constant).collect())
}

/// The state that a backward pass keeps from its forward.
#[derive(Clone, Debug)]
struct Saved<B: Backend> {
    call: Box<Call>,
    /// The result whose gradient is given.
    through: &'static str,
    parents: Vec<&'static str>,
    /// The operands and results of the forward that the pass reads.
    tensors: Named<Value<B>>,
}

#[derive(Debug)]
struct Step;

impl<B: Operations, const N: usize> Backward<B, N> for Step {
    type State = Saved<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let saved = ops.state;
        let parents = saved.parents.iter().zip(&ops.parents);
        let parents = parents.filter_map(|(name, node)| node.as_ref().map(|node| (*name, node.id)));
        let parents: Vec<(&str, NodeId)> = parents.collect();
        let needs = |name: &str| parents.iter().any(|(parent, _)| *parent == name);
        for (name, gradient) in saved.gradients(gradient, needs) {
            if let Some((_, id)) = parents.iter().find(|(parent, _)| *parent == name) {
                grads.register::<B>(*id, gradient);
            }
        }
    }
}

impl<B: Operations> Saved<B> {
    /// Computes the gradients of operands from the gradient of the result.
    fn gradients(
        self,
        gradient: FloatTensor<B>,
        needs: impl Fn(&str) -> bool,
    ) -> Vec<(&'static str, FloatTensor<B>)> {
        let Self {
            call,
            through,
            parents,
            tensors,
        } = self;
        let (operation, names) = match call.operation.gradient(through, needs) {
            Some(Gradient::By { operation, names }) => (*operation, names),
            Some(Gradient::Same) => return parents.into_iter().zip([gradient]).collect(),
            None => unreachable!("{through} has a gradient"),
        };
        let signature = Arc::new(operation.signature());
        let described = signature
            .operands
            .iter()
            .map(|operand| called(operand.name, names));
        let operands = described.chain(call.beside.iter().copied()).map(|name| {
            if name.strip_prefix('d') == Some(through) {
                Value::Float(gradient.clone())
            } else {
                tensors.get(name)
            }
        });
        let operands = Tensors(operands.collect());
        let planned = call.planned.map(|planned| Planned {
            forward: through_result(&planned, through),
            recorded: None,
            gradients: Vec::new(),
        });
        let backward = Box::new(Call {
            operation,
            signature: signature.clone(),
            planned,
            recorded: None,
            clock: None,
            launches: None,
            beside: call.beside,
            rule: call.rule,
        });
        let results = backward.run(operands).0.into_iter();
        let results = signature.results.iter().zip(results);
        let of = |name| called(name, names).strip_prefix('d');
        results
            .filter_map(|(info, value)| Some((of(info.name)?, value.float())))
            .collect()
    }
}

/// The kernels of the gradients through a result.
fn through_result(planned: &Planned, result: &str) -> Kernels {
    let found = planned.gradients.iter().find(|(of, _)| *of == result);
    let Some((_, kernels)) = found else {
        unreachable!("a recording device plans the gradients through {result}");
    };
    kernels.clone()
}

/// Runs the forward, and records it if a parent needs a gradient.
fn record<B: Operations, C: CheckpointStrategy, const N: usize>(
    parents: Vec<Parent<B, C>>,
    plain: Tensors<B>,
    mut call: Box<Call>,
    Through { mut reads, .. }: Through,
) -> Tensors<Autodiff<B, C>> {
    let through = call.operation.differentiable();
    let prepare = || {
        let nodes = std::array::from_fn(|at| parents[at].1.node());
        Backward::<B, N>::prepare::<C>(Step, nodes)
            .compute_bound()
            .stateful()
    };
    if let OpsKind::UnTracked(_) = prepare() {
        return constants(B::moebius_run(plain, call));
    }
    let returned = call.results().count();
    if let Some(operation) = call.recorded.take() {
        call.signature = Arc::new(operation.signature());
        call.operation = operation;
        if let Some(planned) = &mut call.planned
            && let Some(kernels) = planned.recorded.take()
        {
            planned.forward = kernels;
        }
        reads = Through::of(&call, through[0]).reads;
    }
    for more in &through[1..] {
        reads.extend(Through::of(&call, more).reads);
    }
    reads.extend(&call.beside);
    let infos: Vec<_> = call.results().collect();
    let results = B::moebius_run(plain.clone(), call.clone()).0;
    let names = call.operands().chain(infos.iter().map(|info| info.name));
    let tensors = Named::new(names, plain.0.into_iter().chain(results.iter().cloned()));
    let tensors = tensors.only(&reads);
    let recorded = infos
        .iter()
        .zip(results)
        .take(returned)
        .map(|(info, value)| {
            if !through.contains(&info.name) {
                return constant(value);
            }
            let saved = Saved {
                call: call.clone(),
                through: info.name,
                parents: parents.iter().map(|(name, _)| *name).collect(),
                tensors: tensors.clone(),
            };
            Value::Float(match prepare() {
                OpsKind::Tracked(step) => step.finish(saved, value.float()),
                OpsKind::UnTracked(step) => step.finish(value.float()),
            })
        });
    Tensors(recorded.collect())
}
