//! Balance losses and load statistics: for uniform and collapsed routing, under masks, and against PyTorch.

use crate::tensors::{case_file, floats, integers, mask, params, random, tensor};
use burn::tensor::{Int, Tensor, TensorData};
use moebius::ErrorKind;
use moebius::moe::{LoadStatistics, LossWeights, Losses, RouteConfig, Routing, Score, route};
use moebius_tests::data::Rng;
use moebius_tests::elements::exact;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

fn routed(
    device: &burn::tensor::Device,
    logits: &[f32],
    experts: usize,
    config: RouteConfig,
) -> Routing {
    let logits = tensor(logits, [logits.len() / experts, experts], device);
    route(logits, None, &config).unwrap()
}

fn top(top_k: usize) -> RouteConfig {
    RouteConfig {
        top_k,
        ..RouteConfig::default()
    }
}

fn close(what: &str, got: Tensor<1>, want: f64) {
    let got = floats(got);
    let error = (f64::from(got[0]) - want).abs();
    assert!(got.len() == 1 && error < 1e-5, "{what}: {got:?} for {want}");
}

/// Logits of 64 tokens for 8 experts, each expert the first choice of 8 tokens and the second of 8 others; all other logits are 0.
fn balanced() -> Vec<f32> {
    let mut logits = vec![0.0; 64 * 8];
    for t in 0..64 {
        logits[t * 8 + t % 8] = 2.0;
        logits[t * 8 + (t + 1) % 8] = 1.0;
    }
    logits
}

pub(crate) fn uniform(target: &Target) {
    for score in [Score::Softmax, Score::Sigmoid] {
        for top_k in [1, 2, 8] {
            let config = RouteConfig {
                score,
                ..top(top_k)
            };
            let routing = routed(&target.burn(), &balanced(), 8, config);
            for groups in [1, 2, 8] {
                let losses = routing.losses(groups).unwrap();
                close("switch", losses.switch, 1.0);
                close("gshard", losses.gshard, 1.0);
                close("entropy", losses.entropy, 0.0);
            }
        }
    }
    // The z loss of zero logits is (ln 8)².
    let zero = routed(&target.burn(), &[0.0; 80], 8, top(2));
    close("z", zero.losses(1).unwrap().z.unwrap(), 4.324_077_1);
}

pub(crate) fn collapse(target: &Target) {
    let mut logits = vec![0.0; 32 * 8];
    for t in 0..32 {
        logits[t * 8 + 5] = 60.0;
    }
    let losses = routed(&target.burn(), &logits, 8, top(1))
        .losses(4)
        .unwrap();
    close("switch", losses.switch, 8.0);
    close("gshard", losses.gshard, 8.0);
    close("entropy", losses.entropy, 1.0);
    close("z", losses.z.unwrap(), 3600.0);
    let one = routed(&target.burn(), &[1.5; 7], 1, top(1))
        .losses(1)
        .unwrap();
    close("entropy of one expert", one.entropy, 0.0);
}

pub(crate) fn as_pytorch(target: &Target) {
    let case = case_file("balance_losses.safetensors");
    let top_k = params(&case)["top_k"].as_u64().unwrap() as usize;
    let logits = case.read_f32("in.logits").unwrap();
    let routing = routed(&target.burn(), &logits, 8, top(top_k));
    let losses = routing.losses(1).unwrap();
    for (name, loss) in [
        ("switch", losses.switch),
        ("gshard", losses.gshard),
        ("entropy", losses.entropy),
        ("z", losses.z.unwrap()),
    ] {
        let want = case.read_f32(&format!("out.{name}")).unwrap();
        close(name, loss, f64::from(want[0]));
    }
    let statistics = LoadStatistics::read(routing.load().unwrap()).unwrap();
    let awaited = pollster::block_on(LoadStatistics::read_async(routing.load().unwrap()));
    assert_eq!(awaited.unwrap(), statistics);
    let balance = statistics.balance.unwrap();
    let utilization: Vec<f32> = balance.utilization.iter().map(|u| *u as f32).collect();
    let want = case.read_f32("out.utilization").unwrap();
    assert_close("utilization", &utilization, &exact(&want), 1e-6);
}

/// The losses in f64, computed from the device's probabilities.
fn reference(routing: &Routing, groups: usize) -> [f64; 4] {
    let [tokens, experts] = routing.probs.dims();
    let probs: Vec<f64> = floats(routing.probs.clone())
        .chunks(experts)
        .flat_map(|row| {
            let sum: f64 = row.iter().map(|p| f64::from(*p)).sum();
            row.iter().map(move |p| f64::from(*p) / sum)
        })
        .collect();
    let mean = |range: std::ops::Range<usize>, e: usize| {
        let len = range.len() as f64;
        range.map(|t| probs[t * experts + e]).sum::<f64>() / len
    };
    let indices = integers(routing.indices.clone());
    let share =
        |e: usize| indices.iter().filter(|i| **i == e as i64).count() as f64 / indices.len() as f64;
    let each = || 0..experts;
    let switch = each().map(|e| share(e) * mean(0..tokens, e)).sum::<f64>();
    let size = tokens / groups;
    let mut gshard = 0.0;
    for group in 0..groups {
        let range = group * size..(group + 1) * size;
        for e in each() {
            let first = range.clone().filter(|t| {
                let row = &probs[t * experts..(t + 1) * experts];
                (0..experts)
                    .all(|other| row[e] > row[other] || (row[e] == row[other] && e <= other))
            });
            gshard += first.count() as f64 / size as f64 * mean(range.clone(), e);
        }
    }
    let q = |e| mean(0..tokens, e);
    let entropy: f64 = each()
        .map(|e| if q(e) > 0.0 { -q(e) * q(e).ln() } else { 0.0 })
        .sum();
    let lse = floats(routing.logsumexp.clone().unwrap());
    let z = lse.iter().map(|l| f64::from(*l).powi(2)).sum::<f64>() / tokens as f64;
    let e = experts as f64;
    [
        e * switch,
        e * gshard / groups as f64,
        (e.ln() - entropy) / e.ln(),
        z,
    ]
}

fn check(losses: Losses, want: [f64; 4]) {
    let z = losses.z.unwrap();
    let got = [losses.switch, losses.gshard, losses.entropy, z];
    let names = ["switch", "gshard", "entropy", "z"];
    for ((name, got), want) in names.into_iter().zip(got).zip(want) {
        close(name, got, want);
    }
}

pub(crate) fn groups_and_masks(target: &Target) {
    let device = target.burn();
    let logits = random(3, [48, 6], 2.0, &device);
    let some = mask(&[true, false, true, true, false, true], &device);
    for mask in [None, Some(some)] {
        for groups in [1, 3, 48] {
            let routing = route(logits.clone(), mask.clone(), &top(2)).unwrap();
            check(routing.losses(groups).unwrap(), reference(&routing, groups));
        }
    }
    // Of each 16 tokens the first 12 count: losses and loads are those of these tokens alone.
    let first = logits.clone().reshape([3, 16, 6]).narrow(1, 0, 12);
    let alone = route(first.reshape([36, 6]), None, &top(2)).unwrap();
    let counts: Vec<bool> = (0..48).map(|token| token % 16 < 12).collect();
    let routing = route(logits, None, &top(2)).unwrap();
    let counted = routing.clone().counting(mask(&counts, &device)).unwrap();
    for groups in [1, 3] {
        check(counted.losses(groups).unwrap(), reference(&alone, groups));
    }
    let [got, want] = [&counted, &alone].map(|routing| integers(routing.load().unwrap()));
    assert_eq!(got, want);
    for groups in [0, 5] {
        assert_refused(ErrorKind::Config, routing.losses(groups));
    }
    let few = mask(&counts[1..], &device);
    assert_refused(ErrorKind::Shape, routing.counting(few));
    let none = route(Tensor::zeros([0, 6], &device), None, &top(2)).unwrap();
    check(none.losses(1).unwrap(), [0.0; 4]);
}

/// Checks that with every expert masked all losses and their gradients are 0.
pub(crate) fn nothing_available(target: &Target) {
    let device = target.burn().autodiff();
    let logits = tensor(&balanced(), [64, 8], &device).require_grad();
    let none = mask(&[false; 8], &device);
    let losses = route(logits.clone(), Some(none), &top(2)).unwrap();
    let losses = losses.losses(1).unwrap();
    let z = losses.z.unwrap();
    for loss in [&losses.switch, &losses.gshard, &losses.entropy, &z] {
        close("nothing", loss.clone(), 0.0);
    }
    let sum = losses.switch + losses.gshard + losses.entropy + z;
    let gradient = floats(logits.grad(&sum.backward()).unwrap());
    assert!(gradient.iter().all(|g| *g == 0.0), "{gradient:?}");
}

pub(crate) fn gradients_balance(target: &Target) {
    let device = target.burn().autodiff();
    let mut logits = Rng::new(4).vec(40 * 4, 0.5);
    logits.iter_mut().step_by(4).for_each(|l| *l += 2.0);
    let logits = tensor(&logits, [40, 4], &device).require_grad();
    // A backward pass consumes the graph, so each needs its own forward.
    let losses = || {
        let routing = route(logits.clone(), None, &top(1)).unwrap();
        routing.losses(2).unwrap()
    };
    for (name, loss) in [
        ("switch", losses().switch),
        ("gshard", losses().gshard),
        ("entropy", losses().entropy),
    ] {
        let gradient = floats(logits.grad(&loss.backward()).unwrap());
        for e in 0..4 {
            let sum: f32 = gradient.iter().skip(e).step_by(4).sum();
            assert_eq!(sum > 0.0, e == 0, "{name}: expert {e} gets {sum}");
        }
    }
    // The z loss has the gradient 2 · lse · softmax / T.
    let gradient = floats(logits.grad(&losses().z.unwrap().backward()).unwrap());
    let routing = route(logits, None, &top(1)).unwrap();
    let (lse, probs) = (floats(routing.logsumexp.unwrap()), floats(routing.probs));
    let gradient_of = |(at, p): (usize, &f32)| 2.0 * f64::from(lse[at / 4]) * f64::from(*p) / 40.0;
    let want: Vec<f64> = probs.iter().enumerate().map(gradient_of).collect();
    assert_close("z", &gradient, &want, 1e-5);
}

/// Checks sums over more tokens than Mesa's software adapter lets a loop have rounds.
pub(crate) fn many_tokens(target: &Target) {
    let logits = Rng::new(8).vec(70_001 * 8, 3.0);
    let routing = routed(&target.burn(), &logits, 8, top(2));
    let losses = routing.losses(1).unwrap();
    let got = [
        losses.switch,
        losses.gshard,
        losses.entropy,
        losses.z.unwrap(),
    ]
    .map(floats);
    let got: Vec<f32> = got.concat();
    assert_close("losses", &got, &reference(&routing, 1), 1e-4);
}

pub(crate) fn weighted_sum(target: &Target) {
    let routing = routed(&target.burn(), &Rng::new(5).vec(64, 2.0), 8, top(2));
    let losses = routing.losses(1).unwrap();
    let [switch, gshard, entropy, z] = reference(&routing, 1);
    let default = losses.weighted(&LossWeights::default());
    close("default", default, 0.01 * switch + 0.001 * z);
    let all = LossWeights {
        switch: 1.0,
        gshard: 2.0,
        entropy: 3.0,
        z: 0.5,
    };
    let want = switch + 2.0 * gshard + 3.0 * entropy + 0.5 * z;
    close("all", losses.weighted(&all), want);
    let none = LossWeights {
        switch: 0.0,
        gshard: 0.0,
        entropy: 0.0,
        z: 0.0,
    };
    close("none", losses.weighted(&none), 0.0);
}

pub(crate) fn statistics(target: &Target) {
    let read = |counts: &[i32]| {
        let load = Tensor::<1, Int>::from_data(TensorData::from(counts), &target.burn());
        LoadStatistics::read(load).unwrap()
    };
    let even = read(&[6; 8]);
    assert_eq!(even.counts, [6; 8]);
    assert_eq!(even.balance.as_ref().unwrap().utilization, [0.125; 8]);
    let figures = |s: &LoadStatistics| {
        let s = s.balance.as_ref().unwrap();
        [
            s.coefficient_of_variation,
            s.max_over_mean,
            s.min_over_mean,
            s.assignment_entropy,
        ]
    };
    let near = |got: [f64; 4], want: [f64; 4]| {
        let close = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12);
        assert!(close, "{got:?} for {want:?}");
    };
    near(figures(&even), [0.0, 1.0, 1.0, 8f64.ln()]);
    near(figures(&read(&[0, 0, 20, 0])), [2.0, 4.0, 0.0, 0.0]);
    // Mean 2, deviations −1, 1, 0: the unbiased variance is 1.
    let uneven = figures(&read(&[1, 3, 2]));
    let entropy =
        -(1.0f64 / 6.0 * (1.0f64 / 6.0).ln() + 0.5 * 0.5f64.ln() + (1.0f64 / 3.0).ln() / 3.0);
    near(uneven, [0.5, 1.5, 0.5, entropy]);
    // Without slots there is no balance figure.
    assert_eq!(read(&[0, 0]).balance, None);
    assert_eq!(LoadStatistics::new(Vec::new()).balance, None);
    near(figures(&read(&[9])), [0.0, 1.0, 1.0, 0.0]);
    let counted = routed(&target.burn(), &balanced(), 8, top(2));
    let statistics = LoadStatistics::read(counted.load().unwrap()).unwrap();
    assert_eq!(statistics.counts, [16; 8]);
}
