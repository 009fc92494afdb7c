//! The bytes that a model's weights take on a device, from headers alone.

use std::collections::BTreeMap;

use burn::tensor::{DType, Device};
use moebius::fp8::Fp8Layout;
use moebius::nn::takes_half_weights;
use moebius_ops::scaling::Fp8Scheme;

use super::mapping::{Plan, Target};
use super::narrow::format_of;
use super::placing::common_scheme;
use super::{ExpertsFrom, LoadOptions};
use crate::decoder::Slot;

/// Bytes of a plan's weights on a device where all of them are there, loaded by options.
pub(super) struct Sizes {
    /// Bytes of everything but experts.
    pub(super) others: u64,
    /// Bytes of the experts of each layer that has some, and of one of them.
    experts: BTreeMap<usize, [u64; 2]>,
}

impl Sizes {
    pub(super) fn of(plan: &Plan, device: &Device, options: LoadOptions) -> Self {
        let (mut others, mut experts) = (0, BTreeMap::<usize, [u64; 2]>::new());
        for (place, target) in &plan.targets {
            let bytes = bytes_of(place.slot, target, device, options);
            if place.slot.is_of_experts() {
                let [stack, ..] = place.slot.extents(&target.shape);
                let [all, one] = experts.entry(place.layer).or_default();
                (*all, *one) = (*all + bytes, *one + bytes / stack.max(1) as u64);
            } else {
                others += bytes;
            }
        }
        Self { others, experts }
    }

    /// Bytes of the experts of all layers.
    pub(super) fn experts(&self) -> u64 {
        self.experts.values().map(|[all, _]| all).sum()
    }

    /// Bytes of the smallest cache of experts: two experts for each layer. `None` without experts.
    pub(super) fn least_cache(&self) -> Option<u64> {
        let largest = self.experts.values().map(|[_, one]| one).max()?;
        Some(2 * *largest * self.experts.len() as u64)
    }
}

/// Bytes of all weights of a plan on a device, loaded by `options`.
pub(super) fn loaded_bytes(plan: &Plan, device: &Device, options: LoadOptions) -> u64 {
    let sizes = Sizes::of(plan, device, options);
    let all = sizes.experts();
    let largest = sizes.experts.values().map(|[all, _]| *all).max();
    let experts = match (options.expert_cache, options.experts_from) {
        (Some(bytes), ExpertsFrom::Files) => bytes.min(all),
        // All experts of a layer are on the device before they move to the host.
        (Some(bytes), ExpertsFrom::Memory) => bytes.saturating_add(largest.unwrap_or(0)).min(all),
        (None, _) => all,
    };
    sizes.others + experts
}

/// Bytes of the weights of one place: blocks, or codes with their padding and scales where it keeps codes or gets some, else values.
fn bytes_of(slot: Slot, target: &Target, device: &Device, options: LoadOptions) -> u64 {
    let [stack, rows, columns] = slot.extents(&target.shape);
    if let Some(format) = format_of(slot, target, options) {
        return (stack * rows * 4 * format.row_words(columns)) as u64;
    }
    let in_f32 = options.dtype == DType::F32;
    let stored = common_scheme(&target.pieces, [rows, columns]);
    let stored = stored.filter(|_| options.keep_fp8 && target.changes.is_empty());
    let scheme = stored.or(options.round.map(Fp8Scheme::from));
    if let Some(scheme) = scheme.filter(|_| in_f32 && slot.takes_codes()) {
        let shape = [stack, rows, columns];
        return Fp8Layout { shape, scheme }.weight_bytes(slot.parts()) as u64;
    }
    let values = (stack * rows * columns) as u64;
    let narrow = options.narrow_embedding
        && matches!(slot, Slot::Embedding | Slot::Head)
        && in_f32
        && takes_half_weights(device);
    let dtype = if narrow { DType::BF16 } else { options.dtype };
    values * dtype.size() as u64
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "size_tests.rs"]
mod tests;
