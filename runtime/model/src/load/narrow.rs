//! Weights in blocks of codes: which become such, and those that stay as a file has them.

use std::collections::BTreeSet;

use burn::tensor::TensorData;
use moebius::blocks::{BlockFormat, BlockLayout};
use moebius_weights::Unfit;
use moebius_weights::gguf::GgmlType;

use super::checkpoint::Checkpoint;
use super::mapping::{MXFP4_BLOCK, Piece, Plan, Target, scales_of};
use super::{InBlocks, LoadOptions};
use crate::decoder::{Place, Slot};
use crate::error::Error;
use crate::families::Form;

/// The blocks of some matrices of a place, in words.
pub(super) struct Blocks {
    pub(super) words: TensorData,
    pub(super) layout: BlockLayout,
    /// Whether the rows are interleaved, as processors multiply them. Only those are that tensors take over.
    pub(super) interleaved: bool,
}

impl Blocks {
    pub(super) fn in_rows(words: TensorData, layout: BlockLayout) -> Self {
        Self {
            words,
            layout,
            interleaved: false,
        }
    }
}

/// The format of the blocks of a place on the device, if it has blocks there.
pub(super) fn format_of(slot: Slot, target: &Target, options: LoadOptions) -> Option<BlockFormat> {
    match options.blocks {
        InBlocks::None => None,
        InBlocks::File => stored(slot, target),
        InBlocks::Format(format) => whole(kind_of(slot, target, format)?, columns(slot, target)),
    }
}

/// The format of the blocks that the file has of a place, if all tensors of the place have them.
pub(super) fn stored(slot: Slot, target: &Target) -> Option<BlockFormat> {
    let columns = columns(slot, target);
    let first = in_blocks(target.pieces.first()?, columns)?;
    let same = |piece: &Piece| in_blocks(piece, columns) == Some(first);
    (slot.takes_blocks() && target.pieces.iter().all(same)).then_some(first)
}

/// The columns of the matrices of a place.
fn columns(slot: Slot, target: &Target) -> usize {
    let [_, _, columns] = slot.extents(&target.shape);
    columns
}

/// The format of blocks of a type of GGUF, if rows of so many values are whole blocks of it.
fn whole(kind: GgmlType, columns: usize) -> Option<BlockFormat> {
    kind.blocks().filter(|format| format.check(columns).is_ok())
}

/// The type that a GGUF file has for a place where one of `format` is asked for: that of smaller blocks, or F16, for rows that aren't whole
/// blocks. `None` for a place whose values stay as they are.
fn kind_of(slot: Slot, target: &Target, format: BlockFormat) -> Option<GgmlType> {
    let kind = GgmlType::of_blocks(format)?;
    slot.takes_blocks()
        .then(|| kind.fitting(columns(slot, target)))
}

/// The type to which the values of a place are rounded without becoming blocks, if they are.
pub(super) fn rounded_to(slot: Slot, target: &Target, options: LoadOptions) -> Option<GgmlType> {
    let InBlocks::Format(format) = options.blocks else {
        return None;
    };
    kind_of(slot, target, format).filter(|kind| whole(*kind, columns(slot, target)).is_none())
}

/// Names of the tensors that get another type than the one that is asked for, because their rows aren't whole blocks of it.
pub(super) fn of_another_type(plan: &Plan, options: LoadOptions) -> BTreeSet<&str> {
    let InBlocks::Format(format) = options.blocks else {
        return BTreeSet::new();
    };
    let other = |at: &Place, target: &Target| {
        let kind = kind_of(at.slot, target, format);
        kind.is_some() && kind != GgmlType::of_blocks(format)
    };
    let targets = plan.targets.iter().filter(|(at, target)| other(at, target));
    let pieces = targets.flat_map(|(_, target)| &target.pieces);
    pieces.map(|piece| piece.name.as_str()).collect()
}

/// The format of a piece's blocks, whose rows can be moved as they are; `None` for other pieces.
fn in_blocks(piece: &Piece, columns: usize) -> Option<BlockFormat> {
    match piece.form {
        Form::Plain | Form::Pairs | Form::Neighbours | Form::Fused => {
            piece.blocks.filter(|format| format.check(columns).is_ok())
        }
        Form::Mxfp4 | Form::Mxfp4Pairs if columns.is_multiple_of(MXFP4_BLOCK) => {
            Some(BlockFormat::Mxfp4)
        }
        _ => None,
    }
}

/// Checks that weights can be in blocks, if options ask for it.
///
/// # Errors
/// [`Error::Config`] where the blocks are to be those of the file, for a quantized type that no device decodes, and for files without blocks; and for
/// a format to which nothing is rounded.
pub(super) fn check(
    reader: Checkpoint<'_>,
    plan: &Plan,
    options: LoadOptions,
) -> Result<(), Error> {
    match options.blocks {
        InBlocks::File => check_file(reader, plan),
        InBlocks::Format(format) => {
            let has_quantizer = GgmlType::of_blocks(format).is_some();
            let (what, expected) = (
                "weights in blocks of codes",
                "a type that values can be rounded to",
            );
            Error::check(has_quantizer, what, expected, format)
        }
        InBlocks::None => Ok(()),
    }
}

/// Checks that a file has blocks, and no quantized types that no device decodes.
fn check_file(reader: Checkpoint<'_>, plan: &Plan) -> Result<(), Error> {
    let what = "weights as the file has them";
    let all = BlockFormat::ALL.into_iter();
    // A GGUF file's NVFP4 isn't the format of that name.
    let known = |format: &BlockFormat| reader.is_packed() || GgmlType::of_blocks(*format).is_some();
    let names = all.filter(known).map(|format| format.name().to_uppercase());
    let names: Vec<_> = names.collect();
    let expected = format!("tensors of the types {}", names.join(", "));
    let refused = |got: String| Err(Error::Config(Unfit::new(what, &expected, got)));
    let (mut types, mut any) = (BTreeSet::new(), false);
    let all = plan.targets.iter();
    for (at, target) in all.filter(|(at, _)| at.slot.takes_blocks()) {
        // Values of 16 bits beside codes that can only be decoded don't make a file with blocks.
        let counts =
            |format: BlockFormat| !reader.is_packed() || !format.layout().levels.are_numbers();
        any |= stored(at.slot, target).is_some_and(counts);
        for piece in &target.pieces {
            let Some(info) = reader.get(&piece.name) else {
                continue;
            };
            let shown = info.element.shown();
            if info.element.is_quantized() && piece.blocks.is_none() {
                return refused(format!("{shown} of {}", piece.name));
            }
            types.insert(shown);
        }
    }
    if any {
        return Ok(());
    }
    if reader.is_packed() {
        types.insert("codes that can only be decoded".to_owned());
    }
    refused(types.into_iter().collect::<Vec<_>>().join(", "))
}

/// Fills `out` with MXFP4 codes and scales in two tensors as the blocks of a GGUF file, from block `first` on.
pub(super) fn read_mxfp4(
    reader: Checkpoint<'_>,
    name: &str,
    first: u64,
    out: &mut [u8],
) -> Result<(), Error> {
    const HALF: usize = MXFP4_BLOCK / 2;
    let blocks = out.as_chunks_mut::<{ 1 + HALF }>().0;
    let (mut scales, mut codes) = (vec![0; blocks.len()], vec![[0_u8; HALF]; blocks.len()]);
    reader.read_part(&scales_of(name), first, &mut scales)?;
    reader.read_part(name, first * HALF as u64, codes.as_flattened_mut())?;
    let layout = BlockFormat::Mxfp4.layout();
    for ((block, scale), codes) in blocks.iter_mut().zip(scales).zip(codes) {
        let code = |value: usize| codes[value / 2] >> (value % 2 * 4) & 15;
        block[0] = scale;
        layout.put(&std::array::from_fn::<_, MXFP4_BLOCK, _>(code), block);
    }
    Ok(())
}
