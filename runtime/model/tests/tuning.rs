//! Published models are trained, written, and made into mixtures of experts.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod folders;
#[path = "tuning/halves.rs"]
mod halves;

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Device;
use folders::folders;
use moebius::fp8::training::Fp8Recipe;
use moebius_model::decoder::{Documents, Drawn, Model, Slot, Values};
use moebius_model::families::describe;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_model::{
    Beside, Checkpoint, Dataset, Error, Precision, Sample, Schedule, TrainConfig, Trainer,
    Upcycling, Windows, save, spread, upcycle,
};
use serde_json::Value;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

/// Loads a model on Flex, with decoded weights.
fn load(files: &ModelFiles) -> Model {
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    files.load(&Device::flex(), options, &mut |_| ()).unwrap()
}

fn config_of(files: &ModelFiles) -> Value {
    files.reader().unwrap().config().unwrap().clone()
}

fn ids(vocabulary: usize, count: usize) -> Vec<u32> {
    // A text with a rule that can be learnt: a token mostly determines the next one.
    let next = |at: usize| (at * at / 7 % 11 + at) % vocabulary.min(40);
    (0..count).map(|at| next(at) as u32).collect()
}

fn logits(model: &Model) -> Vec<f32> {
    let tokens = ids(model.spec().vocabulary, 12);
    model.last_logits(&tokens, &Device::flex()).unwrap()
}

fn quick(steps: usize) -> TrainConfig {
    TrainConfig {
        batch: 2,
        sequence: 16,
        steps,
        warm_up: 2,
        learning_rate: 0.003,
        ..TrainConfig::fine_tuning()
    }
}

fn load_trainer(config: TrainConfig, files: &ModelFiles) -> Trainer {
    let ids = ids(files.spec().vocabulary, 400);
    Trainer::load(config, files, ids, &Device::flex(), &mut |_| ()).unwrap()
}

fn trainer(files: &ModelFiles, steps: usize) -> Trainer {
    load_trainer(quick(steps), files)
}

/// The model's values in all its places.
fn values(trainer: &Trainer) -> Vec<Vec<f32>> {
    let mut model = trainer.model();
    let places = Slot::places(model.spec()).into_iter();
    places.map(|place| model.values(place).unwrap()).collect()
}

#[test]
fn what_is_written_is_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    for (number, case) in folders().into_iter().enumerate() {
        let files = ModelFiles::open(&case).unwrap();
        let (model, config) = (load(&files), config_of(&files));
        let before = logits(&model);
        // The values come from a model on a device, and from files alone.
        for source in ["model", "files"] {
            let target = folder.path().join(format!("{source}{number}"));
            let beside = Beside::default();
            let written = match source {
                "model" => save(&mut &model, &config, beside, &target),
                _ => save(&mut files.values(), &config, beside, &target),
            };
            let again = ModelFiles::open(&written.unwrap()).unwrap();
            assert_eq!(again.spec(), files.spec(), "{case:?}");
            assert_eq!(logits(&load(&again)), before, "{case:?} from the {source}");
            assert!(config_of(&again)["quantization_config"].is_null());
        }
    }
}

#[test]
fn a_step_reaches_every_parameter_of_every_family() {
    for case in folders() {
        let files = ModelFiles::open(&case).unwrap();
        // With other recipes, a step begins with scales of 1, which suit no tensor; the current scales follow from the tensors themselves.
        let current = Precision::Fp8(Fp8Recipe::current());
        for precision in [Precision::F32, Precision::Bf16, current] {
            let mut trainer = load_trainer(quick(4).with_precision(precision), &files);
            let before = values(&trainer);
            trainer.step().unwrap();
            let after = values(&trainer);
            let places = Slot::places(files.spec());
            for (place, (before, after)) in places.iter().zip(before.iter().zip(&after)) {
                assert_ne!(before, after, "{case:?}, {precision:?}: {place:?}");
                assert!(after.iter().all(|value| value.is_finite()), "{place:?}");
            }
            let fp8 = trainer.report().unwrap().fp8;
            let skipped = fp8.map(|fp8| fp8.loss_scale.skipped_steps);
            assert_eq!(skipped.is_some(), precision.recipe().is_some());
            assert_eq!(skipped.unwrap_or(0), 0, "{case:?}");
        }
    }
}

/// Compares losses, weights and the state of loss scaling, in all precisions and for every family.
#[test]
fn a_resumed_training_repeats_the_uninterrupted_one_bit_for_bit() {
    for case in folders() {
        let files = ModelFiles::open(&case).unwrap();
        let delayed = Precision::Fp8(Fp8Recipe::delayed());
        for precision in [Precision::F32, Precision::Bf16, delayed] {
            let config = TrainConfig {
                accumulate: 2,
                schedule: Schedule::Linear,
                ..quick(4).with_precision(precision)
            };
            let run = |trainer: &mut Trainer, steps: usize| {
                (0..steps).for_each(|_| trainer.step().unwrap());
                trainer.report().unwrap()
            };
            let mut straight = load_trainer(config, &files);
            let whole = run(&mut straight, 4);

            let folder = tempfile::tempdir().unwrap();
            let mut begun = load_trainer(config, &files);
            let mut losses = run(&mut begun, 2).losses;
            begun.checkpoint().unwrap().write(folder.path()).unwrap();
            let checkpoint = Checkpoint::read(folder.path()).unwrap();
            checkpoint.check_config(&config).unwrap();
            let ids = ids(files.spec().vocabulary, 400);
            let resumed = Trainer::resume(checkpoint, files.spec(), ids, &Device::flex());
            let mut resumed = resumed.unwrap();
            let rest = run(&mut resumed, 2);
            losses.extend(&rest.losses);
            assert_eq!(losses, whole.losses, "{case:?}, {precision:?}");
            assert_eq!(
                values(&resumed),
                values(&straight),
                "{case:?}, {precision:?}"
            );
            assert_eq!(rest.fp8, whole.fp8, "{case:?}");
            assert_eq!(resumed.first_loss(), straight.first_loss());
        }
    }
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let [olmoe, qwen] =
        ["decoder_olmoe", "decoder_qwen3_moe"].map(|name| ModelFiles::open(&cases().join(name)));
    let (olmoe, qwen) = (olmoe.unwrap(), qwen.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = trainer(&olmoe, 1).checkpoint().unwrap();
    checkpoint.write(folder.path()).unwrap();
    let resume = |files: &ModelFiles, count: usize| {
        let checkpoint = Checkpoint::read(folder.path()).unwrap();
        assert_eq!(checkpoint.sizes(), None);
        let ids = ids(files.spec().vocabulary, count);
        Trainer::resume(checkpoint, files.spec(), ids, &Device::flex())
    };
    assert_eq!(resume(&olmoe, 400).unwrap().steps_done(), 0);
    for other in [resume(&qwen, 400), resume(&olmoe, 401)] {
        let error = other.err().unwrap().to_string();
        assert!(error.contains("another training"), "{error}");
    }
}

/// Two batches of two sequences are those four that one batch would have, and give the same gradient.
#[test]
fn accumulated_batches_learn_what_one_large_batch_learns() {
    // Balance losses are means over the batches, so they are left out.
    let config = |batch, accumulate| TrainConfig {
        batch,
        accumulate,
        balance: 0.0,
        z: 0.0,
        ..quick(5)
    };
    for name in ["decoder_llama", "decoder_olmoe"] {
        let files = ModelFiles::open(&cases().join(name)).unwrap();
        let run = |config| {
            let mut trainer = load_trainer(config, &files);
            (0..5).for_each(|_| trainer.step().unwrap());
            let report = trainer.report().unwrap();
            let slots: Vec<u64> = report
                .layers
                .iter()
                .flat_map(|of| of.counts.clone())
                .collect();
            (report.losses, slots, values(&trainer))
        };
        let (large, slots, weights) = run(config(4, 1));
        let (parts, of_parts, other) = run(config(2, 2));
        for (large, parts) in large.iter().zip(&parts) {
            assert!(
                (large - parts).abs() < 1e-4 * large,
                "{name}: {large} {parts}"
            );
        }
        assert_eq!(slots.iter().sum::<u64>(), of_parts.iter().sum::<u64>());
        let pairs = weights.iter().flatten().zip(other.iter().flatten());
        let furthest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Five steps of at most 0.003 each; a step along the gradient of half of the sequences would be as far.
        assert!(furthest < 1e-3, "{name}: {furthest}");
        let (half, _, _) = run(config(2, 1));
        assert_ne!(half, parts, "{name}");
    }
}

/// FP8 scales exist only in training; a model that is judged or written has none.
#[test]
fn a_model_that_trains_in_fp8_is_judged_in_f32() {
    let files = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let text = ids(files.spec().vocabulary, 60);
    let windows = Windows::new(16, 8).unwrap();
    let judged = |precision| {
        let trainer = load_trainer(quick(4).with_precision(precision), &files);
        trainer.perplexity(&text, windows, &mut |_| ()).unwrap()
    };
    let fp8 = judged(Precision::Fp8(Fp8Recipe::delayed()));
    assert_eq!(fp8, judged(Precision::F32));
}

#[test]
fn a_text_with_a_rule_is_learnt_and_the_same_in_every_run() {
    let files = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let held_out = &ids(files.spec().vocabulary, 500)[400..];
    let windows = Windows::new(16, 8).unwrap();
    let run = || {
        let mut trainer = trainer(&files, 60);
        let before = trainer.perplexity(held_out, windows, &mut |_| ()).unwrap();
        while !trainer.is_finished() {
            trainer.step().unwrap();
        }
        let report = trainer.report().unwrap();
        let after = trainer.perplexity(held_out, windows, &mut |_| ()).unwrap();
        let fell = after.perplexity() < 0.5 * before.perplexity();
        assert!(fell, "{} to {}", before.perplexity(), after.perplexity());
        assert_eq!(report.layers.len(), files.spec().layers.len());
        assert_eq!(trainer.first_loss(), report.losses.first().copied());
        (report.losses, logits(&trainer.model().clone()))
    };
    let (losses, last) = run();
    let end = losses[50..].iter().sum::<f32>() / 10.0;
    assert!(end < 0.6 * losses[0], "{losses:?}");
    assert_eq!((losses, last), run());
}

#[test]
fn drawn_weights_learn_and_come_back() {
    let files = ModelFiles::open(&cases().join("decoder_qwen3_moe")).unwrap();
    let spec = files.spec();
    let text = ids(spec.vocabulary, 400);
    let mut trainer = Trainer::new(quick(30), spec, text, &Device::flex()).unwrap();
    for place in Slot::places(spec) {
        let drawn = Drawn::new(spec, 0).values(place).unwrap();
        assert_eq!(trainer.model().values(place).unwrap(), drawn, "{place:?}");
    }
    for _ in 0..30 {
        trainer.step().unwrap();
    }
    let losses = trainer.report().unwrap().losses;
    let even = (spec.vocabulary as f32).ln();
    assert!((losses[0] - even).abs() < 0.1, "{} for {even}", losses[0]);
    assert!(losses[29] < 0.8 * even, "{losses:?}");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("drawn");
    save(
        &mut trainer.model(),
        &config_of(&files),
        Beside::default(),
        &target,
    )
    .unwrap();
    let again = load(&ModelFiles::open(&target).unwrap());
    // Both compute without gradients, as norms are computed in another order with them.
    assert_eq!(logits(&again), logits(&trainer.model().valid()));
}

/// The dense model of a case with drawn weights, without the biases and per-layer windows that families with experts don't have.
fn dense(name: &str, folder: &Path) -> ModelFiles {
    let bytes = fs::read(cases().join(name).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&bytes).unwrap();
    for key in ["attention_bias", "mlp_bias", "use_sliding_window"] {
        config[key] = Value::Bool(false);
    }
    config["layer_types"] = Value::Null;
    let spec = describe(&config).unwrap().spec;
    let target = folder.join(name);
    save(
        &mut Drawn::new(&spec, 7),
        &config,
        Beside::default(),
        &target,
    )
    .unwrap();
    ModelFiles::open(&target).unwrap()
}

/// The largest difference divided by the largest logit.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let difference = largest(&mut a.iter().zip(b).map(|(a, b)| (a - b).abs()));
    difference / largest(&mut a.iter().map(|a| a.abs()))
}

#[test]
fn a_mixture_computes_what_its_dense_model_does_until_it_learns() {
    let folder = tempfile::tempdir().unwrap();
    let copies = Upcycling::Copies {
        experts: 4,
        top_k: 2,
        seed: 1,
    };
    for (number, name) in ["decoder_llama", "decoder_qwen3"].into_iter().enumerate() {
        let dense = dense(name, folder.path());
        let before = logits(&load(&dense));
        for (kind, how) in [("c", copies), ("s", Upcycling::Split { experts: 4 })] {
            let target = folder.path().join(format!("{kind}{number}"));
            let made = upcycle(&dense, how, &target).unwrap();
            let files = ModelFiles::open(&made.folder).unwrap();
            assert_eq!(files.spec(), &made.spec);
            let mixture = load(&files);
            let difference = apart(&before, &logits(&mixture));
            assert!(difference < 1e-5, "{name} {kind}: {difference}");
            let equal = spread(&mut &mixture, files.spec()).unwrap();
            let are_copies = equal.iter().all(|&apart| apart < 1e-6);
            assert_eq!(are_copies, how == copies, "{name}: {equal:?}");
            let mut trainer = trainer(&files, 5);
            for _ in 0..5 {
                trainer.step().unwrap();
            }
            let differ = spread(&mut trainer.model(), files.spec()).unwrap();
            assert!(differ.iter().all(|&apart| apart > 1e-4), "{differ:?}");
        }
    }
}

/// Documents that share a sequence have the logits that each has alone, in every family, with and without gradients.
#[test]
fn documents_see_nothing_of_each_other() {
    let lengths = vec![vec![5, 14, 1, 9], vec![13, 16]];
    let documents = Documents::new(lengths.clone()).unwrap();
    for case in folders() {
        let files = ModelFiles::open(&case).unwrap();
        let vocabulary = files.spec().vocabulary;
        let text: Vec<u32> = (0..58)
            .map(|at| (at * 7 % vocabulary.min(50)) as u32)
            .collect();
        for device in [Device::flex(), Device::flex().autodiff()] {
            let options = LoadOptions {
                keep_fp8: false,
                // Routers that balance themselves would choose otherwise in each pass that records gradients.
                frozen: true,
                ..LoadOptions::default()
            };
            let model = files.load(&device, options, &mut |_| ()).unwrap();
            let tokens = model.tokens(&text, &device).unwrap().reshape([2, 29]);
            let logits = model.forward_documents(tokens.clone(), &documents);
            let logits: Vec<f32> = logits.unwrap().logits.into_data().iter().collect();
            let mut at = 0;
            for &length in lengths.iter().flatten() {
                let ids = &text[at..at + length];
                let alone = model.forward(model.tokens(ids, &device).unwrap());
                let alone: Vec<f32> = alone.unwrap().logits.into_data().iter().collect();
                let together = &logits[at * vocabulary..][..length * vocabulary];
                let difference = apart(&alone, together);
                assert!(
                    difference < 1e-5,
                    "{case:?}, {length} from {at}: {difference}"
                );
                at += length;
            }
            // Without documents the later ones see the earlier ones.
            let mixed = model.forward(tokens).unwrap().logits.into_data();
            assert_ne!(mixed.iter::<f32>().collect::<Vec<_>>(), logits, "{case:?}");
        }
    }
}

/// Loads and losses of the routers of a mixture, in a training's pass over documents of 5 and 4 tokens and of so many that fill the sequence up, and
/// the biases that balance the routers after it.
fn routers_of(files: &ModelFiles, filling: usize) -> (Vec<i64>, Vec<f32>, Vec<f32>) {
    let device = Device::flex().autodiff();
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    let model = files.load(&device, options, &mut |_| ()).unwrap();
    let mut text = ids(files.spec().vocabulary, 9);
    text.resize(9 + filling, 1);
    let documents = Documents::filled(vec![vec![5, 4]], 9 + filling).unwrap();
    assert_eq!(documents.longest(), 5);
    let tokens = model.tokens(&text, &device).unwrap();
    let (mut loads, mut losses) = (Vec::new(), Vec::new());
    for routing in model.forward_documents(tokens, &documents).unwrap().routing {
        loads.extend(routing.load().unwrap().into_data().iter::<i64>());
        let of = routing.losses(1).unwrap();
        for loss in [of.switch, of.gshard, of.entropy, of.z.unwrap()] {
            losses.push(loss.into_scalar::<f32>());
        }
    }
    let places = Slot::places(files.spec()).into_iter();
    let corrections = places.filter(|place| place.slot == Slot::Correction);
    let mut held = &model;
    let biases = corrections.flat_map(|place| held.values(place).unwrap());
    (loads, losses, biases.collect())
}

#[test]
fn no_router_learns_from_what_fills_a_sequence_up() {
    for name in ["decoder_olmoe", "decoder_deepseek_v3"] {
        let files = ModelFiles::open(&cases().join(name)).unwrap();
        let (loads, losses, biases) = routers_of(&files, 0);
        assert!(!loads.is_empty() && biases.is_empty() == (name == "decoder_olmoe"));
        let filled = routers_of(&files, 40);
        assert_eq!((filled.0, filled.2), (loads, biases), "{name}");
        let difference = apart(&losses, &filled.1);
        assert!(difference < 1e-5, "{name}: {difference}");
    }
}

/// Samples of 4 or 9 tokens, of which all but the first third are learnt.
fn samples(vocabulary: usize) -> Vec<Sample> {
    let text = ids(vocabulary, 300);
    let of = |number: usize| {
        let count = 4 + 5 * (number % 2);
        let ids = text[number * 9..][..count].to_vec();
        let learnt = (0..count).map(|at| at >= count / 3).collect();
        Sample::new(ids, learnt).unwrap()
    };
    (0..28).map(of).collect()
}

/// The loss of packed samples is the mean over their learnt tokens, each predicted in its sample alone.
#[test]
fn packed_samples_have_the_loss_of_each_alone() {
    for name in ["decoder_llama", "decoder_lfm2_moe", "decoder_llama4"] {
        let files = ModelFiles::open(&cases().join(name)).unwrap();
        let (model, vocabulary) = (load(&files), files.spec().vocabulary);
        let (mut nats, mut count) = (0.0, 0);
        let text = ids(vocabulary, 300);
        for number in 0..28 {
            let length = 4 + 5 * (number % 2);
            let of = &text[number * 9..][..length];
            let seen = model.tokens(&of[..length - 1], &Device::flex()).unwrap();
            let logits = model.forward(seen).unwrap().logits.into_data();
            let logits: Vec<f32> = logits.iter().collect();
            for at in (length / 3).max(1)..length {
                let row = logits[(at - 1) * vocabulary..][..vocabulary].iter();
                let sum: f64 = row.map(|&logit| f64::from(logit).exp()).sum();
                let chosen = f64::from(logits[(at - 1) * vocabulary + of[at] as usize]);
                nats += sum.ln() - chosen;
                count += 1;
            }
        }
        let want = nats / f64::from(count);
        let dataset = Dataset::pack(samples(vocabulary), 16).unwrap();
        assert_eq!(dataset.targets(), count as usize);
        // Seven of two long samples, and three of up to five short ones.
        assert_eq!(dataset.sequences(), 10);
        // One step over all sequences, in two batches with different numbers of tokens to learn.
        let config = TrainConfig {
            batch: 5,
            accumulate: 2,
            ..quick(1)
        };
        let mut trainer = Trainer::load(
            config,
            &files,
            dataset.clone(),
            &Device::flex(),
            &mut |_| (),
        )
        .unwrap();
        let judged = trainer
            .perplexity_of_samples(&dataset, &mut |_| ())
            .unwrap();
        assert_eq!(judged.tokens, count as usize);
        assert!(
            (judged.nats - want).abs() < 1e-4 * want,
            "{name}: {judged:?} for {want}"
        );
        trainer.step().unwrap();
        let loss = f64::from(trainer.report().unwrap().losses[0]);
        assert!(
            (loss - want).abs() < 1e-4 * want,
            "{name}: {loss} for {want}"
        );
    }
}

#[test]
fn a_training_on_samples_learns_and_resumes_bit_for_bit() {
    let files = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let dataset = || Dataset::pack(samples(files.spec().vocabulary), 16).unwrap();
    let config = TrainConfig {
        accumulate: 2,
        schedule: Schedule::Constant,
        ..quick(24)
    };
    let mut straight =
        Trainer::load(config, &files, dataset(), &Device::flex(), &mut |_| ()).unwrap();
    let said = straight.checkpoint_activations().unwrap_err().to_string();
    assert_eq!(
        said,
        "layers to compute twice: expected a text, got samples"
    );
    let folder = tempfile::tempdir().unwrap();
    for step in 0..24 {
        if step == 13 {
            straight.checkpoint().unwrap().write(folder.path()).unwrap();
        }
        straight.step().unwrap();
    }
    let losses = straight.report().unwrap().losses;
    let end = losses[20..].iter().sum::<f32>() / 4.0;
    assert!(end < losses[0], "{losses:?}");
    let read = || Checkpoint::read(folder.path()).unwrap();
    let mut resumed = Trainer::resume(read(), files.spec(), dataset(), &Device::flex()).unwrap();
    while !resumed.is_finished() {
        resumed.step().unwrap();
    }
    assert_eq!(resumed.report().unwrap().losses, losses[13..]);
    assert_eq!(values(&resumed), values(&straight));
    // The same tokens with other ones to learn are another training.
    let other = samples(files.spec().vocabulary).into_iter().rev().collect();
    let other = Dataset::pack(other, 16).unwrap();
    let refused = Trainer::resume(read(), files.spec(), other, &Device::flex());
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("another training: text was"), "{message}");
    let long = Dataset::pack(samples(files.spec().vocabulary), 17).unwrap();
    let refused = Trainer::load(config, &files, long, &Device::flex(), &mut |_| ());
    let message = refused.err().unwrap().to_string();
    assert_eq!(message, "sequences of samples: expected 16, got 17");
}

#[test]
fn documents_that_do_not_fit_are_refused_by_name() {
    let uneven = Documents::new(vec![vec![3, 2], vec![4]])
        .unwrap_err()
        .to_string();
    assert_eq!(
        uneven,
        "tokens of a sequence's documents: expected 5, got 4"
    );
    let empty = Documents::new(vec![vec![5, 0]]).unwrap_err().to_string();
    assert_eq!(empty, "tokens of a document: expected at least 1, got 0");
    let many = Documents::filled(vec![vec![3, 2]], 4)
        .unwrap_err()
        .to_string();
    assert_eq!(
        many,
        "tokens of a sequence's documents: expected at most 4, got 5"
    );
    let files = ModelFiles::open(&cases().join("decoder_llama4_text")).unwrap();
    let model = load(&files);
    let refused = |tokens: usize, lengths: Vec<usize>| {
        let ids = model.tokens(&vec![1; tokens], &Device::flex()).unwrap();
        let documents = Documents::new(vec![lengths]).unwrap();
        model
            .forward_documents(ids, &documents)
            .unwrap_err()
            .to_string()
    };
    let said = refused(20, vec![17, 3]);
    assert!(
        said.starts_with("tokens of a document: expected at most 16"),
        "{said}"
    );
    assert!(refused(19, vec![16, 4]).contains("expected 1 of 20, got 1 of 19"));
    let files = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let options = LoadOptions::exact();
    let exact = files.load(&Device::flex(), options, &mut |_| ()).unwrap();
    let ids = exact.tokens(&[1; 4], &Device::flex()).unwrap();
    let documents = Documents::new(vec![vec![2, 2]]).unwrap();
    let refused = exact.forward_documents(ids, &documents).unwrap_err();
    let expected = "documents: expected a model that isn't exact";
    assert!(refused.to_string().starts_with(expected), "{refused}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let files = ModelFiles::open(&cases().join("decoder_llama")).unwrap();
    let device = Device::flex();
    let refused = |config: TrainConfig, text: Vec<u32>| -> String {
        let trainer = Trainer::load(config, &files, text, &device, &mut |_| ());
        trainer.err().unwrap().to_string()
    };
    let text = || ids(files.spec().vocabulary, 100);
    let nan = TrainConfig {
        learning_rate: f32::NAN,
        ..quick(1)
    };
    assert!(refused(nan, text()).contains("learning rate"));
    let none = TrainConfig {
        batch: 0,
        ..quick(1)
    };
    assert!(refused(none, text()).contains("batch"));
    assert!(refused(quick(1), ids(40, 16)).contains("more than 16 tokens"));
    assert!(refused(quick(1), vec![9_999_999; 100]).contains("9999999"));

    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let biased = upcycle(&files, Upcycling::Split { experts: 2 }, &target);
    let message = biased.unwrap_err().to_string();
    assert!(message.contains("attention_bias"), "{message}");
    let windows = ModelFiles::open(&cases().join("decoder_qwen3")).unwrap();
    let windows = upcycle(&windows, Upcycling::Split { experts: 2 }, &target);
    let message = windows.unwrap_err().to_string();
    assert!(message.contains("keys that layer 0 sees"), "{message}");
    let dense = dense("decoder_qwen3", folder.path());
    let split = |experts| upcycle(&dense, Upcycling::Split { experts }, &target);
    let message = split(7).unwrap_err().to_string();
    assert!(message.contains("a divisor of the width"), "{message}");
    let mixture = ModelFiles::open(&cases().join("decoder_olmoe")).unwrap();
    let message = upcycle(&mixture, Upcycling::Split { experts: 2 }, &target);
    let message = message.unwrap_err().to_string();
    assert!(message.contains("layers without experts"), "{message}");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("kept"), "kept").unwrap();
    let taken = split(2).unwrap_err();
    assert!(matches!(taken, Error::Weights(_)), "{taken}");
    assert_eq!(fs::read(target.join("kept")).unwrap(), b"kept");
}
