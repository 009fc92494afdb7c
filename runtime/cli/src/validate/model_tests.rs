//! Of two devices one computes with a planted scale, router or kernel: the certificate names that device, the layer and the part.

use std::fs;
use std::path::{Path, PathBuf};

use moebius::moe::{Activation, RouterConfig};
use moebius_model::decoder::{Model, ModelSpec};
use moebius_model::load::ModelFiles;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::certificate::tests::{certificate, device};
use crate::certificate::{Section, Verdict};
use crate::validate::pages;

/// Tokens of the tiny decoder.
const IDS: [u32; 10] = [3, 14, 15, 9, 26, 5, 35, 8, 9, 79];

/// A decoder with codes in FP8 and their scales, whose second layer has experts.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/decoder_deepseek_v3_fp8")
}

/// A copy of the decoder's folder in which the values of a tensor in f32 are multiplied by 1.5.
fn planted(tensor: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let (config, weights) = ("config.json", "model.safetensors");
    fs::copy(folder().join(config), copy.path().join(config)).unwrap();
    let mut bytes = fs::read(folder().join(weights)).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&rest[..length]).unwrap();
    let [begin, end] = [0, 1].map(|at: usize| {
        let offset = header[tensor]["data_offsets"][at].as_u64().unwrap();
        8 + length + offset as usize
    });
    assert_eq!(header[tensor]["dtype"], "F32");
    for word in bytes[begin..end].as_chunks_mut::<4>().0 {
        *word = (1.5 * f32::from_le_bytes(*word)).to_le_bytes();
    }
    fs::write(copy.path().join(weights), bytes).unwrap();
    copy
}

/// What a device computes with the weights in `folder`, whose codes stay codes.
fn computed(folder: &Path) -> Computation {
    let (device, files) = (BurnDevice::flex(), ModelFiles::open(folder).unwrap());
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    Computation::of(&model.unwrap(), &IDS, &device).unwrap()
}

/// What a device computes of the right weights by operations that `change` makes others: a wrong kernel is another function of its operands.
fn computed_by(change: fn(&mut ModelSpec)) -> Computation {
    let (device, files) = (BurnDevice::flex(), ModelFiles::open(&folder()).unwrap());
    let mut spec = files.spec().clone();
    change(&mut spec);
    let model = Model::of_values(&spec, &mut files.values(), &device);
    Computation::of(&model.unwrap(), &IDS, &device).unwrap()
}

/// Demands that the certificate of a right device and of a card that computed `wrong` names the card and the place alone, though the layers of
/// neither could be timed.
fn is_named(wrong: &Computation, place: &str) {
    let files = ModelFiles::open(&folder()).unwrap();
    let reference = Computation::reference(files.spec(), &mut files.values(), &IDS).unwrap();
    let certified = |name: &str, computation: &Computation| {
        let untimed = Err(CliError::Launch("no memory".to_owned()));
        let found = found(&reference, (computation, untimed), Limits::default());
        device(name, vec![(Section::Model, found.unwrap())])
    };
    let right = certified("flex", &computed(&folder()));
    let certificate = certificate(vec![right, certified("cuda:0", wrong)]);
    let verdicts = certificate.devices.iter().map(|of| of.verdict);
    let verdicts: Vec<Verdict> = verdicts.collect();
    let said = pages::verdict(&certificate);
    assert_eq!(verdicts, [Verdict::Same, Verdict::Apart], "{place}: {said}");
    let named = format!("cuda:0: model: differs from {place} on");
    assert!(said.starts_with(&named), "{place}: {said}");
    let others = "; the same answer on 1 of 2 devices";
    assert!(said.ends_with(others), "{place}: {said}");
}

#[test]
fn a_wrong_scale_or_router_of_one_device_is_named() {
    for (tensor, place) in [
        (
            "model.layers.0.self_attn.o_proj.weight_scale_inv",
            "layer 0, attention",
        ),
        (
            "model.layers.0.mlp.down_proj.weight_scale_inv",
            "layer 0, feed-forward network",
        ),
        ("model.layers.1.mlp.gate.weight", "layer 1, router"),
        (
            "model.layers.1.mlp.shared_experts.down_proj.weight_scale_inv",
            "layer 1, experts",
        ),
    ] {
        is_named(&computed(planted(tensor).path()), place);
    }
}

/// Has the router choose from all experts, and no longer from those of the best group.
fn ungrouped(spec: &mut ModelSpec) {
    let RouterConfig::SigmoidBias(router) = &mut spec.layers[1].feed_forward.config_mut().router
    else {
        panic!("the model's router has a bias");
    };
    assert!(router.route.groups.take().is_some());
}

/// A change of a model, and the place that a verdict must name.
type Plant = (fn(&mut ModelSpec), &'static str);

#[test]
fn a_wrong_kernel_of_one_device_is_named() {
    let plants: [Plant; 4] = [
        (
            |spec| spec.layers[0].attention_mut().unwrap().scale *= 2.0,
            "layer 0, attention",
        ),
        (
            |spec| spec.layers[0].feed_forward.config_mut().activation = Activation::Relu,
            "layer 0, feed-forward network",
        ),
        (ungrouped, "layer 1, router"),
        (
            |spec| spec.layers[1].feed_forward.config_mut().activation = Activation::Relu,
            "layer 1, experts",
        ),
    ];
    for (change, place) in plants {
        is_named(&computed_by(change), place);
    }
}
