//! Trainings of an adapter, below which the model's own weights stay as they are.

use burn::module::Module;
use burn::tensor::Device;

use super::{Trainer, check};
use crate::adapter::{Adapter, AdapterConfig};
use crate::checkpoint::{self, Checkpoint, Progress};
use crate::config::{Subject, TrainConfig};
use crate::dataset::TrainingData;
use crate::decoder::Model;
use crate::error::Error;
use crate::load::{self, BaseWeights, LoadOptions, ModelFiles};
use crate::lora::Lora;

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
        let (subject, data) = (Subject::from(files.spec()), data.into());
        check((&config, &subject, &data), device)?;
        let device = device.clone().autodiff();
        let lora = lora_of(&config, adapter, files)?;
        let model = frozen(&config, files, &device, progress)?;
        let model = lora.attach(model, lora.first(config.seed, &device))?;
        let course = (config, subject, data);
        let new = Self::at(Progress::default(), course, model, device)?;
        Ok(Self {
            lora: Some(lora),
            ..new
        })
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
        let adapter = self.lora.as_ref().map(|lora| lora.adapter(&self.model));
        adapter.transpose()
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
    let expected = if half { "bf16" } else { "f32 or codes" };
    let what = "weights below an adapter with such products";
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
