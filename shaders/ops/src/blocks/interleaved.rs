//! Interleaved rows of blocks, for processors: the first scale of 32 neighbouring rows lies side by side, then their first word of codes, then the
//! second word of each, and so on. Vector code reads the same codes of many rows at once, and a panel of rows from its first byte to its last. Words
//! are given as their bytes in memory.

use super::BlockFormat;
use crate::fp8::LANES_PER_WORD;
use std::ops::Range;

/// The bytes of a word in memory.
pub type Word = [u8; LANES_PER_WORD];

/// Rows in a panel; the last panel of a matrix may have fewer.
pub const ROWS: usize = 32;

/// How the rows of a panel lie. Bytes that stay together in a row are a unit: the word before the blocks of a row, and what is read together
/// ([`Layout::unit`](super::Layout::unit)). A panel has the first unit of each row, then the second of each, and so on.
///
/// In a word with one bit of 32 codes, bit 4 · q + j becomes bit 8 · j + q, so that four neighbouring codes have their bits at the same place of the
/// four bytes.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    format: BlockFormat,
    /// Bytes of a row.
    row: usize,
    /// The number of rows.
    count: usize,
}

/// Some bytes of a row that stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The first byte.
    pub at: usize,
    /// Their number: 1, 2 or 4.
    pub size: usize,
    /// Whether this is a word with one bit of 32 codes.
    are_bits: bool,
}

impl Panel {
    /// The panel of `count` rows of `across` words.
    pub const fn new(format: BlockFormat, across: usize, count: usize) -> Self {
        let row = LANES_PER_WORD * across;
        Self { format, row, count }
    }

    /// The units of a row among bytes that begin with the row or one of its blocks, and end with either.
    pub fn units(self, bytes: Range<usize>) -> impl Iterator<Item = Unit> {
        let (layout, head) = (self.format.layout(), LANES_PER_WORD * self.format.head());
        let bits = layout.high.filter(|high| high.run == 1);
        let bits = bits.map_or(0..0, |bits| bits.at..bits.at + layout.values / 8);
        let past = self.row - (self.row - head) % layout.bytes;
        let mut at = bytes.start;
        let mut of_block = at.saturating_sub(head) % layout.bytes;
        std::iter::from_fn(move || {
            let (is_head, first) = (at < head, at);
            let size = match at {
                _ if is_head => LANES_PER_WORD,
                // A row may end with bytes that fill up a word.
                _ if at >= past => 1,
                _ => layout.unit(of_block),
            };
            let unit = Unit {
                at: first,
                size,
                are_bits: !is_head && bits.contains(&of_block),
            };
            at += size;
            if !is_head {
                of_block = (of_block + size) % layout.bytes;
            }
            (first < bytes.end).then_some(unit)
        })
    }

    /// Reads bytes of row `row`, [which begin and end with blocks](Self::units), from the words of the panel.
    pub fn read(self, panel: &[Word], row: usize, bytes: Range<usize>, to: &mut [u8]) {
        let start = bytes.start;
        let word = |at: usize| u32::from_ne_bytes(panel[at]).to_le_bytes();
        for unit in self.units(bytes) {
            let (from, to) = (self.place(unit, row), &mut to[unit.at - start..]);
            let (at, of_word) = (from / LANES_PER_WORD, from % LANES_PER_WORD);
            match to.first_chunk_mut() {
                Some(to) if unit.size == LANES_PER_WORD && of_word == 0 => *to = word(at),
                _ => {
                    for (to, from) in to[..unit.size].iter_mut().zip(from..) {
                        *to = word(from / LANES_PER_WORD)[from % LANES_PER_WORD];
                    }
                }
            }
            if let (true, Some(word)) = (unit.are_bits, to.first_chunk_mut()) {
                *word = in_order(u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
    }

    /// The words of row `row`.
    pub fn words(self, panel: &[Word], row: usize) -> Vec<u32> {
        let mut bytes = vec![0; self.row];
        self.read(panel, row, 0..self.row, &mut bytes);
        let words = bytes.as_chunks().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    }

    /// Writes row `row` to the bytes of the panel.
    fn write(self, panel: &mut [u8], row: usize, bytes: &[u8]) {
        for unit in self.units(0..self.row) {
            let (own, to) = (&bytes[unit.at..], &mut panel[self.place(unit, row)..]);
            match own.first_chunk() {
                Some(word) if unit.are_bits => {
                    let word = by_fours(u32::from_le_bytes(*word));
                    to[..LANES_PER_WORD].copy_from_slice(&word.to_le_bytes());
                }
                _ => to[..unit.size].copy_from_slice(&own[..unit.size]),
            }
        }
    }

    /// The first byte of a unit of row `row`.
    fn place(self, unit: Unit, row: usize) -> usize {
        self.count * unit.at + row * unit.size
    }
}

/// Moves bit 4 · q + j to bit 8 · j + q.
fn by_fours(bits: u32) -> u32 {
    let lane = |j: u32| {
        let ones = bits >> j & 0x1111_1111;
        let pairs = (ones | ones >> 3) & 0x0303_0303;
        let fours = (pairs | pairs >> 6) & 0x000F_000F;
        ((fours | fours >> 12) & 0xFF) << (8 * j)
    };
    (0..4).fold(0, |word, j| word | lane(j))
}

/// Moves bit 8 · j + q to bit 4 · q + j.
fn in_order(bits: u32) -> u32 {
    let lane = |j: u32| {
        let eight = bits >> (8 * j) & 0xFF;
        let fours = (eight | eight << 12) & 0x000F_000F;
        let pairs = (fours | fours << 6) & 0x0303_0303;
        ((pairs | pairs << 3) & 0x1111_1111) << j
    };
    (0..4).fold(0, |word, j| word | lane(j))
}

/// Interleaves the rows of matrices \[rows, words of a row\], one after the other.
pub fn interleave(words: &mut [Word], format: BlockFormat, shape: [usize; 2]) {
    let (mut to, mut bytes) = (Vec::new(), vec![0; LANES_PER_WORD * shape[1]]);
    by_panel(words, format, shape, |rows, panel| {
        to.resize(LANES_PER_WORD * rows.len(), 0);
        for (row, words) in rows.chunks_exact(shape[1]).enumerate() {
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = u32::from_ne_bytes(*word).to_le_bytes();
            }
            panel.write(&mut to, row, &bytes);
        }
        for (word, bytes) in rows.iter_mut().zip(to.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes).to_ne_bytes();
        }
    });
}

/// Puts the words of matrices with interleaved rows in rows \[rows, words of a row\] again.
pub fn to_rows(words: &mut [Word], format: BlockFormat, shape: [usize; 2]) {
    let mut from = Vec::new();
    by_panel(words, format, shape, |rows, panel| {
        from.clear();
        from.extend_from_slice(rows);
        for (at, words) in rows.chunks_exact_mut(shape[1]).enumerate() {
            for (word, number) in words.iter_mut().zip(panel.words(&from, at)) {
                *word = number.to_ne_bytes();
            }
        }
    });
}

/// Has the words of each panel of matrices \[rows, across\] moved.
fn by_panel(
    words: &mut [Word],
    format: BlockFormat,
    [rows, across]: [usize; 2],
    mut moved: impl FnMut(&mut [Word], Panel),
) {
    for matrix in words.chunks_mut((rows * across).max(1)) {
        for words in matrix.chunks_mut(ROWS * across) {
            let panel = Panel::new(format, across, words.len() / across);
            moved(words, panel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the units of a row of each format.
    fn sizes() -> [(BlockFormat, usize, Vec<usize>); 5] {
        // A word before the blocks, and bytes that fill up the last.
        let nvfp4 = [1, 1, 4, 4, 4, 4].repeat(3);
        let nvfp4 = [&[4], &nvfp4[..], &[1, 1]].concat();
        [
            (
                BlockFormat::Q4K,
                512,
                [&[2, 2], &[4; 35][..]].concat().repeat(2),
            ),
            (
                BlockFormat::Q6K,
                256,
                [&[4; 48], &[1; 16][..], &[2, 1, 1]].concat(),
            ),
            (BlockFormat::Nvfp4, 96, nvfp4),
            (BlockFormat::Q8_0, 32, [&[2], &[4; 8][..], &[1, 1]].concat()),
            (BlockFormat::F16, 32, vec![2; 32]),
        ]
    }

    /// Panels of 32 rows, and what is left of each matrix.
    #[test]
    fn units_of_neighbouring_rows_lie_side_by_side() {
        for (format, columns, sizes) in sizes() {
            let (rows, across) = (35, format.row_words(columns));
            assert_eq!(sizes.iter().sum::<usize>(), 4 * across, "{format}");
            let word = |i: u32| i.wrapping_mul(0x9E37_79B9).to_ne_bytes();
            let words: Vec<Word> = (0..2 * (rows * across) as u32).map(word).collect();
            let mut interleaved = words.clone();
            interleave(&mut interleaved, format, [rows, across]);
            let number = |word: &Word| u32::from_ne_bytes(*word);
            let byte = |words: &[Word], at: usize| number(&words[at / 4]).to_le_bytes()[at % 4];
            let all = (0..2).flat_map(|matrix| (0..rows).map(move |row| [matrix * rows, row]));
            for [matrix, row] in all {
                let begin = row / ROWS * ROWS;
                let (count, at) = (ROWS.min(rows - begin), row - begin);
                let panel = &interleaved[(matrix + begin) * across..][..count * across];
                let own = &words[(matrix + row) * across..][..across];
                let mut first = 0;
                for size in &sizes {
                    for i in 0..*size {
                        let got = byte(panel, count * first + size * at + i);
                        assert_eq!(got, byte(own, first + i), "{format}, {row}, {first}");
                    }
                    first += size;
                }
                let got = Panel::new(format, across, count).words(panel, at);
                assert!(
                    got.into_iter().eq(own.iter().map(number)),
                    "{format}, {row}"
                );
            }
            to_rows(&mut interleaved, format, [rows, across]);
            assert_eq!(interleaved, words);
        }
    }

    #[test]
    fn four_codes_have_their_bits_at_the_same_place_of_bytes() {
        for bit in 0..32 {
            let moved = by_fours(1 << bit);
            assert_eq!(moved, 1 << (bit % 4 * 8 + bit / 4), "{bit}");
            assert_eq!(in_order(moved), 1 << bit, "{bit}");
        }
        let (format, bits) = (BlockFormat::Q5_0, 0x0123_4567_u32);
        let mut words = vec![[0; 4]; 2 * format.row_words(32)];
        let rows = LANES_PER_WORD * format.row_words(32);
        words.as_flattened_mut()[rows + 2..][..4].copy_from_slice(&bits.to_le_bytes());
        let given = words.clone();
        interleave(&mut words, format, [2, format.row_words(32)]);
        let moved = words.as_flattened()[4 + 4..]
            .first_chunk()
            .map(|word| u32::from_le_bytes(*word));
        if cfg!(target_endian = "little") {
            assert_eq!(moved, Some(by_fours(bits)));
        }
        to_rows(&mut words, format, [2, format.row_words(32)]);
        assert_eq!(words, given);
    }

    #[test]
    fn codes_are_whole_words_one_after_the_other() {
        for format in BlockFormat::ALL {
            let layout = format.layout();
            let bits = layout.low.bits + layout.high.map_or(0, |high| high.bits);
            let bytes = layout.code_bytes();
            assert_eq!(bytes.len(), layout.values * bits as usize / 8, "{format}");
            assert!(
                bytes.len().is_multiple_of(4) && bytes.end <= layout.bytes,
                "{format}"
            );
            // Numbers of 16 bits are all of their blocks.
            let values = if layout.levels.are_numbers() {
                0
            } else {
                layout.values
            };
            for value in 0..values {
                let fields = std::iter::once(layout.low).chain(layout.high);
                assert!(
                    fields
                        .map(|field| field.place(value).0)
                        .all(|byte| bytes.contains(&byte)),
                    "{format}"
                );
            }
        }
    }
}
