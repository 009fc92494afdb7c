//! Attention within a sequence whose chunks are on the devices: ring attention (Liu et al. 2023).
//!
//! Device i has the queries, keys and values of chunk i of S/P tokens. Queries stay; in turn t device i has the keys and values of
//! chunk i − t, which it got from a device before it, and merges what its queries see of them by the log-sum-exp. Chunks travel by
//! a collective permutation that no product of its turn reads, so that XLA can run both at once. A turn in which the rules let
//! no device see anything is left out, and chunks travel over it at once.
//!
//! In a turn two programs are possible, as positions are part of them: that of the devices from t on, whose keys lie t chunks before
//! their queries, and that of those before t, whose keys lie P − t chunks after them. A device runs one; neither is there where the rules
//! hide all of it, so that under a causal rule each device computes what it sees and no more. The last device sees most: the others wait for it.
//!
//! Backward, every pair of chunks is computed with the log-sum-exp of all keys, so that its gradients are those of the whole. Gradients of keys and
//! values travel with them, in f32, and then home.

use super::layer::lower;
use crate::custom::values::float;
use crate::stablehlo::{Along, Builder, Program, Reduction, ReplicaGroups, Value};
use moebius_ops::attention::{Chunks, Problem};
use moebius_ops::{Attention, AttentionPass, Operation, Scalar, TableGradients, TensorInfo};
use moebius_pjrt::ElementType::{self, F32, S32};
use moebius_pjrt::TensorType;
use std::ops::Range;

/// An attention whose chunks are on as many devices.
///
/// Programs take, on each device, q \[1, B, Hq, S/P, D\], k \[1, B, Hkv, S/P, D\], v \[1, B, Hkv, S/P, Dv\], then tables in the order of the
/// operation's description: the documents of the chunk i32 \[1, B, S/P\], all others whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// The chunks, as many as devices P.
    pub chunks: Chunks,
}

/// A device's operands by their names in the description: those of its queries, and what is with the keys that it has.
#[derive(Clone)]
struct Operands(Vec<(&'static str, Value)>);

/// What stays with queries.
const OF_QUERIES: [&str; 2] = ["q", "query_documents"];

/// What travels with keys.
const OF_KEYS: [&str; 3] = ["k", "v", "key_documents"];

impl Ring {
    /// The forward pass. Results: o \[1, B, Hq, S/P, Dv\] and its log-sum-exp f32 \[1, B, Hq, S/P\].
    pub fn forward(&self) -> Program {
        let b = Builder::new();
        let operands = self.arguments(&b);
        let [o, lse] = self.attended(&b, operands);
        let results = [b.convert(o, self.element()), lse].map(|x| raised(&b, x));
        b.finish_replicated(&results, self.chunks.count())
    }

    /// The forward and the backward pass. A last argument is do, of the shape of o. Results: those of [`Ring::forward`], dq, dk, dv,
    /// and, summed over the devices, drelative and dsinks where there are such tables.
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

    /// o and lse in f32.
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

    /// dq, dk, dv of the own chunk and the tables' gradients of the own queries, in f32.
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
            // Those of sinks are of the first turn.
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

    /// The state after `pass` in each turn, for the problem of the devices that compute something, and the last turn. Values `travelling`
    /// of the state are of keys and travel with them.
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
                // Every device, with its own chunk.
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
    /// The results of a pass over these, those of them that it has.
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

    /// What is of keys becomes what `by` makes of it.
    fn travel(&mut self, by: impl Fn(Value) -> Value) {
        for (name, value) in &mut self.0 {
            if OF_KEYS.contains(name) {
                *value = by(*value);
            }
        }
    }
}

/// o and lse, in f32, over the keys of two parts: as `moebius::attention::merge`.
fn merged(b: &Builder, [o, lse]: [Value; 2], [part, sum]: [Value; 2]) -> [Value; 2] {
    let largest = b.max(lse, sum);
    let [before, after] = [lse, sum].map(|x| b.exp(b.sub(x, largest)));
    let total = b.add(before, after);
    let weigh = |x, weight| b.mul(x, Along(b.div(weight, total), [0, 1, 2]));
    let o = b.add(weigh(o, before), weigh(part, after));
    [o, b.add(largest, b.log(total))]
}

/// \[1, …\] of x.
fn raised(b: &Builder, x: Value) -> Value {
    b.reshape(x, &[&[1], b.shape(x).as_slice()].concat())
}

/// x of \[1, …\].
fn lowered(b: &Builder, x: Value) -> Value {
    b.reshape(x, &b.shape(x)[1..])
}
