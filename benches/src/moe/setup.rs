//! The layer under measurement and its batch, on their device.

use super::MoeBench;
use crate::ceiling::{Ceilings, finish};
use crate::{BenchError, instructions};
use burn::tensor::{DType, Distribution, Tensor};
use moebius::Error;
use moebius::moe::{Activation, Keep, MoeConfig, MoeLayer, RouteConfig};
use moebius_device::{Device, Opened, memory_in_use, process_memory};
use moebius_host::Simd;
use moebius_ops::Mismatch;
use moebius_shaders::experts;

/// The layer under measurement.
pub(super) struct Setup {
    pub(super) opened: Opened,
    /// Vector instructions that run.
    pub(super) simd: Option<Simd>,
    /// Without the recording of gradients.
    pub(super) device: burn::tensor::Device,
    pub(super) layer: MoeLayer,
    pub(super) plan: Option<experts::Plan>,
    /// \[T,H\].
    pub(super) x: Tensor<2>,
    /// Bytes held before this was made, where the device says.
    pub(super) held_before: Option<u64>,
}

impl Setup {
    /// For forward passes; with what they keep, for backward passes as well.
    pub(super) fn new(bench: &MoeBench, keep: Option<Keep>) -> Result<Self, BenchError> {
        let opened = moebius_device::open(&bench.device).map_err(Error::from)?;
        let simd = instructions(&opened.device, &opened.capability)?;
        let device = moebius::open(&opened.device)?;
        if let Some(client) = opened.client() {
            // Pages that an earlier benchmark left for reuse would hide what this one takes.
            client.memory_cleanup().map_err(BenchError::device)?;
        }
        let held_before = held_at_start(&opened);
        let mut config = config(bench);
        let on = match keep {
            None => device.clone(),
            Some(keep) => {
                config = config.with_keep(keep);
                device.clone().autodiff()
            }
        };
        let mut layer = config.init(&on)?;
        if bench.dtype != DType::F32 {
            layer = layer.cast(bench.dtype)?;
        }
        let plan = layer.plan(tokens(bench)?, bench.dtype, &on)?;
        let x = random(bench, &on)?;
        finish(&device)?;
        Ok(Self {
            opened,
            simd,
            device,
            layer,
            plan,
            x,
            held_before,
        })
    }

    /// This with memory counted from `earlier` bytes if that is less: what a benchmark before
    /// this one gave back to the process's allocator alone is used again here.
    pub(super) fn counting_from(self, earlier: Option<u64>) -> Self {
        let held_before = self.held_before.into_iter().chain(earlier).min();
        Self {
            held_before,
            ..self
        }
    }

    /// Bytes taken from the device since then; the most at any time. `None` where the device doesn't say.
    pub(super) fn bytes(&self) -> Option<u64> {
        Some(held(&self.opened)?.saturating_sub(self.held_before?))
    }

    /// Bytes of live buffers; `None` on Flex and XLA, which have no allocator to ask.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        Some(memory_in_use(&self.opened.client()?).in_use)
    }

    /// The kernel variant, `portable` where there are no kernels.
    pub(super) fn variant(&self) -> String {
        let plan = self.plan.as_ref();
        let variant = plan.map_or("portable", |plan| plan.up.variant.name());
        variant.to_string()
    }

    /// What the result is compared with.
    pub(super) fn ceilings(&self) -> Result<Ceilings, BenchError> {
        Ceilings::measure(&self.opened, &self.device)
    }
}

/// Normally distributed numbers of the shape and type of the batch.
pub(super) fn random(bench: &MoeBench, device: &burn::tensor::Device) -> Result<Tensor<2>, Error> {
    let normal = Distribution::Normal(0.0, 1.0);
    let shape = [tokens(bench)?, bench.hidden];
    Ok(Tensor::<2>::random(shape, normal, device).cast(bench.dtype))
}

/// Tokens of the batch.
pub(super) fn tokens(bench: &MoeBench) -> Result<usize, Error> {
    let tokens = bench.batch.checked_mul(bench.seq);
    tokens
        .filter(|tokens| (1..=i32::MAX as usize).contains(tokens))
        .ok_or_else(|| {
            let got = format!("{} x {}", bench.batch, bench.seq);
            Mismatch::new("batch x seq", "1 to 2^31 - 1 tokens", got).into()
        })
}

fn config(bench: &MoeBench) -> MoeConfig {
    let activation = if bench.gated {
        Activation::Silu
    } else {
        Activation::Relu
    };
    MoeConfig::new(bench.hidden, bench.inter(), bench.experts)
        .with_router(RouteConfig::new(bench.top_k))
        .with_gated(bench.gated)
        .with_activation(activation)
}

/// Bytes taken from the device before the benchmark; on Flex the peak of the process starts anew.
fn held_at_start(opened: &Opened) -> Option<u64> {
    if opened.device != Device::Flex {
        return held(opened);
    }
    // Linux only; elsewhere there is no peak to forget.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    Some(process_memory().map_or(0, |memory| memory.resident))
}

/// Bytes taken from the device so far. XLA's memory isn't the process's, or not alone: compiling takes more
/// of that than tensors do.
fn held(opened: &Opened) -> Option<u64> {
    match opened.client() {
        Some(client) => Some(memory_in_use(&client).reserved),
        None if opened.device == Device::Flex => {
            let memory = process_memory();
            Some(memory.map_or(0, |memory| memory.peak_resident.unwrap_or(memory.resident)))
        }
        None => None,
    }
}
