//! Trainings of an adapter, below which the model's own weights stay as they are.

use burn::module::Module;
use burn::tensor::{Device, TensorData, Transaction};
use moebius_weights::Unfit;

use super::{Trainer, check};
use crate::adapter::{Adapter, AdapterConfig};
use crate::checkpoint::{self, Checkpoint, Progress};
use crate::config::{Subject, TrainConfig};
use crate::dataset::TrainingData;
use crate::decoder::Model;
use crate::error::Error;
use crate::load::{self, BaseWeights, LoadOptions, ModelFiles};
use crate::lora::Lora;

/// The training of an adapter before its model is loaded: for programs that load it in pieces ([`ModelFiles::begin`]).
pub struct AdapterCourse {
    config: TrainConfig,
    subject: Subject,
    data: TrainingData,
    device: Device,
    lora: Lora,
}

impl AdapterCourse {
    /// Prepares what [`Trainer::load_adapter`] trains.
    ///
    /// # Errors
    /// As [`Trainer::load_adapter`], but for those of loading.
    pub fn new(
        config: TrainConfig,
        adapter: AdapterConfig,
        files: &ModelFiles,
        data: impl Into<TrainingData>,
        device: &Device,
    ) -> Result<Self, Error> {
        let (subject, data) = (Subject::from(files.spec()), data.into());
        // First, because the words of a model that takes no adapter may have no tokens of the text.
        let lora = lora_of(&config, adapter, files)?;
        check((&config, &subject, &data), device)?;
        Ok(Self {
            lora,
            device: device.clone().autodiff(),
            config,
            subject,
            data,
        })
    }

    /// How the model must be loaded.
    pub fn options(&self) -> LoadOptions {
        LoadOptions::below_adapter(self.config.base)
    }

    /// The device that the model must be loaded to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Starts the training with the loaded model. At first its adapter changes nothing.
    ///
    /// # Errors
    /// [`Error::Config`] for a model without the weights that the adapter changes.
    pub fn begin(self, model: Model) -> Result<Trainer, Error> {
        let Self { lora, device, .. } = self;
        let changes = lora.first(self.config.seed, &device);
        let model = lora.attach(model.no_grad(), changes)?;
        let course = (self.config, self.subject, self.data);
        let new = Trainer::at(Progress::default(), course, model, device)?;
        Ok(Trainer {
            lora: Some(lora),
            ..new
        })
    }
}

impl Trainer {
    /// Starts a training of an adapter of the model in `files`, whose weights stay as they are: what `config` says ([`TrainConfig::base`]), with
    /// codes and no other copy where it names such. `progress` is called after each tensor. At first the adapter changes nothing.
    ///
    /// # Errors
    /// As [`Trainer::load`] and [`ModelFiles::check_memory`], and [`Error::Config`] for FP8, for products in bf16 above other weights than bf16
    /// and the other way round, for targets that name no linear module of the model, and for those that the model doesn't keep as modules: rows
    /// in another order, and experts in one tensor.
    pub fn load_adapter(
        config: TrainConfig,
        adapter: AdapterConfig,
        files: &ModelFiles,
        data: impl Into<TrainingData>,
        device: &Device,
        progress: &mut dyn FnMut(load::Progress<'_>),
    ) -> Result<Self, Error> {
        let course = AdapterCourse::new(config, adapter, files, data, device)?;
        let model = files.load(course.device(), course.options(), progress)?;
        course.begin(model)
    }

    /// Resumes the training of an adapter from `checkpoint`, as [`Trainer::resume`] does, with the model in `files`, whose weights the checkpoint
    /// doesn't have: they must be those that the training began with.
    ///
    /// # Errors
    /// As [`Trainer::load_adapter`], and [`Error::Checkpoint`] for a checkpoint of another model or text or of a training of all weights, or
    /// with records that don't fit.
    pub fn resume_adapter(
        checkpoint: Checkpoint,
        files: &ModelFiles,
        data: impl Into<TrainingData>,
        device: &Device,
        progress: &mut dyn FnMut(load::Progress<'_>),
    ) -> Result<Self, Error> {
        let adapter = checkpoint.trained_adapter()?;
        let course = (Subject::from(files.spec()), data.into());
        Self::resumed(checkpoint, course, device, |config, _, record, device| {
            let lora = lora_of(config, adapter, files)?;
            let model = frozen(config, files, device, progress)?;
            let changes = lora.first(config.seed, device);
            let changes = changes.try_load_record(record);
            let model = lora.attach(model, changes.map_err(checkpoint::record)?)?;
            Ok((model, Some(lora)))
        })
    }

    /// The adapter in its present state; `None` in a training of all weights. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn adapter(&self) -> Result<Option<Adapter>, Error> {
        let Some(lora) = &self.lora else {
            return Ok(None);
        };
        let factors = lora.factors(&self.model)?.into_iter();
        let values = factors.map(|factor| factor.try_into_vec_as::<f32>().map_err(Error::device));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        lora.adapter(&values).map(Some)
    }

    /// A transaction that reads what [`adapter_of`](Self::adapter_of) makes an adapter of, for programs that mustn't wait for the device.
    ///
    /// # Errors
    /// [`Error::Config`] in a training of all weights.
    pub fn adapter_reads(&self) -> Result<Transaction, Error> {
        let factors = self.low_rank()?.factors(&self.model)?.into_iter();
        Ok(factors.fold(Transaction::default(), Transaction::register))
    }

    /// The adapter of the moment at which [`adapter_reads`](Self::adapter_reads) was called, from what that transaction read.
    ///
    /// # Errors
    /// [`Error::Config`] in a training of all weights, and for data of another transaction.
    pub fn adapter_of(&self, read: &[TensorData]) -> Result<Adapter, Error> {
        let values: Vec<Vec<f32>> = read.iter().map(|data| data.iter().collect()).collect();
        self.low_rank()?.adapter(&values)
    }

    /// What is trained of the model below an adapter.
    fn low_rank(&self) -> Result<&Lora, Error> {
        let (what, expected) = ("a training", "one of an adapter");
        let fault = || Error::Config(Unfit::new(what, expected, "one of all weights"));
        self.lora.as_ref().ok_or_else(fault)
    }
}

fn lora_of(
    config: &TrainConfig,
    adapter: AdapterConfig,
    files: &ModelFiles,
) -> Result<Lora, Error> {
    let what = "precision of a training of an adapter";
    let rounded = config.precision.recipe().is_some();
    Error::check(!rounded, what, "f32 or bf16", "FP8")?;
    let [half, below] = [
        config.precision.products().is_some(),
        config.base == BaseWeights::Bf16,
    ];
    let (what, expected) = if half {
        ("weights below an adapter with products in bf16", "bf16")
    } else {
        (
            "weights below an adapter with products in f32",
            "f32 or codes",
        )
    };
    Error::check(half == below, what, expected, config.base)?;
    Lora::of(adapter, files)
}

/// The model with weights that don't train.
fn frozen(
    config: &TrainConfig,
    files: &ModelFiles,
    device: &Device,
    progress: &mut dyn FnMut(load::Progress<'_>),
) -> Result<Model, Error> {
    let options = LoadOptions::below_adapter(config.base);
    Ok(files.load(device, options, progress)?.no_grad())
}
