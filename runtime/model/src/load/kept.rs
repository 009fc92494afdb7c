//! What the weights of a place are on a device: values, FP8 codes or blocks of codes, and where the changes of adapters are then.

use burn::tensor::DType;
use moebius::blocks::BlockFormat;
use moebius::fp8::Quantizer;
use moebius_ops::scaling::Fp8Scheme;

use super::LoadOptions;
use super::mapping::Target;
use super::narrow::format_of;
use super::placing::common_scheme;
use crate::decoder::Slot;

/// Weights of which a device has codes in place of values.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// FP8 codes of the file.
    Stored(Fp8Scheme),
    /// FP8 codes to which values are rounded.
    Rounded(Quantizer),
    /// Blocks of codes.
    Blocks(BlockFormat),
}

impl Kept {
    /// What a place has on a device, if not values.
    pub(super) fn of(slot: Slot, target: &Target, options: LoadOptions) -> Option<Self> {
        Self::unchanged(slot, target, options).filter(|_| !is_merged(slot, target, options))
    }

    /// What a place would have on a device without the changes of adapters, if not values.
    pub(super) fn unchanged(slot: Slot, target: &Target, options: LoadOptions) -> Option<Self> {
        if let Some(format) = format_of(slot, target, options) {
            return Some(Self::Blocks(format));
        }
        if !(slot.takes_codes() && options.dtype == DType::F32) {
            return None;
        }
        let [_, rows, columns] = slot.extents(&target.shape);
        let stored = common_scheme(&target.pieces, [rows, columns]);
        let stored = stored.filter(|_| options.keep_fp8).map(Self::Stored);
        stored.or(options.round.map(Self::Rounded))
    }
}

/// Whether a place has codes and, beside them, the changes of adapters as factors.
pub(super) fn is_changed_beside(slot: Slot, target: &Target, options: LoadOptions) -> bool {
    !target.changes.is_empty() && Kept::of(slot, target, options).is_some()
}

/// Whether the changes of adapters are in the values of a place even where it would have codes: below another adapter, which takes the place of
/// factors, in a cache of experts, which has no places for factors, and in an exact model, whose products have none beside them.
fn is_merged(slot: Slot, target: &Target, options: LoadOptions) -> bool {
    let cached = slot.is_of_experts() && options.expert_cache.is_some();
    !target.changes.is_empty() && (options.frozen || cached || options.exact)
}

/// The number of projections in which the FP8 codes of a place are laid out: one where changes are added between their product and an activation, or
/// through which gradients pass.
pub(super) fn parts(slot: Slot, target: &Target, options: LoadOptions) -> usize {
    if options.frozen || !target.changes.is_empty() {
        1
    } else {
        slot.parts()
    }
}
