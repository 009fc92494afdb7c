//! [`Routes`]: the experts that tokens went to in all layers of a model, recorded, kept in a file and replayed.

use std::collections::BTreeMap;
use std::path::Path;

use moebius::moe::{ChosenExperts, Routing};
use moebius_weights::{Reader, TensorSpec, Unfit, Writer, quoted};
use safetensors::Dtype;
use serde_json::json;

use super::spec::{FeedForwardSpec, ModelSpec};
use crate::error::Error;

/// Name of the tensor of experts, u32 \[layers with experts, tokens, experts of a token\].
const EXPERTS: &str = "experts";
/// Key of the metadata that says of what model the routes are.
const MODEL: &str = "model";

/// The experts of tokens in each layer that has experts, for [`Model::forward_along`](super::Model::forward_along).
///
/// Only the choice is kept: a replay computes the weights anew, so that gradients reach the router (rollout routing replay, Ma et al. 2025).
/// Routes tell models apart by their sizes, not by their weights, which training changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// What [`described`] says of the model.
    model: String,
    /// The experts of each layer, with the layer's index in the model.
    layers: Vec<(usize, ChosenExperts)>,
}

/// A layer that has experts.
struct Mixture {
    /// Index of the layer in the model.
    layer: usize,
    experts: usize,
    top_k: usize,
}

fn mixtures(spec: &ModelSpec) -> impl Iterator<Item = Mixture> {
    let layers = spec.layers.iter().enumerate();
    layers.filter_map(|(layer, of)| match &of.feed_forward {
        FeedForwardSpec::Dense(_) => None,
        FeedForwardSpec::Experts(of) => Some(Mixture {
            layer,
            experts: of.experts,
            top_k: of.top_k(),
        }),
    })
}

/// The sizes of a model that its routes depend on, in JSON.
fn described(spec: &ModelSpec) -> String {
    let mixtures = mixtures(spec).map(|of| json!([of.layer, of.experts, of.top_k]));
    let mixtures: Vec<_> = mixtures.collect();
    let sizes = json!({
        "vocabulary": spec.vocabulary,
        "hidden": spec.hidden,
        "layers": spec.layers.len(),
        "layer_experts_top_k": mixtures,
    });
    sizes.to_string()
}

impl Routes {
    /// Routes of the model that `spec` describes: the experts of each layer that has some, first to last.
    ///
    /// # Errors
    /// [`Error::Config`] for a model without experts, for other layers than the model's, numbers of tokens that differ or are 0, and a model
    /// whose layers differ in the experts of a token, which a file of routes can't hold.
    pub fn new(spec: &ModelSpec, layers: Vec<ChosenExperts>) -> Result<Self, Error> {
        let (expected, got) = (mixtures(spec).count(), layers.len());
        Error::check(expected > 0, "layers with experts", "at least 1", expected)?;
        Error::check(got == expected, "layers of routes", expected, got)?;
        let [tokens, top_k] = [layers[0].tokens(), layers[0].top_k()];
        Error::check(tokens > 0, "tokens of routes", "at least 1", tokens)?;
        for (of, chosen) in mixtures(spec).zip(&layers) {
            let expected = format!("{:?}", [tokens, of.top_k, of.experts]);
            let got = [chosen.tokens(), chosen.top_k(), chosen.experts()];
            let got = format!("{got:?}");
            let what = "tokens, choices and experts of routes";
            Error::check(got == expected, what, &expected, &got)?;
        }
        let alike = layers.iter().all(|chosen| chosen.top_k() == top_k);
        let (what, expected) = ("experts of a token", "as many in all layers");
        Error::check(alike, what, expected, "layers that differ")?;
        let numbers = mixtures(spec).map(|of| of.layer);
        Ok(Self {
            model: described(spec),
            layers: numbers.zip(layers).collect(),
        })
    }

    /// Reads the experts that the tokens of a forward pass went to ([`Logits::routing`](super::Logits)); waits for the device.
    ///
    /// # Errors
    /// As [`Routes::new`], and [`Error::Moebius`] when the device failed.
    pub fn read(spec: &ModelSpec, routing: &[Routing]) -> Result<Self, Error> {
        let layers = routing.iter().map(ChosenExperts::read);
        Self::new(spec, layers.collect::<Result<_, _>>()?)
    }

    /// Number of tokens, of all sequences together.
    pub fn tokens(&self) -> usize {
        self.layers[0].1.tokens()
    }

    /// The experts of each layer that has experts, with the layer's index in the model.
    pub fn layers(&self) -> impl Iterator<Item = (usize, &ChosenExperts)> {
        self.layers.iter().map(|(layer, chosen)| (*layer, chosen))
    }

    /// The experts of layer number `layer`; `None` for a layer without experts.
    pub(super) fn of(&self, layer: usize) -> Option<&ChosenExperts> {
        let mut layers = self.layers();
        layers.find_map(|(number, chosen)| (number == layer).then_some(chosen))
    }

    /// Refuses routes of another model than `spec` describes, and of another number of tokens.
    pub(super) fn check(&self, spec: &ModelSpec, tokens: usize) -> Result<(), Error> {
        let expected = described(spec);
        let same = self.model == expected;
        Error::check(same, "model of the routes", expected, &self.model)?;
        let got = self.tokens();
        Error::check(got == tokens, "tokens of the routes", tokens, got)
    }

    /// Writes the routes to a safetensors file: the experts as u32 \[layers with experts, tokens, experts of a token\], and the model's sizes
    /// as metadata.
    ///
    /// # Errors
    /// [`Error::Weights`] when the file can't be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let (tokens, top_k) = (self.tokens(), self.layers[0].1.top_k());
        let experts = TensorSpec {
            name: EXPERTS.to_owned(),
            dtype: Dtype::U32,
            shape: vec![self.layers.len(), tokens, top_k],
        };
        let metadata = BTreeMap::from([(MODEL.to_owned(), self.model.clone())]);
        let mut writer = Writer::file(path, &[experts], &metadata)?;
        for (_, chosen) in self.layers() {
            let words = chosen.indices().iter();
            let bytes: Vec<u8> = words.flat_map(|expert| expert.to_le_bytes()).collect();
            writer.append(EXPERTS, &bytes)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Reads routes of the model that `spec` describes from a file that [`Routes::save`] has written.
    ///
    /// # Errors
    /// [`Error::Weights`] for a file that can't be read or isn't safetensors, [`Error::Config`] for routes of another model and a tensor of
    /// another shape or type, [`Error::Moebius`] for experts that the model doesn't have, or that a token has twice.
    pub fn load(path: &Path, spec: &ModelSpec) -> Result<Self, Error> {
        let reader = Reader::open(path)?;
        let unfit = |what: &str, expected: &dyn ToString, got: &dyn ToString| {
            let what = format!("{}: {what}", path.display());
            Error::Config(Unfit::new(what, expected.to_string(), got.to_string()))
        };
        let (metadata, model) = (reader.metadata(), described(spec));
        let written = metadata.get(MODEL).copied().unwrap_or_default();
        if written != model {
            return Err(unfit("model of the routes", &model, &quoted(written)));
        }
        let all: Vec<Mixture> = mixtures(spec).collect();
        let top_k = all.first().map_or(0, |of| of.top_k);
        let found = reader
            .get(EXPERTS)
            .map(|of| (of.dtype, of.shape.as_slice()));
        let tokens = match found {
            Some((Dtype::U32, &[layers, tokens, choices]))
                if layers == all.len() && choices == top_k && layers * tokens * top_k > 0 =>
            {
                tokens
            }
            _ => {
                let expected = format!("u32 [{}, tokens, {top_k}]", all.len());
                let got = found.map_or("none".to_owned(), |found| format!("{found:?}"));
                return Err(unfit("tensor of experts", &expected, &got));
            }
        };
        let bytes = reader.read(EXPERTS)?;
        let words = bytes.as_chunks::<4>().0.iter();
        let indices: Vec<u32> = words.map(|&word| u32::from_le_bytes(word)).collect();
        let layers = all.iter().zip(indices.chunks_exact(tokens * top_k));
        let layers =
            layers.map(|(of, layer)| ChosenExperts::new(layer.to_vec(), top_k, of.experts));
        Self::new(spec, layers.collect::<Result<_, _>>()?)
    }
}
