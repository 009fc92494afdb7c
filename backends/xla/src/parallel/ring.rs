//! Attention within a sequence whose chunks are on the devices: ring attention (Liu et al. 2023).
//!
//! Device i has the queries, keys and values of chunk i of S/P tokens. Queries stay; in turn t device i has the keys
//! and values of chunk i − t, which it got from a preceding device, and merges its queries' attention over them by the
//! log-sum-exp. Chunks travel by a collective permutation on which no product of the same turn depends, so that XLA can
//! run both at once. A turn in which the rules let no device see anything is skipped, and chunks travel past it in one
//! step.
//!
//! Positions are part of a turn's computation, so it has two forms: devices from t on have keys t chunks before their
//! queries, and devices before t have keys P − t chunks after them. A device runs one form; a form whose pairs the
//! rules all hide is left out, so that under a causal rule each device computes only what it sees. The last device sees
//! most, and the others wait for it.
//!
//! In the backward pass, every pair of chunks is computed with the log-sum-exp over all keys, so that its gradients are
//! parts of the whole gradient. Gradients of keys and values travel with these, in f32, and return to their device at
//! the end.

use super::layer::lower;
use crate::custom::values::float;
use crate::stablehlo::{Along, Builder, Program, Reduction, ReplicaGroups, Value};
use moebius_ops::attention::{Chunks, Problem};
use moebius_ops::{Attention, AttentionPass, Operation, Scalar, TableGradients, TensorInfo};
use moebius_pjrt::ElementType::{self, F32, S32};
use moebius_pjrt::TensorType;
use std::ops::Range;

/// An attention with one chunk of the sequence on each device.
///
/// Programs take, on each device, q \[1, B, Hq, S/P, D\], k \[1, B, Hkv, S/P, D\], v \[1, B, Hkv, S/P, Dv\], then
/// tables in the order of the operation's description: documents of the chunk, i32 \[1, B, S/P\], and all other tables
/// whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// The chunks, one for each of P devices.
    pub chunks: Chunks,
}

/// A device's operands, by their names in the description: those of its own queries, and those of the keys that it has
/// in this turn.
#[derive(Clone)]
struct Operands(Vec<(&'static str, Value)>);

/// The operands that stay with the queries.
const OF_QUERIES: [&str; 2] = ["q", "query_documents"];

/// The operands that travel with the keys.
const OF_KEYS: [&str; 3] = ["k", "v", "key_documents"];

impl Ring {
    /// The program of the forward pass. Its results are o \[1, B, Hq, S/P, Dv\] and its log-sum-exp, f32 \[1, B, Hq,
    /// S/P\].
    pub fn forward(&self) -> Program {
        let b = Builder::new();
        let operands = self.arguments(&b);
        let [o, lse] = self.attended(&b, operands);
        let results = [b.convert(o, self.element()), lse].map(|x| raised(&b, x));
        b.finish_replicated(&results, self.chunks.count())
    }

    /// The program of the forward and the backward pass. It has do, of the shape of o, as its last argument. Its
    /// results are those of [`Ring::forward`], dq, dk, dv and, summed over the devices, drelative and dsinks if there
    /// are such tables.
    pub fn gradients(&self) -> Program {
        let b = Builder::new();
        let mut operands = self.arguments(&b);
        let [o, lse] = self.attended(&b, operands.clone());
        let o = b.convert(o, self.element());
        let d_o = b.argument(b.ty(raised(&b, o)));
        operands
            .0
            .extend([("o", o), ("lse", lse), ("do", lowered(&b, d_o))]);
        let gradients = self.backward(&b, operands);
        let group = ReplicaGroups::all(self.chunks.count());
        let mut results = vec![raised(&b, o), raised(&b, lse)];
        for (place, gradient) in gradients.into_iter().enumerate() {
            results.push(match place {
                0..3 => raised(&b, b.convert(gradient, self.element())),
                _ => b.all_reduce(Reduction::Sum, gradient, &group),
            });
        }
        b.finish_replicated(&results, self.chunks.count())
    }

    fn element(&self) -> ElementType {
        float(self.chunks.chunk().element())
    }

    fn arguments(&self, b: &Builder) -> Operands {
        let own = self.chunks.pair(0);
        let problem = own.unwrap_or_else(|| unreachable!("a chunk sees itself"));
        let pass = AttentionPass::Forward;
        let described = Operation::from(Attention { problem, pass }).signature();
        let argument = |operand: &TensorInfo| {
            let element = match operand.scalar {
                Scalar::Float(element) => float(element),
                Scalar::Word => S32,
            };
            let ty = TensorType::new(operand.shape.clone(), element);
            let divided = OF_QUERIES.contains(&operand.name) || OF_KEYS.contains(&operand.name);
            let value = if divided {
                let shape = [&[1], operand.shape.as_slice()].concat();
                lowered(b, b.argument(ty.with_shape(shape)))
            } else {
                b.argument(ty)
            };
            (operand.name, value)
        };
        Operands(described.operands.iter().map(argument).collect())
    }

    /// The forward pass over all turns: o and lse, in f32.
    fn attended(&self, b: &Builder, operands: Operands) -> [Value; 2] {
        let forward = |b: &Builder, problem, operands: &Operands, state: &[Value]| {
            let part = operands.run(b, problem, AttentionPass::Forward);
            let part = [b.convert(part[0], F32), part[1]];
            match state {
                [o, lse] => merged(b, [*o, *lse], part).to_vec(),
                _ => part.to_vec(),
            }
        };
        let (state, _) = self.each_turn(b, operands, 0..0, forward);
        [state[0], state[1]]
    }

    /// The backward pass over all turns, in f32: dq, dk, dv of the device's own chunk, and the tables' gradients of its
    /// own queries.
    fn backward(&self, b: &Builder, operands: Operands) -> Vec<Value> {
        let of_keys = 1..3;
        let backward = |b: &Builder, problem: Problem, operands: &Operands, state: &[Value]| {
            let wanted = TableGradients {
                bias: false,
                relative: problem.rules().relative().is_some(),
                sinks: problem.sinks(),
            };
            let part = operands.run(b, problem, AttentionPass::Output(wanted));
            let part = part.into_iter().map(|x| b.convert(x, F32));
            let mut sums: Vec<Value> = part.collect();
            for (sum, before) in sums.iter_mut().zip(state) {
                *sum = b.add(*before, *sum);
            }
            // The gradients of sinks come from the first turn only.
            sums.extend(state.get(sums.len()..).unwrap_or_default());
            sums
        };
        let (mut state, last) = self.each_turn(b, operands, of_keys.clone(), backward);
        for gradient in &mut state[of_keys] {
            let home = self.chunks.count() - last;
            *gradient = b.rotate(*gradient, home, self.chunks.count());
        }
        state
    }

    /// Runs `pass` in each turn and returns the final state and the last turn. `pass` gets the problem of the pair of
    /// chunks, the operands and the state. The `travelling` values of the state belong to keys and travel with them.
    fn each_turn(
        &self,
        b: &Builder,
        mut operands: Operands,
        travelling: Range<usize>,
        pass: impl Fn(&Builder, Problem, &Operands, &[Value]) -> Vec<Value>,
    ) -> (Vec<Value>, usize) {
        let devices = self.chunks.count();
        let place = b.convert(b.replica_id(), S32);
        let (mut state, mut last) = (Vec::new(), 0);
        for turn in self.chunks.turns() {
            let [near, far] = self.chunks.apart(turn).map(|apart| self.chunks.pair(apart));
            if turn == 0 {
                // In turn 0 every device computes its own chunk.
                state = near.map_or(state, |problem| pass(b, problem, &operands, &[]));
                continue;
            }
            let by = turn - last;
            last = turn;
            operands.travel(|x| b.rotate(x, by, devices));
            for sum in &mut state[travelling.clone()] {
                *sum = b.rotate(*sum, by, devices);
            }
            let which = [
                (near, b.ge(place, turn as f64)),
                (far, b.lt(place, turn as f64)),
            ];
            for (problem, here) in which {
                if let Some(problem) = problem {
                    let once = b.convert(here, S32);
                    state = b.for_loop(once, &state, |b, _, state| {
                        pass(b, problem, &operands, state)
                    });
                }
            }
        }
        (state, last)
    }
}

impl Operands {
    /// Runs a pass on those of these operands that it takes, and returns its results.
    fn run(&self, b: &Builder, problem: Problem, pass: AttentionPass) -> Vec<Value> {
        let operation = Operation::from(Attention { problem, pass });
        let described = operation.signature().operands;
        let named = |name| {
            let found = self.0.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| *value)
        };
        let operands = described.iter().filter_map(|operand| named(operand.name));
        lower(b, operation, &operands.collect::<Vec<Value>>())
    }

    /// Replaces the operands that travel with keys by what `by` makes of them.
    fn travel(&mut self, by: impl Fn(Value) -> Value) {
        for (name, value) in &mut self.0 {
            if OF_KEYS.contains(name) {
                *value = by(*value);
            }
        }
    }
}

/// Merges o and lse over the keys of two parts, in f32, as `moebius::attention::merge` does.
fn merged(b: &Builder, [o, lse]: [Value; 2], [part, sum]: [Value; 2]) -> [Value; 2] {
    let largest = b.max(lse, sum);
    let [before, after] = [lse, sum].map(|x| b.exp(b.sub(x, largest)));
    let total = b.add(before, after);
    let weigh = |x, weight| b.mul(x, Along(b.div(weight, total), [0, 1, 2]));
    let o = b.add(weigh(o, before), weigh(part, after));
    [o, b.add(largest, b.log(total))]
}

/// Adds a leading dimension of extent 1.
fn raised(b: &Builder, x: Value) -> Value {
    b.reshape(x, &[&[1], b.shape(x).as_slice()].concat())
}

/// Removes the leading dimension of extent 1.
fn lowered(b: &Builder, x: Value) -> Value {
    b.reshape(x, &b.shape(x)[1..])
}
