//! Adapters are trained, written, read and merged. Those of PEFT are read in `tests/decoders.rs`.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Tensor};
use moebius::blocks::BlockFormat;
use moebius::fp8::training::{Fp8Recipe, MomentStore};
use moebius_model::decoder::{Model, Slot, Values};
use moebius_model::load::{ExpertsFrom, InBlocks, LoadOptions, ModelFiles};
use moebius_model::{
    Adapter, AdapterConfig, AdapterCourse, BaseWeights, Beside, Checkpoint, Precision, TrainConfig,
    Trainer, Windows, save,
};

/// Models with experts, with a shared expert and a balancing bias, with latent attention, with convolutions, with norms after both parts, and
/// without experts.
const CASES: [&str; 7] = [
    "decoder_olmoe",
    "decoder_mixtral",
    "decoder_deepseek_v3",
    "decoder_qwen2_moe",
    "decoder_lfm2_moe",
    "decoder_gemma2",
    "decoder_llama",
];

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

fn open(name: &str) -> ModelFiles {
    ModelFiles::open(&cases().join(name)).unwrap()
}

fn ids(vocabulary: usize, count: usize) -> Vec<u32> {
    let next = |at: usize| (at * at / 7 % 11 + at) % vocabulary.min(40);
    (0..count).map(|at| next(at) as u32).collect()
}

fn config(steps: usize) -> TrainConfig {
    TrainConfig {
        batch: 2,
        sequence: 16,
        steps,
        warm_up: 2,
        learning_rate: 0.01,
        ..TrainConfig::fine_tuning()
    }
}

fn adapter(targets: &[&str]) -> AdapterConfig {
    AdapterConfig {
        rank: 3,
        alpha: 6.0,
        rank_stabilized: false,
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
    }
}

fn trainer(files: &ModelFiles, adapter: AdapterConfig, steps: usize) -> Trainer {
    trainer_above(BaseWeights::F32, files, adapter, steps)
}

fn trainer_above(
    base: BaseWeights,
    files: &ModelFiles,
    adapter: AdapterConfig,
    steps: usize,
) -> Trainer {
    let (text, device) = (ids(files.spec().vocabulary, 400), Device::flex());
    let config = above(base, config(steps));
    let trainer = Trainer::load_adapter(config, adapter, files, text, &device, &mut |_| ());
    trainer.unwrap()
}

/// The configuration above these weights, in the precision that suits them.
fn above(base: BaseWeights, config: TrainConfig) -> TrainConfig {
    let precision = match base {
        BaseWeights::Bf16 => Precision::Bf16,
        _ => Precision::F32,
    };
    TrainConfig { base, ..config }.with_precision(precision)
}

fn load(files: &ModelFiles) -> Model {
    load_as(BaseWeights::F32, files)
}

/// A model to ask, with the weights that a training has below its adapter.
fn load_as(base: BaseWeights, files: &ModelFiles) -> Model {
    let options = LoadOptions {
        frozen: false,
        ..LoadOptions::below_adapter(base)
    };
    files.load(&Device::flex(), options, &mut |_| ()).unwrap()
}

/// The number of values in floating point that a model keeps.
fn floats(model: &Model) -> usize {
    struct Count(usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0 += param.val().shape().num_elements();
        }
    }
    let mut count = Count(0);
    model.visit(&mut count);
    count.0
}

fn logits(model: &Model) -> Vec<f32> {
    let tokens = ids(model.spec().vocabulary, 12);
    model.last_logits(&tokens, &Device::flex()).unwrap()
}

/// The largest difference divided by the largest logit.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let difference = largest(&mut a.iter().zip(b).map(|(a, b)| (a - b).abs()));
    difference / largest(&mut a.iter().map(|a| a.abs()))
}

/// The model below stays as it is, and the adapter that is written gives the logits of the one that was trained, added while weights are read
/// or written into a whole model.
#[test]
fn an_adapter_learns_and_has_the_same_logits_added_or_merged() {
    for name in CASES {
        let files = open(name);
        let before = logits(&load(&files));
        let mut trainer = trainer(&files, adapter(&["all-linear"]), 12);
        let start = logits(&trainer.model().valid());
        assert!(
            apart(&before, &start) < 1e-5,
            "{name}: {}",
            apart(&before, &start)
        );
        let count: usize = {
            let adapter = trainer.adapter().unwrap().unwrap();
            let sizes = adapter
                .modules
                .values()
                .map(|of| of.down.len() + of.up.len());
            sizes.sum()
        };
        assert_eq!(trainer.parameters(), count, "{name}");
        let counted = adapter(&["all-linear"]).parameters(&files).unwrap();
        assert_eq!(counted, count as u64, "{name}");
        while !trainer.is_finished() {
            trainer.step().unwrap();
        }
        let losses = trainer.report().unwrap().losses;
        let end = losses[9..].iter().sum::<f32>() / 3.0;
        assert!(end < losses[0], "{name}: {losses:?}");
        let trained = logits(&trainer.model().valid());
        assert!(
            apart(&before, &trained) > 1e-3,
            "{name}: nothing was learnt"
        );
        // What no module holds is as it was: embeddings, norms, routers and their biases.
        let (mut now, mut then) = (trainer.model(), &load(&files));
        let unchanged = |slot: Slot| {
            [
                Slot::Embedding,
                Slot::Router,
                Slot::Correction,
                Slot::AttentionNorm,
                Slot::Norm,
            ]
            .contains(&slot)
        };
        for place in Slot::places(files.spec()) {
            if unchanged(place.slot) {
                let [now, then] = [now.values(place).unwrap(), then.values(place).unwrap()];
                assert_eq!(now, then, "{name}: {place:?}");
            }
        }

        let folder = tempfile::tempdir().unwrap();
        let written = trainer.adapter().unwrap().unwrap();
        let target = written
            .write(Some(name), &folder.path().join("adapter"))
            .unwrap();
        let read = Adapter::read(&target).unwrap();
        assert_eq!(read, written, "{name}");
        let with = open(name).with_adapter(&read).unwrap();
        let added = logits(&load(&with));
        assert!(
            apart(&trained, &added) < 1e-4,
            "{name}: {}",
            apart(&trained, &added)
        );
        let merged = folder.path().join("merged");
        let of_files = with.config().unwrap();
        save(&mut with.values(), &of_files, Beside::default(), &merged).unwrap();
        let merged = logits(&load(&ModelFiles::open(&merged).unwrap()));
        assert_eq!(merged, added, "{name}");
        // A model that a trainer holds is saved with its changes, too.
        let saved = folder.path().join("saved");
        save(&mut trainer.model(), &of_files, Beside::default(), &saved).unwrap();
        let saved = logits(&load(&ModelFiles::open(&saved).unwrap()));
        assert!(
            apart(&trained, &saved) < 1e-4,
            "{name}: {}",
            apart(&trained, &saved)
        );
    }
}

/// Below an adapter codes stay as they are, those of a file and those that values are rounded to. It learns what it learns above the values that
/// they stand for, and its changes are beside the same codes in a model that is asked.
#[test]
fn an_adapter_learns_above_codes_what_it_learns_above_their_values() {
    let in_blocks = BaseWeights::Blocks(BlockFormat::Q8_0);
    for (name, base) in [
        ("decoder_olmoe", BaseWeights::Fp8),
        ("decoder_deepseek_v3_fp8", BaseWeights::Fp8),
        ("decoder_qwen2_moe", BaseWeights::Fp8),
        ("decoder_llama", BaseWeights::Fp8),
        ("decoder_deepseek_v3_fp8", in_blocks),
    ] {
        let what = format!("{name}, {base}");
        let files = open(name);
        let coded = load_as(base, &files);
        let folder = tempfile::tempdir().unwrap();
        let config = files.config().unwrap();
        let decoded = folder.path().join("decoded");
        save(&mut &coded, &config, Beside::default(), &decoded).unwrap();
        let decoded = ModelFiles::open(&decoded).unwrap();
        let run = |base, files: &ModelFiles| {
            let mut trainer = trainer_above(base, files, adapter(&["all-linear"]), 5);
            while !trainer.is_finished() {
                trainer.step().unwrap();
            }
            let losses = trainer.report().unwrap().losses;
            (trainer, losses)
        };
        let ((trainer, got), (_, want)) = (run(base, &files), run(BaseWeights::F32, &decoded));
        assert!(want[4] < want[0], "{what}: {want:?}");
        assert!(apart(&want, &got) < 1e-4, "{what}: {got:?} for {want:?}");
        let kept = floats(trainer.model()) - trainer.parameters();
        assert!(
            (kept as f64) < 0.5 * files.spec().parameters(),
            "{what}: {kept}"
        );

        let trained = logits(&trainer.model().valid());
        let written = trainer.adapter().unwrap().unwrap();
        let asked = logits(&load_as(base, &open(name).with_adapter(&written).unwrap()));
        assert!(apart(&trained, &asked) < 1e-4, "{what}");
        assert!(apart(&logits(&coded), &asked) > 1e-3, "{what}");
        let merged = logits(&load(&decoded.with_adapter(&written).unwrap()));
        assert!(apart(&trained, &merged) < 1e-4, "{what}");
    }
}

/// A program that must not wait, as in a browser, trains the same: it loads the model in pieces, and reads in transactions.
#[test]
fn an_adapter_learns_the_same_without_waits() {
    let (files, all) = (open("decoder_olmoe"), || adapter(&["all-linear"]));
    let mut plain = trainer(&files, all(), 4);
    while !plain.is_finished() {
        plain.step().unwrap();
    }
    let (text, device) = (ids(files.spec().vocabulary, 400), Device::flex());
    let course = AdapterCourse::new(config(4), all(), &files, text, &device).unwrap();
    let mut loading = files.begin(course.device(), course.options());
    let model = loop {
        match loading.go_on(&mut |_| ()).unwrap() {
            ControlFlow::Continue(more) => loading = more,
            ControlFlow::Break(model) => break model,
        }
    };
    let mut trainer = course.begin(model).unwrap();
    let (mut losses, mut slots): (Vec<f32>, u64) = (Vec::new(), 0);
    while !trainer.is_finished() {
        let measured = trainer.advance().unwrap();
        assert_eq!(measured.step, trainer.steps_done());
        let read = measured.transaction().execute();
        losses.extend(read[0].iter::<f32>());
        slots += read[2..]
            .iter()
            .flat_map(|of| of.iter::<u64>())
            .sum::<u64>();
    }
    let report = plain.report().unwrap();
    assert_eq!(losses, report.losses);
    let counts = report.layers.iter().flat_map(|layer| &layer.counts);
    assert_eq!(slots, counts.sum::<u64>());
    let mut read = trainer.adapter_reads().unwrap().execute();
    let adapter = trainer.adapter_of(&read).unwrap();
    assert_eq!(Some(adapter), plain.adapter().unwrap());
    read.pop();
    let error = trainer.adapter_of(&read).unwrap_err().to_string();
    assert!(error.starts_with("factors of an adapter: "), "{error}");
}

/// Above weights in bf16 factors are f32 and train in f32, and so are norms and routers. The adapter learns what it learns above f32, within what
/// bf16 rounds: 3 % of a loss. A model that is asked in bf16 has both in one weight, rounded once.
#[test]
fn an_adapter_learns_above_bf16_what_it_learns_above_f32() {
    for name in CASES {
        let files = open(name);
        let run = |base| {
            let mut trainer = trainer_above(base, &files, adapter(&["all-linear"]), 8);
            while !trainer.is_finished() {
                trainer.step().unwrap();
            }
            let losses = trainer.report().unwrap().losses;
            (trainer, losses)
        };
        let ((trainer, got), (_, want)) = (run(BaseWeights::Bf16), run(BaseWeights::F32));
        assert_ne!(got, want, "{name}: nothing was rounded");
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < 0.03 * want, "{name}: {got} for {want}");
        }
        let [wide, narrow] = [DType::F32, DType::BF16].map(|of| of_dtype(trainer.model(), of));
        let parameters = files.spec().parameters();
        assert!(
            narrow as f64 > 0.85 * parameters,
            "{name}: {narrow} in bf16"
        );
        assert!(wide > trainer.parameters(), "{name}: norms and factors");
        // What is rounded sends a token to other experts now and then, and then its logits are others.
        if !["decoder_gemma2", "decoder_llama"].contains(&name) {
            continue;
        }
        let trained = logits(&trainer.model().valid());
        let written = trainer.adapter().unwrap().unwrap();
        let with = open(name).with_adapter(&written).unwrap();
        let asked = logits(&load_as(BaseWeights::Bf16, &with));
        let far = apart(&trained, &asked);
        assert!(far < 0.05, "{name}: {far}");
    }
}

/// The number of values that a model keeps in this dtype.
fn of_dtype(model: &Model, dtype: DType) -> usize {
    struct Count(DType, usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if param.val().dtype() == self.0 {
                self.1 += param.val().shape().num_elements();
            }
        }
    }
    let mut count = Count(dtype, 0);
    model.visit(&mut count);
    count.1
}

#[test]
fn codes_are_not_trained_themselves() {
    let files = open("decoder_olmoe");
    let config = TrainConfig {
        base: BaseWeights::Fp8,
        ..config(1)
    };
    let text = ids(files.spec().vocabulary, 400);
    let trainer = Trainer::load(config, &files, text, &Device::flex(), &mut |_| ());
    assert_eq!(
        trainer.err().unwrap().to_string(),
        "weights that are trained: expected f32, got fp8"
    );
}

#[test]
fn a_resumed_adapter_repeats_the_uninterrupted_one_bit_for_bit() {
    for (name, base) in [
        ("decoder_olmoe", BaseWeights::F32),
        ("decoder_deepseek_v3", BaseWeights::F32),
        ("decoder_olmoe", BaseWeights::Fp8),
        ("decoder_deepseek_v3", BaseWeights::Bf16),
    ] {
        let files = open(name);
        let targets = || adapter(&["o_proj", "gate_proj", "down_proj"]);
        let folder = tempfile::tempdir().unwrap();
        let mut straight = trainer_above(base, &files, targets(), 6);
        for step in 0..6 {
            if step == 4 {
                straight.checkpoint().unwrap().write(folder.path()).unwrap();
            }
            straight.step().unwrap();
        }
        let losses = straight.report().unwrap().losses;
        let read = || Checkpoint::read(folder.path()).unwrap();
        assert_eq!(read().adapter(), Some(&targets()));
        assert_eq!(read().config().base, base);
        let text = || ids(files.spec().vocabulary, 400);
        let device = Device::flex();
        let mut resumed =
            Trainer::resume_adapter(read(), &files, text(), &device, &mut |_| ()).unwrap();
        while !resumed.is_finished() {
            resumed.step().unwrap();
        }
        assert_eq!(resumed.report().unwrap().losses, losses[4..], "{name}");
        let [one, other] = [&resumed, &straight].map(|of| of.adapter().unwrap().unwrap());
        assert!(one == other, "{name}: other factors");
        let windows = Windows::new(16, 8).unwrap();
        let judged = |of: &Trainer| of.perplexity(&text()[..60], windows, &mut |_| ()).unwrap();
        assert_eq!(judged(&resumed), judged(&straight));

        // A checkpoint has the factors alone, and is none of all weights.
        let files_of = std::fs::read_dir(folder.path()).unwrap();
        let bytes: u64 = files_of
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(
            (bytes as f64) < 3.0 * 4.0 * files.spec().parameters(),
            "{name}: {bytes}"
        );
        let whole = Trainer::resume(read(), files.spec(), text(), &device);
        let said = whole.err().unwrap().to_string();
        assert!(
            said.contains("what is trained was an adapter, not all weights"),
            "{said}"
        );
        let error = read()
            .check_adapter(Some(&adapter(&["o_proj"])))
            .unwrap_err();
        assert!(error.to_string().contains("targets"), "{error}");
    }
}

/// Layers that are computed again, batches after one another and moments elsewhere give an adapter the same course; the model's own embedding
/// has no gradient then.
#[test]
fn an_adapter_learns_the_same_with_less_memory() {
    for (name, base) in [
        ("decoder_olmoe", BaseWeights::F32),
        ("decoder_llama", BaseWeights::F32),
        ("decoder_olmoe", BaseWeights::Fp8),
        ("decoder_olmoe", BaseWeights::Bf16),
    ] {
        let files = open(name);
        let run = |less: bool| {
            let config = TrainConfig {
                accumulate: 3,
                ..above(base, config(4))
            };
            let (text, device) = (ids(files.spec().vocabulary, 400), Device::flex());
            let adapter = adapter(&["all-linear"]);
            let trainer =
                Trainer::load_adapter(config, adapter, &files, text, &device, &mut |_| ());
            let mut trainer = trainer.unwrap();
            if less {
                trainer.checkpoint_activations().unwrap();
                trainer.keep_moments_in(MomentStore::host());
            }
            while !trainer.is_finished() {
                trainer.step().unwrap();
            }
            let losses = trainer.report().unwrap().losses;
            (losses, logits(&trainer.model().valid()))
        };
        let [(losses, last), (again, same)] = [false, true].map(run);
        assert_ne!(losses[0], losses[3], "{name}");
        assert!(
            apart(&losses, &again) < 1e-5,
            "{name}: {losses:?} {again:?}"
        );
        assert!(apart(&last, &same) < 1e-4, "{name}");
    }
}

#[test]
fn targets_that_cannot_be_trained_are_refused_by_name() {
    let refused = |name: &str, targets: &[&str], config: TrainConfig| {
        let files = open(name);
        let text = ids(files.spec().vocabulary, 400);
        let (adapter, device) = (adapter(targets), Device::flex());
        let trainer = Trainer::load_adapter(config, adapter, &files, text, &device, &mut |_| ());
        trainer.err().unwrap().to_string()
    };
    let cases: [(&str, &[&str], &str); 5] = [
        (
            "decoder_phi3",
            &["qkv_proj"],
            "whose rows a model keeps together, got `model",
        ),
        ("decoder_olmoe", &["q_proj", "w1"], "got `w1`"),
        ("decoder_olmoe", &[], "got none"),
        (
            "decoder_olmoe",
            &["experts.0.up_proj"],
            "experts of a layer, or none, got 1",
        ),
        (
            "decoder_granitemoe",
            &["input_linear"],
            "q_proj, v_proj, got `input_linear`",
        ),
    ];
    for (name, targets, message) in cases {
        let said = refused(name, targets, config(1));
        assert!(
            said.starts_with("targets of an adapter: expected "),
            "{said}"
        );
        assert!(said.contains(message), "{said}");
    }
    let fp8 = config(1).with_precision(Precision::Fp8(Fp8Recipe::current()));
    let said = refused("decoder_olmoe", &["q_proj"], fp8);
    assert_eq!(
        said,
        "precision of a training of an adapter: expected f32 or bf16, got FP8"
    );
    let what = "weights below an adapter with products in";
    let (wide, narrow) = (Precision::F32, Precision::Bf16);
    for (precision, base, said) in [
        (narrow, BaseWeights::F32, "bf16: expected bf16, got f32"),
        (narrow, BaseWeights::Fp8, "bf16: expected bf16, got fp8"),
        (
            wide,
            BaseWeights::Bf16,
            "f32: expected f32 or codes, got bf16",
        ),
    ] {
        let config = TrainConfig { base, ..config(1) }.with_precision(precision);
        let refused = refused("decoder_olmoe", &["q_proj"], config);
        assert_eq!(refused, format!("{what} {said}"));
    }
}

#[test]
fn an_adapter_of_another_model_is_refused_by_name() {
    let olmoe = open("decoder_olmoe");
    let of_olmoe = trainer(&olmoe, adapter(&["q_proj", "up_proj"]), 1);
    let of_olmoe = of_olmoe.adapter().unwrap().unwrap();
    let error = open("decoder_mixtral")
        .with_adapter(&of_olmoe)
        .unwrap_err()
        .to_string();
    let said = "module of the adapter: expected a linear module of the model, got `model.layers.0";
    assert!(error.contains(said), "{error}");
    let mut wider = of_olmoe;
    for factors in wider.modules.values_mut() {
        factors.down.resize(factors.down.len() + factors.rank, 0.0);
    }
    let error = olmoe.with_adapter(&wider).unwrap_err().to_string();
    assert!(error.contains("q_proj`: expected ["), "{error}");
}

/// Experts that are read from the files when tokens need them are changed as those that are loaded at once, from values and from codes of the
/// file, in floating point and as codes that are made on the way. Those that are loaded at once have changes beside codes, the others in values.
#[test]
fn experts_in_files_are_changed_whenever_they_are_read() {
    for name in ["decoder_olmoe", "decoder_deepseek_v3_fp8"] {
        let of_experts = adapter(&["gate_proj", "up_proj", "down_proj"]);
        let mut adapter = trainer(&open(name), of_experts, 1)
            .adapter()
            .unwrap()
            .unwrap();
        for factors in adapter.modules.values_mut() {
            let up = factors.up.iter_mut().enumerate();
            up.for_each(|(at, up)| *up = 0.05 * (at % 5) as f32);
        }
        let [plain, with] = [open(name), open(name).with_adapter(&adapter).unwrap()];
        for resident in [LoadOptions::default(), LoadOptions::fp8()] {
            let load = |files: &ModelFiles, expert_cache| {
                let options = LoadOptions {
                    expert_cache,
                    experts_from: ExpertsFrom::Files,
                    ..resident
                };
                files.load(&Device::flex(), options, &mut |_| ()).unwrap()
            };
            let want = logits(&load(&with, None));
            let streamed = load(&with, Some(4 << 20));
            let got = logits(&streamed);
            if name == "decoder_olmoe" && resident.round.is_none() {
                assert_eq!(got, want, "{name}, {resident:?}");
            } else {
                assert!(apart(&want, &got) < 1e-5, "{name}, {resident:?}");
            }
            assert!(streamed.expert_cache().unwrap().read_bytes > 0, "{name}");
            let unchanged = logits(&load(&plain, None));
            assert!(apart(&unchanged, &want) > 1e-3, "{name}, {resident:?}");
        }
    }
}

/// Two adapters that are added to a model one after the other add up.
#[test]
fn adapters_of_fused_matrices_are_added() {
    let files = open("decoder_phi3");
    let model = load(&files);
    let hidden = files.spec().hidden;
    let attention = files.spec().layers[0].attention().unwrap();
    let heads = attention.heads + 2 * attention.kv_heads;
    let rows = heads * attention.head_dim;
    let factors = moebius_model::Factors {
        rank: 1,
        down: (0..hidden).map(|at| 0.1 * (at % 3) as f32).collect(),
        up: (0..rows).map(|at| 0.1 * (at % 5) as f32).collect(),
    };
    let module = "model.layers.0.self_attn.qkv_proj".to_owned();
    let adapter = Adapter {
        config: AdapterConfig {
            rank: 1,
            alpha: 2.0,
            ..AdapterConfig::default()
        },
        modules: [(module, factors.clone())].into(),
    };
    let coded = load_as(BaseWeights::Fp8, &files);
    let with = files.with_adapter(&adapter).unwrap();
    // Beside codes, the changes of each place have the rows of its own.
    let in_codes = load_as(BaseWeights::Fp8, &with);
    for (model, changed) in [(&model, &load(&with)), (&coded, &in_codes)] {
        let mut row = 0;
        for slot in [Slot::Query, Slot::Key, Slot::Value] {
            let place = moebius_model::decoder::Place { layer: 0, slot };
            let [before, after] = [model, changed].map(|mut of| of.values(place).unwrap());
            for (before, after) in before.chunks(hidden).zip(after.chunks(hidden)) {
                for (at, (before, after)) in before.iter().zip(after).enumerate() {
                    let want = before + 2.0 * factors.up[row] * factors.down[at];
                    assert!((after - want).abs() < 1e-6, "row {row} of {slot:?}");
                }
                row += 1;
            }
        }
        assert_eq!(row, rows);
    }
}

/// An exact model has what an adapter changes in f32, what its blocks stand for plus the change, and all else in blocks: the logits are those of
/// blocks with factors beside them.
#[test]
fn exact_models_have_changes_in_the_values_of_blocks() {
    let name = "decoder_gpt_oss_mxfp4";
    let hidden = open(name).spec().hidden;
    let factors = moebius_model::Factors {
        rank: 1,
        down: (0..hidden).map(|at| 0.1 * (at % 3) as f32).collect(),
        up: (0..hidden).map(|at| 0.1 * (at % 5) as f32).collect(),
    };
    let adapter = Adapter {
        config: AdapterConfig {
            rank: 1,
            alpha: 2.0,
            ..AdapterConfig::default()
        },
        modules: [("model.layers.0.self_attn.q_proj".to_owned(), factors)].into(),
    };
    let with = open(name).with_adapter(&adapter).unwrap();
    let found = |files: &ModelFiles, options: LoadOptions| {
        let options = options.with_blocks(InBlocks::Format(BlockFormat::Q8_0));
        logits(&files.load(&Device::flex(), options, &mut |_| ()).unwrap())
    };
    let exact = found(&with, LoadOptions::exact());
    let beside = found(&with, LoadOptions::default());
    assert!(apart(&beside, &exact) < 1e-5);
    assert!(apart(&found(&open(name), LoadOptions::exact()), &exact) > 1e-4);
}
