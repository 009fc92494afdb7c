//! The check before the timing: sampled outputs against the same product in the f64 oracle.

use super::LinearBench;
use super::data::HostData;
use crate::BenchError;
use crate::oracle::{distance, spread, tolerance};
use burn::tensor::{Int, Tensor};
use moebius::Error;
use moebius::fp8::{ActivationScaling, Activations, Fp8Format, Fp8Scales, Weight};
use moebius_ops::scaling::Granularity;
use moebius_ops::{Element, Fault, GroupedGemm, HostTensor, Operation, Quantize};
use moebius_ops::{grouped_gemm, quantize};

/// Number of rows and of columns of the output that are checked, spread evenly.
const SAMPLES: [usize; 2] = [16, 64];

/// Largest relative L2 error that verifies; rounding of f32 sums grows with the root of their length.
pub(super) fn largest_error(bench: &LinearBench) -> f64 {
    tolerance(bench.dtype) * (bench.k as f64 / 4096.0).sqrt().max(1.0)
}

/// Sizes of the layer, and the sampled rows and columns of its output.
pub(super) struct Oracle {
    n: usize,
    k: usize,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl Oracle {
    pub(super) fn new(bench: &LinearBench) -> Self {
        Self {
            n: bench.n,
            k: bench.k,
            rows: spread(SAMPLES[0], bench.m).collect(),
            columns: spread(SAMPLES[1], bench.n).collect(),
        }
    }

    /// Relative L2 error of the sampled outputs of a float layer with `weights` \[n, k\].
    pub(super) fn float_error(&self, x: &[f32], weights: &[f32], y: &[f32]) -> Result<f64, Error> {
        let x = HostTensor::of_f32(&lines(x, self.k, &self.rows));
        let weights = HostTensor::of_f32(&lines(weights, self.k, &self.columns));
        self.error(x, weights, y)
    }

    /// Relative L2 error of the sampled outputs of an FP8 layer against a product with its decoded weights, and
    /// relative L2 distance of the decoded weights from the original ones.
    pub(super) fn fp8_errors(
        &self,
        weight: &Weight<2>,
        data: &HostData,
        y: &[f32],
    ) -> Result<[f64; 2], BenchError> {
        let decoded = decoded(weight)?;
        let columns = lines(decoded.floats(), self.k, &self.columns);
        let x = lines(&data.x, self.k, &self.rows);
        let source = weight.activations().map(ActivationScaling::source);
        let x = activations(source.unwrap_or_default(), &x, self.k)?;
        Ok([
            self.error(x, columns.into(), y)?,
            distance(decoded.floats(), &data.weights),
        ])
    }

    /// Relative L2 error of the sampled outputs: `x` and `weights` are the sampled lines, `y` all outputs.
    fn error(&self, x: HostTensor, weights: HostTensor, y: &[f32]) -> Result<f64, Error> {
        let (rows, columns) = (&self.rows, &self.columns);
        let problem = grouped_gemm::Problem::dense(rows.len(), columns.len(), self.k)?;
        let want = result(GroupedGemm::Linear(problem), &[x, weights])?;
        let got = rows.iter().flat_map(|row| {
            let columns = columns.iter();
            columns.filter_map(move |column| y.get(row * self.n + column))
        });
        let got: Vec<f32> = got.copied().collect();
        Ok(distance(&got, want.floats()))
    }
}

/// Expected result of an operation with one result.
fn result(operation: impl Into<Operation>, operands: &[HostTensor]) -> Result<HostTensor, Error> {
    Ok(operation.into().reference(operands)?.swap_remove(0))
}

/// Values of the `picked` lines of `k` values each.
fn lines<T: Copy>(values: &[T], k: usize, picked: &[usize]) -> Vec<T> {
    let lines = picked.iter().flat_map(|line| &values[line * k..][..k]);
    lines.copied().collect()
}

/// W \[n, k\], decoded on the host from its codes and scales.
fn decoded(weight: &Weight<2>) -> Result<HostTensor, BenchError> {
    let codes = weight.codes();
    let codes = codes.ok_or_else(|| BenchError::device("no codes"))?;
    let weights = codes.to_tensor()?;
    let layout = weights.layout();
    let scheme = layout.scheme;
    let problem = quantize::Problem::new(
        layout.shape,
        Element::F32,
        scheme.granularity,
        scheme.format,
    );
    let problem = problem.map_err(Error::from)?;
    let scales = match weights.scales() {
        Fp8Scales::F32(scales) => {
            let scales = scales.clone().try_into_vec_as::<f32>();
            HostTensor::of_f32(&scales.map_err(BenchError::device)?)
        }
        Fp8Scales::E8M0(bytes) => words(bytes)?,
    };
    let operands = [words(weights.words())?, scales];
    Ok(result(Quantize::Dequantize(problem), &operands)?)
}

fn words(tensor: &Tensor<3, Int>) -> Result<HostTensor, BenchError> {
    let words = tensor.clone().try_into_vec_as::<i64>();
    let words = words.map_err(BenchError::device)?.into_iter();
    Ok(words.map(|word| word as u32).collect::<Vec<u32>>().into())
}

/// Rows of x, rounded as the layer rounds activations.
fn activations(source: Activations, x: &[f32], k: usize) -> Result<HostTensor, Error> {
    let values = HostTensor::of_f32(x);
    let granularity = match source {
        Activations::Float => return Ok(values),
        Activations::Dynamic(Granularity::Row) => Granularity::Row,
        other => {
            let expected = "float, or a scale for each row";
            let got = format!("{other:?}");
            return Err(Fault::Config
                .error("activations of a benchmark", expected, got)
                .into());
        }
    };
    let shape = [1, x.len() / k, k];
    let problem = quantize::Problem::new(shape, Element::F32, granularity, Fp8Format::E4M3)?;
    result(Quantize::FakeQuantize(problem), &[values])
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
