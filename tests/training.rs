//! Training on every device: the loss falls, curves agree across devices, a checkpoint continues bit for bit, and Burn's own
//! optimizers and records work with the decoder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::ErrorKind;
use moebius::fp8::training::{Fp8Recipe, Fp8Scaling, LossScaling, MomentStore};
use moebius_model::decoder::Model;
use moebius_model::{
    Checkpoint, DecoderConfig, Error, Precision, Report, Text, TrainConfig, Trainer,
};
use moebius_tests::target::Target;
use moebius_tests::tolerance::{CURVE, relative_error};

/// A training that a software GPU can run: 64 bytes per step.
fn tiny() -> TrainConfig {
    TrainConfig {
        batch: 4,
        sequence: 16,
        steps: 16,
        warm_up: 4,
        learning_rate: 0.02,
        seed: 2,
        ..TrainConfig::default()
    }
}

const SIZES: DecoderConfig = DecoderConfig {
    hidden: 16,
    heads: 2,
    layers: 2,
    sequence: 16,
    experts: 4,
    inter: 16,
    top_k: 2,
};

fn new(config: TrainConfig, device: &Device) -> Trainer {
    Trainer::new(config, SIZES, Text::bundled().ids(), device).unwrap()
}

fn trainer(device: &Device) -> Trainer {
    new(tiny(), device)
}

fn resume(checkpoint: Checkpoint, device: &Device) -> Trainer {
    Trainer::resume(checkpoint, SIZES, Text::bundled().ids(), device).unwrap()
}

fn train(trainer: &mut Trainer, steps: usize) -> Report {
    for _ in 0..steps {
        trainer.step().unwrap();
    }
    trainer.report().unwrap()
}

/// The bits of all weights in order.
fn bits(decoder: &Model) -> Vec<u32> {
    struct Collect(Vec<u32>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let values: Vec<f32> = param.val().try_into_vec_as().unwrap();
            self.0.extend(values.iter().map(|value| value.to_bits()));
        }
    }
    let mut collect = Collect(Vec::new());
    decoder.visit(&mut collect);
    collect.0
}

#[test]
fn the_loss_falls_alike_on_every_device_and_experts_stay_in_use() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let reference = train(&mut trainer(&flex), tiny().steps);
    for target in Target::all() {
        let _alone = target.alone();
        let name = target.name;
        let report = train(&mut trainer(&target.burn()), tiny().steps);
        // Guessing at random costs ln 256 = 5.5 nats per byte.
        let (first, last) = (report.losses[0], report.losses[tiny().steps - 1]);
        assert!(first > 5.0 && last < 4.0, "{name}: {:?}", report.losses);
        for layer in &report.layers {
            let slots = tiny().tokens() * SIZES.top_k * tiny().steps;
            assert_eq!(layer.counts.iter().sum::<u64>(), slots as u64, "{name}");
            assert!(
                layer.utilization.iter().all(|&share| share > 0.05),
                "{name}: {layer:?}"
            );
            assert_eq!(layer.dropped, 0, "{name}");
        }
        let pairs = report.losses.iter().zip(&reference.losses);
        let distance = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(
            distance <= CURVE,
            "{name} is {distance:.1e} from flex, expected at most {CURVE:.0e}: {:?} and {:?}",
            report.losses,
            reference.losses
        );
    }
}

/// The tolerance for a resumed training whose last bits may differ. With Burn's fusion, earlier operations of the process
/// decide which operations become one kernel, and the CPU runtime rounds a product and a sum in one kernel together. Where a
/// device adds floats atomically, Burn sums over all elements in the order in which parts arrive.
const OTHER_BITS: f64 = 1e-4;

fn has_other_bits(name: &str) -> bool {
    cfg!(feature = "fusion") && name == "cpu" || adds_atomically(name)
}

fn adds_atomically(name: &str) -> bool {
    matches!(name, "vulkan" | "cuda" | "rocm")
}

fn assert_same_losses(name: &str, resumed: &[f32], straight: &[f32]) {
    if !adds_atomically(name) {
        assert_eq!(resumed, straight, "{name}");
        return;
    }
    let want: Vec<f64> = straight.iter().copied().map(f64::from).collect();
    let error = relative_error(resumed, &want);
    assert!(error <= OTHER_BITS, "{name}: losses differ by {error:.1e}");
}

fn assert_same_weights(name: &str, resumed: &Model, straight: &Model) {
    let (got, want) = (bits(resumed), bits(straight));
    if !has_other_bits(name) {
        assert!(got == want, "{name}: other weights");
        return;
    }
    let got: Vec<f32> = got.into_iter().map(f32::from_bits).collect();
    let want: Vec<f64> = want
        .into_iter()
        .map(|word| f64::from(f32::from_bits(word)))
        .collect();
    let error = relative_error(&got, &want);
    assert!(
        error <= OTHER_BITS,
        "{name}: weights differ by {error:.1e}, expected at most {OTHER_BITS:.0e}"
    );
}

#[test]
fn a_resumed_training_repeats_the_uninterrupted_one_bit_for_bit() {
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let folder = tempfile::tempdir().unwrap();
        let mut straight = trainer(&device);
        let whole = train(&mut straight, 5);

        let mut begun = trainer(&device);
        let mut losses = train(&mut begun, 3).losses;
        begun.checkpoint().unwrap().write(folder.path()).unwrap();
        drop(begun);
        let checkpoint = Checkpoint::read(folder.path()).unwrap();
        let mut resumed = resume(checkpoint, &device);
        losses.extend(train(&mut resumed, 2).losses);

        assert_same_losses(name, &losses, &whole.losses);
        assert_same_weights(name, resumed.model(), straight.model());
        let [again, first] = [&resumed, &straight].map(|trainer| trainer.first_loss().unwrap());
        assert_same_losses(name, &[again], &[first]);
        assert_eq!(resumed.steps_done(), 5, "{name}");
    }
}

/// Asserts that two trainings, of which one launches other operations, are the same; where a device rounds otherwise when other operations
/// are compiled together, up to last bits.
fn assert_same_course(name: &str, got: (&Report, &Model), want: (&Report, &Model)) {
    let (losses, straight) = (&got.0.losses, &want.0.losses);
    if !has_other_bits(name) && !name.starts_with("xla") {
        assert_eq!(losses, straight, "{name}");
        assert_eq!(got.0.auxiliary, want.0.auxiliary, "{name}");
        assert_eq!(got.0.layers, want.0.layers, "{name}");
        assert!(bits(got.1) == bits(want.1), "{name}: other weights");
        return;
    }
    let values = |report: &Report, model: &Model| {
        let weights = bits(model).into_iter().map(f32::from_bits);
        [report.losses.clone(), weights.collect()]
    };
    for (got, want) in values(got.0, got.1).iter().zip(values(want.0, want.1)) {
        let want: Vec<f64> = want.into_iter().map(f64::from).collect();
        let error = relative_error(got, &want);
        assert!(error <= OTHER_BITS, "{name}: differs by {error:.1e}");
    }
}

/// Moments in main memory or in a file change no weight and no checkpoint.
#[test]
fn moments_that_are_kept_elsewhere_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let mut resident = trainer(&device);
        let want = train(&mut resident, 2);
        let file = MomentStore::file(&folder.path().join("moments")).unwrap();
        for store in [MomentStore::host(), file] {
            let mut kept = trainer(&device);
            kept.keep_moments_in(store);
            let got = train(&mut kept, 2);
            assert_same_course(name, (&got, kept.model()), (&want, resident.model()));
            // A checkpoint has all moments, and goes on without the store as the training with it.
            let path = folder.path().join(name);
            kept.checkpoint().unwrap().write(&path).unwrap();
            let mut resumed = resume(Checkpoint::read(&path).unwrap(), &device);
            let [next, same] = [&mut kept, &mut resumed].map(|trainer| train(trainer, 1));
            assert_same_course(name, (&same, resumed.model()), (&next, kept.model()));
        }
    }
}

/// Layers that are computed again for their gradients give the same weights. Of three layers, the first ones and the last sum the gradients
/// of their routers in different orders.
#[test]
fn activations_that_are_not_kept_change_no_weight() {
    let sizes = DecoderConfig { layers: 3, ..SIZES };
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        for accumulate in [1, 3] {
            let config = TrainConfig {
                accumulate,
                ..tiny()
            };
            let run = |again: bool| {
                let ids = Text::bundled().ids();
                let mut trainer = Trainer::new(config, sizes, ids, &device).unwrap();
                if again {
                    trainer.checkpoint_activations().unwrap();
                }
                let report = train(&mut trainer, 3);
                (trainer, report)
            };
            let [(kept, want), (again, got)] = [false, true].map(run);
            assert_same_course(name, (&got, again.model()), (&want, kept.model()));
        }
    }
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let refused = new(fp8(Fp8Recipe::current()), &flex).checkpoint_activations();
    let said = refused.unwrap_err().to_string();
    let expected = "layers to compute twice: expected products in f32";
    assert!(said.starts_with(expected), "{said}");
}

/// The loss in bf16 follows the loss in f32 where the device has bf16: each of the noisy steps within 2 %, and their mean within 0.5 %. Other
/// devices say so before anything is computed.
#[test]
fn the_loss_falls_in_bf16_as_in_f32() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let reference = train(&mut trainer(&flex), tiny().steps).losses;
    let config = tiny().with_precision(Precision::Bf16);
    for target in Target::all() {
        let _alone = target.alone();
        let name = target.name;
        let begun = Trainer::new(config, SIZES, Text::bundled().ids(), &target.burn());
        let mut trainer = match begun {
            Ok(trainer) => trainer,
            Err(Error::Moebius(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
                assert!(!target.capability().bf16, "{name}: {error}");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        assert!(target.capability().bf16, "{name} lacks bf16");
        // A launch on CubeCL's CPU runtime takes as long as a whole kernel of this size elsewhere.
        let steps = if name == "cpu" { 6 } else { tiny().steps };
        let losses = train(&mut trainer, steps).losses;
        let want = &reference[..steps];
        assert!(losses != want, "{name}: nothing was rounded");
        for (step, (got, want)) in losses.iter().zip(want).enumerate() {
            let apart = (got - want).abs();
            assert!(apart < 0.02 * want, "{name}, {step}: {got} for {want}");
        }
        let [got, want] = [&losses[..], want].map(|of| of.iter().sum::<f32>());
        assert!((got / want - 1.0).abs() < 0.005, "{name}: {got} for {want}");
    }
}

/// The tiny training in FP8, with a loss scale that soon changes.
fn fp8(recipe: Fp8Recipe) -> TrainConfig {
    TrainConfig {
        loss_scaling: LossScaling::Dynamic {
            initial: 1024.0,
            interval: 3,
            min: 1.0,
            max: 65536.0,
        },
        ..tiny().with_precision(Precision::Fp8(recipe))
    }
}

/// The loss in FP8 follows the loss in f32. Steps of 64 bytes are noisy: each is within 3 %, their mean within 1 %, as at the
/// end of the long run in `benches/RESULTS.md`.
#[test]
fn the_loss_falls_in_fp8_as_in_f32() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let reference = train(&mut trainer(&flex), tiny().steps);
    for target in Target::all() {
        let _alone = target.alone();
        for recipe in [Fp8Recipe::delayed(), Fp8Recipe::current()] {
            let name = format!("{} {:?}", target.name, recipe.scaling);
            // A launch on CubeCL's CPU runtime takes as long as a whole kernel of this size elsewhere.
            let steps = if target.name == "cpu" {
                6
            } else {
                tiny().steps
            };
            let report = train(&mut new(fp8(recipe), &target.burn()), steps);
            assert_eq!(report.losses.len(), steps, "{name}");
            let pairs = report.losses.iter().zip(&reference.losses);
            for (step, (fp8, f32)) in pairs.enumerate() {
                assert!(
                    (fp8 - f32).abs() < 0.03 * f32,
                    "{name}, {step}: {fp8} {f32}"
                );
            }
            let sum = |losses: &[f32]| losses[..steps].iter().sum::<f32>();
            let ratio = sum(&report.losses) / sum(&reference.losses);
            assert!(
                (ratio - 1.0).abs() < 0.01,
                "{name}: {ratio} of f32's losses"
            );
            assert!(
                report.losses != reference.losses[..steps],
                "{name}: nothing was rounded"
            );
            let fp8 = report.fp8.unwrap();
            assert_eq!(fp8.loss_scale.skipped_steps, 0, "{name}");
            // The loss scale doubles every three steps.
            let doubled = (1 << (steps / 3)) as f32;
            assert_eq!(fp8.loss_scale.scale, doubled * 1024.0, "{name}");
            let delayed = matches!(recipe.scaling, Fp8Scaling::Delayed { .. });
            // Two blocks, each with four products of attention and two of experts, and three scales for each product.
            assert_eq!(fp8.scales, if delayed { 36 } else { 0 }, "{name}");
        }
    }
}

#[test]
fn a_resumed_training_in_fp8_repeats_the_uninterrupted_one_bit_for_bit() {
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let config = fp8(Fp8Recipe::delayed());
        let mut straight = new(config, &device);
        let whole = train(&mut straight, 6);

        let folder = tempfile::tempdir().unwrap();
        let mut begun = new(config, &device);
        let mut losses = train(&mut begun, 4).losses;
        begun.checkpoint().unwrap().write(folder.path()).unwrap();
        let checkpoint = Checkpoint::read(folder.path()).unwrap();
        checkpoint.check_config(&config).unwrap();
        let error = checkpoint.check_config(&tiny()).unwrap_err().to_string();
        assert!(error.contains("another training"), "{error}");
        let mut resumed = resume(checkpoint, &device);
        let rest = train(&mut resumed, 2);
        losses.extend(rest.losses);

        assert_same_losses(name, &losses, &whole.losses);
        // The weights include histories and scales.
        assert_same_weights(name, resumed.model(), straight.model());
        if !has_other_bits(name) {
            assert_eq!(rest.fp8, whole.fp8, "{name}");
        }
        assert_eq!(
            resumed.parameters(),
            trainer(&device).parameters(),
            "{name}"
        );
    }
}

/// A step whose gradients overflow changes no parameter, no moment and no FP8 scale.
#[test]
fn steps_that_overflow_are_skipped_without_a_trace() {
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let config = TrainConfig {
            loss_scaling: LossScaling::Dynamic {
                initial: 2f32.powi(127),
                interval: 1000,
                min: 1.0,
                max: 2f32.powi(127),
            },
            // This loss weight makes gradients large: even 2¹²⁷ times usual ones would fit an f32.
            z: 1000.0,
            steps: 40,
            ..fp8(Fp8Recipe::delayed())
        };
        let mut trainer = new(config, &device);
        let before = bits(trainer.model());
        let (mut skipped, mut losses) = (0, Vec::new());
        for step in 0.. {
            let report = train(&mut trainer, 1);
            let now = report.fp8.unwrap().loss_scale;
            losses.extend(report.losses);
            assert_eq!(now.skipped_steps + now.clean_steps, step + 1, "{name}");
            let scale = 2f32.powi(127 - now.skipped_steps as i32);
            assert_eq!(now.scale, scale, "{name}");
            if now.skipped_steps == step + 1 {
                assert!(bits(trainer.model()) == before, "{name}: step {step}");
                skipped = now.skipped_steps;
            }
            if now.clean_steps == 2 {
                break;
            }
        }
        assert!((1..38).contains(&skipped), "{name}: {skipped}");
        assert!(bits(trainer.model()) != before, "{name}");
        let finite = losses.iter().all(|loss| loss.is_finite());
        assert!(finite, "{name}: {losses:?}");
    }
}

/// The cross entropy of a first batch.
fn loss(decoder: &Model, device: &Device) -> Tensor<1> {
    let batch = Text::bundled().batch(0, 0, 4, 16).unwrap();
    let bytes = |bytes| Tensor::<2, Int>::from_data(TensorData::new(bytes, [4, 16]), device);
    let output = decoder.forward(bytes(batch.inputs)).unwrap();
    CrossEntropyLossConfig::new().init(device).forward(
        output.logits.flatten(0, 1),
        bytes(batch.targets).flatten(0, 1),
    )
}

#[test]
fn optimizers_and_records_of_burn_take_the_decoder() {
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn().autodiff());
        let optimizers: [(&str, ModuleOptimizer, f64); 2] = [
            ("SGD", SgdConfig::new().init(), 0.3),
            ("Adam", AdamConfig::new().init(), 0.01),
        ];
        for (optimizer_name, mut optimizer, rate) in optimizers {
            let mut decoder = SIZES.init(1, &device).unwrap();
            let before = bits(&decoder);
            let mut losses = Vec::new();
            for _ in 0..3 {
                let loss = loss(&decoder, &device);
                let gradients = GradientsParams::from_grads(loss.backward(), &decoder);
                // Every weight has a gradient: none is cut off from the loss.
                assert_eq!(gradients.len(), decoder.clone().into_record().len());
                decoder = optimizer.step(rate, decoder, gradients);
                losses.push(loss.into_scalar::<f32>());
            }
            assert!(
                losses[2] < losses[0],
                "{name}, {optimizer_name}: {losses:?}"
            );

            let record = decoder.clone().into_record().into_bytes().unwrap();
            let fresh = SIZES.init(2, &device).unwrap();
            let record = ModuleRecord::from_bytes(record).unwrap();
            let loaded = fresh.try_load_record(record).unwrap();
            assert!(bits(&loaded) == bits(&decoder), "{name}");
            assert!(bits(&loaded) != before, "{name}");
        }
    }
}
