//! The grouped GEMM's variants against the naive one, in one run.

use crate::BenchError;
use crate::ceiling::wait;
use crate::oracle::distance;
use crate::timing::median;
use cubecl::client::Client;
use cubecl::prelude::*;
use moebius_device::{Capability, Device};
use moebius_ops::grouped_gemm::{Activation, Problem, reference};
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Segments, Variant};
use moebius_shaders::permute;
use serde::Serialize;

/// One variant's result.
#[derive(Clone, Debug, Serialize)]
pub struct VariantTime {
    /// Which.
    pub variant: Variant,
    /// Whether it agrees with the oracle.
    pub verified: bool,
    /// Median milliseconds.
    pub median_ms: f64,
    /// GFLOP/s.
    pub gflops: f64,
    /// Speed over the naive variant.
    pub over_naive: f64,
}

/// The buffers of one balanced product of f32 rows.
struct Product {
    problem: Problem,
    keys: Vec<u32>,
    x: Vec<f32>,
    weights: Vec<f32>,
}

impl Product {
    fn new(slots: usize, experts: usize, n: usize, k: usize) -> Result<Self, PlanError> {
        let problem = Problem::new(slots, experts, 1, n, k)?;
        let wave = |i: usize, step: f32| (i as f32 * step).sin();
        Ok(Self {
            problem: Problem {
                activation: Some(Activation::Relu),
                ..problem
            },
            keys: (0..slots).map(|s| (s * 7 % experts) as u32).collect(),
            x: (0..slots * k).map(|i| wave(i, 0.37)).collect(),
            weights: (0..experts * n * k).map(|i| wave(i, 0.11)).collect(),
        })
    }

    fn operands(
        &self,
        client: &Client,
        device: &Capability,
        rows: usize,
    ) -> Result<Operands, PlanError> {
        let p = &self.problem;
        let sort = moebius_ops::permute::Problem::new(p.slots, p.experts, rows)?;
        let keys = client.create_from_slice(u32::as_bytes(&self.keys));
        let buffers = permute::SortBuffers::new(client, &sort, keys);
        permute::launch(client, &permute::plan(sort, device)?, &buffers);
        Ok(Operands {
            x: client.create_from_slice(f32::as_bytes(&self.x)),
            segments: Some(Segments {
                order: buffers.order,
                offsets: buffers.offsets,
                tiles: buffers.tiles,
            }),
            weights: client.create_from_slice(f32::as_bytes(&self.weights)),
            scales: None,
            bias: None,
            out: client.empty(p.slots * p.n * 4),
        })
    }

    fn verified(&self, got: &[f32]) -> bool {
        let sorted = moebius_ops::permute::reference(&self.keys, self.problem.experts);
        let x: Vec<f64> = self.x.iter().map(|x| f64::from(*x)).collect();
        let want = reference(&self.problem, &sorted, &x, &self.weights, None);
        distance(got, &want) < 1e-5
    }
}

/// Measures `variants` and the naive one on `slots` rows of \[`k`\] by \[`n`,`k`\] per expert.
///
/// # Errors
/// [`BenchError`] when the device has no kernels, refuses a variant or fails.
pub fn compare(
    device: &Device,
    variants: &[Variant],
    [slots, experts, n, k]: [usize; 4],
) -> Result<Vec<VariantTime>, BenchError> {
    let opened = moebius_device::open(device).map_err(moebius::Error::from)?;
    let Some(client) = opened.client() else {
        return Err(BenchError::Device(format!(
            "{device} has no kernels to compare"
        )));
    };
    let product = Product::new(slots, experts, n, k)?;
    let mut times = Vec::new();
    let mut naive_ms = None;
    for variant in [Variant::Naive].iter().chain(variants) {
        let choice = Choice {
            variant: Some(*variant),
            allow_unproven: false,
        };
        let plan = grouped_gemm::plan(product.problem, &opened.capability, choice);
        let plan = plan?;
        let operands = product.operands(&client, &opened.capability, plan.tile_rows())?;
        let seconds = median(|| {
            grouped_gemm::launch(&client, &plan, &operands);
            wait(&client)
        })?;
        let bytes = client.read_one(operands.out.clone());
        let bytes = bytes.map_err(|error| BenchError::Device(error.to_string()))?;
        let median_ms = seconds * 1e3;
        times.push(VariantTime {
            variant: *variant,
            verified: product.verified(&f32::from_bytes(&bytes)[..slots * n]),
            median_ms,
            gflops: product.problem.flops() as f64 / seconds / 1e9,
            over_naive: *naive_ms.get_or_insert(median_ms) / median_ms,
        });
    }
    Ok(times)
}
