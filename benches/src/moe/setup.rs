//! The layer under measurement and its batch, on their device.

use super::MoeBench;
use crate::BenchError;
use crate::place::{Place, Ran};
use burn::tensor::{DType, Distribution, Tensor};
use moebius::Error;
use moebius::moe::{Activation, Keep, MoeConfig, MoeLayer, RouteConfig};
use moebius_device::{Device, Opened, memory_in_use, process_memory};
use moebius_ops::Mismatch;
use moebius_shaders::experts;

/// The layer under measurement.
pub(super) struct Setup {
    pub(super) place: Place,
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
        let place = Place::open(&bench.device)?;
        if let Some(client) = place.opened.client() {
            // Pages that an earlier benchmark left for reuse would hide what this one takes.
            client.memory_cleanup().map_err(BenchError::device)?;
        }
        let held_before = held_at_start(&place.opened);
        let mut config = config(bench);
        let mut on = place.device.clone();
        if let Some(keep) = keep {
            config = config.with_keep(keep);
            on = on.autodiff();
        }
        let mut layer = config.init(&on)?;
        if bench.dtype != DType::F32 {
            layer = layer.cast(bench.dtype)?;
        }
        let plan = layer.plan(tokens(bench)?, bench.dtype, &on)?;
        let x = random(bench, &on)?;
        place.finish()?;
        Ok(Self {
            place,
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
        Some(held(&self.place.opened)?.saturating_sub(self.held_before?))
    }

    /// Bytes of live buffers; `None` on Flex and XLA, which have no allocator to ask.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        Some(memory_in_use(&self.place.opened.client()?).in_use)
    }

    /// Where it runs, with the kernel variant of the first product.
    pub(super) fn ran(&self) -> Ran {
        let plan = self.plan.as_ref();
        let variant = plan.map_or("portable", |plan| plan.up.variant.name());
        self.place.ran(Some(variant.to_owned()))
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
