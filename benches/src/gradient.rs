//! The two gradients of a grouped GEMM against the product itself, in one run: all three have the
//! same number of multiply-adds.

use crate::BenchError;
use crate::ceiling::wait;
use crate::oracle::{distance, spread};
use crate::timing::median;
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::{Capability, Device};
use moebius_ops::grouped_gemm::{Problem, Source, WeightLayout};
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{self, Choice, weight_gradient};
use moebius_shaders::permute;
use serde::Serialize;

/// One kernel's result.
#[derive(Clone, Debug, Serialize)]
pub struct GradientTime {
    /// Product, input gradient or weight gradient.
    pub what: &'static str,
    /// Whether sampled elements agree with the oracle.
    pub verified: bool,
    /// Median milliseconds.
    pub median_ms: f64,
    /// GFLOP/s.
    pub gflops: f64,
    /// Speed over the product's.
    pub of_product: f64,
}

/// Columns of the output gradient that are checked, spread evenly.
const SAMPLES: usize = 8;

/// Rows of a batch, balanced over the experts, and the operands of all three kernels.
struct Batch {
    slots: usize,
    experts: usize,
    /// Output columns of the product.
    m: usize,
    /// Input columns of the product.
    n: usize,
    keys: Vec<u32>,
    x: Vec<f32>,
    dy: Vec<f32>,
    weights: Vec<f32>,
}

/// `rows` rows of `columns`, only the given ones.
fn columns_of(values: &[f32], columns: usize, picked: &[usize]) -> Vec<f64> {
    let rows = values.chunks(columns);
    rows.flat_map(|row| picked.iter().map(|column| f64::from(row[*column])))
        .collect()
}

impl Batch {
    fn new([slots, experts, m, n]: [usize; 4]) -> Self {
        let wave = |len: usize, step: f32| (0..len).map(|i| (i as f32 * step).sin()).collect();
        Self {
            slots,
            experts,
            m,
            n,
            keys: (0..slots).map(|s| (s * 7 % experts) as u32).collect(),
            x: wave(slots * n, 0.37),
            dy: wave(slots * m, 0.23),
            weights: wave(experts * m * n, 0.11),
        }
    }

    /// The sort of the slots on the device.
    fn sort(
        &self,
        client: &Client,
        device: &Capability,
        tile_rows: usize,
    ) -> Result<permute::SortBuffers, PlanError> {
        let sort = moebius_ops::permute::Problem::new(self.slots, self.experts, tile_rows)?;
        let keys = client.create_from_slice(u32::as_bytes(&self.keys));
        let buffers = permute::SortBuffers::new(client, &sort, keys);
        permute::launch(client, &permute::plan(sort, device)?, &buffers);
        Ok(buffers)
    }

    /// Whether the sampled columns of the product or of the input gradient are right.
    fn product_verified(&self, problem: &Problem, x: &[f32], got: &[f32]) -> bool {
        let sorted = moebius_ops::permute::reference(&self.keys, self.experts);
        let picked = spread(SAMPLES, problem.n).collect::<Vec<_>>();
        let weights = match problem.layout {
            WeightLayout::OutIn => {
                let rows: Vec<&[f32]> = self.weights.chunks(problem.k).collect();
                let of = |e: usize| picked.iter().map(move |column| e * problem.n + column);
                let rows = (0..self.experts).flat_map(of).map(|row| rows[row]);
                rows.flatten().copied().collect()
            }
            WeightLayout::InOut => columns_of(&self.weights, problem.n, &picked)
                .into_iter()
                .map(|weight| weight as f32)
                .collect::<Vec<f32>>(),
        };
        let sampled = Problem {
            n: picked.len(),
            ..*problem
        };
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let want = moebius_ops::grouped_gemm::reference(&sampled, &sorted, &x, &weights, None);
        agree(&columns_of(got, problem.n, &picked), &want)
    }

    /// Whether the rows of the weight gradient that belong to the sampled columns are right.
    fn gradient_verified(
        &self,
        problem: &moebius_ops::grouped_gemm::weight_gradient::Problem,
        got: &[f32],
    ) -> bool {
        let sorted = moebius_ops::permute::reference(&self.keys, self.experts);
        let picked = spread(SAMPLES, self.m).collect::<Vec<_>>();
        let sampled = moebius_ops::grouped_gemm::weight_gradient::Problem {
            m: picked.len(),
            ..*problem
        };
        let dy = columns_of(&self.dy, self.m, &picked);
        let x: Vec<f64> = self.x.iter().map(|x| f64::from(*x)).collect();
        let want =
            moebius_ops::grouped_gemm::weight_gradient::reference(&sampled, &sorted, &dy, &x);
        let rows: Vec<&[f32]> = got.chunks(self.n).collect();
        let of = |e: usize| picked.iter().map(move |line| e * self.m + line);
        let rows = (0..self.experts).flat_map(of).map(|row| rows[row]);
        let got: Vec<f64> = rows.flatten().map(|value| f64::from(*value)).collect();
        agree(&got, &want)
    }
}

fn agree(got: &[f64], want: &[f64]) -> bool {
    let got: Vec<f32> = got.iter().map(|value| *value as f32).collect();
    distance(&got, want) < 1e-5
}

fn read(client: &Client, buffer: Handle, len: usize) -> Result<Vec<f32>, BenchError> {
    let bytes = client.read_one(buffer);
    let bytes = bytes.map_err(|error| BenchError::Device(error.to_string()))?;
    Ok(f32::from_bytes(&bytes)[..len].to_vec())
}

/// Measures product, input gradient and weight gradient of `slots` rows, \[`n`\] by \[`m`, `n`\] per
/// expert.
///
/// # Errors
/// [`BenchError`] when the device has no kernels, refuses one or fails.
pub fn backward(device: &Device, sizes: [usize; 4]) -> Result<Vec<GradientTime>, BenchError> {
    let opened = moebius_device::open(device).map_err(moebius::Error::from)?;
    let Some(client) = opened.client() else {
        let error = format!("{device} has no kernels to compare");
        return Err(BenchError::Device(error));
    };
    let batch = Batch::new(sizes);
    let [slots, experts, m, n] = sizes;
    let forward = Problem {
        rows: Source::Sorted,
        ..Problem::new(slots, experts, 1, m, n).map_err(PlanError::from)?
    };
    let input = Problem {
        n,
        k: m,
        layout: WeightLayout::InOut,
        ..forward
    };
    let mut times: Vec<GradientTime> = Vec::new();
    let products = [
        ("product", forward, &batch.x),
        ("input gradient", input, &batch.dy),
    ];
    for (what, problem, x) in products {
        let (seconds, out) = product(&client, &opened.capability, &batch, (problem, x))?;
        let verified = batch.product_verified(&problem, x, &out);
        times.push(time(what, problem.flops(), seconds, verified));
    }
    let gradient =
        moebius_ops::grouped_gemm::weight_gradient::Problem::new(slots, experts, 1, m, n);
    let gradient = gradient.map_err(PlanError::from)?;
    let (seconds, out) = weights(&client, &opened.capability, &batch, gradient)?;
    let verified = batch.gradient_verified(&gradient, &out);
    times.push(time("weight gradient", gradient.flops(), seconds, verified));
    let product = times[0].gflops;
    times
        .iter_mut()
        .for_each(|time| time.of_product = time.gflops / product);
    Ok(times)
}

fn time(what: &'static str, flops: u64, seconds: f64, verified: bool) -> GradientTime {
    GradientTime {
        what,
        verified,
        median_ms: seconds * 1e3,
        gflops: flops as f64 / seconds / 1e9,
        of_product: 1.0,
    }
}

/// Seconds and result of a product with rows `x`.
fn product(
    client: &Client,
    device: &Capability,
    batch: &Batch,
    (problem, x): (Problem, &[f32]),
) -> Result<(f64, Vec<f32>), BenchError> {
    let plan = grouped_gemm::plan(problem, device, Choice::default())?;
    let sorted = batch.sort(client, device, plan.tile_rows())?;
    let len = problem.row_bound * problem.n;
    let operands = grouped_gemm::Operands {
        x: client.create_from_slice(f32::as_bytes(x)),
        segments: Some(grouped_gemm::Segments {
            order: sorted.order,
            offsets: sorted.offsets,
            tiles: sorted.tiles,
        }),
        weights: client.create_from_slice(f32::as_bytes(&batch.weights)),
        scales: None,
        bias: None,
        out: client.empty(len * 4),
    };
    let seconds = median(|| {
        grouped_gemm::launch(client, &plan, &operands);
        wait(client)
    })?;
    Ok((seconds, read(client, operands.out, len)?))
}

/// Seconds and result of the weight gradient.
fn weights(
    client: &Client,
    device: &Capability,
    batch: &Batch,
    problem: moebius_ops::grouped_gemm::weight_gradient::Problem,
) -> Result<(f64, Vec<f32>), BenchError> {
    let plan = weight_gradient::plan(problem, device, Choice::default())?;
    let sorted = batch.sort(client, device, 1)?;
    let len = problem.experts * problem.m * problem.n;
    let operands = weight_gradient::Operands {
        a: client.create_from_slice(f32::as_bytes(&batch.dy)),
        b: client.create_from_slice(f32::as_bytes(&batch.x)),
        segments: Some(grouped_gemm::Segments {
            order: sorted.order,
            offsets: sorted.offsets,
            tiles: sorted.tiles,
        }),
        out: client.empty(len * 4),
    };
    let seconds = median(|| {
        weight_gradient::launch(client, &plan, &operands);
        wait(client)
    })?;
    Ok((seconds, read(client, operands.out, len)?))
}
