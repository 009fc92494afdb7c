//! Trainings with products in bf16 over parameters in f32.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Gradients, Tensor};
use moebius_model::load::ModelFiles;
use moebius_model::{Precision, TrainConfig, Trainer, Windows};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{cases, ids, load_trainer, quick, values};

/// Models with experts, with a shared one behind a gate, with latent attention, with convolutions, and with norms after both parts.
const CASES: [&str; 5] = [
    "decoder_olmoe",
    "decoder_qwen2_moe",
    "decoder_deepseek_v3",
    "decoder_lfm2_moe",
    "decoder_gemma2",
];

fn open(name: &str) -> ModelFiles {
    ModelFiles::open(&cases().join(name)).unwrap()
}

fn of(precision: Precision, config: TrainConfig, files: &ModelFiles) -> Trainer {
    load_trainer(config.with_precision(precision), files)
}

fn losses(trainer: &mut Trainer, steps: usize) -> Vec<f32> {
    (0..steps).for_each(|_| trainer.step().unwrap());
    trainer.report().unwrap().losses
}

/// Steps of 32 tokens are noisy, and a token that bf16 sends to another expert more so: each loss is within 6 % of f32's, and their mean within 1 %. A model that is judged is the one in f32.
#[test]
fn products_in_bf16_learn_what_products_in_f32_learn() {
    for name in CASES {
        let files = open(name);
        let [mut wide, mut narrow] =
            [Precision::F32, Precision::Bf16].map(|precision| of(precision, quick(20), &files));
        let text = ids(files.spec().vocabulary, 60);
        let windows = Windows::new(16, 8).unwrap();
        let judged = |of: &Trainer| of.perplexity(&text, windows, &mut |_| ()).unwrap();
        assert_eq!(judged(&narrow), judged(&wide), "{name}");
        let (want, got) = (losses(&mut wide, 20), losses(&mut narrow, 20));
        assert_ne!(got, want, "{name}: nothing was rounded");
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let apart = (got - want).abs();
            assert!(apart < 0.06 * want, "{name}, {step}: {got} for {want}");
        }
        let [got, want] = [&got, &want].map(|of| of.iter().sum::<f32>());
        assert!((got / want - 1.0).abs() < 0.01, "{name}: {got} for {want}");
    }
}

/// The dtypes of a model's parameters and of their gradients; a gradient that isn't there is none.
struct Dtypes<'a> {
    of: &'a Gradients,
    parameters: Vec<DType>,
    gradients: Vec<DType>,
}

impl ModuleVisitor for Dtypes<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        self.parameters.push(param.dtype());
        let gradient = param.grad(self.of);
        self.gradients.extend(gradient.map(|of| of.dtype()));
    }
}

/// What layers pass on and the logits are bf16, scores of experts f32; and so are parameters and all gradients.
#[test]
fn parameters_and_gradients_stay_f32_around_products_in_bf16() {
    for name in CASES {
        let files = open(name);
        let trainer = of(Precision::Bf16, quick(1), &files);
        let (model, device) = (trainer.model(), Device::flex().autodiff());
        let tokens = model.tokens(&ids(files.spec().vocabulary, 12), &device);
        let output = model.forward_with_states(tokens.unwrap()).unwrap();
        for x in &output.states {
            assert_eq!(x.dtype(), DType::BF16, "{name}");
        }
        assert_eq!(output.logits.logits.dtype(), DType::BF16, "{name}");
        for routing in &output.logits.routing {
            assert_eq!(routing.logits.dtype(), DType::F32, "{name}");
        }
        let loss = output.logits.logits.cast(DType::F32).square().mean();
        let mut found = Dtypes {
            of: &loss.backward(),
            parameters: Vec::new(),
            gradients: Vec::new(),
        };
        model.visit(&mut found);
        let all = found.parameters.iter().chain(&found.gradients);
        assert!(all.clone().all(|dtype| *dtype == DType::F32), "{name}");
        assert!(10 * found.gradients.len() >= 9 * found.parameters.len());
    }
}

/// An operation's family, name and sizes, and the bytes that it moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    family: String,
    name: String,
    sizes: String,
    bytes: u64,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "sizes" {
            self.sizes = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "family" => value.clone_into(&mut self.family),
            "name" => value.clone_into(&mut self.name),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "bytes" {
            self.bytes = value;
        }
    }
}

/// A listener to the operations of a thread.
struct Recorder(Arc<Mutex<Vec<Seen>>>);

impl Subscriber for Recorder {
    fn enabled(&self, span: &Metadata<'_>) -> bool {
        span.is_span() && span.name() == "operation"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = Seen::default();
        span.record(&mut seen);
        self.0.lock().unwrap().push(seen);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A step in bf16 runs the operations of a step in f32. Products and attention, forward and backward, move fewer bytes, those of routers the same.
#[test]
fn every_product_of_a_step_in_bf16_reads_halves() {
    let files = open("decoder_olmoe");
    let step = |precision| {
        let small = TrainConfig {
            batch: 1,
            sequence: 8,
            ..quick(1)
        };
        let mut trainer = of(precision, small, &files);
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let recorder = Recorder(seen.clone());
        tracing::subscriber::with_default(recorder, || trainer.step().unwrap());
        let mut all = std::mem::take(&mut *seen.lock().unwrap());
        all.sort();
        all
    };
    // The first recorder may get nothing: at the first operation of the process `tracing` notes whether that thread has a recorder, and the thread
    // may be another test's. At the start of each later recorder `tracing` asks all of them again.
    let [_, wide, narrow] = [Precision::F32, Precision::F32, Precision::Bf16].map(step);
    assert_eq!(narrow.len(), wide.len());
    let mut products = 0;
    for (narrow, wide) in narrow.iter().zip(&wide) {
        assert_eq!([&narrow.name, &narrow.sizes], [&wide.name, &wide.sizes]);
        let share = narrow.bytes as f64 / wide.bytes as f64;
        match wide.family.as_str() {
            // A kernel writes sums over rows in f32.
            "GroupedGemm" | "Experts" | "Attention" => {
                assert!(share < 0.85, "{narrow:?} for {wide:?}");
                products += 1;
            }
            "Routing" => assert_eq!(narrow.bytes, wide.bytes, "{narrow:?}"),
            _ => {}
        }
    }
    // Forward and backward of each layer's four products of attention, the attention itself and its experts, and of the head.
    let layers = files.spec().layers.len();
    assert!(products >= 2 * (6 * layers + 1), "{products}: {wide:?}");
}

/// Layers that are computed again cast their weights again, and give the same bits.
#[test]
fn layers_computed_again_in_bf16_change_no_weight() {
    for name in ["decoder_olmoe", "decoder_gemma2"] {
        let files = open(name);
        let run = |again: bool| {
            let mut trainer = of(Precision::Bf16, quick(3), &files);
            if again {
                trainer.checkpoint_activations().unwrap();
            }
            (losses(&mut trainer, 3), values(&trainer))
        };
        assert_eq!(run(true), run(false), "{name}");
    }
}
