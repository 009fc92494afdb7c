//! Native results that the browser's tests compare with: the outputs of a layer and of a training.
//!
//! With `MOEBIUS_BLESS=1` this test writes `web-demo/test/native.json` on `flex`. All devices of a run, and in the browser's
//! tests a real WebGPU device, must agree with that file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use burn::tensor::{Device, Tensor, TensorData};
use moebius::moe::{Activation, Capacity, MoeConfig, RouteConfig};
use moebius_model::{ClassifierConfig, ClassifierTrainer, Samples, moe_weights};
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;
use serde_json::{Value, json};

const TOKENS: usize = 24;
const HIDDEN: usize = 32;
const STEPS: usize = 12;

/// Largest relative L2 error between two devices, which sum up to 64 products in different orders.
const LAYER: f64 = 1e-5;

/// Largest relative difference of a loss: twelve training steps amplify rounding differences, see `tests/training.rs`.
const LOSS: f64 = 1e-3;

/// Element `i` of the inputs, within ±1: derived from integers, so that every language computes the same bits.
fn value(i: usize) -> f32 {
    ((i * 7919) % 1000) as f32 / 500.0 - 1.0
}

fn layer(device: &Device) -> Vec<f32> {
    let config = MoeConfig::new(HIDDEN, 64, 8)
        .with_router(RouteConfig::new(2))
        .with_activation(Activation::Gelu)
        .with_gated(true)
        .with_bias(true)
        .with_capacity(Some(Capacity::new(1.25, 4).unwrap()));
    let layer = config.with_weights(moe_weights(&config, 7, device));
    let x: Vec<f32> = (0..TOKENS * HIDDEN).map(value).collect();
    let x = Tensor::<2>::from_data(TensorData::new(x, [TOKENS, HIDDEN]), device);
    let y = layer.unwrap().forward(x).unwrap().y;
    y.into_data().iter().collect()
}

fn losses(device: &Device) -> Vec<f32> {
    let samples = Samples {
        points: (0..128).map(value).collect(),
        classes: (0..64).map(|i| u32::from(value(2 * i) > 0.0)).collect(),
    };
    let config = ClassifierConfig {
        seed: 3,
        ..ClassifierConfig::default()
    };
    let mut trainer = ClassifierTrainer::new(config, samples, device).unwrap();
    let losses = (0..STEPS).map(|_| trainer.step().unwrap().loss.into_scalar());
    losses.collect()
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../web-demo/test/native.json")
}

fn reference() -> Value {
    let device = Device::flex();
    json!({
        "tokens": TOKENS,
        "layer": {
            "hidden": HIDDEN, "inter": 64, "experts": 8, "topK": 2, "activation": "gelu", "gated": true,
            "bias": true, "capacityFactor": 1.25, "minCapacity": 4, "seed": 7
        },
        "y": layer(&device),
        "training": { "classes": 2, "seed": 3 },
        "losses": losses(&device),
    })
}

fn floats(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn every_device_agrees_with_what_the_browser_is_compared_with() {
    if std::env::var_os("MOEBIUS_BLESS").is_some() {
        std::fs::write(path(), format!("{:#}\n", reference())).unwrap();
    }
    let committed: Value = serde_json::from_slice(&std::fs::read(path()).unwrap()).unwrap();
    for target in Target::all() {
        let device = target.burn();
        let what = format!("layer on {}", target.name);
        assert_close(&what, &layer(&device), &floats(&committed["y"]), LAYER);
        for (got, expected) in losses(&device).iter().zip(floats(&committed["losses"])) {
            let error = (f64::from(*got) - expected).abs() / expected;
            let name = target.name;
            assert!(error <= LOSS, "loss on {name}: {got} for {expected}");
        }
    }
}
