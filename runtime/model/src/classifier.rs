//! A mixture of experts that tells classes of points in the plane apart: small enough to watch it learn.

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

/// Coordinates of a point.
const PLANE: usize = 2;

/// The numbers of a classifier and its training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassifierConfig {
    /// Classes C, at least 2.
    pub classes: usize,
    /// Experts E.
    pub experts: usize,
    /// Experts of a point K.
    pub top_k: usize,
    /// Width of a point's features H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Of AdamW, without weight decay.
    pub learning_rate: f64,
    /// Weight of the Switch loss, which is 1 where experts share the points evenly.
    pub balance: f64,
    /// Of the first weights.
    pub seed: u64,
}

impl Default for ClassifierConfig {
    /// Two classes, the best of four experts.
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
    /// A classifier with weights from `seed`, the same bits on every device.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for numbers that don't fit.
    pub fn init(&self, device: &Device) -> Result<Classifier, Error> {
        self.check()?;
        let random = &mut Random::new(&[self.seed]);
        let (h, c) = (self.hidden, self.classes);
        // Wider than PyTorch's: points lie within ±1, and features that bend only far out tell little.
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
        /// Of each size: a classifier to look at, not a service.
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

/// logits = W_out · (h + experts(h)) + b_out of h = tanh(W_in · point + b_in).
#[derive(Module, Debug)]
pub struct Classifier {
    /// \[H,2\].
    pub w_in: Param<Tensor<2>>,
    /// \[H\].
    pub b_in: Param<Tensor<1>>,
    /// The experts.
    pub moe: MoeLayer,
    /// \[C,H\].
    pub w_out: Param<Tensor<2>>,
    /// \[C\].
    pub b_out: Param<Tensor<1>>,
}

impl Classifier {
    /// Logits \[n,C\] of `points` \[n,2\], and what the experts did.
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

/// Points of the plane and the class of each.
#[derive(Clone, Debug)]
pub struct Samples {
    /// x and y of every point, one after the other.
    pub points: Vec<f32>,
    /// A class for every point.
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

/// How many points there are; finite ones, and at least one.
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
    /// \[n,1\].
    classes: Tensor<2, Int>,
    steps: usize,
}

impl ClassifierTrainer {
    /// A training from its first step on `device`.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for numbers or samples that don't fit.
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

    /// Learns from all samples once. Nothing is read back.
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

    /// What the classifier makes of `points`, x and y of every one; nothing is learnt.
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

    /// Steps done.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        parameters(&self.classifier)
    }
}

/// A step, on the device.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Its number, from 1.
    pub step: usize,
    /// \[1\]: mean cross entropy before the step, in nats a point.
    pub loss: Tensor<1>,
    /// \[1\]: the Switch loss, 1 when even.
    pub balance: Tensor<1>,
    /// \[1\]: share of the points in their own class.
    pub accuracy: Tensor<1>,
    /// \[E\]: points of each expert.
    pub load: Tensor<1, Int>,
}

impl Progress {
    /// Everything in one read: loss, balance, accuracy and load, in this order.
    pub fn transaction(self) -> Transaction {
        Transaction::default()
            .register(self.loss)
            .register(self.balance)
            .register(self.accuracy)
            .register(self.load)
    }
}

/// What a classifier makes of points, on the device.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// \[n,C\].
    pub probabilities: Tensor<2>,
    /// \[n\]: the first expert of each point.
    pub experts: Tensor<1, Int>,
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "classifier_tests.rs"]
mod tests;
