//! The layer itself: y_t = Σ_k w_tk · expert_(t,k)(x_t), its gradients, and programs of its passes, wherever its experts are.

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
/// Its weights, in the order in which programs take and give them: router \[E,H\], w_in \[E, F or 2F (gate rows,
/// then up rows), H\], w_out \[E,H,F\], and with biases b_in \[E, F or 2F\], b_out \[E,H\].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The choice of experts and the experts, over all T tokens. A capacity is of the slots of all devices together, as
    /// on one device.
    pub problem: experts::Problem,
    /// Whether the choice of experts, but not the weight of a chosen one, has a bias: f32 \[E\], the same on all
    /// devices.
    pub selection_bias: bool,
}

/// Fewer than half of what an i32 counts, so that no sum of two of them overflows.
const MOST_SLOTS: usize = 1 << 30;

impl Layer {
    /// Types of the weights, with `experts` of the experts.
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

    /// The type of the bias of the choice.
    pub(super) fn bias(&self) -> Option<TensorType> {
        let ty = TensorType::new([self.problem.routing.experts()], F32);
        self.selection_bias.then_some(ty)
    }

    /// Its experts for the slots of one of `devices`, which no capacity drops any more.
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
        // Slots as tokens of one choice.
        routing::Problem::new(slots, routing.experts(), 1).map(drop)
    }

    /// `experts` of the layer's experts, for `rows` rows of one slot each.
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

    /// The choice of experts for the tokens of one of `devices`, and their slots by expert.
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

    /// The experts \[T/P,K\] of a device's slots, E where the capacity drops one. Every device has the choices of
    /// all and sorts them as one device would: 8 bytes a slot, which is little beside its rows.
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

    /// Gradients through the router weights' gradient \[T,K\], f32: of x \[T,H\] and of the router \[E,H\].
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
        // In f32, so that sums over devices are not of rounded numbers.
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

    /// The sum of two gradients of x, f32 and of its type.
    pub(super) fn sum_x(&self, b: &Builder, router: Value, experts: Value) -> Value {
        b.convert(b.add(b.convert(experts, F32), router), self.element())
    }
}

/// A problem of a layer whose sizes were checked.
pub(super) fn checked<T>(problem: Result<T, Mismatch>) -> T {
    problem.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// The results of an operation of such a layer.
pub(super) fn lower(b: &Builder, operation: impl Into<Operation>, inputs: &[Value]) -> Vec<Value> {
    let results = custom::lower(&operation.into(), b, inputs);
    results.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// Whether every device gets the same of it.
pub(super) fn divides(of: &'static str, total: usize, devices: usize) -> Result<(), Mismatch> {
    let expected = format_args!("a multiple of {devices} devices");
    Mismatch::unless(total.is_multiple_of(devices), of, expected, total)
}

/// The choice of experts and the slots by expert, as [`Routing`] has them.
pub(super) struct Routed {
    pub(super) logits: Value,
    pub(super) indices: Value,
    pub(super) weights: Value,
    pub(super) probs: Value,
    pub(super) lse: Value,
    pub(super) order: Value,
    pub(super) offsets: Value,
    pub(super) positions: Value,
    /// i32 \[1\]: slots of the device without an expert.
    pub(super) dropped: Value,
}

/// The layer's weights on one device.
pub(super) struct Weights {
    /// f32 \[E\].
    pub(super) selection_bias: Option<Value>,
    /// \[E,H\].
    pub(super) router: Value,
    /// w_in, w_out, and the biases.
    pub(super) stacks: Vec<Value>,
}

/// Gradients on one device.
pub(super) struct Gradients {
    /// \[T/P,H\].
    pub(super) x: Value,
    /// In the order of the weights.
    pub(super) weights: Vec<Value>,
}

/// A layer over devices.
pub(super) trait Passes {
    /// What the forward pass leaves for the backward pass.
    type Kept;

    /// The layer, over all tokens.
    fn layer(&self) -> &Layer;

    /// Devices P.
    fn devices(&self) -> usize;

    /// Experts that each device has.
    fn local_experts(&self) -> usize;

    /// Whether the devices can share the layer.
    fn check(&self) -> Result<(), Mismatch>;

    /// y \[T/P,H\].
    fn forward(&self, b: &Builder, x: Value, weights: &Weights) -> (Value, Self::Kept);

    /// Gradients through those of y, for x and dy \[T/P,H\].
    fn backward(
        &self,
        b: &Builder,
        inputs: [Value; 2],
        weights: &Weights,
        kept: Self::Kept,
    ) -> Gradients;

    /// The choice of experts.
    fn routed<'a>(&self, kept: &'a Self::Kept) -> &'a Routed;

    /// Further results: what the device knows of the exchange.
    fn report(&self, _kept: &Self::Kept) -> Vec<Value> {
        Vec::new()
    }

    /// The layer over the tokens of one device.
    fn local(&self) -> experts::Problem {
        self.layer().local(self.devices())
    }

    /// The type of a device's tokens.
    fn tokens(&self) -> TensorType {
        let local = self.local();
        let shape = [local.routing.tokens(), local.hidden];
        TensorType::new(shape, self.layer().element())
    }

    /// All devices.
    fn group(&self) -> ReplicaGroups {
        ReplicaGroups::all(self.devices())
    }
}

/// Arguments x, the bias of the choice where there is one, and the weights; results y, the choice if it is `told`, and
/// the report.
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

/// Arguments x, dy, the bias of the choice where there is one, and the weights; results y, dx, the weights' gradients and
/// the report.
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
