//! Benchmarks for JavaScript: check the result, warm up, then time runs that wait for the device.

mod subject;

use std::rc::Rc;

use js_sys::{Float64Array, Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::{Code, Failure};
use crate::objects::{Options, Record};
use crate::work::{Gpu, Signal, now, promise};
use subject::Subject;

/// Relative error above which a result counts as wrong; sums of some thousand f32 products have 1e-6.
const TOLERANCE: f64 = 1e-4;

/// Number of runs before the timed ones, which compile kernels and fill caches.
const WARM_UP: usize = 2;

/// Measures a product, a layer or an attention on the device.
///
/// Rejects with the code 'device' if the result is wrong, before anything is timed, and with 'cancelled' if the signal
/// is aborted between runs.
#[wasm_bindgen(unchecked_return_type = "Promise<BenchReport>")]
pub fn bench(
    device: &Device,
    #[wasm_bindgen(unchecked_param_type = "BenchOptions")] options: JsValue,
) -> Promise {
    let gpu = device.gpu();
    promise(async move {
        let (order, mut options) = (gpu?, Options::new("bench options", options)?);
        let run = Run::take(&mut options)?;
        let subject = Subject::prepare(&order, options)?;
        run.measure(&order, &subject).await
    })
}

/// Options of a measurement.
struct Run {
    repeats: usize,
    signal: Signal,
    progress: Option<Function>,
}

impl Run {
    fn take(options: &mut Options) -> Result<Self, Failure> {
        Ok(Self {
            repeats: options.count_or("repeats", 10)?,
            signal: Signal::take(options)?,
            progress: options.function("onProgress")?,
        })
    }

    async fn measure(&self, gpu: &Rc<Gpu>, subject: &Subject) -> Result<Record, Failure> {
        self.step(0)?;
        let error = subject.check(gpu).await?;
        if error > TOLERANCE {
            let message =
                format!("wrong result: expected an error below {TOLERANCE}, got {error:e}");
            return Err(Failure::new(Code::DEVICE, message));
        }
        for _ in 0..WARM_UP {
            self.time(gpu, subject).await?;
        }
        let mut times = Vec::with_capacity(self.repeats);
        for done in 0..self.repeats {
            self.step(done)?;
            times.push(self.time(gpu, subject).await?);
        }
        self.step(self.repeats)?;
        let median = median(&times);
        Ok(Record::new()
            .with("what", subject.what)
            .with("precision", subject.precision)
            .with("kernel", subject.kernel)
            .with("medianMs", median)
            .with("timesMs", Float64Array::from(times.as_slice()))
            .with("flops", subject.flops)
            .with("gflops", subject.flops / median / 1e6)
            .with("weightBytes", subject.weight_bytes as f64)
            .with("error", error))
    }

    /// Reports the progress; fails if the signal is aborted.
    fn step(&self, done: usize) -> Result<(), Failure> {
        self.signal.check()?;
        if let Some(progress) = &self.progress {
            let (done, of) = (done as f64, self.repeats as f64);
            progress
                .call2(&JsValue::NULL, &done.into(), &of.into())
                .map_err(|error| {
                    Failure::new(Code::DEVICE, format!("onProgress threw: {error:?}"))
                })?;
        }
        Ok(())
    }

    async fn time(&self, gpu: &Rc<Gpu>, subject: &Subject) -> Result<f64, Failure> {
        self.signal.check()?;
        let start = now();
        subject.launch()?;
        gpu.finish().await?;
        Ok(now() - start)
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) {
        f64::midpoint(times[middle - 1], times[middle])
    } else {
        times[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
