//! Dropout after an expert's activation: its rate, scale and gradients, and the layers without it.

use crate::tensors::{floats, tensor};
use burn::module::Module;
use burn::optim::GradientsParams;
use moebius::fp8::training::Fp8Recipe;
use moebius::moe::{
    Adapted, ExpertKind, GlamConfig, MoeConfig, MoeLayer, RouteConfig, SharedExpertConfig,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::exact;
use moebius_tests::gradients::{parameters, trained_parameters, with_values};
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

const WIDTH: usize = 16;
const TOKENS: usize = 300;
const SHAPE: [usize; 2] = [TOKENS, WIDTH];
const P: f64 = 0.3;

/// One relu expert that every token chooses, with weight 1.
fn config() -> MoeConfig {
    MoeConfig::new(WIDTH, WIDTH, 1)
        .with_router(RouteConfig::new(1))
        .with_activation_dropout(P)
}

/// A matrix of 16 rows and `columns` columns that has 1 at column `at` + r of row r, and 0 elsewhere.
fn shifted(columns: usize, at: usize) -> Vec<f32> {
    let mut values = vec![0.0; WIDTH * columns];
    for row in 0..WIDTH {
        values[row * columns + at + row] = 1.0;
    }
    values
}

/// Named layers whose experts return relu(x), so that y shows what the dropout does to x.
fn identities(target: &Target) -> Vec<(&'static str, MoeLayer)> {
    let made = |config: MoeConfig| config.init(&target.burn()).unwrap();
    let square = |layer: MoeLayer| {
        let layer = with_values(layer, "w_in", &shifted(WIDTH, 0));
        with_values(layer, "w_out", &shifted(WIDTH, 0))
    };
    let small = |form| ExpertKind::ParameterEfficient { form, rank: 1 };
    let convolutional = ExpertKind::Convolutional { causal: false };
    let convolutional = made(config().with_kind(convolutional));
    let middle = shifted(3 * WIDTH, WIDTH);
    let convolutional = with_values(convolutional, "w_in", &middle);
    let shared = made(config().with_shared(Some(SharedExpertConfig::new(WIDTH))));
    let mut gated = made(config().with_gated(true).with_bias(true));
    let gate = [shifted(WIDTH, 0), vec![0.0; WIDTH * WIDTH]].concat();
    for (name, values) in [
        ("w_in", gate),
        ("b_in", [vec![0.0; WIDTH], vec![1.0; WIDTH]].concat()),
        ("w_out", shifted(WIDTH, 0)),
        ("b_out", vec![0.0; WIDTH]),
    ] {
        gated = with_values(gated, name, &values);
    }
    let shared = with_values(square(shared), "FeedForward.w_out", &[0.0; WIDTH * WIDTH]);
    let fp8 = config().with_fp8(Some(Fp8Recipe::current()));
    let adapted = |form| square(made(config().with_kind(small(form))));
    vec![
        ("feed-forward", square(made(config()))),
        ("gated", gated),
        ("shared", shared),
        ("in FP8", square(made(fp8))),
        (
            "convolutional",
            with_values(convolutional, "w_out", &middle),
        ),
        ("LoRA", adapted(Adapted::Lora)),
        ("adapter", adapted(Adapted::Adapter)),
    ]
}

/// Values 0.5, 1 and 2, which FP8 represents exactly.
fn batch() -> Vec<f32> {
    let mut rng = Rng::new(9);
    let mut one = || [0.5, 1.0, 2.0][rng.below(3)];
    (0..TOKENS * WIDTH).map(|_| one()).collect()
}

/// Asserts that every y is 0 or x / (1 − p), and that about a share p of them is 0.
fn check(name: &str, y: &[f32], x: &[f32]) {
    let dropped = y.iter().filter(|y| **y == 0.0).count();
    let (mean, spread) = (x.len() as f64 * P, (x.len() as f64 * P * (1.0 - P)).sqrt());
    let distance = (dropped as f64 - mean).abs() / spread;
    assert!(distance < 5.0, "{name}: {dropped} of {} dropped", x.len());
    for (y, x) in y.iter().zip(x) {
        let want = if *y == 0.0 { 0.0 } else { x / (1.0 - P as f32) };
        assert!((y - want).abs() <= 1e-5 * want, "{name}: {y} of {x}");
    }
}

pub(crate) fn rate_and_scale(target: &Target) {
    let x = batch();
    for (name, layer) in identities(target) {
        let quiet = layer.forward(tensor(&x, SHAPE, &target.burn())).unwrap();
        assert_close(name, &floats(quiet.y), &exact(&x), 1e-6);
        let layer = layer.train();
        let device = target.burn().autodiff();
        let run = || floats(layer.forward(tensor(&x, SHAPE, &device)).unwrap().y);
        let (first, second) = (run(), run());
        check(name, &first, &x);
        assert_ne!(first, second, "{name}: the same elements twice");
        // The seed is global to the device; cases run one after another, so none disturbs this one.
        device.seed(5);
        let seeded = run();
        device.seed(5);
        assert_eq!(run(), seeded, "{name}");
    }
}

/// Checks that dropped values have gradient 0, and kept ones the gradient of the scaled value.
pub(crate) fn gradients_follow_the_forward(target: &Target) {
    let x = batch();
    for (name, layer) in identities(target) {
        let layer = layer.train();
        let device = target.burn().autodiff();
        let input = tensor(&x, SHAPE, &device).require_grad();
        let y = layer.forward(input.clone()).unwrap().y;
        let grads = y.clone().sum().backward();
        let (y, dx) = (floats(y), floats(input.grad(&grads).unwrap()));
        for ((y, x), dx) in y.iter().zip(&x).zip(&dx) {
            let want = y / x;
            let close = (dx - want).abs() <= 1e-5 * want && (*y != 0.0 || *dx == 0.0);
            assert!(close, "{name}: {dx} for {want}");
        }
        if name != "feed-forward" {
            continue;
        }
        // With dy = 1, each row of dW_out is the sum of the hidden rows, which equal y.
        let grads = GradientsParams::from_grads(grads, &layer);
        let trained = trained_parameters(&layer);
        let w_out = trained.iter().find(|p| p.path.ends_with("w_out")).unwrap();
        let got = floats(grads.get::<3>(w_out.id).unwrap());
        let sum = |h: usize| y.iter().skip(h).step_by(WIDTH).map(|y| f64::from(*y)).sum();
        let sums: Vec<f64> = (0..WIDTH).map(sum).collect();
        assert_close("d w_out", &got, &sums.repeat(WIDTH), 1e-5);
    }
}

/// Checks that a GLaM-style model's dense blocks drop values, too, and that a record doesn't hold the dropout rate.
pub(crate) fn dense_blocks_and_records(target: &Target) {
    let mut config = GlamConfig::new(WIDTH, WIDTH, 2);
    config.moe = config.moe.with_activation_dropout(P);
    let block = config.init(1, &target.burn()).unwrap().remove(0);
    let block = with_values(block, "w_in", &shifted(WIDTH, 0));
    let block = with_values(block, "w_out", &shifted(WIDTH, 0)).train();
    let x = batch();
    let input = tensor(&x, SHAPE, &target.burn().autodiff());
    check("dense", &floats(block.forward(input).unwrap().y), &x);
    config.moe = config.moe.with_activation_dropout(f64::NAN);
    assert!(config.init(1, &target.burn()).is_err());

    let layer = self::config().init(&target.burn()).unwrap();
    let quiet = self::config().with_activation_dropout(0.0);
    let loaded = quiet.init(&target.burn()).unwrap();
    let loaded = loaded.load_record(layer.clone().into_record());
    let values = |layer: &MoeLayer| parameters(layer).into_iter().map(|p| p.values);
    assert!(values(&loaded).eq(values(&layer)));
    assert_eq!(loaded.config().activation_dropout, 0.0);
}
