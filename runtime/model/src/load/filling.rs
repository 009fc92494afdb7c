//! Fills host memory with matrices of a place. Rows go from the file to where they stay in one pass, on several threads: as they are, or decoded to
//! f32.

use std::convert::Infallible;
use std::mem::{replace, take};
use std::ops::Range;

use burn::tensor::{Bytes, DType, TensorData};
use moebius::blocks::{BlockFormat, BlockLayout};
use moebius_ops::blocks::interleaved;
use moebius_weights::on_threads;

use super::checkpoint::Checkpoint;
use super::mapping::{MXFP4_BLOCK, Piece, Target, scales_of};
use super::narrow::read_mxfp4;
use super::placing::{decode_mxfp4, is_transposed, place, row_of, rows_in, run_of};
use crate::decoder::Place;
use crate::error::Error;
use crate::families::Form;

/// Bytes that a thread fills at a time. What is decoded or put in order before it stays is in the thread's cache so long.
const TASK: usize = 1 << 20;

/// Bytes that are filled between two reports of the progress.
const BATCH: usize = 64 << 20;

/// What rows are on the host.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Blocks of codes, padded to whole words.
    Blocks(BlockFormat),
    /// Values of 16 bits, as the file has them.
    Halves(DType),
    /// Values in f32.
    Floats,
}

/// Matrices of a place whose rows go from the file to the host.
#[derive(Clone, Debug)]
pub(super) struct Rows<'a> {
    target: &'a Target,
    kind: Kind,
    /// The matrices, and the number of rows and columns of each.
    of: Range<usize>,
    rows: usize,
    columns: usize,
}

/// Memory that one thread fills.
enum Task<'a> {
    /// Rows of a matrix, with those of a tensor from row `first` on.
    Run {
        piece: &'a Piece,
        first: usize,
        out: &'a mut [u8],
    },
    /// A matrix, with rows of tensors from these on, which go to places all over it.
    Spread {
        pieces: Vec<(&'a Piece, usize)>,
        out: &'a mut [u8],
    },
}

impl<'a> Task<'a> {
    /// The name of the last tensor that is read.
    fn name(&self) -> &'a str {
        match self {
            Self::Run { piece, .. } => piece.name.as_str(),
            Self::Spread { pieces, .. } => {
                pieces.last().map_or("", |(piece, _)| piece.name.as_str())
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Run { out, .. } | Self::Spread { out, .. } => out.len(),
        }
    }
}

impl<'a> Rows<'a> {
    /// The matrices `of` of a place.
    pub(super) fn new(at: Place, target: &'a Target, of: Range<usize>, kind: Kind) -> Self {
        let [_, rows, columns] = at.slot.extents(&target.shape);
        Self {
            target,
            kind,
            of,
            rows,
            columns,
        }
    }

    /// The name of the first tensor, for errors.
    pub(super) fn name(&self) -> &'a str {
        self.target.name()
    }

    /// The layout of blocks, if the rows are such.
    pub(super) fn layout(&self) -> Option<BlockLayout> {
        let shape = [self.of.len(), self.rows, self.columns];
        match self.kind {
            Kind::Blocks(format) => Some(BlockLayout { shape, format }),
            Kind::Halves(_) | Kind::Floats => None,
        }
    }

    /// Bytes of a row, and those from a row to the next one on the host.
    fn row_bytes(&self) -> [usize; 2] {
        let columns = self.columns;
        match self.kind {
            Kind::Blocks(format) => [format.row_bytes(columns), 4 * format.row_words(columns)],
            Kind::Halves(_) => [2 * columns; 2],
            Kind::Floats => [4 * columns; 2],
        }
    }

    /// Bytes on the host; the largest number where addresses end before them.
    pub(super) fn bytes(&self) -> usize {
        let [_, stride] = self.row_bytes();
        let rows = self.of.len().saturating_mul(self.rows);
        rows.saturating_mul(stride)
    }

    /// Filled memory as words of blocks, or as values in one row.
    pub(super) fn data(&self, bytes: Bytes) -> TensorData {
        let count = self.of.len() * self.rows * self.columns;
        match (self.layout(), self.kind) {
            (Some(layout), _) => TensorData::from_bytes(bytes, layout.words_shape(), DType::I32),
            (None, Kind::Halves(dtype)) => TensorData::from_bytes(bytes, [count], dtype),
            (None, _) => TensorData::from_bytes(bytes, [count], DType::F32),
        }
    }

    /// Fills `out`, which has [as many bytes](Self::bytes) and is zero. `read` gets the name of a tensor after every [`BATCH`] and at the end.
    pub(super) fn fill(
        &self,
        reader: Checkpoint<'_>,
        out: &mut [u8],
        read: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let [_, stride] = self.row_bytes();
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        let matrices = out.chunks_mut((self.rows * stride).max(1)).enumerate();
        for task in matrices.flat_map(|(to, out)| self.tasks(reader, to, out)) {
            bytes += task.bytes();
            tasks.push(task);
            if bytes >= BATCH {
                self.run_all(reader, take(&mut tasks), read)?;
                bytes = 0;
            }
        }
        self.run_all(reader, tasks, read)?;
        if cfg!(target_endian = "big") && self.layout().is_some() {
            let words = out.as_chunks_mut::<4>().0.iter_mut();
            words.for_each(|word| word.reverse());
        }
        Ok(())
    }

    /// Interleaves the rows of blocks in filled memory, as processors multiply them.
    pub(super) fn interleave(&self, filled: &mut [u8]) {
        let Some(layout) = self.layout() else {
            return;
        };
        let [_, rows, across] = layout.words_shape();
        // Interleaved end where matrices do.
        let some = if rows.is_multiple_of(interleaved::ROWS) {
            interleaved::ROWS
        } else {
            rows
        };
        let words = filled.as_chunks_mut().0.chunks_mut((some * across).max(1));
        let Ok(()) = on_threads(words.collect(), |words| {
            interleaved::interleave(words, layout.format, [some, across]);
            Ok::<(), Infallible>(())
        });
    }

    /// What is to be done for matrix `to` of those that are filled.
    fn tasks<'t>(&'t self, reader: Checkpoint<'_>, to: usize, out: &'t mut [u8]) -> Vec<Task<'t>> {
        let number = self.of.start + to;
        let of_matrix = |piece: &'t Piece| {
            let number = match piece.expert {
                Some(expert) if expert != number => return None,
                Some(_) => 0,
                None => number,
            };
            Some((piece, number * rows_in(piece, self.rows) + piece.skipped))
        };
        let pieces: Vec<_> = self.target.pieces.iter().filter_map(of_matrix).collect();
        let runs = pieces
            .iter()
            .map(|of| Some((run_of(of.0, self.rows)?, *of)));
        let mut runs: Vec<_> = runs.collect::<Option<_>>().unwrap_or_default();
        runs.sort_by_key(|(run, _)| run.start);
        let mut end = 0;
        let mut in_turn = runs.iter();
        if runs.is_empty() || !in_turn.all(|(run, _)| replace(&mut end, run.end) == run.start) {
            return vec![Task::Spread { pieces, out }];
        }
        let [_, stride] = self.row_bytes();
        let (mut tasks, mut rest) = (Vec::new(), out);
        for (run, (piece, first)) in runs {
            let (out, behind) = take(&mut rest).split_at_mut(run.len() * stride);
            rest = behind;
            let together = if reader.has_rows(&piece.name, self.layout().is_some()) {
                // Rows of a head may change places with each other.
                let unit = piece.head.max(1);
                (TASK / stride / unit).max(1) * unit
            } else {
                run.len().max(1)
            };
            let firsts = (first..).step_by(together);
            let parts = firsts.zip(out.chunks_mut((together * stride).max(1)));
            tasks.extend(parts.map(|(first, out)| Task::Run { piece, first, out }));
        }
        tasks
    }

    /// Does tasks, and reports the progress if there were any.
    fn run_all(
        &self,
        reader: Checkpoint<'_>,
        tasks: Vec<Task<'_>>,
        read: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let Some(name) = tasks.last().map(Task::name) else {
            return Ok(());
        };
        on_threads(tasks, |task| self.run(reader, task))?;
        read(name);
        Ok(())
    }

    fn run(&self, reader: Checkpoint<'_>, task: Task<'_>) -> Result<(), Error> {
        let [bytes, stride] = self.row_bytes();
        match task {
            Task::Run { piece, first, out } => {
                let in_order = piece.form != Form::Neighbours;
                if in_order && bytes == stride {
                    return self.read(reader, piece, first, out);
                }
                let mut own = vec![0; out.len() / stride * bytes];
                self.read(reader, piece, first, &mut own)?;
                self.put(&own, out, |row| {
                    if in_order {
                        row
                    } else {
                        row_of(piece, self.rows, row)
                    }
                });
            }
            Task::Spread { pieces, out } => {
                for (piece, first) in pieces {
                    let mut own = vec![0; rows_in(piece, self.rows) * bytes];
                    self.read(reader, piece, first, &mut own)?;
                    let extents = [self.rows, self.columns];
                    match self.kind {
                        Kind::Halves(_) if is_transposed(piece) => {
                            let (own, out) = (own.as_chunks::<2>().0, out.as_chunks_mut::<2>().0);
                            place(piece, own, out, extents);
                        }
                        Kind::Floats if is_transposed(piece) => {
                            let (own, out) = (own.as_chunks::<4>().0, out.as_chunks_mut::<4>().0);
                            place(piece, own, out, extents);
                        }
                        _ => self.put(&own, out, |row| row_of(piece, self.rows, row)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies rows as they were read to where they stay in `out`.
    fn put(&self, own: &[u8], out: &mut [u8], place: impl Fn(usize) -> usize) {
        let [bytes, stride] = self.row_bytes();
        for (row, from) in own.chunks_exact(bytes.max(1)).enumerate() {
            out[place(row) * stride..][..bytes].copy_from_slice(from);
        }
    }

    /// Fills `out` with rows of a tensor from row `first` on, without padding.
    fn read(
        &self,
        reader: Checkpoint<'_>,
        piece: &Piece,
        first: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (name, [bytes, _]) = (&piece.name, self.row_bytes());
        let across = self.columns.div_ceil(MXFP4_BLOCK);
        match self.kind {
            Kind::Blocks(_) if piece.form.is_mxfp4() => {
                read_mxfp4(reader, name, first as u64 * across as u64, out)?;
            }
            Kind::Blocks(_) => reader.read_blocks(name, [first, bytes], out)?,
            Kind::Halves(_) => reader.read_part(name, first as u64 * bytes as u64, out)?,
            Kind::Floats if piece.form.is_mxfp4() => {
                let blocks = out.len() / bytes.max(1) * across;
                let (mut codes, mut scales) =
                    (vec![0; blocks * (MXFP4_BLOCK / 2)], vec![0; blocks]);
                let at = first as u64 * across as u64;
                reader.read_part(name, at * (MXFP4_BLOCK / 2) as u64, &mut codes)?;
                reader.read_part(&scales_of(name), at, &mut scales)?;
                let values = decode_mxfp4(&codes, &scales, self.columns);
                for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                    *out = value.to_ne_bytes();
                }
            }
            Kind::Floats => {
                reader.read_f32_to(name, first as u64 * self.columns as u64, out)?;
                if piece.form == Form::LessOne {
                    for value in out.as_chunks_mut::<4>().0 {
                        *value = (f32::from_ne_bytes(*value) + 1.0).to_ne_bytes();
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "filling_tests.rs"]
mod tests;
