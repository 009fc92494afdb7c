//! The reference in f64 has the logits of transformers, devices are near it, a wrong weight is named by its layer and part, and attention
//! weights are those by which a layer attends.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod folders;

use std::ops::Range;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use folders::folders;
use moebius::attention::CacheFormat;
use moebius::fp8::training::Fp8Recipe;
use moebius::nn;
use moebius_model::Error;
use moebius_model::computation::{Computation, Cost, Distance, Greedy, Limits, Part, parting};
use moebius_model::decoder::{FeedForwardSpec, Model, Place, Projections, Routes, Slot, Values};
use moebius_model::load::{FileValues, LoadOptions, ModelFiles};
use moebius_weights::Reader;

/// Largest relative L2 error of the reference's logits. Transformers computes angles, and some families' norms and softmaxes, in f32.
const APART: f64 = 1e-5;

fn named(name: &str) -> PathBuf {
    let mut folders = folders().into_iter();
    folders.find(|folder| folder.ends_with(name)).unwrap()
}

/// The tokens of a folder's case, and the logits that transformers gave.
fn case(folder: &Path) -> (Vec<u32>, Vec<f32>) {
    let case = Reader::open(&folder.join("logits.case.safetensors")).unwrap();
    let bytes = case.read("in.tokens").unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    let ids = words.map(|&word| u32::from_le_bytes(word)).collect();
    (ids, case.read_f32("out.logits").unwrap())
}

fn reference(files: &ModelFiles, ids: &[u32]) -> Computation {
    Computation::reference(files.spec(), &mut files.values(), ids).unwrap()
}

#[test]
fn the_reference_has_the_logits_of_transformers() {
    let mut wrong = Vec::new();
    for folder in folders() {
        let (ids, expected) = case(&folder);
        let computation = reference(&ModelFiles::open(&folder).unwrap(), &ids);
        let head = computation.parts.last().unwrap();
        let apart = moebius_ops::distance(&head.values, &expected);
        println!("{}: {apart:.1e}", folder.display());
        // Written so that NaN fails.
        let near = apart <= APART;
        if !near {
            wrong.push(format!("{}: {apart:.1e}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_device_is_near_the_reference_in_every_part() {
    let (device, limits) = (Device::flex(), Limits::default());
    for folder in folders() {
        let name = folder.display();
        let (ids, _) = case(&folder);
        let files = ModelFiles::open(&folder).unwrap();
        let model = files.load(&device, LoadOptions::default(), &mut |_| ());
        let (want, got) = (
            reference(&files, &ids),
            Computation::of(&model.unwrap(), &ids, &device).unwrap(),
        );
        let distances = Distance::between(&want, &got, limits).unwrap();
        assert_eq!(parting(&distances, limits), None, "{name}");
        let mixed = files.spec().layers.iter();
        let mixed = mixed
            .filter(|layer| matches!(layer.feed_forward, FeedForwardSpec::Experts(_)))
            .count();
        let parts = 2 + 2 * files.spec().layers.len() + mixed;
        assert_eq!(distances.len(), parts, "{name}");
        if distances.iter().all(|of| of.judged == ids.len()) {
            assert_eq!(Greedy::first(&want, &got), None, "{name}");
        }
        // Weights of the choices are the device's own.
        for (want, got) in want.parts.iter().zip(&got.parts) {
            for (want, got) in want.choices.iter().zip(&got.choices) {
                let near = moebius_ops::distance(&got.weights, &want.weights) < 1e-3;
                assert!(near || got.experts != want.experts, "{name}: {got:?}");
            }
        }
    }
}

/// A step over a cache in f32 is near a forward in every part; one in FP8 is further away where the cache is read, and along the same experts
/// no router parts them.
#[test]
fn steps_are_compared_along_the_same_experts() {
    let (device, limits) = (Device::flex(), Limits::default());
    for name in ["decoder_olmoe", "decoder_llama"] {
        let folder = named(name);
        let (ids, _) = case(&folder);
        let files = ModelFiles::open(&folder).unwrap();
        let model = files.load(&device, LoadOptions::default(), &mut |_| ());
        let model = model.unwrap();
        let routing = model.forward(model.tokens(&ids, &device).unwrap());
        let routing = routing.unwrap().routing;
        let routes = Routes::read(files.spec(), &routing).ok();
        assert_eq!(routes.is_some(), name == "decoder_olmoe");
        let served = |format| {
            let served = Computation::served(&model, &ids, format, routes.as_ref(), &device);
            served.unwrap()
        };
        let between = |got: &Computation| {
            let want = Computation::of(&model, &ids, &device).unwrap();
            Distance::between(&want, got, limits).unwrap()
        };
        assert_eq!(parting(&between(&served(CacheFormat::F32)), limits), None);
        let narrow = between(&served(CacheFormat::E4m3));
        let first = parting(&narrow, limits).unwrap();
        assert_eq!((first.layer, first.part), (Some(0), Part::Attention));
        assert!(narrow.iter().all(|part| part.flips.is_empty()), "{name}");
        assert!(narrow.iter().all(|part| part.judged == ids.len()), "{name}");
    }
}

/// The values of a model's files, with those of one place in a range multiplied by 1.5.
struct Planted<'a> {
    files: FileValues<'a>,
    place: Place,
    range: Range<usize>,
}

impl Values for Planted<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let mut values = self.files.values(place)?;
        if place == self.place {
            for value in &mut values[self.range.clone()] {
                *value *= 1.5;
            }
        }
        Ok(values)
    }

    fn own_head(&self) -> Option<bool> {
        self.files.own_head()
    }
}

#[test]
fn a_wrong_weight_is_named_by_layer_and_part() {
    let (device, limits) = (Device::flex(), Limits::default());
    for (name, layer, slot, part) in [
        ("decoder_olmoe", 0, Slot::Embedding, Part::Embedding),
        ("decoder_olmoe", 2, Slot::Out, Part::Attention),
        ("decoder_olmoe", 1, Slot::Router, Part::Router),
        ("decoder_olmoe", 1, Slot::ExpertsOut, Part::Experts),
        ("decoder_olmoe", 0, Slot::Head, Part::Head),
        ("decoder_deepseek_v3", 1, Slot::LatentUp, Part::Attention),
        ("decoder_deepseek_v3", 1, Slot::SharedIn, Part::Experts),
        (
            "decoder_lfm2",
            0,
            Slot::ConvolutionFactors,
            Part::Convolution,
        ),
        ("decoder_llama", 1, Slot::DenseIn, Part::FeedForward),
    ] {
        let folder = named(name);
        let (ids, _) = case(&folder);
        let files = ModelFiles::open(&folder).unwrap();
        let place = Place { layer, slot };
        let all: usize = place.shape(files.spec()).iter().product();
        // Of the experts, only the first is wrong.
        let wrong = if slot == Slot::ExpertsOut {
            all / 8
        } else {
            all
        };
        let mut planted = Planted {
            files: files.values(),
            place,
            range: 0..wrong,
        };
        let model = Model::of_values(files.spec(), &mut planted, &device).unwrap();
        let got = Computation::of(&model, &ids, &device).unwrap();
        let want = reference(&files, &ids);
        let distances = Distance::between(&want, &got, limits).unwrap();
        let first = parting(&distances, limits).unwrap();
        let layer = slot.is_of_layer().then_some(layer);
        assert_eq!((first.layer, first.part), (layer, part), "{name}, {slot:?}");
    }
}

#[test]
fn what_has_no_reference_is_refused() {
    let folder = named("decoder_olmoe");
    let files = ModelFiles::open(&folder).unwrap();
    let refused = |spec: &moebius_model::decoder::ModelSpec, ids: &[u32]| {
        let found = Computation::reference(spec, &mut files.values(), ids);
        found.unwrap_err().to_string()
    };
    let in_fp8 = files.spec().clone().with_fp8(Some(Fp8Recipe::default()));
    let said = refused(&in_fp8, &[1]);
    assert!(said.contains("training in FP8"), "{said}");
    let mut plain = files.spec().clone();
    let layer = &mut plain.layers[1].feed_forward;
    let (FeedForwardSpec::Experts(config) | FeedForwardSpec::Dense(config)) = layer;
    config.gated = false;
    let said = refused(&plain, &[1]);
    assert!(said.contains("networks of layer 1"), "{said}");
    assert!(refused(files.spec(), &[]).contains("at least one"));
    assert!(refused(files.spec(), &[199]).contains("vocabulary"));
}

/// The weights of a layer's attention, times its values and its output projection, are what the layer adds to x. The models have shared
/// key heads; windows and sinks; and chunks that are shorter than the text.
#[test]
fn attention_weights_make_what_a_layer_adds() {
    let device = Device::flex();
    for name in ["decoder_llama", "decoder_gpt_oss", "decoder_llama4_text"] {
        let folder = named(name);
        let (ids, _) = case(&folder);
        let files = ModelFiles::open(&folder).unwrap();
        let model = files.load(&device, LoadOptions::default(), &mut |_| ());
        let model = model.unwrap();
        let tokens = model.tokens(&ids, &device).unwrap();
        let states = model.forward_with_states(tokens.clone()).unwrap().states;
        for (layer, block) in model.blocks.iter().enumerate() {
            let attention = block.attention.as_ref().unwrap();
            let Projections::Direct(direct) = &attention.projection else {
                unreachable!("{name} projects directly");
            };
            let weights = model.attention_weights(tokens.clone(), layer).unwrap();
            let [_, heads, length, _] = weights.dims();
            let x = states[2 * layer].clone();
            let before = nn::rms_norm(block.attention_norm.as_ref().unwrap(), x.clone());
            let v = direct.value.forward(before).unwrap();
            let spec = model.spec().layers[layer].attention().unwrap();
            let (shared, width) = (heads / spec.kv_heads, spec.value_dim);
            let v = v.reshape([length, spec.kv_heads, 1, width]);
            let v = v.expand([length, spec.kv_heads, shared, width]);
            let v = v.reshape([1, length, heads, width]).swap_dims(1, 2);
            let o = weights.matmul(v).swap_dims(1, 2);
            let y = attention.out.forward(o.reshape([length, heads * width]));
            let want = states[2 * layer + 1].clone() - x;
            let floats = |x: Tensor<2>| x.into_data().iter::<f32>().collect::<Vec<_>>();
            let apart = moebius_ops::distance(&floats(y.unwrap()), &floats(want));
            assert!(apart < 1e-4, "layer {layer} of {name}: {apart:.1e}");
        }
        for layer in [model.blocks.len(), usize::MAX] {
            let said = model.attention_weights(tokens.clone(), layer).unwrap_err();
            assert!(said.to_string().contains("has an attention"), "{said}");
        }
    }
}

/// A pass that waits tells of the embedding, of each layer and of the head, in whatever way the model is computed.
#[test]
fn times_are_of_all_layers() {
    let device = Device::flex();
    let folder = named("decoder_olmoe");
    let (ids, _) = case(&folder);
    let files = ModelFiles::open(&folder).unwrap();
    let layers = (0..files.spec().layers.len()).map(Some);
    let expected: Vec<_> = [None].into_iter().chain(layers).chain([None]).collect();
    for options in [LoadOptions::default(), LoadOptions::exact()] {
        let model = files.load(&device, options, &mut |_| ()).unwrap();
        let costs = Cost::of_layers(&model, &ids, &device).unwrap();
        let layers: Vec<_> = costs.iter().map(|cost| cost.layer).collect();
        assert_eq!(layers, expected);
        for cost in costs {
            // Flex has no allocator that counts.
            assert!(
                cost.seconds > 0.0 && cost.memory_bytes.is_none(),
                "{cost:?}"
            );
        }
        assert!(Cost::of_layers(&model, &[], &device).is_err());
    }
}
