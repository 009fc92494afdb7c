//! Rows of blocks are interleaved on processors ([`moebius_ops::blocks::interleaved`]): their products read the same codes of many rows at once.

use crate::Error;
use crate::device::is_flex;
use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius_ops::Mismatch;
use moebius_ops::blocks::BlockFormat;
use moebius_ops::blocks::interleaved::{self, Panel, ROWS, Word};

/// Whether rows of blocks are interleaved on a device.
pub(crate) fn are_on(device: &Device) -> bool {
    is_flex(&device.clone().inner())
}

/// Words \[M, rows, words of a row\] in I32 as they lie in the memory of a device.
pub(crate) fn stored(words: TensorData, format: BlockFormat, device: &Device) -> TensorData {
    if are_on(device) {
        moved(words, format, interleaved::interleave)
    } else {
        words
    }
}

/// Words \[M, rows, words of a row\] of interleaved rows, row by row.
pub(super) fn to_rows(words: TensorData, format: BlockFormat) -> TensorData {
    moved(words, format, interleaved::to_rows)
}

fn moved(
    words: TensorData,
    format: BlockFormat,
    by: impl Fn(&mut [Word], BlockFormat, [usize; 2]),
) -> TensorData {
    let (mut bytes, shape, dtype) = words.into_parts();
    by(bytes.as_chunks_mut().0, format, [shape[1], shape[2]]);
    TensorData::from_bytes(bytes, shape, dtype)
}

/// Rows `rows` \[T\] of a matrix of words \[rows, across\] with interleaved rows, read on the host, where Flex has them.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a row that the matrix doesn't have, [`ErrorKind::Device`](crate::ErrorKind::Device) when the
/// device fails.
pub(super) fn rows_of(
    words: &Tensor<2, Int>,
    format: BlockFormat,
    rows: Tensor<1, Int>,
) -> Result<Tensor<2, Int>, Error> {
    let ([count, across], device) = (words.dims(), words.device());
    let rows = rows.try_into_vec_as::<i64>().map_err(Error::device)?;
    let mut all = Vec::with_capacity(rows.len() * across);
    for row in &rows {
        let row = usize::try_from(*row).ok().filter(|row| *row < count);
        let expected = format_args!("below {count}");
        let row =
            row.ok_or_else(|| Mismatch::new("row of weights in blocks", expected, "another"))?;
        let first = row / ROWS * ROWS;
        let of_panel = ROWS.min(count - first);
        let panel = words.clone().narrow(0, first, of_panel);
        let panel = panel.try_into_data().map_err(Error::device)?;
        let panel_words = panel.bytes().as_chunks().0;
        let words = Panel::new(format, across, of_panel).words(panel_words, row - first);
        all.extend(words.into_iter().map(u32::cast_signed));
    }
    let shape = [rows.len(), across];
    Ok(Tensor::from_data(
        TensorData::new(all, shape),
        (&device, words.dtype()),
    ))
}
