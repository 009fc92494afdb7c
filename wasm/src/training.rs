//! Training of a classifier of points in the plane, for JavaScript.

use std::cell::RefCell;
use std::rc::Rc;

use burn::tensor::{TensorData, Transaction};
use js_sys::{Int32Array, Promise, Uint32Array};
use moebius_model::{ClassifierConfig, ClassifierTrainer, Samples};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::Failure;
use crate::objects::{
    Options, Record, counts, floats, given, number, numbers, whole, whole_number,
};
use crate::work::{Gpu, Held, Signal, now, promise};

/// Training of a small mixture of experts that classifies points.
#[wasm_bindgen]
pub struct MoeTraining(Held<Training>);

struct Training {
    gpu: Rc<Gpu>,
    trainer: RefCell<ClassifierTrainer>,
    classes: usize,
}

#[wasm_bindgen]
impl MoeTraining {
    /// Starts a training on points [n, 2] with a label each.
    #[wasm_bindgen(constructor)]
    pub fn new(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "TrainingOptions")] options: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] points: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Uint32Array")] labels: JsValue,
    ) -> Result<Self, JsValue> {
        let config = config(options)?;
        let samples = Samples {
            points: floats("points", &points)?,
            classes: whole("labels", &labels)?,
        };
        let gpu = device.gpu()?;
        let trainer = ClassifierTrainer::new(config, samples, &gpu.burn).map_err(Failure::from)?;
        let training = Training {
            gpu,
            trainer: RefCell::new(trainer),
            classes: config.classes,
        };
        Ok(Self(Held::new("training", training)))
    }

    /// Trains on all points `count` times, once by default; resolves with the report of the last step.
    ///
    /// Rejects with the code 'cancelled' if the signal is aborted between steps; completed steps are kept.
    #[wasm_bindgen(unchecked_return_type = "Promise<TrainingReport>")]
    pub fn step(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] count: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        let training = self.0.get();
        promise(async move {
            let (training, signal) = (training?, Signal::only(options)?);
            let count = steps(count)?;
            let start = now();
            let mut report = training.step(&signal).await?;
            for _ in 1..count {
                report = training.step(&signal).await?;
            }
            Ok(report.with("milliseconds", now() - start))
        })
    }

    /// Computes the class probabilities and first experts of points [m, 2], without training on them.
    #[wasm_bindgen(unchecked_return_type = "Promise<Prediction>")]
    pub fn predict(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] points: JsValue,
    ) -> Promise {
        let training = self.0.get();
        promise(async move { training?.predict(floats("points", &points)?).await })
    }

    /// Number of completed steps.
    #[wasm_bindgen(getter)]
    pub fn steps(&self) -> Result<f64, JsValue> {
        Ok(self.0.get()?.trainer.borrow().steps() as f64)
    }

    /// Number of trained parameters.
    #[wasm_bindgen(getter)]
    pub fn parameters(&self) -> Result<f64, JsValue> {
        Ok(self.0.get()?.trainer.borrow().parameters() as f64)
    }

    /// Releases the training's memory; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

impl Training {
    /// Runs one step and returns its report. The wait lets the page go on, and a signal cancel.
    async fn step(&self, signal: &Signal) -> Result<Record, Failure> {
        signal.check()?;
        self.gpu.alive()?;
        // The borrow ends before the wait, so that other calls may run a step in between.
        let progress = self.trainer.borrow_mut().step()?;
        let step = progress.step;
        let data = self.gpu.read(progress.transaction()).await?;
        Ok(Record::new()
            .with("step", step as f64)
            .with("loss", number(&data, 0))
            .with("balance", number(&data, 1))
            .with("accuracy", number(&data, 2))
            .with("load", counts(&data, 3)))
    }

    async fn predict(&self, points: Vec<f32>) -> Result<Record, Failure> {
        self.gpu.alive()?;
        let predicted = self.trainer.borrow().predict(points)?;
        let tensors = Transaction::default()
            .register(predicted.probabilities)
            .register(predicted.experts);
        let data = self.gpu.read(tensors).await?;
        let experts: Vec<i32> = data[1].iter().collect();
        let classes = classes(&data[0], self.classes);
        Ok(Record::new()
            .with("classes", Uint32Array::from(classes.as_slice()))
            .with("probabilities", numbers(&data, 0))
            .with("experts", Int32Array::from(experts.as_slice())))
    }
}

/// The most probable class of each row, the lowest if several are equal.
fn classes(probabilities: &TensorData, classes: usize) -> Vec<u32> {
    let values: Vec<f32> = probabilities.iter().collect();
    let best = |row: &[f32]| {
        (0..row.len())
            .rev()
            .max_by(|a, b| row[*a].total_cmp(&row[*b]))
    };
    let rows = values.chunks_exact(classes);
    rows.map(|row| best(row).unwrap_or(0) as u32).collect()
}

fn config(options: JsValue) -> Result<ClassifierConfig, Failure> {
    let mut options = Options::new("training options", options)?;
    let default = ClassifierConfig::default();
    let config = ClassifierConfig {
        classes: options.size("classes")?,
        experts: options.count_or("experts", default.experts)?,
        top_k: options.count_or("topK", default.top_k)?,
        hidden: options.count_or("hidden", default.hidden)?,
        inter: options.count_or("inter", default.inter)?,
        learning_rate: options
            .number("learningRate")?
            .unwrap_or(default.learning_rate),
        balance: options.number("balance")?.unwrap_or(default.balance),
        seed: options.count("seed", 0)?.unwrap_or(0) as u64,
    };
    options.finish()?;
    Ok(config)
}

/// The number of steps that a call asks for: 1, unless it says another.
pub(crate) fn steps(count: JsValue) -> Result<usize, Failure> {
    let Some(count) = given(count) else {
        return Ok(1);
    };
    let refused = || Failure::expected("steps", "a whole number from 1", format!("{count:?}"));
    whole_number(&count, 1).ok_or_else(refused)
}
