//! A training step of a residual layer over devices.
//!
//! The model is x + layer(x); its loss is the mean of squares of what it misses the goal by, over the
//! whole batch. Weights and the optimizer's state are f32 and are donated; the layer computes in its own type. A
//! gradient is the sum over all tokens of the batch's mean loss, so that P devices take the step
//! that one takes, up to the order of the sums: weights that every device has are reduced over all, and stay the
//! same everywhere.

use super::layer::Weights;
use super::passes::Passes;
use super::{Divided, LayerError, Whole};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Program, Reduction, TensorType, Unary, Value};

/// How weights follow their gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// w − rate · g.
    Sgd,
    /// w − rate · m̂ / (√v̂ + ε), m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ), m and v the moving averages of g and g².
    Adam {
        /// β₁.
        momentum: f32,
        /// β₂.
        variance: f32,
        /// ε.
        epsilon: f32,
    },
}

/// Where the experts are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Whole(Whole),
    Divided(Divided),
}

/// A training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    place: Place,
    update: Update,
}

impl Training {
    /// A step with every expert on every device: data parallelism.
    pub fn whole(layer: Whole, update: Update) -> Self {
        Self {
            place: Place::Whole(layer),
            update,
        }
    }

    /// A step with the experts divided among the devices.
    pub fn divided(layer: Divided, update: Update) -> Self {
        Self {
            place: Place::Divided(layer),
            update,
        }
    }

    /// Tensors of the optimizer for each weight.
    pub fn states(&self) -> usize {
        match self.update {
            Update::Sgd => 0,
            Update::Adam { .. } => 2,
        }
    }

    /// The step. Arguments on each device: x and goal \[T/P,H\], f32 scalars rate and t (1 for the first step), the
    /// layer's weights in f32 with the device's experts, and for Adam all m, then all v. Results: the loss before the
    /// step, an f32 scalar, then weights, m and v, which take the place of the arguments.
    ///
    /// # Errors
    ///
    /// [`LayerError`] where the devices can't share the layer.
    pub fn step(&self) -> Result<Program, LayerError> {
        match &self.place {
            Place::Whole(layer) => self.program(layer),
            Place::Divided(layer) => self.program(layer),
        }
    }

    fn program<P: Passes>(&self, place: &P) -> Result<Program, LayerError> {
        place.check()?;
        let mut b = Builder::new();
        let rows = place.local().rows();
        let (x, goal) = (b.argument(rows.clone()), b.argument(rows));
        let scalar = TensorType::scalar(ElementType::F32);
        let (rate, time) = (b.argument(scalar.clone()), b.argument(scalar));
        let types = place.layer().weights(place.local_experts());
        let types = types.iter().map(|ty| ty.with_element(ElementType::F32));
        let types: Vec<TensorType> = types.collect();
        let mut stacks = Vec::new();
        for _ in 0..=self.states() {
            let values: Vec<Value> = types.iter().map(|ty| b.argument(ty.clone())).collect();
            stacks.push(values);
        }
        for at in 0..stacks.len() * types.len() {
            b.donate(4 + at, 1 + at);
        }
        let (loss, gradients) = differentiated(&mut b, place, [x, goal], &stacks[0]);
        let mut results = vec![Vec::new(); stacks.len()];
        for (at, gradient) in gradients.into_iter().enumerate() {
            let old: Vec<Value> = stacks.iter().map(|stack| stack[at]).collect();
            let new = self.update.apply(&mut b, (rate, time), &old, gradient);
            for (to, new) in results.iter_mut().zip(new) {
                to.push(new);
            }
        }
        let outputs = [&[loss], results.concat().as_slice()].concat();
        Ok(b.finish_spmd(&outputs, place.devices(), 1, &[]))
    }
}

/// The loss over the whole batch, and the weights' gradients, f32.
fn differentiated<P: Passes>(
    b: &mut Builder,
    place: &P,
    [x, goal]: [Value; 2],
    weights: &[Value],
) -> (Value, Vec<Value>) {
    let layer = place.layer();
    let weights = weights.iter().map(|w| b.convert(*w, layer.element));
    let weights = Weights::of(weights.collect());
    let (y, kept) = place.forward(b, x, &weights);
    let [x32, y, goal] = [x, y, goal].map(|value| b.convert(value, ElementType::F32));
    let out = b.add(x32, y);
    let missed = b.sub(out, goal);
    let squares = b.mul(missed, missed);
    let loss = b.reduce(Reduction::Sum, squares, &[0, 1]);
    let share = 1.0 / (layer.tokens * layer.hidden) as f64;
    let mut loss = b.binary_scalar(Binary::Multiply, loss, share);
    if place.devices() > 1 {
        loss = b.all_reduce(Reduction::Sum, loss, &place.group());
    }
    let dy = b.binary_scalar(Binary::Multiply, missed, 2.0 * share);
    let dy = b.convert(dy, layer.element);
    let gradients = place
        .backward(b, [x, dy], &weights, kept)
        .weights
        .into_iter();
    let gradients = gradients.map(|gradient| b.convert(gradient, ElementType::F32));
    (loss, gradients.collect())
}

impl Update {
    /// The weight, and the optimizer's state, after the step.
    fn apply(
        self,
        b: &mut Builder,
        (rate, time): (Value, Value),
        old: &[Value],
        gradient: Value,
    ) -> Vec<Value> {
        let shape = b.shape(gradient);
        let rate = b.broadcast(rate, &shape, &[]);
        let Self::Adam {
            momentum,
            variance,
            epsilon,
        } = self
        else {
            let step = b.mul(rate, gradient);
            return vec![b.sub(old[0], step)];
        };
        let square = b.mul(gradient, gradient);
        let (m, mean) = average(b, momentum, (old[1], gradient), time);
        let (v, power) = average(b, variance, (old[2], square), time);
        let root = b.unary(Unary::Sqrt, power);
        let below = b.binary_scalar(Binary::Add, root, f64::from(epsilon));
        let step = b.div(mean, below);
        let step = b.mul(rate, step);
        vec![b.sub(old[0], step), m, v]
    }
}

/// β·old + (1 − β)·new, and the same without the weight of the zero it began with, / (1 − βᵗ).
fn average(b: &mut Builder, beta: f32, (old, new): (Value, Value), time: Value) -> (Value, Value) {
    let shape = b.shape(new);
    let old = b.binary_scalar(Binary::Multiply, old, f64::from(beta));
    let new = b.binary_scalar(Binary::Multiply, new, f64::from(1.0 - beta));
    let average = b.add(old, new);
    let base = b.scalar(f64::from(beta), ElementType::F32);
    let gone = b.binary(Binary::Power, base, time);
    let one = b.scalar(1.0, ElementType::F32);
    let left = b.sub(one, gone);
    let left = b.broadcast(left, &shape, &[]);
    (average, b.div(average, left))
}
