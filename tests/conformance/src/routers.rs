//! Every router: its rule against plain Rust, its gradients, its state, and masks.

use crate::tensors::{floats, integers, mask, tensor, words};
use burn::module::Module;
use burn::tensor::{Int, Tensor};
use moebius::ErrorKind;
use moebius::moe::{
    Capacity, DynamicConfig, ExpertChoiceConfig, Follow, Groups, HashConfig, HashKey,
    LearnedConfig, LoadStatistics, LossWeights, MoeConfig, RouteConfig, Router, RouterConfig,
    Routing, Score, SigmoidBiasConfig, SwitchConfig, TopKConfig,
};
use moebius_ops::{Element, routing};
use moebius_tests::data::Rng;
use moebius_tests::elements::exact;
use moebius_tests::gradients::{filled, parameters, with_values};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

const TOKENS: usize = 45;
const HIDDEN: usize = 24;
const EXPERTS: usize = 8;

fn batch(seed: u64) -> Vec<f32> {
    Rng::new(seed).vec(TOKENS * HIDDEN, 1.5)
}

/// `route` by sigmoids of the logits, for experts in four groups of which two can be chosen.
pub(crate) fn grouped(route: RouteConfig) -> RouteConfig {
    RouteConfig {
        groups: Some(Groups {
            count: 4,
            chosen: 2,
            best: 2,
        }),
        scale: 2.5,
        score: Score::Sigmoid,
        ..route
    }
}

/// One of each router, without randomness.
fn routers() -> Vec<RouterConfig> {
    let grouped = grouped(RouteConfig::default());
    vec![
        RouterConfig::default(),
        RouterConfig::Switch(SwitchConfig { jitter: 0.0 }),
        RouterConfig::Hash(HashConfig::default()),
        RouterConfig::Learned(LearnedConfig {
            width: 20,
            ..LearnedConfig::default()
        }),
        RouterConfig::Dynamic(DynamicConfig::default()),
        RouterConfig::SigmoidBias(SigmoidBiasConfig {
            route: grouped,
            ..SigmoidBiasConfig::default()
        }),
        RouterConfig::ExpertChoice(ExpertChoiceConfig::default()),
    ]
}

fn router(target: &Target, config: RouterConfig) -> Router {
    let router = config.init(HIDDEN, EXPERTS, &target.burn()).unwrap();
    filled(router, 7, 0.4)
}

fn run(target: &Target, router: &Router, x: &[f32], available: Option<&[bool]>) -> Routing {
    let device = router.devices();
    let device = device.first().cloned().unwrap_or_else(|| target.burn());
    let x = tensor(x, [x.len() / HIDDEN, HIDDEN], &device);
    router
        .forward(x, available.map(|a| mask(a, &device)))
        .unwrap()
}

/// The reference's choice for these logits.
fn chosen(route: RouteConfig, logits: &[f32], available: Option<&[bool]>) -> routing::Routed {
    let tokens = logits.len() / EXPERTS;
    let problem = routing::Problem::new(tokens, EXPERTS, route.top_k).unwrap();
    let problem = problem.with_score(route.score, route.renormalize);
    routing::reference(&problem, logits, available)
}

fn same_choice(got: &Routing, want: &routing::Routed) {
    assert_eq!(words(got.indices.clone()), want.indices);
    let [weights, probs] = [&got.weights, &got.probs].map(|of| floats(of.clone()));
    assert_close("weights", &weights, &want.weights, 1e-5);
    assert_close("probs", &probs, &want.probs, 1e-5);
}

pub(crate) fn switch_keeps_the_raw_probability(target: &Target) {
    let config = RouterConfig::Switch(SwitchConfig::default());
    let router = router(target, config);
    let x = batch(1);
    let quiet = run(target, &router, &x, None);
    assert_eq!(quiet.indices.dims(), [TOKENS, 1]);
    let probs = floats(quiet.probs);
    let largest = |row: &[f32]| row.iter().copied().fold(0.0, f32::max);
    let largest: Vec<f32> = probs.chunks(EXPERTS).map(largest).collect();
    assert_eq!(floats(quiet.weights), largest);
    // In training, every logit is changed by at most 1 %, each by another factor.
    let jittered = floats(run(target, &router.train(), &x, None).logits);
    let logits = floats(quiet.logits);
    let ratios: Vec<f32> = jittered.iter().zip(&logits).map(|(a, b)| a / b).collect();
    let near = ratios.iter().all(|r| (0.9899..1.0101).contains(r));
    assert!(near, "{ratios:?}");
    assert!(ratios.iter().any(|r| *r > 1.005) && ratios.iter().any(|r| *r < 0.995));
}

pub(crate) fn noise_and_dropout_only_in_training(target: &Target) {
    let noisy = RouterConfig::TopK(TopKConfig {
        noise_std: 0.5,
        ..TopKConfig::default()
    });
    let x = batch(2);
    let router_ = router(target, noisy);
    let quiet = floats(run(target, &router_, &x, None).logits);
    assert_eq!(floats(run(target, &router_, &x, None).logits), quiet);
    let noise = floats(run(target, &router_.train(), &x, None).logits);
    let pairs = noise.iter().zip(&quiet);
    let noise: Vec<f64> = pairs.map(|(a, b)| f64::from(a - b)).collect();
    let mean = noise.iter().sum::<f64>() / noise.len() as f64;
    let deviation = noise.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / noise.len() as f64;
    // 360 normal draws: the sample's deviation has an error of about 4 %, its mean of 0.03.
    let near = mean.abs() < 0.12 && (deviation.sqrt() - 0.5).abs() < 0.1;
    assert!(near, "{mean} {deviation}");

    let dropping = RouterConfig::TopK(TopKConfig {
        dropout: 0.25,
        ..TopKConfig::default()
    });
    // Logit i is element i of x.
    let mut first = vec![0.0; EXPERTS * HIDDEN];
    (0..EXPERTS).for_each(|e| first[e * HIDDEN + e] = 1.0);
    let dropping = with_values(router(target, dropping), "weight", &first);
    let x = Rng::new(20).vec(800 * HIDDEN, 1.5);
    let firsts = x.chunks(HIDDEN).flat_map(|row| &row[..EXPERTS]);
    let want: Vec<f32> = firsts.copied().collect();
    assert_eq!(floats(run(target, &dropping, &x, None).logits), want);
    let got = floats(run(target, &dropping.train(), &x, None).logits);
    let dropped = got.iter().filter(|x| **x == 0.0).count();
    // 6400 draws with p = 1/4: 1600 expected, with a standard deviation of 35.
    assert!((dropped as f64 - 1600.0).abs() < 175.0, "{dropped} dropped");
    for (got, x) in got.iter().zip(&want) {
        let error = (got - x / 0.75).abs();
        assert!(*got == 0.0 || error <= 1e-6, "{got} of {x}");
    }
}

pub(crate) fn hash_is_the_reference(target: &Target) {
    let available = [true, false, true, true, true, false, true, true];
    let x = batch(3);
    for key in [HashKey::Content, HashKey::Position { sequence: 15 }] {
        for (top_k, mask) in [(1, None), (2, Some(&available[..])), (7, Some(&available))] {
            let config = HashConfig {
                top_k,
                key,
                seed: 99,
            };
            let router = router(target, RouterConfig::Hash(config));
            let got = run(target, &router, &x, mask);
            let key = match key {
                HashKey::Content => routing::HashKey::Content {
                    hidden: x.len() / TOKENS,
                    element: Element::F32,
                },
                HashKey::Position { sequence } => routing::HashKey::Position { sequence },
            };
            let routing = routing::Problem::new(TOKENS, EXPERTS, top_k).unwrap();
            let problem = routing::HashProblem::new(routing, key).unwrap();
            let (indices, weights) = routing::hash_reference(&problem, 99, &x, mask);
            let chosen = words(got.indices.clone());
            assert_eq!(chosen, indices, "{key:?}, {top_k}");
            assert_eq!(floats(got.weights.clone()), weights);
            let mut probs = vec![0.0; TOKENS * EXPERTS];
            for (slot, expert) in indices.iter().enumerate() {
                if (*expert as usize) < EXPERTS {
                    probs[slot / top_k * EXPERTS + *expert as usize] = 1.0 / top_k as f32;
                }
            }
            assert_eq!(floats(got.probs.clone()), probs);
            // Without logits there is no z loss.
            assert!(got.logsumexp.is_none());
            let losses = got.losses(1).unwrap();
            assert!(losses.z.is_none());
            let sum = losses.weighted(&LossWeights::default());
            assert_eq!(floats(sum), floats(losses.switch * 0.01));
        }
    }
}

/// Multiplies in f64: rows of `width` elements by weights \[out, width\].
fn product(rows: &[f64], weight: &[f32], width: usize) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        let dot = |w: &[f32]| w.iter().zip(row).map(|(w, x)| f64::from(*w) * x).sum();
        weight.chunks(width).map(dot).collect()
    };
    rows.chunks(width).flat_map(row).collect()
}

/// Computes act(rows · Wᵀ + b) for a router's linear layer.
fn linear(rows: &[f64], router: &Router, path: &str, act: fn(f64) -> f64) -> Vec<f64> {
    let of = |name: &str| {
        let all = parameters(router);
        let end = format!("{path}.{name}");
        let found = all.into_iter().find(|p| p.path.ends_with(&end));
        found.unwrap_or_else(|| panic!("{end}")).values
    };
    let (weight, bias) = (of("weight"), of("bias"));
    let y = product(rows, &weight, weight.len() / bias.len());
    let biased = y.iter().enumerate();
    biased
        .map(|(i, y)| act(y + f64::from(bias[i % bias.len()])))
        .collect()
}

fn relu(x: f64) -> f64 {
    x.max(0.0)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(crate) fn learned_is_an_mlp(target: &Target) {
    let config = LearnedConfig {
        width: 20,
        layers: 2,
        route: RouteConfig::default(),
    };
    let router = router(target, RouterConfig::Learned(config));
    let x = batch(4);
    let hidden = linear(&exact(&x), &router, "layers.0", relu);
    let hidden = linear(&hidden, &router, "layers.1", relu);
    let Router::Learned(inner) = &router else {
        panic!("the router is learned");
    };
    let logits = product(&hidden, &floats(inner.weight.val()), 20);
    let got = run(target, &router, &x, None);
    assert_close("logits", &floats(got.logits.clone()), &logits, 1e-5);
    let route = RouteConfig::default();
    same_choice(&got, &chosen(route, &floats(got.logits.clone()), None));
}

pub(crate) fn dynamic_follows_its_formula(target: &Target) {
    let config = DynamicConfig {
        follow: Follow::new(0.25, 0.5, 2.0),
        ..DynamicConfig::default()
    };
    let usage: Vec<f32> = (0..EXPERTS).map(|e| e as f32 / 20.0).collect();
    let router = router(target, RouterConfig::Dynamic(config));
    let router = with_values(router, "usage", &usage);
    let router = with_values(router, "factors", &[1.0; EXPERTS]);
    let x = batch(5);
    let hidden = linear(&exact(&x), &router, "demand_in", relu);
    let demand = linear(&hidden, &router, "demand_out", sigmoid);
    let matrix = floats(router.matrix().unwrap());
    let mut logits = product(&exact(&x), &matrix, HIDDEN);
    for (at, logit) in logits.iter_mut().enumerate() {
        let u = f64::from(usage[at % EXPERTS]);
        *logit += demand[at / EXPERTS] * (1.0 - u) - 0.1 * u;
    }
    let got = run(target, &router, &x, None);
    assert_close("logits", &floats(got.logits), &logits, 1e-5);
    // In evaluation mode the state doesn't change.
    let state = |router: &Router, name: &str| {
        let all = parameters(router);
        let found = all.into_iter().find(|p| p.path.ends_with(name));
        found.unwrap_or_else(|| panic!("{name}")).values
    };
    assert_eq!(state(&router, "usage"), usage);
    let trained = router.train().no_grad();
    let load = integers(run(target, &trained, &x, None).load().unwrap());
    let slots = 2.0 * TOKENS as f64;
    let want: Vec<f64> = (0..EXPERTS)
        .map(|e| 0.75 * f64::from(usage[e]) + 0.25 * load[e] as f64 / slots)
        .collect();
    assert_close("usage", &state(&trained, "usage"), &want, 1e-6);
    let want: Vec<f64> = load
        .iter()
        .map(|a| (0.75 + 0.25 * *a as f64 * EXPERTS as f64 / slots).clamp(0.5, 2.0))
        .collect();
    assert_close("factors", &state(&trained, "factors"), &want, 1e-6);
    // Both bounds hold however long the router trains on the same batch.
    for _ in 0..60 {
        drop(run(target, &trained, &x, None));
    }
    let factors = state(&trained, "factors");
    let within = factors.iter().all(|f| (0.5..=2.0).contains(f));
    assert!(within, "{factors:?}");
}

pub(crate) fn dynamic_capacities_reach_dispatch(target: &Target) {
    let router = RouterConfig::Dynamic(DynamicConfig::default());
    let config = MoeConfig::new(HIDDEN, 8, EXPERTS)
        .with_router(router)
        .with_capacity(Some(Capacity::new(1.0, 1).unwrap()));
    let layer = filled(config.init(&target.burn()).unwrap(), 3, 0.4);
    let x = tensor(&batch(6), [TOKENS, HIDDEN], &target.burn());
    for factors in [[0.5f32; EXPERTS], [2.0; EXPERTS], {
        let mut uneven = [0.5; EXPERTS];
        uneven[2] = 2.0;
        uneven
    }] {
        let layer = with_values(layer.clone(), "Dynamic.factors", &factors);
        let out = layer.forward(x.clone()).unwrap();
        let load = integers(out.routing.load().unwrap());
        let even = 2.0 * TOKENS as f64 / EXPERTS as f64;
        let over = |(a, f): (&i64, f32)| (a - (even * f64::from(f)).ceil() as i64).max(0);
        let dropped: i64 = load.iter().zip(factors).map(over).sum();
        assert_eq!(integers(out.dropped_slots), [dropped], "{factors:?}");
    }
}

pub(crate) fn sigmoid_bias_selects_but_does_not_weigh(target: &Target) {
    let config = RouterConfig::SigmoidBias(SigmoidBiasConfig::default());
    let router = with_values(router(target, config), "bias", &[0.0; EXPERTS]);
    let x = batch(7);
    let plain = run(target, &router, &x, None);
    let route = SigmoidBiasConfig::default().route;
    same_choice(&plain, &chosen(route, &floats(plain.logits.clone()), None));
    let mut bias = [0.0; EXPERTS];
    bias[3] = 5.0;
    let biased = run(target, &with_values(router, "bias", &bias), &x, None);
    let indices = integers(biased.indices);
    assert!(indices.chunks(2).all(|pair| pair[0] == 3), "{indices:?}");
    let (scores, weights) = (floats(biased.probs), floats(biased.weights));
    for (t, pair) in indices.chunks(2).enumerate() {
        let score = |k: usize| scores[t * EXPERTS + pair[k] as usize];
        let sum = score(0) + score(1);
        assert!((weights[2 * t] - score(0) / sum).abs() < 1e-5);
        assert!((weights[2 * t + 1] - score(1) / sum).abs() < 1e-5);
    }
}

pub(crate) fn sigmoid_bias_evens_out_the_load(target: &Target) {
    let config = SigmoidBiasConfig {
        rate: 0.01,
        ..SigmoidBiasConfig::default()
    };
    let router = router(target, RouterConfig::SigmoidBias(config));
    let router = with_values(router, "bias", &[0.0; EXPERTS]);
    let router = router.train().no_grad();
    // All tokens share a direction, so that the load is uneven at first.
    let x: Vec<f32> = batch(8).iter().map(|x| x + 1.0).collect();
    let deviation = || {
        let load = run(target, &router, &x, None).load().unwrap();
        let balance = LoadStatistics::read(load).unwrap().balance;
        balance.unwrap().coefficient_of_variation
    };
    let before = deviation();
    let Router::SigmoidBias(inner) = &router else {
        panic!("the router has a bias");
    };
    // One training forward moves each bias by the rate towards an even load, or not at all.
    let first = floats(inner.bias.value_sync());
    let load = integers(run(target, &router.valid(), &x, None).load().unwrap());
    let moved = |b: &f32| b.abs() < 1e-9 || (b.abs() - 0.01).abs() < 1e-6;
    assert!(first.iter().all(moved), "{first:?} {load:?}");
    for _ in 0..100 {
        drop(run(target, &router, &x, None));
    }
    let after = deviation();
    assert!(after < before / 2.0, "{before} became {after}");
    // The explicit update lowers the busiest expert's bias, raises an idle one's, and leaves a masked one's.
    let device = router.devices().remove(0);
    let bias = floats(inner.bias.value_sync());
    let load = Tensor::<1, Int>::from_ints([8, 0, 4, 4, 4, 4, 4, 0], &device);
    let available = mask(&[true, true, true, true, true, true, true, false], &device);
    inner.update_bias(load, Some(available)).unwrap();
    let direction = |(new, old): (&f32, &f32)| {
        let by = new - old;
        f64::from(by).signum() * f64::from(by.abs() > 1e-6)
    };
    let now = floats(inner.bias.value_sync());
    let moved: Vec<f64> = now.iter().zip(&bias).map(direction).collect();
    assert_eq!(moved, [-1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    only_tokens_that_count_move_the_bias(target, config);
}

/// A layer's router learns from the tokens that count, as if the others, 60 times the first token here, weren't there.
fn only_tokens_that_count_move_the_bias(target: &Target, router: SigmoidBiasConfig) {
    let device = target.burn().autodiff();
    let config = MoeConfig::new(HIDDEN, 16, EXPERTS);
    let config = config.with_router(RouterConfig::SigmoidBias(router));
    let mut x = batch(9)[..30 * HIDDEN].to_vec();
    let first = x[..HIDDEN].to_vec();
    x.extend(first.repeat(60));
    let after = |tokens: usize, counted: usize| {
        let layer = filled(config.init(&device).unwrap(), 7, 0.4);
        let layer = with_values(layer, "bias", &[0.0; EXPERTS]);
        let rows = tensor(&x[..tokens * HIDDEN], [tokens, HIDDEN], &device);
        let counts: Vec<bool> = (0..tokens).map(|token| token < counted).collect();
        let out = if counted < tokens {
            layer.forward_counting(rows, mask(&counts, &device))
        } else {
            layer.forward(rows)
        };
        let Router::SigmoidBias(router) = &layer.router else {
            panic!("the router has a bias");
        };
        let load = integers(out.unwrap().routing.load().unwrap());
        (load, floats(router.bias.value_sync()))
    };
    let (want, all) = (after(30, 30), after(90, 90));
    assert_eq!(after(90, 30), want);
    assert_ne!(all.1, want.1);
}

/// The tokens that an expert chooses: the most probable, on ties the earlier.
fn best_tokens(probs: &[f32], expert: usize, count: usize) -> Vec<usize> {
    let tokens = probs.len() / EXPERTS;
    let mut order: Vec<usize> = (0..tokens).collect();
    order.sort_by(|a, b| probs[b * EXPERTS + expert].total_cmp(&probs[a * EXPERTS + expert]));
    order.truncate(count);
    order.sort();
    order
}

pub(crate) fn expert_choice_takes_the_best(target: &Target) {
    let available = [true, true, false, true, true, true, true, false];
    for (factor, mask, count) in [
        (2.0, None, 12),
        (1.0, None, 6),
        (0.01, None, 1),
        (50.0, None, TOKENS),
        // Six available experts share 2 · 12 tokens, the masked ones' share included.
        (2.0, Some(&available), 16),
    ] {
        let config = RouterConfig::ExpertChoice(ExpertChoiceConfig { factor });
        let router = router(target, config);
        let got = run(target, &router, &batch(9), mask.map(|m| &m[..]));
        let (indices, probs) = (integers(got.indices), floats(got.probs));
        let weights = floats(got.weights);
        for e in 0..EXPERTS {
            let taken: Vec<usize> = (0..TOKENS)
                .filter(|t| indices[t * EXPERTS + e] == e as i64)
                .collect();
            let count = if mask.is_some_and(|m| !m[e]) {
                0
            } else {
                count
            };
            assert_eq!(taken, best_tokens(&probs, e, count), "expert {e}, {factor}");
            for t in 0..TOKENS {
                let want = if taken.contains(&t) {
                    (e as i64, probs[t * EXPERTS + e])
                } else {
                    (EXPERTS as i64, 0.0)
                };
                assert_eq!((indices[t * EXPERTS + e], weights[t * EXPERTS + e]), want);
            }
        }
    }
}

/// Compares y of a layer with expert choice with the sum over each expert's tokens.
pub(crate) fn expert_choice_layer(target: &Target) {
    let config = MoeConfig::new(HIDDEN, 16, EXPERTS)
        .with_router(RouterConfig::ExpertChoice(ExpertChoiceConfig::default()));
    let layer = filled(config.init(&target.burn()).unwrap(), 4, 0.4);
    let device = target.burn();
    let x = batch(10);
    let out = layer.forward(tensor(&x, [TOKENS, HIDDEN], &device));
    let out = out.unwrap();
    assert_eq!(integers(out.dropped_slots), [0]);
    let weights = layer.weights().unwrap();
    let (w_in, w_out) = (floats(weights.w_in), floats(weights.w_out));
    let (indices, scores) = (integers(out.routing.indices), floats(out.routing.weights));
    let mut want = vec![0.0; TOKENS * HIDDEN];
    for slot in (0..indices.len()).filter(|slot| indices[*slot] < EXPERTS as i64) {
        let (t, e) = (slot / EXPERTS, indices[slot] as usize);
        let row = exact(&x[t * HIDDEN..(t + 1) * HIDDEN]);
        let hidden = product(&row, &w_in[e * 16 * HIDDEN..(e + 1) * 16 * HIDDEN], HIDDEN);
        let hidden: Vec<f64> = hidden.into_iter().map(relu).collect();
        let y = product(&hidden, &w_out[e * 16 * HIDDEN..(e + 1) * 16 * HIDDEN], 16);
        for (h, y) in y.iter().enumerate() {
            want[t * HIDDEN + h] += f64::from(scores[slot]) * y;
        }
    }
    assert_close("y", &floats(out.y), &want, 1e-5);
}

pub(crate) fn masks_in_every_router(target: &Target) {
    let available = [false, true, true, false, true, true, false, true];
    for config in routers() {
        let router = router(target, config);
        let got = run(target, &router, &batch(11), Some(&available));
        let indices = integers(got.indices.clone());
        let (weights, probs) = (floats(got.weights.clone()), floats(got.probs.clone()));
        let name = config.name();
        for (slot, expert) in indices.iter().enumerate() {
            let nowhere = *expert == EXPERTS as i64;
            let right = nowhere || available[*expert as usize];
            assert!(right, "{name} chose {expert}");
            assert!(!nowhere || weights[slot] == 0.0, "{name} weighs nowhere");
        }
        for (at, prob) in probs.iter().enumerate() {
            assert!(available[at % EXPERTS] || *prob == 0.0, "{name} prob");
        }
        let load = integers(got.load().unwrap());
        assert!((0..EXPERTS).all(|e| available[e] || load[e] == 0), "{name}");
    }
}

/// Checks that a token routed alone goes to the same experts as in a batch, except under expert choice.
pub(crate) fn independent_of_the_batch(target: &Target) {
    let x = batch(12);
    for config in routers().into_iter().take(6) {
        let router = router(target, config);
        let whole = run(target, &router, &x, None);
        let logits = floats(whole.logits);
        for t in [0, 17, TOKENS - 1] {
            let alone = run(target, &router, &x[t * HIDDEN..(t + 1) * HIDDEN], None);
            let want = &logits[t * EXPERTS..(t + 1) * EXPERTS];
            assert_eq!(floats(alone.logits), want, "{}", config.name());
        }
    }
}

pub(crate) fn state_is_in_records(target: &Target) {
    for config in routers() {
        let trained = router(target, config).train();
        drop(run(target, &trained, &batch(13), None));
        let fresh = config.init(HIDDEN, EXPERTS, &target.burn()).unwrap();
        let loaded = fresh.load_record(trained.clone().into_record());
        let values = |router: &Router| -> Vec<(String, Vec<f32>)> {
            let all = parameters(router).into_iter();
            all.map(|p| (p.path, p.values)).collect()
        };
        assert_eq!(values(&loaded), values(&trained), "{}", config.name());
        let run = |router: Router| run(target, &router.valid(), &batch(14), None);
        let (a, b) = (run(loaded), run(trained));
        assert_eq!(integers(a.indices), integers(b.indices));
        assert_eq!(floats(a.weights), floats(b.weights));
    }
}

/// A router with a bias whose scores are those of the chosen experts alone.
const AFTER_TOP_K: &str = r#"{"kind": "sigmoid_bias", "route": {"softmax_after_topk": true}}"#;

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let learned = |layers, width| {
        let route = RouteConfig::default();
        RouterConfig::Learned(LearnedConfig {
            route,
            width,
            layers,
        })
    };
    let bad = [
        RouterConfig::TopK(TopKConfig {
            dropout: 1.0,
            ..TopKConfig::default()
        }),
        RouterConfig::TopK(TopKConfig {
            noise_std: f64::NAN,
            ..TopKConfig::default()
        }),
        RouterConfig::Switch(SwitchConfig { jitter: -0.1 }),
        RouterConfig::Hash(HashConfig {
            key: HashKey::Position { sequence: 0 },
            ..HashConfig::default()
        }),
        learned(0, 512),
        learned(17, 512),
        learned(usize::MAX, 512),
        learned(2, 0),
        learned(2, 8193),
        serde_json::from_str(r#"{"kind": "learned", "width": 18446744073709551615}"#).unwrap(),
        RouterConfig::Dynamic(DynamicConfig {
            follow: Follow::new(0.1, 0.0, 2.0),
            ..DynamicConfig::default()
        }),
        serde_json::from_str(AFTER_TOP_K).unwrap(),
        RouterConfig::ExpertChoice(ExpertChoiceConfig { factor: 0.0 }),
        RouteConfig::new(9).into(),
    ];
    for config in bad {
        assert_refused(ErrorKind::Config, config.init(HIDDEN, EXPERTS, &device));
    }
    for config in routers() {
        // More elements than 31 bits count; a hash router has no matrix, but obeys the same bound.
        let huge = config.init(usize::MAX / 2, EXPERTS, &device);
        assert_refused(ErrorKind::Config, huge);
        let router = router(target, config);
        let wide = Tensor::<2>::zeros([3, HIDDEN + 1], &device);
        assert_refused(ErrorKind::Shape, router.forward(wide, None));
        let x = Tensor::<2>::zeros([3, HIDDEN], &device);
        let masked = router.forward(x, Some(mask(&[true; 3], &device)));
        assert_refused(ErrorKind::Shape, masked);
        let none = Tensor::<2>::zeros([0, HIDDEN], &device);
        let none = router.forward(none, None).unwrap();
        assert_eq!(none.indices.dims(), [0, config.choices(EXPERTS)]);
    }
}
