//! The training loop, one step at a time.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use moebius::fp8::training::{self, LossScaler, LossScaling, StepGuard};

use crate::adam;
use crate::bytes::{Decoder, DecoderOutput};
use crate::checkpoint::{self, Checkpoint, Progress};
use crate::clip::clip;
use crate::config::TrainConfig;
use crate::error::Error;
use crate::likelihood::cross_entropy;
use crate::parameters::{check_readable, parameters};
use crate::random::Random;
use crate::report::{Fp8Report, Report, Window};
use crate::text::Text;

/// A decoder being trained.
pub struct Trainer {
    config: TrainConfig,
    text: Text,
    device: Device,
    decoder: Decoder,
    optimizer: ModuleOptimizer,
    scaled: Option<Scaled>,
    progress: Progress,
    window: Window,
}

/// What a training with loss scaling has besides: a step that overflowed doesn't count.
struct Scaled {
    scaler: LossScaler,
    guard: StepGuard,
}

impl Scaled {
    /// From the beginning, or where `progress` is.
    fn new(
        scaling: LossScaling,
        (progress, guard): (&Progress, StepGuard),
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

impl Trainer {
    /// A training from its first step on `device`.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for numbers that don't fit each other or the text.
    pub fn new(config: TrainConfig, text: Text, device: &Device) -> Result<Self, Error> {
        Self::at(Progress::default(), config, text, device)
    }

    fn at(
        progress: Progress,
        config: TrainConfig,
        text: Text,
        device: &Device,
    ) -> Result<Self, Error> {
        config.check()?;
        text.batch(config.seed, 0, 0, config.decoder.sequence)?;
        let device = device.clone().autodiff();
        let (adam, guard) = adam::adam(config.weight_decay);
        Ok(Self {
            decoder: config.decoder.init(config.seed, &device)?,
            optimizer: ModuleOptimizer::from(adam),
            scaled: Scaled::new(config.loss_scaling, (&progress, guard), &device)?,
            progress,
            window: Window::default(),
            config,
            text,
            device,
        })
    }

    /// The training that `checkpoint` was taken of; on the same kind of device it goes on bit for bit
    /// as if it had never stopped. Each step seeds its device, so that isn't promised of two trainings on
    /// one device at the same time.
    ///
    /// # Errors
    /// As [`Trainer::new`], and [`Error::Checkpoint`] for a checkpoint of another text or with records
    /// that don't fit the decoder.
    pub fn resume(checkpoint: Checkpoint, text: Text, device: &Device) -> Result<Self, Error> {
        checkpoint.check_text(&text)?;
        let progress = checkpoint.progress();
        let new = Self::at(progress, *checkpoint.config(), text, device)?;
        let (decoder, optimizer) = checkpoint.into_records();
        let decoder = new.decoder.try_load_record(decoder);
        let decoder = decoder.map_err(checkpoint::record)?;
        adam::check_record(&optimizer, &decoder, progress.step)?;
        let optimizer = OptimizerRecord::from_bytes(optimizer).map_err(checkpoint::record)?;
        Ok(Self {
            decoder,
            optimizer: new.optimizer.load_record(optimizer),
            ..new
        })
    }

    /// The numbers of this training.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The decoder as it is now.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        parameters(&self.decoder)
    }

    /// Steps done.
    pub fn steps_done(&self) -> usize {
        self.progress.step
    }

    /// Whether all steps are done.
    pub fn is_finished(&self) -> bool {
        self.progress.step >= self.config.steps
    }

    /// Cross entropy of the very first step, once it was reported.
    pub fn first_loss(&self) -> Option<f32> {
        self.progress.first_loss
    }

    /// Learns from one batch. Nothing is read back, so an accelerator never waits for the host.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device can't run a layer.
    pub fn step(&mut self) -> Result<(), Error> {
        self.window.start();
        let step = self.progress.step;
        // Whatever a layer draws on the device depends on the step, not on the steps before it.
        self.device
            .seed(Random::new(&[self.config.seed, step as u64]).next());
        let (output, loss) = self.forward(step)?;
        let mut extra = Tensor::zeros([1], &self.device);
        for moe in &output.moe {
            extra = extra + moe.losses()?.weighted(&self.config.losses());
        }
        let gradients = self.backward(loss.clone() + extra.clone());
        let gradients = GradientsParams::from_grads(gradients, &self.decoder);
        let gradients = clip(&self.decoder, gradients, self.config.clip_norm);
        let rate = self.config.rate(step);
        self.decoder = self.optimizer.step(rate, self.decoder.clone(), gradients);
        let layers = output.moe.iter();
        let loads = layers.map(|moe| Ok((moe.routing.load()?, moe.dropped_slots.clone())));
        self.window.add(loss, extra, loads)?;
        self.progress.step += 1;
        Ok(())
    }

    /// The gradients of a loss, which the next step of the optimizer takes or leaves as its guard
    /// says.
    fn backward(&mut self, loss: Tensor<1>) -> Gradients {
        let Some(scaled) = &mut self.scaled else {
            let gradients = loss.backward();
            training::update(&self.decoder, &gradients, None);
            return gradients;
        };
        let mut gradients = scaled.scaler.scale(loss).backward();
        let finite = scaled.scaler.unscale(&mut gradients, &self.decoder);
        training::update(&self.decoder, &gradients, Some(&finite));
        scaled.guard.set(&finite);
        scaled.scaler.update(&finite);
        gradients
    }

    /// The forward of a step: what came out, and its mean cross entropy \[1\].
    fn forward(&self, step: usize) -> Result<(DecoderOutput, Tensor<1>), Error> {
        let (count, length) = (self.config.batch, self.config.decoder.sequence);
        let batch = self.text.batch(self.config.seed, step, count, length)?;
        let tensor = |bytes: Vec<i32>| {
            Tensor::<2, Int>::from_data(TensorData::new(bytes, [count, length]), &self.device)
        };
        let output = self.decoder.forward(tensor(batch.inputs))?;
        let loss = cross_entropy(output.logits.clone(), tensor(batch.targets));
        Ok((output, loss))
    }

    /// The steps since the last report; the one place that waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn report(&mut self) -> Result<Report, Error> {
        let window = std::mem::take(&mut self.window);
        let rate = self.config.rate(self.progress.step.saturating_sub(1));
        let tokens = self.config.tokens();
        let report = Error::guarded(|| {
            Ok(Report {
                fp8: self.fp8()?,
                ..window.read(self.progress.step, (rate, tokens))?
            })
        })?;
        let steps_before = self.progress.step - report.losses.len();
        if steps_before == 0 {
            self.progress.first_loss = report.losses.first().copied();
        }
        Ok(report)
    }

    /// How scales and loss scaling do; waits for the device.
    fn fp8(&self) -> Result<Option<Fp8Report>, Error> {
        let Some(scaled) = &self.scaled else {
            return Ok(None);
        };
        Fp8Report::read(&scaled.scaler, &self.decoder).map(Some)
    }

    /// Everything needed to go on from here; waits for the device.
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
        check_readable(&self.decoder, &self.device)?;
        let optimizer = self.optimizer.to_record().into_bytes();
        let optimizer = optimizer.map_err(checkpoint::record)?;
        adam::check_record(&optimizer, &self.decoder, progress.step)?;
        let records = (self.decoder.clone().into_record(), optimizer);
        Ok(Checkpoint::new(self.config, &self.text, progress, records))
    }
}
