//! Integers of four bits as the blocks that devices decode ([`moebius_ops::blocks`]): codes, scales and zeros of the file in another order.

use std::ops::Range;

use half::f16;
use moebius_ops::blocks::BlockFormat;
use safetensors::Dtype;

use super::integers::{AWQ_ORDER, Declared, IntegerWeight, Layout, Zeros};
use super::part::ReadParts;
use crate::error::WeightsError;
use crate::threads::on_threads;

/// Codes of which two share a byte.
pub(super) const PAIRS: usize = 32;

/// Rows of blocks that a thread makes at a time, of which a cache holds one block each.
const ROWS: usize = 256;

/// Eight zeros in the middle of the codes.
const MIDDLE: u32 = 0x8888_8888;

/// Formats of integers, the one with the fewest scales first.
const FORMATS: [BlockFormat; 3] = [
    BlockFormat::Int4_128,
    BlockFormat::Int4_64,
    BlockFormat::Int4_32,
];

/// The format of a weight whose blocks lie inside its groups; a larger group has the same scale and zero in several blocks. `None` for a weight that
/// isn't of four bits, whose scales have more bits than those of blocks, or whose groups aren't neighboring columns; those that GPTQ gives numbers to
/// are, if the configuration says so.
///
/// Blocks of 32 have no zeros where these are all in the middle of the codes, as declared or for want of others, and scales are F16: Q4_0 takes 18
/// bytes in place of 19. What is declared is held against the zeros by [`by_zeros`].
pub(super) fn format_of(weight: &IntegerWeight, declared: &Declared<'_>) -> Option<BlockFormat> {
    let scales = weight.scales.info.dtype;
    let is_gptq = matches!(weight.layout, Layout::Gptq { .. });
    let fits = weight.bits == 4
        && weight.layout != Layout::Bytes
        && matches!(scales, Dtype::F16 | Dtype::BF16)
        && (weight.group_of.is_none() || is_gptq && declared.in_order);
    let inside = |format: &BlockFormat| {
        let values = format.layout().values;
        let extents = [weight.width, weight.shape[1]];
        extents.iter().all(|extent| extent.is_multiple_of(values))
    };
    let found = FORMATS.into_iter().find(inside).filter(|_| fits)?;
    let in_middle = weight.zeros.is_none() || declared.symmetric;
    let without_zeros = found == BlockFormat::Int4_32 && in_middle && scales == Dtype::F16;
    Some(if without_zeros {
        BlockFormat::Q4_0
    } else {
        found
    })
}

/// The format of a weight whose zeros are declared to be those of `declared`. Blocks keep zeros that aren't all in the middle of the codes, and those
/// that can't be read, so that reading the blocks says why.
pub(super) fn by_zeros(
    weight: &IntegerWeight,
    declared: BlockFormat,
    read: &dyn ReadParts,
) -> BlockFormat {
    let in_middle = || match weight.stored_zeros(read) {
        Ok(Zeros::None) => true,
        Ok(Zeros::Words(words)) => words.iter().all(|zeros| *zeros == MIDDLE),
        Ok(Zeros::Bytes(_)) | Err(_) => false,
    };
    if declared == BlockFormat::Q4_0 && !in_middle() {
        BlockFormat::Int4_32
    } else {
        declared
    }
}

/// Fills `out` with the blocks of rows of a weight that has this format. Threads share the rows.
///
/// # Errors
/// [`WeightsError::WrongTensor`] for groups that aren't neighboring columns, and the errors of reading.
pub(super) fn read(
    weight: &IntegerWeight,
    format: BlockFormat,
    rows: Range<usize>,
    read: &dyn ReadParts,
    out: &mut [u8],
) -> Result<(), WeightsError> {
    check_order(weight, read)?;
    let stored = Stored {
        weight,
        format,
        codes: read.bytes(&weight.codes)?,
        scales: read.floats(&weight.scales)?,
        zeros: match format {
            BlockFormat::Q4_0 => Zeros::None,
            _ => weight.stored_zeros(read)?,
        },
    };
    let each = ROWS * format.row_bytes(weight.shape[1]).max(1);
    let tasks = rows.step_by(ROWS).zip(out.chunks_mut(each));
    on_threads(tasks.collect(), |(first, out)| {
        stored.blocks(first, out);
        Ok(())
    })
}

/// A weight with what its tensors hold.
struct Stored<'a> {
    weight: &'a IntegerWeight,
    format: BlockFormat,
    /// Little-endian words.
    codes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Zeros,
}

impl Stored<'_> {
    /// Fills `out` with the blocks of rows from row `first` on.
    fn blocks(&self, first: usize, out: &mut [u8]) {
        let (weight, layout) = (self.weight, self.format.layout());
        let row_bytes = self.format.row_bytes(weight.shape[1]);
        let mut codes = vec![[0; PAIRS]; layout.values / PAIRS];
        // Neighboring rows of a column have their codes side by side in GPTQ and AWQ.
        for block in 0..weight.shape[1] / layout.values {
            let column = block * layout.values;
            let group = column / weight.width;
            let of_rows = out.chunks_exact_mut(row_bytes.max(1));
            for (row, out) in (first..).zip(of_rows) {
                let out = &mut out[block * layout.bytes..][..layout.bytes];
                let scale = self.scales[weight.place(self.scales.len(), row, group)];
                if self.format == BlockFormat::Q4_0 {
                    // The number came from F16.
                    let half = f16::from_f32(scale).to_le_bytes();
                    out[..layout.low.at].copy_from_slice(&half);
                } else {
                    out[..layout.low.at].copy_from_slice(&scale.to_le_bytes()[1..]);
                    // F16 and BF16 leave these four bits of f32 empty.
                    out[0] |= weight.zero_of(&self.zeros, row, group) as u8;
                }
                for (from, codes) in (column..).step_by(PAIRS).zip(&mut codes) {
                    *codes = self.codes_of(row, from);
                }
                layout.put(codes.as_flattened(), out);
            }
        }
    }

    /// The codes of a row from a column on, a multiple of [`PAIRS`].
    fn codes_of(&self, row: usize, column: usize) -> [u8; PAIRS] {
        let words = self.codes.as_chunks::<4>().0;
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let ([n, k], layout) = (self.weight.shape, self.weight.layout);
        if layout == Layout::Awq {
            let (of_row, shift) = (row / 8, 4 * AWQ_ORDER[row % 8]);
            let code = |at: usize| word(of_row + (column + at) * (n / 8)) >> shift & 15;
            return std::array::from_fn(|at| code(at) as u8);
        }
        let of_row: [u32; PAIRS / 8] = std::array::from_fn(|at| match layout {
            Layout::Gptq { .. } => word((column / 8 + at) * n + row),
            _ => word((row * k + column) / 8 + at),
        });
        std::array::from_fn(|at| (of_row[at / 8] >> (at % 8 * 4) & 15) as u8)
    }
}

/// Checks that the groups of a weight are neighboring columns, as its format says.
fn check_order(weight: &IntegerWeight, read: &dyn ReadParts) -> Result<(), WeightsError> {
    let Some(part) = &weight.group_of else {
        return Ok(());
    };
    let groups = weight.groups_of_columns(read)?;
    let mut groups = groups.into_iter().enumerate();
    match groups.find(|(column, group)| *group != column / weight.width) {
        None => Ok(()),
        Some((column, group)) => {
            let width = weight.width;
            let expected = format!("groups of {width} neighboring columns, as desc_act = false");
            let got = format!("group {group} of column {column}: decode the weights");
            Err(read.unfit(part, &expected, &got))
        }
    }
}
