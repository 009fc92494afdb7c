//! A mixture of experts that classifies points in the plane: small enough to watch it learn.

use burn::module::{Module, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::activation::{softmax, tanh};
use burn::tensor::{Device, Int, Tensor, TensorData, Transaction};
use moebius::moe::{Activation, LossWeights, MoeConfig, MoeLayer, MoeOutput, RouteConfig};
use moebius::nn;

use crate::error::Error;
use crate::optimizer::{adam, parameters};
use crate::perplexity::cross_entropy;
use crate::random::{Random, bound};

/// Coordinates per point.
const PLANE: usize = 2;

/// Configuration of a classifier and its training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassifierConfig {
    /// Number of classes C, at least 2.
    pub classes: usize,
    /// Number of experts E.
    pub experts: usize,
    /// Experts per point K.
    pub top_k: usize,
    /// Width H of a point's features.
    pub hidden: usize,
    /// Inner width F of an expert.
    pub inter: usize,
    /// Learning rate of AdamW, which runs without weight decay.
    pub learning_rate: f64,
    /// Weight of the Switch balance loss, which is 1 where experts share the points evenly.
    pub balance: f64,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl Default for ClassifierConfig {
    /// Two classes, and the best of four experts for each point.
    fn default() -> Self {
        Self {
            classes: 2,
            experts: 4,
            top_k: 1,
            hidden: 32,
            inter: 64,
            learning_rate: 0.01,
            balance: 0.01,
            seed: 0,
        }
    }
}

impl ClassifierConfig {
    /// Makes a classifier with weights drawn from `seed`, the same bits on every device.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for values that don't fit.
    pub fn init(&self, device: &Device) -> Result<Classifier, Error> {
        self.check()?;
        let random = &mut Random::new(&[self.seed]);
        let (h, c) = (self.hidden, self.classes);
        // Wider than PyTorch's range: points lie within ±1, and features that bend only far outside tell little.
        let spread = 3.0;
        Ok(Classifier {
            w_in: random.parameter([h, PLANE], spread, device),
            b_in: random.parameter([h], spread / 2.0, device),
            moe: {
                let config = self.moe();
                let weights = random.moe_weights(&config, device);
                config.with_weights(weights)?
            },
            w_out: random.parameter([c, h], bound(h), device),
            b_out: random.parameter([c], bound(h), device),
        })
    }

    fn moe(&self) -> MoeConfig {
        MoeConfig::new(self.hidden, self.inter, self.experts)
            .with_router(RouteConfig::new(self.top_k))
            .with_activation(Activation::Gelu)
            .with_bias(true)
    }

    fn check(&self) -> Result<(), Error> {
        /// Upper bound of each size: a classifier to look at, not a service.
        const MOST: usize = 4096;
        let sizes = [
            ("classes", self.classes, 2),
            ("experts", self.experts, 1),
            ("hidden", self.hidden, 1),
            ("inter", self.inter, 1),
        ];
        for (what, size, least) in sizes {
            let range = least..=MOST;
            Error::check(
                range.contains(&size),
                what,
                format!("{least} to {MOST}"),
                size,
            )?;
        }
        let weights = self.experts.saturating_mul(self.hidden * self.inter);
        let (what, most) = ("experts · hidden · inter", MOST * MOST);
        Error::check(weights <= most, what, format!("at most {most}"), weights)?;
        let range = 1..=self.experts;
        let expected = format!("1 to {}", self.experts);
        Error::check(range.contains(&self.top_k), "top_k", expected, self.top_k)?;
        for (what, value) in [
            ("learning_rate", self.learning_rate),
            ("balance", self.balance),
        ] {
            let fits = value.is_finite() && value >= 0.0;
            Error::check(fits, what, "finite and not negative", value)?;
        }
        Ok(())
    }
}

/// A classifier with logits W_out · (h + experts(h)) + b_out, where h = tanh(W_in · point + b_in).
#[derive(Module, Debug)]
pub struct Classifier {
    /// Input matrix W_in \[H,2\].
    pub w_in: Param<Tensor<2>>,
    /// Input bias b_in \[H\].
    pub b_in: Param<Tensor<1>>,
    /// The mixture of experts over the features h.
    pub moe: MoeLayer,
    /// Output matrix W_out \[C,H\].
    pub w_out: Param<Tensor<2>>,
    /// Output bias b_out \[C\].
    pub b_out: Param<Tensor<1>>,
}

impl Classifier {
    /// Computes the logits \[n,C\] of `points` \[n,2\], and the output of the experts.
    ///
    /// # Errors
    /// [`Error::Moebius`] for no points, or when the device can't run a layer.
    pub fn forward(&self, points: Tensor<2>) -> Result<(Tensor<2>, MoeOutput<2>), Error> {
        let h = tanh(nn::linear(points, self.w_in.val(), Some(self.b_in.val()))?);
        let routed = self.moe.forward(h.clone())?;
        let bias = Some(self.b_out.val());
        let logits = nn::linear(h + routed.y.clone(), self.w_out.val(), bias)?;
        Ok((logits, routed))
    }
}

/// Points in the plane and the class of each.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Coordinates x and y of every point, one point after the other.
    pub points: Vec<f32>,
    /// Class of each point.
    pub classes: Vec<u32>,
}

impl Samples {
    fn check(&self, classes: usize) -> Result<(), Error> {
        let points = count(&self.points)?;
        let got = self.classes.len();
        Error::check(points == got, "classes of the points", points, got)?;
        let expected = format!("below {classes}");
        for class in &self.classes {
            let fits = (*class as usize) < classes;
            Error::check(fits, "class of a point", &expected, class)?;
        }
        Ok(())
    }
}

/// Number of points in `points`; refuses coordinates that aren't finite pairs, and an empty list.
fn count(points: &[f32]) -> Result<usize, Error> {
    let fits = !points.is_empty() && points.len().is_multiple_of(PLANE);
    let expected = "two for every point, at least one point";
    Error::check(fits, "coordinates", expected, points.len())?;
    for value in points {
        Error::check(value.is_finite(), "coordinate", "finite", value)?;
    }
    Ok(points.len() / PLANE)
}

/// A classifier in training on all its samples at once.
pub struct ClassifierTrainer {
    config: ClassifierConfig,
    classifier: Classifier,
    optimizer: ModuleOptimizer,
    points: Tensor<2>,
    /// Class of each sample \[n,1\].
    classes: Tensor<2, Int>,
    steps: usize,
}

impl ClassifierTrainer {
    /// Starts a training on `device`, before its first step.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for values or samples that don't fit.
    pub fn new(config: ClassifierConfig, samples: Samples, device: &Device) -> Result<Self, Error> {
        config.check()?;
        samples.check(config.classes)?;
        let device = device.clone().autodiff();
        let n = samples.classes.len();
        let classes: Vec<i32> = samples.classes.iter().map(|class| *class as i32).collect();
        Ok(Self {
            classifier: config.init(&device)?,
            optimizer: ModuleOptimizer::from(adam(0.0).0),
            points: Tensor::from_data(TensorData::new(samples.points, [n, PLANE]), &device),
            classes: Tensor::from_data(TensorData::new(classes, [n, 1]), &device),
            steps: 0,
            config,
        })
    }

    /// Takes one step on all samples, without reading anything back from the device.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device can't run a layer.
    pub fn step(&mut self) -> Result<Progress, Error> {
        let (logits, routed) = self.classifier.forward(self.points.clone())?;
        let n = self.points.dims()[0];
        let loss = cross_entropy(logits.clone(), self.classes.clone());
        let losses = routed.losses()?;
        let weights = LossWeights {
            switch: self.config.balance,
            z: 0.0,
            ..LossWeights::default()
        };
        let gradients = (loss.clone() + losses.weighted(&weights)).backward();
        let gradients = GradientsParams::from_grads(gradients, &self.classifier);
        let rate = self.config.learning_rate;
        self.classifier = self
            .optimizer
            .step(rate, self.classifier.clone(), gradients);
        self.steps += 1;
        let right = logits.inner().argmax(1).equal(self.classes.clone().inner());
        Ok(Progress {
            step: self.steps,
            loss: loss.inner(),
            balance: losses.switch.inner(),
            accuracy: right.float().reshape([1, n]).mean_dim(1).reshape([1]),
            load: routed.routing.load()?,
        })
    }

    /// Classifies `points` (x and y of each, one after the other) without training on them.
    ///
    /// # Errors
    /// [`Error::Config`] for coordinates that aren't finite pairs, [`Error::Moebius`] when the device
    /// can't run a layer.
    pub fn predict(&self, points: Vec<f32>) -> Result<Prediction, Error> {
        let n = count(&points)?;
        let device = self.points.device().inner();
        let points = Tensor::from_data(TensorData::new(points, [n, PLANE]), &device);
        let (logits, routed) = self.classifier.valid().forward(points)?;
        Ok(Prediction {
            probabilities: softmax(logits, 1),
            experts: routed.routing.indices.narrow(1, 0, 1).reshape([n]),
        })
    }

    /// Number of steps done.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        parameters(&self.classifier)
    }
}

/// Measurements of one training step, as tensors on the device.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Number of the step, from 1.
    pub step: usize,
    /// Mean cross entropy \[1\] before the step's update, in nats per point.
    pub loss: Tensor<1>,
    /// Switch balance loss \[1\], which is 1 where experts share the points evenly.
    pub balance: Tensor<1>,
    /// Share of the points \[1\] that were classified correctly.
    pub accuracy: Tensor<1>,
    /// Points of each expert \[E\].
    pub load: Tensor<1, Int>,
}

impl Progress {
    /// A transaction that reads loss, balance, accuracy and load, in this order.
    pub fn transaction(self) -> Transaction {
        Transaction::default()
            .register(self.loss)
            .register(self.balance)
            .register(self.accuracy)
            .register(self.load)
    }
}

/// A classifier's output for some points, as tensors on the device.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Probability of each class for each point \[n,C\].
    pub probabilities: Tensor<2>,
    /// First expert of each point \[n\].
    pub experts: Tensor<1, Int>,
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "classifier_tests.rs"]
mod tests;
