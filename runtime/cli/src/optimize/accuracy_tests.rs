//! A candidate with a wrong scale or a wrong kernel in one layer is refused by the name of the layer and the part, however fast it is.

use std::path::Path;

use super::*;
use crate::args::{Goal, Level, ModelPrecision};
use crate::error::CliError;
use crate::optimize::plan::Plan;
use crate::optimize::search::{Figures, Lab, Trial, Turns, Verdict, Wanted, search};
use moebius::moe::Activation;
use moebius_benches::timing::Timing;
use moebius_model::decoder::{ModelSpec, Place, Slot, Values};
use moebius_model::load::{FileValues, LoadOptions, ModelFiles};

/// Tokens of the tiny decoders.
const IDS: [u32; 12] = [3, 14, 15, 9, 26, 5, 35, 8, 9, 79, 32, 38];

/// What is wrong with a candidate.
#[derive(Clone, Copy, Debug)]
enum Plant {
    /// The scale of a place's values, by twelve powers of two.
    Scale(Place),
    /// An operation, which a change of the description makes another: a wrong kernel is another function of the right operands.
    Kernel(fn(&mut ModelSpec)),
}

/// The values of a model's files, with those of one place under a wrong scale.
struct Planted<'a> {
    files: FileValues<'a>,
    place: Option<Place>,
}

impl Values for Planted<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let mut values = self.files.values(place)?;
        if self.place == Some(place) {
            values.iter_mut().for_each(|value| *value *= 4096.0);
        }
        Ok(values)
    }

    fn own_head(&self) -> Option<bool> {
        self.files.own_head()
    }
}

/// A lab in which every plan but that of bf16 is a hundred times as fast as the default one, and in that of FP8 something is wrong.
struct Bent<'a> {
    files: &'a ModelFiles,
    plant: Plant,
    judge: Judge,
}

impl Lab for Bent<'_> {
    type Ready = (Plan, Model);

    fn load(&mut self, plan: Plan) -> Result<(Plan, Model), CliError> {
        let device = &self.judge.device;
        let model = if plan.dtype == ModelPrecision::Fp8 {
            let (mut spec, files) = (self.files.spec().clone(), self.files.values());
            let place = match self.plant {
                Plant::Scale(place) => Some(place),
                Plant::Kernel(change) => {
                    change(&mut spec);
                    None
                }
            };
            Model::of_values(&spec, &mut Planted { files, place }, device)
        } else {
            self.files.load(device, LoadOptions::default(), &mut |_| ())
        };
        Ok((plan, model?))
    }

    fn judge(
        &mut self,
        (plan, model): &(Plan, Model),
        budget: Budget,
    ) -> Result<Accuracy, CliError> {
        Ok(self.judge.judge(model, plan.format(), budget)?)
    }

    fn measure(
        &mut self,
        (best, _): &mut (Plan, Model),
        (other, _): &mut (Plan, Model),
    ) -> Result<Turns, CliError> {
        let figures = |plan: Plan| {
            let fast = plan != Plan::default() && plan.dtype != ModelPrecision::Bf16;
            let timing = Timing::of(&mut [if fast { 0.01 } else { 1.0 }]);
            Figures {
                alone: timing,
                together: timing,
                bytes: 1,
            }
        };
        Ok(Turns {
            best: figures(*best),
            other: figures(*other),
            same_tokens: true,
            verified: true,
        })
    }
}

/// Demands that the candidate with this fault is refused by the name of its place, and not measured. Returns what the search gives.
fn is_refused(name: &str, plant: Plant, budget: Budget, expected: &str) -> (Plan, Vec<Trial>) {
    let device = Device::flex();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let best = files.load(&device, LoadOptions::default(), &mut |_| ());
    let best = best.unwrap();
    let mut lab = Bent {
        judge: Judge::new(&best, &IDS, &device).unwrap(),
        plant,
        files: &files,
    };
    let wanted = Wanted {
        level: Level::Balanced,
        goal: Goal::Latency,
        budget,
    };
    let (plan, trials) = search(&mut lab, (Plan::default(), best), wanted);
    let refused = trials
        .iter()
        .find(|trial| trial.change.flag() == "--dtype fp8");
    let refused = refused.unwrap();
    let Verdict::Inaccurate(said) = &refused.verdict else {
        panic!("{name}, {plant:?}: {refused:?}");
    };
    assert!(said.starts_with(expected), "{name}: {said}");
    assert!(refused.turns.is_none());
    (plan, trials)
}

#[test]
fn a_wrong_scale_is_refused_by_its_layer_and_part() {
    for (name, layer, slot, expected) in [
        ("decoder_olmoe", 1, Slot::ExpertsOut, "layer 1, experts: "),
        ("decoder_olmoe", 2, Slot::Router, "layer 2, router: "),
        ("decoder_llama", 1, Slot::Out, "layer 1, attention: "),
        (
            "decoder_llama",
            0,
            Slot::DenseOut,
            "layer 0, feed-forward network: ",
        ),
    ] {
        let plant = Plant::Scale(Place { layer, slot });
        let budget = Budget::of(Level::Balanced, None);
        let (plan, trials) = is_refused(name, plant, budget, expected);
        // What is as it should be was kept: the first change.
        assert_eq!(plan.dtype, ModelPrecision::F16);
        let first = trials[0].accuracy.as_ref().unwrap();
        assert!(first.perplexity.unwrap().abs() < 0.001, "{first:?}");
    }
}

/// A tiny model, a change of it, and the place that a refusal must name.
type WrongKernel = (&'static str, fn(&mut ModelSpec), &'static str);

/// The tiny models' weights are so small that an activation matters little to x: the budget is smaller, too, and a cache in f16, which the first
/// change brings along, beyond it.
#[test]
fn a_wrong_kernel_is_refused_by_its_layer_and_part() {
    let budget = Budget {
        distance: 1e-4,
        ..Budget::of(Level::Balanced, None)
    };
    let plants: [WrongKernel; 3] = [
        (
            "decoder_olmoe",
            |spec| spec.layers[2].attention_mut().unwrap().scale *= 2.0,
            "layer 2, attention: ",
        ),
        (
            "decoder_olmoe",
            |spec| spec.layers[1].feed_forward.config_mut().activation = Activation::Relu,
            "layer 1, experts: ",
        ),
        (
            "decoder_llama",
            |spec| spec.layers[0].feed_forward.config_mut().activation = Activation::Relu,
            "layer 0, feed-forward network: ",
        ),
    ];
    for (name, change, expected) in plants {
        is_refused(name, Plant::Kernel(change), budget, expected);
    }
}

/// A cache in FP8 is seen by both measures, although the model is the same.
#[test]
fn the_format_of_the_cache_counts() {
    let device = Device::flex();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join("decoder_olmoe")).unwrap();
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    let (model, budget) = (model.unwrap(), Budget::of(Level::Aggressive, None));
    let judge = Judge::new(&model, &IDS, &device).unwrap();
    let exact = judge.judge(&model, CacheFormat::F32, budget).unwrap();
    assert_eq!(exact.furthest().unwrap().relative_l2, Some(0.0));
    assert_eq!(exact.perplexity, Some(0.0));
    let rounded = judge.judge(&model, CacheFormat::E4m3, budget).unwrap();
    assert!(rounded.furthest().unwrap().relative_l2.unwrap() > 1e-4);
    assert_ne!(rounded.perplexity, Some(0.0));
}
