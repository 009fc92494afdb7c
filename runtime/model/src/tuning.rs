//! Training of published models on a text: fine-tuning from their weights, or training from drawn ones.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius::moe::LossWeights;
use moebius_weights::Unfit;

use crate::adam;
use crate::clip::clip;
use crate::config::rate;
use crate::decoder::{Drawn, Logits, Model, ModelSpec, Uploaded};
use crate::error::Error;
use crate::likelihood::cross_entropy;
use crate::load::{LoadOptions, ModelFiles, Progress};
use crate::parameters::parameters;
use crate::perplexity::{Perplexity, Windows};
use crate::random::Random;
use crate::report::{Report, Window};
use crate::text::{Batch, batch_of};

/// A training, repeatable from its numbers, its text and its first weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuningConfig {
    /// Sequences in a step.
    pub batch: usize,
    /// Tokens in a sequence.
    pub sequence: usize,
    /// Steps in all.
    pub steps: usize,
    /// Steps until the learning rate is at its peak.
    pub warm_up: usize,
    /// The peak.
    pub learning_rate: f64,
    /// AdamW's.
    pub weight_decay: f32,
    /// The largest norm of the gradient of all parameters.
    pub clip_norm: f32,
    /// Weight of the balance loss (Switch) of each layer with experts.
    pub balance: f64,
    /// Weight of each router's z-loss.
    pub z: f64,
    /// Decides the batches, and weights that are drawn.
    pub seed: u64,
}

impl Default for TuningConfig {
    fn default() -> Self {
        Self {
            batch: 4,
            sequence: 128,
            steps: 300,
            warm_up: 20,
            learning_rate: 1e-4,
            weight_decay: 0.01,
            clip_norm: 1.0,
            balance: 0.01,
            z: 0.001,
            seed: 0,
        }
    }
}

impl TuningConfig {
    /// Tokens in a step.
    pub fn tokens(&self) -> usize {
        self.batch * self.sequence
    }

    /// Floating-point operations of a step's products with weights: two for each multiply-add forward, and twice as many backward.
    pub fn step_flops(&self, spec: &ModelSpec) -> f64 {
        // As floats, because the numbers may not have been checked.
        6.0 * self.batch as f64 * self.sequence as f64 * spec.active_parameters()
    }

    fn check(&self) -> Result<(), Error> {
        let sizes = [
            ("batch", self.batch),
            ("sequence", self.sequence),
            ("steps", self.steps),
        ];
        for (what, size) in sizes {
            Error::check(size > 0, what, "at least 1", size)?;
        }
        // What a kernel counts its elements with.
        let tokens = self.batch.checked_mul(self.sequence);
        let fits = tokens.is_some_and(|tokens| tokens < i32::MAX as usize);
        let got = format!("{} sequences of {}", self.batch, self.sequence);
        Error::check(fits, "batch", "fewer tokens", got)?;
        Error::check_positive("learning rate", self.learning_rate)?;
        Error::check_positive("clipping norm", self.clip_norm)?;
        Error::check_not_negative("weight decay", self.weight_decay)?;
        Error::check_not_negative("balance", self.balance)?;
        Error::check_not_negative("z", self.z)?;
        Ok(())
    }
}

/// A published model being trained, in f32.
pub struct Tuner {
    config: TuningConfig,
    ids: Vec<u32>,
    device: Device,
    model: Model,
    optimizer: ModuleOptimizer,
    steps: usize,
    first_loss: Option<f32>,
    window: Window,
}

impl Tuner {
    /// Of the weights in `files`, decoded where they are codes; `progress` hears of each tensor.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers that don't fit each other, the text `ids` or the model, and as [`ModelFiles::load`].
    pub fn load(
        config: TuningConfig,
        files: &ModelFiles,
        ids: Vec<u32>,
        device: &Device,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        check(&config, files.spec(), &ids)?;
        let device = device.clone().autodiff();
        let options = LoadOptions {
            keep_fp8: false,
            ..LoadOptions::default()
        };
        let model = files.load(&device, options, progress)?;
        Ok(Self::of(config, model, ids, device))
    }

    /// Of [`Drawn`] weights for `spec`.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers that don't fit each other, the text `ids` or the model, and [`Error::Moebius`] where the device can't
    /// hold or run something.
    pub fn drawn(
        config: TuningConfig,
        spec: &ModelSpec,
        ids: Vec<u32>,
        device: &Device,
    ) -> Result<Self, Error> {
        check(&config, spec, &ids)?;
        let device = device.clone().autodiff();
        let mut weights = Uploaded {
            values: &mut Drawn::new(spec, config.seed),
            spec,
            device: &device,
            dtype: DType::F32,
        };
        let model = Model::load(spec, &mut weights)?;
        Ok(Self::of(config, model, ids, device))
    }

    fn of(config: TuningConfig, model: Model, ids: Vec<u32>, device: Device) -> Self {
        Self {
            optimizer: ModuleOptimizer::from(adam::adam(config.weight_decay).0),
            steps: 0,
            first_loss: None,
            window: Window::default(),
            config,
            ids,
            device,
            model,
        }
    }

    /// The numbers of this training.
    pub fn config(&self) -> &TuningConfig {
        &self.config
    }

    /// The model as it is now, on a graph.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        parameters(&self.model)
    }

    /// Steps done.
    pub fn steps_done(&self) -> usize {
        self.steps
    }

    /// Whether all steps are done.
    pub fn is_finished(&self) -> bool {
        self.steps >= self.config.steps
    }

    /// Cross entropy of the very first step, once it was reported.
    pub fn first_loss(&self) -> Option<f32> {
        self.first_loss
    }

    /// Learns from one batch. Nothing is read back, so an accelerator never waits for the host.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device can't run a layer.
    pub fn step(&mut self) -> Result<(), Error> {
        self.window.start();
        // Whatever a layer draws on the device depends on the step, not on the steps before it.
        let seeds = [self.config.seed, self.steps as u64];
        self.device.seed(Random::new(&seeds).next());
        let (output, loss) = self.forward()?;
        let weights = LossWeights {
            switch: self.config.balance,
            z: self.config.z,
            ..LossWeights::default()
        };
        let mut extra = Tensor::zeros([1], &self.device);
        for routing in &output.routing {
            extra = extra + routing.losses(1)?.weighted(&weights);
        }
        let gradients = (loss.clone() + extra.clone()).backward();
        let gradients = GradientsParams::from_grads(gradients, &self.model);
        let gradients = clip(&self.model, gradients, self.config.clip_norm);
        let rate = self.rate(self.steps);
        self.model = self.optimizer.step(rate, self.model.clone(), gradients);
        let loads = output.routing.iter().map(|routing| {
            let load = routing.load()?;
            // These layers have no capacity.
            let dropped = Tensor::zeros([1], &load.device());
            Ok((load, dropped))
        });
        self.window.add(loss, extra, loads)?;
        self.steps += 1;
        Ok(())
    }

    fn rate(&self, step: usize) -> f64 {
        let of = [self.config.warm_up, self.config.steps];
        rate(self.config.learning_rate, of, step)
    }

    /// The forward of a step: what came out, and its mean cross entropy \[1\].
    fn forward(&self) -> Result<(Logits, Tensor<1>), Error> {
        let TuningConfig {
            batch,
            sequence,
            seed,
            ..
        } = self.config;
        let Batch { inputs, targets } = self.batch(seed, [batch, sequence])?;
        let tensor = |ids: Vec<i32>| {
            Tensor::<2, Int>::from_data(TensorData::new(ids, [batch, sequence]), &self.device)
        };
        let output = self.model.forward(tensor(inputs))?;
        let [_, _, words] = output.logits.dims();
        let rows = output.logits.clone().reshape([batch * sequence, words]);
        let loss = cross_entropy(rows, tensor(targets));
        Ok((output, loss))
    }

    fn batch(&self, seed: u64, sizes: [usize; 2]) -> Result<Batch, Error> {
        let batch = batch_of(&self.ids, |&id| id as i32, (seed, self.steps), sizes);
        batch.ok_or_else(|| too_short(sizes[1], self.ids.len()))
    }

    /// The steps since the last report; the one place that waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn report(&mut self) -> Result<Report, Error> {
        let window = std::mem::take(&mut self.window);
        let rate = self.rate(self.steps.saturating_sub(1));
        let of_step = (rate, self.config.tokens());
        let report = Error::guarded(|| window.read(self.steps, of_step))?;
        if self.first_loss.is_none() {
            self.first_loss = report.losses.first().copied();
        }
        Ok(report)
    }

    /// How well the model as it is now foresees `ids`; waits for the device.
    ///
    /// # Errors
    /// As [`Perplexity::of`].
    pub fn perplexity(
        &self,
        ids: &[u32],
        windows: Windows,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Perplexity, Error> {
        let device = self.device.clone().inner();
        Perplexity::of(&self.model.valid(), ids, windows, &device, progress)
    }
}

fn check(config: &TuningConfig, spec: &ModelSpec, ids: &[u32]) -> Result<(), Error> {
    config.check()?;
    spec.check_tokens(ids)?;
    if ids.len() > config.sequence {
        Ok(())
    } else {
        Err(too_short(config.sequence, ids.len()))
    }
}

fn too_short(sequence: usize, got: usize) -> Error {
    let expected = format!("more than {sequence} tokens");
    Error::Config(Unfit::new("text", expected, got))
}
