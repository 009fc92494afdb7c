//! One decoder for all published models: they differ only in data, a [`ModelSpec`].
//!
//! [`ModelSpec`] describes a model, and [`Weights`] provides its tensors. [`Model::forward`] computes the logits of whole sequences, with
//! gradients, and [`Model::step`] the logits of new tokens over a [`Cache`]. [`Model::forward_as_served`] gives a training the bits of such
//! steps, [`Model::forward_along`] replays [`Routes`], and [`Model::forward_documents`] takes sequences of several [`Documents`].
//! [`crate::load`] loads a model from a folder.

mod attention;
mod attention_weights;
mod block;
mod building;
mod cache;
mod changes;
mod convolution;
mod documents;
mod exact;
mod expert_places;
mod footprint;
mod padded;
mod parts;
mod products;
mod rope;
mod routes;
mod slot;
mod spec;
#[cfg(not(target_family = "wasm"))]
mod switched;
#[cfg(target_family = "wasm")]
#[path = "switched_nowhere.rs"]
mod switched;
mod tables;
mod temperature;
mod watch;
mod weights;

pub use attention::{Attention, Direct, Latent, Projections};
pub use block::{Block, FeedForward};
pub use building::Building;
pub use cache::{Cache, CacheMemory};
pub use convolution::Convolution;
pub use documents::Documents;
pub use rope::{Rope, RopeScaling, yarn_attention};
pub use routes::Routes;
pub use slot::{Place, Slot};
pub use spec::{
    AttentionSpec, CacheScales, ConvolutionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer,
    ModelSpec, Norms, Projection,
};
pub use switched::SwitchedMixture;
pub use temperature::Temperature;
pub use weights::{Drawn, Uploaded, Values, Weights};
pub(crate) use weights::{floating, uploaded};

use burn::module::{Module, Param};
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius::attention::{CacheFormat, Pages, Span};
use moebius::blocks::BlockTensor;
use moebius::moe::Routing;
use moebius::{in_span, nn};
use moebius_ops::kv_cache::BLOCK;
use tracing::trace_span;

use crate::error::Error;
use block::{LayerGiven, States, keep};
use cache::NewTokens;
use rope::{Angles, Places};
use watch::{Watch, ended};

/// A decoder, as described by a [`ModelSpec`].
#[derive(Module, Debug)]
pub struct Model {
    /// Token embedding \[V, H\]; in another dtype than the rest where [`LoadOptions::narrow_embedding`](crate::load::LoadOptions) is
    /// chosen.
    pub embedding: Param<Tensor<2>>,
    /// The embedding \[1, V, H\] in blocks of codes, if it is; `embedding` is then a single 0 that nothing reads.
    pub embedding_blocks: Option<BlockTensor>,
    /// Learned positions \[positions, H\], added to the embedding; `None` where positions aren't learned.
    pub positions: Option<Param<Tensor<2>>>,
    /// Layers, first to last.
    pub blocks: Vec<Block>,
    /// Norm before the head.
    pub norm: RmsNorm,
    /// Matrix of the head \[V, H\]; `None` where the head shares the embedding, or is in blocks.
    pub head: Option<Param<Tensor<2>>>,
    /// Matrix of the head \[1, V, H\] in blocks of codes, if it is and doesn't share the embedding.
    pub head_blocks: Option<BlockTensor>,
    #[module(skip)]
    spec: ModelSpec,
    /// Whether passes have the same bits on every device.
    #[module(skip)]
    exact: bool,
    /// Dtype of x and of products in passes, to which each pass casts what products read; `None` for that of the parameters.
    #[module(skip)]
    products: Option<DType>,
}

/// Output of a forward pass.
#[derive(Clone, Debug)]
pub struct Logits {
    /// Logits of the next token \[B, S, V\].
    pub logits: Tensor<3>,
    /// Experts that the tokens went to, for every layer that has experts.
    pub routing: Vec<Routing>,
}

impl Logits {
    /// Reads the experts that the tokens went to; `None` for a model without experts. Waits for the device.
    ///
    /// # Errors
    /// As [`Routes::read`].
    pub fn routes(&self, spec: &ModelSpec) -> Result<Option<Routes>, Error> {
        let some = !self.routing.is_empty();
        some.then(|| Routes::read(spec, &self.routing)).transpose()
    }

    /// Reads the logits \[V\] of the token after the last of a sequence from the device; those of the first sequence, if there are several.
    ///
    /// # Errors
    /// [`Error::Config`] for logits of no token, [`Error::Device`] when the device failed.
    pub fn read_last(self) -> Result<Vec<f32>, Error> {
        let [sequences, length, width] = self.logits.dims();
        let tokens = sequences * length;
        Error::check(tokens > 0, "tokens of logits", "at least 1", tokens)?;
        let last = self.logits.slice([0..1, length - 1..length, 0..width]);
        Error::guarded(|| {
            let data = last.try_into_data().map_err(Error::device)?;
            Ok(data.iter().collect())
        })
    }
}

/// What a pass over the layers is given beside the tokens; nothing by default.
#[derive(Default)]
struct Given<'a> {
    /// Cache of earlier tokens, which the pass adds its tokens to.
    cache: Option<(&'a mut Cache, NewTokens)>,
    /// Experts in place of those that the routers would choose.
    routes: Option<&'a Routes>,
    /// Where x is kept: after the embedding, and after both parts of each layer.
    states: Option<&'a mut States>,
    /// Number of layers that are computed; all for `None`.
    layers: Option<usize>,
    /// States of another pass, whose values x has after each layer, with the gradients of this pass.
    values: Option<&'a States>,
    /// What is told when the embedding and each layer is done, which the pass waits for.
    watch: Option<&'a mut Watch>,
}

impl<'a> Given<'a> {
    fn cached(cache: &'a mut Cache, step: NewTokens) -> Self {
        Self {
            cache: Some((cache, step)),
            ..Self::default()
        }
    }
}

/// Multiply-adds of the head below which a pass is small: its kernels are done before the host has launched the next ones, so that the host
/// never fills the queue of CubeCL's CPU runtime, and to wait for an empty one would only take time. That threads on Flex share work from as many
/// multiply-adds on is another matter: what it costs to wake them.
const SMALL: usize = 1 << 18;

/// Places of whole sequences `tokens` \[B, S\].
fn whole(tokens: &Tensor<2, Int>) -> Places {
    let [sequences, length] = tokens.dims();
    Places {
        first: vec![0; sequences],
        tokens: length,
        longest: length,
        packed: None,
        counts: None,
    }
}

/// A tensor of the value `value` and the gradients of `y`, which must be finite: y − y is 0 then.
fn with_value<const D: usize>(y: Tensor<D>, value: &Tensor<D>) -> Tensor<D> {
    y.clone() - y.detach() + value.clone()
}

/// Output of a forward pass that keeps what it computes on its way; all tensors stay on the device.
#[derive(Clone, Debug)]
pub struct WithStates {
    /// x \[B · S, H\] of the embeddings, then of each layer after its attention or convolution and after its feed-forward part: 1 + 2 · layers
    /// tensors, or none without tokens.
    pub states: Vec<Tensor<2>>,
    /// The pass's output.
    pub logits: Logits,
}

impl Model {
    /// Makes a decoder with weights from `weights`.
    ///
    /// # Errors
    /// The errors of `weights`, and [`Error::Moebius`] for a description that isn't consistent.
    pub fn load(spec: &ModelSpec, weights: &mut dyn Weights) -> Result<Self, Error> {
        Building::new(spec).finish(weights)
    }

    /// Description of the model.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Puts `ids` on `device` as one sequence \[1, S\], for [`forward`](Self::forward).
    ///
    /// # Errors
    /// [`Error::Config`] for a token that isn't in the vocabulary, for which a device would read past the embedding's end.
    pub fn tokens(&self, ids: &[u32], device: &Device) -> Result<Tensor<2, Int>, Error> {
        self.spec.check_tokens(ids)?;
        let numbers: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let data = TensorData::new(numbers, [1, ids.len()]);
        Ok(Tensor::from_data(data, device))
    }

    /// Computes the logits of the token after each of `tokens` \[B, S\], which are numbers below V; attention is causal.
    ///
    /// # Errors
    /// [`Error::Config`] for more tokens than there are learned positions, [`Error::Moebius`] when the device can't run a layer.
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Result<Logits, Error> {
        let places = whole(&tokens);
        self.run(tokens, &places, Given::default())
    }

    /// Does what [`forward`](Self::forward) does, and keeps x after each part, which takes the memory of 1 + 2 · layers tensors \[B · S, H\].
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_states(&self, tokens: Tensor<2, Int>) -> Result<WithStates, Error> {
        let mut states = Vec::new();
        let places = whole(&tokens);
        let given = Given {
            states: Some(&mut states),
            ..Given::default()
        };
        let logits = self.run(tokens, &places, given)?;
        Ok(WithStates { states, logits })
    }

    /// Does what [`forward`](Self::forward) does with the experts of `routes`, those of the B · S tokens one sequence after the other, in place
    /// of those that the routers would choose; their weights are computed anew, with gradients.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Config`] for routes of another model or another number of tokens.
    pub fn forward_along(&self, tokens: Tensor<2, Int>, routes: &Routes) -> Result<Logits, Error> {
        routes.check(&self.spec, tokens.shape().num_elements())?;
        let places = whole(&tokens);
        let given = Given {
            routes: Some(routes),
            ..Given::default()
        };
        self.run(tokens, &places, given)
    }

    /// Computes the logits after each of `tokens` \[B, S\] with the bits that steps over a cache give them, and with the gradients of
    /// [`forward`](Self::forward): an engine with a cache of this `format`, whose requests may have up to `longest` tokens, finds a token as
    /// likely as this does. The experts are those of the steps, too, and `routing` has their weights with gradients.
    ///
    /// A forward that records gradients sums in other orders, in norms on Flex and in attention on all other devices. So this computes each
    /// layer twice: by a step over a cache of its own, whose values go on to the next layer, and in the way of `forward`, along the experts of
    /// the step, for the gradients; what a router balances its selection by moves once. Where no gradients are recorded it is the step
    /// alone. On XLA values agree to 1e-5, because its order of summation depends on the program.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`Cache::new`], whose cache has room for all tokens.
    pub fn forward_as_served(
        &self,
        tokens: Tensor<2, Int>,
        format: CacheFormat,
        longest: usize,
    ) -> Result<Logits, Error> {
        let [sequences, length] = tokens.dims();
        if sequences * length == 0 {
            return self.forward(tokens);
        }
        let plain = tokens.clone().inner();
        let (trains, mut states) = (self.embedding.val().is_autodiff(), States::new());
        let kept = trains.then_some(&mut states);
        let valid = self.valid();
        let served = valid.served(plain, (format, longest), None, kept, None)?;
        if !trains {
            return Ok(served);
        }
        let routes = served.routes(&self.spec)?;
        let places = Places {
            longest,
            ..whole(&tokens)
        };
        let given = Given {
            routes: routes.as_ref(),
            values: Some(&states),
            ..Given::default()
        };
        let trained = self.run(tokens, &places, given)?;
        Ok(Logits {
            logits: with_value(trained.logits, &served.logits),
            routing: trained.routing,
        })
    }

    /// Does what [`forward_with_states`](Self::forward_with_states) does by a step over an empty cache of this format, as an engine does whose
    /// requests may have up to so many tokens; with the experts of `routes`, if they are given. `tokens` \[B, S\] are at least one.
    ///
    /// # Errors
    /// As [`forward_along`](Self::forward_along) and [`Cache::new`].
    pub fn served_with_states(
        &self,
        tokens: Tensor<2, Int>,
        (format, longest): (CacheFormat, usize),
        routes: Option<&Routes>,
    ) -> Result<WithStates, Error> {
        let mut states = States::new();
        let kept = Some(&mut states);
        let logits = self.served(tokens, (format, longest), routes, kept, None)?;
        Ok(WithStates { states, logits })
    }

    /// Does what [`served_with_states`](Self::served_with_states) does, and keeps x in `states`, if they are given; `watch` is told of all parts.
    fn served(
        &self,
        tokens: Tensor<2, Int>,
        (format, longest): (CacheFormat, usize),
        routes: Option<&Routes>,
        states: Option<&mut States>,
        watch: Option<&mut Watch>,
    ) -> Result<Logits, Error> {
        let [sequences, length] = tokens.dims();
        if let Some(routes) = routes {
            routes.check(&self.spec, sequences * length)?;
        }
        let pages = Pages::paged(sequences, sequences * length.div_ceil(BLOCK), length)?;
        let cache = Cache::new(&self.spec, pages, format, &tokens.device())?;
        let mut cache = cache.up_to(longest);
        let step = cache.extend(&vec![length; sequences])?;
        let places = Places {
            longest,
            ..whole(&tokens)
        };
        let given = Given {
            routes,
            states,
            watch,
            ..Given::cached(&mut cache, step)
        };
        self.run(tokens, &places, given)
    }

    /// Computes the logits \[V\] of the token after all of `ids`, and reads them from the device.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty list and for a token that isn't in the vocabulary, [`Error::Moebius`] and [`Error::Device`] when the
    /// device can't compute.
    pub fn last_logits(&self, ids: &[u32], device: &Device) -> Result<Vec<f32>, Error> {
        Error::check(!ids.is_empty(), "tokens", "at least one", ids.len())?;
        self.forward(self.tokens(ids, device)?)?.read_last()
    }

    /// Computes the logits after each of the new tokens \[B, S\] of the sequences of `cache`, and adds the tokens to the cache. Only the
    /// first `counts[b]` of sequence b are tokens; the logits of the rest mean nothing.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers of sequences or tokens that don't fit, [`Error::Moebius`] when pages are missing or the device can't
    /// run a layer.
    pub fn step(
        &self,
        tokens: Tensor<2, Int>,
        counts: &[usize],
        cache: &mut Cache,
    ) -> Result<Logits, Error> {
        let [sequences, length] = tokens.dims();
        let fits = [sequences, counts.len()] == [cache.sequences(); 2];
        let expected = format!("{} sequences", cache.sequences());
        Error::check(fits, "tokens of a step", expected, sequences)?;
        let most = counts.iter().copied().max().unwrap_or(0);
        Error::check(most == length, "new tokens of the longest", length, most)?;
        let places = Places {
            first: cache.lengths().to_vec(),
            tokens: length,
            longest: cache.longest(),
            packed: None,
            counts: None,
        };
        let step = cache.extend(counts)?;
        self.run(tokens, &places, Given::cached(cache, step))
    }

    /// Computes the logits \[B, `last`, V\] after each of the last new tokens of each of `sequences`, which all have S new tokens \[B, S\], of
    /// which `last` are 1 to S. Their pages belong to the pool of `cache`, whose own sequences stay as they are.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers of sequences or tokens that don't fit or are 0 and for more logits than new tokens, [`Error::Moebius`] for
    /// pages that don't exist and when the device can't run a layer.
    pub fn last_few_of(
        &self,
        tokens: Tensor<2, Int>,
        last: usize,
        sequences: &[Span<'_>],
        cache: &mut Cache,
    ) -> Result<Logits, Error> {
        let [count, length] = tokens.dims();
        let fits = count == sequences.len() && count * length > 0;
        let expected = format!("{} sequences of new tokens", sequences.len());
        let got = format!("{count} of {length}");
        Error::check(fits, "tokens of a step", expected, got)?;
        let even = sequences.iter().all(|of| of.end == of.start + length);
        Error::check(even, "new tokens of each", length, "others")?;
        let expected = format!("1 to {length}");
        let some = (1..=length).contains(&last);
        Error::check(some, "logits of a sequence", expected, last)?;
        let places = Places {
            first: sequences.iter().map(|of| of.start).collect(),
            tokens: length,
            longest: cache.longest(),
            packed: None,
            counts: None,
        };
        let step = cache.step_of(sequences)?;
        let device = tokens.device();
        let work = self.of_head(count * length);
        let (logits, routing) = moebius::on_workers(&device, work, || {
            let (x, routing) = self.hidden(tokens, &places, Given::cached(cache, step))?;
            let [_, width] = x.dims();
            let all = x.reshape([count, length, width]);
            let few = all.slice([0..count, length - last..length, 0..width]);
            let few = few.reshape([count * last, width]);
            Ok::<_, Error>((self.logits(few)?, routing))
        })?;
        let [_, vocabulary] = logits.dims();
        let logits = logits.reshape([count, last, vocabulary]);
        Ok(Logits { logits, routing })
    }

    fn run(
        &self,
        tokens: Tensor<2, Int>,
        places: &Places,
        given: Given<'_>,
    ) -> Result<Logits, Error> {
        let [sequences, length] = tokens.dims();
        let embedding = self.embedding.val();
        let vocabulary = self.vocabulary();
        if sequences * length == 0 {
            let options = (&embedding.device(), self.dtype());
            let logits = Tensor::empty([sequences, length, vocabulary], options);
            let routing = Vec::new();
            return Ok(Logits { logits, routing });
        }
        if self.is_exact() && given.cache.is_none() {
            let way = (CacheFormat::F32, places.longest);
            return self.served(tokens, way, given.routes, given.states, given.watch);
        }
        let device = tokens.device();
        moebius::reduce::check_rows("training", sequences * length, &embedding.device())?;
        let work = self.of_head(sequences * length);
        let (logits, routing) = moebius::on_workers(&device, work, || {
            let (x, routing) = self.hidden(tokens, places, given)?;
            Ok::<_, Error>((self.logits(x)?, routing))
        })?;
        let logits = logits.reshape([sequences, length, vocabulary]);
        Ok(Logits { logits, routing })
    }

    /// Computes x \[B · S, H\] after the last layer that is computed, and returns the experts that the tokens went to. Adds x after each part
    /// to `states`.
    fn hidden(
        &self,
        tokens: Tensor<2, Int>,
        places: &Places,
        mut given: Given<'_>,
    ) -> Result<(Tensor<2>, Vec<Routing>), Error> {
        let device = self.norm.gamma.device();
        let angles = self.angles(places);
        let rows = self.rows(tokens.flatten(0, 1))?;
        let mut x = if self.is_exact() {
            self.placed_exactly(rows, places)?
        } else {
            self.embedded(rows, places)?
        };
        keep(given.states.as_deref_mut(), &x);
        ended(given.watch.as_deref_mut(), &device)?;
        let mut routing = Vec::new();
        let layers = given.layers.unwrap_or(self.blocks.len());
        let small = self.of_head(places.first.len() * places.tokens) < SMALL;
        for number in 0..layers {
            let block = self.block(number);
            let of_layer = given.cache.as_mut();
            let of_layer = of_layer.map(|(cache, new)| cache.layer(number, new));
            let of_layer = LayerGiven {
                cache: of_layer,
                along: given.routes.and_then(|routes| routes.of(number)),
                states: given.states.as_deref_mut(),
                next: self.blocks.get(number + 1),
            };
            let layer = || {
                if self.is_exact() {
                    block.forward_exactly(x, places, &angles, of_layer)
                } else {
                    block.forward(x, places, &angles, of_layer)
                }
            };
            let (y, chosen) = in_span(trace_span!("layer", number), &device, layer)?;
            x = match given.values {
                Some(states) => with_value(y, &states[2 * number + 2]),
                None => y,
            };
            routing.extend(chosen);
            ended(given.watch.as_deref_mut(), &device)?;
            if !small {
                moebius::keep_pace(&device)?;
            }
        }
        Ok((x, routing))
    }

    /// Angles of all rotary positions of the layers.
    fn angles(&self, places: &Places) -> Angles {
        let device = self.norm.gamma.device();
        let layers = self.spec.layers.iter().filter_map(LayerSpec::attention);
        let ropes = layers.filter_map(|attention| attention.rope.as_ref());
        Angles::new(ropes, places, (&device, self.dtype()))
    }

    /// Multiply-adds of the head for `rows` tokens, whose product is the largest operation of most models.
    fn of_head(&self, rows: usize) -> usize {
        self.spec.vocabulary * self.spec.hidden * rows
    }

    fn logits(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        if self.is_exact() {
            return self.logits_exactly(x);
        }
        let logits = self.of_vocabulary(nn::rms_norm(&self.norm, x))?;
        let logits = if self.spec.logits_scale == 1.0 {
            logits
        } else {
            logits * self.spec.logits_scale
        };
        Ok(match self.spec.logits_softcap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        })
    }
}
