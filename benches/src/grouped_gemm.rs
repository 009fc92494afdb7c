//! The benchmark of kernels of one grouped product of f32 rows: its variants, the naive one first, and its gradients, which
//! have as many multiply-adds as the product.

use crate::ceiling::wait;
use crate::oracle::{distance, spread, wide};
use crate::timing::{Speed, Timing, timing};
use crate::{BenchError, Checked};
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::{Capability, Device};
use moebius_ops::grouped_gemm::{
    Activation, Problem, Source, WeightLayout, reference, weight_gradient as gradient,
};
use moebius_ops::permute::reference as sorted;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Segments, Variant, weight_gradient};
use moebius_shaders::{PlanError, permute};

/// Result of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelTime {
    /// Name of the kernel: a variant, `product`, or one of its gradients.
    pub what: &'static str,
    /// Whether the compared values verify.
    pub checked: Checked,
    /// Time and GFLOP/s of the kernel.
    pub speed: Speed,
}

/// Number of output columns (for the weight gradient, columns of dy) that are checked, spread evenly.
const SAMPLES: usize = 8;
/// Largest relative L2 error that verifies.
const LARGEST_ERROR: f64 = 1e-5;

/// Measures the naive variant, then `variants`, on `slots` rows \[`n`\] and weights \[`m`, `n`\] per expert.
///
/// # Errors
/// [`BenchError`] when the device has no kernels, refuses a variant or fails.
pub fn variants(
    device: &Device,
    variants: &[Variant],
    sizes: [usize; 4],
) -> Result<Vec<KernelTime>, BenchError> {
    let batch = Batch::new(device, sizes)?;
    let problem = Problem {
        activation: Some(Activation::Relu),
        ..batch.problem()?
    };
    let time = |variant: &Variant| {
        let choice = Choice {
            variant: Some(*variant),
            allow_unproven: false,
        };
        batch.product(variant.name(), (problem, choice), &batch.x, problem.n)
    };
    let times = [Variant::Naive].iter().chain(variants).map(time);
    times.collect()
}

/// Measures product, input gradient and weight gradient of `slots` rows \[`n`\] and weights \[`m`, `n`\] per expert.
///
/// # Errors
/// [`BenchError`] when the device has no kernels, refuses one or fails.
pub fn gradients(device: &Device, sizes: [usize; 4]) -> Result<Vec<KernelTime>, BenchError> {
    let batch = Batch::new(device, sizes)?;
    let forward = Problem {
        rows: Source::Sorted,
        ..batch.problem()?
    };
    let input = Problem {
        n: batch.n,
        k: batch.m,
        layout: WeightLayout::InOut,
        ..forward
    };
    let any = Choice::default();
    Ok(vec![
        batch.product("product", (forward, any), &batch.x, SAMPLES)?,
        batch.product("input gradient", (input, any), &batch.dy, SAMPLES)?,
        batch.weight_gradient()?,
    ])
}

fn time((what, flops): (&'static str, u64), time: Timing, error: f64) -> KernelTime {
    KernelTime {
        what,
        checked: Checked::within(LARGEST_ERROR, error),
        speed: time.speed(flops),
    }
}

/// Rows of a batch, balanced over the experts, and the operands of all kernels.
struct Batch {
    client: Client,
    capability: Capability,
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

impl Batch {
    fn new(device: &Device, [slots, experts, m, n]: [usize; 4]) -> Result<Self, BenchError> {
        let opened = moebius_device::open(device).map_err(moebius::Error::from)?;
        let client = opened.client();
        let none = || BenchError::Lacks {
            device: *device,
            what: "kernels of ours",
        };
        let wave = |len: usize, step: f32| (0..len).map(|i| (i as f32 * step).sin()).collect();
        Ok(Self {
            client: client.ok_or_else(none)?,
            capability: opened.capability,
            slots,
            experts,
            m,
            n,
            keys: (0..slots).map(|s| (s * 7 % experts) as u32).collect(),
            x: wave(slots * n, 0.37),
            dy: wave(slots * m, 0.23),
            weights: wave(experts * m * n, 0.11),
        })
    }

    fn problem(&self) -> Result<Problem, PlanError> {
        Ok(Problem::new(self.slots, self.experts, 1, self.m, self.n)?)
    }

    fn buffer(&self, values: &[f32]) -> Handle {
        self.client.create_from_slice(f32::as_bytes(values))
    }

    /// Sorts the slots by expert on the device.
    fn segments(&self, tile_rows: usize) -> Result<Segments, PlanError> {
        let sort = moebius_ops::permute::Problem::new(self.slots, self.experts, tile_rows)?;
        let keys = self.client.create_from_slice(u32::as_bytes(&self.keys));
        let sorted = permute::SortBuffers::new(&self.client, &sort, keys);
        let plan = permute::plan(sort, &self.capability)?;
        permute::launch(&self.client, &plan, &sorted);
        Ok(Segments {
            order: sorted.order,
            offsets: sorted.offsets,
            tiles: sorted.tiles,
        })
    }

    /// Measures a product of rows `x` and compares `checked` columns of its result.
    fn product(
        &self,
        what: &'static str,
        (problem, choice): (Problem, Choice),
        x: &[f32],
        checked: usize,
    ) -> Result<KernelTime, BenchError> {
        let plan = grouped_gemm::plan(problem, &self.capability, choice)?;
        let len = problem.row_bound * problem.n;
        let operands = Operands {
            x: self.buffer(x),
            segments: Some(self.segments(plan.tile_rows())?),
            weights: self.buffer(&self.weights),
            scales_or_places: None,
            bias: None,
            out: self.client.empty(len * 4),
        };
        let run = || {
            grouped_gemm::launch(&self.client, &plan, operands.clone());
            wait(&self.client)
        };
        run()?;
        let picked: Vec<usize> = spread(checked, problem.n).collect();
        let weights = match problem.layout {
            WeightLayout::OutIn => lines(&self.weights, [problem.n, problem.k], &picked),
            WeightLayout::InOut => columns(&self.weights, problem.n, &picked),
        };
        let sampled = Problem {
            n: picked.len(),
            ..problem
        };
        let sorted = sorted(&self.keys, self.experts);
        let want = reference(&sampled, &sorted, &wide(x.iter().copied()), &weights, None);
        let out = self.read(operands.out.clone(), len)?;
        let error = distance(&columns(&out, problem.n, &picked), &want);
        Ok(time((what, problem.flops()), timing(run)?, error))
    }

    /// Measures the weight gradient and compares its lines for sampled columns of dy.
    fn weight_gradient(&self) -> Result<KernelTime, BenchError> {
        let problem = gradient::Problem::of(&self.problem()?);
        let plan = weight_gradient::plan(problem, &self.capability, Choice::default())?;
        let len = self.weights.len();
        let operands = weight_gradient::Operands {
            a: self.buffer(&self.dy),
            b: self.buffer(&self.x),
            segments: Some(self.segments(1)?),
            out: self.client.empty(len * 4),
        };
        let run = || {
            weight_gradient::launch(&self.client, &plan, operands.clone());
            wait(&self.client)
        };
        run()?;
        let picked: Vec<usize> = spread(SAMPLES, self.m).collect();
        let sampled = gradient::Problem::of(&Problem {
            n: picked.len(),
            ..problem.product
        });
        let sorted = sorted(&self.keys, self.experts);
        let dy = wide(columns(&self.dy, self.m, &picked));
        let want = gradient::reference(&sampled, &sorted, &dy, &wide(self.x.iter().copied()));
        let out = self.read(operands.out.clone(), len)?;
        let error = distance(&lines(&out, [self.m, self.n], &picked), &want);
        let what = ("weight gradient", problem.flops());
        Ok(time(what, timing(run)?, error))
    }

    fn read(&self, buffer: Handle, len: usize) -> Result<Vec<f32>, BenchError> {
        let bytes = self.client.read_one(buffer);
        let bytes = bytes.map_err(BenchError::device)?;
        Ok(f32::from_bytes(&bytes)[..len].to_vec())
    }
}

/// Values of the `picked` columns of rows of `width` values.
fn columns(values: &[f32], width: usize, picked: &[usize]) -> Vec<f32> {
    let rows = values.chunks(width);
    rows.flat_map(|row| picked.iter().map(|column| row[*column]))
        .collect()
}

/// Values of the `picked` lines of each expert, which has `count` lines of `width` values.
fn lines(values: &[f32], [count, width]: [usize; 2], picked: &[usize]) -> Vec<f32> {
    let experts = values.chunks(count * width);
    experts
        .flat_map(|expert| {
            picked
                .iter()
                .flat_map(|line| &expert[line * width..][..width])
        })
        .copied()
        .collect()
}
