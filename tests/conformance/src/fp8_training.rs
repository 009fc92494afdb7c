//! Training in FP8 against plain f64 sums over values rounded by the host codec.

use crate::moe_layer::supports;
use crate::tensors::{doubles, dtype, floats, random, tensor, typed};
use burn::module::{Module, Param};
use burn::nn;
use burn::store::ModuleRecord;
use burn::tensor::{DType, Device, Tensor};
use moebius::fp8::training::{
    AmaxAlgorithm, Fp8Recipe, Fp8Scaling, Fp8State, LossScale, LossScaler, LossScaling, update,
};
use moebius::nn::{Linear, LinearConfig};
use moebius::{Error, ErrorKind};
use moebius_ops::Element;
use moebius_ops::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use moebius_ops::scaling::scale_host;
use moebius_tests::data::{Rng, rounded};
use moebius_tests::delayed_scale::DelayedScale;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, gradient_rel_l2, rel_l2};

/// Numbers of rows, inputs and outputs: none a multiple of four, the codes in a word.
const SIZES: [usize; 3] = [13, 22, 9];

pub(crate) fn amax(values: &[f32]) -> f32 {
    let finite = values.iter().filter(|value| value.is_finite());
    finite.fold(0.0, |amax, value| amax.max(value.abs()))
}

/// Quantises and dequantises: decode(encode(v / s)) · s; NaN and infinities stay.
pub(crate) fn quantised(values: &[f32], format: Fp8Format, scale: f32) -> Vec<f32> {
    let of = |value: &f32| {
        if value.is_finite() {
            decode_host(
                encode_host(value / scale, format, Overflow::Saturate),
                format,
            ) * scale
        } else {
            *value
        }
    };
    values.iter().map(of).collect()
}

/// Computes a \[m,k\] · b \[n,k\]ᵀ in f64.
fn product(a: &[f32], b: &[f32], k: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let terms = a.iter().zip(b);
        terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let rows = a.chunks(k);
    rows.flat_map(|a| b.chunks(k).map(move |b| dot(a, b)))
        .collect()
}

fn transposed(a: &[f32], columns: usize) -> Vec<f32> {
    let column = |at: usize| a.iter().skip(at).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

/// A layer's parameters on the host, rounded to the layer's dtype.
struct Host {
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Delayed scales of the inputs, the weights and the gradients.
    scales: Option<[DelayedScale; 3]>,
    recipe: Fp8Recipe,
}

/// The results of a layer's training step.
struct Step {
    y: Vec<f64>,
    dx: Vec<f64>,
    dw: Vec<f64>,
    db: Vec<f64>,
}

impl Host {
    fn new(recipe: Fp8Recipe, element: Element) -> Self {
        let [_, k, n] = SIZES;
        let mut rng = Rng::new(3);
        let mut vec = |len, bound| -> Vec<f32> {
            let values: Vec<f32> = rng.vec(len, bound);
            values.iter().map(|v| rounded(*v, element)).collect()
        };
        let delayed = |format| DelayedScale::new(&recipe, format);
        let (e4m3, e5m2) = (delayed(recipe.forward), delayed(recipe.backward));
        Self {
            weight: vec(n * k, 0.7),
            bias: vec(n, 0.3),
            scales: e4m3.zip(e5m2).map(|(a, b)| [a.clone(), a, b]),
            recipe,
        }
    }

    fn layer(&self, device: &Device, dtype: DType) -> Linear {
        let [_, k, n] = SIZES;
        let weight = typed(&self.weight, [n, k], dtype, device).require_grad();
        let bias = typed(&self.bias, [n], dtype, device).require_grad();
        let bias = Some(Param::from_tensor(bias));
        let layer = Linear::new(Param::from_tensor(weight), bias).unwrap();
        layer.in_fp8(self.recipe).unwrap()
    }

    /// Computes a step from x \[m,k\] and dy \[m,n\].
    fn step(&mut self, x: &[f32], dy: &[f32]) -> Step {
        let [_, k, n] = SIZES;
        let amaxes = [amax(x), amax(&self.weight), amax(dy)];
        let formats = [
            self.recipe.forward,
            self.recipe.forward,
            self.recipe.backward,
        ];
        let scale = |of: usize| match &self.scales {
            Some(scales) => scales[of].scale,
            None => scale_host(amaxes[of], formats[of], self.recipe.margin),
        };
        let q = |values, of: usize| quantised(values, formats[of], scale(of));
        let (x, w, g) = (q(x, 0), q(&self.weight, 1), q(dy, 2));
        let mut y = product(&x, &w, k);
        for row in y.chunks_mut(n) {
            let biases = row.iter_mut().zip(&self.bias);
            biases.for_each(|(y, b)| *y += f64::from(*b));
        }
        let column = |at| dy.iter().skip(at).step_by(n).map(|v| f64::from(*v)).sum();
        let rows = dy.len() / n;
        let step = Step {
            y,
            dx: product(&g, &transposed(&w, k), n),
            dw: product(&transposed(&g, n), &transposed(&x, k), rows),
            db: (0..n).map(column).collect(),
        };
        if let Some(scales) = &mut self.scales {
            for (scale, amax) in scales.iter_mut().zip(amaxes) {
                scale.step(amax);
            }
        }
        step
    }
}

/// Takes one step on the device: y, dx, dW and db, and then the update of the scales.
fn device_step(layer: &Linear, x: &Tensor<2>, dy: &Tensor<2>) -> (Tensor<2>, [Vec<f32>; 3]) {
    let x = x.clone().detach().require_grad();
    let y = layer.forward(x.clone()).unwrap();
    let gradients = (y.clone() * dy.clone()).sum().backward();
    update(layer, &gradients, None);
    let bias = layer.bias.as_ref().unwrap();
    let gradients = [
        floats(x.grad(&gradients).unwrap()),
        floats(layer.weight.values().unwrap().grad(&gradients).unwrap()),
        floats(bias.val().grad(&gradients).unwrap()),
    ];
    (y, gradients)
}

/// The batches of several steps, whose magnitudes rise, fall, saturate a delayed scale, and vanish.
fn batches(element: Element) -> Vec<[Vec<f32>; 2]> {
    let [m, k, n] = SIZES;
    let mut rng = Rng::new(11);
    let bounds = [
        (3.0, 0.01),
        (900.0, 2.0),
        (0.02, 1e-4),
        (0.0, 0.0),
        (1.0, 3e-3),
    ];
    let mut vec = |len, bound| -> Vec<f32> {
        let values: Vec<f32> = rng.vec(len, bound);
        values.iter().map(|v| rounded(*v, element)).collect()
    };
    let batch = |(x, dy)| [vec(m * k, x), vec(m * n, dy)];
    bounds.map(batch).into()
}

fn check(target: &Target, recipe: Fp8Recipe, element: Element) {
    let (dtype, device) = (dtype(element), target.burn().autodiff());
    let [m, k, n] = SIZES;
    let mut host = Host::new(recipe, element);
    let layer = host.layer(&device, dtype);
    for (at, [x, dy]) in batches(element).iter().enumerate() {
        let want = host.step(x, dy);
        let x = typed(x, [m, k], dtype, &device);
        let dy = typed(dy, [m, n], dtype, &device);
        let (y, got) = device_step(&layer, &x, &dy);
        let close = |what: &str, got: &[f32], want: &[f64], tolerance| {
            let what = format!("{what} of step {at}, {:?}", recipe.scaling);
            assert_close(&what, got, want, tolerance);
        };
        close("y", &floats(y), &want.y, rel_l2(element));
        let gradients = [("dx", want.dx), ("dW", want.dw), ("db", want.db)];
        for ((what, want), got) in gradients.iter().zip(&got) {
            close(what, got, want, gradient_rel_l2(element));
        }
        check_state(&layer, &host);
    }
}

/// The state of delayed scaling.
fn state(layer: &Linear) -> &Fp8State {
    layer.weight.product().unwrap().state.as_ref().unwrap()
}

/// Compares histories bit for bit, and scales up to the rounding of a division.
fn check_state(layer: &Linear, host: &Host) {
    let Some(scales) = &host.scales else {
        assert!(layer.weight.product().unwrap().state.is_none());
        return;
    };
    let state = state(layer);
    let history: Vec<f32> = scales.iter().flat_map(|s| s.history.clone()).collect();
    assert_eq!(floats(state.history.value()), history);
    for (got, want) in floats(state.scales.value()).iter().zip(scales) {
        let want = want.scale;
        assert!((got - want).abs() <= 2e-7 * want, "{got} {want}");
    }
}

fn delayed(history_len: usize, algorithm: AmaxAlgorithm) -> Fp8Recipe {
    Fp8Recipe::delayed().with_scaling(Fp8Scaling::Delayed {
        history_len,
        algorithm,
    })
}

pub(crate) fn current_scaling(target: &Target) {
    let recipe = Fp8Recipe::current();
    check(target, recipe, Element::F32);
    check(target, recipe.with_margin(3), Element::F32);
}

pub(crate) fn delayed_scaling(target: &Target) {
    let recipes = [
        Fp8Recipe::delayed(),
        delayed(1, AmaxAlgorithm::Max),
        delayed(2, AmaxAlgorithm::Max).with_margin(1),
        delayed(3, AmaxAlgorithm::MostRecent),
        delayed(3, AmaxAlgorithm::Max),
    ];
    for recipe in recipes {
        check(target, recipe, Element::F32);
    }
}

pub(crate) fn bf16(target: &Target) -> Result<(), Error> {
    supports(target, DType::BF16)?;
    check(target, Fp8Recipe::current(), Element::Bf16);
    check(target, delayed(3, AmaxAlgorithm::Max), Element::Bf16);
    Ok(())
}

/// Checks that values beyond the range of a delayed scale saturate, and that their gradients still pass.
pub(crate) fn gradients_pass_where_values_saturate(target: &Target) {
    let device = target.burn().autodiff();
    let recipe = Fp8Recipe::delayed();
    let weight = tensor(&[2.0, -1.0], [1, 2], &device).require_grad();
    let layer = Linear::new(Param::from_tensor(weight), None).unwrap();
    let layer = layer.in_fp8(recipe).unwrap();
    let x = tensor(&[1000.0, 3.0], [1, 2], &device).require_grad();
    let y = layer.forward(x.clone()).unwrap();
    let gradients = y.clone().mul_scalar(1.5).sum().backward();
    assert_eq!(floats(y), [2.0 * 448.0 - 3.0]);
    assert_eq!(floats(x.grad(&gradients).unwrap()), [3.0, -1.5]);
    let dw = layer.weight.values().unwrap().grad(&gradients).unwrap();
    assert_eq!(floats(dw), [1.5 * 448.0, 4.5]);
    update(&layer, &gradients, None);
    let state = state(&layer);
    assert_eq!(floats(state.saturated.value()), [1.0, 0.0, 0.0]);
    let again = layer.forward(x).unwrap();
    let x = 448.0 * (1000.0f32 / 448.0);
    let three = quantised(&[3.0], Fp8Format::E4M3, 1000.0 / 448.0)[0];
    let want = [f64::from(2.0 * x - three)];
    assert_close("y", &floats(again), &want, 1e-6);
}

/// Checks several forwards before one backward: the largest amax counts, and a forward whose gradient isn't computed counts
/// later or never.
pub(crate) fn several_uses_in_a_step(target: &Target) {
    let device = target.burn().autodiff();
    let host = Host::new(delayed(4, AmaxAlgorithm::Max), Element::F32);
    let layer = host.layer(&device, DType::F32);
    let [_, k, _] = SIZES;
    let x = |value| Tensor::<2>::full([2, k], value, &device);
    let y = |value: f32| layer.forward(x(value)).unwrap().sum();
    let unused = y(100.0);
    let loss = y(2.0).mul_scalar(0.5) + y(7.0).mul_scalar(0.25) + y(3.0);
    update(&layer, &loss.backward(), None);
    let newest = |of: usize| {
        let history = floats(state(&layer).history.value());
        history[4 * of + 3]
    };
    assert_eq!([newest(0), newest(2)], [7.0, 1.0]);
    update(&layer, &unused.backward(), None);
    assert_eq!(newest(0), 100.0);
}

/// Checks that infinite and NaN gradients reach the loss scaler, and that the skipped step changes no scale.
pub(crate) fn overflows_reach_loss_scaling(target: &Target) {
    let device = target.burn().autodiff();
    let [m, k, n] = SIZES;
    let x = tensor(&vec![1.0; m * k], [m, k], &device);
    for scaling in [Fp8Recipe::current(), delayed(4, AmaxAlgorithm::Max)] {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0] {
            let layer = Host::new(scaling, Element::F32).layer(&device, DType::F32);
            let scaler = LossScaler::new(LossScaling::dynamic(), &device).unwrap();
            let mut dy = vec![1e-3; m * n];
            dy[5] = bad;
            let y = layer.forward(x.clone()).unwrap() * tensor(&dy, [m, n], &device);
            let mut gradients = scaler.scale(y.sum()).backward();
            let finite = scaler.unscale(&mut gradients, &layer);
            assert_eq!(finite.read().unwrap(), bad == 1.0, "{bad}");
            update(&layer, &gradients, Some(&finite));
            scaler.update(&finite);
            let skipped = u32::from(bad != 1.0);
            assert_eq!(scaler.read().unwrap().skipped_steps, skipped);
            if let Some(state) = &layer.weight.product().unwrap().state {
                let history = floats(state.history.value());
                let zero = history.iter().all(|amax| *amax == 0.0);
                assert_eq!(zero, bad != 1.0, "{bad}");
                let ones = floats(state.scales.value()) == [1.0; 3];
                assert_eq!(ones, bad != 1.0, "{bad}");
            }
        }
    }
}

/// Loads `module`'s record, written to bytes and read back, into `fresh`.
pub(crate) fn resumed<M: Module>(module: M, fresh: M) -> M {
    let bytes = module.into_record().into_bytes().unwrap();
    let record = ModuleRecord::from_bytes(bytes).unwrap();
    fresh.try_load_record(record).unwrap()
}

/// Runs a layer and a loss scaler for five steps, optionally interrupted by saving and loading records.
fn run(target: &Target, interrupt: bool) -> (Vec<Vec<f32>>, LossScale) {
    let device = target.burn().autodiff();
    let [m, k, n] = SIZES;
    let host = Host::new(delayed(3, AmaxAlgorithm::Max), Element::F32);
    let mut layer = host.layer(&device, DType::F32);
    let scaling = LossScaling::Dynamic {
        initial: 32.0,
        interval: 2,
        min: 1.0,
        max: 1e6,
    };
    let mut scaler = LossScaler::new(scaling, &device).unwrap();
    let mut results = Vec::new();
    for (at, [x, dy]) in batches(Element::F32).iter().enumerate() {
        if interrupt && at == 3 {
            layer = resumed(layer, host.layer(&device, DType::F32));
            scaler = resumed(scaler, LossScaler::new(scaling, &device).unwrap());
        }
        let x = tensor(x, [m, k], &device);
        let dy = tensor(dy, [m, n], &device);
        let y = layer.forward(x).unwrap();
        results.push(floats(y.clone()));
        let mut gradients = scaler.scale((y * dy).sum()).backward();
        let finite = scaler.unscale(&mut gradients, &layer);
        update(&layer, &gradients, Some(&finite));
        scaler.update(&finite);
        let weight = layer.weight.values().unwrap();
        results.push(floats(weight.grad(&gradients).unwrap()));
    }
    (results, scaler.read().unwrap())
}

pub(crate) fn records_continue_bit_for_bit(target: &Target) {
    let whole = run(target, false);
    assert!(run(target, false) == whole, "two runs differ");
    assert!(run(target, true) == whole, "a resumed run differs");
    // A checkpoint may hold these numbers instead of a record.
    let device = target.burn().autodiff();
    let scaler = LossScaler::new(LossScaling::dynamic(), &device).unwrap();
    scaler.restore(whole.1).unwrap();
    assert_eq!(scaler.read().unwrap(), whole.1);
}

pub(crate) fn ranks_inference_and_empty_batches(target: &Target) {
    let (plain, device) = (target.burn(), target.burn().autodiff());
    let host = Host::new(delayed(3, AmaxAlgorithm::Max), Element::F32);
    let layer = host.layer(&device, DType::F32);
    let [m, k, n] = SIZES;
    let [x, dy] = &batches(Element::F32)[0];
    let rows = tensor(x, [m, k], &device);
    device_step(&layer, &rows, &tensor(dy, [m, n], &device));
    let y = floats(layer.forward(rows.clone()).unwrap());
    let cube = layer.forward(rows.clone().reshape([1, m, 1, k])).unwrap();
    assert_eq!(cube.dims(), [1, m, 1, n]);
    assert_eq!(floats(cube), y);
    let none = layer.forward(Tensor::<3>::zeros([2, 0, k], &device));
    assert_eq!(none.unwrap().dims(), [2, 0, n]);
    // Without gradients, the learned scales are used and don't change.
    let layer = layer.valid();
    let before = floats(state(&layer).history.value());
    let again = layer.forward(tensor(x, [m, k], &plain)).unwrap();
    assert_eq!(floats(again), y);
    let after = floats(state(&layer).history.value());
    assert_eq!(before, after);
}

pub(crate) fn from_and_into_linear(target: &Target) {
    let device = target.burn().autodiff();
    let linear = nn::LinearConfig::new(12, 8).init(&device);
    let weight = floats(linear.weight.val());
    let x = random(5, [3, 12], 1.0, &device);
    let want = doubles(linear.forward(x.clone()));
    let layer = Linear::from(linear).in_fp8(Fp8Recipe::current()).unwrap();
    // Two roundings to four significant bits, 2.7 % each.
    let y = layer.forward(x).unwrap();
    assert_close("y", &floats(y.clone()), &want, 0.06);
    let gradients = y.sum().backward();
    let trained = layer.weight.values().unwrap();
    assert!(trained.grad(&gradients).is_some());
    assert_eq!(floats(layer.into_burn().unwrap().weight.val()), weight);
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn().autodiff();
    let with = |recipe| LinearConfig::new(8, 4).with_fp8(Some(recipe));
    let config = with(Fp8Recipe::delayed());
    for wrong in [
        LinearConfig::new(0, 4).with_fp8(config.fp8),
        LinearConfig::new(4, 0).with_fp8(config.fp8),
        with(delayed(0, AmaxAlgorithm::Max)),
        with(Fp8Recipe::current().with_margin(99)),
    ] {
        assert_refused(ErrorKind::Config, wrong.init(&device));
    }
    let layer = config.init(&device).unwrap();
    let narrow = layer.forward(Tensor::<2>::zeros([3, 7], &device));
    assert_refused(ErrorKind::Shape, narrow);
    let elsewhere = layer.forward(Tensor::<2>::zeros([3, 8], &target.burn()));
    assert_refused(ErrorKind::Device, elsewhere);
    let other = with(delayed(5, AmaxAlgorithm::Max)).init(&device).unwrap();
    let states = [
        (Some(state(&other).clone()), ErrorKind::Shape),
        (None, ErrorKind::State),
    ];
    for (state, kind) in states {
        let mut mixed = config.init(&device).unwrap();
        let mut product = mixed.weight.product().unwrap().clone();
        product.state = state;
        mixed.weight = mixed.weight.with_product(product).unwrap();
        let mixed = mixed.forward(Tensor::<2>::zeros([3, 8], &device));
        assert_refused(kind, mixed);
    }
}
