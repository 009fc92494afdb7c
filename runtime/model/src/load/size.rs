//! The bytes that a model's weights take on a device, from headers alone.

use std::collections::BTreeMap;

use burn::tensor::{DType, Device};
use moebius::exact::decoding_bytes as decoding;
use moebius::fp8::Fp8Layout;
use moebius::nn::{decodes_weights, takes_half_weights};
use moebius_ops::scaling::Fp8Scheme;

use super::adapting::factor_elements;
use super::kept::{Kept, parts};
use super::mapping::{Plan, Target};
use super::{ExpertsFrom, LoadOptions};
use crate::decoder::{Place, Slot};

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

/// Bytes that a step has for the values of weights in codes, where a device decodes them ahead of their product.
pub(super) fn decoded_bytes(plan: &Plan, device: &Device, options: LoadOptions) -> u64 {
    let decoded = decodes_weights(device).then(|| largest_coded(plan, options));
    decoded.unwrap_or(0)
}

/// Bytes in f32 of the largest matrix of codes, of a single expert where there are several.
fn largest_coded(plan: &Plan, options: LoadOptions) -> u64 {
    let places = plan.targets.iter();
    let coded = places.filter(|(place, target)| Kept::of(place.slot, target, options).is_some());
    let sizes = coded.map(|(place, target)| {
        let [_, rows, columns] = place.slot.extents(&target.shape);
        count(&[size_of::<f32>(), rows, columns])
    });
    sizes.max().unwrap_or(0)
}

/// Bytes that an exact model takes beside its weights while a product decodes blocks; 0 for other models.
pub(super) fn decoding_bytes(plan: &Plan, options: LoadOptions) -> u64 {
    let in_blocks = |(place, target): (&Place, &Target)| {
        let kept = Kept::of(place.slot, target, options);
        let blocks = options.exact && matches!(kept, Some(Kept::Blocks(_)));
        let values = usize::try_from(count(&target.shape));
        blocks.then(|| decoding(values.unwrap_or(usize::MAX)))
    };
    let all = plan.targets.iter().filter_map(in_blocks);
    all.max().unwrap_or(0)
}

/// Bytes of the weights of one place: blocks, or codes with their padding and scales where it keeps codes or gets some, with the factors of
/// changes beside them, else values.
fn bytes_of(slot: Slot, target: &Target, device: &Device, options: LoadOptions) -> u64 {
    let [stack, rows, columns] = slot.extents(&target.shape);
    let one = [1, rows, columns];
    if let Some(kept) = Kept::of(slot, target, options) {
        let codes = match kept {
            Kept::Blocks(format) => count(&[4, rows, format.row_words(columns)]),
            Kept::Stored(scheme) => of_codes(one, scheme, parts(slot, target, options)),
            Kept::Rounded(by) => of_codes(one, by.into(), parts(slot, target, options)),
        };
        let factors = count(&[factor_elements(target, one), options.dtype.size()]);
        return codes.saturating_add(factors).saturating_mul(stack as u64);
    }
    let values = count(&[stack, rows, columns]);
    // Gradients pass through no narrow table.
    let narrow = options.narrow_embedding
        && !options.frozen
        && matches!(slot, Slot::Embedding | Slot::Head)
        && options.dtype == DType::F32
        && takes_half_weights(device);
    let dtype = if narrow {
        DType::BF16
    } else {
        options.dtype_of(slot)
    };
    values.saturating_mul(dtype.size() as u64)
}

/// The product of extents, in 64 bits: where addresses have 32, a stack of experts may have more values or bytes than a `usize` counts.
fn count(extents: &[usize]) -> u64 {
    let extents = extents.iter().map(|extent| *extent as u64);
    extents.fold(1, u64::saturating_mul)
}

/// Bytes of FP8 codes with their padding and scales.
fn of_codes(shape: [usize; 3], scheme: Fp8Scheme, parts: usize) -> u64 {
    Fp8Layout { shape, scheme }.weight_bytes(parts)
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "size_tests.rs"]
mod tests;
