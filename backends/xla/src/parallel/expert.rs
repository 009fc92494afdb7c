//! Expert parallelism: every device has E/P neighbouring experts.
//!
//! A device routes its own T/P tokens and sorts their slots by expert, which also sorts them by device: the rows for
//! device q are consecutive. If the layer has a capacity, each device first gathers the choices of all devices and
//! drops the slots that a single device would drop. The exchange has two steps.
//!
//! 1. Counts: an all-to-all of how many rows go to each expert (i32 \[P, E/P\]), and the largest number of
//!    rows that any device has for any other.
//! 2. Rows, in rounds of C rows from each device to each, as many rounds as that largest number needs: an
//!    all-to-all of \[P,C,H\], the experts, and an all-to-all back. The receiver knows from the counts
//!    whose row is whose, so that no indices travel.
//!
//! The exchange drops nothing, whatever the routing, although every shape is static: an unbalanced routing takes more
//! rounds, the same number on all devices. If C is the largest possible number of rows, there is one round without a
//! loop, and what the experts received and computed is kept for the backward pass instead of being sent again. The
//! largest number is T/P · min(K, E/P), because a token's K experts differ, and at most E/P · capacity with a capacity;
//! without a capacity this pads P-fold. [`Divided::balanced`] takes a quarter more than an even routing needs.
//!
//! Rows return unweighted to the order of their slots, and a token's rows are summed on the token's device, in the
//! order of the one-device layer: y and dx have the same bits as on one device, if a product's row does not depend on
//! the rows beside it; in bf16 each slot's row is rounded once more on its way back. Summing on the experts' device
//! would save rows of tokens with several experts on a device, which are few when K is small, and would change the
//! order.
//!
//! In a backward pass the gradient dy of a row, its router weight and, unless kept, x go out; dx and the gradient of
//! the router weight come back. Gradients of experts are complete on the experts' device; the router's are summed over
//! the devices in f32.

use super::layer::{
    Gradients, Layer, Passes, Routed, Weights, checked, divides, forward_program,
    gradients_program, lower,
};
use crate::custom::values::{along, rows_where};
use crate::stablehlo::{Builder, Program, Reduction, Value};
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::sorting;
use moebius_ops::routing;
use moebius_ops::{Element, Experts, Mismatch, Permute};
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

/// A layer whose experts are divided among devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divided {
    /// The layer, over all tokens.
    pub layer: Layer,
    /// The number of devices, P.
    pub devices: usize,
    /// The number of rows that a device sends to each device in a round, C.
    pub rows: usize,
}

/// Values of the forward pass that the backward pass reads.
pub(super) struct Kept {
    routed: Routed,
    plan: Plan,
    /// The rows that the experts got; kept if there is only one round.
    received: Option<Received>,
}

/// The plan of the exchange: where the rows of a device go, and which rows come.
struct Plan {
    /// The sorted rows of round 0 for each device q, first\[q\] + j, i32 \[P,C\].
    rows: Value,
    /// The sorted row after the last one for each device q, i32 \[P,C\].
    last: Value,
    /// The number of rows that come from each device p for the experts up to the e-th, i32 \[P,C,E/P\].
    upto: Value,
    /// The round in which each sorted row goes, i32 \[S/P\]; −1 for a row without an expert.
    round: Value,
    /// The place of each sorted row among the P·C rows of its round, i32 \[S/P\].
    place: Value,
    /// The number of rounds, the same on all devices: an i32 scalar.
    rounds: Value,
    /// The number of rows that go to other devices, an i32 scalar.
    sent: Value,
}

/// The rows that the experts got in one round.
#[derive(Clone, Copy)]
struct Received {
    x: Value,
    order: Value,
    offsets: Value,
    positions: Value,
    /// The first product, if it is kept.
    pre: Option<Value>,
}

impl Divided {
    /// A layer in which each round has room for a quarter more rows than an even routing needs.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when the devices can't divide the layer evenly, or a size is out of range.
    pub fn balanced(layer: Layer, devices: usize) -> Result<Self, Mismatch> {
        let most = Self::worst_case(layer, devices)?;
        let even = (5 * most.slots()).div_ceil(4 * devices);
        let rows = even.min(most.rows);
        Ok(Self { rows, ..most })
    }

    /// A layer in which every routing takes one round.
    ///
    /// # Errors
    ///
    /// As for [`Divided::balanced`].
    pub fn worst_case(layer: Layer, devices: usize) -> Result<Self, Mismatch> {
        let mut this = Self {
            layer,
            devices,
            rows: 1,
        };
        this.check()?;
        this.rows = this.most_rows();
        Ok(this)
    }

    /// The largest number of rows that a device can have for another.
    fn most_rows(&self) -> usize {
        let (local, experts) = (self.local().routing, self.local_experts());
        let all = local.tokens() * local.top_k().min(experts);
        let (whole, capacity) = (&self.layer.problem.routing, self.layer.problem.capacity);
        let each = capacity.map(|most| most.slots_per_expert(whole.slots(), whole.experts()));
        let capacity = each.map(|each| each.saturating_mul(experts));
        // At least one row, because a round can't be empty.
        capacity.map_or(all, |most| most.min(all)).max(1)
    }

    /// The largest number of rounds that a routing can take.
    pub fn most_rounds(&self) -> usize {
        self.most_rows().div_ceil(self.rows)
    }

    /// The number of slots of a device.
    fn slots(&self) -> usize {
        self.local().routing.slots()
    }

    /// The program of the forward pass. Its arguments on each device are x \[T/P,H\], the bias of the choice \[E\] if
    /// there is one, and the layer's weights with the device's experts. Its results are y \[T/P,H\] and two i32
    /// scalars: the number of rounds, the same on all devices, and the number of rows that this device sent to others.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when the devices can't divide the layer evenly, or a size is out of range.
    pub fn forward(&self) -> Result<Program, Mismatch> {
        forward_program(self, false)
    }

    /// As [`Divided::forward`], with the choice of experts after y: experts i32 and their weights f32 \[T/P,K\],
    /// probabilities and logits f32 \[T/P,E\], log-sum-exp f32 \[T/P\], and the number of slots without an expert, i32
    /// \[1\].
    ///
    /// # Errors
    ///
    /// As for [`Divided::forward`].
    pub fn forward_and_choice(&self) -> Result<Program, Mismatch> {
        forward_program(self, true)
    }

    /// The program of the forward and the backward pass. Its arguments on each device are x and dy \[T/P,H\], the bias
    /// of the choice if there is one, and the weights. Its results are y and dx \[T/P,H\], the weights' gradients, and
    /// the two scalars of [`Divided::forward`].
    ///
    /// # Errors
    ///
    /// As [`Divided::forward`].
    pub fn gradients(&self) -> Result<Program, Mismatch> {
        gradients_program(self)
    }

    /// The number of rows that a device sends, or gets, in a round: P·C.
    fn together(&self) -> usize {
        self.devices * self.rows
    }

    fn square(&self) -> [usize; 2] {
        [self.devices, self.rows]
    }

    /// Plans the exchange, whose first step is the exchange of counts.
    fn plan(&self, b: &Builder, offsets: Value) -> Plan {
        let (p, e) = (self.devices, self.local_experts());
        let lower = b.slice_dim(offsets, 0, 0..p * e);
        let upper = b.slice_dim(offsets, 0, 1..p * e + 1);
        let coming = b.all_to_all(b.reshape(b.sub(upper, lower), &[p, e]), 0, 0, &self.group());
        let upto = b.cumulative(Reduction::Sum, coming, 1);
        let shape = [p, self.rows, e];
        let upto = b.broadcast(upto, &shape, &[0, 2]);
        let [lower, upper] = [lower, upper].map(|edges| b.reshape(edges, &[p, e]));
        let first = b.reshape(b.slice_dim(lower, 1, 0..1), &[p]);
        let last = b.reshape(b.slice_dim(upper, 1, e - 1..e), &[p]);
        let (rounds, sent) = self.rounds(b, first, last);
        let (round, place) = self.places(b, first, last);
        let square = TensorType::new(self.square(), S32);
        let j = b.iota(square.clone(), 1);
        Plan {
            rows: b.add(along(b, first, &square.shape, 0), j),
            last: along(b, last, &square.shape, 0),
            upto,
            round,
            place,
            rounds,
            sent,
        }
    }

    /// The number of rounds that all devices take, and the number of rows that this device sends to others.
    fn rounds(&self, b: &Builder, first: Value, last: Value) -> (Value, Value) {
        let counts = b.sub(last, first);
        let me = b.broadcast(b.convert(b.replica_id(), S32), &[self.devices], &[]);
        let device = b.iota(TensorType::new([self.devices], S32), 0);
        let sent = b.sum(rows_where(b, b.ne(device, me), counts), &[0]);
        if self.most_rounds() == 1 {
            return (b.scalar(1.0, S32), sent);
        }
        let most = b.reduce(Reduction::Max, counts, &[0]);
        let most = b.all_reduce(Reduction::Max, most, &self.group());
        let more = b.add(most, (self.rows - 1) as f64);
        (b.div(more, self.rows as f64), sent)
    }

    /// The round of every sorted row, and its place among the rows of the round.
    fn places(&self, b: &Builder, first: Value, last: Value) -> (Value, Value) {
        let slots = self.slots();
        let row = b.iota(TensorType::new([slots], S32), 0);
        let table = TensorType::new([slots, self.devices], S32);
        let rows = along(b, row, &table.shape, 0);
        let before = b.le(along(b, last, &table.shape, 1), rows);
        let device = b.sum(b.convert(before, S32), &[1]);
        let owned = b.lt(device, self.devices as f64);
        // A row without an expert has device P, which the gather clamps to P − 1.
        let rank = b.sub(row, b.take(first, device));
        let round = b.div(rank, self.rows as f64);
        let none = b.splat_like(-1.0, round);
        let rest = b.rem(rank, self.rows as f64);
        let start = b.mul(device, self.rows as f64);
        (b.select(owned, round, none), b.add(start, rest))
    }

    /// The sorted row at each place of round `i`, \[P·C\], and whether there is one.
    fn going(&self, b: &Builder, plan: &Plan, i: Value) -> (Value, Value) {
        let before = b.broadcast(b.mul(i, self.rows as f64), &self.square(), &[]);
        let rows = b.add(plan.rows, before);
        let valid = b.lt(rows, plan.last);
        let flat = [self.together()];
        (b.reshape(rows, &flat), b.reshape(valid, &flat))
    }

    /// Exchanges the `values` \[n, …\] at `index` \[P·C\], 0 where not `valid`: \[P·C, …\].
    fn send(&self, b: &Builder, values: Value, (index, valid): (Value, Value)) -> Value {
        self.exchange(b, rows_where(b, valid, b.take(values, index)))
    }

    /// Exchanges rows \[P·C, …\]: part q of every device goes to device q.
    fn exchange(&self, b: &Builder, rows: Value) -> Value {
        b.all_to_all(rows, 0, 0, &self.group())
    }

    /// Sorts the rows that come in round `i` by expert.
    fn arriving(&self, b: &Builder, plan: &Plan, x: Value, i: Value) -> Received {
        let (shape, experts) = (b.shape(plan.upto), self.local_experts());
        let rank = b.iota(TensorType::new(shape.clone(), S32), 1);
        let rank = b.add(rank, b.broadcast(b.mul(i, self.rows as f64), &shape, &[]));
        let past = b.convert(b.le(plan.upto, rank), S32);
        let expert = b.reshape(b.sum(past, &[2]), &[self.together(), 1]);
        let routing = checked(routing::Problem::new(self.together(), experts, 1));
        let sort = Permute::Sort {
            problem: checked(sorting::Problem::new(&routing, None, false)),
            mask: false,
        };
        let sorted = lower(b, sort, &[self.ones(b), expert]);
        Received {
            x,
            order: sorted[0],
            offsets: sorted[1],
            positions: sorted[2],
            pre: None,
        }
    }

    /// Router weights of 1, for rows that are weighted on the token's device.
    fn ones(&self, b: &Builder) -> Value {
        b.splat(1.0, TensorType::new([self.together(), 1], F32))
    }

    /// Runs `body` for every round. For each type in `state`, `body` returns rows \[P·C, …\] that replace the sorted
    /// rows of that round, then for each type in `sums` a value that is added.
    fn each_round(
        &self,
        b: &Builder,
        plan: &Plan,
        state: &[TensorType],
        sums: &[TensorType],
        body: impl FnOnce(&Builder, Value) -> Vec<Value>,
    ) -> Vec<Value> {
        let start = state.iter().chain(sums).map(|ty| b.splat(0.0, ty.clone()));
        let start: Vec<Value> = start.collect();
        let rows = state.len();
        let round = |b: &Builder, i: Value, state: &[Value]| {
            let mut results = body(b, i);
            let now = b.eq(plan.round, b.broadcast(i, &b.shape(plan.round), &[]));
            for (at, result) in results.iter_mut().enumerate() {
                *result = if at < rows {
                    let taken = b.take(*result, plan.place);
                    b.select(along(b, now, &b.shape(taken), 0), taken, state[at])
                } else {
                    b.add(state[at], *result)
                };
            }
            results
        };
        if self.most_rounds() == 1 {
            return round(b, b.scalar(0.0, S32), &start);
        }
        b.counted(self.most_rounds() as u64, |b| {
            b.for_loop(plan.rounds, &start, round)
        })
    }

    /// The token of each of the given sorted rows.
    fn tokens_at(&self, b: &Builder, order: Value, rows: Value) -> Value {
        let choices = self.layer.problem.routing.top_k();
        b.div(b.take(order, rows), choices as f64)
    }

    /// The type of hidden rows, one for each of a device's slots.
    fn rows_by_slot(&self) -> TensorType {
        let shape = [self.slots(), self.layer.problem.hidden];
        TensorType::new(shape, self.layer.element())
    }

    fn combined(&self, b: &Builder, rows: Value, operands: &[Value]) -> Value {
        let local = self.local();
        let slots = local.routing.slots();
        let problem = RowsProblem::new(&local.routing, slots, local.hidden, local.element);
        let combine = Permute::Combine {
            problem: checked(problem),
            weighted: operands.len() > 1,
        };
        lower(b, combine, &[&[rows], operands].concat())[0]
    }

    /// Moves values of sorted rows \[S/P\], f32, to their slots \[T/P,K\].
    fn by_slot(&self, b: &Builder, rows: Value, positions: Value) -> Value {
        let local = self.local().routing;
        let slots = local.slots();
        let routing = checked(routing::Problem::new(slots, local.experts(), 1));
        let combine = Permute::Combine {
            problem: checked(RowsProblem::new(&routing, slots, 1, Element::F32)),
            weighted: false,
        };
        let slots = lower(b, combine, &[b.reshape(rows, &[slots, 1]), positions])[0];
        b.reshape(slots, &[local.tokens(), local.top_k()])
    }

    /// One round of the backward pass: the rows of dx and of the router weights' gradient \[P·C\], returned to their
    /// tokens' devices, and the gradients of the experts, f32.
    fn round_back(&self, b: &Builder, of: &Backwards, i: Value) -> Vec<Value> {
        let going = self.going(b, &of.kept.plan, i);
        let sending = (self.tokens_at(b, of.kept.routed.order, going.0), going.1);
        let r = match of.kept.received {
            Some(received) => received,
            None => self.arriving(b, &of.kept.plan, self.send(b, of.x, sending), i),
        };
        let dy = self.send(b, of.dy, sending);
        let slots = b.take(of.kept.routed.order, going.0);
        let weights = self.send(b, of.slot_weights, (slots, going.1));
        let weights = b.reshape(weights, &[self.together(), 1]);
        let (experts, rows) = (self.local_experts(), self.together());
        let backward = Experts::Backward {
            problem: checked(self.layer.some_experts(experts, rows)),
            pre: r.pre.is_some(),
            x: true,
            weights: true,
        };
        let operands = [dy, r.x, weights, r.order, r.offsets, r.positions];
        let mut operands = [&operands, of.stacks].concat();
        operands.extend(r.pre);
        let mut results = lower(b, backward, &operands);
        results[1] = b.reshape(results[1], &[self.together()]);
        for result in &mut results[..2] {
            *result = self.exchange(b, *result);
        }
        for result in &mut results[2..] {
            *result = b.convert(*result, F32);
        }
        results
    }
}

/// Operands of the backward pass.
struct Backwards<'a> {
    x: Value,
    dy: Value,
    /// The router weights of the slots, f32 \[S/P\].
    slot_weights: Value,
    stacks: &'a [Value],
    kept: &'a Kept,
}

impl Passes for Divided {
    type Kept = Kept;

    fn layer(&self) -> &Layer {
        &self.layer
    }

    fn devices(&self) -> usize {
        self.devices
    }

    fn local_experts(&self) -> usize {
        self.layer.problem.routing.experts() / self.devices
    }

    fn check(&self) -> Result<(), Mismatch> {
        self.layer.check(self.devices)?;
        Mismatch::unless(self.rows > 0, "rows of a round", "at least 1", 0)?;
        let experts = self.layer.problem.routing.experts();
        divides("experts", experts, self.devices)?;
        let together = self.devices.saturating_mul(self.rows);
        let experts = self.layer.some_experts(self.local_experts(), together)?;
        experts.check()
    }

    fn routed<'a>(&self, kept: &'a Kept) -> &'a Routed {
        &kept.routed
    }

    fn forward(&self, b: &Builder, x: Value, weights: &Weights) -> (Value, Kept) {
        let routed = self.layer.routed(b, x, weights, self.devices);
        let plan = self.plan(b, routed.offsets);
        let keep = self.most_rounds() == 1;
        let (experts, rows) = (self.local_experts(), self.together());
        let forward = Experts::Forward {
            problem: checked(self.layer.some_experts(experts, rows)),
            keep,
        };
        let mut received = None;
        let rows = self.rows_by_slot();
        let out = self.each_round(b, &plan, &[rows], &[], |b, i| {
            let (rows, valid) = self.going(b, &plan, i);
            let x = self.send(b, x, (self.tokens_at(b, routed.order, rows), valid));
            let mut r = self.arriving(b, &plan, x, i);
            let operands = [x, self.ones(b), r.order, r.offsets, r.positions];
            let operands = [&operands, weights.stacks.as_slice()].concat();
            let results = lower(b, forward, &operands);
            r.pre = results.get(1).copied();
            received = keep.then_some(r);
            vec![self.exchange(b, results[0])]
        });
        let y = self.combined(b, out[0], &[routed.positions, routed.weights]);
        let kept = Kept {
            routed,
            plan,
            received,
        };
        (y, kept)
    }

    fn backward(
        &self,
        b: &Builder,
        [x, dy]: [Value; 2],
        weights: &Weights,
        kept: Kept,
    ) -> Gradients {
        let (layer, slots) = (&self.layer, self.slots());
        let of = Backwards {
            x,
            dy,
            slot_weights: b.reshape(kept.routed.weights, &[slots]),
            stacks: &weights.stacks,
            kept: &kept,
        };
        let rows = [self.rows_by_slot(), TensorType::new([slots], F32)];
        let stacks = weights.stacks.iter();
        let sums = stacks.map(|stack| b.ty(*stack).with_element(F32));
        let sums: Vec<TensorType> = sums.collect();
        let results = self.each_round(b, &kept.plan, &rows, &sums, |b, i| {
            self.round_back(b, &of, i)
        });
        let routed = &kept.routed;
        let dx = self.combined(b, results[0], &[routed.positions]);
        let dweights = self.by_slot(b, results[1], routed.positions);
        let [dx_router, router] = layer.router_backward(b, (x, weights.router), routed, dweights);
        let router = b.all_reduce(Reduction::Sum, router, &self.group());
        let gradients = [&[router], &results[2..]].concat();
        let gradients = gradients.into_iter();
        let weights = gradients.map(|sum| b.convert(sum, layer.element()));
        Gradients {
            x: layer.sum_x(b, dx_router, dx),
            weights: weights.collect(),
        }
    }

    fn report(&self, kept: &Kept) -> Vec<Value> {
        vec![kept.plan.rounds, kept.plan.sent]
    }
}
