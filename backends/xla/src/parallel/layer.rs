//! The layer y_t = Σ_k w_tk · expert_(t,k)(x_t), its gradients, and the programs of its passes, wherever its experts
//! are.

use crate::custom;
use crate::custom::values::float;
use crate::stablehlo::{Builder, Program, ReplicaGroups, Value};
use moebius_ops::experts;
use moebius_ops::permute::sorting;
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::{Element, Mismatch, Operation, Permute, Routing};
use moebius_pjrt::ElementType::{self, F32, S32};
use moebius_pjrt::TensorType;

/// A mixture-of-experts layer and its batch.
///
/// Its weights, in the order in which programs take and return them: router \[E,H\], w_in \[E, F or 2F (gate rows, then
/// up rows), H\], w_out \[E,H,F\], and with biases b_in \[E, F or 2F\], b_out \[E,H\].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The choice of experts and the experts, over all T tokens. A capacity applies to the slots of all devices
    /// together, as on one device.
    pub problem: experts::Problem,
    /// Whether a bias, f32 \[E\] and the same on all devices, is added for the choice of experts. It doesn't change the
    /// weight of a chosen expert.
    pub selection_bias: bool,
}

/// The largest number of slots: less than half of the largest i32, so that no sum of two slot numbers overflows.
const MOST_SLOTS: usize = 1 << 30;

impl Layer {
    /// The types of the layer's weights on a device that has `experts` of the experts.
    pub fn weights(&self, experts: usize) -> Vec<TensorType> {
        let p = &self.problem;
        let (h, f, columns) = (p.hidden, p.inter, p.columns_in());
        let ty = |shape: &[usize]| TensorType::new(shape, self.element());
        let mut types = vec![
            ty(&[p.routing.experts(), h]),
            ty(&[experts, columns, h]),
            ty(&[experts, h, f]),
        ];
        if p.bias {
            types.extend([ty(&[experts, columns]), ty(&[experts, h])]);
        }
        types
    }

    /// The type of tokens and weights in programs.
    pub fn element(&self) -> ElementType {
        float(self.problem.element)
    }

    /// The type of the bias of the choice, if there is one.
    pub(super) fn bias(&self) -> Option<TensorType> {
        let ty = TensorType::new([self.problem.routing.experts()], F32);
        self.selection_bias.then_some(ty)
    }

    /// The layer over the tokens of one of `devices`, without the capacity, which has been applied before.
    pub(super) fn local(&self, devices: usize) -> experts::Problem {
        let whole = self.problem.routing;
        let routing = checked(whole.with_tokens(whole.tokens() / devices));
        experts::Problem {
            routing,
            capacity: None,
            row_bound: routing.slots(),
            ..self.problem
        }
    }

    pub(super) fn check(&self, devices: usize) -> Result<(), Mismatch> {
        let (problem, routing) = (&self.problem, &self.problem.routing);
        for (what, size) in [("devices", devices), ("tokens", routing.tokens())] {
            Mismatch::unless(size > 0, what, "at least 1", size)?;
        }
        let (slots, most) = (routing.slots(), format_args!("at most {MOST_SLOTS}"));
        Mismatch::unless(slots <= MOST_SLOTS, "slots", most, slots)?;
        divides("tokens", routing.tokens(), devices)?;
        problem.check()?;
        sorting::Problem::new(routing, problem.capacity, false)?;
        // The backward pass treats slots as tokens with one choice.
        routing::Problem::new(slots, routing.experts(), 1).map(drop)
    }

    /// A layer of `experts` of the experts, for `rows` rows of one slot each.
    pub(super) fn some_experts(
        &self,
        experts: usize,
        rows: usize,
    ) -> Result<experts::Problem, Mismatch> {
        Ok(experts::Problem {
            routing: routing::Problem::new(rows, experts, 1)?,
            capacity: None,
            row_bound: rows,
            ..self.problem
        })
    }

    /// The choice of experts for the tokens of one of `devices`, and the sort of their slots by expert.
    pub(super) fn routed(&self, b: &Builder, x: Value, w: &Weights, devices: usize) -> Routed {
        let problem = self.local(devices).routing;
        let logits = Routing::Logits {
            problem,
            hidden: self.problem.hidden,
            element: self.problem.element,
            backward: false,
        };
        let logits = lower(b, logits, &[x, w.router])[0];
        let route = Routing::Route {
            problem,
            mask: false,
            bias: w.selection_bias.is_some(),
        };
        let operands: Vec<Value> = [logits].into_iter().chain(w.selection_bias).collect();
        let chosen = lower(b, route, &operands);
        let [indices, weights, probs, lse] = [chosen[0], chosen[1], chosen[2], chosen[3]];
        let sort = Permute::Sort {
            problem: checked(sorting::Problem::new(&problem, None, false)),
            mask: false,
        };
        let taken = self.taken(b, [weights, indices], devices);
        let sorted = lower(b, sort, &[weights, taken]);
        Routed {
            logits,
            indices,
            weights,
            probs,
            lse,
            order: sorted[0],
            offsets: sorted[1],
            positions: sorted[2],
            dropped: sorted[3],
        }
    }

    /// The experts \[T/P,K\] of a device's slots, E where the capacity drops a slot. Every device gathers the choices
    /// of all and sorts them as one device would: 8 bytes for each slot, little beside the slot's row.
    fn taken(&self, b: &Builder, [weights, indices]: [Value; 2], devices: usize) -> Value {
        let Some(capacity) = self.problem.capacity else {
            return indices;
        };
        let group = ReplicaGroups::all(devices);
        let all = [weights, indices].map(|own| b.all_gather(own, 0, &group));
        let sort = sorting::Problem::new(&self.problem.routing, Some(capacity), false);
        let keys = custom::slot_keys(b, &checked(sort), false, &all);
        let shape = b.shape(indices);
        let slots = shape[0] * shape[1];
        let first = b.mul(b.convert(b.replica_id(), S32), slots as f64);
        let own = b.dynamic_slice(keys, &[first], &[slots]);
        b.reshape(b.convert(own, S32), &shape)
    }

    /// The gradients of x \[T,H\] and of the router \[E,H\], in f32, from the router weights' gradient \[T,K\].
    pub(super) fn router_backward(
        &self,
        b: &Builder,
        (x, router): (Value, Value),
        routed: &Routed,
        dweights: Value,
    ) -> [Value; 2] {
        let tokens = b.shape(dweights)[0];
        let problem = checked(self.problem.routing.with_tokens(tokens));
        let backward = Routing::RouteBackward {
            problem,
            mask: false,
            of: TopkGradient::Weights,
        };
        let r = routed;
        let operands = [dweights, r.logits, r.indices, r.weights, r.probs, r.lse];
        let dlogits = lower(b, backward, &operands)[0];
        // In f32, so that gradients are summed over devices before they are rounded.
        let [x, router] = [x, router].map(|value| b.convert(value, F32));
        let logits = Routing::Logits {
            problem,
            hidden: self.problem.hidden,
            element: Element::F32,
            backward: true,
        };
        let gradients = lower(b, logits, &[x, router, dlogits]);
        [gradients[0], gradients[1]]
    }

    /// The sum of two gradients of x, one in f32 and one in the type of x.
    pub(super) fn sum_x(&self, b: &Builder, router: Value, experts: Value) -> Value {
        b.convert(b.add(b.convert(experts, F32), router), self.element())
    }
}

/// Unwraps a problem of a layer whose sizes were checked.
pub(super) fn checked<T>(problem: Result<T, Mismatch>) -> T {
    problem.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// Appends an operation of a layer whose sizes were checked.
pub(super) fn lower(b: &Builder, operation: impl Into<Operation>, inputs: &[Value]) -> Vec<Value> {
    let results = custom::lower(&operation.into(), b, inputs);
    results.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// Checks that `total` is a multiple of the number of devices; `of` names it in the error.
pub(super) fn divides(of: &'static str, total: usize, devices: usize) -> Result<(), Mismatch> {
    let expected = format_args!("a multiple of {devices} devices");
    Mismatch::unless(total.is_multiple_of(devices), of, expected, total)
}

/// The choice of experts and the slots sorted by expert, as [`Routing`] and [`Permute`] define them.
pub(super) struct Routed {
    pub(super) logits: Value,
    pub(super) indices: Value,
    pub(super) weights: Value,
    pub(super) probs: Value,
    pub(super) lse: Value,
    pub(super) order: Value,
    pub(super) offsets: Value,
    pub(super) positions: Value,
    /// The number of the device's slots without an expert, i32 \[1\].
    pub(super) dropped: Value,
}

/// The layer's weights on one device.
pub(super) struct Weights {
    /// The bias of the choice, f32 \[E\].
    pub(super) selection_bias: Option<Value>,
    /// The router's weights, \[E,H\].
    pub(super) router: Value,
    /// The experts' weights: w_in, w_out, and the biases.
    pub(super) stacks: Vec<Value>,
}

/// The gradients on one device.
pub(super) struct Gradients {
    /// The gradient of x, \[T/P,H\].
    pub(super) x: Value,
    /// The gradients of the weights, in the weights' order.
    pub(super) weights: Vec<Value>,
}

/// A placement of a layer's experts on devices.
pub(super) trait Passes {
    /// Values of the forward pass that the backward pass reads.
    type Kept;

    /// The layer, over all tokens.
    fn layer(&self) -> &Layer;

    /// The number of devices, P.
    fn devices(&self) -> usize;

    /// The number of experts that each device has.
    fn local_experts(&self) -> usize;

    /// Checks that the devices can divide the layer evenly, and the sizes.
    fn check(&self) -> Result<(), Mismatch>;

    /// Appends the forward pass: y \[T/P,H\].
    fn forward(&self, b: &Builder, x: Value, weights: &Weights) -> (Value, Self::Kept);

    /// Appends the backward pass, for x and dy \[T/P,H\].
    fn backward(
        &self,
        b: &Builder,
        inputs: [Value; 2],
        weights: &Weights,
        kept: Self::Kept,
    ) -> Gradients;

    /// The choice of experts.
    fn routed<'a>(&self, kept: &'a Self::Kept) -> &'a Routed;

    /// Further results that describe the exchange.
    fn report(&self, _kept: &Self::Kept) -> Vec<Value> {
        Vec::new()
    }

    /// The layer over the tokens of one device.
    fn local(&self) -> experts::Problem {
        self.layer().local(self.devices())
    }

    /// The type of the tokens of a device.
    fn tokens(&self) -> TensorType {
        let local = self.local();
        let shape = [local.routing.tokens(), local.hidden];
        TensorType::new(shape, self.layer().element())
    }

    /// The group of all devices.
    fn group(&self) -> ReplicaGroups {
        ReplicaGroups::all(self.devices())
    }
}

/// The program of the forward pass. Its arguments are x, the bias of the choice if there is one, and the weights; its
/// results y, the choice if `told`, and the report.
pub(super) fn forward_program<P: Passes>(placement: &P, told: bool) -> Result<Program, Mismatch> {
    placement.check()?;
    let b = Builder::new();
    let x = b.argument(placement.tokens());
    let (y, kept) = placement.forward(&b, x, &arguments(&b, placement));
    let mut outputs = vec![y];
    if told {
        let r = placement.routed(&kept);
        outputs.extend([r.indices, r.weights, r.probs, r.logits, r.lse, r.dropped]);
    }
    outputs.extend(placement.report(&kept));
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

/// The program of both passes. Its arguments are x, dy, the bias of the choice if there is one, and the weights; its
/// results y, dx, the weights' gradients and the report.
pub(super) fn gradients_program<P: Passes>(placement: &P) -> Result<Program, Mismatch> {
    placement.check()?;
    let b = Builder::new();
    let rows = placement.tokens();
    let (x, dy) = (b.argument(rows.clone()), b.argument(rows));
    let weights = arguments(&b, placement);
    let (y, kept) = placement.forward(&b, x, &weights);
    let report = placement.report(&kept);
    let gradients = placement.backward(&b, [x, dy], &weights, kept);
    let outputs = [&[y, gradients.x], gradients.weights.as_slice(), &report].concat();
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

fn arguments<P: Passes>(b: &Builder, placement: &P) -> Weights {
    let layer = placement.layer();
    let selection_bias = layer.bias().map(|ty| b.argument(ty));
    let types = layer.weights(placement.local_experts()).into_iter();
    let mut weights: Vec<Value> = types.map(|ty| b.argument(ty)).collect();
    Weights {
        selection_bias,
        stacks: weights.split_off(1),
        router: weights[0],
    }
}
