//! Published language models for JavaScript, which generate text.

mod adapter;
mod computed;
mod files;
mod generate;
mod words;

pub use adapter::AdapterTraining;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use js_sys::{Array, Function, Promise};
use moebius_engine::{Engine, EngineOptions, Limits, PAGE};
use moebius_model::decoder::{FeedForwardSpec, Model, ModelSpec};
use moebius_model::load::{LoadOptions, ModelFiles, Progress};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::{Code, Failure};
use crate::objects::{Options, Record, list, whole};
use crate::work::{Gpu, Held, Signal, promise};
use words::Words;

/// Default number of tokens of a conversation.
const CONTEXT: usize = 1024;

/// Number of prompt tokens that are computed at a time; between two parts, a signal can cancel.
const BATCH_TOKENS: usize = 128;

/// A published language model on a device.
#[wasm_bindgen]
pub struct TextModel {
    held: Held<Writer>,
    report: JsValue,
}

/// A model, its tokenizer and chat template, and whether it is in use.
struct Writer {
    gpu: Rc<Gpu>,
    engine: RefCell<Engine>,
    words: Words,
    /// Whether a text is being generated with this model.
    busy: Cell<bool>,
}

/// Options of a text model.
struct Asked {
    precision: &'static str,
    how: fn(&ModelFiles) -> LoadOptions,
    /// Largest number of tokens of a conversation; `None` for the default.
    context: Option<usize>,
    /// Files of an adapter that changes the model's weights.
    adapter: Option<JsValue>,
    loading: Loading,
}

/// What may stop a loading, and what is told of it.
struct Loading {
    signal: Signal,
    progress: Option<Function>,
}

#[wasm_bindgen]
impl TextModel {
    /// Loads a model of a supported family from its files by name: `config.json`, `tokenizer.json` and `.safetensors` files, or
    /// one GGUF file.
    ///
    /// Weights in a `Blob` or `File` are read piece by piece and go to the device layer by layer; they are never in the module's memory as
    /// a whole. Only workers can do that; a page has to pass a `Uint8Array`. Rejects with the code 'bad-file' and a list of everything
    /// that doesn't fit.
    #[wasm_bindgen(unchecked_return_type = "Promise<TextModel>")]
    pub fn load(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "TextModelFiles")] files: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "TextModelOptions")] options: JsValue,
    ) -> Promise {
        let gpu = device.gpu();
        promise(async move { Self::loaded(gpu?, &files, options).await })
    }

    async fn loaded(gpu: Rc<Gpu>, files: &JsValue, options: JsValue) -> Result<Self, Failure> {
        let asked = Asked::new(options)?;
        asked.loading.signal.check()?;
        let (mut files, words) = files::open(files).await?;
        let context = asked.context(files.spec().positions)?;
        if let Some(adapter) = &asked.adapter {
            files = files.with_adapter(&files::adapter(adapter).await?)?;
        }
        let before = gpu.memory().await?.in_use;
        let how = (asked.how)(&files);
        let model = asked.loading.model(&files, how, &gpu.burn, &gpu);
        let model = model.await?;
        let weight_bytes = gpu.memory().await?.in_use.saturating_sub(before);
        let (spec, family) = (files.spec(), files.family());
        let report = report(spec, &words, context)
            .with("family", family)
            .with("precision", asked.precision)
            .with("weightBytes", weight_bytes as f64);
        let room = EngineOptions::new(Limits::new(context.div_ceil(PAGE), BATCH_TOKENS, 1));
        let engine = Engine::new(model, room, &gpu.burn)?;
        let writer = Writer {
            engine: RefCell::new(engine),
            words,
            busy: Cell::new(false),
            gpu,
        };
        // An error shows here if the cache's first pages don't fit on the device.
        writer.gpu.finish().await?;
        Ok(Self {
            held: Held::new("text model", writer),
            report: report.into(),
        })
    }

    /// Description of the model.
    #[wasm_bindgen(getter, unchecked_return_type = "TextModelReport")]
    pub fn report(&self) -> JsValue {
        self.report.clone()
    }

    /// Generates text token by token: the continuation of a prompt, or the answer to a conversation.
    ///
    /// Calls `onToken` with each token as it comes. Rejects with the code 'cancelled' as soon as the signal is aborted; the model can be
    /// used again at once. It generates one text at a time: a second call rejects with the code 'unsupported' until the first has ended.
    #[wasm_bindgen(unchecked_return_type = "Promise<GeneratedText>")]
    pub fn generate(
        &self,
        #[wasm_bindgen(unchecked_param_type = "GenerateOptions")] options: JsValue,
    ) -> Promise {
        let writer = self.held.get();
        promise(async move { generate::generate(writer?, options).await })
    }

    /// Computes a text's tokens in one pass, and returns what each part of the model gives for them, as `moebius validate` compares it.
    ///
    /// Rejects with the code 'shape' for no tokens, and for tokens that aren't in the vocabulary.
    #[wasm_bindgen(unchecked_return_type = "Promise<ComputedText>")]
    pub fn compute(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Uint32Array")] ids: JsValue,
    ) -> Promise {
        let writer = self.held.get();
        promise(async move {
            let (writer, ids) = (writer?, whole("ids", &ids)?);
            let found = computed::pass(writer.engine.borrow().model(), &ids, &writer.gpu)?;
            computed::read(found, &writer.gpu).await
        })
    }

    /// Releases the model's memory; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.held.dispose();
    }
}

impl Asked {
    fn new(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("text model options", options)?;
        let decoded: fn(&ModelFiles) -> LoadOptions = |_| LoadOptions {
            keep_fp8: false,
            ..LoadOptions::default()
        };
        let precisions = [
            ("stored", ("stored", ModelFiles::as_stored as fn(&_) -> _)),
            ("f32", ("f32", decoded)),
            ("fp8", ("fp8", |_| LoadOptions::fp8())),
        ];
        let (precision, how) = options.choice("precision", &precisions)?;
        let asked = Self {
            precision,
            how,
            context: options.count("context", 1)?,
            adapter: options.value("adapter"),
            loading: Loading::take(&mut options)?,
        };
        options.finish()?;
        Ok(asked)
    }

    /// Largest number of tokens of a conversation, at most the model's `most`.
    fn context(&self, most: usize) -> Result<usize, Failure> {
        match self.context {
            None => Ok(CONTEXT.min(most)),
            Some(given) if given <= most => Ok(given),
            Some(given) => {
                let expected = format!("at most the model's {most}");
                Err(Failure::expected("context", expected, given))
            }
        }
    }
}

impl Loading {
    /// Takes the properties `signal` and `onProgress` out of the options.
    fn take(options: &mut Options) -> Result<Self, Failure> {
        Ok(Self {
            signal: Signal::take(options)?,
            progress: options.function("onProgress")?,
        })
    }

    /// Loads the model layer by layer to `device`, which is `gpu` with or without gradients: it takes each layer before the next is read, and a
    /// signal can cancel in between.
    async fn model(
        &self,
        files: &ModelFiles,
        how: LoadOptions,
        device: &burn::tensor::Device,
        gpu: &Gpu,
    ) -> Result<Model, Failure> {
        let mut loading = files.begin(device, how);
        let mut thrown = None;
        loop {
            self.signal.check()?;
            gpu.alive()?;
            let mut tell = |progress: Progress<'_>| {
                let told = self.tell(progress);
                thrown = thrown.take().or(told.err());
            };
            let next = loading.go_on(&mut tell)?;
            if let Some(error) = thrown {
                return Err(error);
            }
            gpu.finish().await?;
            match next {
                ControlFlow::Continue(more) => loading = more,
                ControlFlow::Break(model) => return Ok(model),
            }
        }
    }

    fn tell(&self, Progress { read, bytes, .. }: Progress<'_>) -> Result<(), Failure> {
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        let [read, bytes] = [read, bytes].map(|count| JsValue::from(count as f64));
        let told = progress.call2(&JsValue::NULL, &read, &bytes);
        let thrown = |error| Failure::new(Code::DEVICE, format!("onProgress threw: {error:?}"));
        told.map(|_| ()).map_err(thrown)
    }
}

fn report(spec: &ModelSpec, words: &Words, context: usize) -> Record {
    Record::new()
        .with("layers", spec.layers.len() as f64)
        .with("experts", experts(spec))
        .with("hidden", spec.hidden as f64)
        .with("vocabulary", spec.vocabulary as f64)
        .with("positions", spec.positions as f64)
        .with("context", context as f64)
        .with("chat", words.chats())
}

/// Descriptions of the layers that have experts.
fn experts(spec: &ModelSpec) -> Array {
    let layers = spec.layers.iter().enumerate();
    list(layers.filter_map(|(layer, of)| {
        match &of.feed_forward {
            FeedForwardSpec::Dense(_) => None,
            FeedForwardSpec::Experts(experts) => Some(
                Record::new()
                    .with("layer", layer as f64)
                    .with("experts", experts.experts as f64)
                    .with("topK", experts.top_k() as f64),
            ),
        }
    }))
}
