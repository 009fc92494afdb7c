//! Checks the gradients of a whole layer against central differences.

use crate::data::Rng;
use crate::elements::floats;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use moebius::moe::{LossWeights, MoeLayer};

/// The values and the gradient of a module's parameter.
pub struct Parameter {
    /// The parameter's identity in the module.
    pub id: ParamId,
    /// The parameter's path, such as `router.TopK.weight`.
    pub path: String,
    /// The parameter's values.
    pub values: Vec<f32>,
    /// The gradient, if there is one.
    pub gradient: Option<Vec<f32>>,
}

struct Collect<'a> {
    gradients: Option<&'a GradientsParams>,
    trained_only: bool,
    path: Vec<String>,
    found: Vec<Parameter>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if self.trained_only && !value.is_require_grad() {
            return;
        }
        let gradient = self.gradients.and_then(|all| all.get::<D>(param.id));
        self.found.push(Parameter {
            id: param.id,
            path: self.path.join("."),
            values: floats(value),
            gradient: gradient.map(floats),
        });
    }
}

/// Every parameter and running state of a module.
pub fn parameters(module: &impl Module) -> Vec<Parameter> {
    collect(module, None, false)
}

/// The parameters that an optimizer changes, of a module on a recording device.
pub fn trained_parameters(module: &impl Module) -> Vec<Parameter> {
    collect(module, None, true)
}

/// [`trained_parameters`] with their gradients.
pub fn trained_gradients(module: &impl Module, gradients: &GradientsParams) -> Vec<Parameter> {
    collect(module, Some(gradients), true)
}

fn collect(
    module: &impl Module,
    gradients: Option<&GradientsParams>,
    trained_only: bool,
) -> Vec<Parameter> {
    let mut collect = Collect {
        gradients,
        trained_only,
        path: Vec::new(),
        found: Vec::new(),
    };
    module.visit(&mut collect);
    collect.found
}

/// Replaces the values of parameters for which the function returns new ones.
struct Replace<F>(F);

impl<F: FnMut(ParamId, usize) -> Option<Vec<f32>>> ModuleMapper for Replace<F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let shape = tensor.shape();
        let value = match (self.0)(id, shape.num_elements()) {
            None => tensor,
            Some(values) => {
                let data = TensorData::new(values, shape).convert_dtype(tensor.dtype());
                let value = Tensor::from_data(data, (&tensor.device(), tensor.dtype()));
                value.set_require_grad(tensor.is_require_grad())
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Sets the parameters whose path ends with `path` to `values`.
///
/// # Panics
/// When no parameter has such a path.
pub fn with_values<M: Module>(module: M, path: &str, values: &[f32]) -> M {
    let all = parameters(&module);
    let named = all.iter().filter(|p| p.path.ends_with(path));
    let named: Vec<ParamId> = named.map(|p| p.id).collect();
    assert!(!named.is_empty(), "no parameter ends with {path}");
    module.map(&mut Replace(|id: ParamId, _: usize| {
        named.contains(&id).then(|| values.to_vec())
    }))
}

/// Fills all parameters and running states with values uniform in ±`bound`.
pub fn filled<M: Module>(module: M, seed: u64, bound: f32) -> M {
    let mut rng = Rng::new(seed);
    module.map(&mut Replace(move |_: ParamId, len: usize| {
        Some(rng.vec(len, bound))
    }))
}

/// A layer, a batch, and their scalar: Σ y∘dy plus the weighted losses.
pub struct Probe {
    layer: MoeLayer,
    /// The same layer on `flex`, where hundreds of small passes take a moment. It serves for the differences, which are those
    /// of the function on any device.
    twin: MoeLayer,
    shape: [usize; 3],
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// Copies a layer's values to `flex`. Copies share running states, so that moving one moves all.
fn twin(layer: &MoeLayer) -> MoeLayer {
    let parameters = parameters(layer).into_iter();
    let mut values = parameters.map(|parameter| parameter.values);
    let twin = layer.config().init(&Device::flex()).unwrap();
    twin.map(&mut Replace(|_: ParamId, _: usize| values.next()))
}

/// Weights that let all losses count in the scalar.
const LOSSES: LossWeights = LossWeights {
    switch: 0.7,
    gshard: 0.4,
    entropy: 0.9,
    z: 0.3,
};

/// Steps of a parameter. The derivative must agree for the smallest step, or for both others, or, where rounding nearly hides
/// the gradient, for the largest: the scalar isn't smooth where a relu turns or a choice of experts changes, which smaller
/// steps avoid, and rounding spoils small steps.
const STEPS: [f32; 3] = [2e-3, 5e-4, 1.25e-4];

/// The largest error of a derivative, relative to its gradient's length.
///
/// The scalar is accurate to about 1e-7 of its terms, so a difference over the smallest step is accurate to a few 1e-3; the
/// third derivative adds the step's square.
const TOLERANCE: f64 = 5e-3;

/// The error that rounding adds to a difference, as the length of a gradient. A gradient that isn't 0 must be longer than a
/// tenth of it, which is twenty times the tolerance.
const ROUNDING: f64 = 0.2;

/// The largest difference between the scalar on the device and on `flex`, relative to 1 + its magnitude: a few hundred products
/// in f32.
const SAME: f64 = 1e-4;

impl Probe {
    /// Probes a layer on a device that records nothing with a batch x \[2, L, H\], drawn until no token is near a tie between
    /// two experts.
    ///
    /// # Panics
    /// When every draw has such a token.
    pub fn new(layer: MoeLayer, length: usize, seed: u64) -> Self {
        let shape = [2, length, layer.config().hidden];
        let mut rng = Rng::new(seed);
        let len = shape.iter().product();
        let twin = twin(&layer);
        let draw = |_| Self {
            layer: layer.clone(),
            twin: twin.clone(),
            shape,
            x: rng.vec(len, 1.5),
            dy: rng.vec(len, 1.0),
        };
        let found = (0..50).map(draw).find(Self::is_decided);
        found.unwrap_or_else(|| panic!("no batch is decided"))
    }

    /// Whether small changes of x change no choice of experts.
    fn is_decided(&self) -> bool {
        let (_, chosen) = self.value(&self.twin, &self.x);
        let mut rng = Rng::new(1);
        (0..4).all(|_| {
            let moved: Vec<f32> = self.x.iter().map(|x| x + 3e-3 * rng.unit()).collect();
            self.value(&self.twin, &moved).1 == chosen
        })
    }

    /// The scalar, and the chosen experts.
    fn value(&self, layer: &MoeLayer, x: &[f32]) -> (f64, Vec<i64>) {
        let device = layer.devices().remove(0);
        let x = Tensor::<3>::from_data(TensorData::new(x.to_vec(), self.shape), &device);
        let out = layer.forward(x).unwrap();
        let losses = floats(out.losses().unwrap().weighted(&LOSSES));
        let y = floats(out.y);
        let pairs = y.iter().zip(&self.dy);
        let products = pairs.map(|(y, dy)| f64::from(*y) * f64::from(*dy));
        let chosen = out.routing.indices.into_data().iter::<i64>().collect();
        (products.sum::<f64>() + f64::from(losses[0]), chosen)
    }

    /// The gradients of x and of every trained parameter.
    fn gradients(&self) -> (Vec<f32>, Vec<Parameter>) {
        let layer = self.layer.clone().train();
        let device = layer.devices().remove(0);
        let data = |values: &[f32]| TensorData::new(values.to_vec(), self.shape);
        let x = Tensor::<3>::from_data(data(&self.x), &device).require_grad();
        let dy = Tensor::<3>::from_data(data(&self.dy), &device);
        let out = layer.forward(x.clone()).unwrap();
        let losses = out.losses().unwrap().weighted(&LOSSES);
        let grads = ((out.y * dy).sum() + losses).backward();
        let dx = floats(x.grad(&grads).unwrap());
        let grads = GradientsParams::from_grads(grads, &layer);
        (dx, trained_gradients(&layer, &grads))
    }

    /// Checks the derivatives along random directions of x and of every trained parameter.
    ///
    /// # Panics
    /// When a derivative is wrong, or a trained parameter has no gradient.
    pub fn check(&self, what: &str) {
        let (own, chosen) = self.value(&self.layer, &self.x);
        let (twin, chosen_by_twin) = self.value(&self.twin, &self.x);
        assert_eq!(chosen, chosen_by_twin, "{what}: the choice on flex");
        let same = (own - twin).abs() <= SAME * (1.0 + twin.abs());
        assert!(same, "{what}: {own} here, {twin} on flex");
        let (dx, trained) = self.gradients();
        self.compare(&format!("{what}: x"), &self.x, &dx, |x| {
            self.value(&self.twin, x)
        });
        for parameter in trained {
            let name = format!("{what}: {}", parameter.path);
            let of_twin = parameters(&self.twin);
            let same = of_twin.iter().find(|twin| twin.path == parameter.path);
            let twin_id = same.unwrap_or_else(|| panic!("{name} on flex")).id;
            let gradient = parameter.gradient;
            let gradient = gradient.unwrap_or_else(|| panic!("{name} has no gradient"));
            self.compare(&name, &parameter.values, &gradient, |values| {
                let layer = self.twin.clone();
                let replace = |id, _| (id == twin_id).then(|| values.to_vec());
                self.value(&layer.map(&mut Replace(replace)), &self.x)
            });
        }
    }

    /// Compares ⟨gradient, d⟩ with (f(v + εd) − f(v − εd)) / 2ε for random signs d.
    fn compare(
        &self,
        what: &str,
        values: &[f32],
        gradient: &[f32],
        f: impl Fn(&[f32]) -> (f64, Vec<i64>),
    ) {
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        let length = length.sqrt();
        assert!(length.is_finite(), "{what}: the gradient isn't finite");
        // A bias of the keys shifts all scores of a row alike, which doesn't change the softmax.
        let (none, short) = (what.ends_with(".b_k"), length < ROUNDING / 10.0);
        assert_eq!(short, none, "{what}: a gradient of length {length:.1e}");
        let allowed = TOLERANCE * length.max(ROUNDING);
        let (_, chosen) = f(values);
        let mut rng = Rng::new(values.len() as u64);
        for _ in 0..2 {
            // Only about half of the elements move, so that two directions differ.
            let signs = values.iter().map(|_| [-1.0, 1.0, 0.0, 0.0][rng.below(4)]);
            let direction: Vec<f32> = signs.collect();
            let products = gradient.iter().zip(&direction);
            let derivative: f64 = products.map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            let difference = |step: f32| -> Option<f64> {
                let moved = |step: f32| -> Vec<f32> {
                    let pairs = values.iter().zip(&direction);
                    pairs.map(|(v, d)| v + step * d).collect()
                };
                let ((above, up), (below, down)) = (f(&moved(step)), f(&moved(-step)));
                let same = up == chosen && down == chosen;
                same.then_some((above - below) / (2.0 * f64::from(step)))
            };
            let differences = STEPS.map(difference);
            let close = |difference: Option<f64>| {
                difference.is_some_and(|difference| (difference - derivative).abs() <= allowed)
            };
            let [large, middle, small] = differences.map(close);
            assert!(
                small || (large && (middle || length < ROUNDING)),
                "{what}: derivative {derivative:.6}, differences {differences:?}, length of the gradient {length:.4}"
            );
        }
    }
}
