//! The training loop, one step at a time.

mod adapters;

pub use adapters::AdapterCourse;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::training::{self, Finite, LossScaler, LossScaling, MomentStore, StepGuard};
use moebius::in_span;
use moebius::moe::Routing;
use tracing::trace_span;

use crate::accumulate::{Batch, Computed, OfSamples, Sum};
use crate::bytes::batch_of;
use crate::checkpoint::{self, Checkpoint, Progress};
use crate::config::{Subject, TrainConfig};
use crate::dataset::{Dataset, Packed, TrainingData};
use crate::decoder::{Model, ModelSpec, Place, Values};
use crate::error::Error;
use crate::load::{self, BaseWeights, LoadOptions, ModelFiles};
use crate::lora::Lora;
use crate::optimizer::{adam, check_readable, check_record, clip, parameters};
use crate::perplexity::{Perplexity, Windows, cross_entropy, weighted_cross_entropy};
use crate::random::Random;
use crate::recompute;
use crate::report::{Fp8Report, Measured, Report, Window};

/// A model being trained on a text or on samples: the small decoder over bytes, or a published model with its own or with drawn weights.
pub struct Trainer {
    config: TrainConfig,
    subject: Subject,
    data: TrainingData,
    device: Device,
    model: Model,
    /// What of the model is trained below an adapter; `None` where all weights are.
    lora: Option<Lora>,
    optimizer: ModuleOptimizer,
    guard: StepGuard,
    scaled: Option<Scaled>,
    progress: Progress,
    window: Window,
    /// Whether layers are computed again for their gradients.
    recomputes: bool,
}

/// State of a training with loss scaling, in which a step whose gradients overflowed doesn't count.
struct Scaled {
    scaler: LossScaler,
    guard: StepGuard,
}

impl Scaled {
    /// The state at the beginning, or at the saved `progress`.
    fn new(
        scaling: LossScaling,
        progress: &Progress,
        guard: StepGuard,
        device: &Device,
    ) -> Result<Option<Self>, Error> {
        if scaling == LossScaling::Off {
            return Ok(None);
        }
        let scaler = LossScaler::new(scaling, device)?;
        if let Some(loss_scale) = progress.loss_scale {
            scaler.restore(loss_scale)?;
        }
        if let Some(powers) = progress.adam_powers {
            guard.set_powers(powers, device);
        }
        Ok(Some(Self { scaler, guard }))
    }
}

/// Placeholder weights, whose values a record replaces.
struct Blank<'a>(&'a ModelSpec);

impl Values for Blank<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        Ok(vec![0.0; place.shape(self.0).iter().product()])
    }
}

impl Trainer {
    /// Starts a training on `device` with weights drawn from the seed of `config`, by [`DecoderConfig::init`](crate::DecoderConfig::init)
    /// or [`Drawn`](crate::decoder::Drawn).
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for values that don't fit each other, `data` or the model, and when the device
    /// can't hold or run the model.
    pub fn new(
        config: TrainConfig,
        subject: impl Into<Subject>,
        data: impl Into<TrainingData>,
        device: &Device,
    ) -> Result<Self, Error> {
        let (subject, data) = (subject.into(), data.into());
        check((&config, &subject, &data), device)?;
        config.check_all_weights()?;
        let device = device.clone().autodiff();
        let model = subject.first(&config, &device)?;
        let course = (config, subject, data);
        Self::at(Progress::default(), course, model, device)
    }

    /// Starts a training of the weights in `files`, of which codes are decoded; `progress` is called after each tensor.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`ModelFiles::load`].
    pub fn load(
        config: TrainConfig,
        files: &ModelFiles,
        data: impl Into<TrainingData>,
        device: &Device,
        progress: &mut dyn FnMut(load::Progress<'_>),
    ) -> Result<Self, Error> {
        let (subject, data) = (Subject::from(files.spec()), data.into());
        check((&config, &subject, &data), device)?;
        config.check_all_weights()?;
        let device = device.clone().autodiff();
        let options = LoadOptions {
            keep_fp8: false,
            fp8_training: config.precision.recipe(),
            ..LoadOptions::default()
        };
        let model = files.load(&device, options, progress)?;
        let course = (config, subject, data);
        Self::at(Progress::default(), course, model, device)
    }

    fn at(
        progress: Progress,
        (config, subject, data): (TrainConfig, Subject, TrainingData),
        model: Model,
        device: Device,
    ) -> Result<Self, Error> {
        let (adam, guard) = adam(config.weight_decay);
        let model = model.with_products_in(config.precision.products());
        Ok(Self {
            optimizer: ModuleOptimizer::from(adam),
            scaled: Scaled::new(config.loss_scaling, &progress, guard.clone(), &device)?,
            guard,
            progress,
            window: Window::default(),
            recomputes: false,
            lora: None,
            config,
            subject,
            data,
            device,
            model,
        })
    }

    /// Resumes the training of `subject` on `data` from `checkpoint`; on the same kind of device it continues bit for bit as if it had never
    /// stopped. Each step seeds its device, so this isn't promised for two trainings on one device at the same time.
    ///
    /// # Errors
    /// As [`Trainer::new`], and [`Error::Checkpoint`] for a checkpoint of another model or text or of an adapter, or with records
    /// that don't fit the model.
    pub fn resume(
        checkpoint: Checkpoint,
        subject: impl Into<Subject>,
        data: impl Into<TrainingData>,
        device: &Device,
    ) -> Result<Self, Error> {
        checkpoint.check_adapter(None)?;
        let course = (subject.into(), data.into());
        Self::resumed(
            checkpoint,
            course,
            device,
            |config, subject, record, device| {
                config.check_all_weights()?;
                let spec = subject.spec().with_fp8(config.precision.recipe());
                let model = Model::of_values(&spec, &mut Blank(&spec), device)?;
                let model = model.try_load_record(record).map_err(checkpoint::record)?;
                Ok((model, None))
            },
        )
    }

    /// Resumes the training of a checkpoint with the model that `model` makes on the device of the checkpoint's record, and with what of it is
    /// trained below an adapter, if that isn't all.
    fn resumed(
        checkpoint: Checkpoint,
        (subject, data): (Subject, TrainingData),
        device: &Device,
        model: impl FnOnce(
            &TrainConfig,
            &Subject,
            ModuleRecord,
            &Device,
        ) -> Result<(Model, Option<Lora>), Error>,
    ) -> Result<Self, Error> {
        checkpoint.check_subject(&subject)?;
        checkpoint.check_text(&subject, &data)?;
        let (config, progress) = (*checkpoint.config(), checkpoint.progress());
        check((&config, &subject, &data), device)?;
        let device = device.clone().autodiff();
        let (record, optimizer) = checkpoint.into_records();
        let (model, lora) = model(&config, &subject, record, &device)?;
        check_record(&optimizer, &model, progress.step)?;
        let optimizer = OptimizerRecord::from_bytes(optimizer).map_err(checkpoint::record)?;
        let new = Self::at(progress, (config, subject, data), model, device)?;
        Ok(Self {
            lora,
            optimizer: new.optimizer.load_record(optimizer),
            ..new
        })
    }

    /// Keeps the optimizer's two moments of each parameter in `store` between steps, in place of the device, and waits for the device in
    /// each step. Weights and checkpoints are the same to the bit, but where a device rounds otherwise when other operations are compiled
    /// together (`cpu` with Burn's fusion, XLA).
    pub fn keep_moments_in(&mut self, store: MomentStore) {
        self.guard.keep_moments_in(store);
    }

    /// Keeps the input of each layer alone in later steps, and computes the layer again for its gradients, so that no more than one layer's
    /// forward pass is in memory at once; a step computes one more forward pass then. Gradients are the same, up to their last bits where a
    /// device rounds otherwise when other operations are compiled together.
    ///
    /// # Errors
    /// [`Error::Config`] for samples in place of a text, products in FP8, loss scaling, and layers that don't give the same when they are
    /// computed again: those that draw random numbers, and routers whose balancing bias moves.
    pub fn checkpoint_activations(&mut self) -> Result<(), Error> {
        recompute::check(&self.subject.spec(), &self.config, &self.data)?;
        self.recomputes = true;
        Ok(())
    }

    /// The configuration of the training.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The subject of the training.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The model in its present state, with gradients tracked.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        parameters(&self.model)
    }

    /// Number of steps done.
    pub fn steps_done(&self) -> usize {
        self.progress.step
    }

    /// Whether all steps are done.
    pub fn is_finished(&self) -> bool {
        self.progress.step >= self.config.steps
    }

    /// Cross entropy of the first step, once a report has read it.
    pub fn first_loss(&self) -> Option<f32> {
        self.progress.first_loss
    }

    /// Trains on the batches of one step, without reading anything back, so an accelerator never waits for the host, unless moments are kept
    /// elsewhere.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device can't run a layer, and as [`StepGuard::settle`] when moments are kept elsewhere.
    pub fn step(&mut self) -> Result<(), Error> {
        self.window.start();
        let measured = self.advance()?;
        self.window.add(measured);
        Ok(())
    }

    /// Does what [`step`](Self::step) does, and returns what the step measured in place of keeping it for a report: for programs that mustn't
    /// wait for the device, or have no clock, as in a browser.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn advance(&mut self) -> Result<Measured, Error> {
        let step = self.progress.step;
        let _span = trace_span!("step", number = step).entered();
        let device = self.device.clone();
        // What a layer draws on the device depends on the number of the step, not on earlier draws.
        self.device
            .seed(Random::new(&[self.config.seed, step as u64]).next());
        let mut sum = Sum::new();
        for batch in self.batches(step)? {
            let computed = if self.recomputes {
                let tokens = [batch.tokens, batch.targets];
                let layers = || recompute::computed(&self.model, tokens, &self.config);
                in_span(trace_span!("layers"), &device, layers)?
            } else {
                self.at_once(batch)?
            };
            sum.add(&self.model, computed);
        }
        let sum = sum.finish();
        let computed = sum.unwrap_or_else(|| unreachable!("a step has a batch"));
        if let (Some(scaled), Some(finite)) = (&self.scaled, &computed.finite) {
            scaled.guard.set(finite);
            scaled.scaler.update(finite);
        }
        let update = || {
            let gradients = clip(&self.model, computed.gradients, self.config.clip_norm);
            let rate = self.config.rate(step);
            self.model = self.optimizer.step(rate, self.model.clone(), gradients);
            self.guard.settle()
        };
        in_span(trace_span!("optimizer"), &device, update)?;
        self.progress.step += 1;
        Ok(Measured {
            step: self.progress.step,
            loss: computed.loss.inner(),
            auxiliary: computed.extra.inner(),
            loads: computed.loads.into_iter().map(Tensor::inner).collect(),
        })
    }

    /// Computes a batch by one forward and one backward pass over all layers.
    fn at_once(&self, batch: Batch) -> Result<Computed, Error> {
        let device = self.device.clone();
        let forward = || {
            let output = match &batch.samples {
                Some(of) => self.model.forward_documents(batch.tokens, &of.documents)?,
                None => self.model.forward(batch.tokens)?,
            };
            let [count, sequence, words] = output.logits.dims();
            let rows = output.logits.reshape([count * sequence, words]);
            let loss = match batch.samples {
                Some(of) => weighted_cross_entropy(rows, batch.targets, of.weights, of.learnt),
                None => self.config.share(cross_entropy(rows, batch.targets)),
            };
            Ok::<_, Error>((output.routing, loss))
        };
        let (routing, loss) = in_span(trace_span!("forward"), &device, forward)?;
        let mut extra = Tensor::zeros([1], &device);
        for routing in &routing {
            extra = extra + routing.losses(1)?.weighted(&self.config.losses());
        }
        let extra = self.config.share(extra);
        let whole = loss.clone() + extra.clone();
        let backward = || self.backward(whole);
        let (gradients, finite) = in_span(trace_span!("backward"), &device, backward);
        let loads = routing.iter().map(Routing::load);
        Ok(Computed {
            loss,
            extra,
            loads: loads.collect::<Result<_, _>>()?,
            gradients,
            finite,
        })
    }

    /// The gradients of a loss, and with loss scaling whether they are finite.
    fn backward(&self, loss: Tensor<1>) -> (GradientsParams, Option<Finite>) {
        let Some(scaled) = &self.scaled else {
            let gradients = loss.backward();
            training::update(&self.model, &gradients, None);
            return (GradientsParams::from_grads(gradients, &self.model), None);
        };
        let mut gradients = scaled.scaler.scale(loss).backward();
        let finite = scaled.scaler.unscale(&mut gradients, &self.model);
        training::update(&self.model, &gradients, Some(&finite));
        let gradients = GradientsParams::from_grads(gradients, &self.model);
        (gradients, Some(finite))
    }

    /// The batches of a step: those sequences, in order, that one larger batch would have.
    fn batches(&self, step: usize) -> Result<Vec<Batch>, Error> {
        match &self.data {
            TrainingData::Text(ids) => Ok(self.windows(ids, step)),
            TrainingData::Samples(samples) => self.packed(samples, step),
        }
    }

    fn packed(&self, samples: &Dataset, step: usize) -> Result<Vec<Batch>, Error> {
        let (config, device) = (&self.config, &self.device);
        let drawn = samples.drawn(config.seed, step, config.sequences());
        let batches = drawn.chunks(config.batch);
        let batches = batches.map(|sequences| samples.batch(sequences, device));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let learnt = batches.iter().map(|batch| batch.learnt).sum();
        let batch = |batch: Packed| Batch {
            tokens: batch.tokens,
            targets: batch.targets,
            samples: Some(OfSamples {
                documents: batch.documents,
                weights: batch.weights,
                learnt,
            }),
        };
        Ok(batches.into_iter().map(batch).collect())
    }

    fn windows(&self, ids: &[u32], step: usize) -> Vec<Batch> {
        let TrainConfig {
            batch: count,
            sequence,
            seed,
            ..
        } = self.config;
        let number = |&id: &u32| id as i32;
        let all = [self.config.sequences(), sequence];
        let all = batch_of(ids, number, seed, step, all);
        let all = all.unwrap_or_else(|| unreachable!("the text was found to be long enough"));
        let size = count * sequence;
        let of = |ids: &[i32]| {
            let data = TensorData::new(ids.to_vec(), [count, sequence]);
            Tensor::from_data(data, &self.device)
        };
        let batches = all.inputs.chunks_exact(size);
        let batches = batches.zip(all.targets.chunks_exact(size));
        let batch = |(inputs, targets): (&[i32], &[i32])| Batch {
            tokens: of(inputs),
            targets: of(targets),
            samples: None,
        };
        batches.map(batch).collect()
    }

    /// Reports the steps since the last report; during a training, only this waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn report(&mut self) -> Result<Report, Error> {
        let _span = trace_span!("wait").entered();
        let window = std::mem::take(&mut self.window);
        let rate = self.config.rate(self.progress.step.saturating_sub(1));
        let tokens = self.config.tokens();
        let report = Error::guarded(|| {
            Ok(Report {
                fp8: self.fp8()?,
                ..window.read(self.progress.step, rate, tokens)?
            })
        })?;
        let steps_before = self.progress.step - report.losses.len();
        if steps_before == 0 {
            self.progress.first_loss = report.losses.first().copied();
        }
        Ok(report)
    }

    /// Reads the state of loss scaling and FP8 scales; waits for the device.
    fn fp8(&self) -> Result<Option<Fp8Report>, Error> {
        let Some(scaled) = &self.scaled else {
            return Ok(None);
        };
        Fp8Report::read(&scaled.scaler, &self.model).map(Some)
    }

    /// The perplexity of the present model on `ids`, with products in f32 whatever precision it trains in, but in bf16 above weights in bf16;
    /// waits for the device.
    ///
    /// # Errors
    /// As [`Perplexity::of`].
    pub fn perplexity(
        &self,
        ids: &[u32],
        windows: Windows,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Perplexity, Error> {
        let (model, device) = self.judged()?;
        Perplexity::of(&model, ids, windows, &device, progress)
    }

    /// The perplexity of the present model on the tokens of `samples` that are learnt, as [`perplexity`](Self::perplexity) has it on a text.
    ///
    /// # Errors
    /// As [`Perplexity::of_samples`].
    pub fn perplexity_of_samples(
        &self,
        samples: &Dataset,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Perplexity, Error> {
        let (model, device) = self.judged()?;
        Perplexity::of_samples(&model, samples, &device, progress)
    }

    /// The present model without gradients, with products in f32 unless its weights aren't, and its device.
    fn judged(&self) -> Result<(Model, Device), Error> {
        let (device, mut model) = (self.device.clone().inner(), self.model.valid());
        if self.config.precision.recipe().is_some() {
            model = Model::of_values(&self.subject.spec(), &mut &model, &device)?;
        }
        if self.config.base == BaseWeights::F32 {
            model = model.with_products_in(None);
        }
        Ok((model, device))
    }

    /// A checkpoint to resume from this step; waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed, [`Error::Checkpoint`] when Burn can't write a record or the device no
    /// longer gave an optimizer's moment.
    pub fn checkpoint(&self) -> Result<Checkpoint, Error> {
        Error::guarded(|| self.read_checkpoint())
    }

    fn read_checkpoint(&self) -> Result<Checkpoint, Error> {
        let mut progress = self.progress;
        if progress.first_loss.is_none() {
            progress.first_loss = self.window.first_loss()?;
        }
        if let Some(scaled) = &self.scaled {
            progress.loss_scale = Some(scaled.scaler.read()?);
            progress.adam_powers = Some(scaled.guard.powers()?);
        }
        let model = self.record()?;
        let optimizer = self.optimizer.to_record().into_bytes();
        let optimizer = optimizer.map_err(checkpoint::record)?;
        check_record(&optimizer, &self.model, progress.step)?;
        let (subject, data) = (&self.subject, &self.data);
        let checkpoint = Checkpoint::new(self.config, subject, data, progress, model, optimizer);
        let adapter = self.lora.as_ref().map(|lora| lora.config().clone());
        Ok(checkpoint.of_adapter(adapter))
    }

    /// The record of all that is trained.
    fn record(&self) -> Result<ModuleRecord, Error> {
        if let Some(lora) = &self.lora {
            let changes = lora.attached(&self.model)?;
            check_readable(&changes, &self.device)?;
            return Ok(changes.into_record());
        }
        check_readable(&self.model, &self.device)?;
        Ok(self.model.clone().into_record())
    }
}

/// Checks that values fit each other, and that the device has the type that products are computed in.
fn check(
    (config, subject, data): (&TrainConfig, &Subject, &TrainingData),
    device: &Device,
) -> Result<(), Error> {
    subject.check(config)?;
    if let Some(dtype) = config.precision.products() {
        moebius::check_dtype(dtype, device)?;
    }
    subject.check_data(data, config.sequence)
}
