//! Training of an adapter of a published language model, for JavaScript.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use burn::module::Module;
use burn::tensor::TensorData;
use js_sys::{Float32Array, Promise, Uint8Array};
use moebius_model::decoder::ModelSpec;
use moebius_model::load::BaseWeights;
use moebius_model::{AdapterConfig, AdapterCourse, AdapterFiles, TrainConfig, Trainer};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::{Loading, computed, files};
use crate::device::Device;
use crate::failure::{Code, Failure};
use crate::objects::{Options, Record, counts, list, number, whole};
use crate::training::steps;
use crate::work::{Gpu, Held, Signal, now, promise};

/// Default number of steps.
const STEPS: usize = 100;

/// Default learning rate: a few steps of a small adapter should show.
const RATE: f64 = 1e-3;

/// Default number of tokens of a sequence, where the text and the model have as many.
const SEQUENCE: usize = 64;

/// Training of a LoRA adapter of a published language model on a text.
#[wasm_bindgen]
pub struct AdapterTraining {
    held: Held<Training>,
    report: JsValue,
}

struct Training {
    gpu: Rc<Gpu>,
    trainer: RefCell<Trainer>,
    /// Name of the model in the adapter's configuration.
    base: Option<String>,
    /// Whether the device has failed in a step: nobody knows the factors then.
    failed: Cell<bool>,
}

/// Options of a training, all but what they depend on of the text and the model.
struct Asked {
    text: String,
    base: Option<String>,
    precision: &'static str,
    sequence: Option<usize>,
    adapter: AdapterConfig,
    config: TrainConfig,
    loading: Loading,
}

#[wasm_bindgen]
impl AdapterTraining {
    /// Loads a model from its files, as `TextModel.load` does, and starts the training of an adapter of it, whose first step comes next.
    ///
    /// The model's own weights stay as they are. Rejects with the code 'shape' for a text that is too short, for targets that the model doesn't
    /// have, and for a GGUF file, whose modules have other names than those of adapters.
    #[wasm_bindgen(unchecked_return_type = "Promise<AdapterTraining>")]
    pub fn load(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "TextModelFiles")] files: JsValue,
        #[wasm_bindgen(unchecked_param_type = "AdapterTrainingOptions")] options: JsValue,
    ) -> Promise {
        let gpu = device.gpu();
        promise(async move { Self::loaded(gpu?, &files, options).await })
    }

    async fn loaded(gpu: Rc<Gpu>, files: &JsValue, options: JsValue) -> Result<Self, Failure> {
        let asked = Asked::new(options)?;
        asked.loading.signal.check()?;
        let (files, words) = files::open(files).await?;
        let ids = words.encode(&asked.text, false)?;
        let tokens = ids.len();
        let config = asked.course(tokens, files.spec());
        let adapter = asked.adapter;
        let report = report(&config, &adapter)
            .with("family", files.family())
            .with("precision", asked.precision)
            .with("tokens", tokens as f64);
        let course = AdapterCourse::new(config, adapter, &files, ids, &gpu.burn)?;
        let (how, device) = (course.options(), course.device().clone());
        let model = asked.loading.model(&files, how, &device, &gpu).await?;
        let trainer = course.begin(model)?;
        // An error shows here if the factors don't fit on the device.
        gpu.finish().await?;
        let report = report.with("parameters", trainer.parameters() as f64);
        let training = Training {
            gpu,
            trainer: RefCell::new(trainer),
            base: asked.base,
            failed: Cell::new(false),
        };
        Ok(Self {
            held: Held::new("training", training),
            report: report.into(),
        })
    }

    /// Description of the training.
    #[wasm_bindgen(getter, unchecked_return_type = "AdapterTrainingReport")]
    pub fn report(&self) -> JsValue {
        self.report.clone()
    }

    /// Trains `count` steps, one by default, or as many as are left; resolves with what they measured.
    ///
    /// Rejects with the code 'cancelled' if the signal is aborted between steps, and with 'state' after the last step; completed steps are kept.
    /// After a step in which the device failed, all calls reject with 'state'.
    #[wasm_bindgen(unchecked_return_type = "Promise<AdapterSteps>")]
    pub fn step(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] count: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        let training = self.held.get();
        promise(async move {
            let (training, signal) = (training?, Signal::only(options)?);
            let (count, start) = (steps(count)?, now());
            let mut losses: Vec<f32> = Vec::new();
            let (step, data) = loop {
                let (step, data) = training.step(&signal).await?;
                losses.push(number(&data, 0) as f32);
                if losses.len() == count || training.trainer.borrow().is_finished() {
                    break (step, data);
                }
            };
            let rate = training.trainer.borrow().config().rate(step - 1);
            Ok(Record::new()
                .with("step", step as f64)
                .with("loss", number(&data, 0))
                .with("auxiliary", number(&data, 1))
                .with("learningRate", rate)
                .with("losses", Float32Array::from(losses.as_slice()))
                .with("loads", list((2..data.len()).map(|at| counts(&data, at))))
                .with("milliseconds", now() - start))
        })
    }

    /// Computes a text's tokens with the adapter in its present state, as `TextModel.compute` does.
    #[wasm_bindgen(unchecked_return_type = "Promise<ComputedText>")]
    pub fn compute(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Uint32Array")] ids: JsValue,
    ) -> Promise {
        let training = self.held.get();
        promise(async move {
            let (training, ids) = (training?, whole("ids", &ids)?);
            training.usable()?;
            let model = training.trainer.borrow().model().valid();
            let found = computed::pass(&model, &ids, &training.gpu)?;
            computed::read(found, &training.gpu).await
        })
    }

    /// The adapter in its present state: its two files, as PEFT has them. `TextModel.load` takes them as its option `adapter`.
    #[wasm_bindgen(unchecked_return_type = "Promise<AdapterBytes>")]
    pub fn adapter(&self) -> Promise {
        let training = self.held.get();
        promise(async move { training?.adapter().await })
    }

    /// Number of completed steps.
    #[wasm_bindgen(getter)]
    pub fn steps(&self) -> Result<f64, JsValue> {
        Ok(self.held.get()?.trainer.borrow().steps_done() as f64)
    }

    /// Releases the memory of the model and of the training; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.held.dispose();
    }
}

impl Training {
    /// Runs one step; returns its number and what was read of it. The wait lets the page go on, and a signal cancel.
    async fn step(&self, signal: &Signal) -> Result<(usize, Vec<TensorData>), Failure> {
        signal.check()?;
        self.usable()?;
        // The borrow ends before the wait, so that other calls may run a step in between.
        let measured = {
            let mut trainer = self.trainer.borrow_mut();
            if trainer.is_finished() {
                let all = trainer.config().steps;
                let message = format!("steps: expected at most the training's {all}, got more");
                return Err(Failure::new(Code::STATE, message));
            }
            trainer.advance()?
        };
        let step = measured.step;
        let read = self.gpu.read(measured.transaction()).await;
        if read.is_err() {
            self.failed.set(true);
        }
        Ok((step, read?))
    }

    /// Fails if the device is gone, or has failed in a step.
    fn usable(&self) -> Result<(), Failure> {
        self.gpu.alive()?;
        if self.failed.get() {
            let message = "training: expected steps without a failure of the device, got one with";
            return Err(Failure::new(Code::STATE, message));
        }
        Ok(())
    }

    async fn adapter(&self) -> Result<Record, Failure> {
        self.usable()?;
        let reads = self.trainer.borrow().adapter_reads()?;
        let data = self.gpu.read(reads).await?;
        let adapter = self.trainer.borrow().adapter_of(&data)?;
        let AdapterFiles { config, weights } = adapter.to_files(self.base.as_deref())?;
        let bytes = |of: Vec<u8>| Uint8Array::from(of.as_slice());
        Ok(Record::new()
            .with(AdapterFiles::CONFIG, bytes(config))
            .with(AdapterFiles::WEIGHTS, bytes(weights)))
    }
}

impl Asked {
    fn new(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("adapter training options", options)?;
        let text = options.text("text")?;
        let text = text.ok_or_else(|| Failure::expected("text", "a text", "none"))?;
        let precisions = [
            ("f32", ("f32", BaseWeights::F32)),
            ("fp8", ("fp8", BaseWeights::Fp8)),
        ];
        let (precision, base) = options.choice("precision", &precisions)?;
        let default = TrainConfig::fine_tuning();
        let steps = options.count_or("steps", STEPS)?;
        let config = TrainConfig {
            batch: options.count_or("batch", default.batch)?,
            steps,
            warm_up: steps / 10,
            learning_rate: options.number("learningRate")?.unwrap_or(RATE) as f32,
            base,
            seed: options.count("seed", 0)?.unwrap_or(0) as u64,
            ..default
        };
        let asked = Self {
            text,
            base: options.text("base")?,
            precision,
            sequence: options.count("sequence", 1)?,
            adapter: adapter(&mut options)?,
            config,
            loading: Loading::take(&mut options)?,
        };
        options.finish()?;
        Ok(asked)
    }

    /// The configuration for a text of so many tokens.
    fn course(&self, tokens: usize, spec: &ModelSpec) -> TrainConfig {
        let longest = tokens.saturating_sub(1).min(spec.positions);
        let sequence = self.sequence.unwrap_or(SEQUENCE.min(longest).max(1));
        TrainConfig {
            sequence,
            ..self.config
        }
    }
}

/// Numbers and modules of the adapter; by default those of `moebius train --lora`.
fn adapter(options: &mut Options) -> Result<AdapterConfig, Failure> {
    let default = AdapterConfig::default();
    let targets = options.list("targets")?.map(|targets| {
        let names = targets.iter().map(JsValue::as_string);
        let wrong = || Failure::expected("targets", "an array of texts", "something else");
        names.collect::<Option<Vec<_>>>().ok_or_else(wrong)
    });
    Ok(AdapterConfig {
        rank: options.count_or("rank", default.rank)?,
        alpha: options.number("alpha")?.unwrap_or(default.alpha),
        targets: targets.transpose()?.unwrap_or(default.targets),
        rank_stabilized: default.rank_stabilized,
    })
}

fn report(config: &TrainConfig, adapter: &AdapterConfig) -> Record {
    let targets = adapter.targets.iter().map(String::as_str);
    Record::new()
        .with("steps", config.steps as f64)
        .with("batch", config.batch as f64)
        .with("sequence", config.sequence as f64)
        .with("rank", adapter.rank as f64)
        .with("alpha", adapter.alpha)
        .with("targets", list(targets))
}
